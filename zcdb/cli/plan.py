"""`zcdb plan` and `zcdb schema`: what an experiment would do, and what a file may say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from zcdb.experiment.outline import Detection
    from zcdb.experiment.plan import Plan
    from zcdb.experiment.spec import Experiment

ASSUMED_CV = 0.02
"""Variation of repetitions that a plan reckons with where nobody knows better."""


@click.command("plan")
@click.argument("file", metavar="[FILE|NAME]", default="quickstart")
@click.option("--cv", metavar="RATIO", help="Variation of repetitions to reckon with, such as 3%.")
@click.option("--pilot", metavar="RUN", help="Take the variation from this run, by its id.")
@click.option("--database", metavar="FILE|URL", help="Where the pilot run is recorded.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def plan_command(
    file: str, cv: str | None, pilot: str | None, database: str | None, as_json: bool
) -> None:
    """Print what the experiment in FILE would do; run nothing.

    Shows its cases, their order, the time they take and the smallest
    difference they can show.  What that is depends on how much repetitions
    vary: --cv states it, --pilot takes it from a run that was recorded.  FILE
    may be the name of a shipped experiment.

    \b
    Examples:
        zcdb plan runs/quickstart.toml --cv 3%
        zcdb plan runs/quickstart.toml --pilot 01950002
    """
    from zcdb.errors import UsageError
    from zcdb.experiment import outline, spec
    from zcdb.experiment.plan import make_plan

    if cv is not None and pilot is not None:
        raise UsageError("--cv and --pilot both state the variation; leave one of them out")
    experiment = spec.load(spec.find(file))
    plan = make_plan(experiment)
    if pilot is not None:
        detection = _by_pilot(experiment, plan, pilot, database)
    else:
        detection = detection_of(experiment, plan, None if cv is None else _variation(cv))
    if as_json:
        document = outline.to_json(experiment, plan, detection)
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        click.echo(outline.render_text(experiment, plan, detection))


def _variation(text: str) -> float:
    from zcdb.errors import UsageError
    from zcdb.units import parse_ratio

    try:
        ratio = parse_ratio(text)
    except ValueError as error:
        raise UsageError(f"--cv: {error}") from error
    if ratio == 0:
        raise UsageError("--cv: repetitions that do not vary at all need no plan")
    return ratio


def _by_pilot(experiment: Experiment, plan: Plan, run: str, database: str | None) -> Detection:
    """Return what a plan can detect if repetitions vary as in a recorded run."""
    from zcdb.errors import UsageError
    from zcdb.report.spread import spread_of_run
    from zcdb.store import queries
    from zcdb.store.session import opened

    metric = experiment.compare.metrics[0]
    with opened(database) as db:
        found = queries.find(db, run, kind="run")
        spread = spread_of_run(db, found.id, metric)
    if spread is None:
        raise UsageError(
            f"--pilot: run {found.id} has no case with three values of {metric} that vary",
            hint=f"{metric} is the first metric of the experiment's [compare] section.",
        )
    return detection_of(experiment, plan, spread, f"as {metric} did in run {found.id[:13]}")


def detection_of(
    experiment: Experiment, plan: Plan, cv: float | None, source: str | None = None
) -> Detection:
    """Return what a plan can detect if repetitions vary by `cv`, or by what is assumed."""
    from zcdb.experiment.outline import Detection, comparison_count
    from zcdb.stats.power import repetitions_to_detect, smallest_detectable_ratio
    from zcdb.stats.summary import MINIMUM_FOR_INTERVAL

    family_size = comparison_count(experiment, plan)
    blocks = experiment.measure.blocks
    level, power, reckoned = 0.95, 0.8, ASSUMED_CV if cv is None else cv
    if source is None:
        source = "an assumption; --cv sets another" if cv is None else "as --cv says"
    smallest = needed = None
    if family_size and blocks >= MINIMUM_FOR_INTERVAL:
        smallest = smallest_detectable_ratio(reckoned, blocks, level, family_size, power)
        matters = experiment.compare.matters
        needed = repetitions_to_detect(matters, reckoned, level, family_size, power)
    return Detection(reckoned, source, power, level, smallest, needed)


@click.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of experiment files.

    Editors that know TOML check a file against it while it is written.

    \b
    Example:
        zcdb schema > zcdb-experiment.schema.json
    """
    from zcdb.experiment import spec

    click.echo(spec.json_schema())
