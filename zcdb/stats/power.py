"""Before measuring: what a number of repetitions can show.

The spread has to be assumed or taken from an earlier run; what follows from
it is arithmetic.
"""

from __future__ import annotations

import math
from functools import lru_cache

from zcdb.stats.distributions import normal_cdf, root_of_falling, t_critical
from zcdb.stats.summary import MINIMUM_FOR_INTERVAL

_STEPS = 400


def paired_power(
    log_ratio: float, sd_of_pairs: float, n: int, level: float = 0.95, family_size: int = 1
) -> float:
    """Return the probability that `n` blocks detect a true difference.

    Args:
        log_ratio: the true ln(candidate ÷ baseline).
        sd_of_pairs: standard deviation of the log ratio of one block, above 0.
        family_size: comparisons judged together; the first step of Holm, so careful.

    Raises:
        ValueError: below two blocks, or if the deviation is not above 0.
    """
    if n < 2 or sd_of_pairs <= 0:
        raise ValueError(f"needs two blocks or more that vary, got n = {n}, sd = {sd_of_pairs}")
    critical = t_critical(1 - (1 - level) / family_size, n - 1)
    shift = abs(log_ratio) / (sd_of_pairs / math.sqrt(n))
    return noncentral_t_outside(critical, n - 1, shift)


def repetitions_to_detect(
    ratio: float,
    cv: float,
    level: float = 0.95,
    family_size: int = 1,
    power: float = 0.8,
    at_most: int = 10_000,
) -> int | None:
    """Return the smallest number of blocks that detect a difference with probability `power`.

    Args:
        ratio: the difference, 0.02 for 2 %.
        cv: coefficient of variation of the trials of one case, as a pilot run shows it.

    Returns:
        Three at least; None above `at_most`.

    Raises:
        ValueError: if the variation or the difference is not above 0.
    """
    if ratio <= 0:
        raise ValueError(f"a difference of {ratio} cannot be detected")
    log_ratio, sd_of_pairs = math.log1p(ratio), cv * math.sqrt(2)
    low, high = MINIMUM_FOR_INTERVAL, at_most
    if paired_power(log_ratio, sd_of_pairs, high, level, family_size) < power:
        return None
    while low < high:
        middle = (low + high) // 2
        if paired_power(log_ratio, sd_of_pairs, middle, level, family_size) >= power:
            high = middle
        else:
            low = middle + 1
    return low


def noncentral_t_outside(critical: float, degrees_of_freedom: float, shift: float) -> float:
    """Return the probability that a noncentral t lies outside ± `critical`.

    Integrates over the estimated deviation: given that it is s times the true
    one, what remains is a normal distribution.  Simpson's rule over s.
    """
    total = math.fsum(
        weight * (normal_cdf(shift - critical * s) + normal_cdf(-shift - critical * s))
        for s, weight in _deviations(degrees_of_freedom)
    )
    return min(1.0, total)


@lru_cache(maxsize=64)
def _deviations(degrees_of_freedom: float) -> tuple[tuple[float, float], ...]:
    """Return (estimated ÷ true deviation, Simpson's weight times its density) at each step."""
    half = degrees_of_freedom / 2
    log_scale = math.log(2) + half * math.log(half) - math.lgamma(half)
    spread = 10 / math.sqrt(2 * degrees_of_freedom)
    low, high = max(1e-9, 1 - spread), 1 + spread
    step = (high - low) / _STEPS
    points = []
    for index in range(_STEPS + 1):
        s = low + index * step
        density = math.exp(log_scale + (degrees_of_freedom - 1) * math.log(s) - half * s * s)
        weight = 1 if index in (0, _STEPS) else 4 if index % 2 else 2
        points.append((s, weight * density * step / 3))
    return tuple(points)


def smallest_detectable_ratio(
    cv: float, n: int, level: float = 0.95, family_size: int = 1, power: float = 0.8
) -> float | None:
    """Return the smallest difference that `n` blocks detect with probability `power`.

    Args:
        cv: coefficient of variation of the trials of one case (sd ÷ mean); the two trials
            of a block are taken as independent, so a pair varies √2 times as much.

    Returns:
        ratio - 1 of the difference, 0.03 for 3 %; None where even tenfold is not detected.

    Raises:
        ValueError: below two blocks, or if the variation is not above 0.
    """
    sd_of_pairs = cv * math.sqrt(2)
    most = math.log(10)
    if paired_power(most, sd_of_pairs, n, level, family_size) < power:
        return None

    def lacking(log_ratio: float) -> float:
        return power - paired_power(log_ratio, sd_of_pairs, n, level, family_size)

    return math.expm1(root_of_falling(lacking, 0.0, most))
