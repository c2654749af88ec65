"""Latencies from histograms: percentiles, and how sure one can be of them.

Pure.  The buckets are those of `hotloops_api.h`: none is wider than 1/128 of its
value, so a percentile is right to 0.4 %.  A histogram of exactly one window is the
difference of two readings.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist

from zcdb.engine.counters import LATENCY_BUCKET

STEPS = 128
"""Buckets of a doubling; single nanoseconds below as many."""

EXACT_COUNT = 1000
"""Up to so many observations the ranks of an interval are counted out, not approximated."""


def bucket_bounds_ns(bucket: int) -> tuple[int, int]:
    """Return the smallest latency of a bucket, and the smallest of the next one."""
    doubling, step = divmod(bucket, STEPS)
    if doubling == 0:
        return bucket, bucket + 1
    return (STEPS + step) << (doubling - 1), (STEPS + step + 1) << (doubling - 1)


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many transactions took how long.

    Attributes:
        counts: bucket -> transactions, above 0, in ascending order.
    """

    counts: Mapping[int, int]

    @classmethod
    def between(cls, first: Mapping[str, int], last: Mapping[str, int]) -> Histogram:
        """Return the histogram of what happened between two readings of a client."""
        grown = {
            int(name.removeprefix(LATENCY_BUCKET)): count - first.get(name, 0)
            for name, count in last.items()
            if name.startswith(LATENCY_BUCKET)
        }
        return cls({bucket: grown[bucket] for bucket in sorted(grown) if grown[bucket] > 0})

    @property
    def total(self) -> int:
        """The number of transactions."""
        return sum(self.counts.values())

    def value_s(self, rank: int) -> float:
        """Return the latency of a rank, 1 for the shortest: the middle of its bucket.

        Raises:
            ValueError: if there are not so many transactions.
        """
        if not 1 <= rank <= self.total:
            raise ValueError(f"rank {rank} is none of {self.total} transactions")
        place = bisect_left(list(accumulate(self.counts.values())), rank)
        low, high = bucket_bounds_ns(list(self.counts)[place])
        return (low + high - 1) / 2 / 10**9

    def percentile_s(self, share: float) -> float:
        """Return the latency that this share (0 to 1) of the transactions did not exceed.

        Raises:
            ValueError: if there is no transaction.
        """
        return self.value_s(max(1, math.ceil(share * self.total - 1e-9)))

    def percentile_interval_s(self, share: float, level: float = 0.95) -> tuple[float, float]:
        """Return a distribution-free confidence interval of a percentile.

        It takes the transactions for independent of each other, which those of one
        connection are only nearly; between trials the repetitions decide.

        Raises:
            ValueError: if there are too few transactions for an interval of this level.
        """
        low, high = percentile_ranks(self.total, share, level)
        return self.value_s(low), self.value_s(high)


def percentile_ranks(count: int, share: float, level: float = 0.95) -> tuple[int, int]:
    """Return the ranks, from 1, between which a percentile lies with this confidence.

    How many of `count` observations lie below the percentile is binomial; for many
    of them the normal approximation is used.

    Raises:
        ValueError: if no two ranks of so few observations reach the level.

    Source: J.-Y. Le Boudec, Performance Evaluation of Computer and Communication
    Systems (2010), chapter 2, interval for quantiles.
    """
    tail = (1 - level) / 2
    if count <= EXACT_COUNT:
        below = list(accumulate(_binomial(count, share)))
        # P(rank `low` lies above) is what the ranks below it leave over, and so on.
        low = bisect_left(below, tail)
        high = bisect_left(below, 1 - tail) + 1
    else:
        half = NormalDist().inv_cdf(1 - tail) * math.sqrt(count * share * (1 - share))
        low = math.floor(count * share - half)
        high = math.ceil(count * share + half) + 1
    if low < 1 or high > count:
        raise ValueError(
            f"{count} transactions are too few for an interval of the {share:.4%} percentile"
        )
    return low, high


def _binomial(count: int, share: float) -> list[float]:
    """Return the probability of each number of successes, 0 to `count`."""
    log_share, log_rest = math.log(share), math.log1p(-share)
    log_all = math.lgamma(count + 1)
    return [
        math.exp(
            log_all
            - math.lgamma(number + 1)
            - math.lgamma(count - number + 1)
            + number * log_share
            + (count - number) * log_rest
        )
        for number in range(count + 1)
    ]
