"""Verdict tables: a run's cases against their baselines, as its [compare] section asks.

Two cases are compared if they are equal in all factors but those that the
baseline names, and were measured in the same context; their values pair by
repetition, which is the randomised block.  All comparisons of the table are
one family.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from zcdb import factors as registry
from zcdb.factors import FactorValue
from zcdb.ids import Json
from zcdb.metrics import HEADLINE_CPU_METHOD, METRICS
from zcdb.report.crossing import CrossoverAnswer, crossover_answer
from zcdb.report.effects import effect_tables
from zcdb.report.order import patterns, torn_pairs
from zcdb.report.render import render_markdown, render_text, to_json
from zcdb.report.run_flags import flag_text, run_flags
from zcdb.report.table import (
    CaseRemark,
    CaseValue,
    Detectable,
    MetricTable,
    Role,
    Stopping,
    VerdictRow,
    VerdictTable,
)
from zcdb.report.twins import TwinCheck, TwinRow, real_cases, twin_check, twin_pairs
from zcdb.stats.compare import Comparison, compare_paired
from zcdb.stats.distributions import t_critical
from zcdb.stats.power import smallest_detectable_ratio
from zcdb.stats.sequential import PEEKING_CORRECTION
from zcdb.stats.verdict import Verdict, judge
from zcdb.store import queries
from zcdb.store.queries.method import RunMethod, run_method
from zcdb.store.results import ExperimentText, RunCase, RunLine, Statistic
from zcdb.store.session import Database

__all__ = ["render_markdown", "render_text", "to_json", "verdict_table"]

_NOTHING_KNOWN = RunMethod({}, {}, ())

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
    how = run_method(db, run_id)
    return make_table(outcome.run, outcome.experiment, outcome.cases, how)


def make_table(
    run: RunLine,
    experiment: ExperimentText,
    measured: Sequence[RunCase],
    how: RunMethod = _NOTHING_KNOWN,
) -> VerdictTable:
    """Return the answer that the cases of a run give.

    Args:
        measured: its cases, twins too.
        how: when and where each value was measured, and what its trials say of themselves.
    """
    compare = cast(Mapping[str, Any], experiment.resolved.get("compare") or {})
    baseline = cast(Mapping[str, FactorValue], compare.get("baseline") or {})
    matters = float(compare.get("matters") or DEFAULT_MATTERS)
    cases = real_cases(measured)
    stopping = _stopping(experiment, how.readings)
    level = stopping.level if stopping else LEVEL
    shown = [
        _metric(name, is_judged, baseline, cases)
        for name, is_judged in _shown(compare.get("metrics") or ())
    ]
    of_metrics = [(metric.name, metric.method) for metric in shown if metric.is_judged]
    judged = [
        (pair.comparison, METRICS[metric.name].better)
        for metric in shown
        for pair in metric.pairs
        if pair.comparison is not None
    ]
    verdicts = judge([c for c, _ in judged], [better for _, better in judged], matters, level)
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
        metrics=tuple(_metric_table(metric, left, level) for metric in shown),
        cases=tuple(_remark(case, how) for case in cases),
        twins=_twins(measured, of_metrics),
        detectable=tuple(_detectable(metric, len(judged)) for metric in shown if _spread(metric)),
        patterns=patterns(measured, of_metrics, how.places),
        effects=effect_tables(cases, baseline, of_metrics, level),
        crossover=_crossover(compare, cases),
        warnings=tuple(_warnings(shown, how)),
        stopping=stopping,
    )


def _stopping(experiment: ExperimentText, readings: Sequence[Mapping[str, Any]]) -> Stopping | None:
    """Return how the run stops by itself, None if its repetitions are fixed."""
    measure = cast(Mapping[str, Any], experiment.resolved.get("measure") or {})
    until = measure.get("until")
    if not until:
        return None
    told = [reading["stopping"] for reading in readings if "stopping" in reading]
    level = 1 - (1 - LEVEL) * PEEKING_CORRECTION
    blocks = told[-1]["blocks"] if told else None
    return Stopping(until["metric"], until["half_width"], until["at_most"], level, blocks)


def _twins(measured: Sequence[RunCase], metrics: Sequence[tuple[str, str]]) -> TwinCheck | None:
    compared = []
    for metric, method in metrics:
        for one, other in twin_pairs(measured):
            comparison = _compare(one, other, metric, method)
            factors = {name: value for name, value in one.factors.items() if name != "twin"}
            ratio = None if comparison.log_ratio is None else math.exp(comparison.log_ratio)
            n, p_value = comparison.n_candidate, comparison.p_value
            compared.append((TwinRow(metric, method, factors, ratio, p_value, n), comparison))
    return twin_check(compared)


def _spread(metric: _Metric) -> list[tuple[float, int]]:
    """Return the standard deviation of the log ratios, and n, of each comparison that has one."""
    return [
        (found.standard_error * math.sqrt(found.n_candidate), found.n_candidate)
        for pair in metric.pairs
        if (found := pair.comparison) is not None and found.standard_error
    ]


def _detectable(metric: _Metric, family_size: int) -> Detectable:
    spread = _spread(metric)
    # A pair varies √2 times as much as a trial that is independent of its neighbours.
    cv = math.sqrt(statistics.fmean(sd**2 for sd, _ in spread) / 2)
    n = min(n for _, n in spread)
    ratio = smallest_detectable_ratio(cv, n, LEVEL, family_size)
    return Detectable(metric.name, n, cv, ratio)


def _crossover(compare: Mapping[str, Any], cases: Sequence[RunCase]) -> CrossoverAnswer | None:
    wanted = compare.get("crossover")
    if not wanted:
        return None
    metric = str(wanted["metric"])
    method, _ = _method(metric, cases)

    def compared(baseline: RunCase, case: RunCase) -> Comparison:
        return _compare(baseline, case, metric, method)

    return crossover_answer(wanted, cases, method, compared)


def _warnings(shown: Sequence[_Metric], how: RunMethod) -> Iterator[str]:
    """Yield what to know of how the run was measured as a whole."""
    pairs = {
        (pair.baseline.plan_key, pair.case.plan_key): (pair.baseline, pair.case)
        for metric in shown
        for pair in metric.pairs
        if pair.baseline is not None
    }
    torn = [torn_pairs(*pair, how.places) for pair in pairs.values()]
    apart, all_pairs = (sum(counts) for counts in zip(*torn, strict=True)) if torn else (0, 0)
    if apart:
        yield (
            f"{apart} of {all_pairs} pairs were measured more than an hour apart: what changed on"
            " the machine meanwhile is in their difference, not only what they compare."
        )
    yield from map(flag_text, run_flags(how.readings))
    boots = {boot for reading in how.readings for boot in cast(Any, reading.get("boots") or ())}
    if how.places and len(boots) < 2:
        yield (
            "All trials come from one boot: there is no between-boot estimate, and what a boot"
            " settles by chance is not in the intervals."
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


def _metric_table(metric: _Metric, left: Iterator[Verdict], level: float) -> MetricTable:
    """Return a metric's table; takes its verdicts from those that are left."""
    rows = tuple(
        VerdictRow(
            case=_value(pair.case, metric, level),
            role=pair.role,
            baseline=_value(pair.baseline, metric, level) if pair.baseline else None,
            verdict=next(left) if pair.comparison else None,
            sign_flip_p_value=pair.comparison.sign_flip_p_value if pair.comparison else None,
        )
        for pair in metric.pairs
    )
    return MetricTable(metric.name, metric.method, metric.is_judged, metric.note, rows)


