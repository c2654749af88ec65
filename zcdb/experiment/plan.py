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

SEED_OF_TWINS = 2**32
"""Added to the seed for the places of the twins."""

STARTUP_NS = 200 * 10**6
"""Estimate of what a trial takes besides what the file states: two processes and a handshake."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will do.

    Attributes:
        cases: in the order of the file's factors.
        twins: the same cases again under another name, for the false alarms.
        trials: in the order of execution; block by block, each block every case once.
        estimated_ns: how long the run will take, roughly; the longest it may where the file
            lets the run decide.
    """

    cases: tuple[PlannedCase, ...]
    twins: tuple[PlannedCase, ...]
    trials: tuple[PlannedTrial, ...]
    estimated_ns: int

    @property
    def all_cases(self) -> tuple[PlannedCase, ...]:
        """Everything that is measured: cases, then twins."""
        return (*self.cases, *self.twins)


@dataclass(frozen=True, slots=True)
class Pair:
    """A case and the one it is compared with, by plan key."""

    candidate: str
    baseline: str


def make_plan(experiment: Experiment) -> Plan:
    """Return the plan of an experiment."""
    combinations = kept_combinations(experiment)
    cases = tuple(_case(combination) for combination in combinations)
    measure = experiment.measure
    twins = _twins(cases, experiment.compare.baseline, measure.twins)
    keys, twin_keys = [case.plan_key for case in cases], [twin.plan_key for twin in twins]
    trials = _blocks(keys, twin_keys, measure.blocks, measure.seed)
    return Plan(cases, twins, trials, estimate_ns(measure, len(trials)))


def _case(combination: Mapping[str, FactorValue]) -> PlannedCase:
    return PlannedCase(factors.plan_key(combination), combination)


def _twins(
    cases: Sequence[PlannedCase], baseline: Mapping[str, FactorValue], wanted: int
) -> tuple[PlannedCase, ...]:
    """Return twins of so many cases, the baselines first: everything is compared with them.

    Among equals the plan key decides, which knows no order of the file.
    """

    def rank(case: PlannedCase) -> tuple[bool, str]:
        is_other = any(case.factors.get(name) != value for name, value in baseline.items())
        return is_other, case.plan_key

    # Twins that the file declares itself need no more of them.
    if any(case.factors.get("twin") for case in cases):
        return ()
    chosen = sorted(cases, key=rank)[:wanted]
    return tuple(_case({**case.factors, "twin": 1}) for case in chosen)


def _blocks(
    plan_keys: Sequence[str], twin_keys: Sequence[str], blocks: int, seed: int
) -> tuple[PlannedTrial, ...]:
    """Return blocks in random order; twins are put in at random places afterwards.

    So the order of the cases among themselves is the one of a plan without twins.
    """
    generator = random.Random(seed)  # noqa: S311  (an order, not a secret)
    of_twins = random.Random(seed + SEED_OF_TWINS)  # noqa: S311
    trials: list[PlannedTrial] = []
    for block in range(blocks):
        order = _shuffled(sorted(plan_keys), generator)
        for twin_key in sorted(twin_keys):
            order.insert(int(of_twins.random() * (len(order) + 1)), twin_key)
        trials += _placed(order, block=block, repetition=block, position=len(trials))
    return tuple(trials)


def _placed(
    plan_keys: Sequence[str], *, block: int, repetition: int, position: int
) -> list[PlannedTrial]:
    return [
        PlannedTrial(plan_key, block=block, position=position + place, repetition=repetition)
        for place, plan_key in enumerate(plan_keys)
    ]


def further_blocks(
    plan_keys: Sequence[str], repetitions: int, seed: int, *, block: int, position: int
) -> tuple[PlannedTrial, ...]:
    """Return blocks of cases that join a run while it is measured.

    Args:
        plan_keys: the new cases.
        repetitions: blocks, each with every new case once.
        seed: of the run.
        block, position: of the first new trial: those that follow the last of the run.
    """
    generator = random.Random(seed + block)  # noqa: S311
    trials: list[PlannedTrial] = []
    for repetition in range(repetitions):
        trials += _placed(
            _shuffled(sorted(plan_keys), generator),
            block=block + repetition,
            repetition=repetition,
            position=position + len(trials),
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
    each_ns = (
        measure.rest_ns + STARTUP_NS + measure.discard_ns + measure.duration_ns + measure.bracket_ns
    )
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
