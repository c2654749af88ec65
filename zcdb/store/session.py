"""Opening a database, and transactions on it.

    database = open_database("lab.sqlite")
    with database.writing() as session: ...

SQLite runs in WAL mode: readers never wait, and writers wait for each other up
to `BUSY_TIMEOUT_MS`.  WAL does not work on network file systems; several hosts
share a database through PostgreSQL.  What the database refuses becomes one
sentence (`StoreError`); the transaction is rolled back and earlier ones stay.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine, create_engine, event, exc, text
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.orm import Session

from zcdb.errors import StoreError, UsageError
from zcdb.store import cases, history, limits, registries

SCHEMA_REVISION = "0004"
"""The newest file in `migrations/versions`: what the models of this zcdb fit."""

CACHE_KIB = 32 * 1024
"""Pages that a connection to an SQLite file keeps; its own 2 MB are read again for every page."""

BUSY_TIMEOUT_MS = 15_000

_SQLITE_MAGIC = b"SQLite format 3\x00"


class Database:
    """An open database.

    Args:
        query_limit_s: seconds that one statement of a reading session may take; None is no limit.

    Attributes:
        url: where it is, without a password.
    """

    def __init__(self, engine: Engine, *, query_limit_s: float | None = None) -> None:
        self._engine = engine
        reading: dict[str, object] = {limits.LIMIT_OPTION: query_limit_s}
        if engine.name == "postgresql":
            reading["isolation_level"] = "REPEATABLE READ"
        self._reading_engine = engine.execution_options(**reading)
        self._watch = limits.RevisionWatch(engine)
        self._writing_engine = engine.execution_options(sqlite_begin="BEGIN IMMEDIATE")
        self.url = engine.url.render_as_string(hide_password=True)

    @property
    def name(self) -> str:
        """What to call it in a sentence: the file, or the URL of a server."""
        return database_name(self._engine.url)

    @property
    def engine(self) -> Engine:
        """The engine, for what is not a transaction (backup, counting statements in tests)."""
        return self._engine

    def limited(self, query_limit_s: float) -> Database:
        """Return the same database for readers who wait no longer than this for one statement."""
        return Database(self._engine, query_limit_s=query_limit_s)

    def revision(self) -> str:
        """Return a text that is another one as soon as anybody has committed something."""
        with _named_errors(self._engine.url):
            return self._watch.revision()

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Give a session that sees one state of the database.

        Raises:
            zcdb.store.limits.QueryTooSlow: inside, if a statement reaches the limit.
        """
        with _named_errors(self._engine.url), Session(self._reading_engine) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Give a session that alone may write; commits at the end, rolls back on any exception."""
        with (
            _named_errors(self._engine.url),
            Session(self._writing_engine) as session,
            session.begin(),
        ):
            # A session begins with its first statement; who writes has to wait here.
            session.connection()
            yield session

    def dispose(self) -> None:
        """Close all connections."""
        self._watch.close()
        self._engine.dispose()


def default_path() -> Path:
    """Return where the database is when nothing else is said: the user's data directory."""
    import platformdirs

    return platformdirs.user_data_path("zcdb") / "zcdb.sqlite"


def database_name(url: URL) -> str:
    """Return the file, or the URL of a server without its password."""
    if url.get_backend_name() == "sqlite":
        return url.database or ":memory:"
    return url.render_as_string(hide_password=True)


def resolve_url(where: str | Path | None = None) -> URL:
    """Return the address of a database.

    Args:
        where: a file, or a URL with `sqlite://` or `postgresql://`; None for `$ZCDB_DATABASE`
            and without that the default path.

    Raises:
        UsageError: if it is neither.
    """
    where = where or os.environ.get("ZCDB_DATABASE") or default_path()
    if isinstance(where, Path) or "://" not in where:
        return URL.create("sqlite", database=str(Path(where).expanduser().absolute()))
    try:
        url = make_url(where)
    except exc.ArgumentError as error:
        raise UsageError(f"{where!r} is not the URL of a database: {error}") from error
    backend = url.get_backend_name()
    if backend == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if backend == "sqlite" and url.database:
        return url.set(database=str(Path(url.database).absolute()))
    raise UsageError(
        f"{database_name(url)!r} is not a database that zcdb can use",
        hint="Name a file, or postgresql://USER@HOST/NAME.",
    )


def open_database(where: str | Path | None = None, *, with_history: bool = True) -> Database:
    """Open a database; makes the folder, the file and the tables, and upgrades an older form.

    The founding tables are written into it once, and again when zcdb ships better ones.

    Args:
        where: as for `resolve_url`.
        with_history: False leaves the founding tables out.

    Raises:
        UsageError: if `where` is not the address of a database.
        StoreError: if it is of a newer zcdb, is not one, or cannot be written.
    """
    url = resolve_url(where)
    if url.get_backend_name() == "sqlite":
        _check_file(Path(url.database or ""))
    engine = make_engine(url)
    db = Database(engine)
    try:
        with _named_errors(url):
            _make_current(engine)
        if with_history:
            history.keep(db)
    except BaseException:
        engine.dispose()
        raise
    return db


@contextmanager
def opened(where: str | Path | None = None, *, with_history: bool = True) -> Iterator[Database]:
    """Open a database as `open_database` does and close it at the end."""
    db = open_database(where, with_history=with_history)
    try:
        yield db
    finally:
        db.dispose()


