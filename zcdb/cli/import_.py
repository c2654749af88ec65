"""`zcdb import`: what other tools printed, into the record.

Reads files, calls the importers, prints.  What the importers understand is
`zcdb.importers`' business; what is stored is the store's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from zcdb.errors import HostError, UsageError

if TYPE_CHECKING:
    from zcdb.factors import FactorValue
    from zcdb.importers import Reading, Result

BOTH_ENDS = ("nic", "driver", "kernel", "cpu")
"""Context that may be given once for both ends."""


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
def import_command(
    files: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    assignments: tuple[str, ...],
    command: str | None,
) -> None:
    """Read what other tools printed: netperf, iperf, neper, nuttcp, perf, ethtool and more.

    FILE is a file of any of them, or '-' for standard input; one file may hold
    many results, of several tools, inside a mail or a shell log.  Results go
    to standard output.  Nothing is guessed: what cannot be read for certain is
    refused, with the reason.

    \b
    Example:
        zcdb import --dry-run netperf.txt --factor nic='Myricom Myri-10G'
    """
    from zcdb.importers import read

    given = parse_factors(assignments)
    readings = [read(_bytes_of(name), name, command) for name in files]
    for reading in readings:
        refuse_contradictions(reading, given)
    if not dry_run:
        record(readings, given)
    for reading in readings:
        if as_json:
            click.echo(json.dumps(describe(reading, given), ensure_ascii=False, allow_nan=False))
        else:
            click.echo("\n".join(table(reading, given)))


def record(readings: list[Reading], given: dict[str, FactorValue]) -> NoReturn:
    """Store what was read.  The seam to the tables of sources, which do not exist yet.

    Raises:
        HostError: always, until they do.
    """
    raise HostError(
        "recording imported results in the database is not built yet",
        hint="'zcdb import --dry-run' shows what would be recorded.",
    )


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
    from zcdb import factors

    given: dict[str, FactorValue] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name:
            raise UsageError(
                f"--factor {assignment!r} is not NAME=VALUE", hint="For example: --factor api=send"
            )
        names = [f"{end}_{name}" for end in ("sender", "receiver")] if name in BOTH_ENDS else [name]
        for each in names:
            factor = factors.find(each)
            given[each] = _wanted(each, value) if factor is None else _normal(factor.name, value)
    return given


def _normal(name: str, value: str) -> FactorValue:
    from zcdb import factors

    factor = factors.FACTORS[name]
    try:
        is_number = factor.type == "integer" and value.isdecimal()
        return factors.normalise(name, int(value) if is_number else value)
    except ValueError as error:
        raise UsageError(f"--factor {name}: {error}") from error


def _wanted(name: str, value: str) -> FactorValue:
    """Return the value of a factor that only imports have."""
    from zcdb import factors, units
    from zcdb.importers.vocabulary import FACTORS_WANTED

    if name not in FACTORS_WANTED:
        import difflib

        near = difflib.get_close_matches(name, [*factors.FACTORS, *FACTORS_WANTED], 1)
        hint = f"Did you mean {near[0]}?" if near else "'zcdb schema' lists the factors."
        raise UsageError(f"--factor {name}: there is no such factor", hint=hint)
    kind = FACTORS_WANTED[name][0]
    try:
        if kind == "size":
            return units.parse_size(value)
        if kind == "rate":
            return units.parse_rate(value)
        if kind == "integer":
            return int(value)
    except ValueError as error:
        raise UsageError(f"--factor {name}: {error}") from error
    if kind == "boolean":
        if value not in ("true", "false"):
            raise UsageError(f"--factor {name}: {value!r} is not true or false")
        return value == "true"
    return value


def describe(reading: Reading, given: dict[str, FactorValue]) -> dict[str, Any]:
    """Return a file's results and refusals as JSON: the form that programs read."""
    return {
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


def table(reading: Reading, given: dict[str, FactorValue]) -> list[str]:
    """Return what a file would give, as lines for people."""
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
    return lines


def _place(first: int, last: int) -> str:
    return f"line {first}" if first == last else f"lines {first}-{last}"


def _word(value: FactorValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(metric: str, value: float | None) -> str | None:
    from zcdb import metrics, units
    from zcdb.importers.vocabulary import wanted_unit

    if value is None:
        return None
    if metric in metrics.METRICS:
        return metrics.format_value(metric, value)
    unit = wanted_unit(metric)
    if unit == "s":
        return units.format_duration(value * 1e9)
    if unit == "ratio":
        return units.format_ratio(value)
    return f"{value:.6g} {unit}"
