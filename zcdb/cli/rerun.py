"""`zcdb rerun`: measure a recorded result again, here, and show both."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from zcdb.report.rerun import Recorded
    from zcdb.store.session import Database


@dataclass(frozen=True, slots=True)
class RerunOptions:
    """What the command line says."""

    yes: bool
    wait: bool
    interfaces: tuple[str, ...]
    as_json: bool


@click.command("rerun")
@click.argument("wanted", metavar="ID|URL")
@click.option("--database", metavar="PATH|URL", help="Where it is recorded, and its repetition.")
@click.option("--yes", is_flag=True, help="Do not ask; for scripts.")
@click.option("--wait", is_flag=True, help="Wait while another run measures on this machine.")
@click.option(
    "--allow-interface",
    "allow_interfaces",
    metavar="NAME",
    multiple=True,
    help="As for 'zcdb run'.",
)
@click.option("--json", "as_json", is_flag=True, help="Print then and here as JSON.")
def rerun_command(
    wanted: str,
    database: str | None,
    yes: bool,
    wait: bool,
    allow_interfaces: tuple[str, ...],
    as_json: bool,
) -> None:
    """Measure a recorded result again on this machine and show both.

    ID or URL names a trial, a case, a run or an experiment in the database.
    The plan is shown first, with every command of a foreign tool that it would
    run, and nothing happens until you agree.  The repetition is recorded like
    any other run; what differs between the two machines is listed beside it.

    \b
    Example:
        zcdb rerun http://127.0.0.1:8750/cases/0123456789ab

    \b
    Exit codes: as for 'zcdb run'; 1 if you do not agree.
    """
    from zcdb.store.session import open_database

    store = open_database(database)
    try:
        code = _rerun(store, wanted, RerunOptions(yes, wait, allow_interfaces, as_json))
    finally:
        store.dispose()
    sys.exit(code)


def _rerun(store: Database, wanted: str, options: RerunOptions) -> int:
    from zcdb.cli import run
    from zcdb.cli.plan import detection_of
    from zcdb.experiment import outline, spec
    from zcdb.experiment.plan import make_plan
    from zcdb.report import rerun, verdicts
    from zcdb.report.plain import plain

    before = rerun.recorded(store, wanted)
    declared = spec.parse(before.text, before.title)
    plan = make_plan(declared)
    click.echo(outline.render_text(declared, plan, detection_of(declared, plan, None)), err=True)
    _say(before)
    if not options.yes:
        click.confirm("Measure this here?", abort=True, err=True)
    result = run.measure(
        declared,
        plan,
        store,
        run.RunOptions(f"rerun of {before.title}", False, False, options.wait, options.interfaces),
    )
    both = rerun.rerun_result(store, before, result.run_id)
    if options.as_json:
        click.echo(json.dumps(plain(both), indent=2, ensure_ascii=False))
    else:
        if before.case_factors is None:
            click.echo(verdicts.render_text(verdicts.verdict_table(store, result.run_id)))
        click.echo(rerun.render(both), nl=False)
    return run.exit_code(result)


def _say(before: Recorded) -> None:
    """Print what the record leaves open, and every foreign command, on stderr."""
    click.echo("", err=True)
    for note in before.notes:
        click.echo(note, err=True)
    for command in before.commands:
        click.echo(f"This runs a foreign command: {command}", err=True)