def make_engine(url: URL, *, for_migrations: bool = False) -> Engine:
    """Return an engine whose SQLite connections have zcdb's settings.

    Args:
        url: as `resolve_url` gives it.
        for_migrations: foreign keys off and every transaction a writing one: batch mode
            re-creates tables, and DROP TABLE would cascade through the rows.
    """
    try:
        engine = create_engine(url)
    except ModuleNotFoundError as error:
        raise StoreError(
            f"{database_name(url)} needs the Python package {error.name}, which is not installed",
            hint="pip install 'zcdb[postgres]'",
        ) from error
    limits.keep_limits(engine)
    if engine.dialect.name != "sqlite":
        return engine

    @event.listens_for(engine, "connect")
    def _set_up(connection: sqlite3.Connection, _record: object) -> None:
        # None: the driver begins no transaction by itself, so that DDL is transactional too.
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        connection.execute(f"PRAGMA foreign_keys={'OFF' if for_migrations else 'ON'}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        default = "BEGIN IMMEDIATE" if for_migrations else "BEGIN"
        connection.exec_driver_sql(connection.get_execution_options().get("sqlite_begin", default))

    return engine


@contextmanager
def migration_engine(url: URL) -> Iterator[Engine]:
    """Give an engine for migrations and dispose of it."""
    engine = make_engine(url, for_migrations=True)
    try:
        with _named_errors(url):
            yield engine
    finally:
        engine.dispose()


def stored_revision(connection: Connection) -> str | None:
    """Return the form that the database has; None if it is new and empty.

    Raises:
        StoreError: if it holds tables of something else.
    """
    tables = set(connection.dialect.get_table_names(connection))
    if "alembic_version" in tables:
        revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        if revision is not None:
            return str(revision)
    elif tables:
        raise StoreError(
            f"{database_name(connection.engine.url)} is a database of something else:"
            f" it has a table {min(tables)!r} and none of zcdb's",
            hint="Name another file with --database.",
        )
    return None


def _make_current(engine: Engine) -> None:
    with engine.connect() as connection:
        revision = stored_revision(connection)
        if revision == SCHEMA_REVISION and registries.are_current(connection):
            return
    if revision != SCHEMA_REVISION:
        upgrade(engine.url)
    with engine.execution_options(sqlite_begin="BEGIN IMMEDIATE").begin() as connection:
        if registries.write(connection):
            with Session(connection, join_transaction_mode="create_savepoint") as session:
                cases.rebuild_all_derived(session)
                session.commit()


def upgrade(url: URL) -> None:
    """Upgrade the tables of a database to the form that this zcdb uses.

    Raises:
        StoreError: if the database was made by a newer zcdb.
    """
    from zcdb.store import migrate

    with migration_engine(url) as engine:
        with engine.connect() as connection:
            revision = stored_revision(connection)
            known = migrate.known_revisions(connection)
        if revision is not None and revision not in known:
            raise StoreError(
                f"{database_name(url)} was made by a newer zcdb (its form is {revision},"
                f" this zcdb knows up to {SCHEMA_REVISION})",
                hint="Upgrade zcdb, or name another database with --database.",
            )
        migrate.upgrade(engine)


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(_SQLITE_MAGIC))


def _check_file(path: Path) -> None:
    """Make the folder of an SQLite file, and refuse what cannot become or is not a database."""
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        magic = _first_bytes(path) if path.exists() else b""
    except OSError as error:
        raise StoreError(
            f"{path} cannot be used as a database: {error.strerror} ({error.filename})",
            hint="Name another file with --database.",
        ) from error
    if magic and magic != _SQLITE_MAGIC:
        raise StoreError(
            f"{path} is not an SQLite database", hint="Name another file with --database."
        )
    # SQLite writes its journal beside the file, so the folder has to be writable as well.
    for place in (folder, path):
        if place.exists() and not os.access(place, os.W_OK):
            raise StoreError(
                f"{place} cannot be written, and a database needs to write into its file and"
                " its folder",
                hint="Copy the database to a folder of your own, or name it with --database.",
            )


_SQLITE_SENTENCES = {
    sqlite3.SQLITE_FULL: (
        "the disk with {name} is full: this record was not stored, the earlier ones are",
        "Make room, then go on with 'zcdb run --resume'.",
    ),
    sqlite3.SQLITE_BUSY: (
        f"{{name}} was locked by another process for {BUSY_TIMEOUT_MS // 1000} s",
        "Wait until it has finished, and try again.",
    ),
    sqlite3.SQLITE_READONLY: ("{name} cannot be written", "Copy it to a folder of your own."),
    sqlite3.SQLITE_CANTOPEN: ("{name} cannot be opened", "Name another file with --database."),
    sqlite3.SQLITE_NOTADB: ("{name} is not an SQLite database", "Name another with --database."),
    sqlite3.SQLITE_CORRUPT: ("{name} is damaged", "Go back to a copy made by 'zcdb db backup'."),
    sqlite3.SQLITE_IOERR: (
        "{name} could not be read or written: the system reported an I/O error",
        "Is the disk full? 'zcdb db verify' checks the file.",
    ),
}
"""Primary result code of SQLite -> (sentence, hint)."""


@contextmanager
def _named_errors(url: URL) -> Iterator[None]:
    """Turn what a database refuses into one sentence; bugs in statements stay as they are."""
    try:
        yield
    except exc.DBAPIError as error:
        named = _named(url, error)
        if named is None:
            raise
        raise named from error


def _named(url: URL, error: exc.DBAPIError) -> StoreError | None:
    """Return the sentence for an error of the database, or None for an error of ours."""
    name = database_name(url)
    if limits.is_too_slow(error):
        return limits.QueryTooSlow(f"a query of {name} took too long and was stopped")
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        # The low byte of an extended result code is the primary one.
        sentence, hint = _SQLITE_SENTENCES.get(code & 0xFF, (None, None))
        return StoreError(sentence.format(name=name), hint=hint) if sentence else None
    if isinstance(error, exc.OperationalError):
        said = str(error.orig).strip().splitlines()[0]
        return StoreError(f"{name} does not answer or refuses: {said}")
    return None