def _value(case: RunCase, metric: _Metric, level: float) -> CaseValue:
    series = case.find(metric.name, metric.method)
    statistic = _at_level(series.statistic, level) if series else None
    is_missing = statistic is None or statistic.n == 0
    return CaseValue(
        case_id=case.case_id,
        plan_key=case.plan_key,
        factors=case.factors,
        statistic=statistic,
        missing=_why_missing(case) if is_missing else None,
    )


def _at_level(statistic: Statistic, level: float) -> Statistic:
    """Return a statistic whose interval has another level than the stored one."""
    if level == LEVEL or statistic.low is None or statistic.mean is None:
        return statistic
    degrees = statistic.n - 1
    wider = t_critical(level, degrees) / t_critical(LEVEL, degrees)
    half_width = (statistic.mean - statistic.low) * wider
    mean = statistic.mean
    return dataclasses.replace(statistic, low=mean - half_width, high=mean + half_width)


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


def _remark(case: RunCase, how: RunMethod) -> CaseRemark:
    copied = case.find("copied_share")
    signs = how.signs.get(case.plan_key, {})
    return CaseRemark(
        case_id=case.case_id,
        factors=case.factors,
        ok=case.ok,
        failed=case.failed,
        unsupported=case.unsupported,
        reasons=case.reasons,
        copied_share=copied.statistic.mean if copied else None,
        flags=case.flags,
        limiter=_most(_limiters(signs.get("limiter", ()))),
        zero_copy=_most(_labels(signs.get("zero_copy", ()))),
    )


def _most(said: Iterable[str]) -> str | None:
    """Return what most trials say; None if none says anything."""
    return next((word for word, _ in Counter(said).most_common(1)), None)


def _limiters(signs: Sequence[Json]) -> Iterator[str]:
    for sign in signs:
        if isinstance(sign, Mapping):
            yield str(sign["name"])


def _labels(signs: Sequence[Json]) -> Iterator[str]:
    """Yield the labels of trials whose API is one that should not copy."""
    for sign in signs:
        if isinstance(sign, Mapping) and sign.get("is_asked"):
            yield str(sign["label"])
