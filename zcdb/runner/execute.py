"""Walk a plan: every planned repetition ends with exactly one final attempt.

Unless the experiment lets the run decide: then what it does not need is left, and what it
needs more joins the plan (`zcdb.runner.steering`).

The bench is whatever can measure a case: the real one drives agents, the tests
script one.  Every record goes to the recorder as soon as it exists, a trial's
start before anything is measured, so that a crash at any moment loses nothing
and `resume` knows what is left to do.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from zcdb import __version__
from zcdb.errors import HostError, ZcdbError
from zcdb.ids import Json
from zcdb.records import (
    ExperimentText,
    MetricValue,
    Outcome,
    PlannedCase,
    PlannedTrial,
    Run,
    Status,
    TrialEnd,
    TrialStart,
)
from zcdb.runner.interrupt import Interrupted, Interruption
from zcdb.runner.parts import Bench, Measured, Progress, Recorder, Timing
from zcdb.runner.steering import Steering

__all__ = [
    "Bench",
    "Execution",
    "Measured",
    "Progress",
    "Recorder",
    "Resume",
    "RunResult",
    "Timing",
    "execute",
    "new_run_id",
]


@dataclass(frozen=True, slots=True)
class Resume:
    """Where an earlier execution of the same plan stopped.

    Attributes:
        finished: (plan_key, repetition) that have a final attempt.
        attempts: (plan_key, repetition) -> attempts made so far.
        measured: (plan_key, repetition) -> what finished trials measured of the metric that
            steers the run; empty where nothing does.
    """

    run_id: str
    finished: frozenset[tuple[str, int]]
    attempts: Mapping[tuple[str, int], int]
    measured: Mapping[tuple[str, int], Sequence[MetricValue]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Execution:
    """What is executed: an experiment, its plan, and where to go on.

    Attributes:
        steering: decides after each block whether to stop or to measure more; None to carry
            out the plan as it is.
        is_all_required: stop before anything is recorded if a case cannot run here.
    """

    experiment: ExperimentText
    cases: Sequence[PlannedCase]
    plan: Sequence[PlannedTrial]
    seed: int
    timing: Timing
    note: str = ""
    resume: Resume | None = None
    steering: Steering | None = None
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
        self._plan = list(execution.plan)
        self._reasons: dict[str, str | None] = {}
        self._decided: dict[str, Json] = {}
        self._environments = bench.environments()
        self._context = bench.context()
        self._attempts = dict(execution.resume.attempts) if execution.resume else {}
        self._open_trial: TrialStart | None = None
        self._result = RunResult(execution.resume.run_id if execution.resume else new_run_id())

    def run(self) -> RunResult:
        """Walk the plan to its end, to where the rest is not needed, or to an interruption."""
        todo = self._todo()
        self._find_unsupported(todo)
        self._check_all_can_run()
        for environment in self._environments.values():
            self._recorder.environment_seen(environment)
        if self._execution.resume is None:
            self._recorder.run_started(self._new_run())
        self._progress.started(len(self._plan), len(self._plan) - len(todo))
        readings: Mapping[str, Json] = {}
        try:
            if self._execution.steering is None:
                self._record_unsupported(todo)
            runnable = [place for place in todo if self._reasons[place.plan_key] is None]
            if runnable:
                cases = [self._factors[planned.plan_key] for planned in runnable]
                with self._interruption.allowed():
                    readings = self._bench.readings(cases, self._execution.timing)
            if self._execution.steering is None:
                self._run_trials(runnable)
            else:
                self._run_steered(todo, self._execution.steering)
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
        readings = {**readings, **self._decided, **self._final_readings()}
        self._recorder.run_ended(self._result.run_id, self._result.outcome, readings)
        return self._result

    def _final_readings(self) -> Mapping[str, Json]:
        """Return what the bench knows at the end only; a host that has died says nothing more."""
        try:
            return self._bench.final_readings()
        except ZcdbError as error:
            return {"final_readings_reason": error.message}

    def _run_steered(self, todo: Sequence[PlannedTrial], steering: Steering) -> None:
        """Measure block by block, deciding after each; what a case cannot do is found on the way.

        A resumed run decides first: it may have been stopped after its last block.
        """
        for (plan_key, repetition), values in self._measured_before().items():
            steering.saw(plan_key, repetition, values)
        left = list(todo)
        while self._is_more_needed(left, steering):
            block = left[0].block
            now = [planned for planned in left if planned.block == block]
            left = left[len(now) :]
            self._record_unsupported(now)
            self._run_trials(place for place in now if self._reasons[place.plan_key] is None)

    def _measured_before(self) -> Mapping[tuple[str, int], Sequence[MetricValue]]:
        return self._execution.resume.measured if self._execution.resume else {}

    def _is_more_needed(self, left: list[PlannedTrial], steering: Steering) -> bool:
        """Return whether a block is to be measured; lets new ones join the plan and `left`."""
        done = len(self._plan) - len(left)
        if left and done and left[0].block == self._plan[done - 1].block:
            # Resumed in the middle of a block: decisions come after whole blocks only.
            return True
        decision = steering.decide(self._plan, done)
        if decision.text:
            self._progress.message(decision.text)
        if decision.reading is not None:
            self._decided |= decision.reading
        if decision.word == "more":
            self._extend(decision.cases, decision.trials)
            left += decision.trials
        return bool(left) and decision.word != "enough"

    def _extend(self, cases: Sequence[PlannedCase], trials: Sequence[PlannedTrial]) -> None:
        """Let cases and places join the plan."""
        self._recorder.plan_extended(self._result.run_id, cases, trials)
        self._factors |= {case.plan_key: case.factors for case in cases}
        done = len(self._plan)
        self._plan += trials
        self._find_unsupported(trials)
        self._progress.started(len(self._plan), done)

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
            for planned in self._plan
            if (planned.plan_key, planned.repetition) not in finished
        ]

    def _find_unsupported(self, todo: Sequence[PlannedTrial]) -> None:
        """Find out which cases cannot run here, and why."""
        for plan_key in dict.fromkeys(planned.plan_key for planned in todo):
            self._reasons[plan_key] = self._bench.unsupported(self._factors[plan_key])

    def _check_all_can_run(self) -> None:
        reasons = [reason for reason in self._reasons.values() if reason is not None]
        if reasons and self._execution.is_all_required:
            raise HostError(
                f"{len(reasons)} of {len(self._reasons)} cases cannot run here: {reasons[0]}",
                hint="without --require-all such cases are recorded and left out",
            )

    def _record_unsupported(self, todo: Iterable[PlannedTrial]) -> None:
        """Record every trial that cannot run here, with the reason."""
        for planned in todo:
            reason = self._reasons[planned.plan_key]
            if reason is not None:
                self._begin(planned)
                self._end(planned, "unsupported", reason=reason)

    def _run_trials(self, runnable: Iterable[PlannedTrial]) -> None:
        for planned in runnable:
            self._run_trial(planned)

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
        self._rest()
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
            if self._execution.steering is not None:
                self._execution.steering.saw(
                    planned.plan_key, planned.repetition, measured.measurements
                )
            self._end(planned, "ok", measured=measured)

    def _rest(self) -> None:
        if self._execution.timing.rest_ns:
            with self._interruption.allowed():
                time.sleep(self._execution.timing.rest_ns / 10**9)

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
