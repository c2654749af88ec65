"""Where one API begins to be better than another: what a run with a crossover search found."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from zcdb.factors import FactorValue
from zcdb.metrics import METRICS
from zcdb.stats.compare import Comparison
from zcdb.stats.crossover import Crossover, LevelPoint, search, winner
from zcdb.store.results import RunCase


@dataclass(frozen=True, slots=True)
class CrossoverLevel:
    """A level that was measured.

    Attributes:
        ratio: the second API ÷ the first.
        better: the API that is better beyond doubt; None if neither is.
    """

    level: int
    ratio: float
    n: int
    better: str | None


@dataclass(frozen=True, slots=True)
class CrossoverAnswer:
    """The answer of a search.

    Attributes:
        found: None where fewer than two levels measured both.
        within: how narrow the file wants it.
    """

    factor: str
    between: tuple[str, str]
    metric: str
    method: str
    within: float
    found: Crossover | None
    levels: tuple[CrossoverLevel, ...]


def crossover_answer(
    wanted: Mapping[str, object],
    cases: Sequence[RunCase],
    method: str,
    compare: Callable[[RunCase, RunCase], Comparison],
) -> CrossoverAnswer:
    """Return what a run says about the crossover that its experiment asks for.

    Args:
        wanted: `crossover` of the resolved [compare] section.
        cases: of the run, without twins.
        method: CPU method of the metric.
        compare: how two cases compare by the metric, the baseline first.
    """
    factor, metric = str(wanted["factor"]), str(wanted["metric"])
    between = _two(wanted["between"])
    is_lower_better = METRICS[metric].better == "lower"
    at_most, within = int(str(wanted["at_most"])), float(str(wanted["within"]))
    by_api: dict[FactorValue, dict[FactorValue, RunCase]] = {}
    for case in cases:
        by_api.setdefault(case.factors["api"], {})[case.factors[factor]] = case
    first, second = (by_api.get(api, {}) for api in between)
    points = [
        LevelPoint(int(level), compare(first[level], second[level]))
        for level in sorted(first.keys() & second.keys())
    ]
    points = [point for point in points if point.comparison.log_ratio is not None]
    found = None
    if 2 <= len(points) <= at_most:
        found = search(points, is_lower_better=is_lower_better, within=within, at_most=at_most)
    names = {"first": between[0], "second": between[1], None: None}
    levels = [
        CrossoverLevel(
            point.level,
            math.exp(point.comparison.log_ratio or 0.0),
            point.comparison.n_candidate,
            names[winner(point.comparison, is_lower_better, at_most)],
        )
        for point in points
    ]
    return CrossoverAnswer(factor, between, metric, method, within, found, tuple(levels))


def _two(names: object) -> tuple[str, str]:
    first, second = names if isinstance(names, list | tuple) else ("", "")
    return str(first), str(second)
