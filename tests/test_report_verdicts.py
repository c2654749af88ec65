"""Verdict tables: who is compared with whom, by which method, and what the table says of it."""

from __future__ import annotations

import pytest
from store_support import (
    DemoIds,
    StatementCount,
    make_case,
    make_end,
    make_run,
    make_start,
)

from zcdb.records import MetricValue, PlannedCase, Run
from zcdb.report.table import VerdictRow, VerdictTable
from zcdb.report.verdicts import verdict_table
from zcdb.stats.compare import compare_paired
from zcdb.stats.verdict import judge
from zcdb.store import queries, write
from zcdb.store.queries import NotFound
from zcdb.store.session import Database

pytest_plugins = ["store_fixtures"]

Demo = tuple[Database, DemoIds]

BASE = (10.0, 10.2, 9.9, 10.1, 10.0)
COMPARE = {"baseline": {"api": "write"}, "metrics": ["throughput"], "matters": 0.02}


def _measured_run(
    db: Database,
    values: dict[PlannedCase, tuple[float | None, ...]],
    *,
    metric: str = "throughput",
    method: str = "",
    compare: dict[str, object] | None = None,
) -> Run:
    """Write a run in which each case measured the given values; None is a failed trial."""
    cases = tuple(values)
    run = make_run(
        1, cases=cases, repetitions=len(values[cases[0]]), compare=compare or dict(COMPARE)
    )
    write.add_run(db, run)
    by_key = {case.plan_key: of_case for case, of_case in values.items()}
    for place in run.plan:
        start = make_start(run, place)
        write.start_trial(db, start)
        value = by_key[place.plan_key][place.repetition]
        if value is None:
            write.end_trial(db, make_end(start, status="failed", reason="a hung peer"))
        else:
            measured = (MetricValue(metric, method, value),)
            write.end_trial(db, make_end(start, measurements=measured))
    return run


class HashableCase(PlannedCase):
    """A planned case that can be a key of a dict."""

    def __hash__(self) -> int:
        return hash(self.plan_key)


def _case(**factors: str | int | bool) -> PlannedCase:
    case = make_case(**factors)
    return HashableCase(case.plan_key, case.factors)


def _rows(table: VerdictTable, metric: int = 0) -> dict[tuple[str, int], VerdictRow]:
    return {
        (str(row.case.factors["api"]), int(row.case.factors["message_size"])): row
        for row in table.metrics[metric].rows
    }


def test_every_case_is_compared_with_the_baseline_of_its_own_size(demo: Demo) -> None:
    db, ids = demo

    rows = _rows(verdict_table(db, ids.run_id))

    assert [row.role for row in rows.values()] == [
        *["baseline", "candidate", "candidate", "candidate"],
        *["baseline", "candidate", "candidate", "candidate", "candidate"],
    ]
    for (_, size), row in rows.items():
        if row.role == "candidate":
            assert row.baseline is not None
            assert row.baseline.case_id == ids.case_ids["write", size]


def test_words_and_numbers_are_those_of_the_statistics(sqlite_db: Database) -> None:
    faster = tuple(value * 1.2 for value in BASE)
    run = _measured_run(sqlite_db, {_case(): BASE, _case(api="sendfile"): faster})

    table = verdict_table(sqlite_db, run.id)

    (expected,) = judge([compare_paired(BASE, faster)], ["higher"], 0.02)
    row = _rows(table)["sendfile", 65536]
    assert row.verdict == expected
    assert row.verdict.word == "better"
    assert row.verdict.ratio == pytest.approx(1.2)
    assert row.case.statistic is not None
    assert row.case.statistic.mean == pytest.approx(12.048)
    assert row.sign_flip_p_value == 2 / 2**5
    assert (table.family_size, table.matters, table.level) == (1, 0.02, 0.95)


def test_pairs_are_made_by_repetition_where_both_were_measured(sqlite_db: Database) -> None:
    other = (None, 11.0, 12.0, 13.0, 14.0)
    base = (10.0, 11.0, None, 13.0, 14.0)
    run = _measured_run(sqlite_db, {_case(): base, _case(api="sendfile"): other})

    row = _rows(verdict_table(sqlite_db, run.id))["sendfile", 65536]

    assert row.verdict is not None
    assert row.verdict.n_candidate == 3
    assert row.verdict.ratio == 1.0
    assert row.case.statistic is not None
    assert row.case.statistic.n == 4


