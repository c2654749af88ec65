"""The first page, and the list of all runs."""

from __future__ import annotations

from sqlalchemy import exists, func, select, tuple_
from sqlalchemy.orm import Session

from zcdb.store.models import (
    CaseRow,
    EntryRow,
    EnvironmentRow,
    ExperimentRow,
    RunRow,
    TrialRow,
)
from zcdb.store.queries.common import NotFound
from zcdb.store.queries.lines import run_lines
from zcdb.store.results import Counts, Home, RunList
from zcdb.store.session import Database


def home(db: Database, *, limit: int = 10) -> Home:
    """Return what is new: `limit` runs, and as many finished runs of different experiments."""
    with db.reading() as session:
        newest = select(RunRow.id).order_by(RunRow.started_at.desc(), RunRow.id.desc())
        of_name = func.row_number().over(
            partition_by=ExperimentRow.name, order_by=(RunRow.started_at.desc(), RunRow.id.desc())
        )
        finished = (
            select(RunRow.id, RunRow.started_at, of_name.label("place"))
            .join(ExperimentRow, ExperimentRow.id == RunRow.experiment_id)
            .where(RunRow.outcome == "finished")
            .subquery()
        )
        answered = (
            select(finished.c.id)
            .where(finished.c.place == 1)
            .order_by(finished.c.started_at.desc(), finished.c.id.desc())
        )
        return Home(
            counts=_counts(session),
            runs=tuple(run_lines(session, newest.limit(limit))),
            answered=tuple(run_lines(session, answered.limit(limit))),
        )


def _counts(session: Session) -> Counts:
    # An experiment that was changed has several rows, one a version.
    experiments = select(func.count(ExperimentRow.name.distinct())).scalar_subquery()
    # Cases of published results are not counted among those that were measured here.  They are
    # few: to look at every case would take as long as there are cases.
    is_measured = exists().where(TrialRow.case_id == EntryRow.case_id)
    published = select(func.count(EntryRow.case_id.distinct())).where(~is_measured)
    measured = (
        select(func.count()).select_from(CaseRow).scalar_subquery() - published.scalar_subquery()
    )
    runs, trials, environments = (
        select(func.count()).select_from(table).scalar_subquery()
        for table in (RunRow, TrialRow, EnvironmentRow)
    )
    counted = select(experiments, runs, measured, trials, environments)
    return Counts(*session.execute(counted).one())


def run_list(db: Database, *, after: str | None = None, limit: int = 50) -> RunList:
    """Return runs, newest first, from the one after run `after` on.

    Raises:
        NotFound: if there is no run `after`.
    """
    with db.reading() as session:
        chosen = select(RunRow.id).order_by(RunRow.started_at.desc(), RunRow.id.desc())
        if after is not None:
            key = session.execute(
                select(RunRow.started_at, RunRow.id).where(RunRow.public_id == after)
            ).one_or_none()
            if key is None:
                raise NotFound("run", after, db.name)
            chosen = chosen.where(tuple_(RunRow.started_at, RunRow.id) < tuple(key))
        runs = run_lines(session, chosen.limit(limit + 1))
        next_after = runs[limit - 1].id if len(runs) > limit else None
        return RunList(tuple(runs[:limit]), next_after)
