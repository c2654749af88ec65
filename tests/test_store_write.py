"""Writing records: what is stored, what is refused, and what two writers do to each other."""

from __future__ import annotations

import math
import multiprocessing
import random
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import StatementError
from sqlalchemy.orm import DeclarativeBase
from store_support import (
    StatementCount,
    make_case,
    make_end,
    make_environment,
    make_run,
    make_samples,
    make_start,
)

from zcdb.errors import StoreError
from zcdb.factors import case_id, pairing_hash
from zcdb.records import Flag, MetricValue, Run, SampleSeries, TrialStart
from zcdb.store import queries, write
from zcdb.store import values as blobs
from zcdb.store.models import (
    CaseFactorRow,
    CaseRow,
    EnvironmentRow,
    ExperimentRow,
    MeasurementRow,
    NoteRow,
    PairingRow,
    RunRow,
    TrialRow,
)
from zcdb.store.moments import Moments, published
from zcdb.store.session import Database, opened

pytest_plugins = ["store_fixtures"]


def _count(db: Database, row_class: type[DeclarativeBase]) -> int:
    with db.reading() as session:
        return session.scalar(select(func.count()).select_from(row_class)) or 0


def _run_of_one_case(db: Database, number: int = 1, repetitions: int = 5) -> Run:
    run = make_run(number, cases=(make_case(),), repetitions=repetitions)
    write.add_run(db, run)
    return run


def _measure(db: Database, run: Run, repetition: int, *values: MetricValue) -> TrialStart:
    start = make_start(run, run.plan[repetition])
    write.start_trial(db, start)
    write.end_trial(db, make_end(start, measurements=values))
    return start


def _throughput(value: float | None, reason: str | None = None) -> MetricValue:
    return MetricValue("throughput", "", value, reason)


def test_a_run_brings_its_experiment_and_its_whole_plan(db: Database) -> None:
    run = make_run(1, repetitions=3, note="first light")

    write.add_run(db, run)

    state = queries.resumable_run(db, run.experiment.id)
    assert state is not None
    assert state.run_id == run.id
    assert [case.plan_key for case in state.cases] == [case.plan_key for case in run.cases]
    assert list(state.plan) == list(run.plan)
    assert queries.run_page(db, run.id).run.note == "first light"


def test_the_same_experiment_and_environment_are_stored_once(db: Database) -> None:
    for number in (1, 2):
        write.add_run(db, make_run(number))
        write.add_environment(db, make_environment())
    write.add_run(db, make_run(3, question="Another question?"))
    write.add_environment(db, make_environment(cpus=64))

    assert _count(db, ExperimentRow) == 2
    assert _count(db, EnvironmentRow) == 2


def test_a_run_is_added_once(db: Database) -> None:
    run = make_run(1)
    write.add_run(db, run)

    with pytest.raises(StoreError, match=f"run {run.id} is in .* already"):
        write.add_run(db, run)

    assert _count(db, RunRow) == 1


def test_a_case_is_the_same_case_in_another_run(db: Database) -> None:
    for number in (1, 2):
        run = _run_of_one_case(db, number)
        _measure(db, run, 0, _throughput(1e9))

    assert _count(db, CaseRow) == 1


def test_a_case_has_a_row_for_each_factor_and_a_pairing_along_each(db: Database) -> None:
    run = _run_of_one_case(db)
    factors = make_start(run, run.plan[0]).case_factors
    _measure(db, run, 0, _throughput(1e9))

    with db.reading() as session:
        facets = {row.factor: row for row in session.scalars(select(CaseFactorRow))}
        pairings = {row.factor: row for row in session.scalars(select(PairingRow))}

    assert facets["message_size"].value == "65536"
    assert facets["message_size"].number == 65536.0
    assert facets["tcp_cork"].value == "false"
    assert facets["tcp_cork"].number is None
    assert facets["sender_kernel"].value == "6.12.0"
    assert "sender_driver" not in facets  # an observed factor that is absent
    assert pairings.keys() == facets.keys()
    assert pairings["api"].rest_hash == pairing_hash("api", factors)


def test_a_trial_runs_before_it_has_ended(db: Database) -> None:
    run = _run_of_one_case(db)
    start = make_start(run, run.plan[0])

    write.start_trial(db, start)

    page = queries.trial_page(db, start.id)
    assert (page.trial.status, page.trial.reason, page.trial.ended_at) == ("running", None, None)
    assert page.trial.case_id == case_id(start.case_factors)
    assert page.run.counts.running == 1


