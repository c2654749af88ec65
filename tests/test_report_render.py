"""Verdict tables as text, Markdown and JSON, and results as text."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from store_support import DemoIds, make_case, make_run

from zcdb.report import text as texts
from zcdb.report.plain import plain
from zcdb.report.show import show
from zcdb.report.table import VerdictTable
from zcdb.report.verdicts import render_markdown, render_text, to_json, verdict_table
from zcdb.store import queries, write
from zcdb.store.session import Database

pytest_plugins = ["store_fixtures"]

Demo = tuple[Database, DemoIds]


@pytest.fixture
def table(demo: Demo) -> VerdictTable:
    db, ids = demo
    return verdict_table(db, ids.run_id)


def _line(text: str, beginning: str, after: str = "") -> str:
    rest = text[text.index(after) :]
    return next(line for line in rest.splitlines() if line.startswith(beginning))


def test_text_fits_a_mail(table: VerdictTable) -> None:
    text = render_text(table)

    assert max(len(line) for line in text.splitlines()) <= 78
    assert text.endswith("\n")
    assert text.splitlines()[0] == "Does sendfile cost less CPU than write here?"
    assert table.run.id in text


def test_text_shows_absolute_values_interval_n_ratio_and_verdict(table: VerdictTable) -> None:
    text = render_text(table)

    (row,) = [
        row
        for row in table.metrics[0].rows
        if (row.case.factors["api"], row.case.factors["message_size"]) == ("sendfile", 65536)
    ]
    verdict, statistic = row.verdict, row.case.statistic
    assert verdict is not None
    assert statistic is not None
    words = _line(text, "  sendfile", after="message size 64 KiB").split()
    assert words[0] == "sendfile"
    assert float(words[1]) == pytest.approx(statistic.mean, rel=0.005)
    assert words[2].startswith("±")
    assert words[4] == "5"
    assert float(words[5]) == pytest.approx(verdict.ratio, rel=0.005)
    assert float(words[6].strip("[,")) == pytest.approx(verdict.low, rel=0.005)
    assert float(words[7].strip("]")) == pytest.approx(verdict.high, rel=0.005)
    assert words[8:] == ["<0.001", "better"]


def test_numbers_of_a_column_stand_below_each_other(table: VerdictTable) -> None:
    lines = render_text(table).splitlines()

    points = {line.index(".", 15) for line in lines[5:15] if "±" in line}

    assert len(points) == 1


def test_text_counts_what_failed_and_what_it_rests_on(table: VerdictTable) -> None:
    text = " ".join(render_text(table).split())

    assert "39 of 45 trials ok, 1 failed, 5 unsupported, 1 interrupted" in text
    assert "18 comparisons, judged together" in text
    assert "Differences below 2 % count as equivalent" in text
    assert "± is half the 95 % interval (t) of the mean" in text
    assert "read_write, message size 4 KiB: 1 failed: the receiver stopped reading" in text
    assert "msg_zerocopy, message size 64 KiB: the kernel says it copied 100 %" in text
    assert "steal (2 trials): The hypervisor took CPU time" in text
    assert "The same for all: link loopback." in text
    assert _line(render_text(table), "  io_uring_send_zc").split() == [
        *["io_uring_send_zc", "none", "0", "unsupported"]
    ]


def test_a_long_name_gets_a_line_of_its_own(sqlite_db: Database) -> None:
    cases = tuple(
        make_case(api="sendmsg", fragments=n, congestion_control="a-congestion-control-of-mine")
        for n in (1, 1024)
    )
    compare = {"baseline": {"fragments": 1}, "metrics": ["throughput"], "matters": 0.02}
    wide = {"baseline": {**compare["baseline"], "congestion_control": "x"}}  # type: ignore
    run = make_run(1, cases=cases, compare=compare | wide)
    write.add_run(sqlite_db, run)
    table = verdict_table(sqlite_db, run.id)
    named = replace(table, varying=("congestion_control", "fragments"))

    lines = render_text(named).splitlines()

    assert "  congestion control a-congestion-control-of-mine, fragments 1024" in lines
    assert max(len(line) for line in lines) <= 78


def test_rows_that_need_different_prefixes_carry_their_own(table: VerdictTable) -> None:
    throughput = table.metrics[1]
    first = throughput.rows[0]
    assert first.case.statistic is not None
    slow = replace(
        first, case=replace(first.case, statistic=replace(first.case.statistic, mean=5e6))
    )
    changed = replace(table, metrics=(replace(throughput, rows=(slow, *throughput.rows[1:])),))

    text = render_text(changed)

    throughputs = text[text.index("Throughput") :]
    assert throughputs.splitlines()[1].split()[0] == "bit/s"
    assert _line(throughputs, "  write").split()[:3] == ["write", "5.00", "M"]
    assert _line(throughputs, "  sendfile").split()[2] == "G"
    assert max(len(line) for line in text.splitlines()) <= 78


def test_an_undecided_row_says_how_many_repetitions_would_decide(table: VerdictTable) -> None:
    (row,) = [
        row
        for row in table.metrics[2].rows
        if (row.case.factors["api"], row.case.factors["message_size"]) == ("sendfile", 4096)
    ]
    assert row.verdict is not None
    assert row.verdict.word == "undecided"

    text = render_text(table)

    line = _line(text, "  sendfile", after="Service demand, receiver")
    assert line.endswith(f"undecided ({row.verdict.repetitions_needed})")
    assert "undecided (n): n repetitions would probably decide." in text


def test_an_experiment_without_a_baseline_says_so(sqlite_db: Database) -> None:
    run = make_run(1, cases=(make_case(),), compare=None)
    write.add_run(sqlite_db, run)

    text = render_text(verdict_table(sqlite_db, run.id))

    assert "The experiment names no baseline: nothing is compared." in text
    assert _line(text, "  this case").split() == ["this", "case", "none", "0", "not", "run"]


def test_markdown_has_a_table_for_each_metric(table: VerdictTable) -> None:
    markdown = render_markdown(table)

    lines = markdown.splitlines()
    assert lines[0] == "## Does sendfile cost less CPU than write here?"
    assert [line for line in lines if line.startswith("###")] == [
        "### Service demand, sender, by soak; lower is better",
        "### Throughput; higher is better",
        "### Service demand, receiver, by soak; lower is better",
    ]
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 3 * (2 + 9)
    assert {row.count("|") for row in rows} == {9}
    assert any(row.startswith("| sendfile, message size 4 KiB | ") for row in rows)


def test_json_has_the_same_numbers_in_base_units(table: VerdictTable) -> None:
    found = json.loads(json.dumps(to_json(table)))

    assert found["run"]["id"] == table.run.id
    assert found["run"]["started_at"] == "2026-03-03T12:00:00+00:00"
    metric = found["metrics"][1]
    assert (metric["metric"], metric["unit"], metric["better"]) == ("throughput", "bit/s", "higher")
    for row, expected in zip(metric["rows"], table.metrics[1].rows, strict=True):
        statistic = expected.case.statistic
        assert (row["case"]["statistic"] or {}).get("mean") == (statistic and statistic.mean)
        word = expected.verdict.word if expected.verdict else None
        assert (row["verdict"] or {}).get("word") == word
    assert found["remarks"][0].startswith("± is half")


def test_plain_values_are_json_and_keys_by_metric_and_method(demo: Demo) -> None:
    db, ids = demo

    case = plain(queries.case_page(db, ids.baseline_case_id))
    run = plain(queries.run_page(db, ids.run_id))

    json.dumps(case)
    json.dumps(run)
    assert case["trials"][0]["values"]["service_demand_sender/soak"] > 0
    assert case["trials"][0]["values"]["throughput"] > 0
    assert run["cases"][0]["series"][0]["excluded"] == []


def test_a_trial_as_text_has_every_number_or_the_reason(demo: Demo) -> None:
    db, ids = demo

    _, text = show(db, ids.copied_trial_id)

    assert f"trial {ids.copied_trial_id}" in text
    assert "message size" in text.lower()
    assert "none: this machine offers no hardware counters" in text
    assert "Copied share" in text
    assert "100 %" in text
    assert "copied: Zero copy was asked for" in text
    assert '"payload_bytes"' in text


def test_a_trial_without_values_says_so(demo: Demo) -> None:
    db, ids = demo

    _, text = show(db, ids.unsupported_trial_id)

    assert "No value." in text
    assert "unsupported: io_uring is switched off" in text


def test_a_run_as_text_lists_every_attempt_after_the_verdicts(demo: Demo) -> None:
    db, ids = demo

    result, text = show(db, ids.run_id)

    assert text.startswith(render_text(verdict_table(db, ids.run_id)))
    for id in (ids.interrupted_trial_id, ids.retried_trial_id, ids.failed_trial_id):
        assert id in text
    assert "failed: interrupted" in text
    assert "soaker_effect_ratio" in text
    assert result["verdicts"]["family_size"] == 18


def test_a_place_that_was_not_reached_is_planned(sqlite_db: Database) -> None:
    run = make_run(1)
    write.add_run(sqlite_db, run)

    _, text = show(sqlite_db, run.id)

    assert text.count("planned\n") == len(run.plan)


def test_empty_lists_say_what_to_run(sqlite_db: Database) -> None:
    assert texts.run_list_text(queries.run_list(sqlite_db)).startswith("No run is recorded yet;")
    experiments = queries.experiment_list(sqlite_db)
    assert "'zcdb run'" in texts.experiment_list_text(experiments)
    assert "'zcdb run'" in texts.case_list_text(queries.case_list(sqlite_db))
