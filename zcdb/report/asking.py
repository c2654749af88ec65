"""Questions as people and addresses put them, read into a `Question`.

    ask_factor("api", "write", ["sendfile"])      levels of a factor
    ask_ids("cases", id, [other])                 cases or runs
    ask(words_of("axis=api&a=write&b=sendfile"))  the parameters of /compare

What does not make sense is a `UsageError` whose sentence names it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from zcdb import factors as registry
from zcdb.errors import UsageError
from zcdb.factors import FACTORS, FactorValue
from zcdb.metrics import CPU_METHODS, HEADLINE_CPU_METHOD, METRICS
from zcdb.report.compare import DEFAULT_MATTERS, DEFAULT_METRICS, Question
from zcdb.units import parse_ratio

WRITTEN_SO = "write it as in the address of /compare: axis=api&a=write&b=sendfile"


def words_of(query: str) -> dict[str, list[str]]:
    """Return name -> values of a query text."""
    words: dict[str, list[str]] = {}
    for name, value in parse_qsl(query.lstrip("?"), keep_blank_values=False):
        words.setdefault(name, []).append(value)
    return words


def ask(words: Mapping[str, Sequence[str]]) -> Question:
    """Return the question that the parameters of /compare ask.

    Args:
        words: axis or of, a, b, m, method, matters, and factors that filter -> values.

    Raises:
        UsageError: if it does not make sense.
    """
    given = {name: list(values) for name, values in words.items() if values}
    axis, kind = given.pop("axis", []), given.pop("of", [])
    baseline, candidates = given.pop("a", []), given.pop("b", [])
    others: dict[str, Any] = {
        "metrics": tuple(dict.fromkeys(given.pop("m", DEFAULT_METRICS))),
        "method": given.pop("method", [HEADLINE_CPU_METHOD])[0],
        "matters": margin(given.pop("matters", [str(DEFAULT_MATTERS)])[0]),
    }
    if not axis and not kind:
        raise UsageError(
            "this is no comparison: one names a factor (axis), or what is compared (of)",
            hint=WRITTEN_SO,
        )
    if len(baseline) != 1 or not candidates or len(axis) + len(kind) != 1:
        raise UsageError(
            "this is no comparison: one has a baseline (a), something beside it (b), and one factor"
            " (axis) or what is compared (of)",
            hint=WRITTEN_SO,
        )
    if axis:
        return ask_factor(axis[0], baseline[0], candidates, given, **others)
    if given:
        raise UsageError(f"{', '.join(given)}: ids name their cases, and nothing filters them")
    return ask_ids(kind[0], baseline[0], candidates, **others)


def margin(text: str, name: str = "matters") -> float:
    """Return the ratio below which a difference does not matter: "2%" or "0.02".

    Args:
        name: of the parameter or option that states it.

    Raises:
        UsageError: if it is none.
    """
    try:
        return parse_ratio(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None


def ask_ids(kind: str, baseline: str, candidates: Sequence[str], **others: Any) -> Question:
    """Return a question about cases, or about two runs, by their ids.

    Args:
        kind: "cases" or "runs".

    Raises:
        UsageError: for another kind, or more than two runs.
    """
    if kind not in ("cases", "runs"):
        raise UsageError(f"{kind!r} cannot be compared; of=cases and of=runs can")
    if kind == "runs" and len(candidates) != 1:
        raise UsageError("runs are compared two at a time")
    return _checked(
        Question("runs" if kind == "runs" else "cases", "", baseline, tuple(candidates), **others)
    )


def ask_factor(
    factor: str,
    baseline: str,
    candidates: Sequence[str],
    where: Mapping[str, Sequence[str]] | None = None,
    **others: Any,
) -> Question:
    """Return a question about levels of a factor, its words read as an experiment file's are.

    Raises:
        UsageError: for an unknown factor, a value it does not take, or one level twice.
    """
    known = registry.find(factor)
    if known is None:
        raise UsageError(
            f"there is no factor {factor!r}",
            hint=_near(factor, FACTORS),
        )
    levels = [_level_of(known.name, text) for text in (baseline, *candidates)]
    if len(set(levels)) != len(levels):
        raise UsageError(
            f"{factor}: each level is compared once, got {', '.join(map(str, levels))}"
        )
    filters = {
        _known(name): tuple(_level_of(_known(name), value) for value in values)
        for name, values in (where or {}).items()
    }
    return _checked(Question("factor", known.name, levels[0], tuple(levels[1:]), filters, **others))


def _near(word: str, known: Iterable[str]) -> str | None:
    near = difflib.get_close_matches(word, list(known), 3, 0.5)
    return f"did you mean {' or '.join(near)}?" if near else None


def _known(name: str) -> str:
    factor = registry.find(name)
    if factor is None:
        raise UsageError(f"there is no factor {name!r}", hint=_near(name, FACTORS))
    return factor.name


def _level_of(factor: str, text: str) -> FactorValue:
    """Return a level as it is stored; published and observed values are taken as they stand.

    Raises:
        UsageError: for a value that the factor does not take.
    """
    try:
        return registry.normalise_published(factor, text)
    except ValueError as error:
        raise UsageError(f"{factor}: {error}") from None


def _checked(question: Question) -> Question:
    """Return the question if it makes sense.

    Raises:
        UsageError: for an unknown metric or method, or a margin that is none.
    """
    for name in question.metrics:
        if name not in METRICS:
            raise UsageError(f"there is no metric {name!r}", hint=_near(name, METRICS))
    if question.method not in CPU_METHODS:
        raise UsageError(
            f"there is no CPU method {question.method!r}",
            hint=f"methods are {', '.join(CPU_METHODS)}",
        )
    if not 0 < question.matters < 1:
        raise UsageError(f"matters is a ratio above 0 and below 1, got {question.matters:g}")
    if not question.candidates:
        raise UsageError("a comparison needs something to compare with the baseline")
    return question
