"""What pairs of cases say to a question: sentences, and each pair with its verdict.

What zcdb measured and what others published are judged apart: a published
figure mostly has no spread, and so no interval.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from zcdb import factors
from zcdb.metrics import CPU_METHODS, METRICS
from zcdb.report.compare import ComparisonReport, MetricComparison, Question, Row, make_report
from zcdb.report.compare_render import words_text
from zcdb.report.naming import distinguishing, told_text
from zcdb.store.queries.compare import Key, Pair, Pairs, Side
from zcdb.store.results import CaseFactors
from zcdb.webapp.charts.comparison import RatioRow, ratios
from zcdb.webapp.charts.figure import Figure
from zcdb.webapp.labels import metric_label, metric_phrase
from zcdb.webapp.present.measured import Estimate, estimate, missing
from zcdb.webapp.present.question_list import Part
from zcdb.webapp.quantities import percent_change, with_minus

Origin = Literal["measured", "published"]

COSTS = (
    *("service_demand_sender", "service_demand_receiver"),
    *("utilisation_sender", "machine_utilisation_sender"),
)
"""Costs that a question asks for, the most telling first."""

ALWAYS_MEASURED = ("service_demand_sender", "service_demand_receiver")
PROOF: Key = ("proven_zero_copy_share", "")
COPIED: Key = ("copied_share", "")
PROVEN_FROM = 0.9995
ROWS_SHOWN = 30
FOREST_ROWS = 24
SENTENCES = 3
NAMED_ALWAYS = ("api", "message_size", "link")
ARROWS = {"equivalent": "=", "undecided": "?"}


def wanted_keys() -> tuple[Key, ...]:
    """Return (metric, method) of everything that an answer may use."""
    costs = [(name, method) for name in COSTS for method in CPU_METHODS]
    return (*costs, ("throughput", ""), PROOF, COPIED)


@dataclass(frozen=True, slots=True)
class PairRow:
    """A pair by one metric.

    Attributes:
        name: what tells this pair from the others; "" where only its sides do.
        sides: the two levels: "write → sendfile".
        proof: what is known about zero copy of the candidate; "" where nothing is asked.
    """

    name: str
    sides: str
    baseline_case: str
    candidate_case: str
    baseline: Estimate
    candidate: Estimate
    word: str
    arrow: str
    change: str
    interval: str
    ratio: float | None
    low: float | None
    high: float | None
    n: int
    note: str
    proof: str


@dataclass(frozen=True, slots=True)
class MetricRows:
    """All pairs by one metric."""

    metric: str
    method: str
    label: str
    unit: str
    better: str
    words: str
    rows: tuple[PairRow, ...]
    hidden: int


@dataclass(frozen=True, slots=True)
class Finding:
    """The most telling pair of a metric, or what all pairs say together."""

    text: str
    word: str
    arrow: str
    case_id: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What one group of pairs says.

    Attributes:
        origin: measured with zcdb, or published by others.
        pairs, hidden: pairs judged, and pairs beyond the limit.
        pooled: a sentence on all pairs of the first metric together.
        compare_query: of the comparison along one factor that has these pairs; "" where several
            factors move together.
    """

    title: str
    origin: Origin
    pairs: int
    hidden: int
    pooled: str
    compare_query: str
    findings: tuple[Finding, ...]
    metrics: tuple[MetricRows, ...]
    remarks: tuple[str, ...]
    figures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """Pairs of one part of a question, as they were found."""

    part: Part
    pairs: Pairs
    hidden: int


def origin_of(pair: Pair) -> Origin:
    """Return where a pair comes from: measured only if both sides were."""
    sides = (pair.baseline, pair.candidate)
    return "measured" if all(_is_measured(side) for side in sides) else "published"


def _is_measured(side: Side) -> bool:
    return any(one.runs for one in side.statistics.values())


