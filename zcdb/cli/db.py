"""`zcdb db`: care of the database itself."""

from __future__ import annotations

from pathlib import Path

import click

from zcdb.cli.show import database_option, json_option, print_result


@click.group("db", context_settings={"help_option_names": ["-h", "--help"]})
def db_command() -> None:
    """Upgrade, verify, rebuild or copy the database."""


@db_command.command("upgrade")
@database_option
@json_option
def upgrade(database: str | None, as_json: bool) -> None:
    """Bring the database to the form that this zcdb uses; makes it where it is missing.

    Every other command does this by itself when it has to.
    """
    from zcdb.store.session import SCHEMA_REVISION, opened

    with opened(database) as db:
        result = {"database": db.url, "revision": SCHEMA_REVISION}
        print_result(result, f"{db.name} has form {SCHEMA_REVISION}\n", as_json)


@db_command.command("verify")
@database_option
@json_option
def verify(database: str | None, as_json: bool) -> None:
    """Check the database; changes nothing.  Exit 1 if something is wrong.

    Looks whether the file is sound, every reference holds, ids fit their
    content, and what is derived fits what it was derived from.
    """
    from zcdb.store import rebuild
    from zcdb.store.session import opened

    with opened(database) as db:
        found = rebuild.verify(db)
        checked = (
            f"{db.name}: {found.cases} cases, {found.environments} environments and"
            f" {found.measurements} measurements checked"
        )
        print_result(found, "\n".join([*found.problems, checked]) + "\n", as_json)
        rebuild.raise_for_problems(db, found)


@db_command.command("rebuild")
@database_option
@json_option
def rebuild_tables(database: str | None, as_json: bool) -> None:
    """Compute what is derived anew: filters, pairings, statistics, summaries.

    No recorded value changes.
    """
    from zcdb.store import rebuild
    from zcdb.store.session import opened

    with opened(database) as db:
        cases = rebuild.rebuild(db)
        print_result({"cases": cases}, f"{db.name}: {cases} cases rebuilt\n", as_json)


@db_command.command("backup")
@click.argument("path", type=click.Path(path_type=Path))
@database_option
@json_option
def backup(path: Path, database: str | None, as_json: bool) -> None:
    """Copy an SQLite database to the new file PATH, also while a run records into it."""
    from zcdb.store import rebuild
    from zcdb.store.session import opened

    with opened(database) as db:
        rebuild.backup(db, path)
        print_result({"copy": str(path)}, f"{db.name} copied to {path}\n", as_json)
