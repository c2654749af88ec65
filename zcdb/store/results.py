"""What queries return: plain frozen objects with all that a page needs.

Values are in the metric's base unit, times are aware UTC, ids are the public
ones, and the factors of a case have their defaults filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from zcdb.factors import FactorValue
from zcdb.ids import Json
from zcdb.records import End, Outcome, PlannedCase, PlannedTrial, SampleSeries, Status

Facts = Mapping[str, Json]
CaseFactors = Mapping[str, FactorValue]


@dataclass(frozen=True, slots=True)
class Statistic:
    """What repetitions of one metric by one method say together.

    Attributes:
        n: values that were measured and not excluded; a published figure counts as one, or as
            the n stated beside its spread.
        median: None over all runs, where it is not kept.
        low, high: 95 % interval of the mean; None for n < 3.
        reason: the newest reason why a value is missing; None if none is.
        runs, entries: runs of zcdb's own and published figures that are in it.
    """

    metric: str
    method: str
    n: int
    mean: float | None
    median: float | None
    sd: float | None
    low: float | None
    high: float | None
    reason: str | None
    runs: int = 1
    entries: int = 0


@dataclass(frozen=True, slots=True)
class Series:
    """A metric of a case in one run: the values by repetition and what they say together.

    Attributes:
        values: by repetition from 0; None where it was not measured or is not there yet.
        excluded: repetitions that the statistic leaves out.
    """

    values: tuple[float | None, ...]
    excluded: frozenset[int]
    statistic: Statistic

    @property
    def kept(self) -> tuple[float | None, ...]:
        """The values by repetition with those of excluded trials as None."""
        return tuple(
            None if repetition in self.excluded else value
            for repetition, value in enumerate(self.values)
        )


@dataclass(frozen=True, slots=True)
class TrialCounts:
    """How far a run is.

    Attributes:
        planned: places in the plan.
        ok, failed, unsupported: repetitions that are final, by how they ended.
        running: trials that run now (or whose run was killed and not resumed yet).
        interrupted: attempts that were interrupted.
        excluded: trials that somebody left out of the statistics.
    """

    planned: int
    ok: int
    failed: int
    unsupported: int
    running: int
    interrupted: int
    excluded: int

    @property
    def left(self) -> int:
        """Repetitions that have no final attempt yet."""
        return self.planned - self.ok - self.failed - self.unsupported


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run in a list.

    Attributes:
        note: the newest remark, "" if there is none.
    """

    id: str
    experiment_name: str
    experiment_id: str
    question: str
    started_at: datetime
    ended_at: datetime | None
    outcome: Outcome
    zcdb_version: str
    note: str
    counts: TrialCounts


@dataclass(frozen=True, slots=True)
class TrialLine:
    """A trial in a list.

    Attributes:
        flags: codes, each once, in the order they were raised.
        excluded: why it was left out of the statistics; None if it was not.
    """

    id: str
    run_id: str
    case_id: str
    plan_key: str
    repetition: int
    attempt: int
    block: int
    position: int
    status: Status
    reason: str | None
    started_at: datetime
    ended_at: datetime | None
    window_ns: int | None
    flags: tuple[str, ...]
    excluded: str | None
    environment_ids: Mapping[End, str]


@dataclass(frozen=True, slots=True)
class EnvironmentLine:
    """The facts of a host, and which ends used it there where it is listed."""

    id: str
    facts: Facts
    ends: tuple[End, ...]


@dataclass(frozen=True, slots=True)
class ExperimentText:
    """One version of an experiment file, as stored."""

    id: str
    name: str
    question: str
    text: str
    resolved: Facts


@dataclass(frozen=True, slots=True)
class Counts:
    """How much the database holds."""

    experiments: int
    runs: int
    cases: int
    trials: int
    environments: int


@dataclass(frozen=True, slots=True)
class Home:
    """The first page.

    Attributes:
        runs: the newest ones, newest first.
        answered: the newest finished run of each experiment, newest first: what
            the findings are told of.
    """

    counts: Counts
    runs: tuple[RunLine, ...]
    answered: tuple[RunLine, ...]


@dataclass(frozen=True, slots=True)
class RunList:
    """Runs, newest first; `next_after` is the id to ask on from, None at the end."""

    runs: tuple[RunLine, ...]
    next_after: str | None


@dataclass(frozen=True, slots=True)
class ExperimentLine:
    """An experiment in a list.

    Attributes:
        id, question: of its newest version.
        newest_run: None if it was never run.
    """

    name: str
    id: str
    question: str
    versions: int
    runs: int
    newest_run: RunLine | None


@dataclass(frozen=True, slots=True)
class ExperimentList:
    """Experiments by name; `next_after` is the name to ask on from, None at the end."""

    experiments: tuple[ExperimentLine, ...]
    next_after: str | None


