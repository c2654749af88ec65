"""`zcdb export`: results as a bundle for another database, or the whole site as files."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zcdb.cli.show import database_option
from zcdb.errors import UsageError

if TYPE_CHECKING:
    from zcdb.report.bundles import Member

SITE = "site"
SHOWN_EVERY_S = 0.5


@click.command("export")
@click.argument("what", metavar="QUERY|ID|all|site")
@click.argument("folder", required=False, metavar="[DIR]")
@click.option("-o", "--output", metavar="FILE", help="The bundle to write.")
@click.option(
    "--without-nics",
    is_flag=True,
    help="Of the site, leave out the catalogue of network cards: thousands of files that every"
    " zcdb brings along.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@database_option
def export_command(
    what: str,
    folder: str | None,
    output: str | None,
    without_nics: bool,
    as_json: bool,
    database: str | None,
) -> None:
    """Write results into a bundle, or the site into files.

    A bundle is one file that 'zcdb import' takes in anywhere, under the same
    ids.  It holds all that belongs to what is named: 'all', the id of a run,
    case, trial, source, report or experiment, or a query as /explore has it.
    'site DIR' writes every page for any web server, or for none but files.

    \b
    Example:
        zcdb export 'api=write&link=veth' -o veth.zip
        zcdb export all -o lab.zip
        zcdb export site public/
    """
    if what == SITE:
        if folder is None or output is not None:
            raise UsageError("'zcdb export site' writes a folder", hint="zcdb export site public/")
        _site(Path(folder), database, as_json, with_nics=not without_nics)
        return
    if output is None or folder is not None:
        raise UsageError("the bundle needs a file", hint=f"zcdb export {what!r} -o results.zip")
    _bundle(what, Path(output), database, as_json)


def _bundle(what: str, path: Path, database: str | None, as_json: bool) -> None:
    from zcdb.report import bundles
    from zcdb.store.session import opened

    with opened(database) as db, _Watched() as watched:
        made = bundles.export(db, what, path, watched.bytes)
    if as_json:
        lines = {member.name: member.lines for member in made.members if member.lines}
        said = {"file": str(path), "bundle": made.id, "bytes": made.size_bytes, "lines": lines}
        click.echo(json.dumps(said))
        return
    click.echo(f"{path}: {made.size_bytes} bytes, bundle {made.id}")
    click.echo("  " + ", ".join(_counted(made.members)))


def _counted(members: Sequence[Member]) -> list[str]:
    counted = [f"{one.lines} {one.name.removesuffix('.ndjson')}" for one in members if one.lines]
    texts = sum(one.lines is None for one in members)
    return [*counted, *([f"{texts} texts"] if texts else [])]


def _site(folder: Path, database: str | None, as_json: bool, *, with_nics: bool) -> None:
    from zcdb.store.session import opened
    from zcdb.webapp.export import export_site

    with opened(database) as db, _Watched() as watched:
        made = export_site(db, folder, watched.pages, with_nics=with_nics)
    if as_json:
        click.echo(json.dumps({"folder": str(folder), "pages": made.pages, "files": made.files}))
    else:
        click.echo(f"{folder}: {made.pages} pages in {made.files} files")
        click.echo(f"Look at it: python3 -m http.server --directory {folder}")


class _Watched:
    """Shows how far it is on one line of a terminal; elsewhere nothing."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._next = 0.0

    def __enter__(self) -> _Watched:
        return self

    def __exit__(self, *exception: object) -> None:
        self._next = 0.0
        self._show(lambda: "")

    def bytes(self, member: str, size_bytes: int) -> None:
        """Show a member of a bundle and how much of it is done."""
        self._show(lambda: f"{member}: {size_bytes / 1e6:.1f} MB")

    def pages(self, done: int, waiting: int) -> None:
        """Show how many pages are written, and how many are known to follow."""
        self._show(lambda: f"{done} pages written, {waiting} to go")

    def _show(self, text: Callable[[], str]) -> None:
        now = time.monotonic()
        if self._is_shown and now >= self._next:
            self._next = now + SHOWN_EVERY_S
            click.echo(f"\r\x1b[K{text()}", nl=False, err=True)
