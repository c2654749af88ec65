"""What others published: sources, their entries, and the founding tables."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from zcdb.flags import FLAGS
from zcdb.store.cases import factors_from_json
from zcdb.store.models import (
    CaseRow,
    EntryFlagRow,
    EntryRow,
    PublishedRow,
    SourceRow,
    TextRow,
)
from zcdb.store.queries.common import NotFound
from zcdb.store.queries.errata import errata_lines, standing
from zcdb.store.results import (
    EntryLine,
    FigureLine,
    FlagLine,
    SourceLine,
    SourceList,
    SourcePage,
)
from zcdb.store.session import Database

CONCLUSIONS = "conclusions"
"""Name of the historic source that holds what the authors concluded."""


def source_list(
    db: Database, *, kind: str | None = None, after: str | None = None, limit: int = 50
) -> SourceList:
    """Return sources, the ones recorded last first, from the one after source `after` on.

    Args:
        db: where to read.
        kind: "historic", "import" or "bundle"; None for all.

    Raises:
        NotFound: if there is no source `after`.
    """
    with db.reading() as session:
        where: list[ColumnElement[bool]] = [SourceRow.kind == kind] if kind else []
        if after is not None:
            key = session.scalar(select(SourceRow.id).where(SourceRow.public_id == after))
            if key is None:
                raise NotFound("source", after, db.name)
            where.append(SourceRow.id < key)
        lines = list(_source_lines(session, *where, limit=limit + 1).values())
        next_after = lines[limit - 1].id if len(lines) > limit else None
        return SourceList(tuple(lines[:limit]), next_after)


def history_pages(db: Database) -> tuple[SourcePage, ...]:
    """Return the founding tables with all their cells, in the order of the documents."""
    with db.reading() as session:
        pages = _pages(session, SourceRow.kind == "historic", SourceRow.name != CONCLUSIONS)
        return tuple(reversed(pages))


def history_page(db: Database, name: str) -> SourcePage:
    """Return one founding table, or the authors' conclusions, by its word.

    Raises:
        NotFound: if there is none of this name.
        Retracted: if it was taken back.
    """
    with db.reading() as session:
        pages = _pages(session, SourceRow.kind == "historic", SourceRow.name == name)
        if not pages:
            raise NotFound("founding table", name, db.name)
        standing(session, "source", pages[0].source.id)
        return pages[0]


def source_page(db: Database, source_id: str) -> SourcePage:
    """Return a source with its entries.

    Raises:
        NotFound: if there is no such source.
        Retracted: if it was taken back.
    """
    with db.reading() as session:
        pages = _pages(session, SourceRow.public_id == source_id)
        if not pages:
            raise NotFound("source", source_id, db.name)
        standing(session, "source", source_id)
        return pages[0]


def source_text(db: Database, source_id: str) -> bytes:
    """Return the bytes that a source was read from, as they came.

    Raises:
        NotFound: if there is no such source.
    """
    import zlib

    with db.reading() as session:
        packed = session.scalar(
            select(TextRow.bytes_zlib)
            .join(SourceRow, SourceRow.sha256 == TextRow.sha256)
            .where(SourceRow.public_id == source_id)
        )
        if packed is None:
            raise NotFound("source", source_id, db.name)
        return zlib.decompress(packed)


def entry_page(db: Database, entry_id: str) -> EntryLine:
    """Return one result of a source.

    Raises:
        NotFound: if there is no such entry.
        Retracted: if it was taken back.
    """
    with db.reading() as session:
        entries = entry_lines(session, EntryRow.public_id == entry_id)
        if not entries:
            raise NotFound("entry", entry_id, db.name)
        standing(session, "entry", entry_id)
        return entries[0]


def _pages(session: Session, *where: ColumnElement[bool]) -> list[SourcePage]:
    """Return sources with their entries, the newest first; a fixed number of statements."""
    lines = _source_lines(session, *where)
    keys = list(lines)
    texts = {
        row.id: row
        for row in session.execute(
            select(SourceRow.id, SourceRow.sha256, TextRow.size_bytes)
            .join(TextRow, TextRow.sha256 == SourceRow.sha256)
            .where(SourceRow.id.in_(keys))
        )
    }
    entries: dict[str, list[EntryLine]] = defaultdict(list)
    for entry in entry_lines(session, EntryRow.source_id.in_(keys)):
        entries[entry.source.id].append(entry)
    errata = errata_lines(session, [line.id for line in lines.values()])
    return [
        SourcePage(
            source=line,
            sha256=texts[key].sha256,
            size_bytes=texts[key].size_bytes,
            entries=tuple(entries[line.id]),
            errata=errata.get(line.id, ()),
        )
        for key, line in lines.items()
    ]


def _source_lines(
    session: Session, *where: ColumnElement[bool], limit: int | None = None
) -> dict[int, SourceLine]:
    """Return key -> source, the newest first; one statement."""
    entries = (
        select(func.count())
        .where(EntryRow.source_id == SourceRow.id)
        .correlate(SourceRow)
        .scalar_subquery()
    )
    rows = session.execute(
        select(SourceRow, entries).where(*where).order_by(SourceRow.id.desc()).limit(limit)
    )
    return {
        row.id: SourceLine(
            id=row.public_id,
            kind=row.kind,
            name=row.name,
            title=row.title,
            document=row.document,
            author=row.author,
            dated=row.dated,
            lines=_lines(row.first_line, row.last_line),
            recorded_at=row.recorded_at,
            entries=count,
            details=json.loads(row.details_json),
        )
        for row, count in rows
    }


def _lines(first: int | None, last: int | None) -> tuple[int, int] | None:
    return (first, last) if first is not None and last is not None else None


def entry_lines(session: Session, *where: ColumnElement[bool]) -> list[EntryLine]:
    """Return entries with their figures, flags and errata, in their order; five statements."""
    rows = session.execute(
        select(EntryRow, CaseRow.public_id, CaseRow.factors_json)
        .outerjoin(CaseRow, CaseRow.id == EntryRow.case_id)
        .where(*where)
        .order_by(EntryRow.source_id, EntryRow.position)
    ).all()
    keys = [entry.id for entry, _, _ in rows]
    sources = _source_lines(session, SourceRow.id.in_({entry.source_id for entry, _, _ in rows}))
    figures = _figure_lines(session, keys)
    flags = _flag_lines(session, keys)
    errata = errata_lines(session, [entry.public_id for entry, _, _ in rows])
    return [
        EntryLine(
            id=entry.public_id,
            source=sources[entry.source_id],
            name=entry.name,
            kind=entry.kind,
            lines=(entry.first_line, entry.last_line),
            case_id=case_id,
            factors=factors_from_json(factors_json) if factors_json else {},
            left_out=entry.left_out,
            flags=tuple(flags.get(entry.id, ())),
            figures=tuple(figures.get(entry.id, ())),
            errata=errata.get(entry.public_id, ()),
            details=json.loads(entry.details_json),
        )
        for entry, case_id, factors_json in rows
    ]


def _figure_lines(session: Session, keys: Sequence[int]) -> dict[int, list[FigureLine]]:
    found: dict[int, list[FigureLine]] = defaultdict(list)
    rows: Any = session.scalars(
        select(PublishedRow)
        .where(PublishedRow.entry_id.in_(keys))
        .order_by(PublishedRow.entry_id, PublishedRow.position)
    )
    for row in rows:
        found[row.entry_id].append(
            FigureLine(
                metric=row.metric,
                method=row.method,
                unit=row.unit,
                stated=row.stated,
                value=row.value,
                low=row.low,
                high=row.high,
                sd=row.sd,
                spread=row.spread,
                n=row.n,
                other_low=row.other_low,
                other_high=row.other_high,
                is_inferred=row.is_inferred,
                reason=row.reason,
                left_out=row.left_out,
                details=json.loads(row.details_json),
            )
        )
    return found


def _flag_lines(session: Session, keys: Sequence[int]) -> dict[int, list[FlagLine]]:
    found: dict[int, list[FlagLine]] = defaultdict(list)
    rows = session.scalars(
        select(EntryFlagRow)
        .where(EntryFlagRow.entry_id.in_(keys))
        .order_by(EntryFlagRow.entry_id, EntryFlagRow.position)
    )
    for row in rows:
        found[row.entry_id].append(FlagLine(row.code, FLAGS.get(row.code, row.code), row.detail))
    return found
