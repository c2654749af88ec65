"""The pages of experiments: the list, and one with its answer, coverage and runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zcdb.factors import FactorValue
from zcdb.report.twins import is_twin
from zcdb.store.queries.common import RUNS_SHOWN
from zcdb.store.results import (
    CoverageLine,
    ExperimentLine,
    ExperimentPage,
    RunLine,
    VersionLine,
)
from zcdb.webapp.labels import case_label, naming_factors
from zcdb.webapp.present.answer import Answer
from zcdb.webapp.present.run import CaseRow


@dataclass(frozen=True, slots=True)
class ExperimentsContent:
    """The list of experiments."""

    experiments: tuple[ExperimentLine, ...]
    next_after: str | None


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """A declared case against what was measured of it."""

    plan_key: str
    name: str
    factors: Mapping[str, FactorValue]
    case_ids: tuple[str, ...]
    planned: int
    ok: int
    failed: int
    unsupported: int


@dataclass(frozen=True, slots=True)
class ExperimentContent:
    """All that an experiment's page says.

    Attributes:
        answer: of the newest finished run; None if it was never run.
        cases: of the same run.
        covered_by: the runs that `coverage` counts, in words.
        text: the experiment file as written.
    """

    name: str
    id: str
    question: str
    answer_run: RunLine | None
    answer: Answer | None
    cases: tuple[CaseRow, ...]
    coverage: tuple[CoverageRow, ...]
    covered_by: str
    declared: int
    measured: int
    runs: tuple[RunLine, ...]
    versions: tuple[VersionLine, ...]
    text: str


def experiment_content(
    page: ExperimentPage,
    run: RunLine | None,
    found: Answer | None,
    cases: tuple[CaseRow, ...],
) -> ExperimentContent:
    """Return the content of an experiment's page.

    Args:
        page: the experiment.
        run, found, cases: the run that answers it, its answer and its cases.
    """
    declared = [line for line in page.coverage if not is_twin(line.factors)]
    names = naming_factors([line.factors for line in declared])
    coverage = tuple(_coverage_row(line, names) for line in declared)
    return ExperimentContent(
        name=page.experiment.name,
        id=page.experiment.id,
        question=page.experiment.question,
        answer_run=run,
        answer=found,
        cases=cases,
        coverage=coverage,
        covered_by=_covered_by(page),
        declared=len(coverage),
        measured=sum(row.ok > 0 for row in coverage),
        runs=page.runs,
        versions=page.versions,
        text=page.experiment.text,
    )


def _covered_by(page: ExperimentPage) -> str:
    runs = next(one.runs for one in page.versions if one.id == page.experiment.id)
    return f"the newest {RUNS_SHOWN} of {runs} runs" if runs > RUNS_SHOWN else "all runs"


def _coverage_row(line: CoverageLine, names: list[str]) -> CoverageRow:
    return CoverageRow(
        line.plan_key,
        case_label(line.factors, names),
        line.factors,
        line.case_ids,
        line.planned,
        line.ok,
        line.failed,
        line.unsupported,
    )
