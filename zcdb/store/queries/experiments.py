"""The list of experiments, and an experiment's page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, case, func, select
from sqlalchemy.orm import Session

from zcdb.store.cases import factors_from_json
from zcdb.store.models import (
    CaseRow,
    ExperimentRow,
    PlannedCaseRow,
    PlannedTrialRow,
    RunRow,
    TrialRow,
)
from zcdb.store.queries.common import RUNS_SHOWN, NotFound
from zcdb.store.queries.lines import experiment_text, run_lines
from zcdb.store.results import (
    CoverageLine,
    ExperimentLine,
    ExperimentList,
    ExperimentPage,
    VersionLine,
)
from zcdb.store.session import Database
from zcdb.store.write import INTERRUPTED


def experiment_list(db: Database, *, after: str | None = None, limit: int = 50) -> ExperimentList:
    """Return experiments by name, from the one after the name `after` on."""
    with db.reading() as session:
        names = select(ExperimentRow.name).distinct().order_by(ExperimentRow.name).limit(limit + 1)
        if after is not None:
            names = names.where(ExperimentRow.name > after)
        versions = _versions(session, ExperimentRow.name.in_(names.subquery().select()))
        newest_runs = run_lines(session, _newest_run_of_each(names))
        newest_run = {run.experiment_name: run for run in newest_runs}
        by_name: dict[str, list[Row[Any]]] = defaultdict(list)
        for version in versions:
            by_name[version.name].append(version)
        lines = [
            ExperimentLine(
                name=name,
                id=of_name[0].public_id,
                question=of_name[0].question,
                versions=len(of_name),
                runs=sum(version.runs for version in of_name),
                newest_run=newest_run.get(name),
            )
            for name, of_name in sorted(by_name.items())
        ]
        next_after = lines[limit - 1].name if len(lines) > limit else None
        return ExperimentList(tuple(lines[:limit]), next_after)


def _versions(session: Session, where: Any) -> list[Row[Any]]:
    """Return versions with their number of runs and newest run, the newest version first."""
    newest = func.max(RunRow.started_at)
    return list(
        session.execute(
            select(
                ExperimentRow.id,
                ExperimentRow.public_id,
                ExperimentRow.name,
                ExperimentRow.question,
                func.count(RunRow.id).label("runs"),
                newest.label("newest_run_at"),
            )
            .outerjoin(RunRow, RunRow.experiment_id == ExperimentRow.id)
            .where(where)
            .group_by(ExperimentRow.id)
            .order_by(newest.desc().nulls_last(), ExperimentRow.id.desc())
        )
    )


def _newest_run_of_each(names: Any) -> Any:
    place = func.row_number().over(
        partition_by=ExperimentRow.name, order_by=(RunRow.started_at.desc(), RunRow.id.desc())
    )
    ranked = (
        select(RunRow.id, place.label("place"))
        .join(ExperimentRow, ExperimentRow.id == RunRow.experiment_id)
        .where(ExperimentRow.name.in_(names.subquery().select()))
        .subquery()
    )
    return select(ranked.c.id).where(ranked.c.place == 1)


def experiment_page(db: Database, name: str, *, version: str | None = None) -> ExperimentPage:
    """Return an experiment.

    Args:
        db: where to read.
        name: the experiment's name.
        version: id of one version; None for the one that was run last.

    Raises:
        NotFound: if there is no experiment of that name, or it has no such version.
    """
    with db.reading() as session:
        versions = _versions(session, ExperimentRow.name == name)
        chosen = [row for row in versions if version in (None, row.public_id)]
        if not chosen:
            wanted = name if version is None else f"{name} with the id {version}"
            raise NotFound("experiment", wanted, db.name)
        row_id = chosen[0].id
        of_name = select(ExperimentRow.id).where(ExperimentRow.name == name)
        runs = (
            select(RunRow.id)
            .where(RunRow.experiment_id.in_(of_name))
            .order_by(RunRow.started_at.desc(), RunRow.id.desc())
            .limit(RUNS_SHOWN)
        )
        return ExperimentPage(
            experiment=experiment_text(session.get_one(ExperimentRow, row_id)),
            versions=tuple(
                VersionLine(row.public_id, row.runs, row.newest_run_at) for row in versions
            ),
            coverage=_coverage(session, row_id),
            runs=tuple(run_lines(session, runs)),
            answer_run_id=_answer(session, row_id),
        )


def experiment_of_version(db: Database, version: str) -> ExperimentPage:
    """Return the experiment that has a version of this id, at that version.

    Raises:
        NotFound: if there is none.
    """
    with db.reading() as session:
        name = session.scalar(select(ExperimentRow.name).where(ExperimentRow.public_id == version))
    if name is None:
        raise NotFound("experiment", version, db.name)
    return experiment_page(db, name, version=version)


def _answer(session: Session, experiment_id: int) -> str | None:
    """Return the newest finished run of a version, else its newest run."""
    return session.scalar(
        select(RunRow.public_id)
        .where(RunRow.experiment_id == experiment_id)
        .order_by(
            case((RunRow.outcome == "finished", 0), else_=1),
            RunRow.started_at.desc(),
            RunRow.id.desc(),
        )
        .limit(1)
    )


def _coverage(session: Session, experiment_id: int) -> tuple[CoverageLine, ...]:
    """Return what is declared against what the newest runs measured; three statements."""
    of_experiment = (
        select(RunRow.id)
        .where(RunRow.experiment_id == experiment_id)
        .order_by(RunRow.started_at.desc(), RunRow.id.desc())
        .limit(RUNS_SHOWN)
    )
    cases = session.execute(
        select(
            PlannedCaseRow.plan_key,
            func.min(PlannedCaseRow.factors_json).label("factors_json"),
            func.min(PlannedCaseRow.position).label("place"),
        )
        .where(PlannedCaseRow.run_id.in_(of_experiment))
        .group_by(PlannedCaseRow.plan_key)
        .order_by("place", PlannedCaseRow.plan_key)
    ).all()
    planned = session.execute(
        select(PlannedTrialRow.plan_key, func.count().label("places"))
        .where(PlannedTrialRow.run_id.in_(of_experiment))
        .group_by(PlannedTrialRow.plan_key)
    ).all()
    measured = session.execute(
        select(TrialRow.plan_key, CaseRow.public_id, TrialRow.status, func.count().label("n"))
        .join(CaseRow, CaseRow.id == TrialRow.case_id)
        .where(
            TrialRow.run_id.in_(of_experiment),
            TrialRow.reason.is_distinct_from(INTERRUPTED),
        )
        .group_by(TrialRow.plan_key, CaseRow.public_id, TrialRow.status)
        .order_by(func.min(TrialRow.id))
    ).all()
    places = {row.plan_key: row.places for row in planned}
    by_case: dict[str, list[Any]] = defaultdict(list)
    for row in measured:
        by_case[row.plan_key].append(row)
    return tuple(
        _coverage_line(case, places.get(case.plan_key, 0), by_case[case.plan_key]) for case in cases
    )


def _coverage_line(planned_case: Any, planned: int, of_case: Sequence[Any]) -> CoverageLine:
    ended = {
        status: sum(row.n for row in of_case if row.status == status)
        for status in ("ok", "failed", "unsupported")
    }
    return CoverageLine(
        plan_key=planned_case.plan_key,
        factors=factors_from_json(planned_case.factors_json),
        case_ids=tuple(dict.fromkeys(row.public_id for row in of_case)),
        planned=planned,
        **ended,
    )
