"""Experiment files: found, read, checked.

The only way to an `Experiment`.  All mistakes of a file are told at once,
each with its line.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import zcdb
from zcdb.errors import ExperimentError
from zcdb.experiment import checks
from zcdb.experiment.fields import DECLARABLE, SETTING_TABLES
from zcdb.experiment.form import Compare, Experiment, Link, Measure
from zcdb.experiment.positions import Position
from zcdb.experiment.problems import Problem, about_form, pointed_line, report, unknown_key
from zcdb.experiment.words import nearest
from zcdb.units import format_size

__all__ = [
    "Compare",
    "Experiment",
    "Link",
    "Measure",
    "find",
    "find_shipped",
    "json_schema",
    "load",
    "parse",
]

LARGEST_FILE_BYTES = 1024 * 1024

_TOML_PLACE = re.compile(r" \(at line ([0-9]+), column ([0-9]+)\)$")
_STAND_INS = {"name": "unreadable", "question": "unreadable"}


def load(path: Path | str) -> Experiment:
    """Read and check an experiment file.

    Raises:
        ExperimentError: if it cannot be read, is not TOML, or does not make sense; the
            message has every mistake with its line.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(LARGEST_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        # ValueError: a name with a null character.
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ExperimentError(f"{path}: cannot be read: {why}") from error
    if len(content) > LARGEST_FILE_BYTES:
        limit = format_size(LARGEST_FILE_BYTES)
        raise ExperimentError(f"{path}: larger than {limit}; that is no experiment file")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ExperimentError(
            f"{path}: not UTF-8 text (byte {error.start})", hint="Experiment files are TOML text."
        ) from error
    return parse(text, str(path))


def parse(text: str, file_name: str) -> Experiment:
    """Check the text of an experiment file.

    Args:
        file_name: what to call it in messages.

    Raises:
        ExperimentError: as `load`.
    """
    # TOML allows both ends of line; positions count the lines of this text.
    text = text.replace("\r\n", "\n")
    data = _toml(text, file_name)
    not_factors = _neither_factor_nor_group(data)
    experiment, problems, unreadable = _formed(data, text)
    problems = [p for p in problems if not any(_is_inside(p, other) for other in not_factors)]
    problems += not_factors
    problems += checks.problems_in(experiment, unreadable)
    if problems:
        raise report(problems, text, file_name)
    return experiment


def _toml(text: str, file_name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ExperimentError(f"{file_name}: nested too deeply") from error
    except ValueError as error:
        # tomllib.TOMLDecodeError, or an integer of thousands of digits.
        sentence = str(error)
        place = _TOML_PLACE.search(sentence)
        if place is None:
            raise ExperimentError(f"{file_name}: not TOML: {sentence}") from error
        line, column = int(place[1]), int(place[2])
        raise ExperimentError(
            f"{file_name}:{line}:{column}: not TOML: {sentence[: place.start()]}\n"
            + pointed_line(text, Position(line, column))
        ) from error


def _formed(data: dict[str, Any], text: str) -> tuple[Experiment, list[Problem], set[str]]:
    """Return the experiment, with defaults for the sections whose form is wrong, and those."""
    context = {"source": text}
    try:
        return Experiment.model_validate(data, context=context), [], set()
    except ValidationError as error:
        problems = about_form(error)
    unreadable = {str(problem.path[0]) for problem in problems}
    readable = {key: value for key, value in data.items() if key not in unreadable}
    stand_ins = {key: value for key, value in _STAND_INS.items() if key in unreadable}
    experiment = Experiment.model_validate({**readable, **stand_ins}, context=context)
    return experiment, problems, unreadable


def _neither_factor_nor_group(data: dict[str, Any]) -> list[Problem]:
    """Return problems for names in [factors] that are no factor and hold no tables.

    A group may have any name, so a mistyped factor would otherwise be read as one.
    """
    declared = data.get("factors")
    if not isinstance(declared, dict):
        return []
    known = {factor.name for factor in DECLARABLE} | set(SETTING_TABLES)
    problems = []
    for name, value in declared.items():
        is_group = isinstance(value, list) and any(isinstance(level, dict) for level in value)
        if name not in known and not is_group:
            path = ("factors", name)
            problems.append(Problem(path, unknown_key(path), is_about_key=True))
    return problems


def _is_inside(problem: Problem, other: Problem) -> bool:
    return problem.path[: len(other.path)] == other.path


def json_schema() -> str:
    """Return the JSON Schema of experiment files, for editors, as text."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Experiment.model_json_schema(),
    }
    return json.dumps(schema, indent=2, ensure_ascii=False)


def _shipped() -> dict[str, Path]:
    folder = Path(zcdb.__file__).parent / "shipped_runs"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def find_shipped(name: str) -> Path:
    """Return the path of an experiment that comes with zcdb, "quickstart" for one.

    Raises:
        ExperimentError: if there is none of this name; says which are near.
    """
    shipped = _shipped()
    if name in shipped:
        return shipped[name]
    near = nearest(name, shipped)
    meant = f"; did you mean {near!r}?" if near else ""
    raise ExperimentError(
        f"{name}: neither a file nor a shipped experiment{meant}",
        hint=f"Shipped are: {', '.join(shipped) or 'none'}.",
    )


def find(file_or_name: str) -> Path:
    """Return the path of an experiment file, or of the shipped experiment of this name.

    Raises:
        ExperimentError: if it is neither.
    """
    path = Path(file_or_name)
    try:
        is_shipped = path.is_dir() and file_or_name in _shipped()
        is_file = path.exists() and not is_shipped
    except OSError as error:
        raise ExperimentError(f"{file_or_name}: cannot be read: {error.strerror}") from error
    return path if is_file else find_shipped(file_or_name)
