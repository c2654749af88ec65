"""zcdb soak: CPU time by subtraction, live, around a command, or against known loads."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from zcdb.errors import UsageError
from zcdb.ids import Json

if TYPE_CHECKING:
    from zcdb.engine.measure import CommandResult, FreeCpu
    from zcdb.engine.selftest import KnownLoad, SelfTest

MOST_CPUS_IN_A_LINE = 8
HEADING_EVERY = 20
NOTES = {
    "soak": "whole machine, from the gaps the soakers saw",
    "soak_work": "whole machine, from the work they lost; feels cache contention too",
    "procstat": "whole machine, by the kernel's ticks",
    "rusage": "the command alone, without interrupt work",
}


@click.command(
    "soak", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False}
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--seconds", type=click.FloatRange(min=0.1), help="End the live view after that.")
@click.option("--self-test", "is_self_test", is_flag=True, help="Measure loads that are known.")
@click.option("--cpus", "cpu_list", metavar="LIST", help="CPUs to soak, as 0-3,6; all if left out.")
@click.option("--wait", "is_waiting", is_flag=True, help="Wait while another run measures here.")
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
def soak_command(
    command: tuple[str, ...],
    seconds: float | None,
    is_self_test: bool,
    cpu_list: str | None,
    is_waiting: bool,
    is_json: bool,
) -> None:
    """Measure CPU time by what is left over for an idle-priority soaker on each CPU.

    Without a command: print every CPU's free share once a second until Ctrl-C.
    With one: run it between two idle brackets, print the CPU time it used by
    every method, and exit with its exit code (127 if it is not found).  Its
    own output stays where it is; with --json it goes to standard error.

    \b
    Example:
        zcdb soak -- tar cf /dev/null /usr/share/doc
    """
    cpus = _cpus(cpu_list)
    if is_self_test:
        if command or seconds or cpus:
            raise UsageError("--self-test takes no command, --seconds or --cpus")
        _run_self_test(is_waiting, is_json)
    elif command:
        if seconds:
            raise UsageError("--seconds is for the live view; a command ends by itself")
        _run_command(command, cpus, is_waiting, is_json)
    else:
        _run_live(seconds, cpus, is_waiting, is_json)


def _cpus(text: str | None) -> list[int] | None:
    from zcdb.host.procstat import parse_cpu_list

    if text is None:
        return None
    try:
        return parse_cpu_list(text)
    except ValueError as error:
        raise UsageError(f"--cpus: {error}", hint="Write CPU numbers and ranges: 0-3,6.") from error


def _print_json(value: Json) -> None:
    click.echo(json.dumps(value, ensure_ascii=False))


# -- live ------------------------------------------------------------------------------------


def _run_live(
    seconds: float | None, cpus: list[int] | None, is_waiting: bool, is_json: bool
) -> None:
    from zcdb.engine.measure import open_bench, watch

    duration_ns = round(seconds * 10**9) if seconds else None
    with open_bench(cpus, is_load_pinned=False, is_waiting=is_waiting) as bench:
        try:
            for line, (at_ns, free) in enumerate(watch(bench, 10**9, duration_ns)):
                if is_json:
                    _print_json(_live_json(at_ns, free))
                else:
                    _print_live(line, at_ns, free)
        except KeyboardInterrupt:
            # The ordinary end of a live view.
            click.echo("", err=True)


def _live_json(at_ns: int, free: list[FreeCpu]) -> Json:
    return {
        "at_ns": at_ns,
        "free_cpus": sum(cpu.free_share for cpu in free),
        "cpus": [
            {
                "cpu": cpu.cpu,
                "free_share": cpu.free_share,
                "task_share": cpu.task_share,
                "interrupt_share": cpu.interrupt_share,
                "steal_share": cpu.steal_share,
            }
            for cpu in free
        ],
    }


def _print_live(line: int, at_ns: int, free: list[FreeCpu]) -> None:
    """Print one line: a column a CPU where they fit, else the least free ones."""
    is_wide = len(free) > MOST_CPUS_IN_A_LINE
    shown = sorted(free, key=lambda cpu: cpu.free_share)[:MOST_CPUS_IN_A_LINE] if is_wide else free
    if line == 0 or (line % HEADING_EVERY == 0 and sys.stdout.isatty()):
        names = "least free CPUs" if is_wide else "  ".join(f"  CPU {cpu.cpu:<3}" for cpu in shown)
        click.echo(f"{'seconds':>7}  {'free':>13}  tasks   irq  steal   {names}")
    count = len(free)
    sums = [
        100 * sum(values) / count
        for values in zip(
            *((cpu.task_share, cpu.interrupt_share, cpu.steal_share) for cpu in free), strict=True
        )
    ]
    total = sum(cpu.free_share for cpu in free)
    columns = "  ".join(
        f"{f'{cpu.cpu}: ' if is_wide else ''}{100 * cpu.free_share:6.1f} %" for cpu in shown
    )
    click.echo(
        f"{at_ns / 1e9:7.1f}  {total:6.2f} of {count:<3}"
        f" {sums[0]:5.1f} {sums[1]:5.1f}  {sums[2]:5.1f}   {columns}"
    )


# -- a command -------------------------------------------------------------------------------


def _run_command(
    command: tuple[str, ...], cpus: list[int] | None, is_waiting: bool, is_json: bool
) -> None:
    from zcdb.engine.measure import measure_command

    result = measure_command(command, cpus, is_stdout_moved=is_json, is_waiting=is_waiting)
    if is_json:
        _print_json(_command_json(result))
    else:
        _print_command(result)
    sys.exit(result.exit_code)


def _methods(result: CommandResult) -> dict[str, dict[str, Any]]:
    """Return each method's figure: the machine's, and for rusage the command's own."""
    methods = {
        name: {"cpu_time_ns": time.cpu_time_ns, "reason": time.reason}
        for name, time in result.books.host.items()
    }
    return methods | {"rusage": {"cpu_time_ns": result.rusage_ns, "reason": None}}


