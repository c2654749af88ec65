"""What each run measured in each environment: counted with every trial, and rebuildable.

    count_use(session, run, [sender, receiver], at)    one more trial
    refresh_uses(session, runs)                        from all trials of some runs

Knows trials by run and environment alone; neither cases nor values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from sqlalchemy import Select, delete, func, insert, literal, select
from sqlalchemy.orm import Session

from zcdb.store.models import EnvironmentUseRow, TrialRow
from zcdb.store.upsert import batched, upsert

_COLUMNS = (
    EnvironmentUseRow.environment_id,
    EnvironmentUseRow.run_id,
    EnvironmentUseRow.trials,
    EnvironmentUseRow.first_at,
    EnvironmentUseRow.last_at,
)


def count_use(
    session: Session, run_id: int, environments: Iterable[int | None], at: datetime
) -> None:
    """Count one more trial of a run, started at `at` in these environments."""
    ends = {end for end in environments if end is not None}
    stored = {
        row.environment_id: row
        for row in session.execute(
            select(*_COLUMNS).where(
                EnvironmentUseRow.run_id == run_id, EnvironmentUseRow.environment_id.in_(ends)
            )
        )
    }
    rows = [
        {
            "environment_id": end,
            "run_id": run_id,
            "trials": stored[end].trials + 1 if end in stored else 1,
            "first_at": min(stored[end].first_at, at) if end in stored else at,
            "last_at": max(stored[end].last_at, at) if end in stored else at,
        }
        for end in sorted(ends)
    ]
    upsert(session, EnvironmentUseRow, rows)


def refresh_uses(session: Session, run_ids: Collection[int]) -> None:
    """Count the trials of some runs anew."""
    for some in batched(sorted(run_ids)):
        session.execute(delete(EnvironmentUseRow).where(EnvironmentUseRow.run_id.in_(some)))
        counted = _counted(some)
        session.execute(insert(EnvironmentUseRow).from_select(list(_COLUMNS), counted))


def _counted(run_ids: Collection[int]) -> Select[int, int, int, datetime, datetime]:
    """Return what the rows of some runs should hold."""
    sender, receiver = TrialRow.sender_environment_id, TrialRow.receiver_environment_id
    ends = [
        select(column.label("environment_id"), TrialRow.run_id, TrialRow.started_at).where(
            TrialRow.run_id.in_(run_ids), column.is_not(None), is_other
        )
        for column, is_other in (
            (sender, literal(True)),
            (receiver, receiver.is_distinct_from(sender)),
        )
    ]
    used = ends[0].union_all(ends[1]).subquery()
    started_at = used.c.started_at
    return select(
        used.c.environment_id,
        used.c.run_id,
        func.count(),
        func.min(started_at),
        func.max(started_at),
    ).group_by(used.c.environment_id, used.c.run_id)


def outdated_uses(session: Session, run_ids: Collection[int]) -> list[int]:
    """Return the runs among some whose rows are not what their trials say."""
    found: set[int] = set()
    for some in batched(sorted(run_ids)):
        stored = select(*_COLUMNS).where(EnvironmentUseRow.run_id.in_(some))
        have, should = (
            {(row[0], row[1], row[2], row[3], row[4]) for row in session.execute(asked)}
            for asked in (stored, _counted(some))
        )
        found |= {run_id for _, run_id, *_ in have ^ should}
    return sorted(found)
