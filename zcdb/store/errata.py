"""Errata: corrections, doubts and retractions, as rows of their own; nothing is overwritten unseen.

    correct    a figure: the old and the new value are kept, statistics use the new one
    contest    somebody doubts it: it stays, and says so
    retract    it counts no longer, and its address says so

What a trial read stays in its raw counts whatever is corrected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from zcdb.errors import StoreError, UsageError
from zcdb.ids import content_id
from zcdb.metrics import METRICS
from zcdb.store import values as blobs
from zcdb.store.models import (
    EntryRow,
    ErratumRow,
    ExclusionRow,
    MeasurementRow,
    PublishedRow,
    ReportRow,
    RunRow,
    SourceRow,
    TrialRow,
)
from zcdb.store.session import Database
from zcdb.store.statistics import refresh_measurements, refresh_summaries
from zcdb.store.upsert import batched, insert_new

KINDS: dict[str, Any] = {
    "run": RunRow,
    "trial": TrialRow,
    "source": SourceRow,
    "entry": EntryRow,
    "report": ReportRow,
}
"""What an erratum can be about."""


@dataclass(frozen=True, slots=True)
class Correction:
    """A figure that was corrected.

    Attributes:
        unit: base unit of both values.
        old: None where there was no figure.
    """

    object_kind: str
    object_id: str
    metric: str
    method: str
    unit: str
    old: float | None
    new: float


def correct(
    db: Database,
    kind: str,
    object_id: str,
    *,
    metric: str,
    method: str | None = None,
    value: float,
    reason: str,
    by: str,
) -> Correction:
    """Correct a figure of a trial or of an entry; the old value is kept beside the new one.

    Args:
        db: where to write.
        kind: "trial" or "entry".
        object_id: the whole id.
        metric: which figure; with `method` where several methods measured it.
        value: in the metric's base unit.
        reason: why, for everybody who reads the figure.
        by: who says so.

    Raises:
        StoreError: if there is no such thing, or it has no such figure.
        UsageError: if it is not a thing that has figures, or several methods measured it.
    """
    if kind not in ("trial", "entry"):
        raise UsageError(
            f"{kind} {object_id} has no figures of its own",
            hint="Correct a trial, or an entry of a source.",
        )
    with db.writing() as session:
        if kind == "trial":
            done = _correct_trial(session, db, object_id, metric, method, value)
        else:
            done = _correct_entry(session, db, object_id, metric, method, value)
        _add(
            session,
            "corrected",
            kind,
            object_id,
            reason,
            by,
            metric=metric,
            method=done.method,
            old_value=done.old,
            new_value=value,
        )
        return done


def _correct_entry(
    session: Session, db: Database, object_id: str, metric: str, method: str | None, value: float
) -> Correction:
    entry = _object(session, db, "entry", object_id)
    rows = session.scalars(
        select(PublishedRow).where(
            PublishedRow.entry_id == entry.id,
            PublishedRow.metric == metric,
            PublishedRow.is_inferred.is_(False),
        )
    ).all()
    row = _only_one([row for row in rows if method in (None, row.method)], object_id, metric)
    done = Correction("entry", object_id, metric, row.method, row.unit, row.value, value)
    row.value = row.low = row.high = value
    row.other_low = row.other_high = row.reason = None
    session.flush()
    if row.case_id is not None:
        refresh_summaries(session, row.case_id)
    return done


def _correct_trial(
    session: Session, db: Database, object_id: str, metric: str, method: str | None, value: float
) -> Correction:
    trial = _object(session, db, "trial", object_id)
    if trial.status != "ok":
        raise StoreError(f"trial {object_id} is {trial.status}: it has no figures")
    rows = session.scalars(
        select(MeasurementRow).where(
            MeasurementRow.run_id == trial.run_id,
            MeasurementRow.case_id == trial.case_id,
            MeasurementRow.metric == metric,
        )
    ).all()
    row = _only_one([row for row in rows if method in (None, row.method)], object_id, metric)
    values = blobs.decode(row.values_f64)
    old = values[trial.repetition] if trial.repetition < len(values) else None
    row.values_f64 = blobs.encode(blobs.with_value(values, trial.repetition, value))
    session.flush()
    refresh_measurements(session, trial.case_id)
    refresh_summaries(session, trial.case_id)
    unit = METRICS[metric].unit if metric in METRICS else ""
    return Correction("trial", object_id, metric, row.method, unit, old, value)


def _only_one(rows: Sequence[Any], object_id: str, metric: str) -> Any:
    if not rows:
        raise StoreError(
            f"{object_id} has no figure of {metric}", hint="'zcdb show ID' lists its figures."
        )
    if len(rows) > 1:
        methods = ", ".join(sorted(row.method for row in rows))
        raise UsageError(
            f"{object_id} has {metric} by several methods: {methods}",
            hint="Name one with --method.",
        )
    return rows[0]


def contest(db: Database, kind: str, object_id: str, *, reason: str, by: str) -> None:
    """Write that somebody doubts a result; it stays in every comparison, and says so.

    Raises:
        StoreError: if there is no such thing.
        UsageError: if it is not a kind of thing that errata are about.
    """
    with db.writing() as session:
        _object(session, db, kind, object_id)
        _add(session, "contested", kind, object_id, reason, by)


def retract(
    db: Database, kind: str, object_id: str, *, reason: str, by: str, successor: str | None = None
) -> None:
    """Take a result back: it counts no longer, and its address says why since when.

    A retracted run takes its trials along, a retracted source its entries.

    Args:
        db: where to write.
        kind: a key of `KINDS`.
        object_id: the whole id.
        reason: why, for everybody who asks for it.
        by: who says so.
        successor: id of what stands in its place now.

    Raises:
        StoreError: if there is no such thing, it still runs, or it is retracted already.
        UsageError: if it is not a kind of thing that errata are about.
    """
    with db.writing() as session:
        row = _object(session, db, kind, object_id)
        earlier = session.scalar(
            select(ErratumRow.id).where(
                ErratumRow.object_id == object_id, ErratumRow.kind == "retracted"
            )
        )
        if earlier is not None:
            raise StoreError(f"{kind} {object_id} is retracted already")
        if getattr(row, "status", None) == "running" or getattr(row, "outcome", None) == "running":
            raise StoreError(f"{kind} {object_id} is still running")
        _add(session, "retracted", kind, object_id, reason, by, successor=successor)
        _take_out(session, kind, [row.id], f"retracted: {reason}", by)


def _object(session: Session, db: Database, kind: str, object_id: str) -> Any:
    row_class = KINDS.get(kind)
    if row_class is None:
        raise UsageError(
            f"{kind} {object_id} is not a result",
            hint=f"Errata are about {', '.join(KINDS)}.",
        )
    row = session.scalars(select(row_class).where(row_class.public_id == object_id)).one_or_none()
    if row is None:
        raise StoreError(f"there is no {kind} {object_id} in {db.name}")
    return row


def _add(
    session: Session,
    kind: str,
    object_kind: str,
    object_id: str,
    reason: str,
    by: str,
    **more: Any,
) -> None:
    now = datetime.now(UTC)
    row: dict[str, Any] = {
        "kind": kind,
        "object_kind": object_kind,
        "object_id": object_id,
        "metric": "",
        "method": "",
        "old_value": None,
        "new_value": None,
        "reason": reason,
        "written_by": by,
        "successor": None,
        **more,
    }
    public_id = content_id("erratum", {**row, "written_at": now.isoformat()})
    insert_new(session, ErratumRow, [{**row, "public_id": public_id, "written_at": now}])


def _take_out(session: Session, kind: str, keys: Sequence[int], reason: str, by: str) -> None:
    if kind in ("run", "trial"):
        column = TrialRow.run_id if kind == "run" else TrialRow.id
        _exclude(session, column.in_(keys), reason, by)
    elif kind in ("source", "entry"):
        column = EntryRow.source_id if kind == "source" else EntryRow.id
        rows = session.execute(select(EntryRow.id, EntryRow.case_id).where(column.in_(keys))).all()
        leave_out(session, [row.id for row in rows], reason)
        refresh_summaries(session, *(row.case_id for row in rows if row.case_id is not None))


def leave_out(session: Session, entry_keys: Sequence[int], reason: str) -> None:
    """Take entries and their figures out of every comparison; the figures stay."""
    for some in batched(entry_keys):
        session.execute(
            update(EntryRow)
            .where(EntryRow.id.in_(some), EntryRow.left_out.is_(None))
            .values(left_out=reason)
        )
        session.execute(
            update(PublishedRow)
            .where(PublishedRow.entry_id.in_(some), PublishedRow.left_out.is_(None))
            .values(left_out=reason)
        )


def _exclude(session: Session, where: Any, reason: str, by: str) -> None:
    trials = session.execute(
        select(TrialRow.id, TrialRow.case_id)
        .outerjoin(ExclusionRow, ExclusionRow.trial_id == TrialRow.id)
        .where(where, TrialRow.status != "running", ExclusionRow.trial_id.is_(None))
    ).all()
    rows = [
        {
            "trial_id": trial.id,
            "reason": reason,
            "excluded_by": by,
            "excluded_at": datetime.now(UTC),
        }
        for trial in trials
    ]
    insert_new(session, ExclusionRow, rows)
    for case_id in sorted({trial.case_id for trial in trials}):
        refresh_measurements(session, case_id)
        refresh_summaries(session, case_id)


def apply_again(session: Session, source_id: str, entry_ids: Sequence[str]) -> None:
    """Apply the errata of a source and its entries once more: they were read anew."""
    for some in batched([source_id, *entry_ids]):
        for erratum in session.scalars(
            select(ErratumRow).where(ErratumRow.object_id.in_(some)).order_by(ErratumRow.id)
        ):
            _apply(session, erratum)


def _apply(session: Session, erratum: ErratumRow) -> None:
    """Do what an erratum of a source or an entry says; a contested one changes nothing."""
    entries = select(EntryRow.id).where(EntryRow.public_id == erratum.object_id)
    if erratum.object_kind == "source":
        source = select(SourceRow.id).where(SourceRow.public_id == erratum.object_id)
        entries = select(EntryRow.id).where(EntryRow.source_id.in_(source))
    keys = session.scalars(entries).all()
    if erratum.kind == "retracted":
        leave_out(session, keys, f"retracted: {erratum.reason}")
    elif erratum.kind == "corrected":
        value = erratum.new_value
        session.execute(
            update(PublishedRow)
            .where(
                PublishedRow.entry_id.in_(keys),
                PublishedRow.metric == erratum.metric,
                PublishedRow.method == erratum.method,
            )
            .values(
                value=value, low=value, high=value, other_low=None, other_high=None, reason=None
            )
        )