def test_a_trial_keeps_everything_it_read(db: Database) -> None:
    environment = make_environment()
    write.add_environment(db, environment)
    run = _run_of_one_case(db)
    start = make_start(run, run.plan[0], environment=environment)
    samples = make_samples(10**9, random.Random(1))
    end = make_end(
        start,
        counts={"receiver": {"payload_bytes": 2**40 + 1}},
        measurements=(
            _throughput(8e9),
            MetricValue("service_demand_sender", "soak", 0.25),
            MetricValue("service_demand_sender", "perf", None, "no counters"),
        ),
        flags=(Flag("steal", "cpu0 1.2 %"), Flag("copied"), Flag("steal", "cpu1 3 %")),
        samples=samples,
    )
    write.start_trial(db, start)

    write.end_trial(db, end)

    page = queries.trial_page(db, start.id)
    assert (page.trial.status, page.trial.window_ns) == ("ok", 10**9)
    assert page.trial.started_at == start.started_at
    assert page.trial.ended_at == end.ended_at
    assert [(v.metric, v.method, v.value, v.reason) for v in page.values] == [
        ("throughput", "", 8e9, None),
        ("service_demand_sender", "soak", 0.25, None),
        ("service_demand_sender", "perf", None, "no counters"),
    ]
    assert page.counts == {"receiver": {"payload_bytes": 2**40 + 1}}
    assert page.samples == SampleSeries({n: list(c) for n, c in samples.columns.items()})
    assert [(flag.code, flag.detail) for flag in page.flags] == [
        ("steal", "cpu0 1.2 %"),
        ("copied", ""),
        ("steal", "cpu1 3 %"),
    ]
    assert page.trial.flags == ("steal", "copied")
    assert {end: line.id for end, line in page.environments.items()} == {
        "sender": environment.id,
        "receiver": environment.id,
    }


def test_values_stand_by_repetition_and_what_is_missing_is_none(db: Database) -> None:
    run = _run_of_one_case(db)
    _measure(db, run, 3, _throughput(4e9))
    _measure(db, run, 0, _throughput(1e9))
    _measure(db, run, 2, _throughput(None, "the clock was stepped"))

    (case,) = queries.run_outcome(db, run.id).cases
    (series,) = case.series

    assert series.values == (1e9, None, None, 4e9)
    assert series.statistic.n == 2
    assert series.statistic.mean == 2.5e9
    assert series.statistic.low is None  # two values say next to nothing about their spread
    assert series.statistic.reason == "the clock was stepped"


def test_statistics_cover_a_run_and_summaries_all_runs(db: Database) -> None:
    for number, values in ((1, (1.0, 2.0, 3.0)), (2, (5.0, 6.0))):
        run = _run_of_one_case(db, number)
        for repetition, value in enumerate(values):
            start = _measure(db, run, repetition, _throughput(value))

    in_run = queries.run_outcome(db, run.id).cases[0].series[0].statistic
    in_all = queries.case_page(db, case_id(start.case_factors)).statistics[0]

    assert (in_run.n, in_run.mean) == (2, 5.5)
    assert (in_all.n, in_all.runs, in_all.entries) == (5, 2, 0)
    assert in_all.mean == pytest.approx(3.4)
    assert in_all.sd == pytest.approx(2.0736441353327724)
    # t = 2.7764451 for 4 degrees of freedom
    assert in_all.high == pytest.approx(3.4 + 2.7764451051977987 * 2.0736441353327724 / 5**0.5)


@pytest.mark.parametrize("status", ["failed", "unsupported"])
def test_a_trial_that_is_not_ok_adds_no_value(db: Database, status: str) -> None:
    run = _run_of_one_case(db)
    start = make_start(run, run.plan[0])
    write.start_trial(db, start)

    write.end_trial(db, make_end(start, status=status, reason="no such API"))

    assert _count(db, MeasurementRow) == 0
    page = queries.trial_page(db, start.id)
    assert (page.trial.status, page.trial.reason) == (status, "no such API")
    assert page.counts == {"receiver": {"payload_bytes": 2_500_000_000}}


