"""How long a statement of the site may take, and whether anything was written since.

A limit is an option of the connections that a `Database` reads with: those who
write, and the command line, have none.  SQLite asks a Python function now and
then whether to go on; PostgreSQL has `statement_timeout`.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from zcdb.errors import StoreError

LIMIT_OPTION = "query_limit_s"
"""Execution option that holds the limit of one statement, in seconds."""

_DEADLINE = "zcdb_deadline"
_STEPS = 100_000
"""Instructions of SQLite's machine between two looks at the clock, about a millisecond."""

_QUERY_CANCELED = "57014"
"""PostgreSQL's code for a statement that ran into its timeout."""


class QueryTooSlow(StoreError):
    """A statement took longer than its reader may wait, and was stopped."""


class _Deadline:
    """When the statement that a connection executes has to be done."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self.start()

    def start(self) -> None:
        """Begin the time of a statement."""
        self._at = time.monotonic() + self._limit_s

    def has_passed(self) -> bool:
        """Return whether the time is over; SQLite stops where this is true."""
        return time.monotonic() > self._at


def keep_limits(engine: Engine) -> None:
    """Make an engine's connections keep the limit in their execution options."""
    if engine.dialect.name == "sqlite":
        _keep_sqlite_limits(engine)
    else:
        event.listen(engine, "begin", _set_statement_timeout)


def _set_statement_timeout(connection: Connection) -> None:
    limit_s = connection.get_execution_options().get(LIMIT_OPTION)
    if limit_s is not None:
        # LOCAL: the connection goes back to the pool without it.
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {round(limit_s * 1000)}")


def _keep_sqlite_limits(engine: Engine) -> None:
    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        limit_s = connection.get_execution_options().get(LIMIT_OPTION)
        if limit_s is not None:
            deadline = connection.info[_DEADLINE] = _Deadline(limit_s)
            driver: Any = connection.connection.driver_connection
            driver.set_progress_handler(deadline.has_passed, _STEPS)

    @event.listens_for(engine, "before_cursor_execute")
    def _start(connection: Connection, *_: Any) -> None:
        deadline = connection.info.get(_DEADLINE)
        if deadline is not None:
            deadline.start()

    @event.listens_for(engine, "checkin")
    def _end(driver: sqlite3.Connection | None, record: Any) -> None:
        # The next to take this connection may be a writer.
        if record.info.pop(_DEADLINE, None) is not None and driver is not None:
            driver.set_progress_handler(None, 0)


def is_too_slow(error: DBAPIError) -> bool:
    """Return whether a database stopped a statement because of its limit."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return bool(code == sqlite3.SQLITE_INTERRUPT)
    return getattr(error.orig, "sqlstate", None) == _QUERY_CANCELED


class RevisionWatch:
    """Tells whether anything was committed to a database, by whoever, since it was last asked.

    SQLite keeps a number that moves, for one connection, with every commit of another one: the
    watch has a connection of its own that never writes.  PostgreSQL names the transactions that
    a new one would see; equal names see equal data.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._watching: Any = None
        self._opened = 0

    def revision(self) -> str:
        """Return a text that differs from all earlier ones once anything was committed."""
        if self._engine.dialect.name != "sqlite":
            with self._engine.connect() as connection:
                return str(connection.exec_driver_sql("SELECT pg_current_snapshot()").scalar_one())
        with self._lock:
            if self._watching is None:
                self._watching = self._engine.raw_connection()
                self._watching.detach()
                # Another connection counts from the beginning.
                self._opened += 1
            version = self._watching.execute("PRAGMA data_version").fetchone()[0]
            return f"{self._opened}.{version}"

    def close(self) -> None:
        """Close the watch's own connection; the next question opens another."""
        with self._lock:
            if self._watching is not None:
                self._watching.close()
                self._watching = None
