"""Repeating until the intervals are narrow enough: when it stops, what it costs, how it resumes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from runner_support import FakeBench, MemoryRecorder, SilentProgress, failing, make_measured

from zcdb.cli.run import StoreRecorder
from zcdb.experiment import spec
from zcdb.experiment.plan import Plan, make_plan
from zcdb.factors import Factors
from zcdb.records import MetricValue
from zcdb.report.render import render_text
from zcdb.report.show import show
from zcdb.report.verdicts import verdict_table
from zcdb.runner.execute import Execution, Measured, Resume, Timing, execute
from zcdb.runner.interrupt import Interruption
from zcdb.runner.steering import UntilNarrow, steering_of
from zcdb.stats.sequential import PEEKING_CORRECTION, StoppingRule, look
from zcdb.stats.summary import mean_interval
from zcdb.store import queries
from zcdb.store.queries.method import measured_values
from zcdb.store.session import Database

pytest_plugins = ["store_fixtures"]

FILE = """
name = "until"
question = "When does it stop?"
[factors]
api = ["write", "sendfile"]
[measure]
until = { metric = "throughput", half_width = "2%", at_least = 6, at_most = 20 }
aa = false
seed = 1
[compare]
baseline = { api = "write" }
metrics = ["throughput"]
"""
TIMING = Timing(duration_ns=10**9, discard_ns=0, sample_ns=10**8, bracket_ns=0)

Script = Callable[[Factors, int], Measured]


def noisy(cv: float, seed: int = 1) -> Script:
    """Return a script of 8 Gbit/s for write and 9 for sendfile that varies by `cv`."""
    generator = random.Random(seed)

    def script(factors: Factors, call: int) -> Measured:
        mean = 9e9 if factors["api"] == "sendfile" else 8e9
        return make_measured(mean * generator.gauss(1, cv))

    return script


def execution_of(
    text: str = FILE, resume: Resume | None = None
) -> tuple[spec.Experiment, Plan, Execution]:
    experiment = spec.parse(text, "until.toml")
    plan = make_plan(experiment)
    return (
        experiment,
        plan,
        Execution(
            experiment=experiment.record(),
            cases=plan.all_cases,
            plan=plan.trials,
            seed=1,
            timing=TIMING,
            resume=resume,
            steering=steering_of(experiment, plan.all_cases),
        ),
    )


def run(script: Script, text: str = FILE, **bench: object) -> tuple[MemoryRecorder, SilentProgress]:
    recorder, progress = MemoryRecorder(), SilentProgress()
    execute(execution_of(text)[2], FakeBench(script, **bench), recorder, progress)
    return recorder, progress


def blocks_of(recorder: MemoryRecorder) -> list[int]:
    """Return how many trials each block made."""
    blocks = [start.block for start in recorder.starts.values()]
    return [blocks.count(block) for block in range(max(blocks) + 1)]


def test_the_plan_is_stored_with_the_most_repetitions_and_the_rest_is_not_needed():
    recorder, progress = run(noisy(0.001))

    assert len(recorder.runs[0].plan) == 40
    assert blocks_of(recorder) == [2] * 6
    assert recorder.outcome == "finished"
    assert recorder.readings["stopping"] == {
        "metric": "throughput",
        "half_width": 0.02,
        "blocks": 6,
        "blocks_planned": 20,
        "widest_half_width": pytest.approx(0.0013, abs=0.0008),
    }
    assert progress.messages == ["1 of 1 comparisons are narrow enough after 6 repetitions"]


def test_whole_blocks_are_added_until_every_comparison_is_narrow_enough():
    recorder, _ = run(noisy(0.025))

    made = blocks_of(recorder)
    assert set(made) == {2}
    assert 6 < len(made) < 20
    ends = {start.plan_key: [] for start in recorder.starts.values()}
    for trial, end in recorder.ends.items():
        ends[recorder.starts[trial].plan_key].append(end.measurements[0].value)
    first, second = ends.values()
    ratios = [math.log(b / a) for a, b in zip(first, second, strict=True)]
    rule = StoppingRule(0.02, 6, 20)
    assert look(rule, ratios).decision == "narrow enough"
    assert all(look(rule, ratios[:n]).decision == "go on" for n in range(1, len(ratios)))


def test_it_stops_at_the_limit_however_wide_the_intervals_are():
    recorder, progress = run(noisy(0.3))

    assert blocks_of(recorder) == [2] * 20
    assert recorder.readings["stopping"]["blocks"] == 20
    assert progress.messages == ["0 of 1 comparisons are narrow enough after 20 repetitions"]


def test_without_a_comparison_the_mean_of_every_case_is_watched():
    recorder, progress = run(noisy(0.001), FILE.partition("[compare]")[0])

    assert blocks_of(recorder) == [2] * 6
    assert progress.messages == ["2 of 2 cases are narrow enough after 6 repetitions"]


def test_a_case_that_cannot_run_is_recorded_with_each_block_and_holds_nothing_up():
    text = FILE.replace('"sendfile"]', '"sendfile", "splice"]')

    recorder, _ = run(noisy(0.001), text, reasons={"splice": "no splice here"})

    statuses = [end.status for end in recorder.ends.values()]
    assert (statuses.count("unsupported"), statuses.count("ok")) == (6, 12)


def test_nothing_measured_ends_at_the_first_look():
    recorder, progress = run(lambda factors, call: failing())

    assert blocks_of(recorder) == [2] * 6
    assert progress.messages == ["nothing was measured in 6 repetitions"]


def test_twins_are_measured_in_every_block_and_not_watched():
    recorder, progress = run(noisy(0.001), FILE.replace("aa = false", "aa = 1"))

    assert blocks_of(recorder) == [3] * 6
    assert progress.messages == ["1 of 1 comparisons are narrow enough after 6 repetitions"]


def test_a_resumed_run_decides_as_one_that_was_never_stopped(sqlite_db: Database) -> None:
    whole, _ = run(noisy(0.025))
    values = {
        (start.plan_key, start.repetition): whole.ends[trial].measurements[0].value
        for trial, start in whole.starts.items()
    }
    experiment, plan, execution = execution_of()
    interruption = Interruption()

    def replay(stop_after: int) -> Script:
        remaining = iter(execution.plan)

        def script(factors: Factors, call: int) -> Measured:
            if call == stop_after:
                interruption.request()
            place = pending.pop(0)
            return make_measured(values[place.plan_key, place.repetition])

        pending = list(remaining)
        return script

    execute(
        execution, FakeBench(replay(9)), StoreRecorder(sqlite_db), SilentProgress(), interruption
    )
    state = queries.resumable_run(sqlite_db, experiment.record().id)
    assert state is not None
    measured = measured_values(sqlite_db, state.run_id, "throughput")
    resume = Resume(state.run_id, frozenset(state.finished), state.attempts, measured)
    left = [p for p in plan.trials if (p.plan_key, p.repetition) not in state.finished]

    def rest(factors: Factors, call: int) -> Measured:
        return make_measured(values[left[call].plan_key, left[call].repetition])

    execute(
        execution_of(resume=resume)[2], FakeBench(rest), StoreRecorder(sqlite_db), SilentProgress()
    )

    counts = queries.run_outcome(sqlite_db, state.run_id).run.counts
    assert counts.ok == len(values)
    assert len(measured) == 9
    assert verdict_table(sqlite_db, state.run_id).stopping.blocks == len(values) // 2


def test_a_run_that_was_killed_after_its_last_block_measures_nothing_more():
    whole, _ = run(noisy(0.001))
    measured = {
        (start.plan_key, start.repetition): list(whole.ends[trial].measurements)
        for trial, start in whole.starts.items()
    }
    resume = Resume("run", frozenset(measured), dict.fromkeys(measured, 1), measured)
    bench, recorder = FakeBench(noisy(0.001)), MemoryRecorder()

    execute(execution_of(resume=resume)[2], bench, recorder, SilentProgress())

    assert bench.calls == []
    assert recorder.outcome == "finished"


def test_the_verdict_s_intervals_are_widened_for_the_looking_and_the_text_says_so(
    sqlite_db: Database,
) -> None:
    bench = FakeBench(noisy(0.001))
    execute(execution_of()[2], bench, StoreRecorder(sqlite_db), SilentProgress())
    (line,) = queries.run_list(sqlite_db).runs

    table = verdict_table(sqlite_db, line.id)

    assert table.stopping is not None
    assert table.stopping.level == pytest.approx(1 - 0.05 * PEEKING_CORRECTION)
    (candidate,) = [row for row in table.rows if row.verdict]
    assert candidate.verdict.level == pytest.approx(0.9625)
    text = render_text(table)
    assert "finished: 12 of 40 trials ok, 28 not needed" in text
    _, shown = show(sqlite_db, line.id)
    assert shown.count("not needed") == 1 + 28
    assert "it took 6 repetitions" in " ".join(text.split())
    assert max(len(line) for line in text.splitlines()) <= 78


@pytest.mark.parametrize(("cv", "half_width"), [(0.02, 0.02), (0.04, 0.02), (0.01, 0.02)])
def test_the_reported_interval_holds_in_93_to_97_of_100_runs(cv, half_width):
    """Rule B6: simulated runs that stop by themselves, the truth a ratio of 9 to 8."""
    experiment, plan, _ = execution_of(FILE.replace('"2%"', f'"{half_width * 100:g}%"'))
    generator = random.Random(7)
    level = 1 - 0.05 * PEEKING_CORRECTION
    runs, inside = 2000, 0

    for _ in range(runs):
        low, high = _interval_when_stopped(experiment, plan, cv, generator, level)
        inside += low <= 9 / 8 <= high

    assert 0.93 <= inside / runs <= 0.97


def _interval_when_stopped(
    experiment: spec.Experiment,
    plan: Plan,
    cv: float,
    generator: random.Random,
    level: float,
) -> tuple[float, float]:
    until = experiment.measure.until
    assert until is not None
    steering = UntilNarrow(until, plan.cases, experiment.compare.baseline)
    apis = {case.plan_key: case.factors["api"] for case in plan.cases}
    ratios: list[float] = []
    block: dict[object, float] = {}
    for done, place in enumerate(plan.trials, 1):
        value = (9.0 if apis[place.plan_key] == "sendfile" else 8.0) * math.exp(
            generator.gauss(0, cv)
        )
        steering.saw(place.plan_key, place.repetition, [MetricValue("throughput", "", value)])
        block[apis[place.plan_key]] = value
        if len(block) == 2:
            ratios.append(math.log(block["sendfile"] / block["write"]))
            block.clear()
            if steering.decide(plan.trials, done).word == "enough":
                break
    low, high = mean_interval(ratios, level)
    return math.exp(low), math.exp(high)


def test_a_run_without_until_is_not_steered():
    experiment = spec.parse(
        FILE.replace(
            'until = { metric = "throughput", half_width = "2%", at_least = 6, at_most = 20 }', ""
        ),
        "fixed.toml",
    )

    assert steering_of(experiment, make_plan(experiment).all_cases) is None


def test_a_rest_comes_before_every_trial_and_is_stored_with_the_experiment(monkeypatch):
    experiment = spec.parse(FILE.replace("aa = false", 'aa = false\nrest = "250ms"'), "rest.toml")
    rests: list[float] = []
    monkeypatch.setattr("zcdb.runner.execute.time.sleep", rests.append)
    execution = Execution(
        experiment=experiment.record(),
        cases=(plan := make_plan(experiment)).cases,
        plan=plan.trials[:4],
        seed=1,
        timing=Timing(10**9, 0, 10**8, 0, experiment.measure.rest_ns),
    )

    execute(execution, FakeBench(), MemoryRecorder(), SilentProgress())

    assert rests == [0.25] * 4
    assert experiment.resolved()["measure"]["rest_ns"] == 250_000_000