def test_an_excluded_trial_is_in_no_pair(sqlite_db: Database) -> None:
    outlier = (*BASE[:4], 99.0)
    run = _measured_run(sqlite_db, {_case(): BASE, _case(api="sendfile"): outlier})
    (trial,) = [
        attempt
        for place in queries.run_page(sqlite_db, run.id).plan
        for attempt in place.attempts
        if place.repetition == 4 and place.plan_key == _case(api="sendfile").plan_key
    ]
    write.exclude_trial(sqlite_db, trial.id, reason="a backup ran", excluded_by="A. Tester")

    table = verdict_table(sqlite_db, run.id)

    row = _rows(table)["sendfile", 65536]
    assert row.verdict is not None
    assert (row.verdict.ratio, row.verdict.n_candidate) == (1.0, 4)
    assert table.run.counts.excluded == 1


def test_no_common_repetition_is_undecided_with_the_reason(sqlite_db: Database) -> None:
    run = _measured_run(
        sqlite_db, {_case(): (1.0, 2.0, None, None), _case(api="sendfile"): (None, None, 1.0, 2.0)}
    )

    row = _rows(verdict_table(sqlite_db, run.id))["sendfile", 65536]

    assert row.verdict is not None
    assert (row.verdict.word, row.verdict.ratio) == ("undecided", None)
    assert row.verdict.reason == "no repetition measured both"


def test_two_repetitions_show_no_interval(sqlite_db: Database) -> None:
    run = _measured_run(sqlite_db, {_case(): BASE[:2], _case(api="sendfile"): BASE[:2]})

    row = _rows(verdict_table(sqlite_db, run.id))["sendfile", 65536]

    assert row.verdict is not None
    assert (row.verdict.word, row.verdict.low) == ("undecided", None)
    assert row.case.statistic is not None
    assert row.case.statistic.low is None


def test_all_comparisons_of_the_table_are_one_family(demo: Demo) -> None:
    db, ids = demo

    table = verdict_table(db, ids.run_id)

    judged = [row.verdict for row in table.rows if row.verdict and row.verdict.p_value is not None]
    assert table.family_size == len(judged) == 18
    assert {verdict.family_size for verdict in judged} == {18}
    # Six slopes of one size cannot all be as sure as alone: Holm makes p larger.
    assert all(v.p_adjusted >= v.p_value for v in judged if v.p_adjusted is not None)


def test_a_missing_value_says_why(demo: Demo, sqlite_db: Database) -> None:
    db, ids = demo
    run = make_run(1, cases=(make_case(), make_case(api="sendfile")), repetitions=1)
    write.add_run(sqlite_db, run)
    first = run.plan[0]
    start = make_start(run, first)
    write.start_trial(sqlite_db, start)
    write.end_trial(sqlite_db, make_end(start))

    unsupported = _rows(verdict_table(db, ids.run_id))["io_uring_send_zc", 65536].case
    table = verdict_table(sqlite_db, run.id)

    assert (unsupported.missing, unsupported.statistic) == ("unsupported", None)
    demand, throughput = table.metrics[0], table.metrics[1]
    ran = {row.case.plan_key: row.case.missing for row in demand.rows}
    assert ran[first.plan_key] == "not measured"
    assert sorted(missing for missing in ran.values() if missing) == ["not measured", "not run"]
    # The case that has not run yet stands beside the baseline it would join.
    assert {row.role for row in throughput.rows} == {"baseline", "candidate"}


def test_the_headline_cpu_method_is_shown(demo: Demo) -> None:
    db, ids = demo

    methods = [(m.metric, m.method, m.note) for m in verdict_table(db, ids.run_id).metrics]

    assert methods == [
        ("service_demand_sender", "soak", None),
        ("throughput", "", None),
        ("service_demand_receiver", "soak", None),
    ]