def test_a_trial_ends_once(db: Database) -> None:
    run = _run_of_one_case(db)
    start = _measure(db, run, 0, _throughput(1e9))

    with pytest.raises(StoreError, match="has ended already: it is ok"):
        write.end_trial(db, make_end(start, status="failed", reason="late"))

    page = queries.trial_page(db, start.id)
    assert page.trial.status == "ok"
    assert page.values[0].value == 1e9


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"status": "running"}, "cannot end as running"),
        ({"reason": "but why"}, "that is ok with reason 'but why'"),
        ({"status": "failed"}, "that is failed with reason None"),
        ({"flags": (Flag("tired"),)}, "no flag is called 'tired'"),
        ({"measurements": (MetricValue("speed", "", 1.0),)}, "no metric is called 'speed'"),
        ({"measurements": (MetricValue("throughput", "soak", 1.0),)}, "has no method 'soak'"),
        ({"measurements": (MetricValue("utilisation_sender", "", 1.0),)}, "has no method ''"),
        ({"measurements": (_throughput(None),)}, "either a value or a reason"),
        ({"measurements": (_throughput(1.0, "odd"),)}, "either a value or a reason"),
        ({"measurements": (_throughput(math.nan),)}, "nan is not a measured value"),
        ({"measurements": (_throughput(math.inf),)}, "inf is not a measured value"),
        ({"measurements": (_throughput(1.0), _throughput(2.0))}, "measured a metric twice"),
        ({"samples": SampleSeries({"a": [1], "b": [1, 2]})}, "samples of unequal length"),
    ],
)
def test_a_record_that_contradicts_itself_is_a_bug(
    sqlite_db: Database, change: dict[str, object], said: str
) -> None:
    run = _run_of_one_case(sqlite_db)
    start = make_start(run, run.plan[0])
    write.start_trial(sqlite_db, start)

    with pytest.raises(ValueError, match=said):
        write.end_trial(sqlite_db, make_end(start, **change))

    assert queries.trial_page(sqlite_db, start.id).trial.status == "running"


def test_a_naive_time_is_refused(sqlite_db: Database) -> None:
    run = replace(make_run(1), started_at=datetime(2026, 3, 1, 12, 0))

    with pytest.raises(StatementError, match="has no time zone"):
        write.add_run(sqlite_db, run)


def test_what_is_not_there_is_named(db: Database) -> None:
    run = make_run(1)

    with pytest.raises(StoreError, match=f"there is no run {run.id} in"):
        write.start_trial(db, make_start(run, run.plan[0]))
    with pytest.raises(StoreError, match="there is no trial"):
        write.end_trial(db, make_end(make_start(run, run.plan[0])))
    with pytest.raises(StoreError, match="there is no run"):
        write.finish_run(db, run.id, "finished", {})


def test_a_trial_needs_its_place_in_the_plan_and_its_environments(db: Database) -> None:
    run = _run_of_one_case(db)
    start = make_start(run, run.plan[0])
    elsewhere = replace(start, position=4)
    unknown = make_start(run, run.plan[0], environment=make_environment())

    with pytest.raises(StoreError, match=r"has no trial of case .* at place 4 of block 0"):
        write.start_trial(db, elsewhere)
    with pytest.raises(StoreError, match=r"environment .* of the sender is not stored yet"):
        write.start_trial(db, unknown)

    assert _count(db, TrialRow) == 0


def test_an_interrupted_trial_stays_and_its_repetition_gets_a_new_attempt(db: Database) -> None:
    run = _run_of_one_case(db, repetitions=2)
    _measure(db, run, 0, _throughput(1e9))
    killed = make_start(run, run.plan[1])
    write.start_trial(db, killed)

    ended = write.fail_interrupted_trials(db, run.id)
    again = make_start(run, run.plan[1], attempt=1)
    write.start_trial(db, again)
    write.end_trial(db, make_end(again, measurements=(_throughput(3e9),)))

    assert ended == 1
    page = queries.trial_page(db, again.id)
    assert [(t.status, t.reason) for t in page.attempts] == [
        ("failed", "interrupted"),
        ("ok", None),
    ]
    assert queries.trial_page(db, killed.id).values == ()
    assert queries.run_outcome(db, run.id).cases[0].series[0].values == (1e9, 3e9)
    assert page.run.counts.left == 0


def test_no_trial_is_interrupted_in_another_run(db: Database) -> None:
    first, second = _run_of_one_case(db, 1), _run_of_one_case(db, 2)
    start = make_start(second, second.plan[0])
    write.start_trial(db, start)

    assert write.fail_interrupted_trials(db, first.id) == 0
    assert queries.trial_page(db, start.id).trial.status == "running"


def test_a_final_repetition_gets_no_new_attempt(db: Database) -> None:
    run = _run_of_one_case(db)
    _measure(db, run, 0, _throughput(1e9))
    failed = make_start(run, run.plan[1])
    write.start_trial(db, failed)
    write.end_trial(db, make_end(failed, status="failed", reason="a hung peer"))
    running = make_start(run, run.plan[2])
    write.start_trial(db, running)

    for place, said in ((0, "its last one is ok"), (1, "is failed"), (2, "is running")):
        with pytest.raises(StoreError, match=said):
            write.start_trial(db, make_start(run, run.plan[place], attempt=1))
    with pytest.raises(StoreError, match=r"attempt 0 at repetition 0 .* is there already"):
        write.start_trial(db, make_start(run, run.plan[0]))


