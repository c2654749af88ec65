"""Numbers with units, as tools print them.

Parsers return None for what is not a number and never guess; the same digits
always give the same float.  Sizes print with powers of 1024, rates in bits
with powers of 1000: each function says which it takes.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

NUMBER = r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,3})?"
"""A printed number; bounded, so that no regex runs away."""

UNSIGNED = r"(?<![0-9.,])[0-9]{1,20}(?:\.[0-9]{1,12})?(?![0-9]|[.,][0-9])"
"""A printed number of at least 0 that is not a piece of a longer one."""

COUNT = r"(?<![0-9.,])[0-9]{1,20}(?![0-9]|[.,][0-9])"
"""A printed whole number that is not a piece of a longer one."""

_NUMBER = re.compile(NUMBER)
_PREFIX = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}

HUGEST = 10**20
"""No count, size or rate of a network reaches this; beyond it is damage."""


def number(text: str | None) -> float | None:
    """Return a printed number, or None."""
    return scaled(text, 1)


def scaled(text: str | None, factor: int | Decimal) -> float | None:
    """Return a printed number times a factor, without binary dust: "2997.84" times 10^6."""
    if text is None or not _NUMBER.fullmatch(text):
        return None
    value = float(Decimal(text) * factor)
    return value if math.isfinite(value) and abs(value) < HUGEST * 1e6 else None


def milli(text: str | None) -> float | None:
    """Return a printed number of thousandths: ms as s."""
    return scaled(text, Decimal("0.001"))


def micro(text: str | None) -> float | None:
    """Return a printed number of millionths: us as s."""
    return scaled(text, Decimal("0.000001"))


def whole(text: str | None) -> int | None:
    """Return a printed whole number, or None."""
    if text is None or not re.fullmatch(r"-?[0-9]{1,20}", text):
        return None
    return int(text)


def not_negative(value: float | None) -> float | None:
    """Return the value, or None for the -1 by which tools say "not measured"."""
    return None if value is None or value < 0 else value


def size_factor(prefix: str) -> int:
    """Return 1024^n for "", K, M, G, T."""
    return int(1024 ** _PREFIX[prefix.lower()])


def rate_factor(prefix: str, unit: str) -> int:
    """Return bit/s in one unit: bits count in powers of 1000, Bytes in powers of 1024."""
    if unit.lower().startswith("byte"):
        return 8 * size_factor(prefix)
    return int(1000 ** _PREFIX[prefix.lower()])


def half_unit(text: str) -> float:
    """Return half a unit of the last digit printed: 0.005 for "9.40"."""
    mantissa = text.lower().partition("e")[0]
    decimals = len(mantissa.partition(".")[2])
    exponent = int(text.lower().partition("e")[2] or 0) if "e" in text.lower() else 0
    return float(0.5 * 10.0 ** (exponent - decimals))


def relative_half_unit(text: str) -> float:
    """Return half a unit of the last digit, as a share of the number; infinite for 0."""
    value = number(text)
    return half_unit(text) / abs(value) if value else math.inf


def rates_agree(one: float, other: float, tolerance: float) -> bool:
    """Tell whether two rates are the same within a share of the larger."""
    return abs(one - other) <= tolerance * max(abs(one), abs(other))


def json_number(value: object) -> float | int | None:
    """Return a JSON number that can be one; None for strings, nan, inf and absurd sizes."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if abs(value) < HUGEST else None


def json_count(value: object) -> int | None:
    """Return a JSON number that is a whole number of at least 0, or None."""
    found = json_number(value)
    if found is None or found < 0 or found != int(found):
        return None
    return int(found)
