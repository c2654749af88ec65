"""Opening a database, and what it says when it cannot be used."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select, text, update
from store_support import make_environment, make_run

from zcdb.errors import StoreError, UsageError
from zcdb.store import session as sessions
from zcdb.store import write
from zcdb.store.models import FactorRow, RunRow
from zcdb.store.session import Database, open_database, opened, resolve_url

pytest_plugins = ["store_fixtures"]


def test_opening_makes_folder_file_and_tables(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "lab.sqlite"

    with opened(path) as db, db.reading() as session:
        assert session.scalars(select(RunRow)).all() == []

    assert path.is_file()


def test_the_database_is_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZCDB_DATABASE", str(tmp_path / "named.sqlite"))

    with opened() as db:
        assert db.name == str(tmp_path / "named.sqlite")


def test_without_a_name_the_database_is_in_the_users_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZCDB_DATABASE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))

    assert resolve_url().database == str(tmp_path / "zcdb" / "zcdb.sqlite")


def test_sqlite_is_set_up_for_many_readers_and_one_writer(sqlite_db: Database) -> None:
    names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")

    with sqlite_db.reading() as session:
        settings = [session.scalar(text(f"PRAGMA {name}")) for name in names]

    assert settings == ["wal", 1, 1, 15000]


def test_a_password_is_never_shown() -> None:
    url = resolve_url("postgresql://lab:secret@db.example.org/zcdb")

    assert url.drivername == "postgresql+psycopg"
    assert sessions.database_name(url) == "postgresql+psycopg://lab:***@db.example.org/zcdb"


@pytest.mark.parametrize("where", ["mysql://root@localhost/zcdb", "sqlite://", "://", "oops://x"])
def test_an_address_that_is_no_database_is_wrong_usage(where: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_database(where)

    assert caught.value.exit_code == 2


def test_a_server_without_its_driver_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(StoreError, match="needs the Python package psycopg") as caught:
        open_database("postgresql://lab@db.example.org/zcdb")

    assert caught.value.hint == "pip install 'zcdb[postgres]'"


def test_a_server_that_does_not_answer_gives_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")

    with pytest.raises(StoreError, match="does not answer or refuses") as caught:
        open_database(f"postgresql://zcdb@/zcdb?host={tmp_path}")

    assert "\n" not in caught.value.message


def test_a_newer_database_is_refused(database_url: str) -> None:
    with opened(database_url) as db, db.writing() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(StoreError, match="made by a newer zcdb") as caught:
        open_database(database_url)

    assert caught.value.exit_code == 1
    assert "Upgrade zcdb" in str(caught.value.hint)


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear database, how are you?")

    with pytest.raises(StoreError, match=r"letter\.txt is not an SQLite database"):
        open_database(path)

    assert path.read_text() == "Dear database, how are you?"


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()

    with pytest.raises(StoreError, match=r"is a database of something else.*'recipes'"):
        open_database(path)


def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "damaged.sqlite"
    path.write_bytes(b"SQLite format 3\x00" + bytes(range(200)))

    with pytest.raises(StoreError, match=r"damaged\.sqlite is (not an SQLite database|damaged)"):
        open_database(path)


def test_a_folder_is_refused_as_a_database(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be used as a database: Is a directory"):
        open_database(tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreError, match="cannot be used as a database: File exists"):
        open_database(tmp_path / "file" / "lab.sqlite")


def _said_by_an_ordinary_user(action: Callable[[], object]) -> str:
    """Return the sentence of the StoreError that `action` raises where root's powers are off."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            action()
        except StoreError as error:
            os.write(writing, error.message.encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        return pipe.read().decode()


def _reachable_folder(tmp_path: Path) -> Path:
    """Return a new folder that every user may enter: pytest's own are closed to others."""
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 0o005:
            folder.chmod(0o755)
    folder = tmp_path / "shelf"
    folder.mkdir()
    return folder


def test_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    folder = _reachable_folder(tmp_path)
    folder.chmod(0o555)

    said = _said_by_an_ordinary_user(lambda: open_database(folder / "lab.sqlite"))

    assert said == (
        f"{folder} cannot be written, and a database needs to write into its file and its folder"
    )


def test_a_read_only_file_is_refused(tmp_path: Path) -> None:
    folder = _reachable_folder(tmp_path)
    folder.chmod(0o777)
    with opened(folder / "lab.sqlite"):
        pass
    (folder / "lab.sqlite").chmod(0o444)

    said = _said_by_an_ordinary_user(lambda: open_database(folder / "lab.sqlite"))

    assert said.startswith(f"{folder}/lab.sqlite cannot be written")


def test_a_locked_database_is_named_after_the_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lab.sqlite"
    monkeypatch.setattr(sessions, "BUSY_TIMEOUT_MS", 20)
    said = r"lab\.sqlite was locked by another process"

    with (
        opened(path) as db,
        opened(path) as other,
        other.writing(),
        pytest.raises(StoreError, match=said),
    ):
        write.add_environment(db, make_environment())


def test_an_error_inside_a_transaction_rolls_it_back(db: Database) -> None:
    def write_and_fail() -> None:
        with db.writing() as session:
            session.execute(text("DELETE FROM factors"))
            raise KeyError("a bug")

    with pytest.raises(KeyError):
        write_and_fail()

    with db.reading() as session:
        assert session.scalar(select(FactorRow.name).limit(1)) is not None


def test_opening_brings_the_registries_up_to_date(database_url: str) -> None:
    with opened(database_url) as db, db.writing() as session:
        session.execute(update(FactorRow).where(FactorRow.name == "api").values(label="old"))
        session.add(
            FactorRow(
                name="from_a_newer_zcdb",
                position=99,
                kind="tuning",
                type="text",
                label="",
                help="",
                default_json="null",
                aliases_json="[]",
            )
        )

    with opened(database_url) as db, db.reading() as session:
        label = session.scalar(select(FactorRow.label).where(FactorRow.name == "api"))
        names = session.scalars(select(FactorRow.name)).all()

    assert label == "API"
    assert "from_a_newer_zcdb" in names


def _open_and_close(path: Path) -> None:
    with opened(path):
        pass


def test_several_processes_may_open_a_new_database_at_once(tmp_path: Path) -> None:
    path = tmp_path / "lab.sqlite"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_open_and_close, args=(path,)) for _ in range(4)]

    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=120)

    assert [process.exitcode for process in processes] == [0, 0, 0, 0]


