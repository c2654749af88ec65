"""Writing what others published: a source with its text, entries and figures.

`add_source` is idempotent: the same source read in the same way changes nothing.  Read in a better
way, its entries keep their ids and their errata, and the figures are replaced.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy import insert as plain_insert
from sqlalchemy.orm import Session

from zcdb.flags import FLAGS
from zcdb.ids import canonical_json
from zcdb.metrics import CPU_METHODS, METRICS
from zcdb.sources import Entry, Figure, Source, entry_id
from zcdb.store.cases import ensure_cases
from zcdb.store.errata import apply_again, leave_out
from zcdb.store.models import EntryFlagRow, EntryRow, PublishedRow, SourceRow, TextRow
from zcdb.store.session import Database
from zcdb.store.statistics import refresh_summaries
from zcdb.store.upsert import insert_new, upsert

_GONE = "it is not in the source as that is read now"
_UNREAD = ""
"""Form of a source whose entries are not written yet."""


@dataclass(frozen=True, slots=True)
class StoredSource:
    """What `add_source` did.

    Attributes:
        is_new: False if the source was there already.
        entries: ids of its entries, in the source's order.
    """

    id: str
    is_new: bool
    entries: tuple[str, ...]


def add_source(
    db: Database, source: Source, *, recorded_at: datetime | None = None
) -> StoredSource:
    """Store a source, its text, its entries with their cases, and their figures.

    Args:
        db: where to write.
        source: what was read.
        recorded_at: now unless said otherwise.

    Raises:
        ValueError: if the record contradicts itself.
    """
    with db.writing() as session:
        return write_source(session, source, recorded_at or datetime.now(UTC))


def write_source(session: Session, source: Source, recorded_at: datetime) -> StoredSource:
    """Store a source within a transaction; see `add_source`."""
    check_source(source)
    digest = hashlib.sha256(source.text).hexdigest()
    ids = tuple(entry_id(source.id, entry.key) for entry in source.entries)
    _add_text(session, digest, source.text)
    row = _row(source, digest)
    # Two processes may write the same source: the one that comes second waits here.
    insert_new(session, SourceRow, [{**row, "form": _UNREAD, "recorded_at": recorded_at}])
    known = session.execute(
        select(SourceRow.id, SourceRow.sha256, SourceRow.form)
        .where(SourceRow.public_id == source.id)
        .with_for_update()
    ).one()
    if (known.sha256, known.form) == (digest, source.form):
        return StoredSource(source.id, is_new=False, entries=ids)
    session.execute(update(SourceRow).where(SourceRow.id == known.id).values(row))
    before = _cases_of(session, known.id)
    _write_entries(session, known.id, source.entries, ids)
    apply_again(session, source.id, ids)
    refresh_summaries(session, *(before | _cases_of(session, known.id)))
    return StoredSource(source.id, is_new=known.form == _UNREAD, entries=ids)


def check_source(source: Source) -> None:
    """Raise `ValueError` if a source contradicts itself or the registries."""
    keys = [entry.key for entry in source.entries]
    if len(set(keys)) != len(keys):
        raise ValueError(f"two entries of {source.name} have the same key")
    for entry in source.entries:
        for flag in entry.flags:
            if flag.code not in FLAGS:
                raise ValueError(f"{entry.key}: no flag is called {flag.code!r}")
        names = [(figure.metric, figure.method) for figure in entry.figures]
        if len(set(names)) != len(names):
            raise ValueError(f"{entry.key} has two figures of one metric by one method")
        for figure in entry.figures:
            _check_figure(entry, figure)


def _check_figure(entry: Entry, figure: Figure) -> None:
    what = f"{entry.key}: {figure.metric}"
    metric = METRICS.get(figure.metric)
    if metric is not None and metric.has_method and not figure.method and figure.low is not None:
        raise ValueError(f"{what} has no CPU method")
    if figure.method and not _is_method(figure.method):
        raise ValueError(f"{what} has no method {figure.method!r}")
    if (figure.low is None) != (figure.reason is not None) or (figure.low is None) != (
        figure.high is None
    ):
        raise ValueError(f"{what} needs either a figure or a reason why there is none")


def _is_method(word: str) -> bool:
    """Tell whether a CPU method is ours, or one that only netperf has."""
    return word in CPU_METHODS or word.startswith("netperf-")


def _add_text(session: Session, digest: str, text: bytes) -> None:
    row = {"sha256": digest, "size_bytes": len(text), "bytes_zlib": zlib.compress(text, level=6)}
    insert_new(session, TextRow, [row])


def _row(source: Source, digest: str) -> dict[str, Any]:
    return {
        "public_id": source.id,
        "kind": source.kind,
        "name": source.name,
        "title": source.title,
        "document": source.document,
        "author": source.author,
        "dated": source.dated,
        "first_line": source.lines[0] if source.lines else None,
        "last_line": source.lines[1] if source.lines else None,
        "sha256": digest,
        "form": source.form,
        "details_json": canonical_json(source.details),
    }


def _cases_of(session: Session, source_key: int) -> set[int]:
    chosen = select(EntryRow.case_id).where(
        EntryRow.source_id == source_key, EntryRow.case_id.is_not(None)
    )
    return {case_id for case_id in session.scalars(chosen) if case_id is not None}


def _write_entries(
    session: Session, source_key: int, entries: Sequence[Entry], ids: Sequence[str]
) -> None:
    with_case = [entry for entry in entries if entry.factors is not None]
    keys = ensure_cases(session, [entry.factors or {} for entry in with_case])
    cases = {entry.key: key for entry, key in zip(with_case, keys, strict=True)}
    old = _entry_keys(session, source_key)
    rows = [
        {
            "public_id": public_id,
            "source_id": source_key,
            "case_id": cases.get(entry.key),
            "position": position,
            "name": entry.name,
            "kind": entry.kind,
            "first_line": entry.lines[0],
            "last_line": entry.lines[1],
            "left_out": entry.left_out,
            "details_json": canonical_json(entry.details),
        }
        for position, (entry, public_id) in enumerate(zip(entries, ids, strict=True))
    ]
    new = [row for row in rows if row["public_id"] not in old]
    if new:
        session.execute(plain_insert(EntryRow), new)
    known = [{"id": old[row["public_id"]], **row} for row in rows if row["public_id"] in old]
    upsert(session, EntryRow, known)
    entry_keys = _entry_keys(session, source_key)
    # What hangs on the entries is written anew; an entry that is gone keeps what it had.
    written = [entry_keys[public_id] for public_id in ids]
    for row_class in (EntryFlagRow, PublishedRow):
        session.execute(delete(row_class).where(row_class.entry_id.in_(written)))
    _write_details(session, entries, written, cases)
    present = set(ids)
    gone = [key for public_id, key in entry_keys.items() if public_id not in present]
    leave_out(session, gone, _GONE)


def _entry_keys(session: Session, source_key: int) -> dict[str, int]:
    chosen = select(EntryRow.public_id, EntryRow.id).where(EntryRow.source_id == source_key)
    return {row.public_id: row.id for row in session.execute(chosen)}


def _write_details(
    session: Session, entries: Sequence[Entry], keys: Sequence[int], cases: dict[str, int]
) -> None:
    flags = [
        {"entry_id": key, "position": place, "code": flag.code, "detail": flag.detail}
        for entry, key in zip(entries, keys, strict=True)
        for place, flag in enumerate(entry.flags)
    ]
    figures = [
        _figure_row(figure, key, place, cases.get(entry.key))
        for entry, key in zip(entries, keys, strict=True)
        for place, figure in enumerate(entry.figures)
    ]
    insert_new(session, EntryFlagRow, flags)
    insert_new(session, PublishedRow, figures)


def _figure_row(figure: Figure, entry_key: int, place: int, case_id: int | None) -> dict[str, Any]:
    return {
        "entry_id": entry_key,
        "metric": figure.metric,
        "method": figure.method,
        "position": place,
        "case_id": case_id,
        "value": figure.value,
        "low": figure.low,
        "high": figure.high,
        "sd": figure.sd,
        "spread": figure.spread,
        "n": figure.n,
        "unit": figure.unit,
        "stated": figure.stated,
        "other_low": figure.other_low,
        "other_high": figure.other_high,
        "is_inferred": figure.is_inferred,
        "reason": figure.reason,
        "left_out": figure.left_out,
        "details_json": canonical_json(figure.details),
    }