def _has_figures(pair: Pair) -> bool:
    """Return whether both sides have a figure of the same metric."""
    return any(
        one.mean is not None
        and (other := pair.candidate.statistics.get(key)) is not None
        and other.mean is not None
        for key, one in pair.baseline.statistics.items()
    )


def answers_of(found: Found) -> Iterator[tuple[Answer, tuple[Figure, ...]]]:
    """Yield what each origin's pairs say, with the charts of it."""
    for title, origin, pairs in _told_apart(found.part, found.pairs.pairs):
        is_measured = origin == "measured"
        some = replace(
            found.pairs,
            pairs=pairs,
            found=len(pairs),
            failed=found.pairs.failed if is_measured else 0,
            environments=found.pairs.environments if is_measured else {},
        )
        yield _answer(found.part, title, origin, some, found.hidden)


def judged_keys(part: Part, pairs: Sequence[Pair]) -> set[Key]:
    """Return (metric, method) of all that the answers of a part judge."""
    return {
        key
        for _, origin, some in _told_apart(part, pairs)
        for key in _question(part, origin, some).measured()
    }


def _told_apart(
    part: Part, pairs: Sequence[Pair]
) -> Iterator[tuple[str, Origin, tuple[Pair, ...]]]:
    """Yield the pairs that are answered together: title, origin and pairs.

    What zcdb measured on both sides stands apart from what others published, and what is proven
    from what is not.
    """
    known = [pair for pair in pairs if _has_figures(pair)]
    measured = tuple(pair for pair in known if origin_of(pair) == "measured")
    published = tuple(pair for pair in known if origin_of(pair) == "published")
    if measured and part.needs_proof:
        proven = tuple(pair for pair in measured if is_proven(pair.candidate))
        others = tuple(pair for pair in measured if not is_proven(pair.candidate))
        if proven:
            yield f"{part.title}, proven", "measured", proven
        if others:
            yield "Asked for zero copy, but copied or not proven", "measured", others
    elif measured:
        yield f"{part.title}: measured here", "measured", measured
    if published:
        yield f"{part.title}: published", "published", published


def is_proven(side: Side) -> bool:
    """Return whether a case's bytes are proven not to have been copied by the sender."""
    share = side.statistics.get(PROOF)
    return share is not None and share.mean is not None and share.mean >= PROVEN_FROM


def _answer(
    part: Part, title: str, origin: Origin, pairs: Pairs, hidden: int
) -> tuple[Answer, tuple[Figure, ...]]:
    report = make_report(_question(part, origin, pairs.pairs), pairs)
    names = _names(part, report)
    rows = [_metric_rows(part, report, metric, names) for metric in report.metrics]
    shown = tuple(one for one in rows if one.rows)
    key = _key(title)
    figures = tuple(_forest(f"{key}-{one.metric.replace('_', '-')}", one) for one in shown)
    drawn = tuple(figure for figure in figures if figure is not None)
    answer = Answer(
        title=title,
        origin=origin,
        pairs=len(pairs.pairs),
        hidden=hidden,
        pooled=_pooled(report),
        compare_query=_compare_query(part, pairs.pairs),
        findings=tuple(_findings(shown)),
        metrics=shown,
        remarks=tuple(_remarks(part, report)),
        figures=tuple(figure.key for figure in drawn),
    )
    return answer, drawn


def _question(part: Part, origin: Origin, pairs: Sequence[Pair]) -> Question:
    metrics, method = _asked_metrics(origin, pairs)
    return Question("factor", part.factor, "", (), metrics=metrics, method=method)


def _compare_query(part: Part, pairs: Sequence[Pair]) -> str:
    """Return the query of the comparison with the most frequent baseline of the pairs."""
    if len(part.moving) > 1:
        return ""
    bases = Counter(pair.baseline.factors.get(part.factor) for pair in pairs)
    base = bases.most_common(1)[0][0]
    candidates = dict.fromkeys(
        value
        for pair in pairs
        if pair.baseline.factors.get(part.factor) == base
        and (value := pair.candidate.factors.get(part.factor)) is not None
    )
    return "" if base is None else Question("factor", part.factor, base, tuple(candidates)).query()