def test_resuming_knows_what_is_final(db: Database) -> None:
    run = _run_of_one_case(db, repetitions=5)
    key = run.cases[0].plan_key
    _measure(db, run, 0, _throughput(1e9))
    for repetition, status, reason in ((1, "failed", "a hung peer"), (2, "unsupported", "no API")):
        start = make_start(run, run.plan[repetition])
        write.start_trial(db, start)
        write.end_trial(db, make_end(start, status=status, reason=reason))
    write.start_trial(db, make_start(run, run.plan[3]))
    write.fail_interrupted_trials(db, run.id)
    write.finish_run(db, run.id, "interrupted", {})

    state = queries.resumable_run(db, run.experiment.id)

    assert state is not None
    assert state.finished == {(key, 0), (key, 1), (key, 2)}
    assert state.attempts == {(key, 0): 1, (key, 1): 1, (key, 2): 1, (key, 3): 1}


def test_a_finished_run_is_not_resumed_and_takes_no_trial(db: Database) -> None:
    run = _run_of_one_case(db)
    write.finish_run(db, run.id, "finished", {})

    assert queries.resumable_run(db, run.experiment.id) is None
    with pytest.raises(StoreError, match="is finished: no trial can start in it"):
        write.start_trial(db, make_start(run, run.plan[0]))
    with pytest.raises(StoreError, match="is finished already"):
        write.finish_run(db, run.id, "failed", {})


def test_a_resumed_run_runs_again_and_keeps_all_readings(db: Database) -> None:
    run = _run_of_one_case(db)
    write.finish_run(db, run.id, "interrupted", {"soaker_effect_ratio": 0.01})

    write.start_trial(db, make_start(run, run.plan[0]))
    during = queries.run_page(db, run.id).run
    write.finish_run(db, run.id, "finished", {"soaker_effect_ratio": 0.02})
    page = queries.run_page(db, run.id)

    assert (during.outcome, during.ended_at) == ("running", None)
    assert page.run.outcome == "finished"
    assert page.readings == ({"soaker_effect_ratio": 0.01}, {"soaker_effect_ratio": 0.02})


def test_the_newest_note_is_shown_and_the_earlier_ones_stay(db: Database) -> None:
    run = make_run(1, note="first")
    write.add_run(db, run)

    write.set_note(db, run.id, "second")

    assert queries.run_list(db).runs[0].note == "second"
    assert _count(db, NoteRow) == 2


def test_an_excluded_trial_stays_but_counts_no_more(db: Database) -> None:
    run = _run_of_one_case(db)
    starts = [_measure(db, run, place, _throughput(v)) for place, v in enumerate((1.0, 2.0, 9.0))]

    write.exclude_trial(db, starts[2].id, reason="a backup ran", excluded_by="A. Tester")
    _measure(db, run, 3, _throughput(3.0))

    (series,) = queries.run_outcome(db, run.id).cases[0].series
    summary = queries.case_page(db, case_id(starts[0].case_factors)).statistics[0]
    assert series.values == (1.0, 2.0, 9.0, 3.0)
    assert series.kept == (1.0, 2.0, None, 3.0)
    assert (series.statistic.n, series.statistic.mean) == (3, 2.0)
    assert (summary.n, summary.mean) == (3, 2.0)
    trial = queries.trial_page(db, starts[2].id)
    assert (trial.trial.excluded, trial.values[0].value) == ("a backup ran", 9.0)
    with pytest.raises(StoreError, match="is excluded already"):
        write.exclude_trial(db, starts[2].id, reason="again", excluded_by="A. Tester")


def test_values_survive_the_way_into_bytes_and_back() -> None:
    values = (0.1, None, -3.5e300, 0.0)

    packed = blobs.encode(values)

    assert len(packed) == 8 * len(values)
    assert blobs.decode(packed) == values


_TWO_CASES = (make_case(), make_case(api="sendfile"))


def _record_a_run(url: str, number: int) -> None:
    with opened(url, with_history=False) as db:
        run = make_run(number, cases=_TWO_CASES, repetitions=5)
        write.add_run(db, run)
        for place in run.plan:
            start = make_start(run, place)
            write.start_trial(db, start)
            write.end_trial(db, make_end(start))
        write.finish_run(db, run.id, "finished", {})


