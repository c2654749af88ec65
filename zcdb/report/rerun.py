"""Measuring a recorded result again: which experiment that is, and how then and here compare.

What ran on another machine is declared by its factors alone: the context of
the machine is not part of it, and its difference is told beside the figures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from zcdb import factors as registry
from zcdb import units
from zcdb.errors import UsageError
from zcdb.factors import ABSENT, FACTORS, UNSTATED, Factors
from zcdb.metrics import METRICS, format_value
from zcdb.report.facts import changed_facts
from zcdb.stats.compare import Sample, compare_welch
from zcdb.stats.summary import MINIMUM_FOR_INTERVAL
from zcdb.stats.verdict import Verdict, judge
from zcdb.store import queries
from zcdb.store.queries.method import run_of_case
from zcdb.store.results import EnvironmentLine, Facts, Found, RunCase, Statistic
from zcdb.store.session import Database

DEFAULT_MEASURE: Mapping[str, Any] = {
    "repetitions": 5,
    "duration_ns": 2 * 10**9,
    "discard_ns": 300 * 10**6,
    "sample_ns": 100 * 10**6,
    "bracket_ns": 500 * 10**6,
}
MATTERS = 0.02
"""Differences below this are called equivalent, as experiment files have it by default."""

TEXT_COLUMNS = 78
FACTS_SHOWN = 40

_ADDRESS = re.compile(r"/(runs|cases|trials|experiments)/([^/]+?)(?:\.(?:json|csv|toml))?/?$")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded result that can be measured again.

    Attributes:
        title: what it is, for people.
        text: the experiment file that measures it.
        notes: what the record leaves open, in sentences.
        commands: foreign commands that the file would run.
        case_factors: of the one case; None where a whole run is measured again.
        then: what it measured, by metric and method.
        environments: of both ends' hosts at that time.
    """

    title: str
    text: str
    notes: tuple[str, ...]
    commands: tuple[str, ...]
    case_factors: Factors | None
    then: tuple[Statistic, ...]
    environments: tuple[EnvironmentLine, ...]


def recorded(db: Database, wanted: str) -> Recorded:
    """Return what an id, the beginning of one, or an address of zcdb's pages names.

    Raises:
        UsageError: if it names nothing that can be measured again.
        zcdb.store.queries.NotFound: if nothing has such an id.
    """
    found = _found(db, wanted)
    if found.kind == "trial":
        return _of_trial(db, found.id)
    if found.kind == "case":
        return _of_case(db, found.id)
    if found.kind == "run":
        return _of_run(db, found.id)
    if found.kind == "experiment":
        page = queries.experiment_of_version(db, found.id)
        text = page.experiment.text
        return Recorded(
            f"experiment {page.experiment.name}",
            text,
            (),
            _commands_of(page.coverage),
            None,
            (),
            (),
        )
    raise UsageError(f"{found.kind} {found.id} is nothing that can be measured again")


def _found(db: Database, wanted: str) -> Found:
    if "/" not in wanted:
        return queries.find(db, wanted)
    match = _ADDRESS.search(urlsplit(wanted).path)
    if match is None:
        raise UsageError(
            f"{wanted} is not the address of a run, case, trial or experiment",
            hint="such addresses end with /cases/ID, /trials/ID, /runs/ID or /experiments/NAME",
        )
    kind = match[1].removesuffix("s")
    if kind == "experiment":
        return Found(kind, queries.experiment_page(db, match[2]).experiment.id)
    return queries.find(db, match[2], kind=kind)


def _commands_of(lines: Sequence[Any]) -> tuple[str, ...]:
    commands = [
        str(value)
        for line in lines
        for name, value in line.factors.items()
        if name in ("command", "receiver_command") and value not in (ABSENT, UNSTATED)
    ]
    return tuple(dict.fromkeys(commands))


def _of_trial(db: Database, trial_id: str) -> Recorded:
    page = queries.trial_page(db, trial_id)
    then = tuple(
        Statistic(v.metric, v.method, 1, v.value, v.value, None, None, None, None)
        for v in page.values
        if v.value is not None
    )
    text, notes = case_file(page.factors, f"trial {trial_id}", page.experiment.resolved)
    environments = tuple(page.environments.values())
    title = f"trial {trial_id} of {page.experiment.name}"
    return Recorded(title, text, notes, _commands_of([page]), page.factors, then, environments)


