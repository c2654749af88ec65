"""Comparison along a factor: pairs, verdicts, warnings, and every form it is written in."""

from __future__ import annotations

import csv
import io
import json

import pytest
from click.testing import CliRunner
from store_support import (
    DemoIds,
    StatementCount,
    make_environment,
    make_run,
    run_trials,
)

from zcdb import factors
from zcdb.cli import cli
from zcdb.errors import UsageError
from zcdb.report import asking
from zcdb.report import compare as comparing
from zcdb.report import compare_render as render
from zcdb.report.naming import distinguishing, told_text
from zcdb.store import write
from zcdb.store.queries import NotFound
from zcdb.store.queries import compare as pairing
from zcdb.store.queries.compare import Pair, Pairs, Side
from zcdb.store.results import Statistic
from zcdb.store.session import Database, open_database

pytest_plugins = ["store_fixtures"]

Demo = tuple[Database, DemoIds]


def _ask(*candidates: str, baseline: str = "write", axis: str = "api", **others: object):
    return asking.ask_factor(axis, baseline, list(candidates), **others)


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    db = open_database(tmp_path_factory.mktemp("history") / "history.db")
    yield db
    db.dispose()


THROUGHPUT = ("throughput", "")


def _throughput(mean: float) -> Statistic:
    return Statistic(*THROUGHPUT, 5, mean, None, mean / 100, None, None, None)


def test_every_pair_that_differs_in_the_factor_alone_is_found(demo: Demo):
    db, ids = demo

    report = comparing.compare(db, _ask("sendfile", "msg_zerocopy"))

    demand = report.metrics[0]
    names = [render.row_name(report, row) for row in demand.rows]
    assert names == [
        "message size 4 KiB, sendfile",
        "message size 4 KiB, msg_zerocopy",
        "message size 64 KiB, sendfile",
        "message size 64 KiB, msg_zerocopy",
    ]
    assert [row.verdict.word for row in demand.rows] == ["better", "worse", "better", "worse"]
    assert {row.kind for row in demand.rows} == {"paired"}
    assert demand.rows[2].baseline.case_id == ids.baseline_case_id
    assert report.found == 4
    assert report.family_size == 8


def test_blocks_are_paired_as_the_run_s_own_table_pairs_them(tmp_path):
    db = open_database(tmp_path / "one.db", with_history=False)
    environment = make_environment()
    write.add_environment(db, environment)
    run = make_run(1)
    write.add_run(db, run)
    run_trials(db, run, environment)
    from zcdb.report.verdicts import verdict_table

    table = verdict_table(db, run.id)
    report = comparing.compare(db, _ask("sendfile", metrics=("service_demand_sender",)))

    asked = {
        row.case.case_id: row.verdict.ratio
        for row in table.metrics[0].rows
        if row.verdict and row.case.factors["api"] == "sendfile"
    }
    assert {r.candidate.case_id: r.verdict.ratio for r in report.metrics[0].rows} == pytest.approx(
        asked
    )
    db.dispose()


def test_filters_hold_for_both_cases_of_a_pair(demo: Demo):
    db, _ = demo

    report = comparing.compare(db, _ask("sendfile", where={"message_size": ["4K"]}))

    assert [row.baseline.factors["message_size"] for row in report.metrics[0].rows] == [4096]


def test_cases_without_a_partner_are_counted_with_their_level(demo: Demo):
    db, _ = demo

    report = comparing.compare(db, _ask("64K", axis="message_size", baseline="4K"))

    assert report.unpaired == (("65536", 1),)
    assert "1 case with message_size 64 KiB has no partner." in report.warnings


def test_a_cost_never_stands_without_the_throughput(demo: Demo):
    db, _ = demo

    report = comparing.compare(db, _ask("sendfile", metrics=("service_demand_receiver",)))

    assert [(m.metric, m.is_judged) for m in report.metrics] == [
        ("service_demand_receiver", True),
        ("throughput", False),
    ]
    assert any("one end only" in sentence for sentence in report.warnings)


