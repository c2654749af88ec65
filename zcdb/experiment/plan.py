"""From an experiment to its plan: cases, seeded randomised complete blocks, time.

The plan of a file and seed is the same on every machine and in every version
of zcdb, because results cite it: the shuffle below is written out on top of
`random.Random.random`, the one generator whose sequence Python guarantees,
and starts from the cases sorted by plan key, so that neither the order of
keys in the file nor the order of levels changes it.  Do not improve it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zcdb import factors
from zcdb.experiment.cases import kept_combinations
from zcdb.experiment.form import Experiment, Measure
from zcdb.factors import FactorValue
from zcdb.records import PlannedCase, PlannedTrial

STARTUP_NS = 200 * 10**6
"""Estimate of what a trial takes besides what the file states: two processes and a handshake."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will do.

    Attributes:
        cases: in the order of the file's factors.
        trials: in the order of execution; block by block, each block every case once.
        estimated_ns: how long the run will take, roughly.
    """

    cases: tuple[PlannedCase, ...]
    trials: tuple[PlannedTrial, ...]
    estimated_ns: int


@dataclass(frozen=True, slots=True)
class Pair:
    """A case and the one it is compared with, by plan key."""

    candidate: str
    baseline: str


def make_plan(experiment: Experiment) -> Plan:
    """Return the plan of an experiment."""
    combinations = kept_combinations(experiment)
    cases = tuple(PlannedCase(factors.plan_key(case), case) for case in combinations)
    measure = experiment.measure
    trials = _blocks([case.plan_key for case in cases], measure.repetitions, measure.seed)
    return Plan(cases, trials, estimate_ns(measure, len(trials)))


def _blocks(plan_keys: Sequence[str], repetitions: int, seed: int) -> tuple[PlannedTrial, ...]:
    generator = random.Random(seed)  # noqa: S311  (an order, not a secret)
    trials: list[PlannedTrial] = []
    for block in range(repetitions):
        for plan_key in _shuffled(sorted(plan_keys), generator):
            trials.append(
                PlannedTrial(plan_key, block=block, position=len(trials), repetition=block)
            )
    return tuple(trials)


def _shuffled(items: list[str], generator: random.Random) -> list[str]:
    """Return a random permutation (Fisher and Yates), one draw an item but the last."""
    for last in range(len(items) - 1, 0, -1):
        chosen = int(generator.random() * (last + 1))
        items[last], items[chosen] = items[chosen], items[last]
    return items


def estimate_ns(measure: Measure, trials: int) -> int:
    """Return roughly how long `trials` trials take; a bracket serves both its neighbours."""
    each_ns = STARTUP_NS + measure.discard_ns + measure.duration_ns + measure.bracket_ns
    return trials * each_ns + measure.bracket_ns


def pairs(cases: Sequence[PlannedCase], baseline: Mapping[str, FactorValue]) -> list[Pair]:
    """Return which case is compared with which: the same one but for the baseline's values.

    A case whose counterpart is not planned has no pair; without a baseline there are none.
    """
    planned = {case.plan_key for case in cases}
    found = []
    for case in cases:
        counterpart = factors.plan_key({**case.factors, **baseline})
        if counterpart != case.plan_key and counterpart in planned:
            found.append(Pair(case.plan_key, counterpart))
    return found