def _of_case(db: Database, case_id: str) -> Recorded:
    page = queries.case_page(db, case_id)
    run_id = run_of_case(db, case_id)
    resolved: Facts = {}
    environments: tuple[EnvironmentLine, ...] = ()
    if run_id is not None:
        run = queries.run_page(db, run_id)
        resolved, environments = run.experiment.resolved, run.environments
    text, notes = case_file(page.factors, f"case {case_id}", resolved)
    then = tuple(one for one in page.statistics if one.mean is not None)
    commands = _commands_of([page])
    return Recorded(f"case {case_id}", text, notes, commands, page.factors, then, environments)


def _of_run(db: Database, run_id: str) -> Recorded:
    page = queries.run_page(db, run_id)
    return Recorded(
        f"run {run_id} of {page.experiment.name}",
        page.experiment.text,
        (),
        _commands_of(page.cases),
        None,
        (),
        page.environments,
    )


def case_file(factors: Factors, what: str, resolved: Facts) -> tuple[str, tuple[str, ...]]:
    """Return an experiment file that measures one case, and what the record leaves open.

    Args:
        factors: of the case, observed ones too, which are left out.
        what: the result, for the question: "case 1234".
        resolved: the experiment that measured it; {} where there is none.

    Raises:
        UsageError: if the case cannot be declared on its own.
    """
    declared = {n: v for n, v in factors.items() if n in FACTORS and FACTORS[n].is_declared}
    unstated = [name for name, value in declared.items() if value == UNSTATED]
    stated = {name: v for name, v in declared.items() if name not in (*unstated, "twin")}
    if "api" not in stated:
        raise UsageError(
            f"{what} does not say how the sender moves bytes, so it cannot be measured again",
            hint="the experiments in runs/ name the founding tables that they repeat",
        )
    name = f"rerun-{what.split()[-1][:12].lower()}"
    lines = [
        f'name = "{name}"',
        f'question = "Does {what} measure the same here?"',
        "",
        "[fixed]",
        *(
            f"{_key(name)} = {json.dumps(value, ensure_ascii=False)}"
            for name, value in sorted(registry.without_defaults(stated).items())
            if name not in ("link", "interfaces")
        ),
        "",
        *_link_lines(stated, resolved, what),
        "",
        *_measure_lines(resolved),
    ]
    labels = ", ".join(FACTORS[name].label for name in unstated)
    notes = (f"The source does not state: {labels}; zcdb's defaults are used.",) if unstated else ()
    return "\n".join(lines) + "\n", notes


def _key(name: str) -> str:
    """Return a factor's name as a TOML key: what follows the first dot is one quoted part."""
    first, dot, rest = name.partition(".")
    return f"{first}.{json.dumps(rest)}" if dot else first


def _link_lines(stated: Factors, resolved: Facts, what: str) -> list[str]:
    kind = str(stated.get("link", "loopback"))
    lines = ["[link]", f'kind = "{kind}"']
    if stated.get("interfaces", 1) != 1:
        lines.append(f"interfaces = {stated['interfaces']}")
    if kind == "hosts":
        link = resolved.get("link")
        if not isinstance(link, Mapping) or not link.get("sender") or not link.get("receiver"):
            raise UsageError(
                f"{what} was measured between two machines that its record does not name",
                hint="write an experiment file with your own [link] sender and receiver",
            )
        for end in ("sender", "receiver"):
            host: Any = link[end]
            parts = ", ".join(f"{key} = {json.dumps(value)}" for key, value in host.items())
            lines.append(f"{end} = {{ {parts} }}")
    return lines


def _measure_lines(resolved: Facts) -> list[str]:
    measure = resolved.get("measure")
    known = {**DEFAULT_MEASURE, **(measure if isinstance(measure, Mapping) else {})}
    lines = ["[measure]", f"repetitions = {known['repetitions']}", "aa = false"]
    for key in ("duration", "discard", "sample", "bracket", "rest"):
        if known.get(f"{key}_ns"):
            lines.append(f'{key} = "{known[f"{key}_ns"]}ns"')
    return lines


