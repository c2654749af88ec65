"""`zcdb export` and importing a bundle: what is printed, written and refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from store_support import DemoIds, demo_database

from zcdb.cli import main
from zcdb.store import queries
from zcdb.store.session import opened

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DemoIds]:
    """A database with the demo in it."""
    path = tmp_path_factory.mktemp("lab") / "lab.db"
    return path, demo_database(path)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Path]:
    """A database without anything."""
    path = tmp_path / "other.db"
    with opened(path, with_history=False):
        pass
    return path


@pytest.fixture
def run_zcdb(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["zcdb", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_a_run_goes_from_one_database_to_another(lab, other, run_zcdb, tmp_path):
    path, ids = lab
    bundle = tmp_path / "run.zip"

    code, out, _ = run_zcdb("export", ids.run_id[:8], "-o", bundle, "--database", path)

    assert code == 0
    first, second = out.splitlines()
    assert first.startswith(f"{bundle}: {bundle.stat().st_size} bytes, bundle ")
    assert "46 trials" in second
    assert "1 runs" in second

    code, out, _ = run_zcdb("import", bundle, "--database", other)

    assert code == 0
    assert "46 trials" in out
    with opened(other) as db:
        assert queries.trial_page(db, ids.ok_trial_id).trial.id == ids.ok_trial_id
    assert "new: nothing" in run_zcdb("import", bundle, "--database", other)[1]


def test_json_says_what_is_in_a_bundle_and_what_was_new(lab, other, run_zcdb, tmp_path):
    path, ids = lab
    bundle = tmp_path / "case.zip"

    made = json.loads(
        run_zcdb(*("export", ids.baseline_case_id, "-o", bundle, "--json", "--database", path))[1]
    )
    checked = json.loads(run_zcdb("import", bundle, "--dry-run", "--json", "--database", other)[1])
    taken = json.loads(run_zcdb("import", bundle, "--json", "--database", other)[1])

    assert made["lines"]["trials.ndjson"] == checked["lines"]["trials.ndjson"] == 10
    assert made["bundle"] == checked["bundle"] == taken["bundle"]
    assert taken["new"]["trials"] == 10
    assert taken["known"]["trials"] == 0


def test_a_query_of_explore_is_exported(lab, run_zcdb, tmp_path):
    path, _ = lab

    code, out, _ = run_zcdb(
        *("export", "api=write&message_size=4K", "-o", tmp_path / "q.zip", "--database", path)
    )

    assert code == 0
    assert "10 trials" in out


@pytest.mark.parametrize(
    ("arguments", "code", "message", "hint"),
    [
        (["all"], 2, "the bundle needs a file", "zcdb export 'all' -o results.zip"),
        (["site"], 2, "'zcdb export site' writes a folder", "zcdb export site public/"),
        (["apy=write", "-o", "x.zip"], 2, "there is no factor 'apy'", "Did you mean api?"),
        (["0123456789", "-o", "x.zip"], 1, "there is no result 0123456789 in", "'zcdb list' names"),
        (["all", "-o", "/nowhere/x.zip"], 1, "/nowhere/x.zip cannot be written: No such", ""),
    ],
)
def test_what_cannot_be_exported_is_said(lab, run_zcdb, arguments, code, message, hint):
    path, _ = lab

    got, _, err = run_zcdb("export", *arguments, "--database", path)

    assert got == code
    assert err.startswith(f"Error: {message}")
    assert hint in err


def test_a_changed_bundle_is_refused_with_exit_code_1(lab, other, run_zcdb, tmp_path):
    path, ids = lab
    bundle = tmp_path / "run.zip"
    run_zcdb("export", ids.run_id, "-o", bundle, "--database", path)
    whole = bundle.read_bytes()

    for place, member in ((0, "experiments"), (3, "experiments"), (len(whole) // 3, "trials")):
        bundle.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        code, _, err = run_zcdb("import", bundle, "--database", other)

        assert code == 1
        assert f"{member}.ndjson was changed since the bundle was made" in err
        assert "Nothing was imported" in err


def test_a_bundle_takes_no_conditions(lab, other, run_zcdb, tmp_path):
    path, ids = lab
    bundle = tmp_path / "run.zip"
    run_zcdb("export", ids.run_id, "-o", bundle, "--database", path)

    code, _, err = run_zcdb("import", bundle, "--factor", "api=send", "--database", other)

    assert code == 2
    assert "is a bundle: it says by itself under which conditions" in err


def test_the_site_is_written_into_a_folder(other, run_zcdb, tmp_path):
    folder = tmp_path / "public"

    code, out, _ = run_zcdb("export", "site", folder, "--without-nics", "--database", other)

    assert code == 0
    assert f"http.server --directory {folder}" in out
    assert (folder / "index.html").is_file()
    assert not (folder / "nics").exists()
