"""`zcdb correct`, `contest`, `retract`, `exclude`: saying that a result is not what it was.

Nothing is overwritten unseen: the old value, the reason, who and when stay beside the result.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from zcdb.cli.show import database_option, json_option, print_result
from zcdb.errors import UsageError

if TYPE_CHECKING:
    from zcdb.store.results import Found
    from zcdb.store.session import Database

reason_option = click.option(
    "--reason", required=True, metavar="TEXT", help="Why, for everybody who reads the result."
)
by_option = click.option("--by", metavar="NAME", help="Who says so.  [default: your user name]")


def _common(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (json_option, database_option, by_option, reason_option):
        command = option(command)
    return command


def _who(by: str | None) -> str:
    if by:
        return by
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:
        raise UsageError("this user has no name", hint="Say who you are with --by.") from error


def _find(db: Database, id: str, kind: str | None = None) -> Found:
    from zcdb.store import queries

    return queries.find(db, id.rstrip("/").rpartition("/")[2].partition("#")[0], kind=kind)


@click.command("correct")
@click.argument("id")
@click.option("--metric", required=True, help="Which figure, by its name in the registry.")
@click.option("--method", help="CPU method, where several measured it.")
@click.option(
    "--value", required=True, metavar="VALUE", help="The right value, in the metric's base unit."
)
@_common
def correct_command(
    id: str,
    metric: str,
    method: str | None,
    value: str,
    reason: str,
    by: str | None,
    database: str | None,
    as_json: bool,
) -> None:
    """Correct a figure of the trial or of the source's entry that ID names.

    The old value stays beside the new one, which statistics use from now on.
    A rate may have a prefix (9402M), a time a unit (275us).

    \b
    Example:
        zcdb correct 3f9a0c --metric throughput --value 9402M --reason "typo in the mail"
    """
    from zcdb.store import errata
    from zcdb.store.session import opened

    number = _number(metric, value)
    with opened(database) as db:
        found = _find(db, id)
        done = errata.correct(
            db,
            found.kind,
            found.id,
            metric=metric,
            method=method,
            value=number,
            reason=reason,
            by=_who(by),
        )
        old = "nothing" if done.old is None else f"{done.old:g} {done.unit}"
        text = f"{metric} of {found.kind} {found.id} corrected from {old} to {number:g} {done.unit}"
        print_result(done, f"{text}\n", as_json)


def _number(metric: str, value: str) -> float:
    """Return a value in the metric's base unit.

    Raises:
        UsageError: for what is not a number of that metric.
    """
    from zcdb import units
    from zcdb.metrics import METRICS

    known = METRICS.get(metric)
    try:
        if known is not None and known.unit == "bit/s":
            return float(units.parse_rate(value))
        if known is not None and known.unit == "s" and not value.replace(".", "").isdecimal():
            return units.parse_duration(value) / 1e9
        number = float(value)
    except ValueError as error:
        raise UsageError(f"--value {value}: {error}") from error
    if number != number or number in (float("inf"), float("-inf")):
        raise UsageError(f"--value {value} is not a measured value")
    return number


@click.command("contest")
@click.argument("id")
@_common
def contest_command(
    id: str, reason: str, by: str | None, database: str | None, as_json: bool
) -> None:
    """Write that the result ID is doubted; it stays in every comparison, and says so.

    ID names a run, a trial, a source, an entry of one, or a report.

    \b
    Example:
        zcdb contest 3f9a0c --reason "the machine has one CPU, not two"
    """
    from zcdb.store import errata
    from zcdb.store.session import opened

    with opened(database) as db:
        found = _find(db, id)
        errata.contest(db, found.kind, found.id, reason=reason, by=_who(by))
        result = {"contested": found.kind, "id": found.id, "reason": reason}
        print_result(result, f"{found.kind} {found.id} is contested\n", as_json)


@click.command("retract")
@click.argument("id")
@click.option("--successor", metavar="ID", help="What stands in its place now.")
@_common
def retract_command(
    id: str,
    successor: str | None,
    reason: str,
    by: str | None,
    database: str | None,
    as_json: bool,
) -> None:
    """Take the result ID back: it counts no longer, and its address says why.

    ID names a run, a trial, a source, an entry of one, or a report.  Nothing is
    deleted; a run takes its trials along, a source its entries.

    \b
    Example:
        zcdb retract 01950002 --reason "wrong cable" --successor 01950007
    """
    from zcdb.store import errata
    from zcdb.store.session import opened

    with opened(database) as db:
        found = _find(db, id)
        next_id = _find(db, successor).id if successor else None
        errata.retract(db, found.kind, found.id, reason=reason, by=_who(by), successor=next_id)
        result = {"retracted": found.kind, "id": found.id, "successor": next_id}
        print_result(result, f"{found.kind} {found.id} is retracted\n", as_json)


@click.command("exclude")
@click.argument("trial")
@_common
def exclude_command(
    trial: str, reason: str, by: str | None, database: str | None, as_json: bool
) -> None:
    """Leave the trial TRIAL out of the statistics; it stays, with the reason.

    \b
    Example:
        zcdb exclude 3f9a0c --reason "a backup ran"
    """
    from zcdb.store import write
    from zcdb.store.session import opened

    with opened(database) as db:
        found = _find(db, trial, kind="trial")
        write.exclude_trial(db, found.id, reason=reason, excluded_by=_who(by))
        result = {"excluded": found.id, "reason": reason}
        print_result(result, f"trial {found.id} is excluded\n", as_json)