def _key(title: str) -> str:
    words = "".join(letter if letter.isalnum() else " " for letter in title.lower()).split()
    return "-".join(words[:6])


def _asked_metrics(origin: Origin, pairs: Sequence[Pair]) -> tuple[tuple[str, ...], str]:
    """Return the metrics to judge, and the CPU method that most pairs have."""

    def both(name: str, method: str) -> int:
        return sum(
            all(
                (one := side.statistics.get((name, method))) is not None and one.mean is not None
                for side in (pair.baseline, pair.candidate)
            )
            for pair in pairs
        )

    counts = {method: sum(both(name, method) for name in COSTS) for method in CPU_METHODS}
    # Of equal counts the headline method is the first.
    method = max(counts, key=lambda name: counts[name])
    found = [name for name in COSTS if both(name, method)]
    if origin == "measured":
        found = [name for name in found if name in ALWAYS_MEASURED] or list(ALWAYS_MEASURED[:1])
    return (*found, "throughput"), method


def _names(part: Part, report: ComparisonReport) -> list[str]:
    """Return few factors that tell the pairs apart, those that move left out."""
    rows = report.metrics[0].rows if report.metrics else ()
    cases = [row.baseline.factors for row in rows]
    left_out = {*part.moving, *(n for n, f in factors.FACTORS.items() if f.follows in part.moving)}
    varying = [name for name in factors.varying(cases) if name not in left_out]
    usual = [name for name in NAMED_ALWAYS if name in varying]
    needed = distinguishing(cases, [*usual, *varying])
    return [name for name in varying if name in usual or name in needed]


def _metric_rows(
    part: Part, report: ComparisonReport, metric: MetricComparison, names: Sequence[str]
) -> MetricRows:
    known = METRICS[metric.metric]
    # Pairs without a value on both sides are counted among the remarks.
    rows = [_row(part, metric, row, names) for row in metric.rows]
    rows = [row for row in rows if row.ratio is not None]
    return MetricRows(
        metric=metric.metric,
        method=metric.method,
        label=metric_label(metric.metric),
        unit=known.unit,
        better=known.better,
        words=with_minus(words_text(metric)),
        rows=tuple(rows[:ROWS_SHOWN]),
        hidden=max(0, len(rows) - ROWS_SHOWN),
    )


def _row(part: Part, metric: MetricComparison, row: Row, names: Sequence[str]) -> PairRow:
    verdict = row.verdict
    ratio = verdict.ratio if verdict else None
    word = verdict.word if verdict and ratio is not None else ""
    note = row.missing
    if verdict and verdict.word == "undecided":
        note = verdict.reason or ""
        if verdict.repetitions_needed:
            note = f"{verdict.repetitions_needed} repetitions would probably decide"
    sides = [
        estimate(one) if one else missing(metric.metric, metric.method)
        for one in (row.baseline_statistic, row.candidate_statistic)
    ]
    return PairRow(
        name=told_text(row.baseline.factors, _telling(row.baseline.factors, names)),
        sides=" → ".join(_level(part, side) for side in (row.baseline, row.candidate)),
        baseline_case=row.baseline.case_id,
        candidate_case=row.candidate.case_id,
        baseline=sides[0],
        candidate=sides[1],
        word=word,
        arrow=_arrow(word, ratio),
        change="" if ratio is None else percent_change(ratio, 1),
        interval=interval_text(verdict.low, verdict.high) if verdict else "",
        ratio=ratio,
        low=verdict.low if verdict else None,
        high=verdict.high if verdict else None,
        n=min(verdict.n_baseline, verdict.n_candidate) if verdict else 0,
        note=note,
        proof=proof_words(row.candidate) if part.needs_proof else "",
    )


def _telling(values: CaseFactors, names: Sequence[str]) -> list[str]:
    """Return the names without the factors that this case leaves at their default."""
    known = factors.FACTORS
    return [
        name
        for name in names
        if name in NAMED_ALWAYS or name not in known or values.get(name) != known[name].default
    ]


