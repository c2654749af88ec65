"""The page of a case: all of its trials on any host, and the cases beside it along each factor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from zcdb import factors
from zcdb.factors import FactorValue
from zcdb.metrics import HEADLINE_CPU_METHOD
from zcdb.records import ENDS, End
from zcdb.store.results import (
    CasePage,
    CaseTrial,
    EntryLine,
    Erratum,
    FlagLine,
    Sibling,
    TrialLine,
)
from zcdb.webapp.labels import case_name, factor_label, level
from zcdb.webapp.present.measured import (
    EXCHANGE_HEADLINE,
    CpuRow,
    Estimate,
    cpu_rows,
    estimate,
    exchange_headline,
    find,
    is_exchange,
    others,
    zero_copy_words,
)
from zcdb.webapp.present.published import FigureShown, figure_shown, place_text

FALLBACK_CPU_METHOD = "rusage"


@dataclass(frozen=True, slots=True)
class FactorLine:
    """A factor of the case."""

    name: str
    label: str
    value: FactorValue
    shown: str
    is_default: bool
    is_observed: bool


@dataclass(frozen=True, slots=True)
class TrialValue:
    """A value of a trial by one method."""

    metric: str
    method: str
    value: float


@dataclass(frozen=True, slots=True)
class TrialRow:
    """A trial with the headline values it measured, in the order of `CaseContent.headline`."""

    trial: TrialLine
    experiment_name: str
    headline: tuple[float | None, ...]
    values: tuple[TrialValue, ...]


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """What one source says about the case.

    Attributes:
        address: of the source, at the entry.
        figures: one for each metric.
    """

    entry_id: str
    address: str
    title: str
    author: str | None
    dated: str | None
    lines: str
    is_historic: bool
    left_out: str | None
    figures: tuple[FigureShown, ...]
    flags: tuple[FlagLine, ...]
    errata: tuple[Erratum, ...]


@dataclass(frozen=True, slots=True)
class SiblingRow:
    """A case along one factor; `is_self` marks the case whose page it is."""

    case_id: str
    value: FactorValue
    shown: str
    is_self: bool
    headline: tuple[Estimate, ...]
    copied_words: str | None


@dataclass(frozen=True, slots=True)
class Axis:
    """The cases that differ in one factor alone, the case itself among them."""

    factor: str
    label: str
    rows: tuple[SiblingRow, ...]


@dataclass(frozen=True, slots=True)
class CaseContent:
    """All that a case's page says.

    Attributes:
        headline: throughput, and service demand of both ends by the headline method
            (or `rusage` where no soaker ever ran); of requests and responses their rate,
            latency and cost.
        published: what others published about it.
        unstated: labels of the factors that their sources are silent about.
    """

    id: str
    name: str
    factors: tuple[FactorLine, ...]
    headline: tuple[Estimate, ...]
    copied: Estimate
    copied_words: str | None
    cpu: tuple[CpuRow, ...]
    metrics: tuple[Estimate, ...]
    trials: tuple[TrialRow, ...]
    next_after: str | None
    axes: tuple[Axis, ...]
    published: tuple[PublishedRow, ...]
    unstated: tuple[str, ...]


PUBLISHED_COSTS = ("service_demand", "utilisation", "machine_utilisation")
"""CPU figures that documents have, the first of them that there is stands for all."""

BESIDE = (
    *("throughput", "copied_share", "proven_zero_copy_share"),
    *(metric for metric, _ in EXCHANGE_HEADLINE),
    *(f"{cost}_{end}" for cost in PUBLISHED_COSTS for end in ENDS),
)
"""All that the tables of cases beside this one may show."""

Lead = Callable[[Sequence[Estimate]], tuple[Estimate, ...]]
"""Picks the figures that stand first; the same ones of a case and of those beside it."""


def headline_method(estimates: Sequence[Estimate]) -> str:
    """Return the method to show first: the headline one, `rusage` where that has nothing."""
    for entry in estimates:
        if entry.method == HEADLINE_CPU_METHOD and entry.mean is not None:
            return HEADLINE_CPU_METHOD
    return FALLBACK_CPU_METHOD


def headline(estimates: Sequence[Estimate], method: str) -> tuple[Estimate, ...]:
    """Return throughput and the service demand of both ends.

    Where nobody measured it, the CPU figure that published results have instead.
    """
    demands = [find(estimates, f"service_demand_{end}", method) for end in ENDS]
    if all(demand.mean is None for demand in demands):
        demands = [
            _published_cpu(estimates, end) or demand
            for end, demand in zip(ENDS, demands, strict=True)
        ]
    return (find(estimates, "throughput"), *demands)


def _published_cpu(estimates: Sequence[Estimate], end: End) -> Estimate | None:
    """Return the first CPU figure of an end that has a value, service demand first."""
    for name in PUBLISHED_COSTS:
        for entry in estimates:
            if entry.metric == f"{name}_{end}" and entry.mean is not None:
                return entry
    return None


def case_content(page: CasePage) -> CaseContent:
    """Return the content of a case's page."""
    estimates = [estimate(statistic) for statistic in page.statistics]
    method = headline_method(estimates)
    lead = exchange_headline if is_exchange(estimates) else partial(headline, method=method)
    shown = lead(estimates)
    copied = find(estimates, "copied_share")
    return CaseContent(
        id=page.id,
        name=case_name(page.factors),
        factors=_factor_lines(page.factors),
        headline=shown,
        copied=copied,
        copied_words=zero_copy_words(estimates),
        cpu=cpu_rows(estimates),
        metrics=others(estimates),
        trials=tuple(_trial_row(trial, shown) for trial in page.trials),
        next_after=page.next_after,
        axes=tuple(
            _axis(factor, siblings, page, shown, lead) for factor, siblings in page.siblings.items()
        ),
        published=tuple(_published_row(entry) for entry in page.entries),
        unstated=tuple(
            factor_label(name) for name, value in page.factors.items() if value == factors.UNSTATED
        ),
    )


