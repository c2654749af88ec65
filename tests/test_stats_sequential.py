"""Measuring until the interval is narrow enough."""

from __future__ import annotations

import math
import random

import pytest
from scipy import stats as scipy_stats

from zcdb.stats.sequential import Look, StoppingRule, look


def run(rule: StoppingRule, generator: random.Random, sd: float) -> Look:
    values = [generator.gauss(0, sd) for _ in range(rule.first)]
    while (seen := look(rule, values)).decision == "go on":
        values.append(generator.gauss(0, sd))
    return seen


def test_nothing_is_decided_before_the_first_look():
    rule = StoppingRule(half_width=1, first=6)

    assert look(rule, [1.0] * 5) == Look(5, 1.0, None, "go on")
    assert look(rule, [1.0] * 6) == Look(6, 1.0, 0, "narrow enough")


def test_the_interval_at_a_look_is_wider_than_one_without_looking():
    values = [1.0, 2, 3, 4, 5, 6]

    seen = look(StoppingRule(half_width=0.1), values)

    standard_error = math.sqrt(3.5 / 6)
    assert seen.decision == "go on"
    assert seen.half_width == pytest.approx(scipy_stats.t.isf(0.0375 / 2, 5) * standard_error)


def test_the_limit_stops_what_never_gets_narrow():
    seen = run(StoppingRule(half_width=1e-9, first=6, at_most=12), random.Random(1), sd=1)

    assert (seen.n, seen.decision) == (12, "limit reached")
    assert seen.half_width > 1e-9


@pytest.mark.parametrize("sd", [0.1, 0.8, 1.2, 1.6, 2.2, 5])
def test_a_nominal_95_percent_interval_holds_in_93_to_97_of_100_runs(sd):
    """Rule B6: from spreads that stop at the first look to those that run into the limit."""
    rule = StoppingRule(half_width=1.0, first=6, at_most=30)
    generator = random.Random(51)
    runs = 2000

    looks = [run(rule, generator, sd) for _ in range(runs)]

    holds = sum(abs(seen.mean) <= seen.half_width for seen in looks)
    assert 0.93 <= holds / runs <= 0.97


@pytest.mark.parametrize(
    ("half_width", "first", "at_most"), [(0, 6, 30), (1, 4, 30), (1, 10, 9), (float("nan"), 6, 30)]
)
def test_impossible_rules_are_refused(half_width, first, at_most):
    with pytest.raises(ValueError, match=r"half_width must be|needs 5 <= first"):
        StoppingRule(half_width, first, at_most)