def test_without_soaking_rusage_is_shown_with_the_reason(sqlite_db: Database) -> None:
    compare = {"baseline": {"api": "write"}, "metrics": ["service_demand_sender"], "matters": 0.02}
    run = make_run(1, cases=(make_case(),), repetitions=1, compare=compare)
    write.add_run(sqlite_db, run)
    start = make_start(run, run.plan[0])
    write.start_trial(sqlite_db, start)
    why = "both ends share CPU 0 (pinning same)"
    measured = (
        MetricValue("service_demand_sender", "soak", None, why),
        MetricValue("service_demand_sender", "rusage", 0.2),
    )
    write.end_trial(sqlite_db, make_end(start, measurements=measured))

    metric = verdict_table(sqlite_db, run.id).metrics[0]

    assert metric.method == "rusage"
    assert metric.note == (
        f"no value by soak ({why}): rusage is shown, the CPU time of the endpoint processes alone"
    )
    assert metric.rows[0].case.statistic is not None
    assert metric.rows[0].case.statistic.mean == 0.2


def test_throughput_stands_beside_a_cost_without_being_judged(sqlite_db: Database) -> None:
    compare = {"baseline": {"api": "write"}, "metrics": ["service_demand_sender"], "matters": 0.02}
    run = _measured_run(sqlite_db, {_case(): BASE, _case(api="sendfile"): BASE}, compare=compare)

    table = verdict_table(sqlite_db, run.id)

    assert [(m.metric, m.is_judged) for m in table.metrics] == [
        ("service_demand_sender", True),
        ("throughput", False),
    ]
    assert [row.verdict for row in table.metrics[1].rows] == [None, None]
    assert table.family_size == 0  # no service demand was measured


def test_contexts_are_not_mixed(sqlite_db: Database) -> None:
    run = make_run(1, cases=(make_case(), make_case(api="sendfile")), repetitions=4)
    write.add_run(sqlite_db, run)
    for place in run.plan:
        kernel = "6.12.0" if place.repetition < 2 else "6.18.0"
        start = make_start(run, place, observed={"sender_kernel": kernel})
        write.start_trial(sqlite_db, start)
        write.end_trial(sqlite_db, make_end(start))

    table = verdict_table(sqlite_db, run.id)

    throughput = table.metrics[1]
    assert [row.role for row in throughput.rows] == ["baseline", "candidate"] * 2
    contexts = [
        queries.case_page(sqlite_db, row.case.case_id or "").factors["sender_kernel"]
        for row in throughput.rows
    ]
    assert contexts == ["6.12.0", "6.12.0", "6.18.0", "6.18.0"]


@pytest.mark.parametrize("compare", [None, {}, {"baseline": {}, "metrics": [], "matters": 0.02}])
def test_an_experiment_without_a_comparison_shows_its_values(
    sqlite_db: Database, compare: dict[str, object] | None
) -> None:
    run = make_run(1, cases=(make_case(),), repetitions=1, compare=compare)
    write.add_run(sqlite_db, run)

    table = verdict_table(sqlite_db, run.id)

    assert [(m.metric, m.is_judged) for m in table.metrics] == [("throughput", False)]
    assert [row.role for row in table.rows] == ["unpaired"]
    assert table.family_size == 0


def test_the_table_names_what_varies_and_what_is_constant(demo: Demo, sqlite_db: Database) -> None:
    db, ids = demo
    cases = tuple(make_case(api=api, tcp_cork=True) for api in ("write", "send"))
    run = make_run(1, cases=cases)
    write.add_run(sqlite_db, run)

    table, corked = verdict_table(db, ids.run_id), verdict_table(sqlite_db, run.id)

    assert table.varying == ("api", "message_size")
    assert table.constant == {"link": "loopback"}
    assert corked.constant == {"link": "loopback", "tcp_cork": True}


def test_remarks_tell_what_was_copied_and_what_failed(demo: Demo) -> None:
    db, ids = demo

    cases = {case.case_id: case for case in verdict_table(db, ids.run_id).cases}

    copied = cases[ids.case_ids["msg_zerocopy", 65536]]
    assert copied.copied_share == 1.0
    assert copied.flags["copied"] == 5
    assert cases[ids.baseline_case_id].copied_share is None
    failed = cases[ids.case_ids["read_write", 4096]]
    assert (failed.ok, failed.failed) == (4, 1)


def test_an_unknown_run_is_named(sqlite_db: Database) -> None:
    with pytest.raises(NotFound, match="there is no run 0195"):
        verdict_table(sqlite_db, "0195")


def test_a_verdict_table_costs_a_fixed_number_of_statements(demo: Demo) -> None:
    db, ids = demo
    counts = []

    for run_id in (ids.run_id, ids.older_run_id):
        with StatementCount(db) as statements:
            verdict_table(db, run_id)
        counts.append(len(statements))

    assert counts == [13, 13]
