"""`zcdb report`: freeze a comparison, list, show and verify what was frozen."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from zcdb.store.reports import StoredReport
    from zcdb.store.session import Database

_DATABASE = click.option(
    "--database", metavar="PATH|URL", help="Which database; default: the user's own."
)


@click.group("report")
def report_command() -> None:
    """Freeze a comparison at an address that never changes."""


@report_command.command("create")
@click.argument("query", metavar="QUERY")
@click.option("--title", required=True, help="What it shows, in a few words.")
@_DATABASE
def create(query: str, title: str, database: str | None) -> None:
    """Freeze the comparison QUERY, written as in the address of /compare.

    \b
    Example:
        zcdb report create 'axis=api&a=write&b=sendfile' --title 'sendfile in 2026'
    """
    from zcdb.report import freeze
    from zcdb.store.session import open_database

    store = open_database(database)
    try:
        made = freeze.freeze(store, query, title)
    finally:
        store.dispose()
    click.echo(f"/reports/{made.id}/{made.slug}")


@report_command.command("list")
@_DATABASE
def list_reports(database: str | None) -> None:
    """List the frozen reports, newest first."""
    from zcdb.store import reports
    from zcdb.store.session import open_database

    store = open_database(database)
    try:
        lines, _ = reports.report_list(store)
    finally:
        store.dispose()
    for line in lines:
        click.echo(f"{line.id}  {line.created_at:%Y-%m-%d}  {line.title}")
    if not lines:
        click.echo("No report yet; 'zcdb report create' makes one.")


@report_command.command("show")
@click.argument("report_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="With its inputs, as one file for others.")
@_DATABASE
def show(report_id: str, as_json: bool, database: str | None) -> None:
    """Print a report as it was frozen."""
    import json

    from zcdb.report import freeze
    from zcdb.store.session import open_database

    store = open_database(database)
    try:
        stored = _find(store, report_id)
    finally:
        store.dispose()
    if as_json:
        click.echo(freeze.to_file(stored), nl=False)
        return
    content = json.loads(stored.content)
    click.echo(f"{stored.title}\nfrozen {content['frozen_at']}, report {stored.id}\n")
    click.echo(content["text"], nl=False)


@report_command.command("verify")
@click.argument("report", metavar="ID|FILE")
@_DATABASE
def verify(report: str, database: str | None) -> None:
    """Compute every figure of a report again from its inputs.

    Exit codes: 0 all the same; 1 something differs or the report was changed.
    """
    from zcdb.report import freeze
    from zcdb.store.session import open_database

    path = Path(report)
    if path.is_file():
        stored = freeze.from_file(path.read_bytes(), report)
    else:
        store = open_database(database)
        try:
            stored = _find(store, report)
        finally:
            store.dispose()
    moved = freeze.verify(stored)
    for one in moved:
        click.echo(f"{one.place}: {one.frozen!r} in the report, {one.now!r} now")
    if moved:
        click.echo(f"{len(moved)} figures of report {stored.id} differ.", err=True)
        sys.exit(1)
    click.echo(f"Report {stored.id}: every figure follows from its inputs.")


def _find(store: Database, prefix: str) -> StoredReport:
    from zcdb.store import queries, reports

    return reports.report(store, queries.find(store, prefix, kind="report").id)
