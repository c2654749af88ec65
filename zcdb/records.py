"""Records: what the rooms hand to each other.

Frozen, with units in the field names and raw counts kept; derived values are
rebuildable.  "Not measured" is None with a reason, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from zcdb.factors import Factors
from zcdb.ids import Json, content_id

End = Literal["sender", "receiver"]
ENDS: tuple[End, End] = ("sender", "receiver")

Outcome = Literal["running", "finished", "interrupted", "failed"]
Status = Literal["planned", "running", "ok", "failed", "unsupported"]


def trial_id(run_id: str, plan_key: str, repetition: int, attempt: int) -> str:
    """Return the id of a trial: it is made from what the trial is, not from when it is stored."""
    return content_id("trial", [run_id, plan_key, repetition, attempt])


@dataclass(frozen=True, slots=True)
class ExperimentText:
    """An experiment file as written and as understood.

    Attributes:
        resolved: the file with every default filled in; JSON.
        id: content hash of the resolved form and the name.
    """

    name: str
    question: str
    text: str
    resolved: Mapping[str, Json]

    @property
    def id(self) -> str:
        """The content hash of name and resolved form."""
        return content_id("experiment", {"name": self.name, "resolved": self.resolved})


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """One place in a plan.

    Attributes:
        block: number of the randomised block, from 0; a block holds every case once.
        position: place in the whole plan, from 0.
        repetition: number of this case's repetition, from 0 (the same as its block).
    """

    plan_key: str
    block: int
    position: int
    repetition: int


@dataclass(frozen=True, slots=True)
class PlannedCase:
    """One combination of declared factor values, with `plan_key` as its name in the plan."""

    plan_key: str
    factors: Factors


@dataclass(frozen=True, slots=True)
class Environment:
    """The immutable facts of one host, redacted; values that move by themselves are not here."""

    facts: Mapping[str, Json]

    @property
    def id(self) -> str:
        """The content hash of the facts."""
        return content_id("environment", self.facts)


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of an experiment.

    Attributes:
        id: UUIDv7 in its canonical form.
    """

    id: str
    experiment: ExperimentText
    started_at: datetime
    zcdb_version: str
    seed: int
    cases: Sequence[PlannedCase]
    plan: Sequence[PlannedTrial]
    note: str = ""


@dataclass(frozen=True, slots=True)
class MetricValue:
    """A number that a trial measured, or the reason why it did not.

    Attributes:
        metric: key of `zcdb.metrics.METRICS`.
        method: CPU method, "" for metrics that have none.
        value: in the metric's base unit; None if not measured.
        reason: why `value` is None.
    """

    metric: str
    method: str
    value: float | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Flag:
    """A warning beside a trial's numbers.

    Attributes:
        code: key of `zcdb.flags.FLAGS`.
        detail: the figures that raised it, for people.
    """

    code: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SampleSeries:
    """What was read at each edge inside a trial, discarded samples included.

    Attributes:
        columns: name -> one value per sample, all of one length; None where not measured.
            Always there: start_ns and end_ns (monotonic, from the first edge), kept
            (1 inside the window, 0 discarded), payload_bytes (read by the receiver).
    """

    columns: Mapping[str, Sequence[int | float | None]]


@dataclass(frozen=True, slots=True)
class TrialStart:
    """A trial that begins now: stored before anything is measured."""

    run_id: str
    plan_key: str
    repetition: int
    attempt: int
    block: int
    position: int
    case_factors: Factors
    started_at: datetime
    environment_ids: Mapping[End, str]

    @property
    def id(self) -> str:
        """The trial's id."""
        return trial_id(self.run_id, self.plan_key, self.repetition, self.attempt)


@dataclass(frozen=True, slots=True)
class TrialEnd:
    """How a trial ended.

    Attributes:
        status: ok, failed or unsupported.
        reason: why it is not ok; None for ok.
        window_ns: length of the measuring window; None if there was none.
        counts: raw counts: integer ns and bytes, by end and method; JSON.
        measurements: one entry per metric and method, also those not measured.
        samples: None if no window was reached.
    """

    trial_id: str
    status: Status
    ended_at: datetime
    reason: str | None = None
    window_ns: int | None = None
    counts: Mapping[str, Json] = field(default_factory=dict)
    measurements: Sequence[MetricValue] = ()
    flags: Sequence[Flag] = ()
    samples: SampleSeries | None = None
