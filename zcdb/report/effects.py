"""Effects of on/off factors, alone and together: what no table of single factors shows.

Factors count as on/off if they are switches, or if the comparison's baseline
names one of their values: that one is "off".  Factors that always change
together, the levels of a group, are one.  Whatever else varies divides the
cases into tables of their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from zcdb import factors as registry
from zcdb.factors import ABSENT, FACTORS, FactorValue, display
from zcdb.stats.factorial import FACTOR_LIMIT, Effect, OnOff, factorial_effects
from zcdb.store.results import RunCase

Kind = Literal["alone", "together", "main"]


@dataclass(frozen=True, slots=True)
class OnOffAxis:
    """Factors that are switched together.

    Attributes:
        name: what is switched on: "sendfile", "Scatter-gather and TSO".
        off, on: values of the factors.
    """

    name: str
    off: Mapping[str, FactorValue]
    on: Mapping[str, FactorValue]


@dataclass(frozen=True, slots=True)
class EffectRow:
    """One effect.

    Attributes:
        kind: "alone": switched on while all else is off; "together": what a group adds beyond
            what its members and smaller groups add; "main": on - off, over all settings of the
            others.
        names: the axes concerned.
        estimate, low, high, p_value: in the metric's unit; interval and p are adjusted
            (Bonferroni) for all effects of the run, None where fewer than three blocks measured
            every cell.
        share: estimate ÷ base.
    """

    kind: Kind
    names: tuple[str, ...]
    estimate: float
    low: float | None
    high: float | None
    p_value: float | None
    share: float


@dataclass(frozen=True, slots=True)
class EffectTable:
    """The effects of all axes on one metric.

    Attributes:
        at: what the cases of this table share, where it varies elsewhere.
        base: mean where all is off.
        all_on: what all axes together change, in the metric's unit.
        blocks: that measured every cell.
        level: confidence of each interval by itself, after the adjustment.
    """

    metric: str
    method: str
    at: Mapping[str, FactorValue]
    axes: tuple[OnOffAxis, ...]
    base: float
    all_on: float
    blocks: int
    level: float
    rows: tuple[EffectRow, ...]


@dataclass(frozen=True, slots=True)
class _Design:
    """Cells of a full factorial: which case has which axes on."""

    at: Mapping[str, FactorValue]
    axes: tuple[OnOffAxis, ...]
    cells: Mapping[OnOff, RunCase]


def effect_tables(
    cases: Sequence[RunCase],
    baseline: Mapping[str, FactorValue],
    metrics: Sequence[tuple[str, str]],
    level: float,
) -> tuple[EffectTable, ...]:
    """Return the effects on each (metric, method), for every full factorial of two axes or more."""
    designs = list(_designs(cases, baseline))
    effects = sum(2 ** len(d.axes) - 1 + len(d.axes) for d in designs) * len(metrics)
    if not effects:
        return ()
    tables = [
        _table(design, metric, method, level, effects)
        for metric, method in metrics
        for design in designs
    ]
    return tuple(table for table in tables if table is not None)


def _designs(cases: Sequence[RunCase], baseline: Mapping[str, FactorValue]) -> Iterator[_Design]:
    filled = [registry.with_defaults(case.factors) for case in cases]
    varying = registry.varying(filled)
    choices = list(_axes(filled, varying, baseline))
    switched = {name for axes in choices for axis in axes for name in axis.on}
    rest = [name for name in varying if name not in switched]
    if not 2 <= len(choices) <= FACTOR_LIMIT:
        return
    strata = dict.fromkeys(tuple(case.get(name, ABSENT) for name in rest) for case in filled)
    for chosen in itertools.product(*choices):
        for stratum in strata:
            at = dict(zip(rest, stratum, strict=True))
            cells = _cells(cases, filled, chosen, at)
            if len(cells) == 2 ** len(chosen):
                yield _Design(at, chosen, cells)


def _axes(
    filled: Sequence[Mapping[str, FactorValue]],
    varying: Sequence[str],
    baseline: Mapping[str, FactorValue],
) -> Iterator[tuple[OnOffAxis, ...]]:
    """Yield, for each set of factors that change together, an axis for each way to be on."""
    by_column: dict[tuple[int, ...], list[str]] = {}
    for name in varying:
        by_column.setdefault(_partition([case.get(name, ABSENT) for case in filled]), []).append(
            name
        )
    for names in by_column.values():
        levels = list(
            dict.fromkeys(tuple(case.get(name, ABSENT) for name in names) for case in filled)
        )
        off = next((level for level in levels if _is_off(names, level, baseline)), None)
        on = [level for level in levels if level != off]
        if off is None or (len(on) > 1 and not set(names) & set(baseline)):
            continue
        yield tuple(
            OnOffAxis(
                _axis_name(names, level),
                dict(zip(names, off, strict=True)),
                dict(zip(names, level, strict=True)),
            )
            for level in on
        )


def _partition(column: Sequence[FactorValue]) -> tuple[int, ...]:
    """Return the same for columns that divide the cases alike."""
    numbers: dict[FactorValue, int] = {}
    return tuple(numbers.setdefault(value, len(numbers)) for value in column)


def _is_off(
    names: Sequence[str], level: Sequence[FactorValue], baseline: Mapping[str, FactorValue]
) -> bool:
    stated = [(name, value) for name, value in zip(names, level, strict=True) if name in baseline]
    if stated:
        return all(baseline[name] == value for name, value in stated)
    return all(FACTORS[name].type in ("switch", "boolean") for name in names) and not any(level)


def _axis_name(names: Sequence[str], level: Sequence[FactorValue]) -> str:
    """Return what is on: the switches that are, or the value of another factor."""
    parts = []
    for name, value in zip(names, level, strict=True):
        if isinstance(value, bool):
            parts += [FACTORS[name].label] if value else []
        else:
            label = "" if name == "api" else f"{FACTORS[name].label} "
            parts.append(label + display(name, value))
    return " and ".join(parts) or "on"


def _cells(
    cases: Sequence[RunCase],
    filled: Sequence[Mapping[str, FactorValue]],
    axes: Sequence[OnOffAxis],
    at: Mapping[str, FactorValue],
) -> dict[OnOff, RunCase]:
    cells: dict[OnOff, RunCase] = {}
    for case, values in zip(cases, filled, strict=True):
        if any(values.get(name, ABSENT) != value for name, value in at.items()):
            continue
        states = [_state(values, axis) for axis in axes]
        if None not in states:
            on = frozenset(axis.name for axis, state in zip(axes, states, strict=True) if state)
            cells[on] = case
    return cells


def _state(values: Mapping[str, FactorValue], axis: OnOffAxis) -> bool | None:
    for state, wanted in ((True, axis.on), (False, axis.off)):
        if all(values.get(name, ABSENT) == value for name, value in wanted.items()):
            return state
    return None


def _table(
    design: _Design, metric: str, method: str, level: float, family: int
) -> EffectTable | None:
    """Return the effects of one design; `family` is the number of effects judged together."""
    cells = _complete_blocks(design.cells, metric, method)
    if cells is None:
        return None
    level_of_one = 1 - (1 - level) / family
    found = factorial_effects(cells, level=level_of_one)
    if found.base == 0:
        return None
    rows = [
        *(_row("alone", effect, found.base, family) for effect in found.alone),
        *(_row("together", effect, found.base, family) for effect in found.interactions),
        *(_row("main", effect, found.base, family) for effect in found.main),
    ]
    added = [*found.alone, *found.interactions]
    return EffectTable(
        metric=metric,
        method=method,
        at=design.at,
        axes=design.axes,
        base=found.base,
        all_on=sum(effect.estimate for effect in added),
        blocks=len(cells[frozenset()]),
        level=level_of_one,
        rows=tuple(rows),
    )


def _complete_blocks(
    cells: Mapping[OnOff, RunCase], metric: str, method: str
) -> dict[OnOff, list[float]] | None:
    """Return the values of the blocks that measured every cell; None if there is none."""
    kept = {}
    for on, case in cells.items():
        series = case.find(metric, method)
        if series is None:
            return None
        kept[on] = series.kept
    blocks = min(len(values) for values in kept.values())
    whole = [at for at in range(blocks) if all(v[at] is not None for v in kept.values())]
    if not whole:
        return None
    return {on: [value for at in whole if (value := kept[on][at]) is not None] for on in kept}


def _row(kind: Kind, effect: Effect, base: float, family: int) -> EffectRow:
    return EffectRow(
        kind=kind,
        names=effect.factors,
        estimate=effect.estimate,
        low=effect.low,
        high=effect.high,
        p_value=None if effect.p_value is None else min(1.0, effect.p_value * family),
        share=effect.estimate / base,
    )
