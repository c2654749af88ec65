"""The pages of the founding tables, of sources, and of cases that others published."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from store_support import StatementCount
from test_sources import make_source

from zcdb.store import queries
from zcdb.store.session import Database, open_database
from zcdb.store.sources import add_source
from zcdb.webapp import create_app

EXPECTED = json.loads(
    (Path(__file__).parent / "data" / "history" / "expected.json").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A new database with the founding tables and one imported file."""
    database = open_database(tmp_path_factory.mktemp("pages") / "lab.sqlite")
    add_source(database, make_source())
    yield database
    database.dispose()


@pytest.fixture(scope="module")
def client(db: Database) -> FlaskClient:
    return create_app({"DATABASE": db}).test_client()


def _rows(client: FlaskClient, path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(client.get(path).text)))


def test_all_founding_tables_stand_on_one_page(client: FlaskClient) -> None:
    html = client.get("/history").text

    for group in {cell["group"] for cell in EXPECTED["cells"]}:
        assert f'href="/history/{group}"' in html
    for cell in EXPECTED["cells"]:
        assert f'id="{cell["id"]}"' in html


def test_a_table_reads_like_the_original_with_what_it_means_beside_it(client: FlaskClient) -> None:
    html = client.get("/history/morton-loopback-dual500").text

    assert "66600 Mbyte/s" in html
    assert "533 Mbit/s" in html
    assert "or 546 Mbit/s" in html
    assert "the unit is evidently: KByte/s" in html
    assert "Andrew Morton" in html
    assert "dual 500MHz PII" in html
    assert "unit-mislabelled" in html


def test_a_correction_stands_beside_the_typo(client: FlaskClient) -> None:
    html = client.get("/history/badulescu-throughput").text

    assert "a later mail corrects it" in html
    assert "superseded" in html


@pytest.mark.parametrize("group", sorted({cell["group"] for cell in EXPECTED["cells"]}))
def test_each_table_has_a_page_and_its_twins(client: FlaskClient, group: str) -> None:
    html = client.get(f"/history/{group}")
    as_json = client.get(f"/history/{group}.json").get_json()
    rows = _rows(client, f"/history/{group}.csv")

    expected = [cell["id"] for cell in EXPECTED["cells"] if cell["group"] == group]
    assert html.status_code == 200
    assert sorted(row["name"] for row in as_json["rows"]) == sorted(expected)
    assert {row["cell"] for row in rows} <= set(expected)


def test_the_csv_has_the_numbers_of_the_cells(client: FlaskClient) -> None:
    rows = {
        (row["cell"], row["metric"]): row
        for row in _rows(client, "/history.csv")
        if row["is_inferred"] == "False"
    }

    for cell in EXPECTED["cells"]:
        bps = (cell.get("throughput") or {}).get("bps")
        if bps is not None:
            assert float(rows[cell["id"], "throughput"]["low"]) == bps


def test_a_table_names_the_experiments_that_repeat_it(client: FlaskClient) -> None:
    from zcdb.webapp.present.history import repeats_of

    folder = Path(__file__).parent.parent / "runs"
    repeated = {
        cell["group"]: path
        for path in folder.glob("*.toml")
        for cell in EXPECTED["cells"]
        if cell["group"] in path.read_text(encoding="utf-8")
    }

    assert repeated
    for group, path in repeated.items():
        assert f"runs/{path.name}" in [again.file for again in repeats_of(group)]
        assert "zcdb run runs/" in client.get(f"/history/{group}").text
    assert "No experiment that ships" in client.get("/history/morton-memory-bandwidth").text


def test_the_conclusions_stand_beside_what_the_cells_say(client: FlaskClient) -> None:
    html = client.get("/history/conclusions").text
    rows = _rows(client, "/history/conclusions.csv")

    said = {row["conclusion"]: row for row in rows}
    assert len({row["conclusion"] for row in rows}) > 20
    assert said["sendfile-vs-rw-vanilla"]["change"] == "−14.2 %"
    assert "−10 %" in html or "-10 %" in html
    assert 'href="/history/morton-3ccfe575ct-piii650#morton-3ccfe575ct-vanilla-sendfile"' in html


def test_the_page_of_a_historic_case_shows_what_was_published(
    client: FlaskClient, db: Database
) -> None:
    page = queries.history_page(db, "morton-3ccfe575ct-piii650")
    entry = next(e for e in page.entries if e.name == "morton-3ccfe575ct-zc-sendfile")

    html = client.get(f"/cases/{entry.case_id}").text
    as_json = client.get(f"/cases/{entry.case_id}.json").get_json()

    assert "What others published" in html
    assert f"/history/morton-3ccfe575ct-piii650#{entry.name}" in html
    assert "Its sources do not state: Message size" in html
    assert "unstated" not in as_json["name"]
    assert [row["entry_id"] for row in as_json["published"]] == [entry.id]
    assert as_json["headline"][1]["metric"] == "machine_utilisation_sender"
    assert as_json["headline"][1]["mean"] == pytest.approx(0.182)


def test_an_imported_file_has_a_page_with_its_text(client: FlaskClient, db: Database) -> None:
    source = queries.source_list(db, kind="import").sources[0]

    html = client.get(f"/sources/{source.id}").text
    text = client.get(f"/sources/{source.id}/text")

    assert "netperf TCP_STREAM" in html
    assert "incomplete" in html
    assert (text.text, text.mimetype) == ("what it said", "text/plain")
    assert f'href="/sources/{source.id}"' in client.get("/sources").text


def test_what_is_not_there_is_404_and_what_is_no_id_400(client: FlaskClient) -> None:
    assert client.get("/history/no-such-table").status_code == 404
    assert client.get(f"/sources/{'0' * 32}").status_code == 404
    assert client.get(f"/entries/{'0' * 32}").status_code == 404
    assert client.get("/sources/nonsense").status_code == 400
    assert client.get("/sources.json?nonsense=1").status_code == 400


def test_the_pages_cost_a_fixed_number_of_statements(db: Database) -> None:
    client = create_app({"DATABASE": db}).test_client()  # one that keeps no answer yet
    counts = []
    for path in ("/history", "/history/morton-memory-bandwidth", "/sources"):
        with StatementCount(db) as statements:
            assert client.get(path).status_code == 200
        counts.append(len(statements))

    assert counts == [8, 9, 1]
