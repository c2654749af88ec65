"""The page of a case: all of its trials on any host, and the cases beside it along each factor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zcdb import factors
from zcdb.factors import FactorValue
from zcdb.metrics import HEADLINE_CPU_METHOD
from zcdb.store.results import CasePage, CaseTrial, Sibling, TrialLine
from zcdb.webapp.labels import case_name, factor_label, level
from zcdb.webapp.present.measured import (
    CpuRow,
    Estimate,
    copied_words,
    cpu_rows,
    estimate,
    find,
    others,
)

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
            (or `rusage` where no soaker ever ran).
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


def headline_method(estimates: Sequence[Estimate]) -> str:
    """Return the method to show first: the headline one, `rusage` where that has nothing."""
    for entry in estimates:
        if entry.method == HEADLINE_CPU_METHOD and entry.mean is not None:
            return HEADLINE_CPU_METHOD
    return FALLBACK_CPU_METHOD


def headline(estimates: Sequence[Estimate], method: str) -> tuple[Estimate, ...]:
    """Return throughput and the service demand of both ends."""
    return (
        find(estimates, "throughput"),
        find(estimates, "service_demand_sender", method),
        find(estimates, "service_demand_receiver", method),
    )


def case_content(page: CasePage) -> CaseContent:
    """Return the content of a case's page."""
    estimates = [estimate(statistic) for statistic in page.statistics]
    method = headline_method(estimates)
    shown = headline(estimates, method)
    copied = find(estimates, "copied_share")
    return CaseContent(
        id=page.id,
        name=case_name(page.factors),
        factors=_factor_lines(page.factors),
        headline=shown,
        copied=copied,
        copied_words=copied_words(copied),
        cpu=cpu_rows(estimates),
        metrics=others(estimates),
        trials=tuple(_trial_row(trial, shown) for trial in page.trials),
        next_after=page.next_after,
        axes=tuple(
            _axis(factor, siblings, page, shown, method)
            for factor, siblings in page.siblings.items()
        ),
    )


def _factor_lines(values: Mapping[str, FactorValue]) -> tuple[FactorLine, ...]:
    lines = []
    for name, value in factors.with_defaults(values).items():
        factor = factors.FACTORS[name]
        if factor.kind == "environment" and value == "":
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
    method: str,
) -> Axis:
    rows = [_sibling_row(factor, sibling, method) for sibling in siblings]
    filled = factors.with_defaults(page.factors)
    own_estimates = [estimate(statistic) for statistic in page.statistics]
    own = SiblingRow(
        page.id,
        filled[factor],
        level(factor, filled),
        True,
        shown,
        copied_words(find(own_estimates, "copied_share")),
    )
    is_number = all(isinstance(row.value, int) for row in (*rows, own))
    ordered = sorted(
        [*rows, own],
        key=lambda row: (int(row.value), "") if is_number else (0, row.shown),
    )
    return Axis(factor, factor_label(factor), tuple(ordered))


def _sibling_row(factor: str, sibling: Sibling, method: str) -> SiblingRow:
    estimates = [estimate(statistic) for statistic in sibling.statistics]
    return SiblingRow(
        sibling.case_id,
        sibling.value,
        factors.display(factor, sibling.value),
        False,
        headline(estimates, method),
        copied_words(find(estimates, "copied_share")),
    )
