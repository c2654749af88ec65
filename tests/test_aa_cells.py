"""Twins, patterns and effects: what a run says about its own method."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from statistics import fmean

import pytest
from click.testing import CliRunner
from runner_support import FakeBench, SilentProgress, make_measured
from store_support import make_case, make_end, make_run, make_start
from test_stats_patterns import SERIES_OF_2001

from zcdb.cli.plan import plan_command
from zcdb.cli.run import StoreRecorder
from zcdb.experiment import spec
from zcdb.experiment.plan import make_plan
from zcdb.factors import Factors
from zcdb.records import MetricValue, PlannedCase, Run
from zcdb.report.order import patterns
from zcdb.report.plain import plain
from zcdb.report.render import render_markdown, render_text
from zcdb.report.spread import spread_of_run
from zcdb.report.table import VerdictTable
from zcdb.report.verdicts import to_json, verdict_table
from zcdb.runner.execute import Execution, Timing, execute
from zcdb.stats.patterns import alias_risk
from zcdb.stats.power import paired_power, repetitions_to_detect
from zcdb.store import queries, write
from zcdb.store.results import RunCase, Series, Statistic
from zcdb.store.session import Database
from zcdb.webapp.present.method import method_content

pytest_plugins = ["store_fixtures"]

HEAD = 'name = "aa"\nquestion = "How often do equal cases differ?"\n'
METRIC = "service_demand_sender"

Cost = Callable[[Factors, int], float]


def measured_run(db: Database, body: str, cost: Cost) -> str:
    """Run an experiment on the scripted bench, by the cost of the n-th trial in us/KB."""
    experiment = spec.parse(HEAD + body, "aa.toml")
    plan = make_plan(experiment)
    execution = Execution(
        experiment.record(), plan.all_cases, plan.trials, 1, Timing(10**9, 0, 10**8, 0)
    )

    def script(factors: Factors, call: int):
        value, other = cost(factors, call), cost(factors, call)
        return make_measured(
            measurements=[
                MetricValue(METRIC, "soak", value),
                MetricValue("throughput", "", other * 8e9),
            ]
        )

    result = execute(execution, FakeBench(script), StoreRecorder(db), SilentProgress())
    return result.run_id


def noisy(cv: float, seed: int = 1) -> Cost:
    generator = random.Random(seed)
    return lambda factors, call: generator.gauss(1, cv)


TWO = (
    '[factors]\napi = ["write", "sendfile"]\n[measure]\nrepetitions = 6\nseed = 3\n'
    f'[compare]\nbaseline = {{ api = "write" }}\nmetrics = ["{METRIC}"]\n'
)


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_run_tells_how_often_equal_cases_differ_and_what_it_could_have_detected(
    sqlite_db: Database,
) -> None:
    table = verdict_table(sqlite_db, measured_run(sqlite_db, TWO, noisy(0.01)))

    assert (table.twins.alarms.comparisons, table.twins.alarms.is_amber) == (1, False)
    (detectable,) = table.detectable
    power = paired_power(math.log1p(detectable.ratio), detectable.cv * math.sqrt(2), 6)
    assert power == pytest.approx(0.8, abs=0.001)
    text = words(render_text(table))
    assert "A/A: 0 of 1 comparisons of equal cases show a difference" in text
    assert "Smallest difference that 8 of 10 such runs detect: service demand, sender" in text


def test_twins_take_part_in_no_comparison_table_chart_or_remark(sqlite_db: Database) -> None:
    run_id = measured_run(sqlite_db, TWO, noisy(0.01))

    table = verdict_table(sqlite_db, run_id)

    assert len(queries.run_outcome(sqlite_db, run_id).cases) == 3
    assert [row.role for row in table.metrics[0].rows] == ["baseline", "candidate"]
    assert [case.factors["api"] for case in table.cases] == ["write", "sendfile"]
    assert table.varying == ("api",)
    assert table.run.counts.ok == 18


def test_a_bench_that_makes_twins_differ_turns_the_run_amber(sqlite_db: Database) -> None:
    generator = random.Random(5)
    body = (
        '[factors]\napi = ["write"]\nstreams = [1, 2, 3, 4, 5]\n'
        "twin = [0, 1, 2, 3, 4, 5, 6, 7]\n[measure]\nrepetitions = 3\n"
        f'[compare]\nbaseline = {{ streams = 1 }}\nmetrics = ["{METRIC}", "throughput"]\n'
    )

    def biased(factors: Factors, call: int) -> float:
        return generator.gauss(1.05 if int(factors["twin"]) % 2 else 1, 0.01)

    honest = verdict_table(sqlite_db, measured_run(sqlite_db, body, noisy(0.01, seed=2)))
    crooked = verdict_table(sqlite_db, measured_run(sqlite_db, body, biased))

    assert honest.twins.alarms.comparisons == crooked.twins.alarms.comparisons == 40
    assert not honest.twins.alarms.is_amber
    assert crooked.twins.alarms.is_amber
    assert "AMBER: equal cases differ more often" in words(render_text(crooked))
    assert method_content(crooked).is_amber


def test_without_twins_nothing_is_said_about_them(sqlite_db: Database) -> None:
    body = TWO.replace("seed = 3", "seed = 3\naa = false")

    table = verdict_table(sqlite_db, measured_run(sqlite_db, body, noisy(0.01)))

    assert table.twins is None
    assert "A/A" not in render_text(table)


def case_of(**factors: str | int | bool) -> PlannedCase:
    return make_case(**factors)


def run_of_series(
    db: Database, series: dict[str, list[float]], gap: timedelta = timedelta(0)
) -> Run:
    """Write a run in which each API measured these service demands; sendfile later by `gap`."""
    cases = tuple(case_of(api=api) for api in series)
    n = len(next(iter(series.values())))
    compare = {"baseline": {"api": "write"}, "metrics": [METRIC], "matters": 0.02}
    run = make_run(1, cases=cases, repetitions=n, compare=compare)
    write.add_run(db, run)
    apis = {case.plan_key: str(case.factors["api"]) for case in cases}
    for place in run.plan:
        api = apis[place.plan_key]
        start = make_start(run, place)
        if api == "sendfile":
            start = dataclasses.replace(start, started_at=start.started_at + gap)
        write.start_trial(db, start)
        value = MetricValue(METRIC, "soak", series[api][place.repetition])
        write.end_trial(db, make_end(start, measurements=(value,)))
    return run


def test_two_slow_one_fast_of_2001_is_named_with_its_case(sqlite_db: Database) -> None:
    steady = [20 + 0.1 * math.sin(n * 1.7) for n in range(len(SERIES_OF_2001))]
    run = run_of_series(sqlite_db, {"write": steady, "sendfile": list(SERIES_OF_2001)})

    table = verdict_table(sqlite_db, run.id)

    of_case = [remark for remark in table.patterns if remark.factors]
    assert [(r.factors["api"], r.pattern.word) for r in of_case] == [("sendfile", "periodic")]
    text = words(render_text(table))
    assert "sendfile: service demand, sender, by soak is periodic: repeats every 3 values" in text


def test_a_drift_of_the_whole_run_is_named(sqlite_db: Database) -> None:
    generator = random.Random(2)
    series = {
        api: [mean * (1 + 0.01 * n) * generator.gauss(1, 0.002) for n in range(8)]
        for api, mean in (("write", 1.0), ("sendfile", 0.7))
    }
    run = run_of_series(sqlite_db, series)

    table = verdict_table(sqlite_db, run.id)

    whole = [remark for remark in table.patterns if remark.factors is None]
    assert [remark.pattern.word for remark in whole] == ["drifting"]
    drift = whole[0].pattern.drift
    assert drift.last_third > drift.first_third
    assert "all cases together, each ÷ its mean: service demand" in words(render_text(table))


def in_memory(api: str, values: tuple[float, ...]) -> RunCase:
    statistic = Statistic(METRIC, "soak", len(values), fmean(values), None, None, None, None, None)
    series = Series(values, frozenset(), statistic)
    case = case_of(api=api)
    return RunCase(case.plan_key, case.factors, None, {}, len(values), 0, 0, (), {}, (series,))


def test_steady_runs_have_a_pattern_in_at_most_one_of_twenty() -> None:
    generator = random.Random(11)
    found = 0

    for _ in range(200):
        cases = [
            in_memory(api, tuple(generator.gauss(mean, 0.01 * mean) for _ in range(10)))
            for api, mean in (("write", 1.0), ("sendfile", 0.7), ("splice", 0.8))
        ]
        found += bool(patterns(cases, [(METRIC, "soak")], {}))

    assert found <= 10


def test_samples_that_beat_with_the_bursts_of_2001_are_warned_of() -> None:
    assert "a sample spans 1.05 bursts" in alias_risk(1_000_000_000, 950_000_000)
    assert alias_risk(1_000_000_000, 50_000_000) is None


def test_pairs_that_were_measured_on_different_days_are_warned_of(sqlite_db: Database) -> None:
    series = {"write": [1.0, 1.1, 1.0, 1.2], "sendfile": [0.9, 1.0, 0.9, 1.1]}
    run = run_of_series(sqlite_db, series, gap=timedelta(days=1))

    text = words(render_text(verdict_table(sqlite_db, run.id)))

    assert "4 of 4 pairs were measured more than an hour apart" in text
    assert "there is no between-boot estimate" in text


def jones(db: Database, noise: float = 0.002) -> VerdictTable:
    """Return the table of Rick Jones' remark: 10 % and 10 % give 30 %."""
    generator = random.Random(4)
    body = (
        '[factors]\napi = ["write", "sendfile"]\n'
        "offloads = [ { sg = false, tx_checksum = false }, { sg = true, tx_checksum = true } ]\n"
        '[link]\nkind = "veth"\n[measure]\nrepetitions = 6\naa = false\n'
        f'[compare]\nbaseline = {{ api = "write" }}\nmetrics = ["{METRIC}"]\n'
    )
    means = {
        ("write", False): 1.0,
        ("sendfile", False): 0.9,
        ("write", True): 0.9,
        ("sendfile", True): 0.7,
    }

    def cost(factors: Factors, call: int) -> float:
        return means[str(factors["api"]), bool(factors["sg"])] * generator.gauss(1, noise)

    return verdict_table(db, measured_run(db, body, cost))