@dataclass(frozen=True, slots=True)
class CoverageLine:
    """A declared combination of factors, and what was measured of it over all runs.

    Attributes:
        factors: declared ones.
        case_ids: the cases it became, one for each context it ran in.
        planned: repetitions in all plans.
    """

    plan_key: str
    factors: CaseFactors
    case_ids: tuple[str, ...]
    planned: int
    ok: int
    failed: int
    unsupported: int


@dataclass(frozen=True, slots=True)
class VersionLine:
    """One version of an experiment; the newest is first."""

    id: str
    runs: int
    newest_run_at: datetime | None


@dataclass(frozen=True, slots=True)
class ExperimentPage:
    """An experiment.

    Attributes:
        experiment: the version asked for, else the newest.
        coverage: of that version over its newest `RUNS_SHOWN` runs, in the order of its plan.
        runs: of all versions, newest first, `RUNS_SHOWN` at most.
        answer_run_id: the newest finished run of that version, else its newest run;
            None if it was never run.
    """

    experiment: ExperimentText
    versions: tuple[VersionLine, ...]
    coverage: tuple[CoverageLine, ...]
    runs: tuple[RunLine, ...]
    answer_run_id: str | None


@dataclass(frozen=True, slots=True)
class RunCase:
    """A planned case of a run and what it measured.

    Attributes:
        factors: declared ones.
        case_id: the case it became; None until a trial of it has started.  A resumed run
            may have measured it in two contexts (another kernel): then there is one
            `RunCase` for each.
        context: the observed factors of that case.
        ok, failed, unsupported: final trials by how they ended.
        reasons: why trials are not ok, each reason once.
        flags: code -> trials that raised it.
        series: by metric and method, in the order of the registry.
    """

    plan_key: str
    factors: CaseFactors
    case_id: str | None
    context: CaseFactors
    ok: int
    failed: int
    unsupported: int
    reasons: tuple[str, ...]
    flags: Mapping[str, int]
    series: tuple[Series, ...]

    def find(self, metric: str, method: str = "") -> Series | None:
        """Return the series of a metric by a method, None if there is none."""
        for series in self.series:
            if (series.statistic.metric, series.statistic.method) == (metric, method):
                return series
        return None


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What a run measured, without its plan: for charts and verdicts.

    Attributes:
        cases: in the order of the plan's declaration.
    """

    run: RunLine
    experiment: ExperimentText
    cases: tuple[RunCase, ...]


@dataclass(frozen=True, slots=True)
class PlanPlace:
    """A place in the plan and the attempts at it, first one first."""

    position: int
    block: int
    plan_key: str
    repetition: int
    attempts: tuple[TrialLine, ...]


@dataclass(frozen=True, slots=True)
class RunPage:
    """A run.

    Attributes:
        cases: in the order of the plan's declaration.
        plan: in the order of measuring, from the position asked for.
        next_position: where the plan goes on; None at its end.
        environments: of all its trials.
        readings: what was read of the machine, once for each time the run was worked on.
    """

    run: RunLine
    experiment: ExperimentText
    seed: int
    readings: tuple[Facts, ...]
    cases: tuple[RunCase, ...]
    plan: tuple[PlanPlace, ...]
    next_position: int | None
    environments: tuple[EnvironmentLine, ...]
    errata: tuple[Erratum, ...] = ()


@dataclass(frozen=True, slots=True)
class CaseLine:
    """A case in a list; `trials` are those that ended ok, `entries` what others published."""

    id: str
    factors: CaseFactors
    trials: int
    entries: int = 0


@dataclass(frozen=True, slots=True)
class CaseList:
    """Cases, newest first; `next_after` is the id to ask on from, None at the end."""

    cases: tuple[CaseLine, ...]
    next_after: str | None


@dataclass(frozen=True, slots=True)
class CaseTrial:
    """A trial of a case with what it measured, as (metric, method) -> value."""

    trial: TrialLine
    experiment_name: str
    values: Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class Sibling:
    """A case that differs in one factor alone; `value` is that factor's value there."""

    case_id: str
    value: FactorValue
    statistics: tuple[Statistic, ...]


@dataclass(frozen=True, slots=True)
class FlagLine:
    """A warning, with its registered sentence and the figures that raised it."""

    code: str
    sentence: str
    detail: str


@dataclass(frozen=True, slots=True)
class Erratum:
    """A correction, a doubt or a retraction.

    Attributes:
        kind: "corrected", "contested" or "retracted".
        object_kind, object_id: what it is about.
        metric, method: the figure that was corrected; "" where the whole thing is meant.
        old, new: values in the metric's base unit.
        successor: id of what stands in its place now.
    """

    id: str
    kind: str
    object_kind: str
    object_id: str
    metric: str
    method: str
    old: float | None
    new: float | None
    reason: str
    by: str
    at: datetime
    successor: str | None


