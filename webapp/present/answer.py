"""A verdict table in words and rows: what a run answers, before any chart.

The verdicts are `report`'s; here they get names, signs, arrows and sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zcdb.metrics import HEADLINE_CPU_METHOD, METRICS
from zcdb.report.render import factor_text
from zcdb.report.render import limited_by as limiter_text
from zcdb.report.table import CaseRemark, CaseValue, MetricTable, VerdictRow, VerdictTable
from zcdb.report.twins import real_cases
from zcdb.store.results import RunCase
from zcdb.webapp.charts.comparison import RatioRow, ratios
from zcdb.webapp.charts.figure import Figure
from zcdb.webapp.labels import case_label, metric_phrase
from zcdb.webapp.present.measured import Estimate, estimate, missing
from zcdb.webapp.present.method import MethodContent, method_content
from zcdb.webapp.quantities import percent_change

SIGNS = {"equivalent": "=", "undecided": "?"}
"""A sign beside each verdict word, so that none rests on its colour alone; better and worse
have an arrow, which shows where the number went."""

FULL_CPU = 0.95
"""An end pinned to one CPU that is busier than this is what limits throughput."""

LINES_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Judged:
    """One comparison in words.

    Attributes:
        change: the candidate against the baseline, signed; "" where there is no ratio.
        interval: of `change`, adjusted for the family; "" where there is none.
        level: confidence of the interval by itself, after the adjustment.
        limits: how many repetitions would probably decide, else why it is undecided.
    """

    word: str
    arrow: str
    change: str
    interval: str
    ratio: float | None
    low: float | None
    high: float | None
    level: float
    n: int
    p_adjusted: float | None
    is_detectable: bool
    repetitions_needed: int | None
    limits: str


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """A case in the table of a metric; `judged` is None for a baseline."""

    case_id: str | None
    name: str
    role: str
    estimate: Estimate
    baseline_name: str | None
    judged: Judged | None


@dataclass(frozen=True, slots=True)
class MetricAnswer:
    """All cases for one metric."""

    metric: str
    method: str
    label: str
    unit: str
    better: str
    note: str | None
    rows: tuple[AnswerRow, ...]


@dataclass(frozen=True, slots=True)
class Aside:
    """What another metric says about the same two cases."""

    label: str
    judged: Judged


@dataclass(frozen=True, slots=True)
class Line:
    """One sentence of the answer.

    Attributes:
        at: what the two cases share among the varying factors: "message size 64 KiB".
        asides: the same comparison by the other metrics.
        remarks: what limited it, what was copied, what failed.
        text: the whole in plain words.
    """

    case_id: str | None
    name: str
    baseline_name: str
    at: str
    metric: str
    label: str
    judged: Judged
    asides: tuple[Aside, ...]
    remarks: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a run answers.

    Attributes:
        lines: by the first metric of the comparison, the most remarkable first.
        hidden_lines: how many more there are in the tables.
    """

    run_id: str
    baseline: str
    matters: float
    level: float
    family_size: int
    lines: tuple[Line, ...]
    hidden_lines: int
    metrics: tuple[MetricAnswer, ...]
    method: MethodContent


def answer(table: VerdictTable, cases: tuple[RunCase, ...]) -> Answer:
    """Return a verdict table in words.

    Args:
        table: of the run.
        cases: the ones that the table was made of, twins too, for what limited each of them.
    """
    lines = _lines(table, real_cases(cases))
    return Answer(
        run_id=table.run.id,
        baseline=factor_text(table.baseline, table.baseline),
        matters=table.matters,
        level=table.level,
        family_size=table.family_size,
        lines=tuple(lines[:LINES_SHOWN]),
        hidden_lines=max(0, len(lines) - LINES_SHOWN),
        metrics=tuple(_metric(metric, table) for metric in table.metrics),
        method=method_content(table),
    )


def ratio_figures(found: Answer) -> tuple[Figure, ...]:
    """Return the chart of changes against the baseline for each metric that has any."""
    figures = []
    for metric in found.metrics:
        rows = [
            RatioRow(row.name, row.judged.word, row.judged.ratio, row.judged.low, row.judged.high)
            for row in metric.rows
            if row.judged is not None and row.judged.ratio is not None
        ]
        if rows:
            key = f"change-{metric.metric.replace('_', '-')}"
            figures.append(ratios(key, metric.metric, rows, found.matters))
    return tuple(figures)


def _names(table: VerdictTable) -> tuple[list[str], list[str]]:
    """Return the factors that name a candidate against its baseline, and those it shares."""
    own = [name for name in table.varying if name in table.baseline]
    return own or list(table.baseline), [n for n in table.varying if n not in table.baseline]


def _metric(metric: MetricTable, table: VerdictTable) -> MetricAnswer:
    known = METRICS[metric.metric]
    names = list(table.varying) or list(table.baseline)
    return MetricAnswer(
        metric.metric,
        metric.method,
        known.label,
        known.unit,
        known.better,
        metric.note,
        tuple(_row(row, metric, names) for row in metric.rows),
    )


def _row(row: VerdictRow, metric: MetricTable, names: list[str]) -> AnswerRow:
    return AnswerRow(
        row.case.case_id,
        case_label(row.case.factors, names),
        row.role,
        _estimate(row.case, metric),
        case_label(row.baseline.factors, names) if row.baseline else None,
        judged(row) if row.verdict else None,
    )


def _estimate(case: CaseValue, metric: MetricTable) -> Estimate:
    if case.statistic is None:
        return missing(metric.metric, metric.method)
    return estimate(case.statistic)


