"""Two cases compared: the ratio candidate ÷ baseline, how sure, and the test behind it.

Ratios are compared on the log scale, so that twice and half are equally far
from 1, and several are never averaged as percentages.  A comparison that
cannot be made is one with a reason, not an exception: tables have them.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from zcdb.stats.distributions import t_two_sided_p
from zcdb.stats.summary import MINIMUM_FOR_INTERVAL, checked, standard_deviation

EXACT_SIGN_FLIP_LIMIT = 12
SIGN_FLIP_DRAWS = 9_999

_TOO_FEW = "fewer than three repetitions"
_NO_RATIO = "a value of zero or below: there is no ratio"


@dataclass(frozen=True, slots=True)
class Sample:
    """A group of values by its summary, as it is published: n, mean and standard deviation.

    A published ± that is a standard error or an interval has to be converted first.
    """

    n: int
    mean: float
    sd: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Sample:
        """Return the summary of at least two values.

        Raises:
            ValueError: if there are fewer, or one is not finite.
        """
        numbers = checked(values, 2)
        return cls(len(numbers), statistics.fmean(numbers), standard_deviation(numbers))


@dataclass(frozen=True, slots=True)
class Comparison:
    """A candidate against its baseline.

    Attributes:
        kind: "paired" (by block, within a run) or "welch" (between runs, published figures).
        log_ratio: ln(candidate ÷ baseline); None where there is no ratio.
        standard_error: of `log_ratio`; None below three repetitions.
        p_value: two-sided, of "no difference"; log_ratio ÷ standard_error on Student's t.
        sign_flip_p_value: the same question without assuming a distribution; paired only.
        reason: why something is None.
    """

    kind: Literal["paired", "welch"]
    n_baseline: int
    n_candidate: int
    log_ratio: float | None
    standard_error: float | None
    degrees_of_freedom: float | None
    p_value: float | None
    sign_flip_p_value: float | None = None
    reason: str | None = None

    @property
    def statistic(self) -> float | None:
        """Student's t; infinite if the values do not vary but differ."""
        if self.log_ratio is None or self.standard_error is None:
            return None
        return _t(self.log_ratio, self.standard_error)


def _t(estimate: float, standard_error: float) -> float:
    if standard_error > 0:
        return estimate / standard_error
    return 0.0 if estimate == 0 else math.copysign(math.inf, estimate)


def compare_paired(baseline: Sequence[float], candidate: Sequence[float]) -> Comparison:
    """Compare two cases of one run, block by block.

    Two trials of one block share what the machine was like at that time, so
    their ratio is free of drift; the t test is on the mean log ratio.

    Args:
        baseline, candidate: values in the order of the blocks, of equal length; leave out
            blocks in which one of the two is missing.

    Raises:
        ValueError: if the lengths differ, there is no value, or one is not finite.
    """
    first, second = checked(baseline), checked(candidate)
    n = len(first)
    if n != len(second):
        raise ValueError(f"pairs need equal lengths, got {n} and {len(second)}")
    if min(*first, *second) <= 0:
        return Comparison("paired", n, n, None, None, None, None, reason=_NO_RATIO)
    ratios = [math.log(b / a) for a, b in zip(first, second, strict=True)]
    mean = statistics.fmean(ratios)
    if n < MINIMUM_FOR_INTERVAL:
        return Comparison("paired", n, n, mean, None, None, None, reason=_TOO_FEW)
    standard_error = standard_deviation(ratios) / math.sqrt(n)
    return Comparison(
        kind="paired",
        n_baseline=n,
        n_candidate=n,
        log_ratio=mean,
        standard_error=standard_error,
        degrees_of_freedom=n - 1,
        p_value=t_two_sided_p(_t(mean, standard_error), n - 1),
        sign_flip_p_value=sign_flip_p_value(ratios),
    )


