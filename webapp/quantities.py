"""Numbers for people: one unit for a whole column or axis, as many digits as are known.

`zcdb.units` writes single values; a table or an axis needs one prefix for all
of them, chosen by the largest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from zcdb.metrics import METRICS

_PREFIXED = {
    "bit/s": (
        *((1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")),
        (1.0, "bit/s"),
    ),
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
}
"""Base unit -> sizes that its values are written in, the largest first."""

MULTIPLE_FROM = 4.0
"""A change from this ratio on reads better as a multiple than as a percentage."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """How to write the values of a column: divided by `divisor`, in `unit`."""

    divisor: float
    unit: str

    def number(self, value: float | None, decimals: int | None = None) -> str:
        """Return the number without its unit: three significant digits, or `decimals` places."""
        if value is None:
            return "–"
        scaled = value / self.divisor
        places = significant_decimals(scaled) if decimals is None else decimals
        return f"{scaled:.{places}f}"

    def interval(self, value: float, low: float | None, high: float | None) -> str:
        """Return "[low, high]" with the decimals of the value; empty where there is none."""
        if low is None or high is None:
            return ""
        places = significant_decimals(value / self.divisor)
        return f"[{self.number(low, places)}, {self.number(high, places)}]"


def significant_decimals(value: float, digits: int = 3) -> int:
    """Return how many decimals show `digits` significant digits of a value."""
    if value == 0 or not math.isfinite(value):
        return 0
    return min(9, max(0, digits - 1 - math.floor(math.log10(abs(value)))))


def quantity(metric: str, values: Iterable[float | None] = ()) -> Quantity:
    """Return how to write these values of a metric, all in one unit."""
    known = METRICS.get(metric)
    unit = known.unit if known else ""
    if unit == "ratio":
        return Quantity(0.01, "%")
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    return next(
        (
            Quantity(size, name)
            for size, name in _PREFIXED.get(unit, ())
            if largest >= size * 0.9995
        ),
        Quantity(1.0, unit),
    )


def varies_by_row(metric: str) -> bool:
    """Return whether values of a metric are written in different units, so that each states its."""
    known = METRICS.get(metric)
    return known is not None and (known.unit in _PREFIXED or known.unit == "ratio")


def with_minus(text: str) -> str:
    """Return a text for terminals with the minus sign that pages have: "-4.8 %" is "−4.8 %"."""
    return re.sub(r"(?<![\w-])-(?=[0-9])", "−", text)


def percent_change(ratio: float, decimals: int = 0) -> str:
    """Return a ratio as a signed change: 0.87 is "−13 %", and from fourfold on "×4"."""
    if ratio >= MULTIPLE_FROM:
        return f"×{ratio:.{significant_decimals(ratio) if decimals else 0}f}"
    percent = (ratio - 1) * 100
    # 0.838 against 0.80 is +4.75 %, of which the division leaves 4.7499999.
    change = round(percent + math.copysign(1e-9, percent), decimals)
    if change == 0:
        return f"{0:.{decimals}f} %"
    return f"{'+' if change > 0 else '−'}{abs(change):.{decimals}f} %"