def judged(row: VerdictRow) -> Judged:
    """Return the verdict of a candidate's row in words."""
    verdict = row.verdict
    if verdict is None:
        raise ValueError("only a candidate is judged")
    interval = ""
    if verdict.low is not None and verdict.high is not None:
        interval = f"[{percent_change(verdict.low, 1)}, {percent_change(verdict.high, 1)}]"
    return Judged(
        word=verdict.word,
        arrow=SIGNS.get(verdict.word) or ("↑" if (verdict.ratio or 1) > 1 else "↓"),
        change="" if verdict.ratio is None else percent_change(verdict.ratio, 1),
        interval=interval,
        ratio=verdict.ratio,
        low=verdict.low,
        high=verdict.high,
        level=verdict.level,
        n=min(verdict.n_baseline, verdict.n_candidate),
        p_adjusted=verdict.p_adjusted,
        is_detectable=verdict.is_detectable,
        repetitions_needed=verdict.repetitions_needed,
        limits=_limits(verdict.reason, verdict.repetitions_needed),
    )


def _limits(reason: str | None, needed: int | None) -> str:
    if needed is not None:
        return f"{needed} repetitions would probably decide"
    return reason or ""


def _lines(table: VerdictTable, cases: Sequence[RunCase]) -> list[Line]:
    """Return a line for each candidate by the first metric, the most remarkable first."""
    if not table.metrics:
        return []
    first, *rest = table.metrics
    # A resumed run may have measured one place of its plan in two contexts: two cases.
    about = {
        (case.plan_key, case.case_id): (case, remark)
        for case, remark in zip(cases, table.cases, strict=True)
    }
    lines = []
    for row in first.rows:
        if row.verdict is None or row.baseline is None:
            continue
        asides = [(metric, other) for metric in rest for other in metric.rows if _same(row, other)]
        case, remark = about[row.case.plan_key, row.case.case_id]
        lines.append(_line(row, first, asides, table, _remarks(remark, case, judged(row))))
    return sorted(lines, key=_remarkable)


def _same(row: VerdictRow, other: VerdictRow) -> bool:
    return other.verdict is not None and (row.case.plan_key, row.case.case_id) == (
        other.case.plan_key,
        other.case.case_id,
    )


def _remarkable(line: Line) -> tuple[int, float]:
    """Return the key that puts decided differences first, the largest of them foremost."""
    rank = {"better": 0, "worse": 0, "equivalent": 1, "undecided": 2}[line.judged.word]
    ratio = line.judged.ratio or 1.0
    return rank, -max(ratio, 1 / ratio)


def _line(
    row: VerdictRow,
    metric: MetricTable,
    asides: list[tuple[MetricTable, VerdictRow]],
    table: VerdictTable,
    remarks: tuple[str, ...],
) -> Line:
    own, shared = _names(table)
    assert row.baseline is not None  # noqa: S101
    name, baseline = case_label(row.case.factors, own), case_label(row.baseline.factors, own)
    at = factor_text(row.case.factors, shared)
    label = metric_phrase(metric.metric, metric.method)
    found = judged(row)
    return Line(
        case_id=row.case.case_id,
        name=name,
        baseline_name=baseline,
        at=at,
        metric=metric.metric,
        label=label,
        judged=found,
        asides=tuple(Aside(metric_phrase(m.metric), judged(other)) for m, other in asides),
        remarks=remarks,
        text=_text(name, baseline, at, label, found),
    )


def _text(name: str, baseline: str, at: str, label: str, found: Judged) -> str:
    """Return a verdict as a sentence in plain words."""
    link = {
        "better": "is better than",
        "worse": "is worse than",
        "equivalent": "is equivalent to",
        "undecided": "is not decided against",
    }[found.word]
    where = f" at {at}" if at else ""
    if not found.change:
        return f"{name} {link} {baseline}{where}: {found.limits}."
    return (
        f"{name} {link} {baseline}{where}: {label} {found.change} {found.interval}, n = {found.n}."
    )


def _remarks(remark: CaseRemark, case: RunCase, found: Judged) -> tuple[str, ...]:
    """Return what to know before believing a line, the gravest first."""
    said = []
    if found.limits and found.change:
        said.append(found.limits)
    if remark.copied_share:
        share = "every byte" if remark.copied_share > 0.9995 else f"{remark.copied_share:.1%}"
        said.append(f"the kernel copied {share} after all")
    if remark.zero_copy:
        said.append(f"zero copy {remark.zero_copy}")
    lost = remark.failed + remark.unsupported
    if lost:
        said.append(f"{lost} of {lost + remark.ok} repetitions did not measure")
    limiter = limiter_text(remark.limiter) or limited_by(case)
    if limiter:
        said.append(limiter)
    return tuple(said)


def limited_by(case: RunCase) -> str | None:
    """Return what limited throughput, as far as the CPUs of the two ends tell; None if unknown."""
    busy = {}
    for end in ("sender", "receiver"):
        series = case.find(f"utilisation_{end}", HEADLINE_CPU_METHOD)
        if series is None or series.statistic.mean is None:
            return None
        busy[end] = series.statistic.mean
    text = f"sender {busy['sender']:.2f}, receiver {busy['receiver']:.2f} CPUs busy"
    if case.factors.get("pinning", "separate") != "separate":
        return text
    full = [end for end, cpus in busy.items() if cpus >= FULL_CPU]
    if len(full) == 2:
        return f"limited by the CPUs of both ends ({text})"
    if full:
        return f"limited by the {full[0]}'s CPU ({text})"
    return f"no end's CPU was full ({text})"
