"""/history: the founding documents' tables; /sources: everything that others published."""

from __future__ import annotations

from flask import Blueprint, redirect, request
from werkzeug import Response

from zcdb.store import queries
from zcdb.webapp.data import database
from zcdb.webapp.errors import check_id
from zcdb.webapp.pages import Page, Table, add_page, query_text, respond
from zcdb.webapp.present.conclusions import conclusions_content
from zcdb.webapp.present.history import (
    SourcesContent,
    TableContent,
    history_content,
    table_content,
)

blueprint = Blueprint("history", __name__)


def history() -> Page:
    """Return the page of all founding tables."""
    content = history_content(queries.history_pages(database()))
    tables = [table for document in content.documents for table in document.tables]
    return Page(
        template="history.html",
        title="The founding tables",
        description="What was measured about zero-copy networking before zcdb, with sources.",
        path="/history",
        content=content,
        table=_cells(tables),
    )


def conclusions() -> Page:
    """Return the page of what the authors concluded."""
    db = database()
    page = queries.history_page(db, "conclusions")
    content = conclusions_content(page, queries.history_pages(db))
    return Page(
        template="history_conclusions.html",
        title="What the authors concluded",
        description="The conclusions of the founding documents, and what their cells say.",
        path="/history/conclusions",
        content=content,
        table=Table(
            (
                *("conclusion", "author", "lines", "claim", "claimed", "verdict", "metric"),
                *("from", "to", "from_stated", "to_stated", "change"),
            ),
            [
                (
                    *(one.id, one.author, one.lines, one.claim, one.claimed, one.verdict),
                    *(said.metric, said.before, said.after),
                    *(said.before_stated, said.after_stated, said.change),
                )
                for one in content.conclusions
                for said in one.cells_say
            ],
        ),
    )


def history_table(name: str) -> Page:
    """Return the page of one founding table."""
    content = table_content(queries.history_page(database(), name))
    return Page(
        template="history_table.html",
        title=content.title,
        description=f"{content.title}, by {content.author}: as stated, and what it means.",
        path=f"/history/{name}",
        content=content,
        table=_cells([content]),
    )


def sources() -> Page:
    """Return the list of everything that others published."""
    after = request.args.get("after")
    found = queries.source_list(database(), after=check_id("source", after) if after else None)
    content = SourcesContent(found.sources, found.next_after)
    return Page(
        template="sources.html",
        title="Sources",
        description="Where results come from that zcdb did not measure.",
        path="/sources",
        content=content,
        table=Table(
            ("source_id", "kind", "name", "title", "author", "dated", "entries", "recorded_at"),
            [
                (
                    *(line.id, line.kind, line.name, line.title, line.author, line.dated),
                    *(line.entries, line.recorded_at.isoformat()),
                )
                for line in content.sources
            ],
        ),
        parameters=("after",),
        query=query_text(after=after),
    )


def source(source_id: str) -> Page:
    """Return the page of one source."""
    content = table_content(queries.source_page(database(), check_id("source", source_id)))
    return Page(
        template="history_table.html",
        title=content.title,
        description=f"{content.title}: what it says, and from which lines.",
        path=f"/sources/{source_id}",
        content=content,
        table=_cells([content]),
    )


def entry(entry_id: str) -> Response:
    """Lead from the address of an entry to its place in its source."""
    found = queries.entry_page(database(), check_id("entry", entry_id))
    if found.source.kind == "historic":
        return redirect(f"/history/{found.source.name}#{found.name}")
    return redirect(f"/sources/{found.source.id}#{found.id}")


def source_text(source_id: str) -> Response:
    """Return the text that a source was read from, as it came."""
    text = queries.source_text(database(), check_id("source", source_id))
    return respond(text.decode("utf-8", "replace"), "text/plain; charset=utf-8")


def _cells(tables: list[TableContent]) -> Table:
    """Return a line for each figure, numbers in base units."""
    return Table(
        (
            *("table", "cell", "entry_id", "case_id", "lines", "kind", "metric", "method"),
            *("stated", "low", "high", "unit", "sd", "n", "other_low", "other_high"),
            *("is_inferred", "reason", "left_out", "flags"),
        ),
        [
            (
                *(table.name, row.name, row.id, row.case_id, row.lines, row.kind),
                *(shown.metric, shown.method, shown.figure.stated),
                *(shown.figure.low, shown.figure.high, shown.figure.unit, shown.figure.sd),
                *(shown.figure.n, shown.figure.other_low, shown.figure.other_high),
                *(shown.figure.is_inferred, shown.figure.reason, shown.figure.left_out),
                " ".join(flag.code for flag in (*table.flags, *row.flags)),
            )
            for table in tables
            for row in table.rows
            for shown in row.figures
            if shown is not None
        ],
    )


add_page(blueprint, "/history", history)
add_page(blueprint, "/history/conclusions", conclusions)
add_page(blueprint, "/history/<name>", history_table)
add_page(blueprint, "/sources", sources)
add_page(blueprint, "/sources/<source_id>", source)
blueprint.add_url_rule("/entries/<entry_id>", "entry", entry)
blueprint.add_url_rule("/sources/<source_id>/text", "source_text", source_text)
