"""Answers that are kept, and pages whose query takes too long."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from flask import Response
from sqlalchemy import text
from store_support import StatementCount, demo_database
from web_support import client_of, get_json, get_page

from zcdb.store import reports, write
from zcdb.store.session import Database, opened
from zcdb.webapp import create_app
from zcdb.webapp.kept import KeptAnswers
from zcdb.webapp.views import explore as explore_view

pytest_plugins = ["store_fixtures"]

AT = datetime(2026, 3, 4, tzinfo=UTC)
COMPARED = "/compare?axis=api&a=write&b=sendfile"
ENDLESS = """
WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted)
SELECT count(*) FROM counted
"""


def test_the_same_page_is_made_once_while_nothing_is_committed(database_url: str) -> None:
    demo_database(database_url)
    with opened(database_url) as db:
        client = client_of(db)
        first = client.get(COMPARED)
        with StatementCount(db) as statements:
            second = client.get(COMPARED)
        assert len(statements) == 0
        assert second.data == first.data
        assert second.headers["ETag"] == first.headers["ETag"]
        assert second.headers["Content-Security-Policy"]
        again = client.get(COMPARED, headers={"If-None-Match": second.headers["ETag"]})
        assert (again.status_code, again.data) == (304, b"")
        assert client.head(COMPARED).data == b""
        packed = client.get(COMPARED, headers={"Accept-Encoding": "gzip"})
        assert packed.headers["Content-Encoding"] == "gzip"
        assert client.get(COMPARED).data == first.data


def test_what_anybody_commits_is_on_the_next_page(database_url: str) -> None:
    ids = demo_database(database_url)
    address = f"/runs/{ids.run_id}.json"
    with opened(database_url) as db, opened(database_url) as other:
        client = client_of(db)
        get_json(client, address)
        for writer, note in ((db, "the cable was changed"), (other, "and changed back")):
            write.set_note(writer, ids.run_id, note)
            assert get_json(client, address)["run"]["note"] == note


def test_a_page_is_another_one_under_another_name(sqlite_db: Database) -> None:
    demo = demo_database(Path(sqlite_db.name))
    client = client_of(sqlite_db)
    address = f"/trials/{demo.ok_trial_id}"
    pages = {
        host: client.get(address, headers={"Host": host}).text
        for host in ("127.0.0.1:80", "localhost:8750", "127.0.0.1:80")
    }
    assert "http://localhost:8750/trials/" in pages["localhost:8750"]
    assert "localhost:8750" not in pages["127.0.0.1:80"]


def test_errors_are_never_kept(sqlite_db: Database) -> None:
    client = client_of(sqlite_db)
    missing = "0" * 32
    assert client.get(f"/trials/{missing}").status_code == 404
    link = reports.add_link(sqlite_db, "/compare", "axis=api", AT)
    assert client.get(f"/q/{link}").status_code == 302
    assert client.get(f"/trials/{missing}").status_code == 404


def test_kept_answers_stay_within_their_room_and_the_oldest_go_first() -> None:
    answers = KeptAnswers(limit_bytes=100)
    keys = [("", name, False) for name in "abcd"]
    for key in keys[:3]:
        answers.keep("1", key, Response(b"x" * 30))
    assert answers.find("1", keys[0])
    answers.keep("1", keys[3], Response(b"x" * 30))

    assert answers.size_bytes == 90
    assert [answers.find("1", key) is not None for key in keys] == [True, False, True, True]
    answers.keep("1", keys[0], Response(b"y" * 10))
    assert answers.size_bytes == 70
    answers.keep("1", keys[1], Response(b"x" * 101))
    assert answers.find("1", keys[1]) is None
    assert answers.find("2", keys[0]) is None
    answers.keep("2", keys[0], Response(b"z"))
    assert (answers.size_bytes, answers.find("1", keys[2])) == (1, None)


@pytest.mark.parametrize(
    ("address", "narrower"),
    [
        ("/explore?api=write", "/explore?api=write&message_size=65536"),
        ("/explore?message_size=65536", "/explore?message_size=65536&api=msg_zerocopy"),
    ],
)
def test_a_page_that_takes_too_long_says_so_and_names_less(
    database_url: str, monkeypatch: pytest.MonkeyPatch, address: str, narrower: str
) -> None:
    def endless(db: Database, _asked: object) -> None:
        with db.reading() as session:
            session.execute(text(ENDLESS)).all()

    with opened(database_url, with_history=False) as db:
        client = create_app({"DATABASE": db, "QUERY_LIMIT_S": 0.05}).test_client()
        with monkeypatch.context() as patched:
            patched.setattr(explore_view.queries, "explore", endless)
            page = get_page(client, address, 503)
            told = get_json(client, address.replace("?", ".json?"), 503)
        assert page.first("h1").text == "This would take too long"
        assert narrower in [link.attributes["href"] for link in page.all("a")]
        assert told["status"] == 503
        assert "longer than 0.05 s and was stopped" in told["error"]
        assert narrower in told["error"]
        get_page(client_of(db), address)
