"""Comparison along any one factor: pairs of cases, judged together.

A question names a factor and its levels, two cases, or two runs; the store
finds the pairs, `stats` judges them, and this module says what to know before
believing it: what else differs, what has no partner, what the figures cannot
show.  Up to `EXACT_LIMIT` pairs use single values: block by block where one run
measured both, Welch's test otherwise; more pairs use the stored n, mean and sd.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import urlencode

import numpy as np

from zcdb import factors as registry
from zcdb.factors import FACTORS, FactorValue
from zcdb.lazy import Lazy
from zcdb.metrics import HEADLINE_CPU_METHOD, METRICS
from zcdb.report.facts import changed_facts
from zcdb.report.linter import AT_LINK_RATE, warnings_of
from zcdb.report.naming import distinguishing
from zcdb.stats.compare import Comparison, Sample, compare_paired, compare_welch
from zcdb.stats.many import Judged, Samples, judge_many
from zcdb.stats.verdict import Verdict, judge, repetitions_to_decide
from zcdb.store.queries import compare as queries
from zcdb.store.queries.compare import EXACT_LIMIT, Key, Pair, Pairs, Side
from zcdb.store.results import Statistic
from zcdb.store.session import Database

LEVEL = 0.95
DEFAULT_MATTERS = 0.02
DEFAULT_METRICS = ("service_demand_sender", "throughput")
SHOWN_LIMIT = 200
"""Pairs of which a page or text shows the details; a CSV has all."""

Kind = Literal["factor", "cases", "runs"]


@dataclass(frozen=True, slots=True)
class Question:
    """What is compared.

    Attributes:
        kind: levels of a factor, cases by id, or runs by id.
        factor: the factor along which cases are compared; "" for cases and runs.
        baseline, candidates: levels of the factor, or ids.
        where: factor -> values that both cases of a pair must have (one of).
        metrics: names; judged in this order.
        method: CPU method of metrics that have one.
        matters: ratio below which a difference is called equivalent.
    """

    kind: Kind
    factor: str
    baseline: FactorValue
    candidates: tuple[FactorValue, ...]
    where: Mapping[str, tuple[FactorValue, ...]] = field(default_factory=dict)
    metrics: tuple[str, ...] = DEFAULT_METRICS
    method: str = HEADLINE_CPU_METHOD
    matters: float = DEFAULT_MATTERS

    def measured(self) -> tuple[Key, ...]:
        """Return (metric, method) of each metric asked for, throughput always among them."""
        named = dict.fromkeys(self.metrics)
        named.setdefault("throughput")
        return tuple((name, self.method if METRICS[name].has_method else "") for name in named)

    def query(self) -> str:
        """Return the canonical query text: the same question has the same one."""
        parts: list[tuple[str, str]] = []
        if self.kind == "factor":
            parts.append(("axis", self.factor))
        else:
            parts.append(("of", self.kind))
        parts.append(("a", _text(self.baseline)))
        parts += [("b", _text(value)) for value in self.candidates]
        for name in sorted(self.where):
            parts += [(name, _text(value)) for value in self.where[name]]
        parts += [("m", name) for name in self.metrics]
        if self.method != HEADLINE_CPU_METHOD:
            parts.append(("method", self.method))
        if self.matters != DEFAULT_MATTERS:
            parts.append(("matters", f"{self.matters:g}"))
        return urlencode(parts)


@dataclass(frozen=True, slots=True)
class Row:
    """A pair by one metric.

    Attributes:
        kind: "paired" by block, or "welch" of two groups.
        verdict: None for a metric that is shown but not judged, and where a value is missing.
        missing: why there is no verdict; "" where there is one.
    """

    baseline: Side
    candidate: Side
    baseline_statistic: Statistic | None
    candidate_statistic: Statistic | None
    kind: str
    verdict: Verdict | None
    missing: str


@dataclass(frozen=True, slots=True)
class Tally:
    """All pairs by one metric, counted: nobody has to go through ten thousand rows for it.

    Attributes:
        words: verdict word -> pairs.
        mean_ratio: geometric mean of the pairs' ratios; None where no pair has one.
        kinds: how pairs were compared, "paired" or "welch".
        missing: pairs without a value on both sides.
        without_interval: pairs with a ratio alone.
        at_link_rate: pairs with a side whose mean is that of the link.
        tells_needed: whether some pair says how many repetitions would decide.
        family_size: comparisons that were tested together; 0 where none was.
    """

    words: Mapping[str, int]
    mean_ratio: float | None
    kinds: frozenset[str]
    missing: int
    without_interval: int
    at_link_rate: int
    tells_needed: bool
    family_size: int


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """All pairs by one metric.

    Attributes:
        tally: the same rows, counted.
    """

    metric: str
    method: str
    is_judged: bool
    rows: Sequence[Row]
    tally: Tally

    @property
    def words(self) -> Mapping[str, int]:
        """Verdict word -> pairs."""
        return self.tally.words

    @property
    def mean_ratio(self) -> float | None:
        """Geometric mean of the pairs' ratios; None where no pair has one."""
        return self.tally.mean_ratio


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """A comparison, answered.

    Attributes:
        level: confidence of the whole family of intervals.
        family_size: comparisons that were tested together.
        found: pairs there are; more than are in the rows only above the limit of a comparison.
        varying: factors in which the pairs differ.
        naming: few of them that still tell all pairs apart.
        constant: factors that all cases share, where they are not at their default.
        followers: factors that come along with the one compared, with the values of both sides.
        changed_facts: facts of the machines that differ between the two sides.
        unpaired: cases that have no partner, by level.
        failed: trials that failed in the cases compared.
        warnings: what to know before believing it, a sentence each.
    """

    question: Question
    level: float
    family_size: int
    found: int
    metrics: tuple[MetricComparison, ...]
    varying: tuple[str, ...]
    naming: tuple[str, ...]
    constant: Mapping[str, FactorValue]
    followers: Mapping[str, tuple[str, str]]
    changed_facts: tuple[tuple[str, str, str], ...]
    unpaired: tuple[tuple[str, int], ...]
    failed: int
    warnings: tuple[str, ...]

    @property
    def pair_count(self) -> int:
        """Pairs in the rows."""
        return len(self.metrics[0].rows) if self.metrics else 0


