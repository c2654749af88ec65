"""The verdict on each comparison of a table: better, worse, equivalent or undecided.

The rule: an adjusted interval inside ± `matters` is *equivalent* (and
*detectable* if it excludes no difference); else, if it excludes no
difference, *better* or *worse*; else *undecided*, with the repetitions that
would probably decide.

The adjustment.  p values are adjusted by Holm over all comparisons that are
judged together, so that a table of identical cases shows any difference in 5
of 100 tables.  Intervals are Bonferroni's: with a family of m each has the
level 1 - 0.05/m, so that all of them hold at once, and with them every
*equivalent*.  Holm detects a little more than these intervals show.  Where it
does, the interval is the one of the step at which Holm tested it, level
1 - 0.05/k with k = p_adjusted ÷ p.  So word, interval and p_adjusted never
contradict each other: the interval excludes no difference exactly where
p_adjusted is at most 0.05.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from zcdb.metrics import Direction
from zcdb.stats.adjust import holm
from zcdb.stats.compare import Comparison
from zcdb.stats.distributions import normal_cdf, normal_quantile, t_critical

Word = Literal["better", "worse", "equivalent", "undecided"]

DECIDING_POWER = 0.8
"""`repetitions_needed` decide with this probability, if the estimates hold."""

REPETITIONS_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a comparison says.

    Attributes:
        word: the verdict, for the candidate.
        is_detectable: True if the interval excludes no difference.
        ratio: candidate ÷ baseline; None where there is no ratio.
        low, high: interval of `ratio` at `level`; None below three repetitions.
        level: confidence of this very interval, after the adjustment.
        p_value, p_adjusted: of "no difference", alone and within the family.
        family_size: number of comparisons that were tested together.
        repetitions_needed: for undecided: repetitions of each case, those done included,
            that decide in 8 of 10 runs if spread and effect are as estimated.
        reason: for undecided: why, in words.
    """

    word: Word
    is_detectable: bool
    ratio: float | None
    low: float | None
    high: float | None
    level: float
    p_value: float | None
    p_adjusted: float | None
    n_baseline: int
    n_candidate: int
    family_size: int
    repetitions_needed: int | None = None
    reason: str | None = None


def judge(
    comparisons: Sequence[Comparison],
    better: Sequence[Direction],
    matters: float,
    level: float = 0.95,
) -> list[Verdict]:
    """Return one verdict a comparison; they are one family.

    Args:
        comparisons: everything that is shown and judged together.
        better: for each comparison, which direction of its metric is better.
        matters: ratio below which a difference is called equivalent, 0.02 for 2 %.
        level: confidence that the whole family is to have.

    Raises:
        ValueError: if the lengths differ, or matters or level is not between 0 and 1.
    """
    if len(comparisons) != len(better):
        raise ValueError(f"{len(comparisons)} comparisons, but {len(better)} directions")
    if not (0 < matters < 1 and 0 < level < 1):
        raise ValueError(f"matters {matters} and level {level} must be between 0 and 1")
    p_values = [c.p_value for c in comparisons if c.p_value is not None]
    adjusted = iter(holm(p_values))
    return [
        _judge_one(
            comparison,
            direction,
            matters,
            level,
            None if comparison.p_value is None else next(adjusted),
            len(p_values),
        )
        for comparison, direction in zip(comparisons, better, strict=True)
    ]


def _judge_one(
    comparison: Comparison,
    better: Direction,
    matters: float,
    level: float,
    p_adjusted: float | None,
    family_size: int,
) -> Verdict:
    steps = _steps(comparison.p_value, p_adjusted, level, family_size)
    interval_level = 1 - (1 - level) / steps
    log_ratio = comparison.log_ratio
    interval = _log_interval(comparison, interval_level)
    is_detectable = p_adjusted is not None and p_adjusted <= 1 - level
    word, reason = _word(comparison, better, interval, matters, is_detectable)
    needed = None
    if word == "undecided" and interval is not None and better != "neither":
        needed = repetitions_to_decide(comparison, matters, interval_level)
    return Verdict(
        word=word,
        is_detectable=is_detectable,
        ratio=None if log_ratio is None else math.exp(log_ratio),
        low=math.exp(interval[0]) if interval else None,
        high=math.exp(interval[1]) if interval else None,
        level=interval_level,
        p_value=comparison.p_value,
        p_adjusted=p_adjusted,
        n_baseline=comparison.n_baseline,
        n_candidate=comparison.n_candidate,
        family_size=family_size,
        repetitions_needed=needed,
        reason=reason,
    )


