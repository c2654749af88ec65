"""`zcdb run`: measure an experiment and record every trial."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from zcdb.experiment.plan import Plan
    from zcdb.experiment.spec import Experiment
    from zcdb.ids import Json
    from zcdb.records import (
        Environment,
        Outcome,
        PlannedCase,
        PlannedTrial,
        Run,
        TrialEnd,
        TrialStart,
    )
    from zcdb.runner.execute import Resume, RunResult
    from zcdb.store.results import RunState
    from zcdb.store.session import Database

EXIT_SOME_FAILED = 3
EXIT_CANNOT_RUN = 4
EXIT_INTERRUPTED = 1

DEFAULT_EXPERIMENT = "quickstart"


@click.command("run")
@click.argument("experiment", metavar="[FILE|NAME]", default=DEFAULT_EXPERIMENT)
@click.option("--database", metavar="PATH|URL", help="Where to record; default: the user's own.")
@click.option("--note", default="", help="A remark that is stored with the run.")
@click.option("--resume", is_flag=True, help="Go on with the newest unfinished run of this plan.")
@click.option("--dry-run", is_flag=True, help="Print the plan; run nothing (see 'zcdb plan').")
@click.option(
    "--require-all", is_flag=True, help="Stop before measuring if a case cannot run here."
)
@click.option("--wait", is_flag=True, help="Wait while another run measures on this machine.")
@click.option(
    "--allow-interface",
    "allow_interfaces",
    metavar="NAME",
    multiple=True,
    help="Change this interface's settings although it carries the default route or your ssh.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the verdicts as JSON.")
def run_command(
    experiment: str,
    database: str | None,
    note: str,
    resume: bool,
    dry_run: bool,
    require_all: bool,
    wait: bool,
    allow_interfaces: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run the experiment in FILE, or the shipped one called NAME.

    Without an argument this is the quickstart: sendfile, write and
    MSG_ZEROCOPY over loopback, about a minute and a half.  Each trial is
    stored as soon as it ends, so an interrupted run keeps what it measured and
    'zcdb run --resume' goes on with it.

    \b
    Example:
        zcdb run runs/quickstart.toml --note "before the firmware update"

    \b
    Exit codes: 0 done; 1 stopped or failed; 2 wrong file; 3 some trials failed;
    4 this machine cannot run it.
    """
    from zcdb.experiment import outline, spec
    from zcdb.experiment import plan as planning

    declared = spec.load(spec.find(experiment))
    plan = planning.make_plan(declared)
    if dry_run:
        from zcdb.cli.plan import detection_of

        click.echo(outline.render_text(declared, plan, detection_of(declared, plan, None)))
        return
    from zcdb.store.session import open_database

    store = open_database(database)
    try:
        options = RunOptions(note, resume, require_all, wait, allow_interfaces)
        result = measure(declared, plan, store, options)
        _print_verdicts(store, result.run_id, as_json)
    finally:
        store.dispose()
    sys.exit(exit_code(result))


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line says about a run."""

    note: str
    resume: bool
    require_all: bool
    wait: bool
    allow_interfaces: tuple[str, ...] = ()


def measure(declared: Experiment, plan: Plan, store: Database, options: RunOptions) -> RunResult:
    """Measure an experiment and record every trial in `store`."""
    from zcdb.cli import progress as showing
    from zcdb.runner.bench import LinkBench
    from zcdb.runner.execute import Execution, Timing, execute
    from zcdb.runner.interrupt import SignalInterruption
    from zcdb.runner.steering import steering_of

    wanted = declared.measure
    state = _find_resumable(declared, store) if options.resume else None
    # A run keeps the plan it was stored with, which may have grown since.
    cases = state.cases if state else plan.all_cases
    execution = Execution(
        experiment=declared.record(),
        cases=cases,
        plan=state.plan if state else plan.trials,
        seed=wanted.seed,
        timing=Timing(
            wanted.duration_ns,
            wanted.discard_ns,
            wanted.sample_ns,
            wanted.bracket_ns,
            wanted.rest_ns,
        ),
        note=options.note,
        resume=_resume(declared, store, state) if state else None,
        steering=steering_of(declared, cases),
        is_all_required=options.require_all,
    )
    # A twin is shown as the case that it is.
    shown = [case.factors for case in plan.cases]
    progress = showing.for_stderr(shown, plan.estimated_ns)
    bench = LinkBench(
        declared.link,
        [case.factors for case in cases],
        progress.message,
        holder=f"zcdb run {declared.name}",
        is_waiting=options.wait,
        allow_interfaces=options.allow_interfaces,
    )
    with SignalInterruption() as interruption, progress:
        return execute(execution, bench, StoreRecorder(store), progress, interruption)


def _find_resumable(declared: Experiment, store: Database) -> RunState:
    from zcdb.errors import UsageError
    from zcdb.store import queries, write

    state = queries.resumable_run(store, declared.record().id)
    if state is None:
        raise UsageError(
            f"there is no unfinished run of {declared.name} as this file states it",
            hint="without --resume a new run begins; 'zcdb list' shows the runs",
        )
    write.fail_interrupted_trials(store, state.run_id)
    return queries.resumable_run(store, declared.record().id) or state


def _resume(declared: Experiment, store: Database, state: RunState) -> Resume:
    from zcdb.runner.execute import Resume
    from zcdb.runner.steering import steering_metric
    from zcdb.store.queries.method import measured_values

    metric = steering_metric(declared)
    measured = measured_values(store, state.run_id, metric) if metric else {}
    return Resume(state.run_id, frozenset(state.finished), state.attempts, measured)


class StoreRecorder:
    """Hands every record to the store, each in a transaction of its own."""

    def __init__(self, store: Database) -> None:
        from zcdb.store import write

        self._store = store
        self._write = write

    def run_started(self, run: Run) -> None:
        """Store a new run and its plan."""
        self._write.add_run(self._store, run)

    def environment_seen(self, environment: Environment) -> None:
        """Store the facts of a host, once, and what they claim of its network cards."""
        self._write.add_environment(self._store, environment)
        _add_claims(self._store, environment)

    def plan_extended(
        self, run_id: str, cases: Sequence[PlannedCase], trials: Sequence[PlannedTrial]
    ) -> None:
        """Store cases and places that join the plan."""
        self._write.extend_plan(self._store, run_id, cases, trials)

    def trial_started(self, trial: TrialStart) -> None:
        """Store that a trial begins."""
        self._write.start_trial(self._store, trial)

    def trial_ended(self, end: TrialEnd) -> None:
        """Store how a trial ended."""
        self._write.end_trial(self._store, end)

    def run_ended(self, run_id: str, outcome: Outcome, readings: Mapping[str, Json]) -> None:
        """Store the end of a run."""
        self._write.finish_run(self._store, run_id, outcome, readings)


def _print_verdicts(store: Database, run_id: str, as_json: bool) -> None:
    import json

    from zcdb.report import verdicts

    table = verdicts.verdict_table(store, run_id)
    if as_json:
        click.echo(json.dumps(verdicts.to_json(table), indent=2))
    else:
        click.echo(verdicts.render_text(table))


def exit_code(result: RunResult) -> int:
    """Return the exit code of a run, and say on stderr what is left to know."""
    if result.outcome == "interrupted":
        click.echo("Stopped; 'zcdb run --resume' with the same file goes on with it.", err=True)
        return EXIT_INTERRUPTED
    counts = result.counts
    for status in ("failed", "unsupported"):
        if counts[status]:
            click.echo(f"{counts[status]} trials {status}; 'zcdb show {result.run_id}'", err=True)
    if counts["failed"]:
        return EXIT_SOME_FAILED
    return EXIT_CANNOT_RUN if counts["unsupported"] and not counts["ok"] else 0


def _add_claims(store: Database, environment: Environment) -> None:
    """Store what the interfaces of a run showed that their drivers can and cannot do."""
    from datetime import UTC, datetime

    from zcdb.nics.probe import claims_of_environment
    from zcdb.store.claims import Claim, add_claims

    today = datetime.now(UTC).date().isoformat()
    add_claims(
        store,
        [
            Claim(
                subject_kind=probed.subject_kind,
                subject=probed.subject,
                capability=probed.capability,
                value=probed.value,
                state=probed.state,
                kernel=probed.kernel,
                source_kind=probed.source_kind,
                place=probed.place,
                dated=probed.date,
                environment_id=probed.environment or None,
            )
            for probed in claims_of_environment(
                environment.facts, date=today, environment=environment.id
            )
        ],
    )