def _text(value: FactorValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def compare(db: Database, question: Question) -> ComparisonReport:
    """Answer a question from the database.

    Raises:
        zcdb.store.queries.NotFound: if a case or run is not there.
    """
    return make_report(question, find_pairs(db, question))


def find_pairs(db: Database, question: Question) -> Pairs:
    """Return the pairs that a question is about."""
    if question.kind == "cases":
        ids = [str(value) for value in question.candidates]
        return queries.pair_of_cases(db, str(question.baseline), ids, question.measured())
    if question.kind == "runs":
        return queries.pairs_of_runs(db, str(question.baseline), str(question.candidates[0]))
    return queries.pairs_along(
        db,
        question.factor,
        question.baseline,
        question.candidates,
        question.measured(),
        question.where,
    )


def make_report(question: Question, pairs: Pairs) -> ComparisonReport:
    """Return what the pairs say."""
    # Pairs that are made one by one stay where their figures are.
    if not pairs.figures:
        pairs = replace(pairs, pairs=_in_order(question, pairs.pairs))
    judged = [key for key in question.measured() if key[0] in question.metrics]
    if len(pairs.pairs) <= EXACT_LIMIT:
        metrics = _judged_exactly(question, pairs, judged)
    else:
        metrics = _judged_from_summaries(question, pairs, judged)
    metrics += [_beside(pairs, key) for key in question.measured() if key not in judged]
    shown = [side.factors for pair in pairs.pairs[:SHOWN_LIMIT] for side in _sides(pair)]
    own = _own_factors(question, pairs)
    varying = [name for name in registry.varying(shown) if name not in own]
    report = ComparisonReport(
        question=question,
        level=LEVEL,
        family_size=_family_size(metrics),
        found=pairs.found,
        metrics=tuple(metrics),
        varying=tuple(varying),
        naming=tuple(_naming(pairs.pairs[:SHOWN_LIMIT], varying)),
        constant=_constant(shown, {*varying, *own}),
        followers=_followers(pairs, own - {question.factor}),
        changed_facts=changed_facts(pairs.environments),
        unpaired=pairs.unpaired,
        failed=pairs.failed,
        warnings=(),
    )
    return _with_warnings(report)


def _in_order(question: Question, pairs: Sequence[Pair]) -> Sequence[Pair]:
    """Return the pairs by the values of their factors, sizes by size, candidates as asked."""
    if len(pairs) > SHOWN_LIMIT:
        return pairs
    own = {question.factor} if question.kind == "factor" else set()
    filled = [pair.baseline.factors for pair in pairs]
    names = [name for name in registry.varying(filled) if name not in own]
    asked = {_text(value): place for place, value in enumerate(question.candidates)}

    def place(pair: Pair) -> tuple[Any, ...]:
        values = [pair.baseline.factors.get(name, "") for name in names]
        candidate = (
            _text(pair.candidate.factors.get(question.factor, ""))
            if question.kind == "factor"
            else pair.candidate.case_id
        )
        numbers = [(0, v, "") if isinstance(v, int) else (1, 0, str(v)) for v in values]
        return (*numbers, asked.get(candidate, 0))

    return tuple(sorted(pairs, key=place))


def _with_warnings(report: ComparisonReport) -> ComparisonReport:
    return replace(report, warnings=warnings_of(report))


def _sides(pair: Pair) -> tuple[Side, Side]:
    return pair.baseline, pair.candidate


def _own_factors(question: Question, pairs: Pairs) -> set[str]:
    """Return the factors in which a candidate may differ from its baseline."""
    if question.kind == "factor":
        followers = {name for name, f in FACTORS.items() if f.follows == question.factor}
        return {question.factor, *followers}
    return {
        name
        for pair in pairs.pairs[:SHOWN_LIMIT]
        for name in queries.differing(pair.baseline.factors, pair.candidate.factors)
    }


def _naming(pairs: Sequence[Pair], varying: Sequence[str]) -> list[str]:
    """Return few factors that name the pairs: always the API and the size where they differ."""
    baselines = {pair.baseline.case_id: pair.baseline.factors for pair in pairs}
    usual = [name for name in ("api", "message_size") if name in varying]
    needed = distinguishing(list(baselines.values()), [*usual, *varying])
    return [name for name in varying if name in usual or name in needed]


def _constant(
    cases: Sequence[Mapping[str, FactorValue]], left_out: set[str]
) -> dict[str, FactorValue]:
    if not cases:
        return {}
    stated = registry.without_defaults(cases[0])
    return {name: value for name, value in stated.items() if name not in left_out}


def _followers(pairs: Pairs, names: set[str]) -> dict[str, tuple[str, str]]:
    """Return factor -> its values on both sides, for factors that differ somewhere."""
    found: dict[str, tuple[str, str]] = {}
    for name in [name for name in FACTORS if name in names]:
        values = [
            sorted(
                {
                    registry.display(name, side.factors[name])
                    for side in (_sides(pair)[place] for pair in pairs.pairs[:SHOWN_LIMIT])
                    if name in side.factors
                }
            )
            for place in (0, 1)
        ]
        if values[0] != values[1]:
            found[name] = (", ".join(values[0]) or "none", ", ".join(values[1]) or "none")
    return found


def _family_size(metrics: Sequence[MetricComparison]) -> int:
    return max((metric.tally.family_size for metric in metrics), default=0)


def _judged_exactly(
    question: Question, pairs: Pairs, keys: Sequence[Key]
) -> list[MetricComparison]:
    """Return every pair by every metric, all of them one family."""
    comparisons = {
        (key, index): _comparison(pair, key)
        for key in keys
        for index, pair in enumerate(pairs.pairs)
    }
    known = [(place, c) for place, c in comparisons.items() if isinstance(c, Comparison)]
    verdicts = judge(
        [comparison for _, comparison in known],
        [METRICS[place[0][0]].better for place, _ in known],
        question.matters,
        LEVEL,
    )
    by_place = {place: verdict for (place, _), verdict in zip(known, verdicts, strict=True)}
    return [
        _metric(
            pairs,
            key,
            [
                _row(pair, key, comparisons[key, index], by_place.get((key, index)))
                for index, pair in enumerate(pairs.pairs)
            ],
        )
        for key in keys
    ]


def _comparison(pair: Pair, key: Key) -> Comparison | str:
    """Return the comparison of a pair, or why there is none."""
    blocks = pair.blocks.get(key, ())
    if len(blocks) >= 2:
        return compare_paired([a for a, _ in blocks], [b for _, b in blocks])
    samples = []
    for name, side in (("baseline", pair.baseline), ("candidate", pair.candidate)):
        statistic = side.statistics.get(key)
        if statistic is None or statistic.mean is None:
            why = statistic.reason if statistic and statistic.reason else "not measured"
            return f"{name}: {why}"
        # A published figure without a spread is a single value: it has a ratio and no interval.
        n = statistic.n if statistic.sd is not None else 1
        samples.append(Sample(n, statistic.mean, statistic.sd or 0.0))
    return compare_welch(*samples)


def _row(pair: Pair, key: Key, compared: Comparison | str, verdict: Verdict | None) -> Row:
    is_compared = isinstance(compared, Comparison)
    return Row(
        pair.baseline,
        pair.candidate,
        pair.baseline.statistics.get(key),
        pair.candidate.statistics.get(key),
        compared.kind if isinstance(compared, Comparison) else "",
        verdict,
        "" if is_compared else str(compared),
    )


def _metric(
    pairs: Pairs, key: Key, rows: Sequence[Row], is_judged: bool = True
) -> MetricComparison:
    verdicts = [row.verdict for row in rows if row.verdict]
    tally = Tally(
        words=dict(Counter(verdict.word for verdict in verdicts)),
        mean_ratio=_mean_ratio([verdict.ratio for verdict in verdicts if verdict.ratio]),
        kinds=frozenset(row.kind for row in rows if row.verdict),
        missing=sum(bool(row.missing) for row in rows),
        without_interval=sum(one.low is None and one.ratio is not None for one in verdicts),
        at_link_rate=_at_link_rate(pairs, key),
        tells_needed=any(verdict.repetitions_needed for verdict in verdicts),
        family_size=max((verdict.family_size for verdict in verdicts), default=0),
    )
    return MetricComparison(key[0], key[1], is_judged, tuple(rows), tally)


def _mean_ratio(ratios: Sequence[float]) -> float | None:
    return math.exp(math.fsum(map(math.log, ratios)) / len(ratios)) if ratios else None


def _at_link_rate(pairs: Pairs, key: Key) -> int:
    """Return how many pairs have a side whose throughput is that of the link."""
    if key[0] != "throughput" or not pairs.pairs:
        return 0
    full = [
        (side.link_rate > 0) & (side.mean >= AT_LINK_RATE * side.link_rate)
        for side in pairs.figures_of(key)
    ]
    return int(np.count_nonzero(full[0] | full[1]))


def _beside(pairs: Pairs, key: Key) -> MetricComparison:
    """Return a metric that is shown beside the judged ones: a cost never stands alone."""
    rows = Lazy(len(pairs.pairs), lambda at: _row(pairs.pairs[at], key, "not judged", None))
    tally = Tally({}, None, frozenset(), len(rows), 0, 0, False, 0)
    return MetricComparison(key[0], key[1], False, rows, tally)


def _judged_from_summaries(
    question: Question, pairs: Pairs, keys: Sequence[Key]
) -> list[MetricComparison]:
    """Return many pairs by every metric from the stored n, mean and sd; one family."""
    figures = [pairs.figures_of(key) for key in keys]
    baseline, candidate = (
        Samples(
            np.concatenate([both[place].n for both in figures]),
            np.concatenate([both[place].mean for both in figures]),
            np.concatenate([both[place].sd for both in figures]),
        )
        for place in (0, 1)
    )
    count = len(pairs.pairs)
    better = [METRICS[name].better for name, _ in keys for _ in range(count)]
    judged = judge_many(baseline, candidate, better, question.matters, LEVEL)
    return [
        _judged_metric(question, pairs, key, judged, number * count)
        for number, key in enumerate(keys)
    ]


def _judged_metric(
    question: Question, pairs: Pairs, key: Key, judged: Judged, start: int
) -> MetricComparison:
    """Return the pairs by one metric; `start` is where they begin among all that was judged."""
    count = len(pairs.pairs)

    def row(at: int) -> Row:
        is_shown = at < SHOWN_LIMIT
        return _judged_row(question, pairs.pairs[at], key, judged, start + at, is_shown=is_shown)

    rows = Lazy(count, row)
    figures = pairs.figures_of(key)
    ratio = judged.ratio[start : start + count]
    has_ratio = ~np.isnan(ratio)
    words = judged.word[start : start + count][has_ratio]
    tally = Tally(
        words=dict(Counter(str(word) for word in words)),
        mean_ratio=_mean_ratio([float(one) for one in ratio[has_ratio]]),
        kinds=frozenset({"welch"} if has_ratio.any() else ()),
        missing=int(np.count_nonzero(np.isnan(figures[0].mean) | np.isnan(figures[1].mean))),
        without_interval=int(
            np.count_nonzero(has_ratio & np.isnan(judged.standard_error[start : start + count]))
        ),
        at_link_rate=_at_link_rate(pairs, key),
        tells_needed=any(
            one.verdict is not None and one.verdict.repetitions_needed is not None
            for one in rows[:SHOWN_LIMIT]
        ),
        family_size=judged.family_size if has_ratio.any() else 0,
    )
    return MetricComparison(key[0], key[1], True, rows, tally)


def _judged_row(
    question: Question, pair: Pair, key: Key, judged: Judged, index: int, *, is_shown: bool
) -> Row:
    if math.isnan(judged.ratio[index]):
        return _row(pair, key, _comparison(pair, key), None)
    verdict = judged.verdict(index)
    is_open = verdict.word == "undecided" and METRICS[key[0]].better != "neither"
    if is_shown and is_open and verdict.low is not None:
        comparison = judged.comparison(index)
        needed = repetitions_to_decide(comparison, question.matters, verdict.level)
        verdict = replace(verdict, repetitions_needed=needed)
    return Row(
        pair.baseline,
        pair.candidate,
        pair.baseline.statistics.get(key),
        pair.candidate.statistics.get(key),
        "welch",
        verdict,
        "",
    )