FILL_THE_DISK = """
    import sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[2])
    from store_support import make_run
    from sqlalchemy import func, select
    from zcdb.errors import StoreError
    from zcdb.store import write
    from zcdb.store.models import PlannedTrialRow, RunRow
    from zcdb.store.session import opened

    with opened(Path(sys.argv[1]) / "lab.sqlite", with_history=False) as db:
        stored = 0
        try:
            for number in range(1, 500):
                write.add_run(db, make_run(number, repetitions=40))
                stored += 1
        except StoreError as error:
            print(error.message)
        with db.reading() as session:
            runs = session.scalar(select(func.count()).select_from(RunRow))
            places = session.scalar(select(func.count()).select_from(PlannedTrialRow))
        print(stored, runs, places)
    path = Path(sys.argv[1]) / "lab.sqlite"
    with opened(path, with_history=False) as db, db.reading() as session:
        print(session.scalar(select(func.count()).select_from(RunRow)))
"""


def test_a_full_disk_rolls_back_one_record_and_keeps_the_earlier_ones(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=1m tmpfs {tmp_path}"
    isolated = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare to mount a small tmpfs with")
    if subprocess.run([*isolated, "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("no permission to mount a tmpfs in a private mount namespace")
    code = textwrap.dedent(FILL_THE_DISK)
    program = [sys.executable, "-W", "error::ResourceWarning", "-c", code]
    program += [str(tmp_path), str(Path(__file__).parent)]

    ended = subprocess.run(
        [*isolated, "sh", "-c", f'{mount} && exec "$@"', "sh", *program],
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert ended.returncode == 0, ended.stderr
    sentence, counts, reopened = ended.stdout.splitlines()
    stored, runs, places = (int(number) for number in counts.split())
    assert sentence == (
        f"the disk with {tmp_path}/lab.sqlite is full:"
        " this record was not stored, the earlier ones are"
    )
    assert 0 < stored == runs == int(reopened)
    assert places == runs * len(make_run(1, repetitions=40).plan)