def _command_json(result: CommandResult) -> Json:
    books = result.books
    return {
        "command": list(result.command),
        "exit_code": result.exit_code,
        "window_ns": books.window_ns,
        "cpu_count": books.cpu_count,
        "methods": _methods(result),
        "cpus": [
            {
                "cpu": book.cpu,
                "soak_ns": _ns(book.soak_share, books.window_ns),
                "soak_work_ns": _ns(book.soak_work_share, books.window_ns),
                "procstat_ns": book.procstat_ns,
                "steal_share": book.steal_share,
                "foreign_share": book.foreign_share,
                "kept_samples": book.kept_samples,
                "samples": book.samples,
            }
            for book in books.cpus
        ],
        "foreign_reason": result.foreign_reason,
        "sampler_reason": result.sampler.reason,
        "flags": {flag.code: flag.detail for flag in books.flags},
    }


def _ns(share: float | None, window_ns: int) -> int | None:
    return None if share is None else round(share * window_ns)


def _seconds(time_ns: int | None) -> str:
    return "not measured" if time_ns is None else f"{time_ns / 1e9:.3f} s"


def _print_command(result: CommandResult) -> None:
    from zcdb import flags

    books = result.books
    window_s = books.window_ns / 1e9
    click.echo(f"\n{shlex.join(result.command)}: {window_s:.3f} s, exit code {result.exit_code}")
    click.echo(f"\n  {'method':<10} {'CPU time':>12}  {'CPUs':>7}")
    for name, method in _methods(result).items():
        time_ns = method["cpu_time_ns"]
        cpus = f"{time_ns / books.window_ns:7.3f}" if time_ns is not None else ""
        note = method["reason"] or NOTES[name]
        click.echo(f"  {name:<10} {_seconds(time_ns):>12}  {cpus:>7}  {note}")
    click.echo(f"\n  {'CPU':<10} {'soak':>12}  {'soak_work':>12}  {'procstat':>12}")
    for book in books.cpus:
        row = [
            _seconds(_ns(book.soak_share, books.window_ns)),
            _seconds(_ns(book.soak_work_share, books.window_ns)),
            _seconds(book.procstat_ns),
        ]
        click.echo(f"  {book.cpu:<10} {row[0]:>12}  {row[1]:>12}  {row[2]:>12}")
    if books.flags:
        click.echo("")
    for flag in books.flags:
        click.echo(f"  {flag.code}: {flags.sentence(flag.code)} ({flag.detail})")


# -- known loads -----------------------------------------------------------------------------


def _run_self_test(is_waiting: bool, is_json: bool) -> None:
    from zcdb.engine.selftest import self_test

    if is_json:
        _print_json(_self_test_json(self_test(is_waiting=is_waiting)))
        return
    click.echo(
        "Error in percentage points of one CPU, by method.\n"
        "*: disturbed samples were left out; **: too many to leave out.\n"
    )
    click.echo(f"  {'load':>5}  {'true':>7}  {'soak':>9}  {'soak_work':>9}  {'procstat':>9}")
    result = self_test(_print_load, is_waiting=is_waiting)
    click.echo("")
    for load in result.loads:
        for code, detail in load.flags.items():
            click.echo(f"  {100 * load.duty:3.0f} %  {code}: {detail}")
    if result.sampler.reason is not None:
        click.echo(f"  {result.sampler.reason}: edges may come late", err=True)


def _print_load(load: KnownLoad) -> None:
    errors = [
        "-" if error is None else f"{error:+.2f}"
        for error in (load.error_points[name] for name in ("soak", "soak_work", "procstat"))
    ]
    mark = " **" if load.is_contaminated else " *" if load.is_disturbed else ""
    click.echo(
        f"  {100 * load.duty:3.0f} %  {100 * load.true_share:5.1f} %"
        f"  {errors[0]:>9}  {errors[1]:>9}  {errors[2]:>9}{mark}"
    )


def _self_test_json(result: SelfTest) -> Json:
    return {
        "cpu": result.cpu,
        "is_isolated": result.is_isolated,
        "foreign_reason": result.foreign_reason,
        "sampler_cpu": result.sampler.cpu,
        "sampler_reason": result.sampler.reason,
        "loads": [
            {
                "duty": load.duty,
                "true_share": load.true_share,
                "shares": dict(load.shares),
                "error_points": dict(load.error_points),
                "is_contaminated": load.is_contaminated,
                "is_disturbed": load.is_disturbed,
                "flags": dict(load.flags),
            }
            for load in result.loads
        ],
    }