def test_ten_and_ten_that_give_thirty_are_found_with_their_interaction(
    sqlite_db: Database,
) -> None:
    (effects,) = jones(sqlite_db).effects

    rows = {(row.kind, row.names): row for row in effects.rows}
    switches = "Scatter-gather and Transmit checksum"
    assert {axis.name for axis in effects.axes} == {"sendfile", switches}
    assert rows["alone", ("sendfile",)].share == pytest.approx(-0.1, abs=0.005)
    assert rows["alone", (switches,)].share == pytest.approx(-0.1, abs=0.005)
    together = rows["together", tuple(sorted(("sendfile", switches)))]
    assert together.share == pytest.approx(-0.1, abs=0.008)
    assert together.low < together.estimate < together.high < 0
    assert effects.all_on / effects.base == pytest.approx(-0.3, abs=0.005)
    assert rows["main", ("sendfile",)].share == pytest.approx(-0.15, abs=0.005)
    assert (effects.blocks, len(effects.rows)) == (6, 5)
    assert effects.level == pytest.approx(1 - 0.05 / 5)


@pytest.mark.parametrize("noise", [0.02, 0.05, 0.1, 0.2])
def test_an_effects_p_value_and_interval_are_adjusted_alike(
    noise: float, sqlite_db: Database
) -> None:
    (effects,) = jones(sqlite_db, noise).effects

    for row in effects.rows:
        assert (row.p_value < 0.05) == (not row.low <= 0 <= row.high)
        assert row.p_value <= 1


