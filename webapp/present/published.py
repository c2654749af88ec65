"""Figures that others published, for people; the founding tables and cases show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zcdb.ids import Json
from zcdb.metrics import METRICS, format_value
from zcdb.store.results import FigureLine
from zcdb.webapp.labels import metric_label


@dataclass(frozen=True, slots=True)
class FigureShown:
    """A figure for people.

    Attributes:
        stated: as the source has it.
        normalised: in a unit of today; None where it is the same, with `reason` where unknown.
        other: the other reading of the prefix.
        marks: what to know about it: left out, deduced, read so because.
    """

    metric: str
    method: str
    label: str
    stated: str
    normalised: str | None
    other: str | None
    reason: str | None
    marks: tuple[str, ...]
    figure: FigureLine


def place_text(lines: tuple[int, int] | None) -> str | None:
    """Return "line 3" or "lines 3-7"; None for a whole document."""
    if lines is None:
        return None
    return f"line {lines[0]}" if lines[0] == lines[1] else f"lines {lines[0]}-{lines[1]}"


def flat(context: Mapping[str, Any], prefix: str = "") -> dict[str, Json]:
    """Return a nested context with dotted keys."""
    found: dict[str, Json] = {}
    for key, value in context.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def mappings(value: Json) -> list[Mapping[str, Any]]:
    """Return the mappings in a list; nothing if it is no list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def figure_shown(figure: FigureLine) -> FigureShown:
    """Return a figure with its numbers written out."""
    normalised = _numbers(figure, figure.low, figure.high)
    if normalised is not None and figure.sd is not None:
        normalised += f" ± {_number(figure, figure.sd)}"
    marks = []
    if figure.is_inferred:
        marks.append("deduced, not stated")
    if figure.n is not None:
        marks.append(f"n = {figure.n}")
    if figure.left_out:
        marks.append(f"in no comparison: {figure.left_out}")
    marks += [
        f"{word}: {figure.details[key]}"
        for key, word in (("unit_evident", "the unit is evidently"), ("why", "read so because"))
        if figure.details.get(key)
    ]
    return FigureShown(
        metric=figure.metric,
        method=figure.method,
        label=figure_label(figure.metric),
        stated=figure.stated or normalised or "–",
        normalised=normalised if figure.stated and normalised != figure.stated else None,
        other=_numbers(figure, figure.other_low, figure.other_high),
        reason=figure.reason,
        marks=tuple(marks),
        figure=figure,
    )


def _numbers(figure: FigureLine, low: float | None, high: float | None) -> str | None:
    if low is None or high is None:
        return None
    return " to ".join(dict.fromkeys(_number(figure, value) for value in (low, high)))


def _number(figure: FigureLine, value: float) -> str:
    known = METRICS.get(figure.metric)
    if known is not None and known.unit == figure.unit:
        return format_value(figure.metric, value)
    if figure.unit == "byte/s":
        return f"{value / 1e6:.6g} MB/s"
    return f"{value:.10g}" if figure.unit == "1" else f"{value:.10g} {figure.unit}"


def figure_label(name: str) -> str:
    """Return a metric's label; of a metric that only documents have, its words."""
    return metric_label(name) if name in METRICS else name.replace("_", " ").capitalize()
