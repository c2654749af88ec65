"""Patterns in the order of values."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
from scipy import stats as scipy_stats

from zcdb.stats.patterns import find_pattern, mann_kendall_p, measure_drift, theil_sen_slope

# Ion Badulescu, 27 January 2001: CPU load in %, "2 slow, 1 fast, 2 slow, 1 fast".
SERIES_OF_2001 = [
    27.9491,
    25.4763,
    15.8544,
    25.455,
    25.2072,
    15.8677,
    25.4896,
    25.2791,
    15.8837,
]


@pytest.fixture
def generator() -> random.Random:
    return random.Random(21)


def test_the_two_slow_one_fast_series_of_2001_is_found():
    pattern = find_pattern(SERIES_OF_2001)

    assert pattern.word == "periodic"
    assert pattern.period.length == 3
    assert pattern.text == "repeats every 3 values: 2 around 25.81, 1 around 15.87"
    assert (pattern.levels.high_count, pattern.levels.low_count) == (6, 3)
    assert pattern.levels.high == pytest.approx(25.81, abs=0.01)
    assert pattern.drift is None


def test_a_period_is_not_reported_as_its_multiple(generator):
    values = [(10, 20, 20, 10)[i % 4] + generator.gauss(0, 0.5) for i in range(40)]

    assert find_pattern(values).period.length == 4


def test_two_levels_in_no_order_are_bimodal(generator):
    values = [generator.choice([10.8, 11.5]) + generator.gauss(0, 0.03) for _ in range(30)]

    pattern = find_pattern(values)

    assert pattern.word == "bimodal"
    assert pattern.levels.low == pytest.approx(10.8, abs=0.02)
    assert pattern.levels.high == pytest.approx(11.5, abs=0.02)
    assert pattern.levels.low_count + pattern.levels.high_count == 30


def test_a_rise_is_a_drift_with_its_size(generator):
    values = [100 + 0.5 * i + generator.gauss(0, 1) for i in range(40)]

    pattern = find_pattern(values)

    assert pattern.word == "drifting"
    assert pattern.drift.slope == pytest.approx(0.5, abs=0.05)
    assert pattern.drift.change == pytest.approx(0.5 * 39 / 110, abs=0.02)
    assert pattern.drift.first_third < pattern.drift.last_third
    assert pattern.text.startswith("rises by 1")


def test_a_drift_that_is_sure_but_tiny_is_no_pattern():
    values = [100 + 0.001 * i for i in range(40)]

    assert measure_drift(values).p_value < 1e-6
    assert find_pattern(values).word == "steady"


@pytest.mark.parametrize("values", [[1.0], [1.0, 2, 1, 2, 1, 2, 1]])
def test_too_few_values_say_so(values):
    pattern = find_pattern(values)

    assert pattern.word == "too short"
    assert pattern.text.startswith(f"{len(values)} values are too few")


def test_equal_values_are_steady():
    assert find_pattern([5.0] * 20).word == "steady"


@pytest.mark.parametrize("n", [8, 9, 20, 60])
def test_noise_is_steady_in_at_least_ninety_six_of_a_hundred_series(generator, n):
    words = Counter(
        find_pattern([generator.gauss(100, 5) for _ in range(n)]).word for _ in range(500)
    )

    assert words["steady"] >= 480
    assert "too short" not in words


def test_evenly_spread_values_are_not_bimodal(generator):
    words = [find_pattern([generator.random() for _ in range(20)]).word for _ in range(300)]

    assert words.count("bimodal") <= 9


def test_trend_statistics_agree_with_scipy(generator):
    for n in (10, 25):
        values = [generator.gauss(0, 1) + 0.05 * i for i in range(n)]
        ties = [round(value) for value in values]

        slope = scipy_stats.theilslopes(values).slope
        assert theil_sen_slope(values) == pytest.approx(slope)
        # scipy's Kendall has no correction for continuity: the p are close, not equal.
        for series in (values, ties):
            p = scipy_stats.kendalltau(range(n), series, method="asymptotic").pvalue
            s = abs(sum((b > a) - (b < a) for a, b in itertools.combinations(series, 2)))
            # scipy does not correct for continuity: Kendall's S counts one less here.
            z = scipy_stats.norm.isf(p / 2) * (s - 1) / s
            assert mann_kendall_p(series) == pytest.approx(2 * scipy_stats.norm.sf(z))
    assert mann_kendall_p([1, 2, 3, 4, 5, 6, 7, 8]) == pytest.approx(0.00083, abs=0.00002)
