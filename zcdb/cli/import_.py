"""`zcdb import`: what other tools printed, into the record.

Reads files, calls the importers, hands what they found to the store, prints.
What the importers understand is `zcdb.importers`' business.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zcdb.cli.show import database_option
from zcdb.errors import UsageError

if TYPE_CHECKING:
    from zcdb.factors import FactorValue
    from zcdb.importers import Reading, Result
    from zcdb.sources import Source
    from zcdb.store.sources import StoredSource

BOTH_ENDS = ("nic", "driver", "kernel", "cpu", "driver_version", "link_speed", "memory", "os")
"""Context that may be given once for both ends."""

END_WORDS = ("sender", "receiver")


@dataclass(frozen=True, slots=True)
class _File:
    """A file with what was read in it, and what was stored of it."""

    reading: Reading
    source: Source
    stored: StoredSource | None


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--dry-run", is_flag=True, help="Show what would be recorded; record nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a file and line.")
@click.option(
    "--factor",
    "assignments",
    multiple=True,
    metavar="NAME=VALUE",
    help="A condition that the text does not state, as in --factor nic='Intel X710'.",
)
@click.option("--command", metavar="COMMAND", help="The command line that printed the text.")
@click.option(
    "--environment",
    "environments",
    multiple=True,
    metavar="[END=]FILE",
    help="What ethtool, lspci, 'ip -j -d link' or 'zcdb probe --json' say about a machine:"
    " of the sender, or of the END that is named.",
)
@database_option
def import_command(
    files: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    assignments: tuple[str, ...],
    command: str | None,
    environments: tuple[str, ...],
    database: str | None,
) -> None:
    """Record what other tools printed: netperf, iperf, neper, nuttcp, perf, ethtool and more.

    FILE is a file of any of them, or '-' for standard input; one file may hold
    many results, of several tools, inside a mail or a shell log.  The text is
    kept with its hash, and importing it again changes nothing.  Nothing is
    guessed: what cannot be read for certain is refused, with the reason.

    A bundle that 'zcdb export' wrote is taken in under its own ids.

    \b
    Example:
        zcdb import netperf.txt --factor nic='Myricom Myri-10G'
    """
    from zcdb.importers import read
    from zcdb.importers.record import source_of
    from zcdb.report.bundles import is_bundle

    given = {**environment_factors(environments), **parse_factors(assignments)}
    bundles = [name for name in files if name != "-" and is_bundle(Path(name))]
    if bundles and (given or command):
        raise UsageError(
            f"{bundles[0]} is a bundle: it says by itself under which conditions it was measured",
            hint="Leave --factor, --command and --environment out.",
        )
    for name in bundles:
        _take_bundle(Path(name), database, dry_run=dry_run, as_json=as_json)
    files = tuple(name for name in files if name not in bundles)
    if not files:
        return
    found = []
    for name in files:
        text = _bytes_of(name)
        reading = read(text, name, command)
        refuse_contradictions(reading, given)
        found.append((reading, source_of(reading, text, command=command, given=given)))
    stored = [None] * len(found) if dry_run else _record([source for _, source in found], database)
    for file in map(_File, *zip(*found, strict=True), stored):
        if as_json:
            click.echo(json.dumps(describe(file, given), ensure_ascii=False, allow_nan=False))
        else:
            click.echo("\n".join(table(file, given)))


def _take_bundle(path: Path, database: str | None, *, dry_run: bool, as_json: bool) -> None:
    """Import a bundle, or only check it, and print what it brought."""
    from zcdb.report import bundles
    from zcdb.store.session import opened

    if dry_run:
        checked = bundles.check(path)
        lines = {member.name: member.lines for member in checked.members if member.lines}
        if as_json:
            click.echo(json.dumps({"file": str(path), "bundle": checked.id, "lines": lines}))
        else:
            held = ", ".join(f"{n} {name.removesuffix('.ndjson')}" for name, n in lines.items())
            click.echo(f"{path}: bundle {checked.id}, every hash is right\n  {held}")
        return
    with opened(database) as db:
        taken = bundles.import_bundle(db, path)
    if as_json:
        said = {"new": taken.new, "known": taken.known}
        click.echo(json.dumps({"file": str(path), "bundle": taken.id, **said}))
        return
    new = ", ".join(f"{count} {kind}" for kind, count in taken.new.items() if count)
    click.echo(f"{path}: bundle {taken.id}\n  new: {new or 'nothing'}")


def _record(sources: list[Source], database: str | None) -> list[StoredSource | None]:
    """Store what was read; a file in which nothing was recognised is not kept."""
    from zcdb.store.session import opened
    from zcdb.store.sources import add_source

    with opened(database) as db:
        return [add_source(db, source) if source.entries else None for source in sources]


def refuse_contradictions(reading: Reading, given: dict[str, FactorValue]) -> None:
    """Refuse a factor that says otherwise than the text.

    Raises:
        UsageError: naming the file, the lines and both values.
    """
    for result in reading.results:
        for name, value in given.items():
            stated = result.factors.get(name, value)
            if stated != value:
                place = _place(result.span.first_line, result.span.last_line)
                raise UsageError(
                    f"--factor {name}={_word(value)}: {reading.file_name}, {place}, says"
                    f" {_word(stated)}",
                    hint="--factor states what a text leaves out; leave this one out.",
                )


def _bytes_of(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror or error}") from error


def parse_factors(assignments: tuple[str, ...]) -> dict[str, FactorValue]:
    """Return the factors of `--factor NAME=VALUE` options in their one spelling.

    Raises:
        UsageError: for a factor that does not exist or a value that it does not take.
    """
    given: dict[str, FactorValue] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name:
            raise UsageError(
                f"--factor {assignment!r} is not NAME=VALUE", hint="For example: --factor api=send"
            )
        names = [f"{end}_{name}" for end in END_WORDS] if name in BOTH_ENDS else [name]
        for each in names:
            given |= _given(each, value)
    return given


def _given(name: str, value: str) -> dict[str, FactorValue]:
    from zcdb import factors

    factor = factors.find(name)
    if factor is None:
        import difflib

        near = difflib.get_close_matches(name, factors.FACTORS, 1)
        hint = f"Did you mean {near[0]}?" if near else "'zcdb schema' lists the factors."
        raise UsageError(f"--factor {name}: there is no such factor", hint=hint)
    try:
        return {factor.name: factors.normalise(factor.name, value)}
    except ValueError as error:
        raise UsageError(f"--factor {name}: {error}") from error


def environment_factors(environments: tuple[str, ...]) -> dict[str, FactorValue]:
    """Return what files about the machines say, as factors of their ends.

    Raises:
        UsageError: if a file cannot be read, or says nothing about a machine.
    """
    from zcdb import factors
    from zcdb.factors import FACTORS

    given: dict[str, FactorValue] = {}
    for option in environments:
        end, equals, name = option.partition("=")
        if not equals or end not in END_WORDS:
            end, name = "sender", option
        facts = _machine(name)
        if not facts:
            raise UsageError(
                f"--environment {name} says nothing about a network card or a machine",
                hint="Give it the output of 'ethtool -i', 'ethtool -k', 'lspci -nn',"
                " 'ip -j -d link' or 'zcdb probe --json'.",
            )
        for fact, value in facts.items():
            observed = f"{end}_{fact}"
            factor = observed if observed in FACTORS else f"{end}.{fact}"
            given[factor] = factors.normalise(factor, value)
    return given


def _machine(name: str) -> dict[str, FactorValue]:
    from zcdb.importers import read
    from zcdb.importers.record import machine_factors, probe_factors

    data = _bytes_of(name)
    facts = machine_factors(read(data, name).results)
    if not facts and data.lstrip()[:1] == b"{":
        try:
            probe = json.loads(data)
        except ValueError as error:
            raise UsageError(f"--environment {name} is not JSON: {error}") from error
        facts = probe_factors(probe)
    return facts


def describe(file: _File, given: dict[str, FactorValue]) -> dict[str, Any]:
    """Return a file's results and refusals as JSON: the form that programs read."""
    reading = file.reading
    described: dict[str, Any] = {
        "file": reading.file_name,
        "sha256": reading.sha256,
        "results": [_describe_result(result, given) for result in reading.results],
        "refused": [
            {
                "reason": refusal.reason,
                "lines": [refusal.span.first_line, refusal.span.last_line],
                "bytes": [refusal.span.first_byte, refusal.span.end_byte],
                "tool": refusal.tool or None,
            }
            for refusal in reading.refused
        ],
    }
    if file.stored is not None:
        described["source"] = file.stored.id
        described["is_new"] = file.stored.is_new
        for result, entry in zip(described["results"], file.stored.entries, strict=True):
            result["entry"] = entry
    return described


