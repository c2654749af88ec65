"""Summary statistics over trials, each interval with the name of its method."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from zcdb.stats.distributions import binomial_cdf, t_critical

MINIMUM_FOR_INTERVAL = 3
"""Fewer values than this get no interval: two values say next to nothing about their spread."""

BOOTSTRAP_RESAMPLES = 9_999


@dataclass(frozen=True, slots=True)
class Summary:
    """What a group of values says.

    Attributes:
        sd: sample standard deviation (n - 1); None for a single value.
        low, high: interval for the mean; None below three values.
        level: confidence of the interval.
        interval_method: how the interval was made; None where there is none.
    """

    n: int
    mean: float
    median: float
    sd: float | None
    low: float | None
    high: float | None
    level: float
    interval_method: str | None


def checked(values: Sequence[float], minimum: int = 1) -> list[float]:
    """Return the values as floats.

    Raises:
        ValueError: if there are too few, or one is NaN or infinite.
    """
    numbers = [float(value) for value in values]
    if len(numbers) < minimum:
        raise ValueError(f"needs at least {minimum} values, got {len(numbers)}")
    for number in numbers:
        if not math.isfinite(number):
            raise ValueError(f"{number} is not a measured value")
    return numbers


def standard_deviation(values: Sequence[float]) -> float:
    """Return the sample standard deviation of two values or more.

    As exact as measured values need; `statistics.stdev` is exact to the last bit and much slower.
    """
    mean = statistics.fmean(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def summarise(values: Sequence[float], level: float = 0.95) -> Summary:
    """Return the summary of one number per trial, in any one unit.

    Raises:
        ValueError: if there is no value, or one that is not finite.
    """
    numbers = checked(values)
    interval = mean_interval(numbers, level) if len(numbers) >= MINIMUM_FOR_INTERVAL else None
    return Summary(
        n=len(numbers),
        mean=statistics.fmean(numbers),
        median=statistics.median(numbers),
        sd=standard_deviation(numbers) if len(numbers) > 1 else None,
        low=interval[0] if interval else None,
        high=interval[1] if interval else None,
        level=level,
        interval_method="t" if interval else None,
    )


def mean_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Return Student's interval for the mean.

    Args:
        values: one number per trial.
        level: confidence wanted, between 0 and 1.

    Raises:
        ValueError: below three values.
    """
    numbers = checked(values, MINIMUM_FOR_INTERVAL)
    mean = statistics.fmean(numbers)
    standard_error = standard_deviation(numbers) / math.sqrt(len(numbers))
    half_width = t_critical(level, len(numbers) - 1) * standard_error
    return mean - half_width, mean + half_width


def median_ranks(n: int, level: float = 0.95) -> tuple[int, int]:
    """Return the ranks, from 1, of the sorted values that enclose the median.

    The narrowest symmetric pair that has at least the confidence wanted.

    Raises:
        ValueError: if n is too small; a 95 % interval needs 6 trials.
    """
    low = 0
    while 1 - 2 * binomial_cdf(low, n) >= level:
        low += 1
    if low == 0 or low > n + 1 - low:
        raise ValueError(f"{n} values are too few for a {level:.1%} interval of the median")
    return low, n + 1 - low


def median_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Return a distribution-free confidence interval for the median, by order statistics.

    Args:
        values: one number per trial, in any order.
        level: confidence wanted, between 0 and 1.

    Returns:
        (low, high), both among `values`.

    Raises:
        ValueError: if n is too small; a 95 % interval needs 6 trials.

    Source: J.-Y. Le Boudec, Performance Evaluation of Computer and
    Communication Systems (2010), chapter 2, interval for the median.
    """
    checked(values)
    low, high = median_ranks(len(values), level)
    ordered = sorted(values)
    return ordered[low - 1], ordered[high - 1]


def bootstrap_median_interval(
    values: Sequence[float], level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Return a percentile bootstrap interval for the median.

    For groups that order statistics leave without an interval or with a wide
    one.  With very few values it is too narrow, as every bootstrap is.

    Args:
        seed: the same seed gives the same interval.

    Raises:
        ValueError: below three values.
    """
    # Only the bootstrap is heavy enough to need numpy, which takes 0.2 s to import.
    import numpy as np

    numbers = np.array(checked(values, MINIMUM_FOR_INTERVAL))
    generator = np.random.Generator(np.random.PCG64(seed))
    draws = generator.integers(0, len(numbers), size=(BOOTSTRAP_RESAMPLES, len(numbers)))
    medians = np.median(numbers[draws], axis=1)
    low, high = np.quantile(medians, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
