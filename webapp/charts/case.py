"""Charts of a case: every trial in the order of measuring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zcdb.metrics import METRICS
from zcdb.webapp.charts.figure import Axis, Band, Figure, Rule, Series
from zcdb.webapp.labels import method_suffix, metric_label
from zcdb.webapp.quantities import quantity

WIDE_FROM_TRIALS = 40


@dataclass(frozen=True, slots=True)
class Observation:
    """One trial's value; `group` is what tells runs apart in the legend."""

    value: float
    group: str
    note: str


def strip(
    metric: str,
    method: str,
    observations: Sequence[Observation],
    mean: float | None,
    low: float | None,
    high: float | None,
) -> Figure:
    """Return a metric's values in time order, with the mean of all and its interval."""
    unit = quantity(metric, [entry.value for entry in observations])
    series = []
    for slot, group in enumerate(dict.fromkeys(entry.group for entry in observations)):
        found = [
            (index, entry) for index, entry in enumerate(observations, 1) if entry.group == group
        ]
        series.append(
            Series(
                group,
                slot,
                "means",
                x=tuple(float(index) for index, _ in found),
                y=tuple(entry.value / unit.divisor for _, entry in found),
                notes=tuple(
                    f"{entry.note}: {unit.number(entry.value)} {unit.unit}" for _, entry in found
                ),
            )
        )
    bands: tuple[Band, ...] = ()
    rules: tuple[Rule, ...] = ()
    said = ""
    if mean is not None:
        said = f" The line is the mean, {unit.number(mean)} {unit.unit}"
        rules = (Rule("y", mean / unit.divisor, "mean of all trials"),)
        if low is not None and high is not None:
            bands = (Band("y", low / unit.divisor, high / unit.divisor, "95 % interval"),)
            said += f"; the band is its 95 % interval {unit.interval(mean, low, high)}"
        said += "."
    label = metric_label(metric)
    return Figure(
        f"strip-{metric}",
        f"{label}{method_suffix(method)}",
        f"{len(observations)} trials in the order they were measured.{said}",
        Axis("Trial, in order of measuring", ticks=_places(len(observations))),
        Axis(f"{label} ({unit.unit})", includes_zero=METRICS[metric].unit == "ratio"),
        tuple(series),
        bands=bands,
        rules=rules,
        is_wide=len(observations) > WIDE_FROM_TRIALS,
    )


def _places(count: int, most: int = 10) -> tuple[float, ...]:
    """Return whole numbers from 1 to `count`, few enough to read."""
    every = max(1, -(-count // most))
    return tuple(float(place) for place in range(1, count + 1, every))
