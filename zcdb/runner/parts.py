"""What the walk over a plan needs of others: something that measures, records and tells.

The real ones are `zcdb.runner.bench`, `zcdb.cli.run` and `zcdb.cli.progress`; tests script them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from zcdb.factors import Factors, FactorValue
from zcdb.ids import Json
from zcdb.records import (
    End,
    Environment,
    Flag,
    MetricValue,
    Outcome,
    PlannedCase,
    PlannedTrial,
    Run,
    SampleSeries,
    TrialEnd,
    TrialStart,
)


@dataclass(frozen=True, slots=True)
class Timing:
    """How long each part of a trial takes; it begins with a rest."""

    duration_ns: int
    discard_ns: int
    sample_ns: int
    bracket_ns: int
    rest_ns: int = 0


@dataclass(frozen=True, slots=True)
class Measured:
    """What a bench found out about one case.

    Attributes:
        failure: why the trial failed though a window was reached; None if it is good.
    """

    window_ns: int
    counts: Mapping[str, Json]
    measurements: Sequence[MetricValue]
    flags: Sequence[Flag]
    samples: SampleSeries
    failure: str | None = None


class Bench(Protocol):
    """Something that can measure cases."""

    def open(self) -> None:
        """Make ready: agents, link, lock, soakers.  Raises `ZcdbError` if it cannot."""

    def close(self) -> None:
        """Give everything back.  Idempotent, and safe after a failed `open`."""

    def recover(self) -> None:
        """Make ready again after a trial that failed."""

    def environments(self) -> Mapping[End, Environment]:
        """Return the facts of both ends' hosts."""

    def context(self) -> Mapping[str, FactorValue]:
        """Return the observed factors that belong to a case."""

    def unsupported(self, factors: Factors) -> str | None:
        """Return why a case cannot run here, or None."""

    def readings(self, cases: Sequence[Factors], timing: Timing) -> Mapping[str, Json]:
        """Return what is measured once per run, with the runnable cases to choose from."""

    def final_readings(self) -> Mapping[str, Json]:
        """Return what is known after the last trial only: what is not as it was before."""

    def measure(self, factors: Factors, timing: Timing) -> Measured:
        """Run one trial.  Raises `ZcdbError` if it fails before there is anything to keep."""


class Recorder(Protocol):
    """Where records go; each call returns once its record is safe."""

    def run_started(self, run: Run) -> None:
        """Take a new run, before anything is measured."""

    def environment_seen(self, environment: Environment) -> None:
        """Take the facts of a host; the same ones again are no news."""

    def plan_extended(
        self, run_id: str, cases: Sequence[PlannedCase], trials: Sequence[PlannedTrial]
    ) -> None:
        """Take cases and places that join a run's plan, before they are measured."""

    def trial_started(self, trial: TrialStart) -> None:
        """Take a trial that begins now."""

    def trial_ended(self, end: TrialEnd) -> None:
        """Take how a trial ended."""

    def run_ended(self, run_id: str, outcome: Outcome, readings: Mapping[str, Json]) -> None:
        """Take the end of a run."""


class Progress(Protocol):
    """Who is told how far a run has come."""

    def started(self, total: int, done: int) -> None:
        """The run begins: `total` planned trials, of which `done` are already final."""

    def trial_begins(self, planned: PlannedTrial, factors: Factors) -> None:
        """A trial begins."""

    def trial_done(self, planned: PlannedTrial, factors: Factors, end: TrialEnd) -> None:
        """A trial has ended and is recorded."""

    def message(self, text: str) -> None:
        """Something a person should know."""
