"""zcdb restore: what a killed run left is put back, and told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from settings_support import FakeBackend, NewStart, machine

from zcdb.cli import restore
from zcdb.host import settings
from zcdb.host.settings import Transaction, parse_setting

WANTED = [parse_setting("mtu", "eth1", 9000), parse_setting("feature", "eth1", {"tso": False})]


@pytest.fixture
def fake():
    return FakeBackend()


@pytest.fixture
def new_start(fake, tmp_path, monkeypatch):
    """A machine on which a run with two changed settings was killed."""
    start = NewStart(fake, tmp_path / "settings", tmp_path / "root")
    monkeypatch.setattr(settings, "restore_leftovers", start.restore)
    Transaction(["eth1"], backend=fake, folder=start.folder, environment={}).apply(WANTED)
    return start


def run(*arguments: str):
    return CliRunner().invoke(restore.restore_command, arguments)


def test_everything_is_put_back_and_told_last_change_first(fake, new_start):
    result = run()

    assert result.exit_code == 0
    assert result.output.splitlines() == [
        f"Process {os.getpid()} ended without undoing 2 changes of settings",
        "  tx-tcp-segmentation of eth1: on again",
        "  tx-tcp6-segmentation of eth1: on again",
        "  mtu of eth1: 1500 again",
    ]
    assert fake.state == machine()


def test_a_dry_run_changes_nothing(fake, new_start):
    before = {place: dict(items) for place, items in fake.state.items()}

    result = run("--dry-run")

    assert result.exit_code == 0
    assert "  mtu of eth1: would be 1500 again, is 9000" in result.output.splitlines()
    assert fake.state == before


def test_json_has_the_values_and_their_outcome(new_start):
    result = run("--json")

    (journal,) = json.loads(result.output)
    assert (journal["state"], journal["is_complete"]) == ("left", True)
    assert journal["owner_pid"] == os.getpid()
    assert journal["values"][-1] == {
        "kind": "mtu",
        "target": "eth1",
        "key": "mtu",
        "old": 1500,
        "found": 9000,
        "outcome": "restored",
        "sentence": "mtu of eth1: 1500 again",
    }


def test_what_cannot_be_put_back_gives_exit_code_1(fake, new_start):
    fake.refuse[("mtu", "eth1")] = 16

    result = run()

    assert result.exit_code == 1
    assert "cannot be put back to 1500: Device or resource busy" in result.output


@pytest.mark.parametrize(
    ("arguments", "output"), [([], "Nothing to put back.\n"), (["--json"], "[]\n")]
)
def test_nothing_left_is_said_too(tmp_path, arguments, output):
    script = "import sys; from zcdb.cli.restore import restore_command; restore_command()"
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "ZCDB_STATE": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, output, "")
    assert list(Path(tmp_path).iterdir()) == []
