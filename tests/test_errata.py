"""Errata: corrections, doubts and retractions, from the command line to the pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from store_support import DemoIds, demo_database
from test_sources import make_figure, make_source

from zcdb.cli import main
from zcdb.errors import StoreError, UsageError
from zcdb.sources import Entry
from zcdb.store import errata, queries
from zcdb.store.rebuild import verify
from zcdb.store.session import Database, opened
from zcdb.store.sources import add_source
from zcdb.webapp import create_app

pytest_plugins = ["store_fixtures"]

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Database, DemoIds]]:
    """The demo database, which the command line uses as well."""
    path = tmp_path / "lab.sqlite"
    ids = demo_database(path)
    monkeypatch.setenv("ZCDB_DATABASE", str(path))
    with opened(path, with_history=False) as db:
        yield db, ids


@pytest.fixture
def run_zcdb(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["zcdb", *arguments])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def _client(db: Database) -> FlaskClient:
    return create_app({"DATABASE": db}).test_client()


def _throughput(db: Database, case_id: str) -> Any:
    return next(
        one for one in queries.case_page(db, case_id).statistics if one.metric == "throughput"
    )


def test_a_corrected_trial_keeps_its_old_value_and_counts_with_the_new_one(
    lab: tuple[Database, DemoIds], run_zcdb: Run
) -> None:
    db, ids = lab
    before = _throughput(db, ids.baseline_case_id)
    old = next(
        value.value
        for value in queries.trial_page(db, ids.ok_trial_id).values
        if value.metric == "throughput"
    )

    code, out, _ = run_zcdb(
        *("correct", ids.ok_trial_id[:10], "--metric", "throughput", "--value", "1G"),
        *("--reason", "a wrong cable", "--by", "tester"),
    )

    page = queries.trial_page(db, ids.ok_trial_id)
    (erratum,) = page.errata
    after = _throughput(db, ids.baseline_case_id)
    assert code == 0
    assert f"throughput of trial {ids.ok_trial_id} corrected from" in out
    assert (erratum.kind, erratum.old, erratum.new) == ("corrected", old, 1e9)
    assert (erratum.reason, erratum.by) == ("a wrong cable", "tester")
    assert [v.value for v in page.values if v.metric == "throughput"] == [1e9]
    assert after.mean == pytest.approx(before.mean + (1e9 - old) / before.n)
    assert verify(db).problems == ()


def test_a_figure_by_several_methods_needs_its_method(lab: tuple[Database, DemoIds]) -> None:
    db, ids = lab
    about: dict[str, Any] = {"value": 0.1, "reason": "a test", "by": "tester"}

    with pytest.raises(UsageError, match="by several methods: perf, procstat, rusage, soak"):
        errata.correct(db, "trial", ids.ok_trial_id, metric="service_demand_sender", **about)
    done = errata.correct(
        db, "trial", ids.ok_trial_id, metric="service_demand_sender", method="soak", **about
    )

    assert (done.method, done.new, done.unit) == ("soak", 0.1, "us/KB")


def test_what_has_no_figure_cannot_be_corrected(lab: tuple[Database, DemoIds]) -> None:
    db, ids = lab
    about: dict[str, Any] = {"value": 1.0, "reason": "a test", "by": "tester"}

    with pytest.raises(UsageError, match="has no figures of its own"):
        errata.correct(db, "run", ids.run_id, metric="throughput", **about)
    with pytest.raises(StoreError, match="has no figure of jitter"):
        errata.correct(db, "trial", ids.ok_trial_id, metric="jitter", **about)
    with pytest.raises(StoreError, match="is failed: it has no figures"):
        errata.correct(db, "trial", ids.failed_trial_id, metric="throughput", **about)
    with pytest.raises(UsageError, match="is not a result"):
        errata.contest(db, "case", ids.baseline_case_id, reason="a test", by="tester")


@pytest.mark.parametrize("value", ["fast", "nan", "1G1"])
def test_a_value_that_is_no_number_is_refused(
    lab: tuple[Database, DemoIds], run_zcdb: Run, value: str
) -> None:
    code, _, err = run_zcdb(
        *("correct", lab[1].ok_trial_id, "--metric", "service_demand_sender"),
        *("--method", "soak", "--value", value, "--reason", "a test"),
    )

    assert code == 2
    assert err.startswith(f"Error: --value {value}")


def test_a_contested_result_stays_and_says_so(lab: tuple[Database, DemoIds], run_zcdb: Run) -> None:
    db, ids = lab
    before = _throughput(db, ids.baseline_case_id)

    code, out, _ = run_zcdb(
        *("contest", f"http://127.0.0.1:8750/trials/{ids.ok_trial_id}"),
        *("--reason", "one CPU, not two", "--by", "tester", "--json"),
    )

    assert code == 0
    assert json.loads(out)["contested"] == "trial"
    assert [one.kind for one in queries.trial_page(db, ids.ok_trial_id).errata] == ["contested"]
    assert _throughput(db, ids.baseline_case_id) == before
    html = _client(db).get(f"/trials/{ids.ok_trial_id}").text
    assert "one CPU, not two" in html


def test_a_retracted_trial_counts_no_longer_and_its_address_says_why(
    lab: tuple[Database, DemoIds], run_zcdb: Run
) -> None:
    db, ids = lab
    before = _throughput(db, ids.baseline_case_id)

    code, out, _ = run_zcdb(
        *("retract", ids.ok_trial_id, "--reason", "a wrong cable", "--by", "tester"),
        *("--successor", ids.copied_trial_id[:12]),
    )

    assert (code, out) == (0, f"trial {ids.ok_trial_id} is retracted\n")
    assert _throughput(db, ids.baseline_case_id).n == before.n - 1
    with pytest.raises(queries.Retracted, match=r"retracted on .* by tester: a wrong cable"):
        queries.trial_page(db, ids.ok_trial_id)
    client = _client(db)
    answer = client.get(f"/trials/{ids.ok_trial_id}")
    as_json = client.get(f"/trials/{ids.ok_trial_id}.json")
    assert (answer.status_code, as_json.status_code) == (410, 410)
    assert "a wrong cable" in answer.text
    assert f"/trials/{ids.copied_trial_id}" in answer.text
    assert "a wrong cable" in as_json.get_json()["error"]
    assert verify(db).problems == ()


def test_a_retracted_run_takes_its_trials_along(lab: tuple[Database, DemoIds]) -> None:
    db, ids = lab

    errata.retract(db, "run", ids.run_id, reason="the wrong kernel", by="tester")

    statistic = _throughput(db, ids.baseline_case_id)
    assert (statistic.n, statistic.runs) == (5, 1)
    assert _client(db).get(f"/runs/{ids.run_id}").status_code == 410
    excluded = [
        row.trial.excluded
        for row in queries.case_page(db, ids.baseline_case_id).trials
        if row.trial.run_id == ids.run_id
    ]
    assert excluded == ["retracted: the wrong kernel"] * 5
    with pytest.raises(StoreError, match="is retracted already"):
        errata.retract(db, "run", ids.run_id, reason="again", by="tester")


def test_a_corrected_entry_keeps_what_was_stated(db: Database) -> None:
    stored = add_source(db, make_source())
    (entry_id,) = stored.entries

    errata.correct(
        db, "entry", entry_id, metric="throughput", value=2e9, reason="a typo", by="tester"
    )

    entry = queries.entry_page(db, entry_id)
    figure = entry.figures[0]
    assert (figure.value, figure.stated) == (2e9, "1000 Mbit/s")
    assert [(one.old, one.new) for one in entry.errata] == [(1e9, 2e9)]
    assert queries.case_page(db, str(entry.case_id)).statistics[0].mean == 2e9
    add_source(db, make_source(form="test 2"))
    assert queries.entry_page(db, entry_id).figures[0].value == 2e9
    assert verify(db).problems == ()


def test_a_retracted_entry_leaves_the_others_of_its_source(db: Database) -> None:
    entry = make_source().entries[0]
    second = Entry("second", "netperf", "result", (9, 12), entry.factors, [make_figure(3e9)])
    stored = add_source(db, make_source(entries=[entry, second]))

    errata.retract(db, "entry", stored.entries[0], reason="another machine", by="tester")

    page = queries.source_page(db, stored.id)
    assert [one.left_out for one in page.entries] == ["retracted: another machine", None]
    statistic = queries.case_page(db, str(page.entries[1].case_id)).statistics[0]
    assert (statistic.n, statistic.mean) == (1, 3e9)
    client = _client(db)
    assert client.get(f"/entries/{stored.entries[0]}").status_code == 410
    assert (
        client.get(f"/entries/{stored.entries[1]}")
        .headers["Location"]
        .endswith(f"/sources/{stored.id}#{stored.entries[1]}")
    )


def test_a_retracted_source_answers_410(db: Database) -> None:
    stored = add_source(db, make_source())

    errata.retract(db, "source", stored.id, reason="not our file", by="tester")

    assert _client(db).get(f"/sources/{stored.id}").status_code == 410
    assert queries.errata_of(db, stored.id)[0].reason == "not our file"


def test_an_excluded_trial_stays_with_its_reason(
    lab: tuple[Database, DemoIds], run_zcdb: Run
) -> None:
    db, ids = lab

    code, out, _ = run_zcdb(
        *("exclude", ids.ok_trial_id[:12], "--reason", "a backup ran", "--by", "tester")
    )
    again, _, err = run_zcdb("exclude", ids.ok_trial_id, "--reason", "again")

    assert (code, out) == (0, f"trial {ids.ok_trial_id} is excluded\n")
    assert (again, err) == (1, f"Error: trial {ids.ok_trial_id} is excluded already\n")
    assert queries.trial_page(db, ids.ok_trial_id).trial.excluded == "a backup ran"
