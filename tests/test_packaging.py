"""What is installed, and how fast it starts."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile

import pytest

HEAVY = ("sqlalchemy", "flask", "numpy", "plotly", "pyroute2", "pydantic", "rich", "alembic")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory, project_folder):
    """A wheel of this checkout, built with the tools that are installed."""
    source = tmp_path_factory.mktemp("source") / "checkout"
    subprocess.run(
        ["git", "clone", "--quiet", "--local", str(project_folder), str(source)], check=True
    )
    target = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", target, source],
        check=True,
        capture_output=True,
        timeout=250,
    )
    return next(target.glob("*.whl"))


def test_the_wheel_holds_everything_under_one_package(wheel):
    names = zipfile.ZipFile(wheel).namelist()

    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"zcdb"}
    for wanted in (
        "zcdb/webapp/templates/base.html",
        "zcdb/webapp/static/site.css",
        "zcdb/migrations/env.py",
        "zcdb/shipped_runs/quickstart.toml",
        "zcdb/py.typed",
    ):
        assert wanted in names
    assert any(re.fullmatch(r"zcdb/migrations/versions/\w+\.py", name) for name in names)
    assert any(re.fullmatch(r"zcdb/engine/_hot\.abi3\.so", name) for name in names)


def test_the_wheel_runs_on_every_python_from_3_11(wheel):
    assert re.search(r"-cp311-abi3-linux_", wheel.name)


def test_the_links_to_the_top_level_folders_are_folders(project_folder):
    for name in ("webapp", "migrations", "shipped_runs"):
        assert (project_folder / "zcdb" / name).is_dir()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"]])
def test_help_imports_nothing_heavy(arguments):
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "zcdb", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    imported = {line.rsplit("|", 1)[-1].strip() for line in result.stderr.splitlines()}
    assert not {name for name in imported if name.split(".")[0] in HEAVY}


def test_the_agent_imports_nothing_heavy():
    code = "import sys, zcdb.agent.server; print(*sys.modules)"

    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )

    assert not {name for name in result.stdout.split() if name.split(".")[0] in HEAVY}


def test_every_command_has_help_that_starts_with_a_verb():
    from zcdb.cli import COMMANDS, cli

    for name, (_, line) in COMMANDS.items():
        command = cli.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None
        assert command.name == name
        assert line[0].isupper()
        assert line.endswith(".")
        assert command.help


def test_an_unknown_command_is_one_sentence():
    result = subprocess.run(
        [sys.executable, "-m", "zcdb", "messure"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert result.returncode == 2
    assert "messure" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_missing_compiler_is_one_paragraph_with_the_package_to_install(project_folder, tmp_path):
    result = subprocess.run(
        [
            sys.executable,
            "setup.py",
            "build_ext",
            "--build-temp",
            tmp_path,
            "--build-lib",
            tmp_path,
        ],
        cwd=project_folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={"PATH": str(tmp_path), "CC": "no-such-cc"},
        check=False,
    )

    assert result.returncode != 0
    assert "a C compiler (no-such-cc)" in result.stderr
    assert "apt install gcc" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_shell_scripts_are_sound(project_folder):
    for script in ("scripts/system-deps", "scripts/pip-install", "scripts/check-c", ".ci/run"):
        subprocess.run(["sh", "-n", project_folder / script], check=True)
