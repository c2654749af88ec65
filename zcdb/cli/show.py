"""`zcdb show` and `zcdb note`: one thing of the database in the terminal, and remarks."""

from __future__ import annotations

import json
from typing import Any

import click

database_option = click.option(
    "--database",
    metavar="FILE|URL",
    help="Database to use.  [default: $ZCDB_DATABASE, else in the user's data directory]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def print_result(result: Any, text: str, as_json: bool) -> None:
    """Print `text`, or `result` as JSON."""
    if as_json:
        from zcdb.report.plain import plain

        text = json.dumps(plain(result), indent=2, ensure_ascii=False) + "\n"
    click.echo(text, nl=False)


@click.command("show")
@click.argument("id")
@database_option
@json_option
def show_command(id: str, database: str | None, as_json: bool) -> None:
    """Show the run, case, trial, environment or experiment that ID names.

    The first digits of an id are enough, six at least, if nothing else begins
    with them.  A run is shown with its verdict table.

    \b
    Example:
        zcdb show 01950002
    """
    from zcdb.report import show
    from zcdb.store.session import opened

    with opened(database) as db:
        result, text = show.show(db, id)
        print_result(result, text, as_json)


@click.command("note")
@click.argument("run")
@click.argument("text")
@database_option
@json_option
def note_command(run: str, text: str, database: str | None, as_json: bool) -> None:
    """Write the remark TEXT beside the run RUN.

    RUN is the run's id or its first digits.  Earlier remarks stay in the
    database; the newest one is shown.

    \b
    Example:
        zcdb note 01950002 "after the firmware update"
    """
    from zcdb.store import queries, write
    from zcdb.store.session import opened

    with opened(database) as db:
        found = queries.find(db, run, kind="run")
        write.set_note(db, found.id, text)
        print_result({"run": found.id, "note": text}, f"noted beside run {found.id}\n", as_json)