def test_the_linter_tells_of_failures(demo: Demo):
    db, _ = demo

    report = comparing.compare(db, _ask("sendfile"))

    assert report.failed == 1
    assert any(sentence.startswith("1 trial of these cases failed") for sentence in report.warnings)


def test_two_runs_are_compared_case_by_case(demo: Demo):
    db, ids = demo
    question = comparing.Question("runs", "", ids.older_run_id, (ids.run_id,))

    report = comparing.compare(db, question)

    assert report.found == 8
    assert {row.kind for row in report.metrics[0].rows} == {"welch"}
    assert report.unpaired == (("candidate", 1),)


def test_two_cases_are_compared_whatever_they_differ_in(demo: Demo):
    db, ids = demo
    first, second = ids.case_ids["write", 4096], ids.case_ids["sendfile", 65536]

    report = comparing.compare(db, comparing.Question("cases", "", first, (second,)))

    assert report.followers == {
        "api": ("write", "sendfile"),
        "message_size": ("4 KiB", "64 KiB"),
    }
    assert "api differs too: write against sendfile." in report.warnings


def test_what_is_not_there_is_named(demo: Demo):
    db, _ = demo
    with pytest.raises(NotFound, match="there is no case 00000000000000000000000000000000"):
        comparing.compare(db, comparing.Question("cases", "", "0" * 32, ("1" * 32,)))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("apii", "write", ["send"]), "there is no factor 'apii'"),
        (("api", "write", ["sendfil"]), "api: 'sendfil' is not one of"),
        (("api", "write", ["write"]), "each level is compared once"),
        (("api", "write", []), "needs something to compare"),
    ],
)
def test_what_makes_no_sense_is_told(arguments, sentence):
    with pytest.raises(UsageError, match=sentence):
        asking.ask_factor(*arguments)


def test_the_same_question_has_one_address():
    first = _ask("sendfile", where={"message_size": ["64K", "4096"], "link": ["veth"]})
    second = _ask("sendfile", where={"link": ["veth"], "message_size": ["65536", "4K"]})

    assert first.query() == second.query()
    assert first.query().startswith("axis=api&a=write&b=sendfile&link=veth&message_size=65536")


def test_many_pairs_say_what_few_pairs_say(demo: Demo, monkeypatch):
    db, _ = demo
    few = comparing.compare(db, _ask("sendfile", "msg_zerocopy"))
    monkeypatch.setattr(comparing, "EXACT_LIMIT", 0)

    many = comparing.compare(db, _ask("sendfile", "msg_zerocopy"))

    assert many.family_size == few.family_size
    for a, b in zip(few.metrics[0].rows, many.metrics[0].rows, strict=True):
        assert (a.verdict.word, b.kind) == (b.verdict.word, "welch")
        assert a.verdict.ratio == pytest.approx(b.verdict.ratio, rel=0.01)


def test_pairs_made_one_by_one_say_what_pairs_made_at_once_say(demo: Demo, monkeypatch):
    db, _ = demo
    question = _ask("sendfile", "msg_zerocopy", metrics=("throughput", "service_demand_sender"))
    monkeypatch.setattr(comparing, "EXACT_LIMIT", 0)
    at_once = comparing.compare(db, question)
    monkeypatch.setattr(pairing, "EXACT_LIMIT", 0)

    one_by_one = comparing.compare(db, question)

    def rows(report):
        return {
            (metric.metric, row.baseline.case_id, row.candidate.case_id): row
            for metric in report.metrics
            for row in metric.rows
        }

    assert rows(one_by_one).keys() == rows(at_once).keys()
    for key, row in rows(at_once).items():
        made = rows(one_by_one)[key]
        assert made.verdict.ratio == row.verdict.ratio
        assert made.verdict.word == row.verdict.word
        assert made.baseline_statistic == row.baseline_statistic
        assert made.baseline.factors == row.baseline.factors
    for lazy, eager in zip(one_by_one.metrics, at_once.metrics, strict=True):
        assert lazy.tally.words == eager.tally.words
        assert lazy.mean_ratio == pytest.approx(eager.mean_ratio, rel=1e-12)
        assert lazy.tally.missing == eager.tally.missing
        assert lazy.tally.at_link_rate == eager.tally.at_link_rate


