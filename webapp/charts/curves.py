"""Curves over message size, throughput against cost, and distributions of latency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from zcdb import units
from zcdb.webapp.charts.comparison import ratio_ticks
from zcdb.webapp.charts.figure import SLOTS, Axis, Figure, Rule, Series
from zcdb.webapp.labels import metric_label, metric_phrase, sentence_start
from zcdb.webapp.quantities import percent_change, quantity

TICKS_AT_LEAST = 3


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A ratio at one message size, with its interval."""

    size_bytes: int
    ratio: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Curve:
    """One API on one machine against copying, over message size."""

    name: str
    points: tuple[CurvePoint, ...]


def ratio_curves(key: str, metric: str, curves: Sequence[Curve]) -> Figure:
    """Return ratios to copying over message size; at most as many curves as can be told apart."""
    shown = curves[:SLOTS]
    sizes = sorted({point.size_bytes for curve in shown for point in curve.points})
    edges = [
        value
        for curve in shown
        for point in curve.points
        for value in (point.ratio, point.low, point.high)
        if value
    ]
    ticks = ratio_ticks(min([*edges, 0.98]), max([*edges, 1.02]))
    return Figure(
        key,
        f"{sentence_start(metric_phrase(metric))} against copying, by message size",
        "Below the line the API costs less than copying. Bars are adjusted intervals.",
        Axis(
            "Message size",
            "log",
            ticks=tuple(float(size) for size in sizes),
            tick_labels=tuple(units.format_size(size) for size in sizes),
        ),
        Axis(
            "Change against copying",
            "log",
            ticks=tuple(ticks),
            tick_labels=tuple(percent_change(tick) for tick in ticks),
        ),
        tuple(
            Series(
                curve.name,
                slot,
                "means",
                x=tuple(float(point.size_bytes) for point in curve.points),
                y=tuple(point.ratio for point in curve.points),
                low=tuple(point.low for point in curve.points),
                high=tuple(point.high for point in curve.points),
                notes=tuple(
                    f"{curve.name}, {units.format_size(point.size_bytes)}:"
                    f" {percent_change(point.ratio, 1)}"
                    for point in curve.points
                ),
                joined=True,
            )
            for slot, curve in enumerate(shown)
        ),
        rules=(Rule("y", 1.0, "no difference"),),
        is_wide=True,
    )


@dataclass(frozen=True, slots=True)
class CostPoint:
    """A case by what it moves and what that costs, in base units."""

    name: str
    group: str
    throughput: float
    cost: float
    low: float | None
    high: float | None


def scatter(key: str, metric: str, method: str, points: Sequence[CostPoint]) -> Figure:
    """Return throughput against a cost, a mark for each case; intervals are of the cost."""
    rate = quantity("throughput", [point.throughput for point in points])
    unit = quantity(metric, [point.cost for point in points])
    groups = list(dict.fromkeys(point.group for point in points))
    by = f" by {method}" if method else ""
    series = []
    for slot, group in enumerate(groups):
        own = [point for point in points if point.group == group]
        series.append(
            Series(
                group,
                slot,
                "means",
                x=tuple(point.throughput / rate.divisor for point in own),
                y=tuple(point.cost / unit.divisor for point in own),
                low=tuple(None if p.low is None else p.low / unit.divisor for p in own),
                high=tuple(None if p.high is None else p.high / unit.divisor for p in own),
                notes=tuple(
                    f"{p.name}: {rate.number(p.throughput)} {rate.unit},"
                    f" {unit.number(p.cost)} {unit.unit}"
                    for p in own
                ),
            )
        )
    best = min(points, key=lambda point: point.cost)
    return Figure(
        key,
        f"Throughput against {metric_phrase(metric)}",
        "Right is faster, down is cheaper: the lower right corner is best. Cheapest:"
        f" {best.name}, {unit.number(best.cost)} {unit.unit}.",
        Axis(f"Throughput ({rate.unit})", includes_zero=True),
        Axis(f"{metric_label(metric)}{by} ({unit.unit})", includes_zero=True),
        tuple(series),
        value_axis="y",
    )


@dataclass(frozen=True, slots=True)
class Distribution:
    """Percentiles of a latency: (share of the transactions, seconds), by share."""

    name: str
    points: tuple[tuple[float, float], ...]


def latency_distribution(key: str, distributions: Sequence[Distribution]) -> Figure:
    """Return the share of transactions that were at most so long, for each case."""
    shown = distributions[:SLOTS]
    longest = max(seconds for one in shown for _, seconds in one.points)
    divisor, unit = (1e-6, "us") if longest < 1e-3 else (1e-3, "ms")
    shortest = min(seconds for one in shown for _, seconds in one.points if seconds > 0)
    return Figure(
        key,
        "Distribution of the latency",
        "Share of the transactions that took at most so long, from the stored percentiles.",
        Axis(f"Latency ({unit})", "log", ticks=_log_ticks(shortest / divisor, longest / divisor)),
        Axis("Share of transactions (%)", includes_zero=True),
        tuple(
            Series(
                one.name,
                slot,
                "means",
                x=tuple(seconds / divisor for share, seconds in one.points if seconds > 0),
                y=tuple(share * 100 for share, seconds in one.points if seconds > 0),
                notes=tuple(
                    f"{one.name}: {share * 100:g} % at most {seconds / divisor:.3g} {unit}"
                    for share, seconds in one.points
                    if seconds > 0
                ),
                joined=True,
            )
            for slot, one in enumerate(shown)
        ),
        is_wide=True,
    )


_DIGITS = ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 5, 7), tuple(range(1, 10)))


def _log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Return round numbers between two numbers, as few digits of each power of ten as will do."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for digits in _DIGITS:
        ticks = [digit * 10.0**power for power in range(first, last + 1) for digit in digits]
        inside = [tick for tick in ticks if low <= tick <= high * 1.001]
        if len(inside) >= TICKS_AT_LEAST:
            break
    # A range narrower than any of them has its own lower end, rounded.
    return tuple(inside) or (float(f"{low:.3g}"),)
