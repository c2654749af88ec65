"""`zcdb db`: output, JSON and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import delete, text
from store_support import demo_database

from zcdb.cli import main
from zcdb.store.models import SummaryRow
from zcdb.store.session import SCHEMA_REVISION, opened


@pytest.fixture
def run_zcdb(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> object:
    """Run the command line; gives exit code, stdout and stderr."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["zcdb", "db", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_upgrade_makes_a_new_database(run_zcdb, tmp_path: Path) -> None:
    path = tmp_path / "lab.sqlite"

    first = run_zcdb("upgrade", "--database", path)
    _, as_json, _ = run_zcdb("upgrade", "--database", path, "--json")

    assert first == (0, f"{path} has form {SCHEMA_REVISION}\n", "")
    assert json.loads(as_json)["revision"] == SCHEMA_REVISION


def test_upgrade_refuses_a_newer_database(run_zcdb, tmp_path: Path) -> None:
    with opened(tmp_path / "lab.sqlite") as db, db.writing() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    code, out, err = run_zcdb("upgrade", "--database", tmp_path / "lab.sqlite")

    assert (code, out) == (1, "")
    assert err.startswith(f"Error: {tmp_path}/lab.sqlite was made by a newer zcdb")


def test_verify_and_rebuild_work_together(run_zcdb, tmp_path: Path) -> None:
    path = tmp_path / "lab.sqlite"
    demo_database(path)
    sound = run_zcdb("verify", "--database", path)
    with opened(path) as db, db.writing() as session:
        session.execute(delete(SummaryRow))

    code, out, err = run_zcdb("verify", "--database", path)
    json_code, as_json, _ = run_zcdb("verify", "--database", path, "--json")
    rebuilt = run_zcdb("rebuild", "--database", path)

    cases = len(json.loads(as_json)["problems"]) and json.loads(as_json)["cases"]
    assert cases > 9  # the founding tables' cases are there as well
    assert sound == (
        0,
        f"{path}: {cases} cases, 1 environments and 432 measurements checked\n",
        "",
    )
    assert (code, json_code) == (1, 1)
    assert "the summary of throughput is out of date" in out
    assert f"Error: {path} has {len(json.loads(as_json)['problems'])} problems" in err
    assert "zcdb db rebuild" in err
    assert rebuilt == (0, f"{path}: {cases} cases rebuilt\n", "")
    assert run_zcdb("verify", "--database", path) == sound


def test_backup_copies_to_a_new_file_only(run_zcdb, tmp_path: Path) -> None:
    path, copy = tmp_path / "lab.sqlite", tmp_path / "copy.sqlite"
    demo_database(path)

    first = run_zcdb("backup", copy, "--database", path)
    code, _, err = run_zcdb("backup", copy, "--database", path)

    assert first == (0, f"{path} copied to {copy}\n", "")
    assert (code, err.splitlines()[0]) == (2, f"Error: {copy} exists already")
    assert run_zcdb("verify", "--database", copy)[0] == 0