def compare_welch(baseline: Sample, candidate: Sample) -> Comparison:
    """Compare two independent groups by their summaries.

    The test is Welch's, on the means as they are.  The standard error of the
    log ratio is that of the difference divided by the logarithmic mean of
    the two means, which lies between them: the delta method at the point
    where log ratio ÷ standard error is exactly Welch's t, so that interval
    and p agree.

    Raises:
        ValueError: if n is below 1 or a standard deviation is negative.
    """
    for sample in (baseline, candidate):
        if sample.n < 1 or not sample.sd >= 0 or not math.isfinite(sample.mean):
            raise ValueError(f"not a sample: n = {sample.n}, {sample.mean} ± {sample.sd}")
    counts = (baseline.n, candidate.n)
    if baseline.mean <= 0 or candidate.mean <= 0:
        return Comparison("welch", *counts, None, None, None, None, reason=_NO_RATIO)
    log_ratio = math.log(candidate.mean / baseline.mean)
    if min(counts) < MINIMUM_FOR_INTERVAL:
        return Comparison("welch", *counts, log_ratio, None, None, None, reason=_TOO_FEW)
    variances = [sample.sd**2 / sample.n for sample in (baseline, candidate)]
    difference = candidate.mean - baseline.mean
    log_mean = difference / log_ratio if log_ratio else baseline.mean
    standard_error = math.sqrt(sum(variances)) / log_mean
    degrees = _welch_degrees(variances, counts)
    return Comparison(
        kind="welch",
        n_baseline=baseline.n,
        n_candidate=candidate.n,
        log_ratio=log_ratio,
        standard_error=standard_error,
        degrees_of_freedom=degrees,
        p_value=t_two_sided_p(_t(log_ratio, standard_error), degrees),
    )


def _welch_degrees(variances: Sequence[float], counts: Sequence[int]) -> float:
    """Return the degrees of freedom by Welch and Satterthwaite."""
    spread = sum(v**2 / (n - 1) for v, n in zip(variances, counts, strict=True))
    return sum(variances) ** 2 / spread if spread > 0 else float(sum(counts) - 2)


def sign_flip_p_value(differences: Sequence[float], seed: int = 0) -> float:
    """Return how often random signs make the mean as far from 0 as it is.

    Valid for any distribution that is symmetric about 0 when nothing differs.
    Exact up to 12 values (all 2^n signs), above that from 9,999 seeded draws.
    With n values p is never below 2 ÷ 2^n: five pairs cannot reach 5 %.

    Raises:
        ValueError: if there is no value, or one is not finite.
    """
    values = checked(differences)
    observed = abs(math.fsum(values))
    # Sums of the same numbers in another order may differ in their last bits.
    threshold = observed - 1e-12 * math.fsum(abs(value) for value in values)
    if len(values) <= EXACT_SIGN_FLIP_LIMIT:
        return float(np.mean(np.abs(_signed_sums(values)) >= threshold))
    # Eight values at a time: a byte of random bits looks up the sum of their signs.
    tables = [_signed_sums(values[start : start + 8]) for start in range(0, len(values), 8)]
    total = np.zeros(SIGN_FLIP_DRAWS)
    for table, drawn in zip(tables, _drawn_bytes(len(tables), seed), strict=True):
        total += table[drawn % len(table)]
    extreme = int(np.count_nonzero(np.abs(total) >= threshold))
    return (extreme + 1) / (SIGN_FLIP_DRAWS + 1)


@lru_cache(maxsize=32)
def _drawn_bytes(count: int, seed: int) -> NDArray[np.intp]:
    """Return the random bytes of all draws, `count` rows; drawn draw by draw."""
    generator = random.Random(seed)  # noqa: S311  (seeded on purpose)
    drawn = [generator.getrandbits(8) for _ in range(SIGN_FLIP_DRAWS * count)]
    return np.array(drawn, np.intp).reshape(SIGN_FLIP_DRAWS, count).T


def _signed_sums(values: Sequence[float]) -> NDArray[np.float64]:
    """Return the sums of `values` under every choice of signs."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums
