"""Exploring: the index of cases, facets, the pivot, and the page over them."""

from __future__ import annotations

import csv
import io
import math

import numpy as np
import pytest
from store_support import DemoIds, StatementCount, make_environment, make_run, run_trials
from web_support import client_of, get_json, get_page

from zcdb.factors import ABSENT
from zcdb.store import write
from zcdb.store.queries import explore as exploring
from zcdb.store.queries.explore import Asked, explore
from zcdb.store.queries.index import case_index
from zcdb.store.session import Database, open_database

pytest_plugins = ["store_fixtures"]

Demo = tuple[Database, DemoIds]


def _asked(**changes: object) -> Asked:
    values: dict[str, object] = {
        "filters": {},
        "words": (),
        "rows": "",
        "columns": "",
        "metric": "throughput",
        "method": "",
    }
    return Asked(**{**values, **changes})  # type: ignore[arg-type]


def _facet(found, name):
    (facet,) = [facet for facet in found.facets if facet.factor == name]
    return {one.value: one.cases for one in facet.values}


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    db = open_database(tmp_path_factory.mktemp("history") / "history.db")
    yield db
    db.dispose()


def test_all_facets_count_what_choosing_a_value_would_leave(demo: Demo):
    db, _ = demo

    everything = explore(db, _asked())
    narrowed = explore(db, _asked(filters={"api": ("sendfile", "write")}))

    assert everything.total == everything.matching == 9
    assert _facet(everything, "api")["sendfile"] == 2
    assert _facet(everything, "message_size") == {4096: 4, 65536: 5}
    assert narrowed.matching == 4
    # Within a facet any of the values: the others keep what they would add.
    assert _facet(narrowed, "api") == _facet(everything, "api")
    assert _facet(narrowed, "message_size") == {4096: 2, 65536: 2}


def test_factors_without_a_choice_are_no_facets(demo: Demo):
    names = {facet.factor for facet in explore(demo[0], _asked()).facets}

    assert names == {"api", "message_size"}


def test_a_default_is_found_though_no_case_states_it(demo: Demo):
    db, _ = demo

    assert explore(db, _asked(filters={"streams": (1,)})).matching == 9
    assert explore(db, _asked(filters={"streams": (2,)})).matching == 0
    assert explore(db, _asked(filters={"sg": (True,)})).matching == 0


@pytest.mark.parametrize(
    ("words", "cases"),
    [(("sendf",), 2), (("64", "kib", "write"), 2), (("64 KiB",), 5), (("nonsense",), 0)],
)
def test_words_are_looked_for_in_every_factor_s_value(demo: Demo, words, cases):
    assert explore(demo[0], _asked(words=words)).matching == cases


def test_a_list_is_paged_by_case(demo: Demo):
    db, _ = demo
    seen: list[str] = []
    after = None
    for _ in range(9):
        page = explore(db, _asked(after=after, limit=2))
        seen += [case.case_id for case in page.cases]
        after = page.next_after
        if after is None:
            break

    assert len(seen) == len(set(seen)) == 9


def test_a_pivot_has_the_geometric_mean_of_its_cases(demo: Demo):
    db, ids = demo

    found = explore(db, _asked(rows="message_size", columns="api"))

    assert found.pivot is not None
    cell = found.pivot.cells[4096, "write"]
    (case,) = [c for c in explore(db, _asked()).cases if c.case_id == ids.case_ids["write", 4096]]
    (own,) = [s for s in case.statistics if s.metric == "throughput"]
    assert (cell.cases, cell.measured) == (1, 1)
    assert cell.mean == pytest.approx(own.mean)
    assert (4096, "io_uring_send_zc") not in found.pivot.cells
    assert found.pivot.rows == (4096, 65536)
    assert found.without_figure == 1


def test_many_cases_have_the_figures_of_few(demo: Demo, monkeypatch):
    db, _ = demo
    few = explore(db, _asked(rows="message_size", columns="api")).pivot
    monkeypatch.setattr(exploring, "FEW_CASES", 0)

    many = explore(db, _asked(rows="message_size", columns="api")).pivot

    assert few is not None
    assert many is not None
    assert many.cells == few.cells


def test_what_is_kept_in_memory_follows_the_database(tmp_path, monkeypatch):
    monkeypatch.setattr(exploring, "FEW_CASES", 0)
    db = open_database(tmp_path / "grows.db", with_history=False)
    environment = make_environment()
    write.add_environment(db, environment)
    asked = _asked(rows="message_size", columns="api")
    assert explore(db, asked).total == 0

    for number in (1, 2):
        run = make_run(number)
        write.add_run(db, run)
        run_trials(db, run, environment, seed=number)
        found = explore(db, asked)
        assert found.total == 8
        assert found.pivot is not None
        page = explore(db, _asked(filters={"api": ("write",), "message_size": (4096,)}))
        (own,) = [s for s in page.cases[0].statistics if s.metric == "throughput"]
        assert own.n == 5 * number
        assert found.pivot.cells[4096, "write"].mean == pytest.approx(own.mean)
    db.dispose()


