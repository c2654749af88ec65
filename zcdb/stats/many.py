"""Ten thousand comparisons at once: Welch's test and the verdicts as arrays.

The same rules as `compare.compare_welch` and `verdict.judge`, which stay the
reference: tests hold the two against each other.  How many repetitions would
decide is left out; it is asked for the rows that are shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from zcdb.metrics import Direction
from zcdb.stats.compare import Comparison
from zcdb.stats.distributions import t_critical
from zcdb.stats.summary import MINIMUM_FOR_INTERVAL
from zcdb.stats.verdict import Verdict, Word

Floats = NDArray[np.float64]

_TINY = 1e-300
_NODES = 48
"""Points at which a critical t is computed exactly; between them it is interpolated."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Groups by their summaries, one entry a comparison; NaN where there is no value."""

    n: Floats
    mean: Floats
    sd: Floats


@dataclass(frozen=True, slots=True)
class Judged:
    """One entry a comparison; NaN stands for "none".

    Attributes:
        word: "better", "worse", "equivalent" or "undecided".
        log_ratio, standard_error, degrees_of_freedom: as in `compare.Comparison`.
        low, high: interval of the ratio at `level`.
        family_size: comparisons that have a p value.
    """

    word: NDArray[np.str_]
    is_detectable: NDArray[np.bool_]
    ratio: Floats
    low: Floats
    high: Floats
    level: Floats
    p_value: Floats
    p_adjusted: Floats
    log_ratio: Floats
    standard_error: Floats
    degrees_of_freedom: Floats
    n_baseline: Floats
    n_candidate: Floats
    family_size: int

    def comparison(self, index: int) -> Comparison:
        """Return one entry as the comparison that `compare_welch` would have made."""

        def number(values: Floats) -> float | None:
            value = float(values[index])
            return None if math.isnan(value) else value

        return Comparison(
            "welch",
            int(self.n_baseline[index]),
            int(self.n_candidate[index]),
            number(self.log_ratio),
            number(self.standard_error),
            number(self.degrees_of_freedom),
            number(self.p_value),
        )

    def verdict(self, index: int) -> Verdict:
        """Return one entry as the verdict that `judge` would have given.

        Raises:
            ValueError: if the entry has no ratio.
        """
        if math.isnan(self.ratio[index]):
            raise ValueError(f"comparison {index} has no ratio")
        has_interval = not math.isnan(self.standard_error[index])
        return Verdict(
            word=cast(Word, str(self.word[index])),
            is_detectable=bool(self.is_detectable[index]),
            ratio=float(self.ratio[index]),
            low=float(self.low[index]) if has_interval else None,
            high=float(self.high[index]) if has_interval else None,
            level=float(self.level[index]),
            p_value=float(self.p_value[index]) if has_interval else None,
            p_adjusted=float(self.p_adjusted[index]) if has_interval else None,
            n_baseline=int(self.n_baseline[index]),
            n_candidate=int(self.n_candidate[index]),
            family_size=self.family_size,
            reason=None if has_interval else "fewer than three repetitions",
        )


def judge_many(
    baseline: Samples,
    candidate: Samples,
    better: Sequence[Direction],
    matters: float,
    level: float = 0.95,
) -> Judged:
    """Return the verdict of every pair; they are one family.

    Args:
        better: for each pair, which direction of its metric is better.

    Raises:
        ValueError: if matters or level is not between 0 and 1.
    """
    if not (0 < matters < 1 and 0 < level < 1):
        raise ValueError(f"matters {matters} and level {level} must be between 0 and 1")
    with np.errstate(invalid="ignore", divide="ignore"):
        log_ratio = np.where(
            (baseline.mean > 0) & (candidate.mean > 0),
            np.log(candidate.mean / baseline.mean),
            np.nan,
        )
        error, degrees = _welch(baseline, candidate, log_ratio)
        t = np.where(error > 0, log_ratio / error, np.where(log_ratio == 0, 0.0, np.inf))
        p = np.where(np.isnan(error), np.nan, t_two_sided_p(t, degrees))
        p_adjusted, family_size = _holm(p)
        steps = np.full(len(p), float(max(1, family_size)))
        by_holm = (p_adjusted <= 1 - level) & (p * steps > 1 - level)
        steps[by_holm] = p_adjusted[by_holm] / p[by_holm]
        levels = 1 - (1 - level) / steps
        half = t_criticals(levels, degrees) * error
        low, high = log_ratio - half, log_ratio + half
        detectable = p_adjusted <= 1 - level
    return Judged(
        word=_words(log_ratio, low, high, detectable, better, matters),
        is_detectable=detectable,
        ratio=np.exp(log_ratio),
        low=np.exp(low),
        high=np.exp(high),
        level=levels,
        p_value=p,
        p_adjusted=p_adjusted,
        log_ratio=log_ratio,
        standard_error=error,
        degrees_of_freedom=degrees,
        n_baseline=baseline.n,
        n_candidate=candidate.n,
        family_size=family_size,
    )


