"""Effects of on/off factors, alone and together."""

from __future__ import annotations

import math
import random

import pytest

from zcdb.stats.factorial import factorial_effects


def on(*names: str) -> frozenset[str]:
    return frozenset(names)


def jones(noise: float, n: int = 6) -> dict[frozenset[str], list[float]]:
    """Rick Jones, 2001: checksum offload saves 10 %, copy avoidance 10 %, both 30 %."""
    generator = random.Random(31)
    saved = {on(): 0, on("checksum"): 10, on("copy"): 10, on("checksum", "copy"): 30}
    return {
        cell: [value + generator.gauss(0, noise) for _ in range(n)] for cell, value in saved.items()
    }


@pytest.mark.parametrize("by_block", [True, False])
def test_ten_and_ten_that_give_thirty_interact(by_block):
    effects = factorial_effects(jones(noise=0.5), by_block=by_block)

    assert [effect.factors for effect in effects.alone] == [("checksum",), ("copy",)]
    assert [effect.estimate for effect in effects.alone] == pytest.approx([10, 10], abs=1)
    assert [effect.estimate for effect in effects.main] == pytest.approx([15, 15], abs=1)
    (together,) = effects.interactions
    assert together.factors == ("checksum", "copy")
    assert together.estimate == pytest.approx(10, abs=1)
    assert 0 < together.low < 10 < together.high
    assert together.p_value < 0.001


def test_effects_without_interaction_add_up():
    cells = {
        on(): [1.0, 2, 3],
        on("a"): [6.0, 7, 8],
        on("b"): [3.0, 4, 5],
        on("a", "b"): [8.0, 9, 10],
    }

    effects = factorial_effects(cells)

    assert effects.base == 2
    assert [effect.estimate for effect in effects.main] == [5, 2]
    assert effects.interactions[0].estimate == 0
    assert effects.interactions[0].p_value == 1


def test_what_a_block_shares_drops_out():
    drift = [0.0, 100, 200, 300]
    cells = {on(): drift, on("a"): [value + 5 for value in drift]}

    blocked = factorial_effects(cells).main[0]
    pooled = factorial_effects(cells, by_block=False).main[0]

    assert (blocked.estimate, blocked.low, blocked.high, blocked.p_value) == (5, 5, 5, 0)
    assert pooled.estimate == 5
    assert pooled.low < -100


def test_three_factors_have_all_their_interactions():
    """y = 1 + a + 2b + 4c + 8ab + 16abc."""
    cells = {
        on(*(name for name, is_on in zip("abc", (a, b, c), strict=True) if is_on)): [
            1 + a + 2 * b + 4 * c + 8 * a * b + 16 * a * b * c
        ]
        * 3
        for a in (0, 1)
        for b in (0, 1)
        for c in (0, 1)
    }

    effects = factorial_effects(cells)

    assert [effect.estimate for effect in effects.alone] == [1, 2, 4]
    assert {effect.factors: effect.estimate for effect in effects.interactions} == {
        ("a", "b"): 8,
        ("a", "c"): 0,
        ("b", "c"): 0,
        ("a", "b", "c"): 16,
    }
    assert [effect.estimate for effect in effects.main] == [1 + 4 + 4, 2 + 4 + 4, 4 + 4]


def test_the_interval_holds_in_about_95_of_100_experiments():
    generator = random.Random(32)

    holds = 0
    for _ in range(1000):
        cells = {
            cell: [mean + generator.gauss(0, 2) for _ in range(4)]
            for cell, mean in {on(): 0, on("a"): 10, on("b"): 10, on("a", "b"): 30}.items()
        }
        together = factorial_effects(cells, by_block=False).interactions[0]
        holds += together.low <= 10 <= together.high

    assert 930 <= holds <= 970


def test_two_repetitions_give_no_interval():
    effect = factorial_effects({on(): [1.0, 2], on("a"): [3.0, 4]}).main[0]

    assert (effect.estimate, effect.low, effect.high, effect.p_value) == (2, None, None, None)


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        ({on(): [1.0]}, "needs 1 to 6 factors, got 0"),
        ({on(): [1.0], on("a", "b"): [2.0]}, "no values with a on"),
        ({on("a"): [1.0]}, "no values with nothing on"),
        ({on(): [1.0, 2], on("a"): [1.0]}, "same number of values"),
        ({on(): [1.0], on("a"): [math.nan]}, "not a measured value"),
    ],
)
def test_incomplete_factorials_are_refused(cells, sentence):
    with pytest.raises(ValueError, match=sentence):
        factorial_effects(cells)
