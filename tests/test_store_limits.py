"""The limit of a reader's query, and the revision that tells that something was committed."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from store_support import demo_database

from zcdb.store import limits
from zcdb.store.limits import QueryTooSlow
from zcdb.store.session import Database, opened

pytest_plugins = ["store_fixtures"]

ENDLESS = """
WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted)
SELECT count(*) FROM counted
"""
LONG = """
WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 1000000)
SELECT count(*) FROM counted
"""
LIMIT_S = 0.05


def _note(db: Database, what: str) -> None:
    with db.writing() as session:
        session.execute(
            text("INSERT INTO texts (sha256, size_bytes, bytes_zlib) VALUES (:what, 1, :body)"),
            {"what": what, "body": b"x"},
        )


def test_a_query_without_end_is_stopped_with_a_sentence(database_url: str) -> None:
    with opened(database_url, with_history=False) as db:
        with (
            pytest.raises(QueryTooSlow, match=r"took too long and was stopped"),
            db.limited(LIMIT_S).reading() as session,
        ):
            session.execute(text(ENDLESS)).all()

        with db.limited(LIMIT_S).reading() as session:
            assert session.scalar(text("SELECT count(*) FROM trials")) == 0


def test_the_time_of_a_query_begins_with_that_query(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    with opened(database_url, with_history=False) as db:
        monkeypatch.setattr(limits.time, "monotonic", lambda: now[0])
        with db.limited(5.0).reading() as session:
            for _ in range(4):
                # Nothing runs in between: what the page does with the rows is not the query's.
                now[0] += 4.0
                assert session.scalar(text(LONG)) == 1_000_000


def test_only_the_readers_who_asked_for_it_have_a_limit(database_url: str) -> None:
    """Connections are shared: none may take a limit along to its next user."""
    with opened(database_url, with_history=False) as db:
        limited = db.limited(0.001)
        for _ in range(3):
            with pytest.raises(QueryTooSlow), limited.reading() as session:
                session.execute(text(LONG)).all()
            with db.reading() as session:
                assert session.scalar(text(LONG)) == 1_000_000
            with limited.writing() as session:
                assert session.scalar(text(LONG)) == 1_000_000


def test_the_revision_moves_with_every_commit_and_with_nothing_else(database_url: str) -> None:
    demo_database(database_url)
    with opened(database_url) as db, opened(database_url) as other:
        before = db.revision()
        with db.reading() as session:
            session.scalar(text("SELECT count(*) FROM trials"))
        assert db.revision() == before

        _note(db, "a" * 64)
        own = db.revision()
        assert own != before
        _note(other, "b" * 64)
        others = db.limited(1.0).revision(), db.revision()
        assert others[1] not in (before, own)
        assert db.revision() == others[1]


def test_the_revision_stays_where_a_transaction_was_rolled_back(sqlite_db: Database) -> None:
    before = sqlite_db.revision()
    with pytest.raises(IntegrityError), sqlite_db.writing() as session:
        session.execute(text("INSERT INTO texts VALUES ('a', 1, 'x'), ('a', 1, 'x')"))

    assert sqlite_db.revision() == before
