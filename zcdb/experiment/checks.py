"""What the keys of an experiment file mean together: contradictions are refused here.

Each check takes a file whose single keys are right and yields the problems
it finds.  `needs` names the sections a check reads: where one of them could
not be read, the check says nothing rather than something misleading.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator

from zcdb import factors
from zcdb.experiment.cases import (
    combination_count,
    combinations,
    is_excluded,
    kept_combinations,
    levels_of,
)
from zcdb.experiment.form import Experiment, Point
from zcdb.experiment.positions import Path
from zcdb.experiment.problems import Problem
from zcdb.factors import FACTORS

TRIAL_LIMIT = 100_000

Check = Callable[[Experiment], Iterator[Problem]]


def problems_in(experiment: Experiment, unreadable: Collection[str]) -> list[Problem]:
    """Return every contradiction in `experiment`.

    Args:
        unreadable: sections that hold defaults because the file's could not be read.
    """
    found: list[Problem] = []
    for needs, check in _CHECKS:
        if not set(needs) & set(unreadable):
            found += check(experiment)
    return found


def _sample_fits(experiment: Experiment) -> Iterator[Problem]:
    measure = experiment.measure
    if measure.sample_ns > measure.duration_ns:
        yield Problem(("measure", "sample"), "is longer than the duration of the window")


def _each_factor_once(experiment: Experiment) -> Iterator[Problem]:
    places: dict[str, list[Path]] = defaultdict(list)
    for axis, levels in experiment.factors.items():
        for name in dict.fromkeys(name for level in levels for name in level):
            places[name].append(("factors", axis))
    for name in experiment.fixed:
        places[name].append(("fixed", name))
    for name, paths in places.items():
        for path in paths[1:]:
            first = ".".join(map(str, paths[0]))
            yield Problem(
                path, f"{name!r} is set by {first} too; leave one of them out", is_about_key=True
            )


def _levels_differ(experiment: Experiment) -> Iterator[Problem]:
    for axis, levels in experiment.factors.items():
        seen: list[Point] = []
        for index, level in enumerate(levels):
            meaning = factors.without_defaults(level)
            if meaning in seen:
                yield Problem(
                    ("factors", axis, index),
                    f"is the same as level {seen.index(meaning)}; each level stands once",
                )
            seen.append(meaning)


def _nothing_missing(experiment: Experiment) -> Iterator[Problem]:
    for name, factor in FACTORS.items():
        if not factor.is_declared or factor.default is not None or name in experiment.fixed:
            continue
        axes = [
            axis for axis, levels in experiment.factors.items() if all(name in p for p in levels)
        ]
        if not axes:
            yield Problem(
                ("factors", name),
                f"missing; state it here or in [fixed], one of {', '.join(factor.choices)}",
            )


def _not_too_many(experiment: Experiment) -> Iterator[Problem]:
    count = combination_count(experiment)
    if count > TRIAL_LIMIT:
        yield Problem(
            ("factors",), f"{count} combinations are more than {TRIAL_LIMIT}; vary fewer factors"
        )


def _exclusions_bite(experiment: Experiment) -> Iterator[Problem]:
    if combination_count(experiment) > TRIAL_LIMIT:
        return
    cases = list(combinations(experiment))
    is_total = False
    for index, rule in enumerate(experiment.exclude):
        path = ("exclude", index)
        if not rule:
            yield Problem(path, "names no factor")
            continue
        matches = sum(is_excluded(case, rule) for case in cases)
        if matches == len(cases):
            is_total = True
            yield Problem(path, "leaves out every case")
        elif matches == 0:
            strange = [n for n, v in rule.items() if not set(v) & set(levels_of(experiment, n))]
            why = f": {strange[0]} never has that value" if strange else ""
            yield Problem((*path, strange[0]) if strange else path, f"matches no case{why}")
    if not is_total and not kept_combinations(experiment):
        yield Problem(("exclude",), "all rules together leave out every case")


def _not_too_long(experiment: Experiment) -> Iterator[Problem]:
    if combination_count(experiment) > TRIAL_LIMIT:
        return
    cases = len(kept_combinations(experiment))
    trials = cases * experiment.measure.repetitions
    if trials > TRIAL_LIMIT:
        yield Problem(
            ("measure", "repetitions"),
            f"{cases} cases make {trials} trials, more than {TRIAL_LIMIT}",
        )


def _baseline_varies(experiment: Experiment) -> Iterator[Problem]:
    for name, value in experiment.compare.baseline.items():
        path = ("compare", "baseline", name)
        levels = levels_of(experiment, name)
        if levels and value not in levels:
            shown = ", ".join(factors.display(name, level) for level in levels)
            stated = factors.display(name, value)
            yield Problem(path, f"{stated!r} is not among the levels of {name}: {shown}")
        elif len(levels) == 1:
            sentence = f"{name} does not vary, so there is nothing to compare with it"
            yield Problem(path, sentence, is_about_key=True)


def _baseline_is_measured(experiment: Experiment) -> Iterator[Problem]:
    baseline = experiment.compare.baseline
    is_possible = all(value in levels_of(experiment, n) for n, value in baseline.items())
    if not (baseline and is_possible) or combination_count(experiment) > TRIAL_LIMIT:
        return
    cases = kept_combinations(experiment)
    planned = {factors.plan_key(case) for case in cases}
    counterparts = {
        factors.plan_key({**case, **baseline})
        for case in cases
        if any(case.get(name) != value for name, value in baseline.items())
    }
    if counterparts and not counterparts & planned:
        yield Problem(("compare", "baseline"), "no case has a baseline that is measured too")


def _metrics_differ(experiment: Experiment) -> Iterator[Problem]:
    metrics = experiment.compare.metrics
    for index, metric in enumerate(metrics):
        if metric in metrics[:index]:
            yield Problem(("compare", "metrics", index), f"{metric!r} stands here twice")


_CHECKS: list[tuple[tuple[str, ...], Check]] = [
    (("measure",), _sample_fits),
    (("compare",), _metrics_differ),
    (("factors", "fixed"), _each_factor_once),
    (("factors",), _levels_differ),
    (("factors", "fixed"), _nothing_missing),
    (("factors",), _not_too_many),
    (("factors", "fixed", "exclude"), _exclusions_bite),
    (("factors", "fixed", "exclude", "measure"), _not_too_long),
    (("factors", "fixed", "compare"), _baseline_varies),
    (("factors", "fixed", "exclude", "compare"), _baseline_is_measured),
]