def interval_text(low: float | None, high: float | None) -> str:
    """Return an interval of ratios as changes; "" where there is none."""
    if low is None or high is None:
        return ""
    return f"[{percent_change(low, 1)}, {percent_change(high, 1)}]"


def proof_words(side: Side) -> str:
    """Return what is known about whether a case's sender copied."""
    if is_proven(side):
        return "proven"
    copied = side.statistics.get(COPIED)
    if copied is not None and copied.mean:
        return "copied" if copied.mean >= PROVEN_FROM else f"{copied.mean:.0%} copied"
    share = side.statistics.get(PROOF)
    if share is not None and share.mean is not None:
        return "copied" if share.mean == 0 else f"{share.mean:.0%} proven"
    return "not proven"


def _level(part: Part, side: Side) -> str:
    """Return the level of a side; the other end's where this end's is not known."""
    for name in (part.factor, *part.moving):
        value = side.factors.get(name, factors.ABSENT)
        if value not in (factors.ABSENT, factors.UNSTATED):
            return factors.display(name, value)
    return "–"


def _arrow(word: str, ratio: float | None) -> str:
    if not word or ratio is None:
        return ""
    return ARROWS.get(word) or ("↑" if ratio > 1 else "↓")


def _findings(metrics: Sequence[MetricRows]) -> Iterator[Finding]:
    """Yield the most telling pair of each metric, a sentence each."""
    for metric in metrics[:SENTENCES]:
        decided = [row for row in metric.rows if row.word in ("better", "worse")]
        chosen = max(
            decided or [row for row in metric.rows if row.ratio],
            key=lambda row: abs(math.log(row.ratio or 1.0)),
            default=None,
        )
        if chosen is None:
            continue
        base, _, candidate = chosen.sides.partition(" → ")
        at = f", {chosen.name}" if chosen.name else ""
        spread = f" {chosen.interval}" if chosen.interval else ", without an interval"
        yield Finding(
            text=(
                f"{candidate} against {base}{at}: {metric_phrase(metric.metric, metric.method)}"
                f" {chosen.change}{spread}, n = {chosen.n}."
            ),
            word=chosen.word,
            arrow=chosen.arrow,
            case_id=chosen.candidate_case,
        )


def _pooled(report: ComparisonReport) -> str:
    """Return what all pairs of the first metric with ratios say together."""
    for metric in report.metrics:
        ratios_found = sorted(
            row.verdict.ratio for row in metric.rows if row.verdict and row.verdict.ratio
        )
        if len(ratios_found) > 1:
            low, high = ratios_found[0], ratios_found[-1]
            phrase = metric_phrase(metric.metric, metric.method)
            return (
                f"Over {len(ratios_found)} pairs the {phrase} changes by"
                f" {percent_change(low, 1)} to {percent_change(high, 1)}:"
                f" {with_minus(words_text(metric))}."
            )
    return ""


def _remarks(part: Part, report: ComparisonReport) -> Iterator[str]:
    """Yield what to know before believing it; what moves by intent is no remark."""
    for sentence in report.warnings:
        is_intended = any(sentence.startswith(f"{name} differs") for name in part.moving)
        # What could be added to a question of one's own cannot be added here.
        if not is_intended and "(add " not in sentence:
            yield sentence


def _label(row: PairRow) -> str:
    return f"{row.sides}, {row.name}" if row.name else row.sides


def _forest(key: str, metric: MetricRows) -> Figure | None:
    rows = [
        RatioRow(
            ", ".join(filter(None, (row.sides, row.name))), row.word, row.ratio, row.low, row.high
        )
        for row in metric.rows[:FOREST_ROWS]
        if row.ratio is not None
    ]
    # A ratio without any interval is a dot that the table shows as well.
    if len(rows) < 2 or all(row.low is None for row in rows):
        return None
    return ratios(key, metric.metric, rows, 0.02)