def test_an_index_read_in_pieces_is_the_index_read_at_once(history, monkeypatch):
    with history.reading() as session:
        index = case_index(history, session)
        fresh = case_index.__globals__["_Growing"]().view(session)

    assert index.size == fresh.size > 100
    assert set(index.columns) == set(fresh.columns)
    for name in index.columns:
        assert index.counts(name, index.mask({})) == fresh.counts(name, fresh.mask({}))


def test_counts_agree_with_the_rows_of_the_cases(history):
    from sqlalchemy import func, select

    from zcdb.store.models import CaseFactorRow

    with history.reading() as session:
        index = case_index(history, session)
        rows = session.execute(
            select(CaseFactorRow.factor, func.count()).group_by(CaseFactorRow.factor)
        )
        by_factor = dict(tuple(row) for row in rows)
    for name in ("sender_nic", "api", "sg", "sysctl.net.core.rmem_max"):
        counted = index.counts(name, index.mask({}))
        assert sum(counted.values()) == by_factor[name]
        assert ABSENT not in counted


def test_a_metric_nobody_measured_is_not_a_number(demo: Demo):
    db, _ = demo
    with db.reading() as session:
        index = case_index(db, session)
        values = exploring.metric_values(
            db, session, db.revision(), index, index.mask({}), ("jitter", "")
        )

    assert np.isnan(values).all()


def test_exploring_takes_a_fixed_number_of_statements(history, demo: Demo):
    counts = set()
    for db in (history, demo[0]):
        for filters in ({}, {"api": ("sendfile",)}):
            with StatementCount(db) as counted:
                explore(db, _asked(filters=filters, rows="api", columns="message_size"))
            counts.add(len(counted.statements))

    assert len(counts) == 1
    assert counts.pop() <= 6


# -- the pages ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client(demo: Demo):
    return client_of(demo[0])


def test_the_page_links_each_value_with_what_it_leaves(client):
    page = get_page(client, "/explore?api=sendfile&api=write")

    chips = [chip.text for chip in page.all("a", class_="chip")]
    assert chips == ["API: sendfile ×", "API: write ×"]
    assert "4 of 9 cases" in page.first("p", class_="explore__count").text
    facet = page.all("details", class_="facet")[0]
    assert facet.first("summary").text == "API"
    links = {link.text: link.attributes["href"] for link in facet.all("a")}
    assert links["sendfile"] == "/explore?api=write"
    assert links["read_write"] == "/explore?api=read_write&api=sendfile&api=write"


def test_the_twins_have_the_same_state(client):
    data = get_json(client, "/explore.json?message_size=64K&rows=api&cols=message_size")
    rows = list(csv.DictReader(io.StringIO(client.get("/explore.csv?message_size=64K").text)))

    assert data["addresses"]["html"] == ("/explore?message_size=65536&rows=api&cols=message_size")
    assert data["matching"] == 5
    assert len({row["case_id"] for row in rows}) == 5
    assert all(row["mean"] == "" or math.isfinite(float(row["mean"])) for row in rows)


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("/explore?streams=many", "streams: 'many' is not a whole number"),
        ("/explore?m=speed", "There is no metric 'speed'"),
        ("/explore?rows=colour", "There is no factor 'colour'"),
        ("/explore?after=xyz", "is not the id of a case"),
        ("/compare?axis=api&a=write&b=sendfil", "'sendfil' is not one of"),
        ("/compare?a=write&b=sendfile", "one names a factor (axis)"),
        ("/compare?axis=api&a=write&b=sendfile&matters=x", "Matters: "),
        ("/compare?of=runs&a=1&b=2", "is not the id of a run"),
        ("/compare?of=trials&a=1&b=2", "cannot be compared"),
    ],
)
def test_a_query_that_makes_no_sense_is_told(client, address, sentence):
    page = get_page(client, address, 400)

    assert sentence in page.first("main").text


def test_no_case_at_all_is_told_with_a_way_back(client):
    page = get_page(client, "/explore?api=splice")

    assert "No case has all of this at once" in page.first("main").text


def test_the_compare_page_has_the_verdicts_of_the_command(demo: Demo, client):
    from zcdb.report import asking
    from zcdb.report import compare as comparing
    from zcdb.report import compare_render as render

    address = "/compare?axis=api&a=write&b=sendfile"
    page, data = get_page(client, address), get_json(client, address.replace("?", ".json?"))
    report = comparing.compare(demo[0], asking.ask_factor("api", "write", ["sendfile"]))

    assert page.first("h1").text == "api: sendfile against write"
    words = [cell.text for cell in page.all("span", class_="verdict")]
    assert words[:2] == ["↓ better", "↓ better"]
    assert data["summary"] == render.summary(report)
    assert [row["p_adjusted"] for row in data["metrics"][0]["rows"]] == [
        row.verdict.p_adjusted for row in report.metrics[0].rows if row.verdict
    ]
    assert client.get(address.replace("?", ".csv?")).text == render.render_csv(report)


def test_without_a_question_the_compare_page_is_a_form(client):
    page = get_page(client, "/compare?axis=message_size")

    options = [o.text for o in page.first("select", id="a").all("option")]
    assert options == ["choose", "4 KiB", "64 KiB"]
