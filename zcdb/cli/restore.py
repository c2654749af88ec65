"""`zcdb restore`: undo the settings that a killed run left behind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from zcdb.host.settings.leftovers import Restoration


@click.command("restore")
@click.option("--dry-run", is_flag=True, help="Say what would be put back; change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.pass_context
def restore_command(ctx: click.Context, dry_run: bool, as_json: bool) -> None:
    """Put back the settings of this machine that a killed run left changed.

    Plays the journals in the state folder ($ZCDB_STATE) backwards.  A value
    that somebody has changed since is reported and left alone; a run that is
    still at work is not disturbed.  The next 'zcdb run' does the same by itself.

    Exit codes: 0 if nothing is left to do, 1 if something could not be put back.

    \b
    Example:
        zcdb restore --dry-run
    """
    from zcdb.host.settings import restore_leftovers

    restorations = restore_leftovers(dry_run=dry_run)
    click.echo(as_text(as_plain(restorations)) if as_json else restoration_text(restorations))
    if not all(restoration.is_complete for restoration in restorations):
        ctx.exit(1)


def as_plain(restorations: Sequence[Restoration]) -> list[dict[str, object]]:
    """Return what was done as JSON values."""
    return [
        {
            "journal": str(restoration.leftover.path),
            "owner_pid": restoration.leftover.owner_pid,
            "state": restoration.leftover.state,
            "is_complete": restoration.is_complete,
            "sentence": restoration.sentence,
            "values": [
                {
                    "kind": value.kind,
                    "target": value.target,
                    "key": value.key,
                    "old": value.old,
                    "found": value.found,
                    "outcome": value.outcome,
                    "sentence": value.sentence,
                }
                for value in restoration.values
            ],
        }
        for restoration in restorations
    ]


def as_text(value: object) -> str:
    """Return JSON for people and programs."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def restoration_text(restorations: Sequence[Restoration]) -> str:
    """Return one line a journal and, indented, one a value that it holds."""
    if not restorations:
        return "Nothing to put back."
    lines: list[str] = []
    for restoration in restorations:
        sentence = restoration.sentence
        lines.append(sentence[:1].upper() + sentence[1:])
        lines += [f"  {value.sentence}" for value in restoration.values]
    return "\n".join(lines)