def test_effects_stand_in_text_markdown_json_and_on_the_page(sqlite_db: Database) -> None:
    table = jones(sqlite_db)

    text = render_text(table)
    assert "Effects on service demand, sender, by soak" in text
    assert "beyond the sum" in text
    assert max(len(line) for line in text.splitlines()) <= 78
    assert "### Effects on" in render_markdown(table)
    document = json.loads(json.dumps(to_json(table)))["effects"][0]
    assert document["all_on"] == pytest.approx(-0.3, abs=0.01)
    page = json.loads(json.dumps(plain(method_content(table))))["effects"][0]
    assert page["all_on"].startswith("−30.") or page["all_on"].startswith("−29.")
    assert page["rows"][0]["name"].endswith("alone")


def test_a_size_divides_the_effects_and_two_factors_that_are_no_switches_have_none(
    sqlite_db: Database,
) -> None:
    body = (
        '[factors]\napi = ["write", "sendfile"]\ntcp_cork = [false, true]\n'
        'message_size = ["4K", "64K"]\n[measure]\nrepetitions = 3\n[compare]\n'
        f'baseline = {{ api = "write" }}\nmetrics = ["{METRIC}"]\n'
    )
    plain_body = body.replace("tcp_cork = [false, true]\n", "streams = [1, 2]\n")

    divided = verdict_table(sqlite_db, measured_run(sqlite_db, body, noisy(0.01)))
    undivided = verdict_table(sqlite_db, measured_run(sqlite_db, plain_body, noisy(0.01)))

    assert [effects.at["message_size"] for effects in divided.effects] == [4096, 65536]
    assert undivided.effects == ()


