"""`zcdb list`: what the database holds, and the founding tables that ship with zcdb."""

from __future__ import annotations

import json

import click

from zcdb.cli.show import database_option, json_option, print_result


@click.command("list")
@click.argument(
    "what", type=click.Choice(["runs", "experiments", "cases", "sources"]), default="runs"
)
@click.option("--after", metavar="ID", help="Go on after this entry of the list.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000))
@click.option("--history", is_flag=True, help="List the founding tables that ship with zcdb.")
@database_option
@json_option
def list_command(
    what: str,
    after: str | None,
    limit: int,
    history: bool,
    database: str | None,
    as_json: bool,
) -> None:
    """List runs (newest first), experiments, cases, sources, or the founding tables.

    Cases are those that were measured here; sources are the founding tables and
    imported files, the ones recorded last first.

    \b
    Example:
        zcdb list experiments
    """
    if history:
        _list_history(as_json)
        return
    from zcdb.report import text
    from zcdb.report.sources import source_list_text
    from zcdb.store import queries
    from zcdb.store.session import opened

    with opened(database) as db:
        if what == "runs":
            runs = queries.run_list(db, after=after, limit=limit)
            print_result(runs, text.run_list_text(runs), as_json)
        elif what == "experiments":
            experiments = queries.experiment_list(db, after=after, limit=limit)
            print_result(experiments, text.experiment_list_text(experiments), as_json)
        elif what == "sources":
            sources = queries.source_list(db, after=after, limit=limit)
            print_result(sources, source_list_text(sources), as_json)
        else:
            cases = queries.case_list(db, after=after, limit=limit)
            print_result(cases, text.case_list_text(cases), as_json)


def _list_history(as_json: bool) -> None:
    """Print the shipped historic cells; they need no database."""
    from pathlib import Path

    import zcdb
    from zcdb.importers import history

    folder = Path(zcdb.__file__).parent / "shipped_runs" / "history"
    cells = history.read({path.name: path.read_text() for path in sorted(folder.glob("*.toml"))})
    if as_json:
        click.echo(json.dumps(history.as_json(cells), indent=2, ensure_ascii=False))
    else:
        click.echo(history.as_text(cells), nl=False)