def test_pairs_at_the_rate_of_their_link_are_counted():
    sides = [
        Side("a" * 32, '{"link_rate":1000000000}', {THROUGHPUT: _throughput(940e6)}),
        Side("b" * 32, '{"sender_link_speed":"1000000000"}', {THROUGHPUT: _throughput(500e6)}),
        Side("c" * 32, "{}", {THROUGHPUT: _throughput(990e6)}),
        Side("d" * 32, "{}", {}),
    ]
    chosen = [(0, 1), (1, 2), (2, 1), (1, 3)]
    pairs = Pairs([Pair(sides[a], sides[b], {}) for a, b in chosen], len(chosen), (), 0, {})
    question = comparing.Question("factor", "api", "write", ("send",), metrics=("throughput",))

    report = comparing.make_report(question, pairs)

    tally = report.metrics[0].tally
    assert (tally.at_link_rate, tally.missing) == (1, 1)
    assert any("1 pair with throughput at the link's rate" in said for said in report.warnings)
    assert any("Throughput: 1 pair without a value on both" in said for said in report.warnings)


def test_a_comparison_takes_a_fixed_number_of_statements(demo: Demo):
    db, _ = demo
    counts = []
    for candidates in (["sendfile"], ["sendfile", "msg_zerocopy", "read_write"]):
        with StatementCount(db) as counted:
            comparing.compare(db, _ask(*candidates))
        counts.append(len(counted.statements))

    assert counts[0] == counts[1] <= 10


# -- what was published -------------------------------------------------------------------------


def test_poirier_s_latency_rate_is_detectable_and_equivalent_at_half_a_percent(history):
    question = _ask(
        "on",
        axis="tx_nocache_copy",
        baseline="off",
        metrics=("transaction_rate",),
        matters=0.005,
    )

    report = comparing.compare(history, question)

    rows = {
        row.baseline.factors["request_size"]: row.verdict
        for row in report.metrics[0].rows
        if row.verdict
    }
    verdict = rows[14000]
    assert (verdict.word, verdict.is_detectable) == ("equivalent", True)
    assert verdict.ratio - 1 == pytest.approx(-0.0039, abs=5e-5)
    assert verdict.n_baseline == verdict.n_candidate == 10
    assert rows[1400].word == "equivalent"


def test_poirier_s_cycles_per_byte_are_worse(history):
    question = _ask(
        "on",
        axis="tx_nocache_copy",
        baseline="off",
        metrics=("cycles_per_byte_sender",),
        method="perf",
        where={"pinning": ["sender=0;receiver=0"]},
    )

    (row,) = comparing.compare(history, question).metrics[0].rows

    assert row.verdict.word == "worse"
    assert render.change_text(row.verdict.ratio) == "+4.8 %"
    assert row.kind == "welch"


def test_a_single_published_figure_has_a_ratio_and_no_verdict(history):
    question = _ask(
        "2.4.1-pre10+zerocopy",
        axis="sender_kernel",
        baseline="2.4.1-pre10",
        metrics=("machine_utilisation_sender",),
        method="soak_work",
    )

    report = comparing.compare(history, question)

    verdicts = [row.verdict for row in report.metrics[0].rows if row.verdict]
    assert verdicts
    assert {verdict.word for verdict in verdicts} == {"undecided"}
    assert all(verdict.ratio is not None and verdict.low is None for verdict in verdicts)
    assert any("a ratio without an interval decides nothing" in one for one in report.warnings)


# -- forms --------------------------------------------------------------------------------------