def test_more_than_two_apis_are_each_set_against_the_baseline(sqlite_db: Database) -> None:
    body = (
        '[factors]\napi = ["write", "sendfile", "splice"]\ntcp_cork = [false, true]\n'
        f'[compare]\nbaseline = {{ api = "write" }}\nmetrics = ["{METRIC}"]\n'
    )

    table = verdict_table(sqlite_db, measured_run(sqlite_db, body, noisy(0.01)))

    assert [{axis.name for axis in effects.axes} for effects in table.effects] == [
        {"sendfile", "TCP_CORK"},
        {"splice", "TCP_CORK"},
    ]


def test_the_limiter_and_the_zero_copy_label_of_a_case_come_from_its_trials(
    sqlite_db: Database,
) -> None:
    run = run_of_series(sqlite_db, {"write": [1.0, 1.1, 1.0], "sendfile": [0.9, 1.0, 0.9]})
    again = make_run(2, cases=(make_case(api="sendfile"),), repetitions=3)
    write.add_run(sqlite_db, again)
    for place in again.plan:
        start = make_start(again, place)
        write.start_trial(sqlite_db, start)
        counts = {
            "limiter": {"name": "sender CPU", "rule": "busy for 98 %"},
            "zero_copy": {"label": "proven", "is_asked": True},
        }
        write.end_trial(sqlite_db, make_end(start, counts=counts))

    silent, telling = (verdict_table(sqlite_db, one.id) for one in (run, again))

    assert (silent.cases[0].limiter, silent.cases[0].zero_copy) == (None, None)
    assert (telling.cases[0].limiter, telling.cases[0].zero_copy) == ("sender CPU", "proven")
    text = words(render_text(telling))
    assert "Limited by the sender CPU: this case." in text
    assert "Zero copy proven: this case." in text


def test_a_pilot_run_gives_the_variation_and_the_sample_size(sqlite_db: Database) -> None:
    body = TWO.replace("repetitions = 6", "repetitions = 40")
    run_id = measured_run(sqlite_db, body, noisy(0.03))

    spread = spread_of_run(sqlite_db, run_id, METRIC)

    assert spread == pytest.approx(0.03, rel=0.2)
    n = repetitions_to_detect(0.05, spread)
    assert paired_power(math.log(1.05), spread * math.sqrt(2), n) >= 0.8
    assert paired_power(math.log(1.05), spread * math.sqrt(2), n - 1) < 0.8
    assert repetitions_to_detect(0.001, 0.5, at_most=100) is None


def test_plan_takes_the_variation_of_a_pilot_run(sqlite_db: Database, tmp_path: Path) -> None:
    body = TWO.replace("repetitions = 6", "repetitions = 20")
    run_id = measured_run(sqlite_db, body, noisy(0.03))
    (tmp_path / "next.toml").write_text(HEAD + TWO)
    arguments = ["--pilot", run_id, "--database", sqlite_db.name]

    done = CliRunner().invoke(plan_command, [str(tmp_path / "next.toml"), *arguments])

    spread = spread_of_run(sqlite_db, run_id, METRIC)
    assert done.exit_code == 0, done.output
    assert f"If repetitions vary by {spread * 100:.1f} % (as {METRIC} did in run" in words(
        done.output
    )
    assert "repetitions detect a difference of 2.0 % as often" in words(done.output)
