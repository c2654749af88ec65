"""An environment's page, and when and by which runs environments were measured in."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from datetime import datetime

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from zcdb.store.models import EnvironmentRow, EnvironmentUseRow
from zcdb.store.queries.common import RUNS_SHOWN, NotFound, among
from zcdb.store.queries.lines import run_lines
from zcdb.store.results import EnvironmentPage
from zcdb.store.session import Database


def environment_page(db: Database, environment_id: str) -> EnvironmentPage:
    """Return the facts of a host and where they were met.

    Raises:
        NotFound: if there is no such environment.
    """
    with db.reading() as session:
        row = session.scalars(
            select(EnvironmentRow).where(EnvironmentRow.public_id == environment_id)
        ).one_or_none()
        if row is None:
            raise NotFound("environment", environment_id, db.name)
        trials, first_at, last_at = uses(session, [row.id]).get(row.id, (0, None, None))
        return EnvironmentPage(
            id=row.public_id,
            facts=json.loads(row.facts_json),
            trials=trials,
            first_at=first_at,
            last_at=last_at,
            runs=tuple(run_lines(session, runs_at([row.id]))),
        )


def uses(
    session: Session, keys: Collection[int]
) -> dict[int, tuple[int, datetime | None, datetime | None]]:
    """Return environment -> trials there, and when the first and last started; one statement."""
    use = EnvironmentUseRow
    rows = session.execute(
        select(
            use.environment_id, func.sum(use.trials), func.min(use.first_at), func.max(use.last_at)
        )
        .where(among(session, use.environment_id, keys))
        .group_by(use.environment_id)
    )
    return {key: (int(trials), first_at, last_at) for key, trials, first_at, last_at in rows}


def runs_at(keys: Iterable[int]) -> Select[int]:
    """Return what selects the runs that measured last in some environments."""
    use = EnvironmentUseRow
    newest = func.max(use.last_at)
    return (
        select(use.run_id)
        .where(use.environment_id.in_(list(keys)))
        .group_by(use.run_id)
        .order_by(newest.desc(), use.run_id.desc())
        .limit(RUNS_SHOWN)
    )
