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
from zcdb.experiment.sections import LEAST_FOR_INTERVAL
from zcdb.factors import ABSENT, FACTORS, FactorValue

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
    for name in experiment.link.factors():
        places[name].append(("link", name.removeprefix("link_")))
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
    if combination_count(experiment) > TRIAL_LIMIT:
        return
    required = [n for n, f in FACTORS.items() if f.is_declared and f.default is None]
    missing = {n for case in combinations(experiment) for n in required if n not in case}
    for name in sorted(missing):
        choices = ", ".join(FACTORS[name].choices)
        yield Problem(("factors", name), f"missing; state it here or in [fixed], one of {choices}")


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
    measure = experiment.measure
    cases = len(kept_combinations(experiment))
    trials = (cases + measure.twins) * measure.blocks
    if trials > TRIAL_LIMIT:
        yield Problem(
            ("measure", "repetitions" if measure.until is None else "until"),
            f"{cases} cases make {trials} trials, more than {TRIAL_LIMIT}",
        )


def _stops_one_way(experiment: Experiment) -> Iterator[Problem]:
    measure = experiment.measure
    if measure.until is None:
        return
    if "repetitions" in measure.model_fields_set:
        yield Problem(
            ("measure", "repetitions"),
            "stands beside until, which says how often too; leave one of them out",
            is_about_key=True,
        )
    if measure.until.at_least > measure.until.at_most:
        yield Problem(
            ("measure", "until", "at_least"), f"is more than at_most, {measure.until.at_most}"
        )


def _twins_have_cases(experiment: Experiment) -> Iterator[Problem]:
    if combination_count(experiment) > TRIAL_LIMIT:
        return
    cases = len(kept_combinations(experiment))
    if experiment.measure.aa > max(1, cases):
        yield Problem(
            ("measure", "aa"), f"{experiment.measure.aa} twins are more than {cases} cases"
        )


def _hosts_are_named(experiment: Experiment) -> Iterator[Problem]:
    link = experiment.link
    for end, host in (("sender", link.sender), ("receiver", link.receiver)):
        if link.kind == "hosts" and host is None:
            yield Problem(
                ("link", end),
                f"missing; a hosts link names its {end}: {end} = {{ ssh = ..., interface = ... }}",
            )
        elif link.kind != "hosts" and host is not None:
            yield Problem(
                ("link", end),
                f"belongs to a hosts link, and this one is {link.kind}; leave it out or write"
                ' kind = "hosts"',
                is_about_key=True,
            )


_ONLY_WITH: dict[str, tuple[str, tuple[FactorValue, ...], str]] = {
    "request_size": ("test", ("rr", "crr"), 'test = "rr" or "crr"'),
    "response_size": ("test", ("rr", "crr"), 'test = "rr" or "crr"'),
    "burst": ("test", ("rr", "crr"), 'test = "rr" or "crr"'),
    "api_mix": ("api", ("mixed",), 'api = "mixed"'),
    "fragments": ("api", ("sendmsg", "mixed"), 'api = "sendmsg"'),
    "command": ("tool", ("command",), 'tool = "command"'),
    "rsize": ("api", ("nfs_read",), 'api = "nfs_read"'),
    "udp_segment": ("protocol", ("udp",), 'protocol = "udp"'),
}
"""Factor -> the factor and values without which it means nothing, as a file writes them."""


def _factors_mean_something(experiment: Experiment) -> Iterator[Problem]:
    if combination_count(experiment) > TRIAL_LIMIT:
        return
    cases = kept_combinations(experiment)
    for name, (other, values, written) in _ONLY_WITH.items():
        stated = [case for case in cases if case.get(name, ABSENT) != FACTORS[name].default]
        if stated and not any(case.get(other) in values for case in stated):
            section = "fixed" if name in experiment.fixed else "factors"
            yield Problem((section, name), f"means nothing without {written}", is_about_key=True)
    if any(case.get("link_burst") and not case.get("link_rate") for case in cases):
        section = "fixed" if "link_burst" in experiment.fixed else "factors"
        yield Problem((section, "link_burst"), "means nothing without link_rate", is_about_key=True)


def _crossover_can_be_searched(experiment: Experiment) -> Iterator[Problem]:
    wanted = experiment.compare.crossover
    if wanted is None or combination_count(experiment) > TRIAL_LIMIT:
        return
    path: Path = ("compare", "crossover")
    apis = levels_of(experiment, "api")
    levels = levels_of(experiment, wanted.factor)
    for index, api in enumerate(wanted.between):
        if api not in apis:
            yield Problem((*path, "between", index), f"{api!r} is not among the levels of api")
    if wanted.between[0] == wanted.between[1]:
        yield Problem((*path, "between"), "names one API twice")
    if len(levels) < 2:
        yield Problem(
            (*path, "factor"),
            f"{wanted.factor} needs two levels in [factors]: the ends between which to search",
        )
    elif len(levels) > wanted.at_most:
        yield Problem((*path, "at_most"), f"is less than the {len(levels)} levels declared")
    others = set(factors.varying(kept_combinations(experiment))) - {"api", wanted.factor}
    if others:
        yield Problem(
            path,
            f"needs all other factors fixed, and {', '.join(sorted(others))} varies",
            is_about_key=True,
        )
    if experiment.measure.until is not None:
        yield Problem(
            path,
            "has a fixed number of repetitions at each level; leave until out",
            is_about_key=True,
        )
    elif experiment.measure.repetitions < LEAST_FOR_INTERVAL:
        yield Problem(
            ("measure", "repetitions"), f"a crossover needs at least {LEAST_FOR_INTERVAL}"
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
    (("measure",), _stops_one_way),
    (("link",), _hosts_are_named),
    (("compare",), _metrics_differ),
    (("factors", "fixed", "link"), _each_factor_once),
    (("factors",), _levels_differ),
    (("factors", "fixed"), _nothing_missing),
    (("factors",), _not_too_many),
    (("factors", "fixed", "exclude"), _exclusions_bite),
    (("factors", "fixed", "exclude", "measure"), _not_too_long),
    (("factors", "fixed", "exclude", "measure"), _twins_have_cases),
    (("factors", "fixed", "exclude", "link"), _factors_mean_something),
    (("factors", "fixed", "exclude", "measure", "compare"), _crossover_can_be_searched),
    (("factors", "fixed", "compare"), _baseline_varies),
    (("factors", "fixed", "exclude", "compare"), _baseline_is_measured),
]