def test_text_fits_a_mail(history, demo: Demo):
    texts = [
        render.render_text(comparing.compare(demo[0], _ask("sendfile", "msg_zerocopy"))),
        render.render_text(
            comparing.compare(
                history, _ask("on", axis="tx_nocache_copy", baseline="off", matters=0.005)
            )
        ),
    ]
    for text in texts:
        assert max(map(len, text.splitlines())) <= 78
        assert text.endswith("\n")
    assert "message size 4 KiB, sendfile" in texts[0]


def test_csv_and_json_have_every_number_in_base_units(demo: Demo):
    report = comparing.compare(demo[0], _ask("sendfile"))

    rows = list(csv.DictReader(io.StringIO(render.render_csv(report))))
    data = render.to_json(report)

    assert [row["metric"] for row in rows] == ["service_demand_sender"] * 2 + ["throughput"] * 2
    pair = data["metrics"][1]["pairs"][0]
    assert float(rows[2]["ratio"]) == pair["verdict"]["ratio"]
    assert float(rows[2]["candidate_mean"]) == pair["candidate"]["statistic"]["mean"] > 1e9
    json.dumps(data, allow_nan=False)


def test_markdown_and_latex_hold_the_same_table(demo: Demo):
    report = comparing.compare(demo[0], _ask("msg_zerocopy"))

    markdown, latex = render.render_markdown(report), render.render_latex(report)

    assert "| message size 4 KiB | 0.380 | 0.431 | +13." in markdown
    assert r"message size 4 KiB & 0.380 & 0.431 &" in latex
    assert "msg\\_zerocopy" in latex
    assert latex.count(r"\begin{table}") == latex.count(r"\end{table}") == 2


def test_names_hold_just_what_tells_cases_apart():
    cases = [
        {"api": "send", "message_size": 1, "sender_kernel": "6", "receiver_kernel": "6"},
        {"api": "send", "message_size": 2, "sender_kernel": "6", "receiver_kernel": "6"},
        {"api": "write", "message_size": 1, "sender_kernel": "7", "receiver_kernel": "7"},
    ]
    names = ["api", "message_size", "sender_kernel", "receiver_kernel"]

    assert distinguishing(cases, names) == ["api", "message_size"]
    assert told_text(cases[2], names) == "write, message size 1 B, kernel 7"
    assert told_text({"sg": factors.UNSTATED, "mtu": 1500}, ["sg", "mtu"]) == "MTU 1500"


# -- the command --------------------------------------------------------------------------------


def _run(*arguments: str):
    return CliRunner().invoke(cli, ["compare", *arguments])


def test_the_command_compares_levels_and_gates(demo: Demo):
    database = ["--database", demo[0].url]

    good = _run("api=write", "sendfile", "--fail-if", "worse", *database)
    bad = _run("api=write", "msg_zerocopy", "--fail-if", "worse", *database)

    assert (good.exit_code, bad.exit_code) == (0, 1)
    assert good.stdout.startswith("api: sendfile against write\n")
    assert "A pair is worse." in bad.stderr


def test_the_command_takes_beginnings_of_ids(demo: Demo):
    db, ids = demo
    cases = [ids.case_ids["write", 4096][:10], ids.case_ids["sendfile", 4096][:10]]

    result = _run(*cases, "--json", "--database", db.url)

    assert result.exit_code == 0
    assert json.loads(result.stdout)["kind"] == "cases"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["api=write", "sendfile", "--metric", "speed"], "there is no metric 'speed'"),
        (["api=write", "sendfile", "--where", "link"], "is not FACTOR=VALUE"),
        (["api=write", "sendfile", "--matters", "lots"], "--matters: "),
        (["api=write", "sendfile", "--method", "guess"], "there is no CPU method 'guess'"),
    ],
)
def test_a_wrong_command_is_told_in_a_sentence(demo: Demo, arguments, sentence):
    result = _run(*arguments, "--database", demo[0].url)

    assert result.exit_code != 0
    assert sentence in str(result.exception) + result.output
    assert "Traceback" not in result.output
