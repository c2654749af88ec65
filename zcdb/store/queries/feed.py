"""What the feed tells, and the number that changes when anything is added."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select

from zcdb.store.models import (
    EntryRow,
    ErratumRow,
    ExclusionRow,
    ExperimentRow,
    NoteRow,
    ReportRow,
    RunRow,
    SourceRow,
    TrialRow,
)
from zcdb.store.session import Database

FEED_ENTRIES = 40


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """Something new.

    Attributes:
        kind: "run", "report" or "source".
        name: of the experiment, the report's slug, or the source's own name.
        about: the question, or what the document is.
    """

    kind: str
    id: str
    name: str
    title: str
    about: str
    at: datetime
    author: str | None


def feed(db: Database, *, limit: int = FEED_ENTRIES) -> tuple[FeedEntry, ...]:
    """Return the newest runs, reports and sources together, newest first; three statements."""
    with db.reading() as session:
        runs = session.execute(
            select(
                RunRow.public_id,
                RunRow.started_at,
                RunRow.outcome,
                ExperimentRow.name,
                ExperimentRow.question,
            )
            .join(ExperimentRow, ExperimentRow.id == RunRow.experiment_id)
            .order_by(RunRow.started_at.desc(), RunRow.id.desc())
            .limit(limit)
        ).all()
        reports = session.execute(
            select(ReportRow.public_id, ReportRow.created_at, ReportRow.title, ReportRow.slug)
            .order_by(ReportRow.id.desc())
            .limit(limit)
        ).all()
        sources = session.execute(
            select(
                SourceRow.public_id,
                SourceRow.recorded_at,
                SourceRow.kind,
                SourceRow.name,
                SourceRow.title,
                SourceRow.document,
                SourceRow.author,
            )
            .order_by(SourceRow.id.desc())
            .limit(limit)
        ).all()
    entries = [
        FeedEntry(
            "run",
            row.public_id,
            row.name,
            f"{row.name}: {row.outcome}",
            row.question,
            row.started_at,
            None,
        )
        for row in runs
    ]
    entries += [
        FeedEntry(
            "report",
            row.public_id,
            row.slug,
            row.title,
            "A frozen comparison.",
            row.created_at,
            None,
        )
        for row in reports
    ]
    entries += [
        FeedEntry(
            "source",
            row.public_id,
            row.name,
            row.title,
            f"{row.kind}: {row.document}",
            row.recorded_at,
            row.author,
        )
        for row in sources
    ]
    return tuple(sorted(entries, key=lambda entry: entry.at, reverse=True)[:limit])


def data_revision(db: Database) -> int:
    """Return a number that grows whenever a result, a note or an erratum is added; one statement.

    Rows of these tables are only ever added.
    """
    tables = (TrialRow.id, EntryRow.id, ErratumRow.id, NoteRow.id, ReportRow.id)
    parts = [select(func.max(key)).scalar_subquery() for key in tables]
    parts.append(select(func.count(ExclusionRow.trial_id)).scalar_subquery())
    with db.reading() as session:
        return sum(value or 0 for value in session.execute(select(*parts)).one())
