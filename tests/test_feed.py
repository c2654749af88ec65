"""The feed of new runs, reports and sources."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from site_support import write_site
from store_support import StatementCount, make_run
from web_support import client_of

from zcdb.report import freeze
from zcdb.store import write
from zcdb.store.queries.feed import data_revision, feed
from zcdb.store.session import open_database

pytest_plugins = ["store_fixtures"]

ATOM = {"atom": "http://www.w3.org/2005/Atom"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    db = open_database(tmp_path_factory.mktemp("feed") / "feed.sqlite")
    write_site(db)
    report = freeze.freeze(db, "axis=api&a=write&b=sendfile", "sendfile & write")
    yield db, report
    db.dispose()


@pytest.fixture(scope="module")
def client(made):
    return client_of(made[0])


def parsed(text):
    return ElementTree.fromstring(text)  # noqa: S314  # our own feed


def entries(client):
    answer = client.get("/feed.atom")
    assert answer.status_code == 200
    assert answer.content_type == "application/atom+xml"
    return parsed(answer.text).findall("atom:entry", ATOM)


def said(entry, tag):
    return entry.find(f"atom:{tag}", ATOM)


def test_the_feed_has_runs_reports_and_sources_newest_first(client):
    found = entries(client)

    moments = [said(entry, "updated").text for entry in found]
    assert moments == sorted(moments, reverse=True)
    kinds = {said(entry, "category").attrib["term"] for entry in found}
    assert {"report", "source"} <= kinds


def test_an_entry_has_an_id_of_its_content_and_leads_to_its_page(client, made):
    found = {said(entry, "id").text: entry for entry in entries(client)}

    entry = found[f"urn:zcdb:report:{made[1].id}"]
    assert said(entry, "title").text == "sendfile & write"
    address = said(entry, "link").attrib["href"]
    assert address.startswith("http://localhost/reports/")
    assert client.get(address.removeprefix("http://localhost")).status_code == 200


def test_every_entry_leads_to_a_page(client):
    for entry in entries(client):
        address = said(entry, "link").attrib["href"].removeprefix("http://localhost")
        assert client.get(address, follow_redirects=True).status_code == 200


def test_the_feed_of_an_empty_database_is_a_feed(sqlite_db):
    client = client_of(sqlite_db)

    answer = client.get("/feed.atom")

    assert parsed(answer.text).find("atom:updated", ATOM) is not None
    assert entries(client) == []


def test_a_control_character_does_not_break_the_feed(tmp_path):
    db = open_database(tmp_path / "odd.sqlite", with_history=False)
    run = make_run(1, question="what\x07 now?", name="odd")
    write.add_run(db, run)

    (entry,) = entries(client_of(db))
    db.dispose()

    assert said(entry, "summary").text == "what now?"


def test_the_feed_is_not_sent_again_while_nothing_is_new(client):
    first = client.get("/feed.atom")

    again = client.get("/feed.atom", headers={"If-None-Match": first.headers["ETag"]})

    assert again.status_code == 304


def test_the_feed_asks_three_statements(made):
    with StatementCount(made[0]) as count:
        feed(made[0])

    assert len(count) == 3


def test_the_revision_grows_with_every_result_and_note(tmp_path):
    db = open_database(tmp_path / "growing.sqlite", with_history=False)
    empty = data_revision(db)
    write_site(db)
    measured = data_revision(db)

    write.set_note(db, make_run(1).id, "a remark")
    noted = data_revision(db)
    db.dispose()

    assert empty == 0
    assert measured > empty
    assert noted == measured + 1
