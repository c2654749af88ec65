"""A/A: what the twins of a run say about its method.

A twin is a case under another name.  Its comparisons show how often the
method finds a difference where there is none; it takes part in nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zcdb.factors import FactorValue
from zcdb.stats.aa import FalseAlarms, false_alarms
from zcdb.stats.compare import Comparison
from zcdb.store.results import RunCase


@dataclass(frozen=True, slots=True)
class TwinRow:
    """Two equal cases compared by one metric.

    Attributes:
        factors: what both are, the twin's number apart.
        ratio: the one ÷ the other; None where both were not measured.
        p_value: of "no difference", not adjusted.
    """

    metric: str
    method: str
    factors: Mapping[str, FactorValue]
    ratio: float | None
    p_value: float | None
    n: int


@dataclass(frozen=True, slots=True)
class TwinCheck:
    """All comparisons of equal cases of a run."""

    rows: tuple[TwinRow, ...]
    alarms: FalseAlarms


def is_twin(factors: Mapping[str, FactorValue]) -> bool:
    """Return whether a case is there as another's twin."""
    return bool(factors.get("twin"))


def real_cases(cases: Sequence[RunCase]) -> tuple[RunCase, ...]:
    """Return the cases that are nobody's twin."""
    return tuple(case for case in cases if not is_twin(case.factors))


def twin_pairs(cases: Sequence[RunCase]) -> list[tuple[RunCase, RunCase]]:
    """Return equal cases in pairs, each case in one pair at most, so that pairs are independent."""
    equal: dict[object, list[RunCase]] = {}
    for case in cases:
        key = tuple((n, v) for n, v in case.factors.items() if n != "twin")
        equal.setdefault((key, tuple(case.context.items())), []).append(case)
    pairs = []
    for group in equal.values():
        ordered = sorted(group, key=lambda case: int(case.factors.get("twin", 0)))
        pairs += list(zip(ordered[::2], ordered[1::2], strict=False))
    return pairs


def twin_check(compared: Sequence[tuple[TwinRow, Comparison]]) -> TwinCheck | None:
    """Return the false alarms among comparisons of equal cases; None without any."""
    if not compared:
        return None
    rows = tuple(row for row, _ in compared)
    return TwinCheck(rows, false_alarms([comparison for _, comparison in compared]))
