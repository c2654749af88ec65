"""The charts of a run that set two metrics, or a whole distribution, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zcdb.metrics import HEADLINE_CPU_METHOD, PERCENTILES
from zcdb.report.twins import real_cases
from zcdb.store.results import RunCase, Statistic
from zcdb.webapp.charts.curves import (
    CostPoint,
    Distribution,
    latency_distribution,
    scatter,
)
from zcdb.webapp.charts.figure import SLOTS, Figure
from zcdb.webapp.labels import case_label, naming_factors

COST = "service_demand_sender"
FALLBACK_METHOD = "rusage"
SCATTER_FROM = 3
"""Fewer cases than this say the same in any table."""

PERCENTILES_FROM = 3


def extra_figures(cases: Sequence[RunCase]) -> tuple[Figure, ...]:
    """Return throughput against cost, and the latency of each case, where they were measured."""
    real = real_cases(cases)
    names = naming_factors([case.factors for case in real])
    figures = [_scatter(real, names), _latency(real, names)]
    return tuple(figure for figure in figures if figure is not None)


def _scatter(cases: Sequence[RunCase], names: Sequence[str]) -> Figure | None:
    for method in (HEADLINE_CPU_METHOD, FALLBACK_METHOD):
        points = [point for case in cases if (point := _point(case, names, method)) is not None]
        groups = {point.group for point in points}
        if len(points) >= SCATTER_FROM and len(groups) <= SLOTS:
            return scatter("cost-against-throughput", COST, method, points)
    return None


def _mean(case: RunCase, metric: str, method: str = "") -> Statistic | None:
    series = case.find(metric, method)
    return series.statistic if series and series.statistic.mean is not None else None


def _point(case: RunCase, names: Sequence[str], method: str) -> CostPoint | None:
    rate, cost = _mean(case, "throughput"), _mean(case, COST, method)
    if rate is None or cost is None or rate.mean is None or cost.mean is None:
        return None
    return CostPoint(
        case_label(case.factors, names),
        case_label(case.factors, names[:1]),
        rate.mean,
        cost.mean,
        cost.low,
        cost.high,
    )


def percentile_points(means: Mapping[str, float]) -> tuple[tuple[float, float], ...]:
    """Return (share, seconds) of the percentiles that are known, by share.

    Args:
        means: metric -> mean.
    """
    return tuple(
        (float(percent.replace("_", ".")) / 100, means[f"latency_p{percent}"])
        for percent in PERCENTILES
        if f"latency_p{percent}" in means
    )


def _latency(cases: Sequence[RunCase], names: Sequence[str]) -> Figure | None:
    distributions = []
    for case in cases:
        means = {
            series.statistic.metric: series.statistic.mean
            for series in case.series
            if series.statistic.mean is not None
        }
        points = percentile_points(means)
        if len(points) >= PERCENTILES_FROM:
            distributions.append(Distribution(case_label(case.factors, names), points))
    return latency_distribution("latency", distributions) if distributions else None
