"""Patterns in a series of values in their order: drift, two levels, a period.

An interval tells nothing about order: a series that alternates between two
speeds has a mean that never occurs.  The series of 2001, "two slow, one
fast", is such a one.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from zcdb.stats.distributions import f_upper_p, normal_two_sided_p
from zcdb.stats.summary import checked, standard_deviation

Word = Literal["steady", "drifting", "bimodal", "periodic", "too short"]

MINIMUM_LENGTH = 8
"""Below this no test here can tell a pattern from chance."""

ALARM = 0.01
"""A pattern is named where chance shows one in at most 1 of 100 steady series."""

SMALLEST_DRIFT = 0.01
"""Changes below 1 % from first to last are not called a drift, however sure they are."""

MINIMUM_CYCLES = 3

SAMPLES_PER_BURST = 20
"""Bursts that a sample has to average over before one more or less does not matter."""

SMALLEST_LEVEL_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Drift:
    """The trend of a series.

    Attributes:
        p_value: two-sided, Mann-Kendall: does the order tell anything?
        slope: change from one value to the next, Theil-Sen's median slope.
        change: slope over the whole series ÷ median; None where the median is 0.
        first_third, last_third: means.
    """

    p_value: float
    slope: float
    change: float | None
    first_third: float
    last_third: float


@dataclass(frozen=True, slots=True)
class Levels:
    """Two levels of a bimodal series: their means and how many values have them."""

    low: float
    high: float
    low_count: int
    high_count: int


@dataclass(frozen=True, slots=True)
class Period:
    """A period in the order of the values.

    Attributes:
        length: number of values in a period.
        means: mean of each place in it.
        p_value: of no period, adjusted for the lengths that were tried.
    """

    length: int
    means: tuple[float, ...]
    p_value: float


@dataclass(frozen=True, slots=True)
class Pattern:
    """What the order of a series shows.

    Attributes:
        word: the most telling of what was found: a period explains two levels, and two
            levels explain a scatter, not the other way round.
        text: the finding in a sentence.
        drift, levels, period: None where not found.
    """

    word: Word
    text: str
    n: int
    drift: Drift | None = None
    levels: Levels | None = None
    period: Period | None = None


def find_pattern(values: Sequence[float], alarm: float = ALARM) -> Pattern:
    """Return the pattern of a series of trials or samples in the order they were taken.

    Args:
        alarm: chance shows a drift or a period in at most so many steady series; divide it
            where many series are looked at together.

    Raises:
        ValueError: if there is no value, or one is not finite.
    """
    series = checked(values)
    n = len(series)
    if n < MINIMUM_LENGTH:
        return Pattern("too short", f"{n} values are too few to see a pattern in their order", n)
    if min(series) == max(series):
        return Pattern("steady", f"all {n} values are equal", n)
    drift = _significant_drift(series, alarm)
    levels = find_levels(series)
    period = find_period(series, alarm)
    word: Word = "steady"
    text = f"no pattern in the order of {n} values"
    if period is not None:
        word, text = "periodic", _period_text(period)
    elif drift is not None:
        word, text = "drifting", _drift_text(drift)
    elif levels is not None:
        word = "bimodal"
        text = (
            f"two levels: {levels.low_count} values around {levels.low:.4g}"
            f" and {levels.high_count} around {levels.high:.4g}"
        )
    return Pattern(word, text, n, drift, levels, period)


def mann_kendall_p(values: Sequence[float]) -> float:
    """Return the two-sided p of "the order tells nothing", against a monotonic trend.

    Kendall's S by its normal approximation, corrected for ties and continuity.

    Source: R. O. Gilbert, Statistical Methods for Environmental Pollution
    Monitoring (1987), section 16.4.
    """
    n = len(values)
    s = sum(
        (values[j] > values[i]) - (values[j] < values[i]) for i in range(n) for j in range(i + 1, n)
    )
    ties = sum(t * (t - 1) * (2 * t + 5) for t in Counter(values).values())
    variance = (n * (n - 1) * (2 * n + 5) - ties) / 18
    if variance == 0 or s == 0:
        return 1.0
    return normal_two_sided_p((abs(s) - 1) / math.sqrt(variance))


def theil_sen_slope(values: Sequence[float]) -> float:
    """Return the median of the slopes between all pairs of values, per step.

    Raises:
        ValueError: below two values.
    """
    n = len(checked(values, 2))
    return statistics.median(
        (values[j] - values[i]) / (j - i) for i in range(n) for j in range(i + 1, n)
    )


def measure_drift(values: Sequence[float]) -> Drift:
    """Return the trend of a series, whether or not it means anything.

    Raises:
        ValueError: below three values.
    """
    series = checked(values, 3)
    third = len(series) // 3
    slope = theil_sen_slope(series)
    median = statistics.median(series)
    return Drift(
        p_value=mann_kendall_p(series),
        slope=slope,
        change=slope * (len(series) - 1) / median if median else None,
        first_third=statistics.fmean(series[:third]),
        last_third=statistics.fmean(series[-third:]),
    )


def _significant_drift(series: list[float], alarm: float) -> Drift | None:
    drift = measure_drift(series)
    if drift.p_value > alarm:
        return None
    is_small = drift.change is not None and abs(drift.change) < SMALLEST_DRIFT
    return None if is_small else drift


def find_levels(values: Sequence[float]) -> Levels | None:
    """Return the two levels of a bimodal series, or None.

    Splits the sorted values where that explains most of their variance.  They
    have two levels if each has a fifth of them and the split explains more than
    0.76 + 0.6 ÷ √n: simulated, 99 of 100 evenly spread samples of n (8 to 200)
    stay below that, and more than 999 of 1000 normal ones.
    """
    ordered = sorted(checked(values))
    n = len(ordered)
    if n < MINIMUM_LENGTH or ordered[0] == ordered[-1]:
        return None
    total = standard_deviation(ordered) ** 2 * (n - 1)
    least = max(2, math.ceil(n * SMALLEST_LEVEL_SHARE))

    def between(k: int) -> float:
        shift = statistics.fmean(ordered[:k]) - statistics.fmean(ordered[k:])
        return k * (n - k) / n * shift**2

    split = max(range(least, n - least + 1), key=between)
    if between(split) / total < 0.76 + 0.6 / math.sqrt(n):
        return None
    low, high = ordered[:split], ordered[split:]
    return Levels(statistics.fmean(low), statistics.fmean(high), len(low), len(high))


def find_period(values: Sequence[float], alarm: float = ALARM) -> Period | None:
    """Return the period of a series, or None.

    For every length that fits three times the places of the period are
    compared by an analysis of variance; p is adjusted for the number of lengths.
    A multiple of a period is one too: of lengths that explain almost as much as
    the best, the shortest is taken.
    """
    series = checked(values)
    lengths = range(2, len(series) // MINIMUM_CYCLES + 1)
    found: list[tuple[float, Period]] = []
    for length in lengths:
        places = [series[start::length] for start in range(length)]
        share, p = _analysis_of_variance(places)
        adjusted = min(1.0, p * len(lengths))
        if adjusted <= alarm:
            means = tuple(statistics.fmean(place) for place in places)
            found.append((share, Period(length, means, adjusted)))
    best = max((share for share, _ in found), default=0.0)
    return next((period for share, period in found if share >= 0.9 * best), None)


def alias_risk(sample_ns: int, burst_ns: int) -> str | None:
    """Return why samples may show a rhythm that is not there, None if they cannot.

    Bursts that come almost as often as samples are taken beat against them: 2001's "two slow,
    one fast" were samples of 1 s of bursts of 0.95 s.

    Args:
        sample_ns: distance of the samples.
        burst_ns: how often the application bursts.
    """
    if sample_ns >= SAMPLES_PER_BURST * burst_ns:
        return None
    ratio = sample_ns / burst_ns
    return (
        f"a sample spans {ratio:.3g} bursts and should span {SAMPLES_PER_BURST} or more: a rhythm"
        " of the samples may be that of the sampling; take the window as a whole"
    )


def _analysis_of_variance(groups: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the share of the variance between groups, and the p of no difference."""
    everything = [value for group in groups for value in group]
    grand = statistics.fmean(everything)
    means = [statistics.fmean(group) for group in groups]
    between = sum(len(g) * (m - grand) ** 2 for g, m in zip(groups, means, strict=True))
    within = sum((v - m) ** 2 for g, m in zip(groups, means, strict=True) for v in g)
    if between + within == 0:
        return 0.0, 1.0
    numerator, denominator = len(groups) - 1, len(everything) - len(groups)
    f = (between / numerator) / (within / denominator) if within else math.inf
    return between / (between + within), f_upper_p(f, numerator, denominator)


def _period_text(period: Period) -> str:
    """Return for example "repeats every 3 values: 2 around 25.8, 1 around 15.9"."""
    middle = (min(period.means) + max(period.means)) / 2
    high = sum(mean > middle for mean in period.means)
    return (
        f"repeats every {period.length} values:"
        f" {high} around {_mean_where(period.means, middle, above=True):.4g},"
        f" {period.length - high} around {_mean_where(period.means, middle, above=False):.4g}"
    )


def _mean_where(means: Sequence[float], middle: float, *, above: bool) -> float:
    return statistics.fmean(mean for mean in means if (mean > middle) == above)


def _drift_text(drift: Drift) -> str:
    direction = "rises" if drift.slope > 0 else "falls"
    size = "" if drift.change is None else f" by {abs(drift.change):.2%}".replace("%", " %")
    return (
        f"{direction}{size} from first to last: {drift.first_third:.4g} in the first third,"
        f" {drift.last_third:.4g} in the last"
    )
