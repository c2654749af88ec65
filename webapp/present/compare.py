"""The compare page: pairs with their verdicts, what else differs, and the form to ask another."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from zcdb import factors
from zcdb.metrics import METRICS
from zcdb.report import compare_render
from zcdb.report.compare import ComparisonReport, MetricComparison, Question, Row
from zcdb.store.cases import value_text
from zcdb.store.queries.explore import Facet, FacetValue
from zcdb.webapp.charts.comparison import RatioRow, ratios
from zcdb.webapp.charts.figure import Figure
from zcdb.webapp.labels import factor_label, metric_label
from zcdb.webapp.present.explore import Choice
from zcdb.webapp.present.measured import Estimate, estimate, missing
from zcdb.webapp.quantities import percent_change, with_minus

FOREST_ROWS = 40
"""Pairs that a forest plot can still name."""

PAIRS_SHOWN = 100
"""Pairs in the page's table of a metric; the CSV has all."""

COMPARABLE = [name for name, metric in METRICS.items() if metric.better != "neither"]


@dataclass(frozen=True, slots=True)
class PairRow:
    """A pair by one metric; `word` is "" where nothing could be compared."""

    name: str
    baseline_case: str
    candidate_case: str
    baseline: Estimate
    candidate: Estimate
    word: str
    arrow: str
    change: str
    interval: str
    p_adjusted: float | None
    note: str


@dataclass(frozen=True, slots=True)
class MetricPairs:
    """All pairs shown by one metric."""

    metric: str
    method: str
    label: str
    unit: str
    better: str
    is_judged: bool
    words: str
    rows: tuple[PairRow, ...]
    hidden: int


@dataclass(frozen=True, slots=True)
class Form:
    """What can be asked."""

    axes: tuple[Choice, ...]
    baselines: tuple[Choice, ...]
    candidates: tuple[Choice, ...]
    metrics: tuple[Choice, ...]
    kept: tuple[tuple[str, str], ...]
    where: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompareContent:
    """All that the compare page says; without a question only the form."""

    form: Form
    heading: str
    summary: str
    query: str
    metrics: tuple[MetricPairs, ...]
    remarks: tuple[str, ...]
    followers: tuple[tuple[str, str, str], ...]
    changed_facts: tuple[tuple[str, str, str], ...]
    found: int
    command: str
    freeze_command: str
    revision: int


def no_question(form: Form, revision: int) -> CompareContent:
    """Return the content of the page before anything is asked."""
    return CompareContent(form, "", "", "", (), (), (), (), 0, "", "", revision)


def compare_content(form: Form, report: ComparisonReport, revision: int) -> CompareContent:
    """Return the content of the page for an answer."""
    question = report.question
    return CompareContent(
        form=form,
        heading=compare_render.heading(report),
        summary=compare_render.summary(report),
        query=question.query(),
        metrics=tuple(_metric(report, metric) for metric in report.metrics),
        remarks=tuple(compare_render.remarks(report)),
        followers=tuple(
            (factor_label(name), first, second)
            for name, (first, second) in report.followers.items()
        ),
        changed_facts=report.changed_facts,
        found=report.found,
        command=_command(question),
        freeze_command=f"zcdb report create {shlex.quote(question.query())} --title '…'",
        revision=revision,
    )


def make_form(
    axes: Sequence[Facet],
    axis: str,
    baseline: str,
    candidates: Sequence[str],
    metrics: Sequence[str],
    where: Sequence[tuple[str, str]],
) -> Form:
    """Return the form with what is asked now chosen in it."""
    values = next((facet.values for facet in axes if facet.factor == axis), ())
    texts = [value_text(one.value) for one in values]
    first = baseline or (texts[0] if texts else "")
    return Form(
        axes=tuple(
            Choice(facet.factor, factor_label(facet.factor), facet.factor == axis)
            for facet in sorted(axes, key=lambda facet: factor_label(facet.factor))
        ),
        baselines=_choices(axis, values, [first]),
        candidates=_choices(axis, values, candidates),
        metrics=tuple(Choice(name, metric_label(name), name in metrics) for name in COMPARABLE),
        kept=tuple(where),
        where=tuple(f"{factor_label(name)}: {_shown(name, value)}" for name, value in where),
    )


