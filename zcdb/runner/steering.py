"""What a run decides by itself while it measures: to stop, or to measure more.

Both are declared in the experiment file before the first trial, see only the
values of the metric that the file names, and decide between blocks; nothing
is repeated because of how it came out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from zcdb import factors as registry
from zcdb.experiment import plan as planning
from zcdb.experiment.form import Crossover, Experiment, Until
from zcdb.factors import FactorValue, display
from zcdb.ids import Json
from zcdb.metrics import HEADLINE_CPU_METHOD, METRICS
from zcdb.records import MetricValue, PlannedCase, PlannedTrial
from zcdb.stats import crossover as crossing
from zcdb.stats.compare import compare_paired
from zcdb.stats.sequential import Look, StoppingRule, look

FALLBACK_CPU_METHOD = "rusage"
"""Where soaking gives no figure per end; verdict tables fall back on the same."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows from the blocks so far.

    Attributes:
        word: "go on" with the plan; "enough": the rest of the plan is not needed; "more":
            these cases and trials join the plan.
        text: the decision for people; "" where there is nothing to tell.
        reading: what is stored of it with the run.
    """

    word: Literal["go on", "enough", "more"]
    text: str = ""
    cases: tuple[PlannedCase, ...] = ()
    trials: tuple[PlannedTrial, ...] = ()
    reading: Mapping[str, Json] | None = None


GO_ON = Decision("go on")


class Steering(Protocol):
    """Something that decides after each block."""

    def saw(self, plan_key: str, repetition: int, measured: Sequence[MetricValue]) -> None:
        """Take what a trial measured, this time or before the run was resumed."""

    def decide(self, plan: Sequence[PlannedTrial], done: int) -> Decision:
        """Decide after a block.

        Args:
            plan: of the run, as it is now.
            done: places of it that are final.
        """


def steering_of(experiment: Experiment, cases: Sequence[PlannedCase]) -> Steering | None:
    """Return what steers a run of the experiment, None if its plan is carried out as it is."""
    if experiment.measure.until is not None:
        return UntilNarrow(experiment.measure.until, cases, experiment.compare.baseline)
    if experiment.compare.crossover is not None:
        return CrossoverSearch(experiment, experiment.compare.crossover, cases)
    return None


def steering_metric(experiment: Experiment) -> str | None:
    """Return the metric that steers a run of the experiment, None if nothing does."""
    for wanted in (experiment.measure.until, experiment.compare.crossover):
        if wanted is not None:
            return wanted.metric
    return None


class _Values:
    """The values of one metric by case and repetition, by the first method that has any."""

    def __init__(self, metric: str) -> None:
        self._metric = metric
        has_method = METRICS[metric].has_method
        self._methods = (HEADLINE_CPU_METHOD, FALLBACK_CPU_METHOD) if has_method else ("",)
        self._by_method: dict[str, dict[str, dict[int, float]]] = {
            method: defaultdict(dict) for method in self._methods
        }

    def add(self, plan_key: str, repetition: int, measured: Sequence[MetricValue]) -> None:
        for value in measured:
            is_watched = value.metric == self._metric and value.method in self._by_method
            # A value of zero or below has no logarithm, and no ratio to anything.
            if is_watched and value.value is not None and value.value > 0:
                self._by_method[value.method][plan_key][repetition] = value.value

    def of(self, plan_key: str) -> dict[int, float]:
        chosen = next((m for m in self._methods if self._by_method[m]), self._methods[0])
        return self._by_method[chosen].get(plan_key, {})

    def pairs(self, baseline: str, candidate: str) -> tuple[list[float], list[float]]:
        """Return the values of both cases in the repetitions that measured both."""
        first, second = self.of(baseline), self.of(candidate)
        both = sorted(first.keys() & second.keys())
        return [first[at] for at in both], [second[at] for at in both]


class UntilNarrow:
    """Stops when the interval of every comparison, or of every case, is narrow enough.

    A series that has measured nothing by the first look cannot become narrow and is left
    out: its case is unsupported, or fails.
    """

    def __init__(
        self,
        until: Until,
        cases: Sequence[PlannedCase],
        baseline: Mapping[str, FactorValue],
    ) -> None:
        self._until = until
        self._rule = StoppingRule(until.half_width, until.at_least, until.at_most)
        self._values = _Values(until.metric)
        real = [case for case in cases if not case.factors.get("twin")]
        self._pairs = planning.pairs(real, baseline)
        self._cases = [case.plan_key for case in real]

    def saw(self, plan_key: str, repetition: int, measured: Sequence[MetricValue]) -> None:
        """Take what a trial measured."""
        self._values.add(plan_key, repetition, measured)

    def decide(self, plan: Sequence[PlannedTrial], done: int) -> Decision:
        """Stop once every series is narrow enough, or at the most repetitions."""
        blocks = plan[done - 1].block + 1 if done else 0
        if blocks < self._rule.first:
            return GO_ON
        looks = [look(self._rule, series) for series in self._series() if series]
        is_at_limit = done == len(plan)
        if any(one.decision != "narrow enough" for one in looks) and not is_at_limit:
            return GO_ON
        widest = max((_width(one) for one in looks), default=None)
        return Decision("enough", self._text(blocks, looks), reading=self._reading(blocks, widest))

    def _series(self) -> list[list[float]]:
        """Return the logarithms that are watched: of ratios by block, or of values."""
        if not self._pairs:
            return [[math.log(v) for v in self._values.of(key).values()] for key in self._cases]
        pairs = [self._values.pairs(pair.baseline, pair.candidate) for pair in self._pairs]
        return [[math.log(b / a) for a, b in zip(*both, strict=True)] for both in pairs]

    def _text(self, blocks: int, looks: Sequence[Look]) -> str:
        if not looks:
            return f"nothing was measured in {blocks} repetitions"
        narrow = sum(one.decision == "narrow enough" for one in looks)
        what = "comparisons" if self._pairs else "cases"
        return f"{narrow} of {len(looks)} {what} are narrow enough after {blocks} repetitions"

    def _reading(self, blocks: int, widest: float | None) -> dict[str, Json]:
        return {
            "stopping": {
                "metric": self._until.metric,
                "half_width": self._until.half_width,
                "blocks": blocks,
                "blocks_planned": self._rule.at_most,
                "widest_half_width": None if widest is None or math.isinf(widest) else widest,
            }
        }


def _width(one: Look) -> float:
    return math.inf if one.half_width is None else one.half_width


class CrossoverSearch:
    """Adds levels of a factor where they tell most about where two APIs change places."""

    def __init__(
        self, experiment: Experiment, wanted: Crossover, cases: Sequence[PlannedCase]
    ) -> None:
        self._wanted = wanted
        self._measure = experiment.measure
        self._values = _Values(wanted.metric)
        self._cases = {
            (case.factors["api"], case.factors[wanted.factor]): case
            for case in cases
            if not case.factors.get("twin")
        }

    def saw(self, plan_key: str, repetition: int, measured: Sequence[MetricValue]) -> None:
        """Take what a trial measured."""
        self._values.add(plan_key, repetition, measured)

    def decide(self, plan: Sequence[PlannedTrial], done: int) -> Decision:
        """Go on to the end of the plan, then look for the level that tells most."""
        if done < len(plan):
            return GO_ON
        points = self._points()
        if len(points) < 2:
            return Decision("enough", "fewer than two levels measured both: no crossover")
        found = crossing.search(
            points,
            is_lower_better=METRICS[self._wanted.metric].better == "lower",
            within=self._wanted.within,
            at_most=self._wanted.at_most,
        )
        is_tried = (self._wanted.between[0], found.next_level) in self._cases
        if found.next_level is None or is_tried:
            return Decision("enough", f"crossover: {found.word} after {found.levels} levels")
        return self._more(found.next_level, plan)

    def _points(self) -> list[crossing.LevelPoint]:
        first, second = self._wanted.between
        points = []
        for api, level in self._cases:
            if api != first or (second, level) not in self._cases:
                continue
            keys = (self._cases[first, level].plan_key, self._cases[second, level].plan_key)
            baseline, candidate = self._values.pairs(*keys)
            if baseline:
                comparison = compare_paired(baseline, candidate)
                points.append(crossing.LevelPoint(int(level), comparison))
        return points

    def _more(self, level: int, plan: Sequence[PlannedTrial]) -> Decision:
        """Return the two cases at a new level, in blocks of their own."""
        name = self._wanted.factor
        pattern = next(iter(self._cases.values())).factors
        cases = []
        for api in self._wanted.between:
            declared = {**pattern, "api": api, name: level}
            case = PlannedCase(registry.plan_key(declared), declared)
            self._cases[api, level] = case
            cases.append(case)
        trials = planning.further_blocks(
            [case.plan_key for case in cases],
            self._measure.repetitions,
            self._measure.seed,
            block=plan[-1].block + 1,
            position=len(plan),
        )
        label = registry.FACTORS[name].label.lower()
        text = f"crossover: {label} {display(name, level)} next"
        return Decision("more", text, tuple(cases), trials)
