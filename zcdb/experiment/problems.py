"""Mistakes in an experiment file, and how they are shown.

All of them at once, each with its place and the line it is in:

    runs/bad.toml:12:1: measure.repetitons: unknown key; did you mean 'repetitions'?
        repetitons = 20
        ^
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from zcdb.errors import ExperimentError
from zcdb.experiment.fields import DECLARABLE
from zcdb.experiment.form import Compare, Crossover, Experiment, Host, Link, Measure, Until
from zcdb.experiment.positions import Path, Position, locate
from zcdb.experiment.words import did_you_mean, nearest
from zcdb.factors import FACTORS

_WRONG_TYPES = {
    "model_type": "is not a table",
    "model_attributes_type": "is not a table",
    "dict_type": "is not a table",
    "tuple_type": "is not a list",
}
_SECTIONS: dict[Path, Any] = {
    (): Experiment,
    ("link",): Link,
    ("link", "sender"): Host,
    ("link", "receiver"): Host,
    ("measure",): Measure,
    ("measure", "until"): Until,
    ("compare",): Compare,
    ("compare", "crossover"): Crossover,
}
"""Tables whose keys are not factors."""

SENTENCE_LIMIT = 400
LINE_LIMIT = 120


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake.

    Attributes:
        path: where it is in the data.
        sentence: what is wrong and what would be right.
        is_about_key: True if the key is wrong, False if its value is.
    """

    path: Path
    sentence: str
    is_about_key: bool = False


def about_form(error: ValidationError) -> list[Problem]:
    """Return what pydantic found, in the words of experiment files."""
    return [
        _translated(detail)
        for detail in error.errors(include_url=False)
        # A list whose values are all wrong counts as empty too; that would be said twice.
        if detail["type"] != "too_short" or not detail["input"]
    ]


def _translated(detail: Any) -> Problem:
    path: Path = detail["loc"]
    if detail["type"] == "value_error":
        return Problem(path, str(detail["ctx"]["error"]))
    if detail["type"] == "extra_forbidden":
        return Problem(path, unknown_key(path), is_about_key=True)
    if detail["type"] == "missing":
        whole = "every experiment" if len(path) == 1 else f"[{'.'.join(map(str, path[:-1]))}]"
        return Problem(path, f"missing; {whole} has a {path[-1]}")
    if detail["type"] == "too_short":
        return Problem(path, "needs at least one value")
    if path == ("exclude",):
        return Problem(path, "is not a list of tables; write [[exclude]] with two brackets")
    wrong = _WRONG_TYPES.get(detail["type"])
    if wrong is not None:
        return Problem(path, f"{detail['input']!r} {wrong}")
    return Problem(path, f"{detail['msg']}, got {detail['input']!r}")


def unknown_key(path: Path) -> str:
    """Return the sentence about a key that is not known where it stands."""
    name = str(path[-1])
    section = path[:-1]
    if section in _SECTIONS:
        keys = [field.alias or key for key, field in _SECTIONS[section].model_fields.items()]
        return f"unknown key {name!r}{did_you_mean(name, keys)}"
    if name == "link":
        return "the link is declared by 'kind' in the table [link]"
    if name in FACTORS:
        return f"{name!r} is read from the machine and cannot be declared"
    known_factors = [factor.name for factor in DECLARABLE]
    known = did_you_mean(name, known_factors)
    if section == ("factors",) and nearest(name, known_factors) is None:
        return f"unknown factor {name!r}{known}; the levels of a group are tables"
    where = f" in the group {section[1]!r}" if len(section) > 1 and section[0] == "factors" else ""
    return f"unknown factor {name!r}{where}{known}"


def report(problems: Iterable[Problem], text: str, file_name: str) -> ExperimentError:
    """Return the error that shows every problem with its place and its line."""
    positions = locate(text)
    placed = [(positions.find(p.path, key=p.is_about_key), p) for p in problems]
    placed.sort(key=lambda pair: pair[0] or Position(0, 0))
    shown = dict.fromkeys(_rendered(problem, place, text, file_name) for place, problem in placed)
    return ExperimentError(
        "\n".join(shown),
        hint="'zcdb schema' prints every key; docs/experiment-files.md explains them.",
    )


def _rendered(problem: Problem, place: Position | None, text: str, file_name: str) -> str:
    sentence = f"{'.'.join(map(str, problem.path))}: {_shortened(problem.sentence)}"
    if place is None:
        return f"{file_name}: {sentence}"
    return f"{file_name}:{place.line}:{place.column}: {sentence}\n" + pointed_line(text, place)


def _shortened(sentence: str) -> str:
    """Return a sentence whose quoted value, of any length in the file, fits a screen."""
    if len(sentence) <= SENTENCE_LIMIT:
        return sentence
    half = SENTENCE_LIMIT // 2
    return f"{sentence[:half]} … {sentence[-half:]}"


def pointed_line(text: str, place: Position) -> str:
    """Return the line of a place, or what is around it on a long one, and a caret below."""
    source = text.split("\n")[place.line - 1].rstrip().replace("\t", " ")
    start = max(0, place.column - 1 - LINE_LIMIT // 2) if len(source) > LINE_LIMIT else 0
    shown = source[start : start + LINE_LIMIT]
    return f"    {shown}\n    {' ' * (place.column - 1 - start)}^"
