"""`zcdb plan` and `zcdb schema` on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

GOOD = """\
name = "tiny"
question = "Does it plan?"
[factors]
api = ["write", "send"]
[measure]
repetitions = 3
[compare]
baseline = { api = "write" }
"""


def zcdb(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "zcdb", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tiny.toml").write_text(GOOD)
    return tmp_path


def test_plan_prints_the_plan_of_a_file_and_leaves_nothing_behind(folder):
    done = zcdb("plan", "tiny.toml", cwd=folder)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("tiny\n  Does it plan?\n")
    assert "(2 cases + 1 twin) × 3 repetitions = 9 trials over loopback" in done.stdout
    assert [path.name for path in folder.iterdir()] == ["tiny.toml"]


def test_plan_without_a_file_prints_the_quickstart(folder):
    done = zcdb("plan", cwd=folder)

    assert done.returncode == 0
    assert done.stdout.startswith("quickstart\n")


def test_plan_json_is_for_programs(folder):
    done = zcdb("plan", "tiny.toml", "--json", "--cv", "1%", cwd=folder)

    document = json.loads(done.stdout)
    assert [case["factors"]["api"] for case in document["cases"]] == ["write", "send"]
    assert document["detectable"]["cv"] == 0.01


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["plan", "quikstart"], "quikstart: neither a file nor a shipped experiment; did you mean"),
        (["plan", "."], ".: cannot be read: Is a directory"),
        (["plan", "tiny.toml", "--cv", "much"], "--cv: 'much' is not a ratio"),
        (["plan", "tiny.toml", "--cv", "0"], "--cv: repetitions that do not vary"),
        (["plan", "tiny.toml", "--cv", "1%", "--pilot", "0195"], "--cv and --pilot both state"),
        (["plan", "bad.toml"], "bad.toml:3:1: factor: unknown key 'factor'; did you mean"),
    ],
)
def test_mistakes_are_one_sentence_with_a_hint_and_exit_code_2(folder, arguments, sentence):
    (folder / "bad.toml").write_text(GOOD.replace("[factors]", "factor = 1\n[factors]"))

    done = zcdb(*arguments, cwd=folder)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: {sentence}")
    assert "Traceback" not in done.stderr


def test_schema_prints_a_json_schema():
    done = zcdb("schema")

    assert done.returncode == 0
    assert json.loads(done.stdout)["title"] == "zcdb experiment file"


def test_planning_needs_neither_database_nor_engine_nor_numpy():
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from zcdb.cli.plan import plan_command\n"
        "assert CliRunner().invoke(plan_command, ['quickstart']).exit_code == 0\n"
        "heavy = {'numpy', 'sqlalchemy', 'pyroute2', 'rich', 'zcdb.engine', 'zcdb.store'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
