"""Count, mean and spread of values that are not at hand any more: merged and grown by one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from zcdb.stats.distributions import t_critical
from zcdb.stats.summary import MINIMUM_FOR_INTERVAL

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Moments:
    """Attributes: squares: sum of the squared differences from the mean."""

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, n: int, mean: float | None, sd: float | None) -> Moments:
        """Return the moments behind a stored n, mean and standard deviation."""
        if not n or mean is None:
            return cls()
        return cls(n, mean, (n - 1) * sd**2 if sd is not None else 0.0)

    def with_value(self, value: float) -> Moments:
        """Return the moments with one value more (Welford's step, exact and stable)."""
        n = self.n + 1
        delta = value - self.mean
        mean = self.mean + delta / n
        return Moments(n, mean, self.squares + delta * (value - mean))

    def merged(self, other: Moments) -> Moments:
        """Return the moments of both groups together."""
        n = self.n + other.n
        if not other.n or not self.n:
            return other if other.n else self
        delta = other.mean - self.mean
        mean = self.mean + delta * other.n / n
        return Moments(n, mean, self.squares + other.squares + delta**2 * self.n * other.n / n)

    def columns(self) -> dict[str, Any]:
        """Return n, mean, sd, low and high as columns of a summary; the interval is the mean's."""
        if not self.n:
            return {"n": 0, "mean": None, "sd": None, "low": None, "high": None}
        sd = math.sqrt(self.squares / (self.n - 1)) if self.n > 1 else None
        half = None
        if sd is not None and self.n >= MINIMUM_FOR_INTERVAL:
            half = t_critical(LEVEL, self.n - 1) * sd / math.sqrt(self.n)
        return {
            "n": self.n,
            "mean": self.mean,
            "sd": sd,
            "low": self.mean - half if half is not None else None,
            "high": self.mean + half if half is not None else None,
        }


def published(value: float, sd: float | None, spread: str | None, n: int | None) -> Moments:
    """Return the moments behind a published figure.

    Without a spread, or without its n, it is one value: what is not stated is not made up.

    Args:
        sd: what stands behind the "±": `spread` says 'sd', 'se' (of the mean) or 'ci95' (half).
    """
    if sd is None or n is None or n < 2:
        return Moments(1, value)
    if spread == "se":
        sd *= math.sqrt(n)
    elif spread == "ci95":
        sd *= math.sqrt(n) / t_critical(LEVEL, n - 1)
    return Moments.of(n, value, sd)
