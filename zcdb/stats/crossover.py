"""Where one of two things begins to be better than the other, along a number such as a size.

A search by bisection, in which every level is decided by a paired interval
before it may close in the crossover.  All levels that may be measured share
one error: each interval misses with 0.05 ÷ their greatest number, so that with
95 % every decided level is decided rightly and, if there is one crossover, it
lies between the two that enclose it.  Nothing is assumed about how the
difference grows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from zcdb.stats.compare import Comparison
from zcdb.stats.distributions import t_critical

LEVEL = 0.95
STEPS_PER_OCTAVE = 16
"""Levels are rounded to this many between a power of two and the next."""

Winner = Literal["first", "second"]


@dataclass(frozen=True, slots=True)
class LevelPoint:
    """The two compared at one level; the comparison's baseline is the first."""

    level: int
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class Crossover:
    """What the levels measured so far say.

    Attributes:
        word: "search": `next_level` tells most; "found": as narrow as wanted or as the
            repetitions allow; "limit": no more levels allowed; "none": there is none, or
            more than one, between the ends.
        before: the one that is better below the crossover; None without one.
        low, high: levels that enclose the crossover with 95 %: at `low` the one is better, at
            `high` the other; None without one.
        estimate: level at which the mean ratio passes 1, between the two; None without one.
        reason: why there is none.
    """

    word: Literal["search", "found", "limit", "none"]
    levels: int
    before: Winner | None = None
    low: int | None = None
    high: int | None = None
    estimate: float | None = None
    next_level: int | None = None
    reason: str | None = None


def search(
    points: Sequence[LevelPoint], *, is_lower_better: bool, within: float, at_most: int
) -> Crossover:
    """Return where the crossover is, or where to look next.

    Args:
        points: one a level, in any order; two levels or more.
        is_lower_better: True for costs.
        within: as narrow as wanted: high ÷ low - 1.
        at_most: levels that may be measured in all, fixed before the first.

    Raises:
        ValueError: if there are fewer than two levels, or more than allowed.
    """
    if not 2 <= len(points) <= at_most:
        raise ValueError(f"{len(points)} levels, with 2 to {at_most} allowed")
    ordered = sorted(points, key=lambda point: point.level)
    winners = [winner(point.comparison, is_lower_better, at_most) for point in ordered]
    decided = [(point.level, who) for point, who in zip(ordered, winners, strict=True) if who]
    changes = [(a, b) for a, b in pairwise(decided) if a[1] != b[1]]
    if len(changes) != 1:
        return Crossover("none", len(points), reason=_why_none(decided, len(changes)))
    (low, before), (high, _) = changes[0]
    inside = [point for point in ordered if low <= point.level <= high]
    next_level = _next_level([point.level for point in inside], within)
    word: Literal["search", "found", "limit"] = "search"
    if next_level is None:
        word = "found"
    elif len(points) >= at_most:
        word, next_level = "limit", None
    return Crossover(word, len(points), before, low, high, _estimate(inside), next_level)


def winner(comparison: Comparison, is_lower_better: bool, family_size: int) -> Winner | None:
    """Return which of the two is better beyond doubt, None if neither is."""
    log_ratio, error = comparison.log_ratio, comparison.standard_error
    degrees = comparison.degrees_of_freedom
    if log_ratio is None or error is None or degrees is None:
        return None
    if abs(log_ratio) <= t_critical(1 - (1 - LEVEL) / family_size, degrees) * error:
        return None
    return "second" if (log_ratio < 0) == is_lower_better else "first"


def _why_none(decided: Sequence[tuple[int, Winner]], changes: int) -> str:
    if changes > 1:
        return "the two change places more than once"
    if not decided:
        return "no level shows a difference"
    return f"the {decided[0][1]} is better wherever a difference shows"


def _next_level(levels: Sequence[int], within: float) -> int | None:
    """Return the level that splits the wider of the two outer gaps, None if both are narrow.

    What is between the outermost undecided levels stays undecided: more levels there tell
    nothing.
    """
    gaps = [(levels[0], levels[1])]
    if len(levels) > 2:
        gaps.append((levels[-2], levels[-1]))
    for low, high in sorted(gaps, key=lambda gap: gap[1] / gap[0], reverse=True):
        middle = rounded(math.sqrt(low * high))
        if high / low > 1 + within and low < middle < high:
            return middle
    return None


def rounded(level: float) -> int:
    """Return a level that is easy to say: `STEPS_PER_OCTAVE` of them in each octave."""
    step = 1 << max(0, math.floor(math.log2(level)) - STEPS_PER_OCTAVE.bit_length() + 1)
    return round(level / step) * step


def _estimate(inside: Sequence[LevelPoint]) -> float | None:
    """Return where the mean log ratio passes 0, straight on log scales between two levels."""
    for a, b in pairwise(inside):
        first, second = a.comparison.log_ratio, b.comparison.log_ratio
        if first is None or second is None or (first > 0) == (second > 0):
            continue
        share = first / (first - second)
        return math.exp(math.log(a.level) + share * math.log(b.level / a.level))
    return None
