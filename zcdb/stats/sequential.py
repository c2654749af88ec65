"""Measuring until the interval is narrow enough, and the price of looking.

The rule stops at the first look at which the interval is narrow, and a series
whose spread happens to look small stops early: the plain 95 % interval then
holds in only 92.2 to 95.1 % of runs.  The remedy is a slightly wider interval
at every look: what it may miss is multiplied by 0.75.  Simulated over every
ratio of spread to target, first looks at 5 to 10 repetitions and limits of 30
and 100, it then holds in 93.9 to 96.4 %.

Stopping as soon as a *verdict* is reached is deliberately not offered: looking
for a difference until there is one finds one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from zcdb.stats.distributions import t_critical
from zcdb.stats.summary import checked, standard_deviation

PEEKING_CORRECTION = 0.75
LEVEL = 0.95
EARLIEST_LOOK = 5


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """When to stop repeating; stored with the run, before anything is measured.

    Attributes:
        half_width: wanted half width of the interval of the mean, in the unit of the values
            (for logarithms of values, 0.02 is 2 %).
        first: repetitions before the first look; at least 5.
        at_most: repetitions after which to stop in any case.
    """

    half_width: float
    first: int = 6
    at_most: int = 30

    def __post_init__(self) -> None:
        if not self.half_width > 0:
            raise ValueError(f"half_width must be above 0, got {self.half_width}")
        if not EARLIEST_LOOK <= self.first <= self.at_most:
            raise ValueError(
                f"needs {EARLIEST_LOOK} <= first <= at_most, got {self.first} and {self.at_most}"
            )


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at the repetitions so far says.

    Attributes:
        mean: of the values so far.
        half_width: of the 95 % interval, corrected for looking; None before the first look.
        decision: "go on", "narrow enough" or "limit reached".
    """

    n: int
    mean: float
    half_width: float | None
    decision: Literal["go on", "narrow enough", "limit reached"]


def look(rule: StoppingRule, values: Sequence[float]) -> Look:
    """Return whether to go on after these repetitions.

    Call it after every repetition from the first look on; the interval that it returns when
    it says stop is the one to report.

    Raises:
        ValueError: if there is no value, or one is not finite.
    """
    numbers = checked(values)
    n, mean = len(numbers), statistics.fmean(numbers)
    if n < rule.first:
        return Look(n, mean, None, "go on")
    corrected_level = 1 - (1 - LEVEL) * PEEKING_CORRECTION
    half_width = t_critical(corrected_level, n - 1) * standard_deviation(numbers) / math.sqrt(n)
    if half_width <= rule.half_width:
        return Look(n, mean, half_width, "narrow enough")
    return Look(n, mean, half_width, "limit reached" if n >= rule.at_most else "go on")
