"""Many comparisons at once: adjusted p values."""

from __future__ import annotations

from collections.abc import Sequence


def _checked(p_values: Sequence[float]) -> None:
    for p in p_values:
        if not 0 <= p <= 1:
            raise ValueError(f"{p} is not a p value")


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values adjusted so that *any* false alarm in the family is as rare as the level.

    Step down: the smallest is multiplied by the size of the family, the next
    by one less, and so on.  Holds however the comparisons depend on each other.

    Raises:
        ValueError: for a number that is not between 0 and 1.

    Source: S. Holm, A simple sequentially rejective multiple test procedure,
    Scandinavian Journal of Statistics 6 (1979).
    """
    _checked(p_values)
    m = len(p_values)
    adjusted = [0.0] * m
    largest = 0.0
    for rank, index in enumerate(sorted(range(m), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (m - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return p values adjusted so that the *share* of false ones among the alarms is the level.

    Weaker than Holm: for screening many cases, not for a verdict.  Holds for
    independent and positively dependent comparisons.

    Raises:
        ValueError: for a number that is not between 0 and 1.

    Source: Y. Benjamini and Y. Hochberg, Controlling the false discovery rate,
    Journal of the Royal Statistical Society B 57 (1995).
    """
    _checked(p_values)
    m = len(p_values)
    adjusted = [0.0] * m
    smallest = 1.0
    for rank, index in enumerate(sorted(range(m), key=p_values.__getitem__, reverse=True)):
        smallest = min(smallest, p_values[index] * m / (m - rank))
        adjusted[index] = smallest
    return adjusted
