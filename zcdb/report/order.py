"""What the order of a run's values shows: patterns of each case, of the run, and torn blocks.

A value is only looked at, never left out: nothing is measured again because
its order looks odd.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from zcdb.factors import FactorValue
from zcdb.stats.patterns import ALARM, Pattern, find_pattern
from zcdb.store.queries.method import Place
from zcdb.store.results import RunCase

TORN = timedelta(hours=1)
"""Trials of one block that lie further apart than this share little of the machine's state."""


@dataclass(frozen=True, slots=True)
class PatternRemark:
    """A pattern in the order of values.

    Attributes:
        factors: the case; None for the run as a whole, whose values are those of all cases,
            each ÷ the mean of its case.
    """

    metric: str
    method: str
    factors: Mapping[str, FactorValue] | None
    pattern: Pattern


def patterns(
    cases: Sequence[RunCase],
    metrics: Sequence[tuple[str, str]],
    places: Mapping[tuple[str, int], Place],
) -> tuple[PatternRemark, ...]:
    """Return every pattern that is found, those of the whole run first.

    Args:
        cases: of the run, twins too.
        metrics: (metric, method) to look at.
        places: where each repetition was measured; without it blocks are taken in their
            order, and cases within them as declared.
    """
    looked: list[tuple[str, str, Mapping[str, FactorValue] | None, list[float]]] = []
    for metric, method in metrics:
        looked.append((metric, method, None, _relative(cases, metric, method, places)))
        looked += [
            (metric, method, case.factors, _values(case, metric, method))
            for case in cases
            if not case.factors.get("twin")
        ]
    long_enough = [entry for entry in looked if entry[3]]
    # Two tests a series, for a drift and for a period, share the alarms of the run.
    alarm = ALARM / max(1, 2 * len(long_enough))
    found = [(*entry[:3], find_pattern(entry[3], alarm)) for entry in long_enough]
    remarks = [
        PatternRemark(metric, method, factors, pattern)
        for metric, method, factors, pattern in found
        if pattern.word not in ("steady", "too short")
    ]
    return tuple(sorted(remarks, key=lambda remark: remark.factors is not None))


def _values(case: RunCase, metric: str, method: str) -> list[float]:
    series = case.find(metric, method)
    return [value for value in series.kept if value is not None] if series else []


def _relative(
    cases: Sequence[RunCase],
    metric: str,
    method: str,
    places: Mapping[tuple[str, int], Place],
) -> list[float]:
    """Return the values of all cases in the order of measuring, each ÷ the mean of its case."""
    placed: list[tuple[tuple[int, int], float]] = []
    for number, case in enumerate(cases):
        series = case.find(metric, method)
        if series is None or not series.statistic.mean:
            continue
        for repetition, value in enumerate(series.kept):
            if value is not None:
                place = places.get((case.plan_key, repetition))
                at = (place.position, 0) if place else (repetition, number)
                placed.append((at, value / series.statistic.mean))
    return [value for _, value in sorted(placed, key=lambda pair: pair[0])]


def torn_pairs(
    baseline: RunCase, candidate: RunCase, places: Mapping[tuple[str, int], Place]
) -> tuple[int, int]:
    """Return how many pairs were measured far apart in time, and how many there are."""
    apart = [
        abs(places[baseline.plan_key, at].started_at - places[candidate.plan_key, at].started_at)
        for plan_key, at in places
        if plan_key == candidate.plan_key and (baseline.plan_key, at) in places
    ]
    return sum(gap > TORN for gap in apart), len(apart)
