"""Distributions and power, against scipy."""

from __future__ import annotations

import math
import random

import pytest
from scipy import stats as scipy_stats

from zcdb.stats import distributions
from zcdb.stats.power import noncentral_t_outside, paired_power, smallest_detectable_ratio


@pytest.fixture
def generator() -> random.Random:
    return random.Random(7)


def test_student_t_agrees_with_scipy_far_into_the_tails(generator):
    for _ in range(300):
        t, degrees = generator.uniform(0, 60), generator.uniform(1, 300)

        expected = 2 * scipy_stats.t.sf(t, degrees)
        assert distributions.t_two_sided_p(t, degrees) == pytest.approx(expected, rel=1e-9)
        assert distributions.t_cdf(-t, degrees) == pytest.approx(expected / 2, rel=1e-9)


def test_critical_t_agrees_with_scipy_for_strictly_adjusted_levels(generator):
    for _ in range(300):
        outside, degrees = 10 ** generator.uniform(-6, -0.5), generator.uniform(1, 1000)

        critical = distributions.t_critical(1 - outside, degrees)

        assert critical == pytest.approx(scipy_stats.t.isf(outside / 2, degrees), rel=1e-8)


@pytest.mark.parametrize(
    ("degrees", "expected"), [(1, 12.706), (4, 2.776), (9, 2.262), (30, 2.042)]
)
def test_critical_t_is_the_one_in_the_tables(degrees, expected):
    assert distributions.t_critical(0.95, degrees) == pytest.approx(expected, abs=0.0005)


def test_f_beta_and_binomial_agree_with_scipy(generator):
    for _ in range(200):
        f, a, b = 10 ** generator.uniform(-2, 3), generator.randint(1, 40), generator.randint(1, 99)
        p, n = generator.uniform(0.01, 0.99), generator.randint(1, 60)
        k = generator.randint(-1, n)

        assert distributions.f_upper_p(f, a, b) == pytest.approx(
            scipy_stats.f.sf(f, a, b), rel=1e-8, abs=1e-12
        )
        assert distributions.beta_quantile(p, a, b) == pytest.approx(
            scipy_stats.beta.ppf(p, a, b), rel=1e-8
        )
        assert distributions.binomial_cdf(k, n, p) == pytest.approx(
            scipy_stats.binom.cdf(k, n, p), rel=1e-9, abs=1e-12
        )


@pytest.mark.parametrize(("level", "degrees"), [(0, 5), (1, 5), (0.95, 0)])
def test_impossible_levels_and_degrees_are_refused(level, degrees):
    with pytest.raises(ValueError, match=r"between 0 and 1|above 0"):
        distributions.t_critical(level, degrees)


@pytest.mark.parametrize(
    ("critical", "degrees", "shift"),
    [(12.7, 1, 1.0), (2.8, 4, 0.0), (2.8, 4, 3.0), (7.0, 4, 6.0), (2.0, 60, 1.5), (3.5, 9, 5.0)],
)
def test_noncentral_t_agrees_with_scipy(critical, degrees, shift):
    outside = scipy_stats.nct.sf(critical, degrees, shift) + scipy_stats.nct.cdf(
        -critical, degrees, shift
    )

    assert noncentral_t_outside(critical, degrees, shift) == pytest.approx(outside, abs=1e-6)


def test_power_is_what_a_simulation_finds_within_three_points(generator):
    effect, sd, n, simulations = 0.03, 0.03, 10, 4000

    detected = 0
    for _ in range(simulations):
        ratios = [generator.gauss(effect, sd) for _ in range(n)]
        mean = sum(ratios) / n
        error = (sum((r - mean) ** 2 for r in ratios) / (n - 1) / n) ** 0.5
        detected += abs(mean / error) > distributions.t_critical(0.95, n - 1)

    assert paired_power(effect, sd, n) == pytest.approx(detected / simulations, abs=0.03)


def test_the_smallest_detectable_difference_is_detected_with_the_wanted_power():
    for n, family in [(3, 1), (5, 18), (10, 6)]:
        ratio = smallest_detectable_ratio(0.02, n, family_size=family)

        assert ratio is not None
        sd_of_pairs = 0.02 * 2**0.5
        power = paired_power(math.log1p(ratio), sd_of_pairs, n, family_size=family)
        assert power == pytest.approx(0.8, abs=1e-6)


def test_what_no_repetition_can_detect_is_none():
    assert smallest_detectable_ratio(0.9, 3, family_size=100) is None
    with pytest.raises(ValueError, match="two blocks or more"):
        smallest_detectable_ratio(0.02, 1)
