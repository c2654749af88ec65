"""Rows that several pages list: runs, trials, environments, measurements.

Every function here issues a fixed number of statements, also for nothing.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any, cast

from sqlalchemy import ColumnElement, Select, case, func, literal, select
from sqlalchemy.orm import Session, aliased

from zcdb.metrics import CPU_METHODS, METRICS
from zcdb.records import End, Status
from zcdb.store import values as blobs
from zcdb.store.models import (
    CaseRow,
    EnvironmentRow,
    ExclusionRow,
    ExperimentRow,
    FlagRow,
    MeasurementRow,
    NoteRow,
    PlannedTrialRow,
    RunRow,
    SummaryRow,
    TrialRow,
)
from zcdb.store.queries.common import among
from zcdb.store.results import (
    EnvironmentLine,
    ExperimentText,
    RunLine,
    Series,
    Statistic,
    TrialCounts,
    TrialLine,
)
from zcdb.store.write import INTERRUPTED

_METRIC_ORDER = {name: place for place, name in enumerate(METRICS)}
_METHOD_ORDER = {name: place for place, name in enumerate(["", *CPU_METHODS])}


def registry_order(metric: str, method: str) -> tuple[int, int, str, str]:
    """Return the key that sorts metrics as the registry lists them, unknown ones last."""
    last = len(_METRIC_ORDER)
    place = _METRIC_ORDER.get(metric, last), _METHOD_ORDER.get(method, last)
    return *place, metric, method


def experiment_text(row: ExperimentRow) -> ExperimentText:
    """Return a version of an experiment as stored."""
    return ExperimentText(
        id=row.public_id,
        name=row.name,
        question=row.question,
        text=row.text,
        resolved=json.loads(row.resolved_json),
    )


def run_lines(session: Session, chosen: Select[int]) -> list[RunLine]:
    """Return runs, newest first; three statements.

    Args:
        session: where to read.
        chosen: selects the keys of the runs.
    """
    newest_note = (
        select(NoteRow.text)
        .where(NoteRow.run_id == RunRow.id)
        .order_by(NoteRow.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    rows = session.execute(
        select(RunRow, ExperimentRow, newest_note.label("note"))
        .join(ExperimentRow, ExperimentRow.id == RunRow.experiment_id)
        .where(RunRow.id.in_(chosen))
        .order_by(RunRow.started_at.desc(), RunRow.id.desc())
    ).all()
    counts = _trial_counts(session, [run.id for run, _, _ in rows])
    return [
        RunLine(
            id=run.public_id,
            experiment_name=experiment.name,
            experiment_id=experiment.public_id,
            question=experiment.question,
            started_at=run.started_at,
            ended_at=run.ended_at,
            outcome=cast(Any, run.outcome),
            zcdb_version=run.zcdb_version,
            note=note or "",
            counts=counts[run.id],
        )
        for run, experiment, note in rows
    ]


def _trial_counts(session: Session, run_ids: Sequence[int]) -> dict[int, TrialCounts]:
    planned = session.execute(
        select(PlannedTrialRow.run_id, func.count())
        .where(PlannedTrialRow.run_id.in_(run_ids))
        .group_by(PlannedTrialRow.run_id)
    ).all()
    how = case((TrialRow.reason == INTERRUPTED, INTERRUPTED), else_=TrialRow.status)
    ended = session.execute(
        select(TrialRow.run_id, how.label("how"), func.count(), func.count(ExclusionRow.trial_id))
        .outerjoin(ExclusionRow, ExclusionRow.trial_id == TrialRow.id)
        .where(TrialRow.run_id.in_(run_ids))
        .group_by(TrialRow.run_id, how)
    ).all()
    by_run: dict[int, dict[str, int]] = {run_id: defaultdict(int) for run_id in run_ids}
    for run_id, count in planned:
        by_run[run_id]["planned"] = count
    for run_id, status, count, excluded in ended:
        by_run[run_id][status] = count
        by_run[run_id]["excluded"] += excluded
    names = ("planned", "ok", "failed", "unsupported", "running", "interrupted", "excluded")
    return {
        run_id: TrialCounts(**{name: counts[name] for name in names})
        for run_id, counts in by_run.items()
    }


def trial_lines(
    session: Session,
    *where: ColumnElement[bool],
    order: Sequence[Any],
    limit: int | None = None,
) -> dict[int, TrialLine]:
    """Return the key and the line of each trial that fits `where`, in `order`; two statements."""
    sender, receiver = aliased(EnvironmentRow), aliased(EnvironmentRow)
    rows = session.execute(
        select(
            TrialRow,
            RunRow.public_id,
            CaseRow.public_id,
            sender.public_id,
            receiver.public_id,
            ExclusionRow.reason,
        )
        .join(RunRow, RunRow.id == TrialRow.run_id)
        .join(CaseRow, CaseRow.id == TrialRow.case_id)
        .outerjoin(sender, sender.id == TrialRow.sender_environment_id)
        .outerjoin(receiver, receiver.id == TrialRow.receiver_environment_id)
        .outerjoin(ExclusionRow, ExclusionRow.trial_id == TrialRow.id)
        .where(*where)
        .order_by(*order)
        .limit(limit)
    ).all()
    codes = _flag_codes(session, [row[0].id for row in rows])
    return {
        trial.id: _trial_line(
            trial,
            run_id,
            case_id,
            {"sender": at_sender, "receiver": at_receiver},
            codes.get(trial.id, ()),
            excluded,
        )
        for trial, run_id, case_id, at_sender, at_receiver, excluded in rows
    }


def _trial_line(
    trial: TrialRow,
    run_id: str,
    case_id: str,
    environment_ids: dict[End, str | None],
    flags: Iterable[str],
    excluded: str | None,
) -> TrialLine:
    return TrialLine(
        id=trial.public_id,
        run_id=run_id,
        case_id=case_id,
        plan_key=trial.plan_key,
        repetition=trial.repetition,
        attempt=trial.attempt,
        block=trial.block,
        position=trial.position,
        status=cast(Status, trial.status),
        reason=trial.reason,
        started_at=trial.started_at,
        ended_at=trial.ended_at,
        window_ns=trial.window_ns,
        flags=tuple(flags),
        excluded=excluded,
        environment_ids={end: id for end, id in environment_ids.items() if id is not None},
    )


def _flag_codes(session: Session, trial_ids: Collection[int]) -> dict[int, tuple[str, ...]]:
    codes: dict[int, dict[str, None]] = defaultdict(dict)
    rows = session.execute(
        select(FlagRow.trial_id, FlagRow.code)
        .where(FlagRow.trial_id.in_(trial_ids))
        .order_by(FlagRow.trial_id, FlagRow.position)
    )
    for trial_id, code in rows:
        codes[trial_id][code] = None
    return {trial_id: tuple(once) for trial_id, once in codes.items()}


def environment_lines(session: Session, *where: ColumnElement[bool]) -> list[EnvironmentLine]:
    """Return the environments of the trials that fit `where`, by id; one statement."""
    ends: dict[str, set[str]] = defaultdict(set)
    facts: dict[str, str] = {}
    at_end = [
        select(EnvironmentRow.public_id, EnvironmentRow.facts_json, name)
        .join(TrialRow, column == EnvironmentRow.id)
        .where(*where)
        .distinct()
        for column, name in (
            (TrialRow.sender_environment_id, literal("sender").label("end")),
            (TrialRow.receiver_environment_id, literal("receiver").label("end")),
        )
    ]
    for public_id, facts_json, end in session.execute(at_end[0].union_all(at_end[1])):
        ends[public_id].add(end)
        facts[public_id] = facts_json
    return [
        EnvironmentLine(
            id=public_id,
            facts=json.loads(facts[public_id]),
            ends=cast(tuple[End, ...], tuple(sorted(ends[public_id], reverse=True))),
        )
        for public_id in sorted(facts)
    ]


def statistics_of_cases(
    session: Session, keys: Collection[int], *where: ColumnElement[bool]
) -> dict[int, tuple[Statistic, ...]]:
    """Return case -> what it measured over all runs and sources, registry order; one statement.

    Args:
        keys: of the cases; each of them is in what comes back.
        where: which summaries are wanted.
    """
    row = SummaryRow
    found: dict[int, list[Statistic]] = {key: [] for key in keys}
    # Plain rows: an object of the session each would cost as much as all the rest.
    rows = session.execute(
        select(
            *(row.case_id, row.metric, row.method, row.n, row.mean, row.sd, row.low, row.high),
            *(row.reason, row.runs, row.entries),
        ).where(among(session, row.case_id, keys), *where)
    )
    for case_id, metric, method, n, mean, sd, *rest in rows:
        # No median: a summary would have to look at every value again for one.
        found[case_id].append(Statistic(metric, method, n, mean, None, sd, *rest))
    return {
        key: tuple(sorted(some, key=lambda one: registry_order(one.metric, one.method)))
        for key, some in found.items()
    }


def series_by_case(session: Session, run_id: int) -> dict[int, tuple[Series, ...]]:
    """Return case -> its series in a run, registry order; two statements."""
    excluded: dict[int, set[int]] = defaultdict(set)
    for case_id, repetition in session.execute(
        select(TrialRow.case_id, TrialRow.repetition)
        .join(ExclusionRow, ExclusionRow.trial_id == TrialRow.id)
        .where(TrialRow.run_id == run_id, TrialRow.status == "ok")
    ):
        excluded[case_id].add(repetition)
    row = MeasurementRow
    # Plain rows: an object of the session each would cost as much as all the rest.
    rows = session.execute(
        select(
            *(row.case_id, row.values_f64, row.metric, row.method),
            *(row.n, row.mean, row.median, row.sd, row.low, row.high, row.reason),
        ).where(row.run_id == run_id)
    ).all()
    by_case: dict[int, list[Series]] = defaultdict(list)
    ordered = sorted(rows, key=lambda one: registry_order(one.metric, one.method))
    for case_id, values_f64, metric, method, *numbers in ordered:
        by_case[case_id].append(
            Series(
                values=blobs.decode(values_f64),
                excluded=frozenset(excluded[case_id]),
                statistic=Statistic(metric, method, *numbers),
            )
        )
    return {case_id: tuple(series) for case_id, series in by_case.items()}
