"""Verdict tables: a run's cases against their baselines, as its [compare] section asks.

Two cases are compared if they are equal in all factors but those that the
baseline names, and were measured in the same context; their values pair by
repetition, which is the randomised block.  All comparisons of the table are
one family.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from zcdb import factors as registry
from zcdb.factors import FactorValue
from zcdb.metrics import HEADLINE_CPU_METHOD, METRICS
from zcdb.report.render import render_markdown, render_text, to_json
from zcdb.report.table import CaseRemark, CaseValue, MetricTable, Role, VerdictRow, VerdictTable
from zcdb.stats.compare import Comparison, compare_paired
from zcdb.stats.verdict import Verdict, judge
from zcdb.store import queries
from zcdb.store.results import ExperimentText, RunCase, RunLine
from zcdb.store.session import Database

__all__ = ["render_markdown", "render_text", "to_json", "verdict_table"]

LEVEL = 0.95
DEFAULT_MATTERS = 0.02
FALLBACK_CPU_METHOD = "rusage"
_NO_PAIR = "no repetition measured both"


@dataclass(frozen=True, slots=True)
class _Pair:
    """A case for a metric, with its baseline and how they compare."""

    case: RunCase
    role: Role
    baseline: RunCase | None
    comparison: Comparison | None


@dataclass(frozen=True, slots=True)
class _Metric:
    """What is shown of a metric, before it is judged."""

    name: str
    method: str
    is_judged: bool
    note: str | None
    pairs: tuple[_Pair, ...]


def verdict_table(db: Database, run_id: str) -> VerdictTable:
    """Return the answer of a run, finished or not.

    Raises:
        zcdb.store.queries.NotFound: if there is no such run.
    """
    outcome = queries.run_outcome(db, run_id)
    return make_table(outcome.run, outcome.experiment, outcome.cases)


def make_table(run: RunLine, experiment: ExperimentText, cases: Sequence[RunCase]) -> VerdictTable:
    """Return the answer that the cases of a run give."""
    compare = cast(Mapping[str, Any], experiment.resolved.get("compare") or {})
    baseline = cast(Mapping[str, FactorValue], compare.get("baseline") or {})
    matters = float(compare.get("matters") or DEFAULT_MATTERS)
    shown = [
        _metric(name, is_judged, baseline, cases)
        for name, is_judged in _shown(compare.get("metrics") or ())
    ]
    judged = [
        (pair.comparison, METRICS[metric.name].better)
        for metric in shown
        for pair in metric.pairs
        if pair.comparison is not None
    ]
    verdicts = judge([c for c, _ in judged], [better for _, better in judged], matters, LEVEL)
    left = iter(verdicts)
    varying = registry.varying([case.factors for case in cases])
    return VerdictTable(
        run=run,
        baseline=baseline,
        matters=matters,
        level=LEVEL,
        family_size=verdicts[0].family_size if verdicts else 0,
        varying=tuple(varying),
        constant=_constant(cases, varying),
        metrics=tuple(_metric_table(metric, left) for metric in shown),
        cases=tuple(_remark(case) for case in cases),
    )


def _shown(asked: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the metrics to show and whether each is judged.

    A cost never stands without the throughput beside it.
    """
    shown = [(name, True) for name in asked]
    if "throughput" not in asked:
        shown.append(("throughput", False))
    return shown


def _metric(
    name: str, is_judged: bool, baseline: Mapping[str, FactorValue], cases: Sequence[RunCase]
) -> _Metric:
    method, note = _method(name, cases)
    pairs = [
        _Pair(case, role, of, _compare(of, case, name, method) if is_judged and of else None)
        for case, role, of in _roles(baseline, cases)
    ]
    return _Metric(name, method, is_judged, note, tuple(pairs))


def _method(metric: str, cases: Sequence[RunCase]) -> tuple[str, str | None]:
    """Return by which method a metric is shown, and why if it is not the headline one."""
    if not METRICS[metric].has_method:
        return "", None

    def is_measured(method: str) -> bool:
        found = [case.find(metric, method) for case in cases]
        return any(series is not None and series.statistic.n > 0 for series in found)

    if is_measured(HEADLINE_CPU_METHOD) or not is_measured(FALLBACK_CPU_METHOD):
        return HEADLINE_CPU_METHOD, None
    reasons = [
        series.statistic.reason
        for case in cases
        if (series := case.find(metric, HEADLINE_CPU_METHOD)) is not None
    ]
    why = next((reason for reason in reasons if reason), "it was not measured")
    return FALLBACK_CPU_METHOD, (
        f"no value by {HEADLINE_CPU_METHOD} ({why}): {FALLBACK_CPU_METHOD} is shown,"
        " the CPU time of the endpoint processes alone"
    )


