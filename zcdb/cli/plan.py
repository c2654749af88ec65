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
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def plan_command(file: str, cv: str | None, as_json: bool) -> None:
    """Print what the experiment in FILE would do; run nothing.

    Shows its cases, their order, the time they take and the smallest
    difference they can show.  FILE may be the name of a shipped experiment.

    \b
    Example:
        zcdb plan runs/quickstart.toml --cv 3%
    """
    from zcdb.experiment import outline, spec
    from zcdb.experiment.plan import make_plan

    variation = None if cv is None else _variation(cv)
    experiment = spec.load(spec.find(file))
    plan = make_plan(experiment)
    detection = detection_of(experiment, plan, variation)
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


def detection_of(experiment: Experiment, plan: Plan, cv: float | None) -> Detection:
    """Return what a plan can detect if repetitions vary by `cv`, or by what is assumed."""
    from zcdb.experiment.outline import Detection, comparison_count
    from zcdb.stats.power import smallest_detectable_ratio
    from zcdb.stats.summary import MINIMUM_FOR_INTERVAL

    family_size = comparison_count(experiment, plan)
    repetitions = experiment.measure.repetitions
    level, power, reckoned = 0.95, 0.8, ASSUMED_CV if cv is None else cv
    smallest = None
    if family_size and repetitions >= MINIMUM_FOR_INTERVAL:
        smallest = smallest_detectable_ratio(reckoned, repetitions, level, family_size, power)
    return Detection(reckoned, cv is None, power, level, smallest)


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
