"""A plan for people and for programs: what `zcdb plan` prints.

What a plan can detect is arithmetic of `zcdb.stats.power`, which this room
does not know: the caller brings it as a `Detection`.
"""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zcdb import factors
from zcdb.experiment.form import Experiment
from zcdb.experiment.plan import STARTUP_NS, Plan, pairs
from zcdb.factors import FACTORS
from zcdb.ids import Json
from zcdb.units import format_duration, format_ratio

WIDTH = 78

DEFAULTS_THAT_MATTER = (
    "message_size",
    "rx_api",
    "receive_size",
    "working_set",
    "streams",
    "pinning",
)
"""Constants that are printed even where the file does not state them."""


@dataclass(frozen=True, slots=True)
class Detection:
    """What a plan can show.

    Attributes:
        cv: coefficient of variation of the repetitions of a case.
        is_assumed: True if nobody said so.
        power: probability with which the difference is detected.
        level: confidence of the whole family of comparisons.
        smallest_difference: as a ratio, 0.02 for 2 %; None where there is none to detect.
    """

    cv: float
    is_assumed: bool
    power: float
    level: float
    smallest_difference: float | None


def comparison_count(experiment: Experiment, plan: Plan) -> int:
    """Return how many comparisons the [compare] section asks for; they are judged together."""
    compare = experiment.compare
    return len(pairs(plan.cases, compare.baseline)) * len(compare.metrics)


def render_text(experiment: Experiment, plan: Plan, detection: Detection) -> str:
    """Return the plan as text, 78 columns wide."""
    parts = [
        _header(experiment, plan),
        ["Cases", *_cases(plan)],
        ["The same in all cases", *_constants(experiment, plan)],
        [f"Order: randomised complete blocks, seed {experiment.measure.seed}", *_order(plan)],
        ["What this can show", *_indented(_detectable(experiment, plan, detection))],
    ]
    return "\n\n".join("\n".join(part) for part in parts)


def to_json(experiment: Experiment, plan: Plan, detection: Detection) -> dict[str, Json]:
    """Return the plan as JSON: cases, order, time, and what can be detected."""
    return {
        "experiment": experiment.resolved(),
        "experiment_id": experiment.record().id,
        "cases": [{"plan_key": case.plan_key, "factors": case.factors} for case in plan.cases],
        "trials": [
            {"position": trial.position, "block": trial.block, "plan_key": trial.plan_key}
            for trial in plan.trials
        ],
        "estimated_ns": plan.estimated_ns,
        "detectable": {
            "comparisons": comparison_count(experiment, plan),
            **dataclasses.asdict(detection),
        },
    }


def _header(experiment: Experiment, plan: Plan) -> list[str]:
    measure = experiment.measure
    return [
        experiment.name,
        *_indented([experiment.question]),
        *_indented(
            [
                f"{len(plan.cases)} cases × {measure.repetitions} repetitions"
                f" = {len(plan.trials)} trials over {experiment.link.kind},"
                f" about {format_duration(plan.estimated_ns)}.",
                f"A trial: {format_duration(measure.discard_ns)} discarded,"
                f" {format_duration(measure.duration_ns)} measured, read every"
                f" {format_duration(measure.sample_ns)};"
                f" {format_duration(measure.bracket_ns)} idle before and after;"
                f" about {format_duration(STARTUP_NS)} to start.",
            ]
        ),
    ]


def _indented(paragraphs: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for paragraph in paragraphs:
        # A number stays on the line of its unit.
        glued = re.sub(r"(?<=[0-9]) (?=[a-z%])", "\u00a0", paragraph)
        lines += textwrap.wrap(
            glued, WIDTH, initial_indent="  ", subsequent_indent="  ", break_long_words=False
        )
    return [line.replace("\u00a0", " ") for line in lines]


def _cases(plan: Plan) -> Iterator[str]:
    """Yield a table of the cases: number, varying factors, start of the plan key."""
    names = factors.varying(case.factors for case in plan.cases)
    rows = [["case", *names, "plan key"]]
    for number, case in enumerate(plan.cases, 1):
        shown = [factors.display(name, case.factors[name]) for name in names]
        rows.append([str(number), *shown, case.plan_key[:8]])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        cells[0] = row[0].rjust(widths[0])
        yield ("  " + "  ".join(cells)).rstrip()


def _constants(experiment: Experiment, plan: Plan) -> list[str]:
    varying = set(factors.varying(case.factors for case in plan.cases))
    stated = set(experiment.fixed) | {
        name for levels in experiment.factors.values() for p in levels for name in p
    }
    constants = plan.cases[0].factors
    shown = []
    for name in FACTORS:
        if name in varying or name not in constants:
            continue
        if name in stated:
            shown.append(f"{name} {factors.display(name, constants[name])}")
        elif name in DEFAULTS_THAT_MATTER:
            shown.append(f"{name} {factors.display(name, constants[name])} (default)")
    return _indented([", ".join(shown) + "; all else at its default."])


def _order(plan: Plan) -> Iterator[str]:
    """Yield one line a block with the numbers of its cases."""
    numbers = {case.plan_key: str(number) for number, case in enumerate(plan.cases, 1)}
    blocks: dict[int, list[str]] = defaultdict(list)
    for trial in plan.trials:
        blocks[trial.block].append(numbers[trial.plan_key])
    label_width = len(str(len(blocks)))
    for block, cases in blocks.items():
        label = f"  block {block + 1:>{label_width}}: "
        yield from textwrap.wrap(
            " ".join(cases), WIDTH, initial_indent=label, subsequent_indent=" " * len(label)
        )


def _detectable(experiment: Experiment, plan: Plan, detection: Detection) -> list[str]:
    compare = experiment.compare
    family_size = comparison_count(experiment, plan)
    if family_size == 0:
        return ["Nothing is compared: [compare] names no baseline."]
    baseline = ", ".join(
        f"{name} {factors.display(name, value)}" for name, value in compare.baseline.items()
    )
    compared = (
        f"{family_size // len(compare.metrics)} cases are compared with {baseline} by"
        f" {', '.join(compare.metrics)}: {family_size} comparisons, judged together at"
        f" {format_ratio(detection.level, 2)}."
    )
    if experiment.measure.repetitions < 3:
        return [compared, "Fewer than three repetitions give no interval and no verdict."]
    source = "an assumption; --cv sets another" if detection.is_assumed else "as --cv says"
    variation = f"If repetitions vary by {format_ratio(detection.cv, 2)} ({source}),"
    if detection.smallest_difference is None:
        return [compared, f"{variation} even a tenfold difference may go unnoticed."]
    return [
        compared,
        f"{variation} a difference of {format_ratio(detection.smallest_difference, 2)} is"
        f" detected in {detection.power * 10:.0f} of 10 runs; smaller ones may stay undecided."
        f" Differences below {format_ratio(compare.matters, 2)} are called equivalent where the"
        " intervals allow.",
    ]
