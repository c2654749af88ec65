"""A run's page, and the values of its cases for charts and verdicts."""

from __future__ import annotations

import json
from collections import defaultdict

from sqlalchemy import Row, func, select
from sqlalchemy.orm import Session

from zcdb.store.cases import factors_from_json, observed_from_json
from zcdb.store.models import (
    CaseRow,
    ExperimentRow,
    FlagRow,
    PlannedCaseRow,
    PlannedTrialRow,
    RunRow,
    TrialRow,
)
from zcdb.store.queries.common import NotFound
from zcdb.store.queries.errata import standing
from zcdb.store.queries.lines import (
    environment_lines,
    experiment_text,
    run_lines,
    series_by_case,
    trial_lines,
)
from zcdb.store.results import PlanPlace, RunCase, RunOutcome, RunPage, Series, TrialLine
from zcdb.store.session import Database
from zcdb.store.write import INTERRUPTED


def _run_row(session: Session, run_id: str, db: Database) -> RunRow:
    row = session.scalars(select(RunRow).where(RunRow.public_id == run_id)).one_or_none()
    if row is None:
        raise NotFound("run", run_id, db.name)
    return row


def run_page(db: Database, run_id: str, *, from_position: int = 0, limit: int = 500) -> RunPage:
    """Return a run, with `limit` places of its plan from `from_position` on.

    Raises:
        NotFound: if there is no such run.
        Retracted: if it was taken back.
    """
    with db.reading() as session:
        row = _run_row(session, run_id, db)
        errata = standing(session, "run", run_id)
        plan = _plan(session, row.id, from_position, limit + 1)
        return RunPage(
            run=run_lines(session, select(RunRow.id).where(RunRow.id == row.id))[0],
            experiment=experiment_text(session.get_one(ExperimentRow, row.experiment_id)),
            seed=row.seed,
            readings=tuple(json.loads(row.readings_json)),
            cases=_cases(session, row.id),
            plan=plan[:limit],
            next_position=plan[limit].position if len(plan) > limit else None,
            environments=tuple(environment_lines(session, TrialRow.run_id == row.id)),
            errata=errata,
        )


def run_outcome(db: Database, run_id: str) -> RunOutcome:
    """Return a run with the values of its cases: what a chart or a verdict needs.

    Raises:
        NotFound: if there is no such run.
    """
    with db.reading() as session:
        row = _run_row(session, run_id, db)
        return RunOutcome(
            run=run_lines(session, select(RunRow.id).where(RunRow.id == row.id))[0],
            experiment=experiment_text(session.get_one(ExperimentRow, row.experiment_id)),
            cases=_cases(session, row.id),
        )


def _plan(session: Session, run_id: int, from_position: int, limit: int) -> tuple[PlanPlace, ...]:
    places = session.scalars(
        select(PlannedTrialRow)
        .where(PlannedTrialRow.run_id == run_id, PlannedTrialRow.position >= from_position)
        .order_by(PlannedTrialRow.position)
        .limit(limit)
    ).all()
    last = places[-1].position if places else from_position
    attempts: dict[int, list[TrialLine]] = defaultdict(list)
    lines = trial_lines(
        session,
        TrialRow.run_id == run_id,
        TrialRow.position.between(from_position, last),
        order=(TrialRow.position, TrialRow.attempt),
    )
    for line in lines.values():
        attempts[line.position].append(line)
    return tuple(
        PlanPlace(
            position=place.position,
            block=place.block,
            plan_key=place.plan_key,
            repetition=place.repetition,
            attempts=tuple(attempts[place.position]),
        )
        for place in places
    )


def _cases(session: Session, run_id: int) -> tuple[RunCase, ...]:
    """Return the cases of a run in the order of its declaration; five statements."""
    planned = session.scalars(
        select(PlannedCaseRow)
        .where(PlannedCaseRow.run_id == run_id)
        .order_by(PlannedCaseRow.position)
    ).all()
    ended = _endings(session, run_id)
    flags = _flag_counts(session, run_id)
    series = series_by_case(session, run_id)
    return tuple(
        _run_case(case, endings, flags, series)
        for case in planned
        for endings in ended.get(case.plan_key, {None: []}).values()
    )


Ending = Row[str, int, str, str, str, str | None, int]


def _endings(session: Session, run_id: int) -> dict[str, dict[int | None, list[Ending]]]:
    """Return plan key -> case -> how its trials ended; a plan key has a case for each context."""
    rows = session.execute(
        select(
            TrialRow.plan_key,
            CaseRow.id,
            CaseRow.public_id,
            CaseRow.factors_json,
            TrialRow.status,
            TrialRow.reason,
            func.count().label("trials"),
        )
        .join(CaseRow, CaseRow.id == TrialRow.case_id)
        .where(TrialRow.run_id == run_id)
        .group_by(
            TrialRow.plan_key,
            CaseRow.id,
            CaseRow.public_id,
            CaseRow.factors_json,
            TrialRow.status,
            TrialRow.reason,
        )
        .order_by(CaseRow.id, TrialRow.status, TrialRow.reason)
    )
    endings: dict[str, dict[int | None, list[Ending]]] = defaultdict(dict)
    for row in rows:
        endings[row.plan_key].setdefault(row.id, []).append(row)
    return endings


def _flag_counts(session: Session, run_id: int) -> dict[int, dict[str, int]]:
    """Return case -> flag -> trials of the run that raised it."""
    counts: dict[int, dict[str, int]] = defaultdict(dict)
    for case_id, code, trials in session.execute(
        select(TrialRow.case_id, FlagRow.code, func.count(FlagRow.trial_id.distinct()))
        .join(TrialRow, TrialRow.id == FlagRow.trial_id)
        .where(TrialRow.run_id == run_id)
        .group_by(TrialRow.case_id, FlagRow.code)
        .order_by(TrialRow.case_id, FlagRow.code)
    ):
        counts[case_id][code] = trials
    return counts


def _run_case(
    planned: PlannedCaseRow,
    endings: list[Ending],
    flags: dict[int, dict[str, int]],
    series: dict[int, tuple[Series, ...]],
) -> RunCase:
    final = [row for row in endings if row.reason != INTERRUPTED]
    case = endings[0] if endings else None
    ended = {
        status: sum(row.trials for row in final if row.status == status)
        for status in ("ok", "failed", "unsupported")
    }
    return RunCase(
        plan_key=planned.plan_key,
        factors=factors_from_json(planned.factors_json),
        case_id=case.public_id if case else None,
        context=observed_from_json(case.factors_json) if case else {},
        reasons=tuple(dict.fromkeys(row.reason for row in final if row.reason is not None)),
        flags=flags.get(case.id, {}) if case else {},
        series=series.get(case.id, ()) if case else (),
        **ended,
    )
