"""Comparisons and adjustments: published figures, scipy as oracle."""

from __future__ import annotations

import math
import random

import pytest
from scipy import stats as scipy_stats

from zcdb.stats.adjust import benjamini_hochberg, holm
from zcdb.stats.compare import Sample, compare_paired, compare_welch, sign_flip_p_value

# Benjamin Poirier, 7 January 2014: tx-nocache-copy off and on, mean ± sd over 10 runs.
POIRIER_14000 = Sample(10, 86450, 80), Sample(10, 86110, 60)
POIRIER_1400 = Sample(10, 692000, 1000), Sample(10, 693000, 1000)
POIRIER_DEMAND = Sample(10, 0.80, 0.01), Sample(10, 0.838, 0.004)


@pytest.mark.parametrize(
    ("samples", "t", "degrees", "p", "percent"),
    [
        (POIRIER_14000, -10.8, 16.7, 6.4e-9, -0.39),
        (POIRIER_1400, 2.2, 18.0, 0.038, 0.14),
        (POIRIER_DEMAND, 11.2, 11.8, 1.3e-7, 4.8),
    ],
)
def test_poiriers_table_is_recomputed_from_its_means_and_deviations(
    samples, t, degrees, p, percent
):
    comparison = compare_welch(*samples)

    assert comparison.statistic == pytest.approx(t, abs=0.06)
    assert comparison.degrees_of_freedom == pytest.approx(degrees, abs=0.05)
    assert comparison.p_value == pytest.approx(p, rel=0.05)
    assert (math.exp(comparison.log_ratio) - 1) * 100 == pytest.approx(percent, abs=0.051)


def test_welch_agrees_with_scipy():
    generator = random.Random(1)
    for _ in range(100):
        a = [generator.gauss(100, 5) for _ in range(generator.randint(3, 30))]
        b = [generator.gauss(103, 9) for _ in range(generator.randint(3, 30))]

        comparison = compare_welch(Sample.of(a), Sample.of(b))

        expected = scipy_stats.ttest_ind(b, a, equal_var=False)
        assert comparison.statistic == pytest.approx(expected.statistic)
        assert comparison.p_value == pytest.approx(expected.pvalue)
        assert comparison.degrees_of_freedom == pytest.approx(expected.df)


def test_paired_agrees_with_scipy_on_the_logarithms():
    generator = random.Random(2)
    for _ in range(50):
        n = generator.randint(3, 20)
        a = [generator.lognormvariate(0, 0.2) for _ in range(n)]
        b = [generator.lognormvariate(0.1, 0.2) for _ in range(n)]

        comparison = compare_paired(a, b)

        expected = scipy_stats.ttest_rel(list(map(math.log, b)), list(map(math.log, a)))
        assert comparison.statistic == pytest.approx(expected.statistic)
        assert comparison.p_value == pytest.approx(expected.pvalue)
        assert (comparison.n_baseline, comparison.n_candidate) == (n, n)


def test_swapping_the_cases_turns_the_ratio_round():
    a, b = [100.0, 101, 99, 103], [110.0, 112, 109, 111]

    there, back = compare_paired(a, b), compare_paired(b, a)

    assert there.log_ratio == pytest.approx(-back.log_ratio)
    assert there.p_value == pytest.approx(back.p_value)
    assert there.sign_flip_p_value == back.sign_flip_p_value == 2 / 16


def test_a_common_factor_of_each_block_drops_out():
    speed_of_block = [1.0, 2.0, 0.5, 3.0, 0.9]
    a = [100 * speed for speed in speed_of_block]
    b = [105 * speed for speed in speed_of_block]

    comparison = compare_paired(a, b)

    assert math.exp(comparison.log_ratio) == pytest.approx(1.05)
    assert comparison.p_value < 1e-12


