"""`zcdb list`, `zcdb show` and `zcdb note`: output, JSON and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from store_support import DemoIds, demo_database

from zcdb.cli import main
from zcdb.report.verdicts import render_text, verdict_table
from zcdb.store import queries
from zcdb.store.session import opened

pytest_plugins = ["store_fixtures"]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DemoIds]:
    path = tmp_path_factory.mktemp("lab") / "lab.sqlite"
    return path, demo_database(path)


@pytest.fixture
def run_zcdb(
    lab: tuple[Path, DemoIds],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> object:
    """Run the command line on the demo; gives exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["zcdb", *arguments, "--database", str(lab[0])])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_list_shows_runs_newest_first(run_zcdb, lab) -> None:
    code, out, err = run_zcdb("list")

    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0].split() == ["run", "started", "(UTC)", "outcome", "ok", "experiment", "note"]
    assert lines[1].startswith(f"{lab[1].run_id}  2026-03-03 12:00  finished  39/45  quickstart")
    assert lines[2].startswith(lab[1].older_run_id)


def test_a_list_goes_on_after_an_entry(run_zcdb, lab) -> None:
    _, first, _ = run_zcdb("list", "--limit", "1")
    _, second, _ = run_zcdb("list", "--limit", "1", "--after", lab[1].run_id)

    assert f"--after {lab[1].run_id}" in first
    assert lab[1].older_run_id in second
    assert "--after" not in second


@pytest.mark.parametrize(
    ("what", "key", "entries"),
    [("runs", "runs", 2), ("experiments", "experiments", 1), ("cases", "cases", 9)],
)
def test_lists_are_there_as_json(run_zcdb, what: str, key: str, entries: int) -> None:
    code, out, _ = run_zcdb("list", what, "--json")

    assert code == 0
    assert len(json.loads(out)[key]) == entries


def test_lists_of_experiments_and_cases_name_them(run_zcdb, lab) -> None:
    _, experiments, _ = run_zcdb("list", "experiments")
    _, cases, _ = run_zcdb("list", "cases")

    assert "quickstart  2     Does sendfile cost less CPU than write here?" in experiments
    assert lab[1].baseline_case_id in cases
    assert "sendfile, message size 4 KiB" in cases


def test_show_run_begins_with_the_verdict_table(run_zcdb, lab) -> None:
    path, ids = lab
    with opened(path) as db:
        expected = render_text(verdict_table(db, ids.run_id))

    code, out, _ = run_zcdb("show", ids.run_id)

    assert code == 0
    assert out.startswith(expected)


@pytest.mark.parametrize(
    "attribute", ["ok_trial_id", "baseline_case_id", "environment_id", "experiment_id"]
)
def test_show_takes_the_first_digits_of_any_id(run_zcdb, lab, attribute: str) -> None:
    wanted = getattr(lab[1], attribute)

    code, out, _ = run_zcdb("show", wanted[:8])
    _, as_json, _ = run_zcdb("show", wanted[:8], "--json")

    assert code == 0
    name = 'name = "quickstart"' if attribute == "experiment_id" else wanted
    assert name in out
    assert wanted in as_json
    json.loads(as_json)


@pytest.mark.parametrize(
    ("id", "code", "said"),
    [
        ("0195", 2, "Error: '0195' is not an id: write at least 6 of its hex digits"),
        ("quickstart", 2, "Error: 'quickstart' is not an id"),
        ("0195000", 2, "Error: '0195000' is the beginning of several ids: run 01950001-"),
        ("abcdef0123", 1, "Error: there is no result abcdef0123 in "),
    ],
)
def test_an_id_that_names_nothing_gives_one_sentence(
    run_zcdb, id: str, code: int, said: str
) -> None:
    ended, out, err = run_zcdb("show", id)

    assert (ended, out) == (code, "")
    assert err.startswith(said)
    assert "Traceback" not in err


def test_note_writes_beside_a_run(run_zcdb, lab) -> None:
    path, ids = lab

    code, out, _ = run_zcdb("note", ids.older_run_id[:8], "with a warm cache")
    _, as_json, _ = run_zcdb("note", ids.older_run_id, "with a cold cache", "--json")

    assert (code, out) == (0, f"noted beside run {ids.older_run_id}\n")
    assert json.loads(as_json) == {"run": ids.older_run_id, "note": "with a cold cache"}
    with opened(path) as db:
        assert queries.run_page(db, ids.older_run_id).run.note == "with a cold cache"


def test_a_note_needs_a_run(run_zcdb, lab) -> None:
    code, _, err = run_zcdb("note", lab[1].ok_trial_id, "no")

    assert code == 1
    assert err.startswith("Error: there is no run")


def test_a_file_that_is_no_database_gives_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "letter").write_text("Dear database")
    monkeypatch.setattr("sys.argv", ["zcdb", "list", "--database", str(tmp_path / "letter")])

    with pytest.raises(SystemExit) as stopped:
        main()

    assert stopped.value.code == 1
    said = capsys.readouterr().err
    assert said.splitlines() == [
        f"Error: {tmp_path}/letter is not an SQLite database",
        "Hint: Name another file with --database.",
    ]