def _welch(baseline: Samples, candidate: Samples, log_ratio: Floats) -> tuple[Floats, Floats]:
    """Return the standard error of each log ratio and its degrees of freedom."""
    first, second = baseline.sd**2 / baseline.n, candidate.sd**2 / candidate.n
    difference = candidate.mean - baseline.mean
    log_mean = np.where(log_ratio == 0, baseline.mean, difference / log_ratio)
    spread = first**2 / (baseline.n - 1) + second**2 / (candidate.n - 1)
    degrees = np.where(spread > 0, (first + second) ** 2 / spread, baseline.n + candidate.n - 2)
    is_enough = np.minimum(baseline.n, candidate.n) >= MINIMUM_FOR_INTERVAL
    error = np.where(is_enough, np.sqrt(first + second) / log_mean, np.nan)
    return error, np.where(np.isnan(error), np.nan, degrees)


def _words(
    log_ratio: Floats,
    low: Floats,
    high: Floats,
    detectable: NDArray[np.bool_],
    better: Sequence[Direction],
    matters: float,
) -> NDArray[np.str_]:
    equivalent = (math.log(1 - matters) <= low) & (high <= math.log(1 + matters))
    directions = np.array(better)
    is_better = (log_ratio > 0) == (directions == "higher")
    told = np.where(is_better, "better", "worse")
    decided = np.where(detectable & (directions != "neither"), told, "undecided")
    words: NDArray[np.str_] = np.where(equivalent, "equivalent", decided)
    return words


def _holm(p: Floats) -> tuple[Floats, int]:
    """Return p adjusted by Holm, NaN staying NaN, and how many there are."""
    known = np.flatnonzero(~np.isnan(p))
    adjusted = np.full(len(p), np.nan)
    order = known[np.argsort(p[known], kind="stable")]
    steps = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * steps))
    return adjusted, len(known)


def t_two_sided_p(t: Floats, degrees_of_freedom: Floats) -> Floats:
    """Return the probability of a t at least as far from 0, for each entry."""
    is_infinite = np.isinf(t)
    square = np.where(is_infinite, 1.0, t) ** 2
    x = degrees_of_freedom / (degrees_of_freedom + square)
    p = _beta_cdf(x, degrees_of_freedom / 2)
    return np.where(is_infinite, 0.0, p)


def _beta_cdf(x: Floats, a: Floats) -> Floats:
    """Return the regularised incomplete beta function I_x(a, 1/2); see `distributions.beta_cdf`."""
    log_gamma = np.array([math.lgamma(v + 0.5) - math.lgamma(v) if v > 0 else 0.0 for v in a])
    front = np.exp(
        log_gamma
        - math.lgamma(0.5)
        + a * np.log(np.maximum(x, _TINY))
        + 0.5 * np.log(np.maximum(1 - x, _TINY))
    )
    value = np.full(len(x), np.nan)
    # Each entry on the side where the fraction converges fast; the other would take hundreds.
    left = x < (a + 1) / (a + 2.5)
    half = np.full_like(a, 0.5)
    value[left] = front[left] * _beta_fraction(x[left], a[left], half[left]) / a[left]
    right = ~left & ~np.isnan(x)
    value[right] = 1 - front[right] * _beta_fraction(1 - x[right], half[right], a[right]) / 0.5
    return np.where(x >= 1, 1.0, np.where(x <= 0, 0.0, value))


def _beta_fraction(x: Floats, a: Floats, b: Floats) -> Floats:
    def kept_from_zero(values: Floats) -> Floats:
        return np.where(np.abs(values) > _TINY, values, _TINY)

    c = np.ones_like(x)
    d = 1 / kept_from_zero(1 - (a + b) * x / (a + 1))
    result = d.copy()
    for m in range(1, 500):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / kept_from_zero(1 + term * d)
            c = kept_from_zero(1 + term / c)
            result = result * c * d
        if not np.any(np.abs(c * d - 1) >= 1e-14):
            break
    return result


def t_criticals(levels: Floats, degrees_of_freedom: Floats) -> Floats:
    """Return for each entry the t that encloses its level between -t and t.

    Levels repeat; for each of them the critical value is computed at `_NODES`
    degrees of freedom and interpolated on the log scale over their inverse.
    """
    critical = np.full(len(levels), np.nan)
    known = ~np.isnan(degrees_of_freedom)
    for level in np.unique(levels[known]):
        here = known & (levels == level)
        degrees = degrees_of_freedom[here]
        if len(degrees) <= _NODES:
            critical[here] = [t_critical(float(level), float(df)) for df in degrees]
        else:
            critical[here] = _interpolated(float(level), degrees)
    return critical


def _interpolated(level: float, degrees: Floats) -> Floats:
    low, high = 1 / float(degrees.max()), 1 / float(degrees.min())
    if high - low < 1e-12:
        return np.full(len(degrees), t_critical(level, float(degrees[0])))
    # Chebyshev points: the interpolating polynomial stays close everywhere.
    angles = np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)
    nodes = (low + high) / 2 + (high - low) / 2 * angles
    values = np.log([t_critical(level, float(1 / node)) for node in nodes])
    polynomial = np.polynomial.Chebyshev.fit(nodes, values, 24, domain=[low, high])
    critical: Floats = np.exp(polynomial(1 / degrees))
    return critical
