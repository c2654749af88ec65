"""The values of a measurement as bytes, and the statistics kept beside them."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from zcdb.stats.summary import summarise

Values = tuple[float | None, ...]
"""One value per repetition, in order; None where it was not measured."""


def encode(values: Iterable[float | None]) -> bytes:
    """Return the values as little-endian float64, NaN for None.

    Raises:
        ValueError: for NaN and infinity: "not measured" is None, with a reason.
    """
    plain = list(values)
    for value in plain:
        if value is not None and not math.isfinite(value):
            raise ValueError(f"{value} is not a measured value")
    numbers = [math.nan if value is None else value for value in plain]
    return struct.pack(f"<{len(numbers)}d", *numbers)


def decode(values_f64: bytes) -> Values:
    """Return the values that `encode` packed."""
    numbers = struct.unpack(f"<{len(values_f64) // 8}d", values_f64)
    # Only NaN differs from itself; a call of isnan for each value would cost twice as much.
    return tuple([None if number != number else number for number in numbers])


def with_value(values: Sequence[float | None], repetition: int, value: float | None) -> Values:
    """Return `values` with `value` at place `repetition`, the gap before it filled with None."""
    longer = [*values, *[None] * (repetition + 1 - len(values))]
    longer[repetition] = value
    return tuple(longer)


def statistics(values: Iterable[float | None]) -> dict[str, Any]:
    """Return n, mean, median, sd, low and high of what was measured, as columns of a row.

    The interval is that of the mean, and None for n < 3.
    """
    measured = [value for value in values if value is not None]
    if not measured:
        return {"n": 0, "mean": None, "median": None, "sd": None, "low": None, "high": None}
    summary = summarise(measured)
    return {
        "n": summary.n,
        "mean": summary.mean,
        "median": summary.median,
        "sd": summary.sd,
        "low": summary.low,
        "high": summary.high,
    }