@dataclass(frozen=True, slots=True)
class ThenAndHere:
    """One metric, as it was recorded and as it is here.

    Attributes:
        ratio: here ÷ then; None where a value is missing or zero.
        verdict: None where one of the two has fewer than three repetitions.
    """

    metric: str
    method: str
    then: Statistic
    here: Statistic
    ratio: float | None
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class RerunResult:
    """A recorded result beside its repetition here.

    Attributes:
        facts: (name, then, here) of what differs between the machines; None where then's are
            not known.
    """

    title: str
    run_id: str
    rows: tuple[ThenAndHere, ...]
    facts: tuple[tuple[str, str, str], ...] | None


def rerun_result(db: Database, before: Recorded, run_id: str) -> RerunResult:
    """Return a recorded result beside the run that repeated it.

    Raises:
        zcdb.store.queries.NotFound: if there is no such run.
    """
    page = queries.run_page(db, run_id)
    rows = _rows(before.then, page.cases) if before.case_factors is not None else ()
    facts = None
    if before.environments and page.environments:
        sides = {
            "baseline": [line.facts for line in before.environments],
            "candidate": [line.facts for line in page.environments],
        }
        facts = changed_facts(sides)
    return RerunResult(before.title, run_id, rows, facts)


def _rows(then: Sequence[Statistic], cases: Sequence[RunCase]) -> tuple[ThenAndHere, ...]:
    here = {
        (series.statistic.metric, series.statistic.method): series.statistic
        for case in cases
        for series in case.series
        if series.statistic.mean is not None
    }
    both = [(old, here[old.metric, old.method]) for old in then if (old.metric, old.method) in here]
    samples = [(_sample(old), _sample(new)) for old, new in both]
    compared = {
        index: compare_welch(first, second)
        for index, (first, second) in enumerate(samples)
        if first is not None and second is not None
    }
    better = [METRICS[both[index][0].metric].better for index in compared]
    verdicts = dict(zip(compared, judge(list(compared.values()), better, MATTERS), strict=True))
    return tuple(
        ThenAndHere(old.metric, old.method, old, new, _ratio(old, new), verdicts.get(index))
        for index, (old, new) in enumerate(both)
    )


def _sample(statistic: Statistic) -> Sample | None:
    if statistic.mean is None or statistic.sd is None or statistic.n < MINIMUM_FOR_INTERVAL:
        return None
    return Sample(statistic.n, statistic.mean, statistic.sd)


def _ratio(then: Statistic, here: Statistic) -> float | None:
    return here.mean / then.mean if then.mean and here.mean else None


def render(result: RerunResult) -> str:
    """Return then and here as text, 78 columns wide, with what differs between the machines."""
    lines = [f"then: {result.title}", f"here: run {result.run_id}"]
    if result.rows:
        lines += ["", f"  {'metric':<30}{'then':>13} {'n':>3}{'here':>13} {'n':>3}  verdict"]
    for row in result.rows:
        name = METRICS[row.metric].label + (f" {row.method}" if row.method else "")
        then, here = (
            format_value(row.metric, one.mean)
            for one in (row.then, row.here)
            if one.mean is not None
        )
        word = row.verdict.word if row.verdict else _change(row.ratio)
        line = f"  {name[:29]:<30}{then:>13} {row.then.n:>3}{here:>13} {row.here.n:>3}"
        lines.append(f"{line}  {word}"[:TEXT_COLUMNS].rstrip())
    lines += ["", *_fact_lines(result.facts)]
    return "\n".join(lines) + "\n"


def _mean(metric: str, statistic: Statistic) -> str:
    return "none" if statistic.mean is None else format_value(metric, statistic.mean)


def _change(ratio: float | None) -> str:
    return "" if ratio is None else f"×{units.format_number(ratio)}"


def _fact_lines(facts: Sequence[tuple[str, str, str]] | None) -> list[str]:
    if facts is None:
        return ["The machine of that time is not recorded."]
    if not facts:
        return ["The machines' facts are the same."]
    lines = ["What differs between the machines (then, here):"]
    for name, then, here in facts[:FACTS_SHOWN]:
        lines.append(f"  {name}: {_short(then)} -> {_short(here)}"[:TEXT_COLUMNS])
    if len(facts) > FACTS_SHOWN:
        lines.append(f"  and {len(facts) - FACTS_SHOWN} more; 'zcdb show' has both environments")
    return lines


def _short(text: str) -> str:
    return text if len(text) <= 28 else text[:27] + "…"
