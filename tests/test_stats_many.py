"""Many comparisons at once: the same answers as one at a time."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from zcdb.stats.compare import Sample, compare_welch
from zcdb.stats.distributions import t_critical, t_two_sided_p
from zcdb.stats.many import Samples, judge_many, t_criticals
from zcdb.stats.many import t_two_sided_p as many_p
from zcdb.stats.verdict import judge


def _samples(samples: list[Sample]) -> Samples:
    return Samples(
        *(np.array([float(getattr(s, name)) for s in samples]) for name in Samples.__slots__)
    )


def _drawn(seed: int, count: int) -> tuple[list[Sample], list[Sample]]:
    generator = random.Random(seed)
    firsts, seconds = [], []
    for _ in range(count):
        mean = generator.choice([0.5, 100.0, 9.4e9])
        spread = generator.choice([0.0, 0.001, 0.02, 0.2])
        effect = math.exp(generator.choice([0.0, 0.004, -0.05, 0.5]))
        firsts.append(Sample(generator.randint(1, 30), mean, mean * spread * generator.random()))
        seconds.append(
            Sample(generator.randint(1, 30), mean * effect, mean * spread * generator.random())
        )
    return firsts, seconds


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("better", ["lower", "higher", "neither"])
def test_arrays_say_what_single_comparisons_say(seed, better):
    firsts, seconds = _drawn(seed, 300)
    comparisons = [compare_welch(a, b) for a, b in zip(firsts, seconds, strict=True)]

    expected = judge(comparisons, [better] * 300, 0.02)
    judged = judge_many(_samples(firsts), _samples(seconds), [better] * 300, 0.02)

    assert [str(word) for word in judged.word] == [verdict.word for verdict in expected]
    assert judged.is_detectable.tolist() == [verdict.is_detectable for verdict in expected]
    assert judged.family_size == expected[0].family_size
    for name in ("ratio", "low", "high", "level", "p_value", "p_adjusted"):
        wanted = [getattr(verdict, name) for verdict in expected]
        got = getattr(judged, name)
        assert [math.isnan(value) for value in got] == [
            value is None and name != "level" for value in wanted
        ]
        known = [(g, w) for g, w in zip(got, wanted, strict=True) if w is not None]
        assert [g for g, _ in known] == pytest.approx([w for _, w in known], rel=1e-6, abs=1e-12)


def test_an_entry_is_the_comparison_it_stands_for():
    firsts, seconds = _drawn(7, 40)
    judged = judge_many(_samples(firsts), _samples(seconds), ["lower"] * 40, 0.02)

    for index, (first, second) in enumerate(zip(firsts, seconds, strict=True)):
        one, wanted = judged.comparison(index), compare_welch(first, second)
        assert (one.n_baseline, one.n_candidate) == (wanted.n_baseline, wanted.n_candidate)
        assert one.log_ratio == pytest.approx(wanted.log_ratio)
        assert one.standard_error == (
            None if wanted.standard_error is None else pytest.approx(wanted.standard_error)
        )


def test_tails_are_as_accurate_as_one_at_a_time():
    t = np.array([0.0, 0.5, 2.0, 5.0, 40.0, 300.0, math.inf])
    for degrees in (1.0, 2.5, 4.0, 17.0, 400.0):
        got = many_p(t, np.full(len(t), degrees))
        assert got == pytest.approx([t_two_sided_p(float(v), degrees) for v in t], rel=1e-9)


def test_critical_values_are_interpolated_closely():
    degrees = np.random.default_rng(3).uniform(2, 300, 3000)
    levels = np.full(3000, 1 - 0.05 / 3000)

    got = t_criticals(levels, degrees)

    assert got[::50] == pytest.approx(
        [t_critical(float(levels[0]), float(df)) for df in degrees[::50]], rel=1e-6
    )


def test_there_must_be_a_margin_and_a_level():
    one = Samples(np.array([5.0]), np.array([1.0]), np.array([0.1]))
    with pytest.raises(ValueError, match="between 0 and 1"):
        judge_many(one, one, ["lower"], 0.0)