def _published_row(entry: EntryLine) -> PublishedRow:
    source, is_historic = entry.source, entry.source.kind == "historic"
    return PublishedRow(
        entry_id=entry.id,
        address=f"/history/{source.name}#{entry.name}"
        if is_historic
        else f"/sources/{source.id}#{entry.id}",
        title=source.title if is_historic else f"{entry.name} in {source.name}",
        author=source.author,
        dated=source.dated,
        lines=place_text(entry.lines) or "",
        is_historic=is_historic,
        left_out=entry.left_out,
        figures=tuple(figure_shown(figure) for figure in entry.figures),
        flags=entry.flags,
        errata=entry.errata,
    )


def _factor_lines(values: Mapping[str, FactorValue]) -> tuple[FactorLine, ...]:
    lines = []
    for name, value in factors.with_defaults(values).items():
        factor = factors.FACTORS[name]
        if value == factors.UNSTATED or (factor.kind == "environment" and value == ""):
            continue
        lines.append(
            FactorLine(
                name,
                factor.label,
                value,
                factors.display(name, value),
                is_default=value == factor.default,
                is_observed=not factor.is_declared,
            )
        )
    return tuple(lines)


def _trial_row(entry: CaseTrial, shown: Sequence[Estimate]) -> TrialRow:
    return TrialRow(
        trial=entry.trial,
        experiment_name=entry.experiment_name,
        headline=tuple(entry.values.get((column.metric, column.method)) for column in shown),
        values=tuple(
            TrialValue(metric, method, value) for (metric, method), value in entry.values.items()
        ),
    )


def _axis(
    factor: str,
    siblings: Sequence[Sibling],
    page: CasePage,
    shown: tuple[Estimate, ...],
    lead: Lead,
) -> Axis:
    rows = [_sibling_row(factor, sibling, lead) for sibling in siblings]
    filled = factors.with_defaults(page.factors)
    own_estimates = [estimate(statistic) for statistic in page.statistics]
    own = SiblingRow(
        page.id,
        filled[factor],
        level(factor, filled),
        True,
        shown,
        zero_copy_words(own_estimates),
    )
    is_number = all(isinstance(row.value, int) for row in (*rows, own))
    ordered = sorted(
        [*rows, own],
        key=lambda row: (int(row.value), "") if is_number else (0, row.shown),
    )
    return Axis(factor, factor_label(factor), tuple(ordered))


def _sibling_row(factor: str, sibling: Sibling, lead: Lead) -> SiblingRow:
    estimates = [estimate(statistic) for statistic in sibling.statistics]
    return SiblingRow(
        sibling.case_id,
        sibling.value,
        factors.display(factor, sibling.value),
        False,
        lead(estimates),
        zero_copy_words(estimates),
    )
