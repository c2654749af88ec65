"""Statistics as pages show them: an estimate with its interval and n, and CPU figures by method."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zcdb.metrics import CPU_METHODS, HEADLINE_CPU_METHOD, METRICS
from zcdb.store.results import Statistic, TrialValue
from zcdb.webapp.labels import metric_label

CPU_METRICS = (
    "utilisation_sender",
    "service_demand_sender",
    "utilisation_receiver",
    "service_demand_receiver",
)
"""The columns of every table of CPU figures."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric by a method: a mean with its interval, or one trial's value, or why there is none.

    Attributes:
        unit: base unit of all numbers here.
        n: values behind it; 1 for a single trial.
        low, high: 95 % interval of the mean; None for n < 3.
    """

    metric: str
    method: str
    label: str
    unit: str
    n: int
    mean: float | None
    median: float | None
    sd: float | None
    low: float | None
    high: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class CpuRow:
    """The CPU figures of a case or trial by one method, in the order of `CPU_METRICS`."""

    method: str
    says: str
    is_headline: bool
    cells: tuple[Estimate, ...]


def _unit(metric: str) -> str:
    known = METRICS.get(metric)
    return known.unit if known else ""


def estimate(statistic: Statistic) -> Estimate:
    """Return a statistic with its label and unit."""
    return Estimate(
        metric=statistic.metric,
        method=statistic.method,
        label=metric_label(statistic.metric),
        unit=_unit(statistic.metric),
        n=statistic.n,
        mean=statistic.mean,
        median=statistic.median,
        sd=statistic.sd,
        low=statistic.low,
        high=statistic.high,
        reason=statistic.reason,
    )


def single(value: TrialValue) -> Estimate:
    """Return one trial's value in the same form."""
    return Estimate(
        metric=value.metric,
        method=value.method,
        label=metric_label(value.metric),
        unit=_unit(value.metric),
        n=0 if value.value is None else 1,
        mean=value.value,
        median=value.value,
        sd=None,
        low=None,
        high=None,
        reason=value.reason,
    )


def missing(metric: str, method: str, reason: str = "not measured") -> Estimate:
    """Return the estimate of what nobody measured."""
    return Estimate(
        metric, method, metric_label(metric), _unit(metric), 0, None, None, None, None, None, reason
    )


def find(estimates: Iterable[Estimate], metric: str, method: str = "") -> Estimate:
    """Return the estimate of a metric by a method, a missing one if there is none."""
    for entry in estimates:
        if (entry.metric, entry.method) == (metric, method):
            return entry
    return missing(metric, method)


def cpu_rows(estimates: Sequence[Estimate]) -> tuple[CpuRow, ...]:
    """Return the CPU figures, a row for each method that says something about any of them."""
    known = {(entry.metric, entry.method) for entry in estimates}
    return tuple(
        CpuRow(
            method=method,
            says=says,
            is_headline=method == HEADLINE_CPU_METHOD,
            cells=tuple(find(estimates, metric, method) for metric in CPU_METRICS),
        )
        for method, says in CPU_METHODS.items()
        if any((metric, method) in known for metric in CPU_METRICS)
    )


def measured_rows(rows: Sequence[CpuRow]) -> tuple[CpuRow, ...]:
    """Return the rows that have a figure."""
    return tuple(row for row in rows if any(cell.mean is not None for cell in row.cells))


def others(estimates: Iterable[Estimate]) -> tuple[Estimate, ...]:
    """Return what is not in the table of CPU figures."""
    return tuple(entry for entry in estimates if entry.metric not in CPU_METRICS)


def copied_words(copied: Estimate) -> str | None:
    """Return what the kernel says about zero copy in a few words; None without such a report."""
    if copied.mean is None:
        return None
    if copied.mean >= 0.9995:
        return "copied"
    if copied.mean == 0:
        return "not copied"
    return f"{copied.mean * 100:.3g} % copied"


EXCHANGE_HEADLINE = (
    ("transaction_rate", ""),
    ("latency_p50", ""),
    ("latency_p99", ""),
    ("transaction_demand_client", HEADLINE_CPU_METHOD),
    ("transaction_demand_server", HEADLINE_CPU_METHOD),
)
"""What pages of requests and responses lead with: (metric, method)."""


def is_exchange(estimates: Sequence[Estimate]) -> bool:
    """Return whether transactions were measured, and not bytes that flow one way."""
    return find(estimates, "transaction_rate").mean is not None


def exchange_headline(estimates: Sequence[Estimate]) -> tuple[Estimate, ...]:
    """Return transactions, their latency and their cost at both ends."""
    return tuple(find(estimates, metric, method) for metric, method in EXCHANGE_HEADLINE)


def zero_copy_words(estimates: Sequence[Estimate]) -> str | None:
    """Return what is known about zero copy in a few words; None where nothing is to be said.

    Only what is proven is called zero-copy.  Results without that metric have the
    kernel's report alone.
    """
    copied = find(estimates, "copied_share")
    looked_at = [entry for entry in estimates if entry.metric == "proven_zero_copy_share"]
    if not looked_at:
        return copied_words(copied)
    share = looked_at[0].mean
    if share is None:
        return "zero copy not proven"
    if share >= 0.9995:
        return "zero copy proven"
    # An API that always copies promised nothing else: it has no report either.
    return copied_words(copied)
