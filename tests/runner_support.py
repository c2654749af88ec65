"""A scripted bench, a recorder in memory and a small plan, for tests of the runner."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from zcdb.errors import EngineError
from zcdb.factors import Factors, FactorValue, plan_key
from zcdb.ids import Json
from zcdb.records import (
    End,
    Environment,
    ExperimentText,
    MetricValue,
    Outcome,
    PlannedCase,
    PlannedTrial,
    Run,
    SampleSeries,
    TrialEnd,
    TrialStart,
)
from zcdb.runner.execute import Execution, Measured, Timing

TIMING = Timing(duration_ns=10**9, discard_ns=3 * 10**8, sample_ns=10**8, bracket_ns=5 * 10**8)


def make_measured(throughput_bps: float = 8e9, **changes: object) -> Measured:
    """A measured trial with sound values."""
    values: dict[str, object] = {
        "window_ns": 10**9,
        "counts": {"payload_bytes": int(throughput_bps / 8)},
        "measurements": [MetricValue("throughput", "", throughput_bps)],
        "flags": [],
        "samples": SampleSeries(
            {"start_ns": [0], "end_ns": [10**9], "kept": [1], "payload_bytes": [10**9]}
        ),
    }
    return Measured(**{**values, **changes})  # type: ignore[arg-type]


@dataclass
class FakeBench:
    """A bench that measures what its script says.

    Attributes:
        script: called with the factors and the number of the call, from 0.
        reasons: api -> why it is unsupported.
    """

    script: Callable[[Factors, int], Measured] = lambda factors, call: make_measured()
    reasons: Mapping[str, str] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    is_open: bool = False
    opened: int = 0
    recovered: int = 0

    def open(self) -> None:
        self.is_open = True
        self.opened += 1

    def close(self) -> None:
        self.is_open = False

    def recover(self) -> None:
        self.recovered += 1

    def environments(self) -> Mapping[End, Environment]:
        environment = Environment({"kernel": {"release": "0.0-fake"}})
        return {"sender": environment, "receiver": environment}

    def context(self) -> Mapping[str, FactorValue]:
        return {"sender_kernel": "0.0-fake", "receiver_kernel": "0.0-fake"}

    def unsupported(self, factors: Factors) -> str | None:
        return self.reasons.get(str(factors["api"]))

    def readings(self, cases: Sequence[Factors], timing: Timing) -> Mapping[str, Json]:
        return {"bench": "fake"}

    def final_readings(self) -> Mapping[str, Json]:
        return {"environment_changed": []}

    def measure(self, factors: Factors, timing: Timing) -> Measured:
        assert self.is_open
        self.calls.append(str(factors["api"]))
        return self.script(factors, len(self.calls) - 1)


@dataclass
class MemoryRecorder:
    """A recorder that keeps what it is told, in order."""

    runs: list[Run] = field(default_factory=list)
    environments: list[Environment] = field(default_factory=list)
    starts: dict[str, TrialStart] = field(default_factory=dict)
    ends: dict[str, TrialEnd] = field(default_factory=dict)
    outcome: Outcome | None = None
    readings: Mapping[str, Json] = field(default_factory=dict)

    def run_started(self, run: Run) -> None:
        self.runs.append(run)

    def environment_seen(self, environment: Environment) -> None:
        self.environments.append(environment)

    def trial_started(self, trial: TrialStart) -> None:
        assert trial.id not in self.starts, "a trial may not begin twice"
        self.starts[trial.id] = trial

    def trial_ended(self, end: TrialEnd) -> None:
        assert end.trial_id in self.starts, "a trial ends only after its start"
        assert end.trial_id not in self.ends, "a trial may not end twice"
        self.ends[end.trial_id] = end

    def run_ended(self, run_id: str, outcome: Outcome, readings: Mapping[str, Json]) -> None:
        self.outcome, self.readings = outcome, readings

    def finals(self) -> list[tuple[str, int]]:
        """(plan_key, repetition) of every attempt that is final, in the order they ended."""
        return [
            (self.starts[trial_id].plan_key, self.starts[trial_id].repetition)
            for trial_id, end in self.ends.items()
            if end.reason != "interrupted"
        ]


class SilentProgress:
    """Progress that nobody watches; keeps the messages."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def started(self, total: int, done: int) -> None: ...
    def trial_begins(self, planned: PlannedTrial, factors: Factors) -> None: ...
    def trial_done(self, planned: PlannedTrial, factors: Factors, end: TrialEnd) -> None: ...

    def message(self, text: str) -> None:
        self.messages.append(text)


def make_execution(
    apis: Sequence[str] = ("write", "sendfile"), repetitions: int = 3, **changes: object
) -> Execution:
    """A plan of one case per api in shuffled blocks."""
    cases = [PlannedCase(plan_key({"api": api}), {"api": api}) for api in apis]
    rng = random.Random(2001)
    plan: list[PlannedTrial] = []
    for block in range(repetitions):
        for case in rng.sample(cases, len(cases)):
            plan.append(PlannedTrial(case.plan_key, block, len(plan), block))
    values: dict[str, object] = {
        "experiment": ExperimentText("fake", "Does it walk?", "", {"name": "fake"}),
        "cases": cases,
        "plan": plan,
        "seed": 2001,
        "timing": TIMING,
    }
    return Execution(**{**values, **changes})  # type: ignore[arg-type]


def failing(message: str = "the receiver was killed") -> Measured:
    """A script's step that fails."""
    raise EngineError(message)
