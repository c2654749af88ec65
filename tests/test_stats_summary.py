"""Summaries and intervals: published ranks, scipy as oracle, coverage."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from scipy import stats as scipy_stats

from zcdb.stats.summary import (
    bootstrap_median_interval,
    mean_interval,
    median_interval,
    median_ranks,
    summarise,
)


@pytest.mark.parametrize(
    ("n", "low_rank", "high_rank"),
    [(6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (20, 6, 15), (30, 10, 21), (70, 27, 44)],
)
def test_median_interval_uses_published_ranks(n, low_rank, high_rank):
    values = list(range(n, 0, -1))

    assert median_interval(values) == (low_rank, high_rank)
    assert median_ranks(n) == (low_rank, high_rank)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_too_few_values_have_no_median_interval(n):
    with pytest.raises(ValueError, match=r"too few for a 95\.0% interval"):
        median_interval([1.0] * n)


def test_a_summary_of_known_values():
    summary = summarise([2, 4, 4, 4, 5, 5, 7, 9])

    assert (summary.n, summary.mean, summary.median) == (8, 5, 4.5)
    assert summary.sd == pytest.approx(math.sqrt(32 / 7))
    assert summary.interval_method == "t"
    low, high = scipy_stats.t.interval(0.95, 7, loc=5, scale=math.sqrt(32 / 7 / 8))
    assert (summary.low, summary.high) == pytest.approx((low, high))


def test_one_value_has_neither_spread_nor_interval():
    summary = summarise([3.5])

    assert (summary.mean, summary.median, summary.sd) == (3.5, 3.5, None)
    assert (summary.low, summary.high, summary.interval_method) == (None, None, None)


def test_two_values_have_a_spread_but_no_interval():
    summary = summarise([1, 3])

    assert summary.sd == pytest.approx(math.sqrt(2))
    assert (summary.low, summary.high, summary.interval_method) == (None, None, None)


@pytest.mark.parametrize("values", [[], [1, math.nan, 2], [1, math.inf, 2]])
def test_what_is_not_measured_is_not_summarised(values):
    with pytest.raises(ValueError, match=r"at least 1 values|not a measured value"):
        summarise(values)


def test_the_mean_interval_agrees_with_scipy():
    generator = random.Random(5)
    for n in (3, 4, 10, 100):
        values = [generator.gauss(10, 2) for _ in range(n)]

        expected = scipy_stats.t.interval(
            0.99, n - 1, loc=statistics.fmean(values), scale=scipy_stats.sem(values)
        )
        assert mean_interval(values, 0.99) == pytest.approx(expected)


def test_the_bootstrap_is_seeded_and_close_to_scipy():
    generator = random.Random(6)
    values = [generator.lognormvariate(0, 0.3) for _ in range(40)]

    interval = bootstrap_median_interval(values, seed=1)

    oracle = scipy_stats.bootstrap(
        (values,), statistics.median, method="percentile", vectorized=False, rng=2, n_resamples=2000
    ).confidence_interval
    assert interval == bootstrap_median_interval(values, seed=1)
    assert interval == pytest.approx(tuple(oracle), rel=0.03)


@pytest.mark.parametrize("n", [6, 12, 31])
def test_intervals_hold_as_often_as_they_say(n):
    """The t interval on normal values; order statistics, which are careful, on skewed ones."""
    generator = random.Random(n)
    simulations = 3000

    mean_holds = median_holds = 0
    for _ in range(simulations):
        low, high = mean_interval([generator.gauss(5, 1) for _ in range(n)])
        mean_holds += low <= 5 <= high
        low, high = median_interval([generator.expovariate(1) for _ in range(n)])
        median_holds += low <= math.log(2) <= high

    assert 0.93 <= mean_holds / simulations <= 0.97
    assert 0.94 <= median_holds / simulations <= 0.985


def test_the_bootstrap_interval_holds_about_as_often_as_it_says():
    generator = random.Random(8)
    simulations = 200

    holds = 0
    for seed in range(simulations):
        low, high = bootstrap_median_interval([generator.gauss(5, 1) for _ in range(25)], seed=seed)
        holds += low <= 5 <= high

    assert 0.91 <= holds / simulations <= 0.99
