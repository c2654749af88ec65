"""The page of a run: its cases with all figures of both ends, and its plan with every outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zcdb.factors import FactorValue
from zcdb.flags import sentence
from zcdb.ids import Json
from zcdb.report.run_flags import run_flags
from zcdb.report.twins import is_twin, real_cases
from zcdb.store.results import (
    Erratum,
    Facts,
    FlagLine,
    PlanPlace,
    RunCase,
    RunLine,
    RunPage,
    TrialLine,
)
from zcdb.webapp.charts.comparison import CaseValues, comparison
from zcdb.webapp.charts.figure import Figure
from zcdb.webapp.labels import case_label, naming_factors
from zcdb.webapp.present.answer import Answer
from zcdb.webapp.present.facts import FactGroup, groups
from zcdb.webapp.present.measured import (
    CpuRow,
    Estimate,
    copied_words,
    cpu_rows,
    estimate,
    find,
    measured_rows,
    others,
)
from zcdb.webapp.present.trial import HostRef, host_refs


@dataclass(frozen=True, slots=True)
class CaseRow:
    """A case of a run: how its repetitions ended, and what they measured together."""

    plan_key: str
    case_id: str | None
    name: str
    factors: Mapping[str, FactorValue]
    is_baseline: bool
    ok: int
    failed: int
    unsupported: int
    throughput: Estimate
    copied: Estimate
    copied_words: str | None
    cpu: tuple[CpuRow, ...]
    metrics: tuple[Estimate, ...]


@dataclass(frozen=True, slots=True)
class PlaceRow:
    """A place of the plan, with the attempts at it.

    Attributes:
        waits: what a place without an attempt is: "planned", or "not needed" where the run
            stopped before it as declared.
    """

    position: int
    block: int
    repetition: int
    name: str
    attempts: tuple[TrialLine, ...]
    waits: str


@dataclass(frozen=True, slots=True)
class Reading:
    """A reading of the machine at one time the run was worked on."""

    groups: tuple[FactGroup, ...]


@dataclass(frozen=True, slots=True)
class RunContent:
    """All that a run's page says.

    Attributes:
        flags: of the run as a whole.
        reasons: why repetitions are missing, each with how often.
        settings: the experiment file with every default filled in.
    """

    run: RunLine
    seed: int
    answer: Answer
    cases: tuple[CaseRow, ...]
    flags: tuple[FlagLine, ...]
    reasons: tuple[tuple[str, int], ...]
    plan: tuple[PlaceRow, ...]
    next_position: int | None
    hosts: tuple[HostRef, ...]
    readings: tuple[Reading, ...]
    settings: tuple[FactGroup, ...]
    errata: tuple[Erratum, ...]


def case_rows(cases: Sequence[RunCase], baseline: Mapping[str, FactorValue]) -> tuple[CaseRow, ...]:
    """Return the cases of a run in the order declared, twins left out."""
    real = real_cases(cases)
    names = naming_factors([case.factors for case in real])
    return tuple(_case_row(case, names, baseline) for case in real)


def _case_row(case: RunCase, names: Sequence[str], baseline: Mapping[str, FactorValue]) -> CaseRow:
    estimates = [estimate(series.statistic) for series in case.series]
    copied = find(estimates, "copied_share")
    return CaseRow(
        plan_key=case.plan_key,
        case_id=case.case_id,
        name=case_label(case.factors, names),
        factors=case.factors,
        is_baseline=bool(baseline)
        and all(case.factors.get(name) == value for name, value in baseline.items()),
        ok=case.ok,
        failed=case.failed,
        unsupported=case.unsupported,
        throughput=find(estimates, "throughput"),
        copied=copied,
        copied_words=copied_words(copied),
        cpu=measured_rows(cpu_rows(estimates)),
        metrics=others(estimates),
    )


def run_content(page: RunPage, answer: Answer) -> RunContent:
    """Return the content of a run's page."""
    cases = case_rows(page.cases, baseline_of(page.experiment.resolved))
    names = {row.plan_key: row.name for row in cases} | _twin_names(page.cases)
    waits = "not needed" if page.run.outcome == "finished" else "planned"
    return RunContent(
        run=page.run,
        errata=page.errata,
        seed=page.seed,
        answer=answer,
        cases=cases,
        flags=_flags(page.readings),
        reasons=_reasons(page.plan),
        plan=tuple(_place_row(place, names, waits) for place in page.plan),
        next_position=page.next_position,
        hosts=host_refs(page.environments),
        readings=tuple(Reading(groups(reading)) for reading in page.readings),
        settings=groups(_settings(page.experiment.resolved)),
    )


def _flags(readings: Sequence[Facts]) -> tuple[FlagLine, ...]:
    return tuple(
        FlagLine(flag.code, sentence(flag.code), flag.detail) for flag in run_flags(readings)
    )


def baseline_of(resolved: Facts) -> Mapping[str, FactorValue]:
    """Return the factor values that make a case the baseline; empty without a comparison."""
    compare = resolved.get("compare")
    baseline = compare.get("baseline") if isinstance(compare, Mapping) else None
    return dict(baseline) if isinstance(baseline, Mapping) else {}  # type: ignore[arg-type]


def _settings(resolved: Facts) -> dict[str, Json]:
    return {key: value for key, value in resolved.items() if key not in ("name", "question")}


def _twin_names(cases: Sequence[RunCase]) -> dict[str, str]:
    """Return plan key -> the name of a twin: the one of its case, said to be the twin."""
    names = naming_factors([case.factors for case in real_cases(cases)])
    return {
        case.plan_key: f"{case_label(case.factors, names)} · twin"
        for case in cases
        if is_twin(case.factors)
    }


def _place_row(place: PlanPlace, names: Mapping[str, str], waits: str) -> PlaceRow:
    return PlaceRow(
        place.position,
        place.block,
        place.repetition,
        names.get(place.plan_key, place.plan_key),
        place.attempts,
        waits,
    )


def _reasons(plan: Sequence[PlanPlace]) -> tuple[tuple[str, int], ...]:
    """Return why attempts are not ok, the most frequent first."""
    counted: dict[str, int] = {}
    for place in plan:
        for trial in place.attempts:
            if trial.reason:
                text = f"{trial.status}: {trial.reason}"
                counted[text] = counted.get(text, 0) + 1
    return tuple(sorted(counted.items(), key=lambda entry: -entry[1]))


def figures(cases: Sequence[RunCase], metrics: Sequence[tuple[str, str]]) -> tuple[Figure, ...]:
    """Return the chart of each (metric, method) that any case measured, twins left out."""
    found = []
    for metric, method in metrics:
        rows = [
            row for case in real_cases(cases) if (row := _values(case, metric, method)) is not None
        ]
        if rows:
            found.append(comparison(metric.replace("_", "-"), metric, method, rows))
    return tuple(found)


def side_by_side(changes: Sequence[Figure], values: Sequence[Figure]) -> tuple[Figure, ...]:
    """Return the charts so that each metric's changes stand beside its values, if both fit."""
    if len(changes) != len(values) or any(figure.is_wide for figure in values):
        return (*changes, *values)
    return tuple(figure for pair in zip(changes, values, strict=True) for figure in pair)


def _values(case: RunCase, metric: str, method: str) -> CaseValues | None:
    series = case.find(metric, method)
    if series is None or series.statistic.mean is None:
        return None
    statistic = series.statistic
    values = tuple(value for value in series.kept if value is not None)
    return CaseValues(case.factors, values, series.statistic.mean, statistic.low, statistic.high)
