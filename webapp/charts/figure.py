"""The description of a chart: what both renderers draw, and nothing that only one of them can.

Numbers stand in the unit that the axis title names.  A series has a slot, and
the slot decides colour, marker and dash together, so no two series are told
apart by colour alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SLOTS = 8
"""Series that can be told apart; a ninth one starts again with the first slot."""

MARKERS = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "triangle-down",
    "x",
    "cross",
    "star",
)
"""Marker of each slot, by the names both renderers use."""

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "solid", "dash", "dot")
"""Dash of each slot's line, by Plotly's names."""

Scale = Literal["linear", "log", "category"]
Kind = Literal["dots", "means", "line", "stack"]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis.

    Attributes:
        title: what and in which unit: "Service demand, sender (us/KB)".
        categories: names of the rows or columns of a "category" axis; data are their indexes.
        ticks: where to put ticks; empty lets the renderer choose round numbers.
        tick_labels: what to write there, as many as `ticks`.
        includes_zero: whether the axis must reach down to zero.
    """

    title: str
    scale: Scale = "linear"
    categories: tuple[str, ...] = ()
    ticks: tuple[float, ...] = ()
    tick_labels: tuple[str, ...] = ()
    includes_zero: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together.

    Attributes:
        kind: "dots" are single observations, drawn small; "means" are markers with an
            interval; "line" joins its points; "stack" is an area upon the stacks before it.
        low, high: ends of the interval of each point along the figure's value axis.
        notes: one text a point, shown when it is pointed at.
        joined: for "means": whether a line joins the markers.
    """

    name: str
    slot: int
    kind: Kind
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    notes: tuple[str, ...] = ()
    joined: bool = False
    in_legend: bool = True


@dataclass(frozen=True, slots=True)
class Band:
    """A shaded stretch of one axis with what it means."""

    axis: Literal["x", "y"]
    low: float
    high: float
    label: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A line across the chart at one value of an axis."""

    axis: Literal["x", "y"]
    at: float
    label: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A whole chart.

    Attributes:
        key: its name within the page: part of element ids and of its address.
        description: what the chart shows, in a sentence or two, for people who do not see it.
        value_axis: the axis along which intervals lie.
        is_wide: whether it is worth the whole width of the page; others stand side by side.
    """

    key: str
    title: str
    description: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    value_axis: Literal["x", "y"] = "y"
    bands: tuple[Band, ...] = ()
    rules: tuple[Rule, ...] = ()
    is_wide: bool = False

    @property
    def points(self) -> int:
        """How many points all series have together."""
        return sum(len(series.x) for series in self.series)

    @property
    def is_empty(self) -> bool:
        """True if there is no point to draw."""
        return not any(value is not None for series in self.series for value in series.y)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The table twin of a chart."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | None, ...], ...]


def _position(axis: Axis, value: float | None) -> str | float | None:
    if value is None:
        return None
    if axis.scale == "category":
        return axis.categories[round(value)]
    return value


def numbers(figure: Figure, limit: int = 400) -> Numbers:
    """Return the chart's points as a table, at most `limit` rows."""
    has_interval = any(series.low for series in figure.series)
    columns = ["Series", figure.x.title or "Case", figure.y.title or "Case"]
    if has_interval:
        columns += ["Interval from", "to"]
    rows: list[tuple[str | float | None, ...]] = []
    for series in figure.series:
        for index, x in enumerate(series.x):
            y = series.y[index]
            row = (series.name, _position(figure.x, x), _position(figure.y, y))
            if has_interval:
                low = series.low[index] if series.low else None
                high = series.high[index] if series.high else None
                row = (*row, low, high)  # type: ignore[assignment]
            rows.append(row)
    return Numbers(tuple(columns), tuple(rows[:limit]))
