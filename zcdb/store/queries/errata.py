"""Errata of the things that a page shows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from zcdb.store.models import ErratumRow
from zcdb.store.queries.common import Retracted
from zcdb.store.results import Erratum
from zcdb.store.session import Database


def errata_of(db: Database, object_id: str) -> tuple[Erratum, ...]:
    """Return the errata about one thing, oldest first; empty where there is none."""
    with db.reading() as session:
        return errata_lines(session, [object_id]).get(object_id, ())


def errata_lines(session: Session, object_ids: Sequence[str]) -> dict[str, tuple[Erratum, ...]]:
    """Return id -> the errata about it, oldest first; one statement."""
    found: dict[str, list[Erratum]] = defaultdict(list)
    rows = session.scalars(
        select(ErratumRow).where(ErratumRow.object_id.in_(object_ids)).order_by(ErratumRow.id)
    )
    for row in rows:
        found[row.object_id].append(
            Erratum(
                id=row.public_id,
                kind=row.kind,
                object_kind=row.object_kind,
                object_id=row.object_id,
                metric=row.metric,
                method=row.method,
                old=row.old_value,
                new=row.new_value,
                reason=row.reason,
                by=row.written_by,
                at=row.written_at,
                successor=row.successor,
            )
        )
    return {object_id: tuple(errata) for object_id, errata in found.items()}


def standing(session: Session, kind: str, object_id: str) -> tuple[Erratum, ...]:
    """Return the errata about one thing; one statement.

    Raises:
        Retracted: if it was taken back.
    """
    errata = errata_lines(session, [object_id]).get(object_id, ())
    for erratum in errata:
        if erratum.kind == "retracted":
            raise Retracted(kind, object_id, erratum)
    return errata
