"""Walk a plan: every planned repetition ends with exactly one final attempt.

The bench is whatever can measure a case: the real one drives agents, the tests
script one.  Every record goes to the recorder as soon as it exists, a trial's
start before anything is measured, so that a crash at any moment loses nothing
and `resume` knows what is left to do.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from zcdb import __version__
from zcdb.errors import HostError, ZcdbError
from zcdb.factors import Factors, FactorValue
from zcdb.ids import Json
from zcdb.records import (
    End,
    Environment,
    ExperimentText,
    Flag,
    MetricValue,
    Outcome,
    PlannedCase,
    PlannedTrial,
    Run,
    SampleSeries,
    Status,
    TrialEnd,
    TrialStart,
)
from zcdb.runner.interrupt import Interrupted, Interruption


@dataclass(frozen=True, slots=True)
class Timing:
    """How long each part of a trial takes."""

    duration_ns: int
    discard_ns: int
    sample_ns: int
    bracket_ns: int


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

    def measure(self, factors: Factors, timing: Timing) -> Measured:
        """Run one trial.  Raises `ZcdbError` if it fails before there is anything to keep."""


class Recorder(Protocol):
    """Where records go; each call returns once its record is safe."""

    def run_started(self, run: Run) -> None:
        """Take a new run, before anything is measured."""

    def environment_seen(self, environment: Environment) -> None:
        """Take the facts of a host; the same ones again are no news."""

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


@dataclass(frozen=True, slots=True)
class Resume:
    """Where an earlier execution of the same plan stopped.

    Attributes:
        finished: (plan_key, repetition) that have a final attempt.
        attempts: (plan_key, repetition) -> attempts made so far.
    """

    run_id: str
    finished: frozenset[tuple[str, int]]
    attempts: Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Execution:
    """What is executed: an experiment, its plan, and where to go on.

    Attributes:
        is_all_required: stop before anything is recorded if a case cannot run here.
    """

    experiment: ExperimentText
    cases: Sequence[PlannedCase]
    plan: Sequence[PlannedTrial]
    seed: int
    timing: Timing
    note: str = ""
    resume: Resume | None = None
    is_all_required: bool = False


@dataclass(slots=True)
class RunResult:
    """How a run ended, counted by trial status."""

    run_id: str
    outcome: Outcome = "running"
    counts: Counter[Status] = field(default_factory=Counter)


def new_run_id() -> str:
    """Return a UUIDv7: 48 bits of Unix milliseconds, then random bits, so that ids sort by time."""
    milliseconds = time.time_ns() // 10**6
    value = (milliseconds << 80) | (uuid.uuid4().int & ((1 << 80) - 1))
    value = (value & ~(0xF << 76)) | (0x7 << 76)
    value = (value & ~(0x3 << 62)) | (0x2 << 62)
    return str(uuid.UUID(int=value))


def execute(
    execution: Execution,
    bench: Bench,
    recorder: Recorder,
    progress: Progress,
    interruption: Interruption | None = None,
) -> RunResult:
    """Execute a plan.

    Args:
        interruption: where a signal to stop arrives; None if none is expected.

    Returns:
        The run's id, outcome and counts of the trials that this call ended.

    Raises:
        ZcdbError: if the bench cannot be opened; nothing has been recorded then.
        Interrupted: if it is stopped before that.
    """
    interruption = interruption or Interruption()
    try:
        with interruption.allowed():
            bench.open()
        return _Walk(execution, bench, recorder, progress, interruption).run()
    finally:
        bench.close()


class _Walk:
    """One walk over a plan, with an open bench."""

    def __init__(
        self,
        execution: Execution,
        bench: Bench,
        recorder: Recorder,
        progress: Progress,
        interruption: Interruption,
    ) -> None:
        self._interruption = interruption
        self._execution = execution
        self._bench = bench
        self._recorder = recorder
        self._progress = progress
        self._factors = {case.plan_key: case.factors for case in execution.cases}
        self._environments = bench.environments()
        self._context = bench.context()
        self._attempts = dict(execution.resume.attempts) if execution.resume else {}
        self._open_trial: TrialStart | None = None
        self._result = RunResult(execution.resume.run_id if execution.resume else new_run_id())

    def run(self) -> RunResult:
        """Walk the plan to its end, or to an interruption."""
        todo = self._todo()
        reasons = self._unsupported(todo)
        for environment in self._environments.values():
            self._recorder.environment_seen(environment)
        if self._execution.resume is None:
            self._recorder.run_started(self._new_run())
        self._progress.started(len(self._execution.plan), len(self._execution.plan) - len(todo))
        readings: Mapping[str, Json] = {}
        try:
            runnable = self._record_unsupported(todo, reasons)
            if runnable:
                cases = [self._factors[planned.plan_key] for planned in runnable]
                with self._interruption.allowed():
                    readings = self._bench.readings(cases, self._execution.timing)
            for planned in runnable:
                self._run_trial(planned)
            self._result.outcome = "finished"
        except Interrupted:
            self._fail_open_trial("interrupted")
            self._result.outcome = "interrupted"
        except ZcdbError:
            # Only the recorder's errors come this far: what it cannot write it cannot close either.
            # The run stays open, and `resume` goes on with it.
            raise
        except BaseException:
            self._fail_open_trial("interrupted")
            self._recorder.run_ended(self._result.run_id, "failed", readings)
            raise
        self._recorder.run_ended(self._result.run_id, self._result.outcome, readings)
        return self._result

    def _new_run(self) -> Run:
        execution = self._execution
        return Run(
            id=self._result.run_id,
            experiment=execution.experiment,
            started_at=datetime.now(UTC),
            zcdb_version=__version__,
            seed=execution.seed,
            cases=execution.cases,
            plan=execution.plan,
            note=execution.note,
        )

    def _todo(self) -> list[PlannedTrial]:
        finished = self._execution.resume.finished if self._execution.resume else frozenset()
        return [
            planned
            for planned in self._execution.plan
            if (planned.plan_key, planned.repetition) not in finished
        ]

    def _unsupported(self, todo: Sequence[PlannedTrial]) -> dict[str, str | None]:
        """Return plan_key -> why that case cannot run here."""
        reasons = {
            plan_key: self._bench.unsupported(self._factors[plan_key])
            for plan_key in dict.fromkeys(planned.plan_key for planned in todo)
        }
        first = next((reason for reason in reasons.values() if reason is not None), None)
        if first is not None and self._execution.is_all_required:
            count = sum(reason is not None for reason in reasons.values())
            raise HostError(
                f"{count} of {len(reasons)} cases cannot run here: {first}",
                hint="without --require-all such cases are recorded and left out",
            )
        return reasons

    def _record_unsupported(
        self, todo: Sequence[PlannedTrial], reasons: Mapping[str, str | None]
    ) -> list[PlannedTrial]:
        """Record every trial that cannot run here, with the reason; return the others."""
        for planned in todo:
            reason = reasons[planned.plan_key]
            if reason is not None:
                self._begin(planned)
                self._end(planned, "unsupported", reason=reason)
        return [planned for planned in todo if reasons[planned.plan_key] is None]

    def _begin(self, planned: PlannedTrial) -> None:
        key = (planned.plan_key, planned.repetition)
        trial = TrialStart(
            run_id=self._result.run_id,
            plan_key=planned.plan_key,
            repetition=planned.repetition,
            attempt=self._attempts.get(key, 0),
            block=planned.block,
            position=planned.position,
            case_factors={**self._factors[planned.plan_key], **self._context},
            started_at=datetime.now(UTC),
            environment_ids={
                end: environment.id for end, environment in self._environments.items()
            },
        )
        self._attempts[key] = trial.attempt + 1
        self._recorder.trial_started(trial)
        self._open_trial = trial

    def _end(
        self,
        planned: PlannedTrial,
        status: Status,
        *,
        reason: str | None = None,
        measured: Measured | None = None,
    ) -> None:
        assert self._open_trial is not None  # noqa: S101
        end = TrialEnd(
            trial_id=self._open_trial.id,
            status=status,
            ended_at=datetime.now(UTC),
            reason=reason,
            window_ns=measured.window_ns if measured else None,
            counts=measured.counts if measured else {},
            measurements=measured.measurements if measured else (),
            flags=measured.flags if measured else (),
            samples=measured.samples if measured else None,
        )
        self._recorder.trial_ended(end)
        self._open_trial = None
        self._result.counts[status] += 1
        self._progress.trial_done(planned, self._factors[planned.plan_key], end)

    def _run_trial(self, planned: PlannedTrial) -> None:
        factors = self._factors[planned.plan_key]
        self._progress.trial_begins(planned, factors)
        self._begin(planned)
        try:
            with self._interruption.allowed():
                measured = self._bench.measure(factors, self._execution.timing)
        except ZcdbError as error:
            self._end(planned, "failed", reason=error.message)
            self._bench.recover()
            return
        if measured.failure is not None:
            self._end(planned, "failed", reason=measured.failure, measured=measured)
        else:
            self._end(planned, "ok", measured=measured)

    def _fail_open_trial(self, reason: str) -> None:
        if self._open_trial is None:
            return
        end = TrialEnd(
            trial_id=self._open_trial.id,
            status="failed",
            ended_at=datetime.now(UTC),
            reason=reason,
        )
        self._recorder.trial_ended(end)
        self._open_trial = None
        self._result.counts["failed"] += 1
