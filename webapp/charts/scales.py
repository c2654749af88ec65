"""Scales and ticks: from numbers to places on an axis, and round numbers to label it with."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from zcdb.webapp.charts.figure import Axis

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Scale:
    """A mapping of [low, high] onto [start, end] pixels; logarithmic if told so."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        """Return the pixel of a value."""
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def round_step(span: float, wanted: int) -> float:
    """Return the smallest round step that cuts `span` into at most `wanted` pieces."""
    raw = span / max(1, wanted)
    power = 10.0 ** math.floor(math.log10(raw))
    return next(step * power for step in _STEPS if step * power >= raw * 0.999999)


def round_ticks(low: float, high: float, wanted: int) -> list[float]:
    """Return round numbers from `low` to `high`, both ends included where they are round."""
    step = round_step(high - low, wanted)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def tick_text(value: float, step: float) -> str:
    """Return a tick's number with no more decimals than the step needs."""
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    if abs(round(step * 10**decimals) - step * 10**decimals) > 1e-6:
        decimals += 1
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def domain(axis: Axis, values: Iterable[float], wanted: int) -> tuple[float, float]:
    """Return the range that the axis covers: all values, with round ends on a linear axis."""
    if axis.scale == "category":
        return -0.5, len(axis.categories) - 0.5
    found = [*values, *axis.ticks]
    low, high = min(found, default=0.0), max(found, default=1.0)
    if axis.scale == "log":
        room = (high / low) ** 0.05 if low < high else 2.0
        return low / room, high * room
    if axis.includes_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        low, high = (low - abs(low) * 0.05, high + abs(high) * 0.05) if low else (0.0, 1.0)
    step = round_step(high - low, wanted)
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step


def ticks(axis: Axis, scale: Scale, wanted: int) -> list[tuple[float, str]]:
    """Return (value, label) of every tick."""
    if axis.scale == "category":
        return [(float(index), name) for index, name in enumerate(axis.categories)]
    if axis.ticks:
        labels = axis.tick_labels or tuple(f"{value:g}" for value in axis.ticks)
        return list(zip(axis.ticks, labels, strict=True))
    if axis.scale == "log":
        powers = range(math.ceil(math.log10(scale.low)), math.floor(math.log10(scale.high)) + 1)
        return [(10.0**power, f"{10.0**power:g}") for power in powers]
    step = round_step(scale.high - scale.low, wanted)
    return [(value, tick_text(value, step)) for value in round_ticks(scale.low, scale.high, wanted)]
