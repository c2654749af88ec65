"""Finding what an id, or the beginning of one, names."""

from __future__ import annotations

import re

from sqlalchemy import literal, select, union_all
from sqlalchemy.orm import InstrumentedAttribute

from zcdb.errors import UsageError
from zcdb.store.models import (
    CaseRow,
    EntryRow,
    EnvironmentRow,
    ExperimentRow,
    ReportRow,
    RunRow,
    SourceRow,
    TrialRow,
)
from zcdb.store.queries.common import NotFound
from zcdb.store.results import Found
from zcdb.store.session import Database

SHORTEST_PREFIX = 6
"""Digits of an id that are asked for at least."""

_SHOWN = 5
_IDS: dict[str, InstrumentedAttribute[str]] = {
    "run": RunRow.public_id,
    "case": CaseRow.public_id,
    "trial": TrialRow.public_id,
    "environment": EnvironmentRow.public_id,
    "experiment": ExperimentRow.public_id,
    "source": SourceRow.public_id,
    "entry": EntryRow.public_id,
    "report": ReportRow.public_id,
}


def find(db: Database, prefix: str, *, kind: str | None = None) -> Found:
    """Return the one thing whose id begins with `prefix`.

    Args:
        db: where to read.
        prefix: at least `SHORTEST_PREFIX` digits.
        kind: look among things of this kind only.

    Raises:
        UsageError: if it is not the beginning of an id, or of several.
        NotFound: if nothing has such an id.
    """
    prefix = prefix.lower()
    if not re.fullmatch(r"[0-9a-f-]+", prefix) or len(prefix) < SHORTEST_PREFIX:
        raise UsageError(
            f"{prefix!r} is not an id: write at least {SHORTEST_PREFIX} of its hex digits",
            hint="'zcdb list' shows the ids of runs, 'zcdb show RUN' those of its trials.",
        )
    kinds = [kind] if kind else list(_IDS)
    with db.reading() as session:
        # SQLite uses the index for GLOB, and for LIKE only with another collation.
        sqlite = session.get_bind().dialect.name == "sqlite"
        begins = [
            select(literal(name).label("kind"), _IDS[name].label("id"))
            .where(_IDS[name].op("GLOB")(f"{prefix}*") if sqlite else _IDS[name].like(f"{prefix}%"))
            .limit(_SHOWN + 1)
            .subquery()
            .select()
            for name in kinds
        ]
        found = [Found(name, id) for name, id in session.execute(union_all(*begins))]
    if not found:
        raise NotFound(kind or "result", prefix, db.name)
    if len(found) > 1:
        named = ", ".join(f"{thing.kind} {thing.id}" for thing in found[:_SHOWN])
        more = " and more" if len(found) > _SHOWN else ""
        raise UsageError(f"{prefix!r} is the beginning of several ids: {named}{more}")
    return found[0]