def _roles(
    baseline: Mapping[str, FactorValue], cases: Sequence[RunCase]
) -> list[tuple[RunCase, Role, RunCase | None]]:
    """Return every case with its role and its baseline, each baseline before its candidates."""
    contexts: dict[Any, Any] = {}
    for case in cases:
        if case.context:
            contexts.setdefault(_held_equal(case, baseline), tuple(case.context.items()))
    groups: dict[Any, list[RunCase]] = {}
    for case in cases:
        declared = _held_equal(case, baseline)
        # A case that has not run yet has no context: it stands with those it would join.
        context = tuple(case.context.items()) or contexts.get(declared)
        groups.setdefault((declared, context), []).append(case)
    roles: list[tuple[RunCase, Role, RunCase | None]] = []
    for group in groups.values():
        found = next((case for case in group if _is_baseline(case, baseline)), None)
        if found is None:
            roles += [(case, "unpaired", None) for case in group]
        else:
            roles.append((found, "baseline", None))
            roles += [(case, "candidate", found) for case in group if case is not found]
    return roles


def _held_equal(case: RunCase, baseline: Mapping[str, FactorValue]) -> tuple[Any, ...]:
    """Return what a case and its baseline share: all declared factors but the baseline's."""
    return tuple((name, value) for name, value in case.factors.items() if name not in baseline)


def _is_baseline(case: RunCase, baseline: Mapping[str, FactorValue]) -> bool:
    return bool(baseline) and all(case.factors.get(name) == baseline[name] for name in baseline)


def _compare(baseline: RunCase, case: RunCase, metric: str, method: str) -> Comparison:
    """Compare two cases by repetition, the ones that both measured."""
    first, second = baseline.find(metric, method), case.find(metric, method)
    both = [
        (a, b)
        for a, b in zip(first.kept if first else (), second.kept if second else (), strict=False)
        if a is not None and b is not None
    ]
    if not both:
        return Comparison("paired", 0, 0, None, None, None, None, reason=_NO_PAIR)
    return compare_paired([a for a, _ in both], [b for _, b in both])


def _metric_table(metric: _Metric, left: Iterator[Verdict]) -> MetricTable:
    """Return a metric's table; takes its verdicts from those that are left."""
    rows = tuple(
        VerdictRow(
            case=_value(pair.case, metric),
            role=pair.role,
            baseline=_value(pair.baseline, metric) if pair.baseline else None,
            verdict=next(left) if pair.comparison else None,
            sign_flip_p_value=pair.comparison.sign_flip_p_value if pair.comparison else None,
        )
        for pair in metric.pairs
    )
    return MetricTable(metric.name, metric.method, metric.is_judged, metric.note, rows)


def _value(case: RunCase, metric: _Metric) -> CaseValue:
    series = case.find(metric.name, metric.method)
    statistic = series.statistic if series else None
    is_missing = statistic is None or statistic.n == 0
    return CaseValue(
        case_id=case.case_id,
        plan_key=case.plan_key,
        factors=case.factors,
        statistic=statistic,
        missing=_why_missing(case) if is_missing else None,
    )


def _why_missing(case: RunCase) -> str:
    if case.ok:
        return "not measured"
    if case.unsupported:
        return "unsupported"
    return "failed" if case.failed else "not run"


def _constant(cases: Sequence[RunCase], varying: Sequence[str]) -> dict[str, FactorValue]:
    """Return what all cases share: the link, and what is not at its default."""
    if not cases:
        return {}
    factors = cases[0].factors
    stated = {"link": factors["link"], **registry.without_defaults(factors)}
    return {name: value for name, value in stated.items() if name not in varying}


def _remark(case: RunCase) -> CaseRemark:
    copied = case.find("copied_share")
    return CaseRemark(
        case_id=case.case_id,
        factors=case.factors,
        ok=case.ok,
        failed=case.failed,
        unsupported=case.unsupported,
        reasons=case.reasons,
        copied_share=copied.statistic.mean if copied else None,
        flags=case.flags,
    )
