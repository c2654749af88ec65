"""Factors to combinations: every case of an experiment, in the order of its file's meaning.

A combination holds every declared factor, those at their default too, so
that what ran is stored in full; defaults do not enter ids.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

from zcdb import factors
from zcdb.experiment.form import Experiment, Point
from zcdb.factors import FactorValue

Rule = Mapping[str, tuple[FactorValue, ...]]

API_OF_EXCHANGES = "send"
"""How requests and responses are sent where a file does not say so."""


def combination_count(experiment: Experiment) -> int:
    """Return the number of combinations before exclusions."""
    return math.prod(len(levels) for levels in experiment.factors.values())


def combinations(experiment: Experiment) -> Iterator[Point]:
    """Yield every combination, before exclusions; the last factor varies fastest."""
    constants: Point = {**experiment.link.factors(), **experiment.fixed}
    for levels in itertools.product(*experiment.factors.values()):
        declared = dict(constants)
        for level in levels:
            declared |= level
        if "api" not in declared and declared.get("test", "stream") != "stream":
            declared["api"] = API_OF_EXCHANGES
        yield factors.with_defaults(declared)


def is_excluded(combination: Point, rule: Rule) -> bool:
    """Return True if every factor of the rule has one of the rule's values."""
    return all(combination.get(name) in values for name, values in rule.items())


def kept_combinations(experiment: Experiment) -> list[Point]:
    """Return the combinations that no [[exclude]] rule leaves out."""
    return [
        combination
        for combination in combinations(experiment)
        if not any(is_excluded(combination, rule) for rule in experiment.exclude)
    ]


def levels_of(experiment: Experiment, name: str) -> list[FactorValue]:
    """Return the values that a factor takes over all combinations, in order, each once."""
    stated = [
        level.get(name, factors.FACTORS[name].default)
        for levels in experiment.factors.values()
        if any(name in level for level in levels)
        for level in levels
    ]
    constant = experiment.fixed.get(name, factors.FACTORS[name].default)
    return [value for value in dict.fromkeys(stated or [constant]) if value is not None]
