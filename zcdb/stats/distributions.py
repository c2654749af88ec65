"""Normal, Student's t, F, beta and binomial distributions: what the tests need, and no more.

Own code, because scipy takes 143 MB and 1.6 s to import; the tests compare
with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

_NORMAL = NormalDist()
_TINY = 1e-300
_TAIL_OF_NORMAL = 1e-12
"""Below it 1 - outside / 2 has lost too many digits to begin from."""
_EXPONENT_LIMIT = 60
_SETTLED = 1e-9
"""A step of Newton's is squared by the next, so that what is left after it is below rounding."""


def normal_cdf(z: float) -> float:
    """Return the share of a standard normal distribution below `z`."""
    return _NORMAL.cdf(z)


def normal_quantile(probability: float) -> float:
    """Return the value below which that share of a standard normal distribution lies."""
    return _NORMAL.inv_cdf(probability)


def normal_two_sided_p(z: float) -> float:
    """Return the probability of a value at least as far from 0 as `z`, accurate in the tails."""
    return math.erfc(abs(z) / math.sqrt(2))


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b).

    Source: W. H. Press et al., Numerical Recipes, section 6.4: the continued
    fraction by Lentz's method on the side where it converges fast.
    """
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    log_front = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    if x < (a + 1) / (a + b + 2):
        return math.exp(log_front) * _beta_fraction(x, a, b) / a
    return 1 - math.exp(log_front) * _beta_fraction(1 - x, b, a) / b


def _beta_fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    result = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _not_zero(1 + term * d)
            c = _not_zero(1 + term / c)
            result *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return result


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def t_two_sided_p(t: float, degrees_of_freedom: float) -> float:
    """Return the probability of a t at least as far from 0, accurate in the tails."""
    if math.isinf(t):
        return 0.0
    x = degrees_of_freedom / (degrees_of_freedom + t * t)
    return beta_cdf(x, degrees_of_freedom / 2, 0.5)


def t_cdf(t: float, degrees_of_freedom: float) -> float:
    """Return the share of Student's t distribution below `t`."""
    tail = t_two_sided_p(t, degrees_of_freedom) / 2
    return 1 - tail if t > 0 else tail


@lru_cache(maxsize=4096)
def t_critical(level: float, degrees_of_freedom: float) -> float:
    """Return the t that encloses `level` of the distribution between -t and t.

    Raises:
        ValueError: if the level is not between 0 and 1 or there is no degree of freedom.
    """
    if not 0 < level < 1:
        raise ValueError(f"a level must be between 0 and 1, got {level}")
    if degrees_of_freedom <= 0:
        raise ValueError(f"degrees of freedom must be above 0, got {degrees_of_freedom}")
    outside = 1 - level
    found = _t_by_newton(outside, degrees_of_freedom)
    if found is not None:
        return found
    # On the log scale the tail is nearly straight, so that few steps are needed.
    return root_of_falling(
        lambda t: math.log(t_two_sided_p(t, degrees_of_freedom) / outside), 0.0, 2.0
    )


def _t_by_newton(outside: float, degrees_of_freedom: float) -> float | None:
    """Return the t beyond which, on both sides, lies `outside`; None where the steps do not settle.

    Log of the tail over log of t is nearly straight: two or three steps do from a start near by.
    """
    if degrees_of_freedom <= 1:
        return None
    z = normal_quantile(1 - outside / 2) if outside > _TAIL_OF_NORMAL else None
    if not z:
        return None
    # D. L. Wallace (1959): a normal deviate that belongs to t, solved for t.
    exponent = z * z * (degrees_of_freedom - 0.9) / (degrees_of_freedom - 0.5) ** 2
    if exponent > _EXPONENT_LIMIT:
        return None
    t = math.sqrt(degrees_of_freedom * math.expm1(exponent))
    log_scale = (
        math.lgamma((degrees_of_freedom + 1) / 2)
        - math.lgamma(degrees_of_freedom / 2)
        - math.log(degrees_of_freedom * math.pi) / 2
    )
    for _ in range(12):
        p = t_two_sided_p(t, degrees_of_freedom)
        log_density = log_scale - (degrees_of_freedom + 1) / 2 * math.log1p(
            t * t / degrees_of_freedom
        )
        step = math.log(p / outside) * p / (2 * t * math.exp(log_density))
        if abs(step) > 1:
            return None
        t *= math.exp(step)
        if abs(step) < _SETTLED:
            return t
    return None


def f_upper_p(f: float, numerator: float, denominator: float) -> float:
    """Return the probability of an F at least as large, for these degrees of freedom."""
    if f <= 0:
        return 1.0
    if math.isinf(f):
        return 0.0
    return beta_cdf(denominator / (denominator + numerator * f), denominator / 2, numerator / 2)


def beta_quantile(probability: float, a: float, b: float) -> float:
    """Return the x with I_x(a, b) = probability."""
    return root_of_falling(lambda x: probability - beta_cdf(x, a, b), 0.0, 1.0)


def binomial_cdf(k: int, n: int, probability: float = 0.5) -> float:
    """Return the probability of at most `k` successes in `n` trials."""
    if k < 0:
        return 0.0
    if k >= n:
        return 1.0
    return beta_cdf(1 - probability, n - k, k + 1)


def root_of_falling(falling: Callable[[float], float], low: float, high: float) -> float:
    """Return where a falling function crosses 0; `high` grows until it is beyond.

    False position as the Illinois variant does it: an end that stays twice counts half.
    """
    at_low, at_high = falling(low), falling(high)
    while at_high > 0:
        low, at_low = high, at_high
        high *= 2
        at_high = falling(high)
    kept = 0
    for _ in range(200):
        x = (low * at_high - high * at_low) / (at_high - at_low)
        if not low < x < high:
            break
        at_x = falling(x)
        if at_x > 0:
            low, at_low = x, at_x
            at_high = at_high / 2 if kept == 1 else at_high
            kept = 1
        else:
            high, at_high = x, at_x
            at_low = at_low / 2 if kept == -1 else at_low
            kept = -1
        if at_x == 0 or high - low <= 1e-14 * high:
            return x
    return high if abs(at_high) < abs(at_low) else low
