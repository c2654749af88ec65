"""`zcdb nic`: what network cards and their drivers can do, of this machine and in general."""

from __future__ import annotations

import json
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zcdb.cli.nic_scan import scan_command
from zcdb.cli.show import database_option

if TYPE_CHECKING:
    from zcdb.nics.probe import ProbedClaim
    from zcdb.nics.summary import Verdict


@click.group("nic", invoke_without_command=True)
@click.option("--all", "show_all", is_flag=True, help="Links in software too: lo, veth, bridges.")
@click.option("--interface", "names", multiple=True, metavar="NAME", help="Only this one; repeat.")
@click.option(
    "--from",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read captures of another machine (ethtool, lspci -nn, ip -j -d link) instead; repeat.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option(
    "--write",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the lines to FILE too, for a login message.",
)
@click.pass_context
def nic_command(
    ctx: click.Context,
    show_all: bool,
    names: tuple[str, ...],
    files: tuple[Path, ...],
    as_json: bool,
    write: Path | None,
) -> None:
    """Say what this machine's network cards can do, a line each.

    The line says what the card is, where its driver comes from, what sendfile
    will do over it, what is on, what is off and could be on, and whether its
    slot is narrower than the card. Reads only; needs no root.

    \b
    Example:
        zcdb nic
        zcdb nic --from ethtool-k.txt --from lspci-nn.txt
    """
    if ctx.invoked_subcommand is not None:
        return
    found = _captured(files) if files else _machine(names, show_all)
    text = "\n".join(one.line() for one in found)
    if as_json:
        from zcdb.nics.summary import verdict_to_json

        text = json.dumps([verdict_to_json(one) for one in found], indent=1, ensure_ascii=False)
    if write is not None:
        _write(write, text)
    click.echo(text)


def _captured(files: tuple[Path, ...]) -> list[Verdict]:
    from zcdb.cli import nic_machine

    return nic_machine.verdicts(nic_machine.captured_cards(files))


def _machine(names: tuple[str, ...], show_all: bool) -> list[Verdict]:
    """Return the verdicts on this machine's cards; on its links in software if it has no card."""
    from zcdb.cli import nic_machine

    cards = nic_machine.machine_cards(names or nic_machine.interfaces())
    shown = cards if names or show_all else [card for card in cards if card.bus is not None]
    hidden = [card.interface for card in cards if card not in shown] if shown else []
    if hidden:
        click.echo(f"In software: {', '.join(hidden)} ('zcdb nic --all').", err=True)
    return nic_machine.verdicts(shown or cards, nic_machine.this_kernel())


def _write(path: Path, text: str) -> None:
    """Write a file as a whole, so that no login sees half of it.

    Raises:
        UsageError: if it cannot be written.
    """
    from zcdb.errors import UsageError

    part = path.with_name(f".{path.name}.new")
    try:
        part.write_text(text + "\n", encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


nic_command.add_command(scan_command)


@nic_command.command("show")
@click.argument("driver")
@click.option("--kernel", metavar="VERSION", help="A scanned kernel; default: the newest with it.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def show_command(driver: str, kernel: str | None, as_json: bool) -> None:
    """Print what the catalogue knows of DRIVER: each capability, since when, with file and line.

    DRIVER is a name as `ethtool -i` or lsmod print it.

    \b
    Example:
        zcdb nic show igb
    """
    from zcdb.nics import catalogue, render

    known = catalogue.load()
    found = known.named(driver, _version(kernel) if kernel else None)
    version = next(t.kernel for t in reversed(known.trees) if found in t.drivers.values())
    if as_json:
        click.echo(json.dumps(render.known_to_json(known, found, version), indent=1))
    else:
        click.echo("\n".join(render.known_lines(known, found, version, date.today())))


@nic_command.command("changes")
@click.argument("old", required=False)
@click.argument("new", required=False)
@click.option("--driver", metavar="NAME", help="Only this driver.")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def changes_command(old: str | None, new: str | None, driver: str | None, as_json: bool) -> None:
    """List what changed between two scanned kernels, OLD and NEW, with file and line of both.

    Without them: between each kernel of the catalogue and the next. Exit code
    1 if a capability vanished and nobody explained it.

    \b
    Example:
        zcdb nic changes 6.12 7.3 --driver igb
    """
    from zcdb.nics import catalogue, compare

    known = catalogue.load()
    name = known.named(driver).name if driver else None
    if old is None:
        comparisons = known.changes()
    else:
        trees = [known.tree(_version(one)) for one in (old, new or known.kernels[-1])]
        comparisons = [compare.compare(*compare.in_order(trees))]
    comparisons = [compare.only(one, name) for one in comparisons] if name else comparisons
    if as_json:
        click.echo(json.dumps([compare.comparison_to_json(one) for one in comparisons], indent=1))
    else:
        for one in comparisons:
            click.echo("\n".join(compare.comparison_lines(one)))
    sys.exit(1 if any(one.lost(known.acknowledged) for one in comparisons) else 0)


def _version(text: str) -> str:
    """Return the catalogue's version for what a user writes: 6.12 for 6.12.117.

    Raises:
        UsageError: if no scanned kernel is meant, or more than one.
    """
    from zcdb.errors import UsageError
    from zcdb.nics import catalogue
    from zcdb.nics.claims import version_key

    kernels = catalogue.load().kernels
    wanted = version_key(text)
    fits = [one for one in kernels if wanted and version_key(one)[: len(wanted)] == wanted]
    if len(fits) != 1:
        raise UsageError(
            f"the catalogue has {'no' if not fits else 'more than one'} kernel {text}",
            hint=f"it has {', '.join(kernels)}",
        )
    return fits[0]


@nic_command.command("conflicts")
@database_option
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def conflicts_command(database: str | None, as_json: bool) -> None:
    """List where the kernel's source, machines and published claims contradict each other.

    Machines are those that ran experiments recorded in the database.

    \b
    Example:
        zcdb nic conflicts
    """
    from zcdb.nics import catalogue, conflicts

    found = conflicts.conflicts(catalogue.load(), _probed(database))
    if as_json:
        rows: list[dict[str, Any]] = [conflicts.conflict_to_json(one) for one in found]
        click.echo(json.dumps(rows, indent=1, ensure_ascii=False))
    else:
        click.echo("\n".join(one.words() for one in found) or "No contradictions.")


def _probed(database: str | None) -> list[ProbedClaim]:
    """Return what the machines of a database showed."""
    from zcdb.nics.probe import ProbedClaim
    from zcdb.store.queries.nics import stored_claims
    from zcdb.store.session import opened

    with opened(database) as db:
        return [
            ProbedClaim(
                subject_kind="driver",
                subject=one.subject,
                driver=one.subject,
                capability=one.capability,
                value="yes" if one.value == "yes" else "no",
                state=one.state,
                kernel=one.kernel,
                place=one.place,
                date=one.dated,
                environment=one.environment_id or "",
            )
            for one in stored_claims(db)
            if one.source_kind == "probed" and one.subject_kind == "driver"
        ]


@nic_command.command("unit")
def unit_command() -> None:
    """Print a systemd unit that says at boot what the cards can do.

    \b
    Example:
        zcdb nic unit > /etc/systemd/system/zcdb-nic.service
    """
    click.echo(_system_file("zcdb-nic.service"), nl=False)


@nic_command.command("motd")
def motd_command() -> None:
    """Print a snippet for the login message, which shows what the unit found.

    \b
    Example:
        zcdb nic motd > /etc/update-motd.d/60-zcdb-nic
    """
    click.echo(_system_file("motd"), nl=False)


def _system_file(name: str) -> str:
    from zcdb.nics.catalogue import DATA

    text = (DATA / "system" / name).read_text(encoding="utf-8")
    return text.replace("@ZCDB@", str(Path(sys.argv[0]).absolute()))
