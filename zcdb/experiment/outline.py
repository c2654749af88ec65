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
from zcdb.experiment.cases import levels_of
from zcdb.experiment.form import Experiment
from zcdb.experiment.plan import STARTUP_NS, Plan, estimate_ns, pairs
from zcdb.experiment.sections import LEAST_FOR_INTERVAL
from zcdb.factors import ABSENT, FACTORS
from zcdb.ids import Json
from zcdb.records import PlannedCase
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
        source: who says so: "an assumption; --cv sets another".
        power: probability with which the difference is detected.
        level: confidence of the whole family of comparisons.
        smallest_difference: as a ratio, 0.02 for 2 %; None where there is none to detect.
        repetitions_needed: to detect a difference as large as the file's `matters` with the
            same power; None where nothing is compared, or no affordable number does.
    """

    cv: float
    source: str
    power: float
    level: float
    smallest_difference: float | None
    repetitions_needed: int | None = None


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
        "twins": [{"plan_key": case.plan_key, "factors": case.factors} for case in plan.twins],
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
                f"{_counted(plan)} × {_how_often(experiment)}"
                f" {len(plan.trials)} trials over {experiment.link.kind},"
                f" about {format_duration(plan.estimated_ns)}.",
                *_stages(experiment),
                f"A trial:{_rest(experiment)} {format_duration(measure.discard_ns)} discarded,"
                f" {format_duration(measure.duration_ns)} measured, read every"
                f" {format_duration(measure.sample_ns)};"
                f" {format_duration(measure.bracket_ns)} idle before and after;"
                f" about {format_duration(STARTUP_NS)} to start.",
            ]
        ),
    ]


def _counted(plan: Plan) -> str:
    if not plan.twins:
        return f"{len(plan.cases)} cases"
    twins = "1 twin" if len(plan.twins) == 1 else f"{len(plan.twins)} twins"
    return f"({len(plan.cases)} cases + {twins})"


def _how_often(experiment: Experiment) -> str:
    until = experiment.measure.until
    if until is None:
        return f"{experiment.measure.repetitions} repetitions ="
    return f"{until.at_least} to {until.at_most} repetitions = at most"


def _stages(experiment: Experiment) -> Iterator[str]:
    """Yield what a run decides by itself while it measures."""
    until, crossover = experiment.measure.until, experiment.compare.crossover
    if until is not None:
        what = "every comparison" if experiment.compare.baseline else "every case"
        yield (
            f"It stops as soon as the interval of {until.metric} of {what} is at most"
            f" ± {format_ratio(until.half_width, 2)} wide; all intervals are widened for looking."
        )
    if crossover is not None:
        first, second = crossover.between
        more = crossover.at_most - len(levels_of(experiment, crossover.factor))
        longest_ns = estimate_ns(experiment.measure, 2 * more * experiment.measure.repetitions)
        yield (
            f"Then it searches the {crossover.factor} from which on {first} and {second} change"
            f" places in {crossover.metric}: at most {more} more levels of two cases each, about"
            f" {format_duration(longest_ns)} more."
        )


def _rest(experiment: Experiment) -> str:
    rest_ns = experiment.measure.rest_ns
    return f" {format_duration(rest_ns)} rest, then" if rest_ns else ""


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
    numbers = _numbers(plan)
    names = factors.varying(case.factors for case in plan.cases)
    rows = [["case", *names, "plan key"]]
    for number, case in enumerate(plan.cases, 1):
        shown = [factors.display(name, case.factors.get(name, ABSENT)) for name in names]
        rows.append([str(number), *shown, case.plan_key[:8]])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        cells[0] = row[0].rjust(widths[0])
        yield ("  " + "  ".join(cells)).rstrip()
    if plan.twins:
        doubled = [numbers[_without_twin(twin)] + "'" for twin in plan.twins]
        yield from _indented(
            [
                f"{', '.join(doubled)}: the same case again under another name, to see how often"
                " equal cases are found to differ; in no comparison. 'aa = false' leaves it out."
            ]
        )


def _numbers(plan: Plan) -> dict[str, str]:
    """Return plan key -> the number of a case; a twin has its case's number with a dash."""
    numbers = {case.plan_key: str(number) for number, case in enumerate(plan.cases, 1)}
    return numbers | {twin.plan_key: numbers[_without_twin(twin)] + "'" for twin in plan.twins}


def _without_twin(twin: PlannedCase) -> str:
    return factors.plan_key({**twin.factors, "twin": 0})


def _constants(experiment: Experiment, plan: Plan) -> list[str]:
    varying = set(factors.varying(case.factors for case in plan.cases))
    stated = set(experiment.fixed) | {
        name for levels in experiment.factors.values() for p in levels for name in p
    }
    constants = plan.cases[0].factors
    shown = []
    for name in dict.fromkeys([*FACTORS, *constants]):
        if name in varying or name not in constants:
            continue
        if name in stated:
            shown.append(f"{name} {factors.display(name, constants[name])}")
        elif name in DEFAULTS_THAT_MATTER:
            shown.append(f"{name} {factors.display(name, constants[name])} (default)")
    return _indented([", ".join(shown) + "; all else at its default."])


def _order(plan: Plan) -> Iterator[str]:
    """Yield one line a block with the numbers of its cases."""
    numbers = _numbers(plan)
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
    if experiment.measure.blocks < LEAST_FOR_INTERVAL:
        return [compared, "Fewer than three repetitions give no interval and no verdict."]
    variation = f"If repetitions vary by {format_ratio(detection.cv, 2)} ({detection.source}),"
    if detection.smallest_difference is None:
        return [compared, f"{variation} even a tenfold difference may go unnoticed."]
    return [
        compared,
        f"{variation} a difference of {format_ratio(detection.smallest_difference, 2)} is"
        f" detected in {detection.power * 10:.0f} of 10 runs; smaller ones may stay undecided."
        f" Differences below {format_ratio(compare.matters, 2)} are called equivalent where the"
        " intervals allow.",
        *_enough(experiment, detection),
        "All trials come from one boot unless the run is resumed after another: there is no"
        " between-boot estimate, and what a boot settles by chance is not in the intervals.",
    ]


def _enough(experiment: Experiment, detection: Detection) -> Iterator[str]:
    """Yield how many repetitions show a difference that matters."""
    matters = format_ratio(experiment.compare.matters, 2)
    needed = detection.repetitions_needed
    if needed is None:
        yield f"No affordable number of repetitions detects a difference of {matters}."
    elif needed > experiment.measure.blocks:
        yield f"{needed} repetitions detect a difference of {matters} as often."
