"""Charts that set the cases of a run side by side.

A numeric factor with three or more levels becomes the horizontal axis (a
sweep); otherwise each case is a row.  Both show every repetition and the mean
with its interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zcdb import factors, units
from zcdb.factors import FactorValue
from zcdb.metrics import METRICS
from zcdb.webapp.charts.figure import SLOTS, Axis, Band, Figure, Rule, Series
from zcdb.webapp.labels import (
    case_label,
    factor_label,
    metric_label,
    metric_phrase,
    naming_factors,
    sentence_start,
)
from zcdb.webapp.quantities import Quantity, percent_change, quantity

SWEEP_FROM_LEVELS = 3


@dataclass(frozen=True, slots=True)
class CaseValues:
    """One case's values of one metric, in the metric's base unit."""

    factors: Mapping[str, FactorValue]
    values: tuple[float, ...]
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class RatioRow:
    """One comparison: the candidate's value as a multiple of the baseline's."""

    label: str
    word: str
    ratio: float
    low: float | None
    high: float | None


def comparison(key: str, metric: str, method: str, cases: Sequence[CaseValues]) -> Figure:
    """Return the chart of one metric over all cases that have a value of it, at least one."""
    names = naming_factors([case.factors for case in cases])
    sweep = _sweep_factor(cases, names)
    rest = [name for name in names if name != sweep]
    if sweep and len({case_label(case.factors, rest) for case in cases}) <= SLOTS:
        return _sweep(key, metric, method, cases, sweep, rest)
    return _rows(key, metric, method, cases, names)


def _sweep_factor(cases: Sequence[CaseValues], names: Sequence[str]) -> str | None:
    """Return the numeric factor with the most levels, if it has enough of them."""
    levels = {
        name: {factors.with_defaults(case.factors).get(name) for case in cases}
        for name in names
        if factors.FACTORS[name].type in ("size", "rate", "integer")
    }
    best = max(levels, key=lambda name: len(levels[name]), default=None)
    return best if best and len(levels[best]) >= SWEEP_FROM_LEVELS else None


def _all_values(cases: Sequence[CaseValues]) -> list[float]:
    return [value for case in cases for value in (*case.values, case.high or 0.0)]


def _axis(metric: str, method: str, unit: Quantity, *, includes_zero: bool) -> Axis:
    by = f" by {method}" if method else ""
    return Axis(f"{metric_label(metric)}{by} ({unit.unit})", includes_zero=includes_zero)


def _scaled(value: float | None, unit: Quantity) -> float | None:
    return None if value is None else value / unit.divisor


def _note(label: str, case: CaseValues, unit: Quantity) -> str:
    interval = unit.interval(case.mean, case.low, case.high)
    return f"{label}: {unit.number(case.mean)} {interval} {unit.unit}, n = {len(case.values)}"


def _mean_series(
    name: str,
    slot: int,
    entries: Sequence[tuple[float, CaseValues, str]],
    unit: Quantity,
    *,
    along: str,
) -> Series:
    """Return the means of cases at their places on the other axis."""
    places = tuple(place for place, _, _ in entries)
    means = tuple(case.mean / unit.divisor for _, case, _ in entries)
    return Series(
        name,
        slot,
        "means",
        x=means if along == "x" else places,
        y=places if along == "x" else means,
        low=tuple(_scaled(case.low, unit) for _, case, _ in entries),
        high=tuple(_scaled(case.high, unit) for _, case, _ in entries),
        notes=tuple(_note(label, case, unit) for _, case, label in entries),
        joined=along == "y",
    )


def _dot_series(
    name: str,
    slot: int,
    entries: Sequence[tuple[float, CaseValues, str]],
    unit: Quantity,
    *,
    along: str,
) -> Series:
    """Return every repetition of cases at their places on the other axis."""
    places = tuple(place for place, case, _ in entries for _ in case.values)
    values = tuple(value / unit.divisor for _, case, _ in entries for value in case.values)
    return Series(
        f"{name}, each repetition",
        slot,
        "dots",
        x=values if along == "x" else places,
        y=places if along == "x" else values,
        in_legend=False,
    )


def _described(metric: str, cases: Sequence[CaseValues], names: Sequence[str]) -> str:
    known = METRICS[metric]
    better = {"higher": "Higher is better. ", "lower": "Lower is better. ", "neither": ""}
    unit = quantity(metric, _all_values(cases))
    lowest = min(cases, key=lambda case: case.mean)
    highest = max(cases, key=lambda case: case.mean)
    return (
        f"{better[known.better]}"
        f"Lowest: {_note(case_label(lowest.factors, names), lowest, unit)}. "
        f"Highest: {_note(case_label(highest.factors, names), highest, unit)}."
    )


def _rows(
    key: str, metric: str, method: str, cases: Sequence[CaseValues], names: Sequence[str]
) -> Figure:
    """Return a chart with a row a case; cases of one API share colour and marker."""
    unit = quantity(metric, _all_values(cases))
    groups: dict[str, list[tuple[float, CaseValues, str]]] = {}
    labels = [case_label(case.factors, names) for case in cases]
    for index, (case, label) in enumerate(zip(cases, labels, strict=True)):
        group = case_label(case.factors, names[:1])
        groups.setdefault(group, []).append((float(index), case, label))
    series = []
    for slot, (name, entries) in enumerate(groups.items()):
        series.append(_mean_series(name, slot, entries, unit, along="x"))
        series.append(_dot_series(name, slot, entries, unit, along="x"))
    return Figure(
        key,
        f"{sentence_start(metric_phrase(metric))}, each case",
        _described(metric, cases, names),
        x=_axis(metric, method, unit, includes_zero=True),
        y=Axis("", "category", categories=tuple(labels)),
        series=tuple(series),
        value_axis="x",
    )


def _sweep(
    key: str,
    metric: str,
    method: str,
    cases: Sequence[CaseValues],
    sweep: str,
    rest: Sequence[str],
) -> Figure:
    """Return a chart with the numeric factor on a logarithmic axis and a line per series."""
    unit = quantity(metric, _all_values(cases))
    groups: dict[str, list[tuple[float, CaseValues, str]]] = {}
    places: dict[float, str] = {}
    for case in cases:
        level = factors.with_defaults(case.factors)[sweep]
        # A level of 0 ("autotuned") has no place on a logarithmic axis.
        if isinstance(level, str) or level <= 0:
            continue
        place = float(level)
        places[place] = _tick(sweep, int(level))
        label = case_label(case.factors, [*rest, sweep])
        groups.setdefault(case_label(case.factors, rest), []).append((place, case, label))
    series = []
    for slot, (name, entries) in enumerate(groups.items()):
        entries.sort(key=lambda entry: entry[0])
        series.append(_mean_series(name, slot, entries, unit, along="y"))
        series.append(_dot_series(name, slot, entries, unit, along="y"))
    ticks = sorted(places)
    return Figure(
        key,
        f"{sentence_start(metric_phrase(metric))} by {factor_label(sweep).lower()}",
        _described(metric, cases, [*rest, sweep]),
        x=Axis(
            factor_label(sweep),
            "log",
            ticks=tuple(ticks),
            tick_labels=tuple(places[tick] for tick in ticks),
        ),
        y=_axis(metric, method, unit, includes_zero=True),
        series=tuple(series),
        is_wide=True,
    )


def _tick(factor: str, level: int) -> str:
    kind = factors.FACTORS[factor].type
    if kind == "size":
        return units.format_size(level)
    return units.format_bps(level) if kind == "rate" else str(level)


_FALLS = (0.98, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)
_RISES = (1.02, 1.05, 1.1, 1.2, 1.3, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0, 10.0, 20.0, 50.0, 100.0)
MOST_RATIO_TICKS = 7
WORD_SLOTS = {"better": 2, "worse": 1, "equivalent": 0, "undecided": 4, "not compared": 7}
"""The slot, so colour and marker, of each verdict word in the chart of ratios."""


def ratios(key: str, metric: str, rows: Sequence[RatioRow], matters: float) -> Figure:
    """Return the chart of ratios to the baseline, with the range that does not matter shaded."""
    edges = [value for row in rows for value in (row.ratio, row.low, row.high) if value]
    low, high = min([*edges, 1 - matters]), max([*edges, 1 + matters])
    ticks = ratio_ticks(low, high)
    series = []
    for word, slot in WORD_SLOTS.items():
        found = [(index, row) for index, row in enumerate(rows) if row.word == word]
        if found:
            series.append(
                Series(
                    word,
                    slot,
                    "means",
                    x=tuple(row.ratio for _, row in found),
                    y=tuple(float(index) for index, _ in found),
                    low=tuple(row.low for _, row in found),
                    high=tuple(row.high for _, row in found),
                    notes=tuple(_ratio_note(row) for _, row in found),
                )
            )
    better = {"higher": "right", "lower": "left", "neither": "neither side"}
    arrow = {"higher": " (better →)", "lower": " (← better)", "neither": ""}
    return Figure(
        key,
        f"{sentence_start(metric_phrase(metric))} against the baseline",
        f"With adjusted intervals; better is {better[METRICS[metric].better]} of the line, and"
        f" the shaded ±{matters * 100:g} % does not matter.",
        x=Axis(
            f"Change against the baseline{arrow[METRICS[metric].better]}",
            "log",
            ticks=tuple(ticks),
            tick_labels=tuple(percent_change(tick) for tick in ticks),
        ),
        y=Axis("", "category", categories=tuple(row.label for row in rows)),
        series=tuple(series),
        value_axis="x",
        bands=(Band("x", 1 - matters, 1 + matters, f"within ±{matters * 100:g} %"),),
        rules=(Rule("x", 1.0, "no difference"),),
    )


def _ratio_note(row: RatioRow) -> str:
    text = f"{row.label}: {percent_change(row.ratio, 1)}"
    if row.low is not None and row.high is not None:
        text += f" [{percent_change(row.low, 1)}, {percent_change(row.high, 1)}]"
    return f"{text}, {row.word}"


def ratio_ticks(low: float, high: float) -> list[float]:
    """Return round changes between two ratios, apart enough for labels, "none" among them."""
    room = math.log(high / low) / MOST_RATIO_TICKS
    ticks = [1.0]
    for side in (_FALLS, _RISES):
        last = 1.0
        for tick in side:
            if low <= tick <= high and abs(math.log(tick / last)) >= room:
                ticks.append(tick)
                last = tick
    return sorted(ticks)