@dataclass(frozen=True, slots=True)
class FigureLine:
    """A published figure; see `zcdb.sources.Figure`.

    Attributes:
        value: the single figure; None for a range and for what is not known.
    """

    metric: str
    method: str
    unit: str
    stated: str
    value: float | None
    low: float | None
    high: float | None
    sd: float | None
    spread: str | None
    n: int | None
    other_low: float | None
    other_high: float | None
    is_inferred: bool
    reason: str | None
    left_out: str | None
    details: Facts


@dataclass(frozen=True, slots=True)
class SourceLine:
    """Where published results come from, in a list.

    Attributes:
        kind: "historic", "import" or "bundle".
        dated: the date as stated, ISO 8601.
        lines: first and last line in the document; None for the whole.
        entries: how many results it has.
    """

    id: str
    kind: str
    name: str
    title: str
    document: str
    author: str | None
    dated: str | None
    lines: tuple[int, int] | None
    recorded_at: datetime
    entries: int
    details: Facts


@dataclass(frozen=True, slots=True)
class EntryLine:
    """One result of a source with its figures.

    Attributes:
        case_id, factors: of the case it describes; None and empty where it describes none.
        left_out: why it takes part in no comparison.
        errata: about it, oldest first.
    """

    id: str
    source: SourceLine
    name: str
    kind: str
    lines: tuple[int, int]
    case_id: str | None
    factors: CaseFactors
    left_out: str | None
    flags: tuple[FlagLine, ...]
    figures: tuple[FigureLine, ...]
    errata: tuple[Erratum, ...]
    details: Facts


@dataclass(frozen=True, slots=True)
class SourceList:
    """Sources; `next_after` is the id to ask on from, None at the end."""

    sources: tuple[SourceLine, ...]
    next_after: str | None


@dataclass(frozen=True, slots=True)
class SourcePage:
    """A source with all its entries, in its order.

    Attributes:
        sha256, size_bytes: of the text that was read.
        errata: about the source as a whole.
    """

    source: SourceLine
    sha256: str
    size_bytes: int
    entries: tuple[EntryLine, ...]
    errata: tuple[Erratum, ...]


@dataclass(frozen=True, slots=True)
class CasePage:
    """A case on any host.

    Attributes:
        statistics: over all runs and sources, by metric and method.
        trials: oldest first, from the page asked for.
        next_after: id of the trial to ask on from; None at the end.
        siblings: factor -> cases that differ in it alone (and in what follows it).
        entries: what others published about it.
    """

    id: str
    factors: CaseFactors
    statistics: tuple[Statistic, ...]
    trials: tuple[CaseTrial, ...]
    next_after: str | None
    siblings: Mapping[str, tuple[Sibling, ...]]
    entries: tuple[EntryLine, ...] = ()


@dataclass(frozen=True, slots=True)
class TrialValue:
    """A number of a trial, or the reason why it is missing."""

    metric: str
    method: str
    value: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class TrialPage:
    """A trial.

    Attributes:
        values: in the order of the registry; empty for a trial that is not ok.
        factors: of its case, declared and observed.
        attempts: all attempts at its repetition, itself among them, first one first.
        previous_id, next_id: its neighbours in the order of measuring.
    """

    trial: TrialLine
    run: RunLine
    experiment: ExperimentText
    factors: CaseFactors
    values: tuple[TrialValue, ...]
    flags: tuple[FlagLine, ...]
    counts: Facts
    samples: SampleSeries | None
    environments: Mapping[End, EnvironmentLine]
    attempts: tuple[TrialLine, ...]
    previous_id: str | None
    next_id: str | None
    errata: tuple[Erratum, ...] = ()


@dataclass(frozen=True, slots=True)
class EnvironmentPage:
    """The facts of a host and where they were met.

    Attributes:
        trials: how many trials had an end there.
        runs: newest first, `RUNS_SHOWN` at most.
    """

    id: str
    facts: Facts
    trials: int
    first_at: datetime | None
    last_at: datetime | None
    runs: tuple[RunLine, ...]


@dataclass(frozen=True, slots=True)
class RunState:
    """Where a run that is not finished stands.

    Attributes:
        finished: (plan key, repetition) that need no new attempt.
        attempts: (plan key, repetition) -> attempts made so far.
    """

    run_id: str
    seed: int
    cases: tuple[PlannedCase, ...]
    plan: tuple[PlannedTrial, ...]
    finished: frozenset[tuple[str, int]]
    attempts: Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Found:
    """What an id names.

    Attributes:
        kind: "run", "case", "trial", "environment", "experiment", "source", "entry" or "report".
    """

    kind: str
    id: str