def _describe_result(result: Result, given: dict[str, FactorValue]) -> dict[str, Any]:
    return {
        "tool": result.tool,
        "format": result.format,
        "version": result.version,
        "test": result.test,
        "factors": {**result.factors, **given},
        "metrics": result.metrics,
        "methods": {m.metric: m.method for m in result.measurements if m.method},
        "not_measured": {m.metric: m.reason for m in result.measurements if m.value is None},
        "derived": {name: d.rule for name, d in result.derivations.items()},
        "lines": [result.span.first_line, result.span.last_line],
        "bytes": [result.span.first_byte, result.span.end_byte],
        "flags": [flag.code for flag in result.flags],
        "flag_details": {flag.code: flag.detail for flag in result.flags if flag.detail},
        "details": result.details,
    }


def table(file: _File, given: dict[str, FactorValue]) -> list[str]:
    """Return what a file gave, as lines for people."""
    reading = file.reading
    count, refused = len(reading.results), len(reading.refused)
    lines = [f"{reading.file_name}: {count} result{'s' * (count != 1)}, {refused} refused"]
    for result in reading.results:
        place = _place(result.span.first_line, result.span.last_line)
        version = f" {result.version}" if result.version else ""
        lines.append(f"  {place}  {result.tool}{version} {result.test}")
        conditions = {**result.factors, **given}
        if conditions:
            lines.append("    " + ", ".join(f"{k}={_word(v)}" for k, v in conditions.items()))
        for measurement in result.measurements:
            method = f" [{measurement.method}]" if measurement.method else ""
            value = _value(measurement.metric, measurement.value)
            said = value if value is not None else f"not measured: {measurement.reason}"
            lines.append(f"    {measurement.metric}{method}: {said}")
        for flag in result.flags:
            lines.append(f"    ! {flag.code}" + (f": {flag.detail}" if flag.detail else ""))
    for refusal in reading.refused:
        place = _place(refusal.span.first_line, refusal.span.last_line)
        lines.append(f"  {place}  refused: {refusal.reason}")
    if file.stored is not None:
        word = "recorded as" if file.stored.is_new else "is recorded already:"
        lines.append(f"  {word} source {file.stored.id}")
    return lines


def _place(first: int, last: int) -> str:
    return f"line {first}" if first == last else f"lines {first}-{last}"


def _word(value: FactorValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(metric: str, value: float | None) -> str | None:
    from zcdb import metrics

    return None if value is None else metrics.format_value(metric, value)