def _read_until_both_are_done(url: str) -> None:
    """Exit 1 if a page ever shows a trial that is ok without its value."""
    with opened(url, with_history=False) as db:
        for _ in range(100_000):
            runs = queries.run_list(db).runs
            for run in runs:
                for case in queries.run_outcome(db, run.id).cases:
                    n = case.series[0].statistic.n if case.series else 0
                    if n != case.ok:
                        raise SystemExit(1)
            if sum(run.outcome == "finished" for run in runs) == 2:
                return


def test_two_processes_write_while_one_reads_and_no_row_is_lost(database_url: str) -> None:
    with opened(database_url, with_history=False):
        pass
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=_record_a_run, args=(database_url, 1)),
        context.Process(target=_record_a_run, args=(database_url, 2)),
        context.Process(target=_read_until_both_are_done, args=(database_url,)),
    ]

    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=200)

    assert [process.exitcode for process in processes] == [0, 0, 0]
    with opened(database_url, with_history=False) as db:
        assert [run.counts.ok for run in queries.run_list(db).runs] == [10, 10]
        cases = queries.case_list(db).cases
        assert [case.trials for case in cases] == [10, 10]
        # Both runs measured the same cases: no summary may have lost the other's values.
        assert [queries.case_page(db, c.id).statistics[0].n for c in cases] == [10, 10]


def test_a_database_file_can_be_copied_into_another_folder(tmp_path: Path) -> None:
    with opened(tmp_path / "a.sqlite") as db:
        run = _run_of_one_case(db)
        start = _measure(db, run, 0, _throughput(1e9))
    (tmp_path / "b").mkdir()
    (tmp_path / "a.sqlite").rename(tmp_path / "b" / "c.sqlite")

    with opened(tmp_path / "b" / "c.sqlite") as db:
        assert queries.trial_page(db, start.id).trial.id == start.id


def test_a_trial_costs_the_same_after_many_runs(sqlite_db: Database) -> None:
    counts = []
    for number in range(1, 6):
        run = make_run(number, cases=_TWO_CASES, repetitions=1)
        write.add_run(sqlite_db, run)
        start = make_start(run, run.plan[0])
        write.start_trial(sqlite_db, start)
        with StatementCount(sqlite_db) as statements:
            write.end_trial(sqlite_db, make_end(start))
        counts.append(len(statements))
        read = [said for said in statements.statements if said.startswith("SELECT")]
        # The values of other runs are never read again: only the run's own, and the summaries.
        assert not any("values_f64" in said and "run_id" not in said for said in read)

    assert set(counts) == {counts[0]}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_sums_that_are_carried_on_equal_sums_made_anew(seed: int) -> None:
    noise = random.Random(seed)
    values = [noise.gauss(20e9, 1e3) for _ in range(1000)]

    grown = Moments()
    for value in values:
        columns = grown.with_value(value).columns()
        # As in a table: only n, mean and standard deviation are kept from trial to trial.
        grown = Moments.of(columns["n"], columns["mean"], columns["sd"])
    first, second = (Moments.of(**_moments(part)) for part in (values[:300], values[300:]))

    expected = blobs.statistics(values)
    for moments in (grown, first.merged(second)):
        assert moments.n == 1000
        assert moments.mean == pytest.approx(expected["mean"], rel=1e-12)
        assert moments.columns()["sd"] == pytest.approx(expected["sd"], rel=1e-6)
        assert moments.columns()["low"] == pytest.approx(expected["low"], rel=1e-12)


def _moments(values: list[float]) -> dict[str, float]:
    said = blobs.statistics(values)
    return {name: said[name] for name in ("n", "mean", "sd")}


@pytest.mark.parametrize(
    ("sd", "spread", "n", "expected"),
    [
        (5.0, "sd", 10, (10, 5.0)),
        (5.0, "se", 16, (16, 20.0)),
        (2.262, "ci95", 10, (10, 10**0.5)),  # t(0.975, 9) = 2.262
        (5.0, "sd", None, (1, None)),
        (None, None, 10, (1, None)),
    ],
)
def test_a_published_spread_counts_as_its_stated_n(
    sd: float | None, spread: str | None, n: int | None, expected: tuple[int, float | None]
) -> None:
    columns = published(100.0, sd, spread, n).columns()

    assert (columns["n"], columns["mean"]) == (expected[0], 100.0)
    assert columns["sd"] == (None if expected[1] is None else pytest.approx(expected[1], rel=1e-3))
