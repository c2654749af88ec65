"""Fixtures: databases on both engines, and the private PostgreSQL behind them.

They reach a test module by `pytest_plugins = ["store_fixtures"]`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError
from store_support import DemoIds, demo_database

from zcdb.store.session import Database, open_database


def _postgres_program(name: str) -> str:
    """Return the path of a PostgreSQL program; Debian keeps them outside of PATH."""
    found = shutil.which(name)
    if found is None:
        folders = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
        if not folders:
            pytest.skip(f"PostgreSQL's {name} is not installed")
        found = str(folders[-1])
    return found


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """A private PostgreSQL server on a Unix socket; gives the URL of its database."""
    initdb, postgres = _postgres_program("initdb"), _postgres_program("postgres")
    # PostgreSQL refuses to run as root.
    drop: dict[str, object] = {}
    if os.geteuid() == 0:
        if "postgres" not in {user.pw_name for user in pwd.getpwall()}:
            pytest.skip("PostgreSQL refuses to run as root, and there is no user postgres")
        drop = {"user": "postgres", "group": "postgres", "extra_groups": []}
    folder = Path(tempfile.mkdtemp(prefix="zcdb-postgres-"))
    if drop:
        shutil.chown(folder, "postgres", "postgres")
    data = folder / "data"
    quiet = {"stdout": subprocess.DEVNULL, "cwd": folder, **drop}
    try:
        subprocess.run(
            [initdb, "-D", data, "-U", "zcdb", "-A", "trust", "-E", "UTF8", "--no-sync"],
            check=True,
            **quiet,  # type: ignore[call-overload]
        )
        settings = {"listen_addresses": "", "unix_socket_directories": str(folder), "fsync": "off"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [postgres, "-D", data, *options],
                stderr=log,
                **quiet,  # type: ignore[call-overload]
            )
        try:
            url = f"postgresql+psycopg://zcdb@/postgres?host={folder}"
            _wait_for_server(url, server, folder / "log")
            yield url
        finally:
            # At once, without the checkpoint: nothing of it is kept.
            server.send_signal(signal.SIGQUIT)
            server.wait(timeout=60)
    finally:
        shutil.rmtree(folder)


def _wait_for_server(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    engine = create_engine(url)
    try:
        for _ in range(600):
            assert server.poll() is None, log.read_text()
            try:
                engine.connect().close()
                return
            except OperationalError:
                time.sleep(0.1)
        raise AssertionError(f"PostgreSQL did not answer in 60 s:\n{log.read_text()}")
    finally:
        engine.dispose()


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """The URL of an empty database on the private server; one test at a time has it."""
    engine = create_engine(postgres_server)
    with engine.begin() as connection:
        # Emptying one database is much cheaper than making one for each test.
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
    return postgres_server


ENGINES = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=ENGINES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database that does not exist yet, on each engine in turn."""
    if request.param == "sqlite":
        return str(tmp_path / "test.sqlite")
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def db(database_url: str) -> Iterator[Database]:
    """An open, empty database, on each engine in turn."""
    database = open_database(database_url, with_history=False)
    yield database
    database.dispose()


@pytest.fixture
def sqlite_db(tmp_path: Path) -> Iterator[Database]:
    """An open, empty SQLite database."""
    database = open_database(tmp_path / "test.sqlite", with_history=False)
    yield database
    database.dispose()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, DemoIds]]:
    """The demo database, open, and its ids; tests read it only."""
    path = tmp_path_factory.mktemp("demo") / "demo.sqlite"
    ids = demo_database(path)
    database = open_database(path, with_history=False)
    yield database, ids
    database.dispose()
