"""A/A: how often identical cases are found to differ.

A method that is right finds a difference in about 5 of 100 comparisons of a
case with itself.  Much more says that trials are less independent than the
test believes, and that no verdict of the run can be trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zcdb.stats.compare import Comparison
from zcdb.stats.distributions import beta_quantile

AMBER_RATE = 0.10
AMBER_FROM = 40
"""Fewer comparisons than this say too little about a rate of 5 or 10 %."""


@dataclass(frozen=True, slots=True)
class FalseAlarms:
    """The false alarms among comparisons of identical cases.

    Attributes:
        comparisons: number that could be tested.
        alarms: those with a p at most 1 - level, unadjusted.
        rate: alarms ÷ comparisons; None without comparisons.
        low, high: 95 % interval of the rate (Clopper and Pearson); None without.
        is_amber: True if there are 40 comparisons or more and over 10 % alarms.
    """

    comparisons: int
    alarms: int
    rate: float | None
    low: float | None
    high: float | None
    is_amber: bool


def false_alarms(comparisons: Sequence[Comparison], level: float = 0.95) -> FalseAlarms:
    """Return how often these comparisons of identical cases found a difference."""
    p_values = [c.p_value for c in comparisons if c.p_value is not None]
    n, alarms = len(p_values), sum(p <= 1 - level for p in p_values)
    if n == 0:
        return FalseAlarms(0, 0, None, None, None, is_amber=False)
    low, high = proportion_interval(alarms, n)
    is_amber = n >= AMBER_FROM and alarms / n > AMBER_RATE
    return FalseAlarms(n, alarms, alarms / n, low, high, is_amber)


def proportion_interval(successes: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of a proportion.

    Raises:
        ValueError: if there are no trials, or fewer than successes.

    Source: C. J. Clopper and E. S. Pearson, Biometrika 26 (1934).
    """
    if not 0 <= successes <= n or n == 0:
        raise ValueError(f"{successes} of {n} is no proportion")
    tail = (1 - level) / 2
    low = beta_quantile(tail, successes, n - successes + 1) if successes else 0.0
    high = beta_quantile(1 - tail, successes + 1, n - successes) if successes < n else 1.0
    return low, high
