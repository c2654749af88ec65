"""What on/off settings do alone and together: full factorials among all cases.

Cases that share everything but on/off settings and the API make a design if
every combination is there; `report.effects` computes it.  An API counts as a
setting too: on is the one that should not copy.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from zcdb.factors import FACTORS
from zcdb.metrics import METRICS, format_value
from zcdb.report.effects import EffectTable, effect_tables
from zcdb.report.method_text import effect_name, factor_text, signed
from zcdb.report.naming import told_text
from zcdb.store.queries.questions import Member
from zcdb.store.results import RunCase
from zcdb.webapp.labels import factor_label, method_suffix, metric_label
from zcdb.webapp.present.question_list import BASELINE_APIS

LEVEL = 0.95
COST_METRICS = ("service_demand_sender", "service_demand_receiver", "machine_utilisation_sender")
METHODS = ("soak", "soak_work")
METRIC_KEYS = (*((name, method) for name in COST_METRICS for method in METHODS), ("throughput", ""))
CASES_OF_A_DESIGN = 4
"""Two settings, on and off."""

SWITCHES = tuple(
    name
    for name, factor in FACTORS.items()
    if factor.is_declared and factor.type in ("switch", "boolean")
)
MOVING = ("api", *SWITCHES)
NAMED = ("api", "message_size", "link", "sender_kernel", "sender_nic", "sender_cpu", "tool")


@dataclass(frozen=True, slots=True)
class EffectLine:
    """One effect: in the metric's unit and as a share of the case where all is off."""

    kind: str
    name: str
    estimate: float
    absolute: str
    change: str
    interval: str
    low: float | None
    high: float | None
    p_value: float | None


@dataclass(frozen=True, slots=True)
class Design:
    """The effects of a full factorial on one metric.

    Attributes:
        where: what all its cases share.
        off: what "off" means.
        base: the metric where all is off; `all_on`: what all together change.
        blocks: that measured every combination.
    """

    where: str
    metric: str
    method: str
    label: str
    unit: str
    better: str
    off: str
    base: str
    all_on: str
    blocks: int
    level: float
    is_published: bool
    rows: tuple[EffectLine, ...]
    cases: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class FlagsContent:
    """All that the page says."""

    designs: tuple[Design, ...]
    hidden: int
    settings: tuple[tuple[str, str], ...]
    revision: int


def candidate_designs(group: Sequence[Member]) -> list[tuple[int, ...]]:
    """Return the cases of a group if on/off settings vary in it; the oldest of equal cases once."""
    switched = {
        name
        for name in SWITCHES
        if len({member.values.get(name) for member in group} - {None, ""}) > 1
    }
    # A case that leaves a setting as found is in no factorial of it.
    complete = [m for m in group if all(isinstance(m.values.get(n), bool) for n in switched)]
    return (
        [tuple(member.key for member in complete)]
        if switched and len(complete) >= CASES_OF_A_DESIGN
        else []
    )


def designs_of(cases: Sequence[RunCase]) -> list[Design]:
    """Return the effects that a group of cases gives, for each metric that enough of them have."""
    by_cases: dict[tuple[int, ...], list[tuple[str, str]]] = {}
    for key in METRIC_KEYS:
        places = tuple(place for place, case in enumerate(cases) if case.find(*key) is not None)
        by_cases.setdefault(places, []).append(key)
    found = []
    for places, metrics in by_cases.items():
        some = [cases[place] for place in places]
        tables = _tables(some, metrics, LEVEL)
        if tables:
            found += [_design(table, some) for table in tables]
            continue
        # Settings that need each other leave holes: checksum offload without scatter-gather
        # cannot be.  Two states of all settings at a time are without holes.
        pairs = list(itertools.combinations(_by_state(some), 2))
        for one, other in pairs:
            both = [*one, *other]
            level = 1 - (1 - LEVEL) / len(pairs)
            found += [_design(table, both) for table in _tables(both, metrics, level)]
    return found


def _by_state(cases: Sequence[RunCase]) -> list[list[RunCase]]:
    """Return the cases by the values of all their settings, those with fewer on first."""
    states: dict[tuple[object, ...], list[RunCase]] = {}
    for case in cases:
        states.setdefault(tuple(case.factors.get(name) for name in SWITCHES), []).append(case)
    return [states[state] for state in sorted(states, key=lambda state: state.count(True))]


def _tables(
    cases: Sequence[RunCase], metrics: Sequence[tuple[str, str]], level: float
) -> tuple[EffectTable, ...]:
    if len(cases) < CASES_OF_A_DESIGN:
        return ()
    apis = {case.factors.get("api") for case in cases}
    base = next((api for api in BASELINE_APIS if api in apis), None)
    return effect_tables(cases, {"api": base} if base else {}, metrics, level)


def _design(table: EffectTable, cases: Sequence[RunCase]) -> Design:
    metric = METRICS[table.metric]
    axis_names = {name for axis in table.axes for name in axis.on}
    shared = {n: v for n, v in cases[0].factors.items() if n not in axis_names} | dict(table.at)
    statistics = [case.find(table.metric, table.method) for case in cases]
    return Design(
        where=told_text(shared, [name for name in NAMED if name not in axis_names]),
        metric=table.metric,
        method=table.method,
        label=metric_label(table.metric) + method_suffix(table.method),
        unit=metric.unit,
        better=metric.better,
        off=", ".join(factor_text(axis.off, axis.off) for axis in table.axes),
        base=format_value(table.metric, table.base),
        all_on=signed(table.all_on / table.base),
        blocks=table.blocks,
        level=table.level,
        is_published=not any(one and one.statistic.runs for one in statistics),
        rows=tuple(
            EffectLine(
                kind=row.kind,
                name=effect_name(row, len(table.axes)),
                estimate=row.estimate,
                absolute=("+" if row.estimate > 0 else "−" if row.estimate < 0 else "")
                + format_value(table.metric, abs(row.estimate)),
                change=signed(row.share),
                interval=_interval(row.low, row.high, table.base),
                low=row.low,
                high=row.high,
                p_value=row.p_value,
            )
            for row in table.rows
        ),
        cases=tuple(
            (factor_text(case.factors, sorted(axis_names)), case.case_id or "") for case in cases
        ),
    )


def _interval(low: float | None, high: float | None, base: float) -> str:
    if low is None or high is None:
        return ""
    ends = sorted((low / base, high / base))
    return f"[{signed(ends[0])}, {signed(ends[1])}]"


def flags_content(designs: Sequence[Design], hidden: int, revision: int) -> FlagsContent:
    """Return the content of the page."""
    return FlagsContent(
        tuple(designs),
        hidden,
        tuple((name, factor_label(name)) for name in SWITCHES),
        revision,
    )
