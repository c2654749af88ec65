"""What the README says works: its commands exist and its example loads."""

from __future__ import annotations

import re

import pytest

from zcdb.cli import COMMANDS
from zcdb.experiment import plan, spec


@pytest.fixture(scope="module")
def readme(project_folder):
    return (project_folder / "README.md").read_text()


def test_every_command_of_the_readme_exists(readme):
    named = set(re.findall(r"^zcdb (\w+)", readme, re.MULTILINE))

    assert named
    assert named <= set(COMMANDS)


def test_every_make_target_of_the_readme_exists(readme, project_folder):
    makefile = (project_folder / "Makefile").read_text()

    targets = set(re.findall(r"^make (\w+)", readme, re.MULTILINE))

    assert targets >= {"demo", "test"}
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_the_example_experiment_loads_and_can_be_planned(readme):
    text = re.search(r"```toml\n(.*?)```", readme, re.DOTALL)[1]

    experiment = spec.parse(text, "mine.toml")

    assert len(plan.make_plan(experiment).cases) == 4


def test_every_file_the_readme_names_is_there(readme, project_folder):
    for name in re.findall(r"\b(?:docs/[\w-]+\.md|[A-Z]+\.(?:md|cff))\b", readme):
        assert (project_folder / name).is_file(), name