def test_ratios_are_averaged_on_the_log_scale_never_as_percentages():
    """Rule E6: twice, half and the same cancel; their percentages would average to + 17 %."""
    comparison = compare_paired([1.0, 2, 4], [2.0, 1, 4])

    assert math.exp(comparison.log_ratio) == pytest.approx(1)
    assert comparison.p_value == pytest.approx(1)


@pytest.mark.parametrize("n", [1, 2])
def test_fewer_than_three_repetitions_give_a_ratio_but_no_test(n):
    paired = compare_paired([100.0] * n, [110.0] * n)
    welch = compare_welch(Sample(n, 100, 1), Sample(10, 110, 1))

    for comparison in (paired, welch):
        assert math.exp(comparison.log_ratio) == pytest.approx(1.1)
        assert (comparison.standard_error, comparison.p_value) == (None, None)
        assert comparison.reason == "fewer than three repetitions"


def test_values_of_zero_have_no_ratio_and_say_so():
    for comparison in (
        compare_paired([0.0, 1, 2], [1.0, 1, 2]),
        compare_paired([1.0, 1, 2], [1.0, -1, 2]),
        compare_welch(Sample(5, 0, 1), Sample(5, 2, 1)),
    ):
        assert (comparison.log_ratio, comparison.p_value) == (None, None)
        assert comparison.reason == "a value of zero or below: there is no ratio"


def test_values_without_any_spread_are_certain():
    same = compare_paired([2.0, 2, 2], [2.0, 2, 2])
    other = compare_welch(Sample(3, 2, 0), Sample(3, 4, 0))

    assert (same.statistic, same.p_value) == (0, 1)
    assert (other.statistic, other.p_value) == (math.inf, 0)


def test_unequal_lengths_and_impossible_samples_are_refused():
    with pytest.raises(ValueError, match="equal lengths, got 3 and 2"):
        compare_paired([1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match="not a measured value"):
        compare_paired([1, 2, math.nan], [1, 2, 3])
    with pytest.raises(ValueError, match="not a sample"):
        compare_welch(Sample(3, 1, -1), Sample(3, 1, 1))


def test_sign_flips_are_exact_up_to_twelve_values():
    generator = random.Random(3)
    for n in (2, 3, 5, 9):
        values = [generator.gauss(0.4, 1) for _ in range(n)]

        def mean(x, axis):
            return x.mean(axis=axis)

        expected = scipy_stats.permutation_test((values,), mean, permutation_type="samples")
        assert sign_flip_p_value(values) == pytest.approx(expected.pvalue)
    assert sign_flip_p_value([-3.0]) == 1
    assert sign_flip_p_value([1.0] * 5) == 2 / 32
    assert sign_flip_p_value([1.0] * 12) == 2 / 4096


def test_sign_flips_above_twelve_values_are_seeded_and_close_to_student():
    generator = random.Random(4)
    values = [generator.gauss(0.3, 1) for _ in range(40)]

    p = sign_flip_p_value(values, seed=1)

    assert p == sign_flip_p_value(values, seed=1)
    assert p == pytest.approx(scipy_stats.ttest_1samp(values, 0).pvalue, abs=0.02)
    assert sign_flip_p_value([1.0] * 40) == 1 / 10_000


def test_adjusted_p_values_of_a_known_family():
    p_values = [0.01, 0.04, 0.03, 0.005]

    assert holm(p_values) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert benjamini_hochberg(p_values) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == benjamini_hochberg([]) == []


def test_benjamini_hochberg_agrees_with_scipy():
    generator = random.Random(5)
    for _ in range(50):
        p_values = [generator.random() ** 2 for _ in range(generator.randint(1, 40))]

        expected = scipy_stats.false_discovery_control(p_values)
        assert benjamini_hochberg(p_values) == pytest.approx(list(expected))


def test_what_is_no_probability_is_refused():
    for adjust in (holm, benjamini_hochberg):
        with pytest.raises(ValueError, match=r"1\.5 is not a p value"):
            adjust([0.1, 1.5])