def _steps(p: float | None, p_adjusted: float | None, level: float, family_size: int) -> float:
    """Return by how much the family divides what this interval may miss."""
    bonferroni = max(1, family_size)
    if p is None or p_adjusted is None:
        return bonferroni
    is_detected_by_holm_alone = p_adjusted <= 1 - level < p * bonferroni
    return p_adjusted / p if is_detected_by_holm_alone else bonferroni


def _log_interval(comparison: Comparison, level: float) -> tuple[float, float] | None:
    if (
        comparison.log_ratio is None
        or comparison.standard_error is None
        or comparison.degrees_of_freedom is None
    ):
        return None
    half_width = t_critical(level, comparison.degrees_of_freedom) * comparison.standard_error
    return comparison.log_ratio - half_width, comparison.log_ratio + half_width


def _word(
    comparison: Comparison,
    better: Direction,
    interval: tuple[float, float] | None,
    matters: float,
    is_detectable: bool,
) -> tuple[Word, str | None]:
    if interval is None:
        return "undecided", comparison.reason
    if math.log(1 - matters) <= interval[0] and interval[1] <= math.log(1 + matters):
        return "equivalent", None
    if better == "neither":
        return "undecided", "neither more nor less of this metric is better"
    if is_detectable:
        is_higher = (comparison.log_ratio or 0) > 0
        return ("better" if is_higher == (better == "higher") else "worse"), None
    return "undecided", "the interval includes both no difference and one that matters"


def repetitions_to_decide(comparison: Comparison, matters: float, level: float) -> int | None:
    """Return how many repetitions of each case would probably decide, those done included.

    Takes the estimated effect and spread for true and looks for the smallest
    number that shows a difference or equivalence with probability 0.8.

    Args:
        level: of the adjusted interval.

    Returns:
        The larger of the two cases' numbers; None above 10,000 or without an interval.
    """
    log_ratio, error = comparison.log_ratio, comparison.standard_error
    degrees = comparison.degrees_of_freedom
    if log_ratio is None or error is None or degrees is None:
        return None
    now = max(comparison.n_baseline, comparison.n_candidate)
    normal = normal_quantile((1 + level) / 2)

    def share(n: int, critical: float) -> float:
        shrunk = error * math.sqrt(now / n)
        return _decided_share(abs(log_ratio), shrunk, critical, matters)

    def decides(n: int) -> bool:
        # Both cases grow in proportion, and the degrees of freedom with them.
        critical = t_critical(level, degrees * (n - 1) / (now - 1))
        return share(n, critical) >= DECIDING_POWER

    # A normal deviate costs nothing and is below every t: where it does not decide, no t does.
    at_least = _smallest(lambda n: share(n, normal) >= DECIDING_POWER, now + 1, REPETITIONS_LIMIT)
    return None if at_least is None else _smallest_near(decides, at_least, REPETITIONS_LIMIT)


def _decided_share(effect: float, error: float, critical: float, matters: float) -> float:
    """Return how often estimates around a true effect are decided one way or the other.

    In units of the error an estimate z shows a difference above `critical` and
    equivalence below room - `critical`; undecided is what lies between.
    """
    if error == 0:
        return 1.0
    shift, room = effect / error, math.log(1 + matters) / error
    inner = max(0.0, min(room - critical, critical))
    undecided = (
        normal_cdf(critical - shift)
        - normal_cdf(inner - shift)
        + normal_cdf(-inner - shift)
        - normal_cdf(-critical - shift)
    )
    return 1 - undecided


def _smallest(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return the smallest number from low to high for which `holds`, which stays true above."""
    if low > high or not holds(high):
        return None
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _smallest_near(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return what `_smallest` does, in few steps where the number is near `low`."""
    step = 1
    while low + step <= high and not holds(low + step - 1):
        low, step = low + step, step * 2
    return _smallest(holds, low, min(low + step - 1, high))
