"""Frozen reports and short links: rows made from their content, so that a second one is the same.

What a report says is not known here: its bytes come and go as they are.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select

from zcdb.errors import StoreError
from zcdb.ids import content_id
from zcdb.store.models import LinkRow, ReportRow
from zcdb.store.queries.common import NotFound
from zcdb.store.session import Database
from zcdb.store.upsert import insert_new

LIST_LIMIT = 100


@dataclass(frozen=True, slots=True)
class StoredReport:
    """A frozen report.

    Attributes:
        content: canonical JSON; `id` is its hash.
        inputs: canonical JSON of every stored value that it was computed from.
    """

    id: str
    title: str
    slug: str
    query: str
    created_at: datetime
    content: bytes
    inputs: bytes


@dataclass(frozen=True, slots=True)
class ReportLine:
    """A report in a list."""

    id: str
    title: str
    slug: str
    query: str
    created_at: datetime


def report_id(content: bytes) -> str:
    """Return the id of a report: the hash of its content.

    Raises:
        ValueError: if the bytes are no JSON.
    """
    return content_id("report", json.loads(content))


def link_id(path: str, query: str) -> str:
    """Return the id of a short address: the hash of the path and its canonical query."""
    return content_id("link", [path, query])


def add_report(db: Database, report: StoredReport) -> None:
    """Store a report; nothing happens if it is there already.

    Raises:
        StoreError: if its id is not the hash of its content.
    """
    if report_id(report.content) != report.id:
        raise StoreError(f"report {report.id} is not what its id says: its content was changed")
    row = {
        "public_id": report.id,
        "title": report.title,
        "slug": report.slug,
        "query": report.query,
        "created_at": report.created_at,
        "inputs_zlib": zlib.compress(report.inputs, 9),
        "content": report.content,
    }
    with db.writing() as session:
        insert_new(session, ReportRow, [row])


def report(db: Database, public_id: str) -> StoredReport:
    """Return a report; one statement.

    Raises:
        NotFound: if there is none with this id.
    """
    with db.reading() as session:
        row = session.scalars(
            select(ReportRow).where(ReportRow.public_id == public_id)
        ).one_or_none()
        if row is None:
            raise NotFound("report", public_id, db.name)
        return StoredReport(
            row.public_id,
            row.title,
            row.slug,
            row.query,
            row.created_at,
            row.content,
            zlib.decompress(row.inputs_zlib),
        )


def report_list(
    db: Database, *, after: str | None = None, limit: int = LIST_LIMIT
) -> tuple[tuple[ReportLine, ...], str | None]:
    """Return reports, newest first, and the id to ask on from (None at the end).

    Raises:
        NotFound: if there is no report `after`.
    """
    columns = (
        *(ReportRow.id, ReportRow.public_id, ReportRow.title),
        *(ReportRow.slug, ReportRow.query, ReportRow.created_at),
    )
    asked = select(*columns).order_by(ReportRow.id.desc()).limit(limit + 1)
    with db.reading() as session:
        if after is not None:
            key = session.scalar(select(ReportRow.id).where(ReportRow.public_id == after))
            if key is None:
                raise NotFound("report", after, db.name)
            asked = asked.where(ReportRow.id < key)
        lines = [
            ReportLine(row.public_id, row.title, row.slug, row.query, row.created_at)
            for row in session.execute(asked)
        ]
    return tuple(lines[:limit]), lines[limit - 1].id if len(lines) > limit else None


def count_reports(db: Database, at_most: int) -> int:
    """Return how many reports there are, counted no further than `at_most`; one statement."""
    with db.reading() as session:
        found = select(ReportRow.id).limit(at_most).subquery()
        return session.scalar(select(func.count()).select_from(found)) or 0


def count_links(db: Database, at_most: int) -> int:
    """Return how many short addresses there are, counted no further than `at_most`."""
    with db.reading() as session:
        found = select(LinkRow.id).limit(at_most).subquery()
        return session.scalar(select(func.count()).select_from(found)) or 0


def has_link(db: Database, public_id: str) -> bool:
    """Return whether a state has its short address already."""
    with db.reading() as session:
        kept = select(LinkRow.id).where(LinkRow.public_id == public_id)
        return session.scalar(kept) is not None


def add_link(db: Database, path: str, query: str, at: datetime) -> str:
    """Store a short address and return its id; the same state has the same one."""
    public_id = link_id(path, query)
    row = {"public_id": public_id, "path": path, "query": query, "created_at": at}
    with db.writing() as session:
        insert_new(session, LinkRow, [row])
    return public_id


def link(db: Database, public_id: str) -> tuple[str, str]:
    """Return path and query of a short address; one statement.

    Raises:
        NotFound: if there is none with this id.
    """
    with db.reading() as session:
        row = session.execute(
            select(LinkRow.path, LinkRow.query).where(LinkRow.public_id == public_id)
        ).one_or_none()
    if row is None:
        raise NotFound("short address", public_id, db.name)
    return row.path, row.query


def links(db: Database) -> tuple[tuple[str, str, str], ...]:
    """Return (id, path, query) of every short address, oldest first; one statement."""
    with db.reading() as session:
        rows = session.execute(
            select(LinkRow.public_id, LinkRow.path, LinkRow.query).order_by(LinkRow.id)
        )
        return tuple((row.public_id, row.path, row.query) for row in rows)
