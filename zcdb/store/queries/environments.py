"""An environment's page."""

from __future__ import annotations

import json

from sqlalchemy import func, or_, select

from zcdb.store.models import EnvironmentRow, RunRow, TrialRow
from zcdb.store.queries.common import RUNS_SHOWN, NotFound
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
        is_here = or_(
            TrialRow.sender_environment_id == row.id, TrialRow.receiver_environment_id == row.id
        )
        trials, first_at, last_at = session.execute(
            select(
                func.count(), func.min(TrialRow.started_at), func.max(TrialRow.started_at)
            ).where(is_here)
        ).one()
        of_environment = select(TrialRow.run_id).where(is_here)
        runs = (
            select(RunRow.id)
            .where(RunRow.id.in_(of_environment))
            .order_by(RunRow.started_at.desc(), RunRow.id.desc())
            .limit(RUNS_SHOWN)
        )
        return EnvironmentPage(
            id=row.public_id,
            facts=json.loads(row.facts_json),
            trials=trials,
            first_at=first_at,
            last_at=last_at,
            runs=tuple(run_lines(session, runs)),
        )