def _choices(axis: str, values: Sequence[FacetValue], chosen: Sequence[str]) -> tuple[Choice, ...]:
    choices = []
    for one in values:
        text = value_text(one.value)
        choices.append(Choice(text, factors.display(axis, one.value), text in chosen))
    return tuple(choices)


def _shown(name: str, text: str) -> str:
    return factors.display(name, factors.normalise_published(name, text))


def _command(question: Question) -> str:
    """Return the same question as a command."""
    words = ["zcdb", "compare"]
    baseline = value_text(question.baseline)
    words.append(f"{question.factor}={baseline}" if question.kind == "factor" else baseline)
    words += [value_text(value) for value in question.candidates]
    for name, values in question.where.items():
        for value in values:
            words += ["--where", f"{name}={value_text(value)}"]
    for metric in question.metrics:
        words += ["--metric", metric]
    return shlex.join(words)


def _metric(report: ComparisonReport, metric: MetricComparison) -> MetricPairs:
    known = METRICS[metric.metric]
    shown = compare_render.shown_rows(metric)
    return MetricPairs(
        metric=metric.metric,
        method=metric.method,
        label=metric_label(metric.metric),
        unit=known.unit,
        better=known.better,
        is_judged=metric.is_judged,
        words=with_minus(compare_render.words_text(metric)),
        rows=tuple(_row(report, metric, row) for row in shown[:PAIRS_SHOWN]),
        hidden=len(metric.rows) - PAIRS_SHOWN if len(shown) > PAIRS_SHOWN else 0,
    )


def _row(report: ComparisonReport, metric: MetricComparison, row: Row) -> PairRow:
    verdict = row.verdict
    sides = [
        estimate(statistic) if statistic else missing(metric.metric, metric.method)
        for statistic in (row.baseline_statistic, row.candidate_statistic)
    ]
    word = verdict.word if verdict and verdict.ratio is not None else ""
    note = row.missing if metric.is_judged else ""
    if verdict:
        note = note or verdict.reason or ""
        if verdict.repetitions_needed:
            note = f"{verdict.repetitions_needed} repetitions would probably decide"
        if verdict.word == "equivalent" and verdict.is_detectable:
            note = "detectable, and too small to matter"
    return PairRow(
        name=compare_render.row_name(report, row),
        baseline_case=row.baseline.case_id,
        candidate_case=row.candidate.case_id,
        baseline=sides[0],
        candidate=sides[1],
        word=word,
        arrow=_arrow(word, verdict.ratio if verdict else None),
        change=percent_change(verdict.ratio, 1) if verdict and verdict.ratio else "",
        interval=(
            f"[{percent_change(verdict.low, 1)}, {percent_change(verdict.high, 1)}]"
            if verdict and verdict.low is not None and verdict.high is not None
            else ""
        ),
        p_adjusted=verdict.p_adjusted if verdict else None,
        note=note,
    )


def _arrow(word: str, ratio: float | None) -> str:
    if word in ("", "undecided"):
        return "?" if word else ""
    if word == "equivalent" or ratio is None:
        return "="
    return "↑" if ratio > 1 else "↓"


def forests(report: ComparisonReport) -> tuple[Figure, ...]:
    """Return the forest plot of each judged metric that has a ratio."""
    figures = []
    for metric in report.metrics:
        rows = [
            RatioRow(
                compare_render.row_name(report, row),
                row.verdict.word,
                row.verdict.ratio,
                row.verdict.low,
                row.verdict.high,
            )
            for row in metric.rows[:FOREST_ROWS]
            if row.verdict is not None and row.verdict.ratio is not None
        ]
        if rows and metric.is_judged:
            key = f"forest-{metric.metric.replace('_', '-')}"
            figures.append(ratios(key, metric.metric, rows, report.question.matters))
    return tuple(figures)


def axis_or_default(axes: Sequence[Facet], axis: str) -> str:
    """Return the factor asked for, or the one most questions are about."""
    names = [facet.factor for facet in axes]
    if axis or not names:
        return axis
    return "api" if "api" in names else names[0]
