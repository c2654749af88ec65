"""Verdicts: the rule, its agreement with Holm, and how often it is wrong."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zcdb.stats.compare import Comparison, Sample, compare_paired, compare_welch
from zcdb.stats.distributions import t_two_sided_p
from zcdb.stats.verdict import REPETITIONS_LIMIT, judge


def comparison(log_ratio: float, standard_error: float, n: int = 10) -> Comparison:
    p = t_two_sided_p(log_ratio / standard_error, n - 1)
    return Comparison("paired", n, n, log_ratio, standard_error, n - 1, p)


@pytest.mark.parametrize(
    ("log_ratio", "standard_error", "better", "word", "is_detectable"),
    [
        (0.10, 0.01, "higher", "better", True),
        (0.10, 0.01, "lower", "worse", True),
        (-0.10, 0.01, "lower", "better", True),
        (-0.10, 0.01, "higher", "worse", True),
        (0.005, 0.001, "higher", "equivalent", True),
        (0.001, 0.001, "higher", "equivalent", False),
        (0.015, 0.004, "higher", "better", True),
        (0.010, 0.020, "higher", "undecided", False),
        (0.005, 0.001, "neither", "equivalent", True),
        (0.10, 0.01, "neither", "undecided", True),
    ],
)
def test_the_rule(log_ratio, standard_error, better, word, is_detectable):
    (verdict,) = judge([comparison(log_ratio, standard_error)], [better], matters=0.02)

    assert (verdict.word, verdict.is_detectable) == (word, is_detectable)
    assert verdict.ratio == pytest.approx(math.exp(log_ratio))
    assert verdict.low < verdict.ratio < verdict.high
    assert (verdict.level, verdict.family_size) == (0.95, 1)


@pytest.mark.parametrize(
    ("samples", "better", "matters", "word"),
    [
        ((Sample(10, 86450, 80), Sample(10, 86110, 60)), "higher", 0.005, "equivalent"),
        ((Sample(10, 86450, 80), Sample(10, 86110, 60)), "higher", 0.001, "worse"),
        ((Sample(10, 692000, 1000), Sample(10, 693000, 1000)), "higher", 0.02, "equivalent"),
        ((Sample(10, 0.80, 0.01), Sample(10, 0.838, 0.004)), "lower", 0.02, "worse"),
    ],
)
def test_poiriers_differences_are_detectable_and_the_small_ones_equivalent(
    samples, better, matters, word
):
    (verdict,) = judge([compare_welch(*samples)], [better], matters)

    assert (verdict.word, verdict.is_detectable) == (word, True)


def test_an_interval_is_inside_only_up_to_what_matters():
    """n = 10 000 makes Student's t 1.9602; the interval's upper end is at + 2 % exactly."""
    half_width = 1.960201 * 0.001
    inside = comparison(math.log(1.02) - half_width - 1e-6, 0.001, n=10_000)
    outside = comparison(math.log(1.02) - half_width + 1e-6, 0.001, n=10_000)

    first, second = (judge([c], ["higher"], matters=0.02)[0] for c in (inside, outside))

    assert (first.word, second.word) == ("equivalent", "better")


def test_what_cannot_be_tested_is_undecided_with_the_reason_and_no_member_of_the_family():
    few = compare_paired([1.0, 2], [2.0, 4])
    none = compare_paired([0.0, 1, 2], [1.0, 2, 3])
    sure = comparison(0.1, 0.01)

    verdicts = judge([few, none, sure], ["higher"] * 3, matters=0.02)

    assert [v.word for v in verdicts] == ["undecided", "undecided", "better"]
    assert verdicts[0].reason == "fewer than three repetitions"
    assert verdicts[0].ratio == pytest.approx(2)
    assert (verdicts[0].low, verdicts[0].p_adjusted, verdicts[0].repetitions_needed) == (None,) * 3
    assert verdicts[1].ratio is None
    assert {v.family_size for v in verdicts} == {1}


def test_intervals_of_a_family_are_wider():
    alone = judge([comparison(0.01, 0.01)], ["higher"], 0.02)[0]
    of_ten = judge([comparison(0.01, 0.01)] * 10, ["higher"] * 10, 0.02)[0]

    assert of_ten.level == pytest.approx(0.995)
    assert of_ten.high > alone.high
    assert of_ten.p_adjusted == pytest.approx(min(1, 10 * alone.p_value))


def test_an_interval_is_narrowed_only_where_holm_detects_more_than_bonferroni():
    """Two comparisons with p of 0.001 and 0.04: Holm detects both, Bonferroni the first."""
    certain, close = comparison(0.1, 0.0209), comparison(0.05, 0.0209)

    first, second = judge([certain, close], ["higher"] * 2, 0.001)

    assert first.p_value < 0.025 < second.p_value < 0.05
    assert (first.level, second.level) == (pytest.approx(0.975), pytest.approx(0.95))
    assert first.is_detectable
    assert second.is_detectable


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.tuples(st.floats(-0.2, 0.2), st.floats(0.001, 0.1)), min_size=1, max_size=12),
    st.floats(0.001, 0.2),
)
def test_word_interval_and_adjusted_p_never_contradict_each_other(family, matters):
    comparisons = [comparison(*member) for member in family]

    for verdict in judge(comparisons, ["lower"] * len(family), matters):
        excludes_no_difference = verdict.low > 1 or verdict.high < 1
        is_on_the_edge = abs(verdict.p_adjusted - 0.05) < 1e-9
        assert verdict.is_detectable == (verdict.p_adjusted <= 0.05)
        assert is_on_the_edge or excludes_no_difference == verdict.is_detectable
        assert (verdict.word == "undecided") == (verdict.reason is not None)
        if verdict.word in ("better", "worse"):
            assert excludes_no_difference
            assert (verdict.ratio < 1) == (verdict.word == "better")
        if verdict.word == "equivalent":
            assert 1 - matters <= verdict.low
            assert verdict.high <= 1 + matters


def paired_noise(generator: random.Random, n: int, effect: float = 0.0) -> Comparison:
    baseline = [100 * generator.gauss(1, 0.02) for _ in range(n)]
    candidate = [100 * math.exp(effect) * generator.gauss(1, 0.02) for _ in range(n)]
    return compare_paired(baseline, candidate)


def test_a_thousand_identical_cases_show_no_difference_after_the_adjustment():
    generator = random.Random(11)
    comparisons = [paired_noise(generator, 6) for _ in range(1000)]

    verdicts = judge(comparisons, ["higher"] * 1000, matters=0.02)

    unadjusted = sum(v.p_value <= 0.05 for v in verdicts)
    assert 30 <= unadjusted <= 70
    assert sum(v.is_detectable for v in verdicts) == 0
    assert {v.family_size for v in verdicts} == {1000}


def test_a_table_of_identical_cases_raises_a_false_alarm_in_about_five_of_a_hundred():
    generator = random.Random(12)
    tables = 400

    alarms = 0
    for _ in range(tables):
        family = [paired_noise(generator, 6) for _ in range(8)]
        alarms += any(v.is_detectable for v in judge(family, ["higher"] * 8, 0.02))

    # 5 % and four standard deviations of 400 draws.
    assert alarms / tables <= 0.094


def measured(generator: random.Random, effect: float, sd: float, n: int) -> Comparison:
    """Return what n pairs with this effect and spread say."""
    ratios = [generator.gauss(effect, sd) for _ in range(n)]
    return comparison(statistics.fmean(ratios), statistics.stdev(ratios) / math.sqrt(n), n)


def test_a_difference_that_matters_is_hardly_ever_called_equivalent():
    generator = random.Random(13)

    mistaken = sum(
        judge([measured(generator, math.log(1.02), 0.01, 10)], ["higher"], 0.02)[0].word
        == "equivalent"
        for _ in range(1000)
    )

    # The interval's two sides share 5 %, and only one of them can be missed: 2.5 %.
    assert mistaken / 1000 <= 0.045


@pytest.mark.parametrize(("effect", "matters"), [(0.03, 0.005), (0.0, 0.02), (0.008, 0.02)])
def test_the_repetitions_needed_decide_in_about_eight_of_ten_runs(effect, matters):
    generator = random.Random(14)
    sd, now = 0.05, 6
    (verdict,) = judge([comparison(effect + 1e-12, sd / math.sqrt(now), now)], ["lower"], matters)
    needed = verdict.repetitions_needed

    assert verdict.word == "undecided"
    assert needed > now
    decided = 0
    for _ in range(400):
        again = measured(generator, effect, sd, needed)
        decided += judge([again], ["lower"], matters)[0].word != "undecided"
    assert 0.74 <= decided / 400 <= 0.86


def test_no_number_is_given_where_ten_thousand_repetitions_would_not_do():
    (verdict,) = judge([comparison(0.0099, 0.5, 5)], ["lower"], matters=0.0001)

    assert REPETITIONS_LIMIT == 10_000
    assert (verdict.word, verdict.repetitions_needed) == ("undecided", None)


def test_impossible_arguments_are_refused():
    one = comparison(0.1, 0.01)

    with pytest.raises(ValueError, match="2 comparisons, but 1 directions"):
        judge([one, one], ["higher"], 0.02)
    with pytest.raises(ValueError, match="must be between 0 and 1"):
        judge([one], ["higher"], 0)
    assert judge([], [], 0.02) == []
