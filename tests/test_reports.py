"""Frozen reports: their bytes, their verification, their pages."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner
from store_support import DemoIds, make_environment, make_run, run_trials, write_demo
from web_support import client_of, get_json, get_page

from zcdb.cli import cli
from zcdb.errors import StoreError, UsageError
from zcdb.report import freeze
from zcdb.report.freeze import ReportError
from zcdb.store import rebuild, reports, write
from zcdb.store.queries import NotFound
from zcdb.store.session import Database, open_database

pytest_plugins = ["store_fixtures"]

Demo = tuple[Database, DemoIds]
QUERY = "axis=api&a=write&b=sendfile&b=msg_zerocopy"
AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


@pytest.fixture
def filled(tmp_path):
    db = open_database(tmp_path / "filled.db", with_history=False)
    ids = write_demo(db)
    yield db, ids
    db.dispose()


def _frozen(db: Database, query: str = QUERY):
    return freeze.freeze(db, query, "sendfile in 2026", AT)


def test_a_report_is_named_by_its_bytes(filled):
    db, _ = filled

    first, second = _frozen(db), _frozen(db)

    assert first == second
    assert reports.report(db, first.id) == first
    assert reports.report_id(first.content) == first.id
    assert first.slug == "sendfile-in-2026"
    assert len(reports.report_list(db)[0]) == 1


@pytest.mark.parametrize(
    "query",
    [
        QUERY,
        "axis=message_size&a=4K&b=64K&api=write&m=throughput&matters=0.05",
        "of=runs&a={older_run_id}&b={run_id}",
        "of=cases&a={baseline_case_id}&b={baseline_case_id}",
    ],
)
def test_every_figure_follows_from_the_inputs(filled, query):
    db, ids = filled

    stored = _frozen(db, query.format(**{n: getattr(ids, n) for n in ids.__dataclass_fields__}))

    assert freeze.verify(stored) == []
    assert freeze.today(db, stored) == []


def test_bytes_survive_a_rebuild_and_another_database(filled, tmp_path):
    db, _ = filled
    stored = _frozen(db)
    rebuild.rebuild(db)
    other = open_database(tmp_path / "other.db", with_history=False)
    write_demo(other)

    again = _frozen(other)

    assert reports.report(db, stored.id).content == stored.content
    assert (again.id, again.content, again.inputs) == (stored.id, stored.content, stored.inputs)
    assert freeze.from_file(freeze.to_file(stored), "x.json") == stored
    other.dispose()


def test_newer_data_move_today_s_answer_and_not_the_report(filled):
    db, _ = filled
    stored = _frozen(db)
    run, environment = make_run(3), make_environment()
    write.add_run(db, run)
    run_trials(db, run, environment, seed=9)

    moved = freeze.today(db, stored)

    assert moved
    assert any(one.place.endswith("statistic.n") for one in moved)
    assert freeze.verify(reports.report(db, stored.id)) == []


def test_a_changed_report_is_refused(filled):
    db, _ = filled
    stored = _frozen(db)
    content = json.loads(stored.content)
    content["comparison"]["metrics"][0]["mean_ratio"] = 0.5
    forged = replace(stored, content=json.dumps(content).encode())

    with pytest.raises(ReportError, match="was changed"):
        freeze.verify(forged)
    with pytest.raises(StoreError, match="content was changed"):
        reports.add_report(db, forged)
    text = freeze.to_file(stored).decode().replace("sendfile in 2026", "sendfile in 2027")
    with pytest.raises(ReportError, match=r"r\.json: was changed"):
        freeze.from_file(text.encode(), "r.json")


def test_changed_inputs_give_other_figures(filled):
    db, _ = filled
    stored = _frozen(db)
    inputs = json.loads(stored.inputs)
    pair = inputs["pairs"][0]
    pair[2][0][2] = [[a, b * 1.5] for a, b in pair[2][0][2]]

    moved = freeze.verify(replace(stored, inputs=json.dumps(inputs).encode()))

    assert any(".ratio" in one.place for one in moved)


@pytest.mark.parametrize(
    ("query", "title", "error", "sentence"),
    [
        ("axis=api&a=write", "t", UsageError, "is no comparison"),
        ("a=write&b=send", "t", UsageError, "is no comparison"),
        ("axis=api&of=runs&a=write&b=send", "t", UsageError, "is no comparison"),
        ("axis=api&a=write&b=sendfil", "t", UsageError, "is not one of"),
        ("axis=api&a=write&b=send&matters=x", "t", UsageError, "matters"),
        ("axis=api&a=splice&b=send", "t", ReportError, "nothing to freeze"),
        (QUERY, " ", UsageError, "a title has 1 to 200 characters"),
    ],
)
def test_what_cannot_be_frozen_is_told(filled, query, title, error, sentence):
    with pytest.raises(error, match=sentence):
        freeze.freeze(filled[0], query, title)
    assert reports.report_list(filled[0]) == ((), None)


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'{"content": {}}', b"\xff"])
def test_what_is_no_report_s_file_is_told(data):
    with pytest.raises(ReportError, match="x: not the file of a report"):
        freeze.from_file(data, "x")


def test_links_are_made_from_what_they_stand_for(filled):
    db, _ = filled

    first = reports.add_link(db, "/explore", "api=write", AT)
    second = reports.add_link(db, "/explore", "api=write", datetime.now(UTC))

    assert first == second == reports.link_id("/explore", "api=write")
    assert reports.link(db, first) == ("/explore", "api=write")
    assert reports.links(db) == ((first, "/explore", "api=write"),)
    with pytest.raises(NotFound):
        reports.link(db, "0" * 32)


def test_the_command_freezes_lists_shows_and_verifies(filled, tmp_path):
    db, _ = filled
    run = CliRunner()

    def zcdb(*arguments: str):
        return run.invoke(cli, ["report", *arguments, "--database", db.url])

    made = zcdb("create", QUERY, "--title", "sendfile in 2026")
    report_id = made.stdout.split("/")[2]
    file = tmp_path / "report.json"
    file.write_text(zcdb("show", report_id, "--json").stdout)

    assert made.exit_code == 0
    assert report_id in zcdb("list").stdout
    assert "api: sendfile, msg_zerocopy against write" in zcdb("show", report_id[:8]).stdout
    assert zcdb("verify", report_id).exit_code == 0
    assert run.invoke(cli, ["report", "verify", str(file)]).exit_code == 0
    file.write_text(file.read_text().replace('"failed":1', '"failed":2'))
    assert run.invoke(cli, ["report", "verify", str(file)]).exit_code == 1


# -- pages --------------------------------------------------------------------------------------


def test_the_page_shows_the_frozen_answer_and_how_to_cite_it(filled):
    db, _ = filled
    stored = _frozen(db)
    client = client_of(db)

    page = get_page(client, f"/reports/{stored.id}/{stored.slug}")

    assert page.first("h1").text == "sendfile in 2026"
    assert page.all("span", class_="verdict--better")
    assert "zcdb report" in page.first("pre").text
    assert "Frozen on 2026-03-04T05:06:07Z" in page.first("main").text
    for wrong in (f"/reports/{stored.id}", f"/reports/{stored.id}/other"):
        answer = client.get(wrong)
        assert (answer.status_code, answer.headers["Location"]) == (
            301,
            f"/reports/{stored.id}/{stored.slug}",
        )


def test_a_report_s_twins_are_its_bytes(filled):
    db, _ = filled
    stored = _frozen(db)
    client = client_of(db)

    answer = client.get(f"/reports/{stored.id}.json")

    assert answer.data == stored.content
    assert "immutable" in answer.headers["Cache-Control"]
    assert client.get(f"/reports/{stored.id}.txt").text == json.loads(stored.content)["text"]
    assert client.get(f"/reports/{stored.id}.csv").text.startswith("metric,method,unit,pair,")
    assert freeze.from_file(client.get(f"/reports/{stored.id}/inputs.json").data, "x") == stored
    drawn = ET.fromstring(client.get(f"/reports/{stored.id}.svg").text)  # noqa: S314
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
    get_page(client, f"/reports/{stored.id}.pdf", 404)


def test_the_verification_page_tells_what_moved(filled):
    db, _ = filled
    stored = _frozen(db)
    client = client_of(db)
    before = get_page(client, f"/reports/{stored.id}/verify").first("main").text
    run = make_run(3)
    write.add_run(db, run)
    run_trials(db, run, make_environment(), seed=9)

    after = get_json(client, f"/reports/{stored.id}/verify.json")

    assert "Every figure follows from the stored inputs" in before
    assert "Today’s data say the same" in before
    assert after["recomputed"] == []
    assert after["moved_count"] == len(after["moved"]) > 0


def test_the_list_and_short_addresses_lead_on(filled):
    db, _ = filled
    stored = _frozen(db)
    link = reports.add_link(db, "/explore", "api=write", AT)
    client = client_of(db)

    page = get_page(client, "/reports")
    answer = client.get(f"/q/{link}")

    assert [a.text for a in page.first("tbody").all("th")] == ["sendfile in 2026"]
    assert page.first("tbody").all("a")[0].attributes["href"].startswith(f"/reports/{stored.id}/")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/explore?api=write")
    get_page(client, f"/q/{'0' * 32}", 404)
    get_page(client, "/reports/123", 400)
