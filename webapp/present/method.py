"""What a run says about its own method, and about several factors together, for its page."""

from __future__ import annotations

from dataclasses import dataclass

from zcdb.factors import display
from zcdb.metrics import METRICS, format_value
from zcdb.report.effects import EffectTable
from zcdb.report.method_text import (
    crossover_sentence,
    effect_name,
    effect_title,
    factor_text,
    sentences,
    signed,
)
from zcdb.report.table import VerdictTable
from zcdb.webapp.labels import factor_label
from zcdb.webapp.quantities import percent_change


@dataclass(frozen=True, slots=True)
class EffectLine:
    """One effect in words: in the metric's unit and in per cent of the case where all is off."""

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
class EffectsContent:
    """The effects of on/off factors on one metric.

    Attributes:
        off: what "off" means: "write, scatter-gather off".
        base: the metric where all is off.
        all_on: what all together change.
        level: confidence of each interval by itself, after the adjustment.
    """

    title: str
    unit: str
    off: str
    base: str
    all_on: str
    blocks: int
    level: float
    rows: tuple[EffectLine, ...]


@dataclass(frozen=True, slots=True)
class CrossoverRow:
    """A level of a crossover search."""

    level: int
    name: str
    change: str
    ratio: float
    n: int
    better: str | None


@dataclass(frozen=True, slots=True)
class CrossoverContent:
    """Where one API begins to be better than another."""

    factor: str
    label: str
    between: tuple[str, str]
    text: str
    rows: tuple[CrossoverRow, ...]


@dataclass(frozen=True, slots=True)
class MethodContent:
    """How sure a run may be of itself.

    Attributes:
        sentences: stopping, patterns in the order of values, what could be detected, A/A.
        is_amber: equal cases differ more often than chance allows.
    """

    sentences: tuple[str, ...]
    is_amber: bool
    effects: tuple[EffectsContent, ...]
    crossover: CrossoverContent | None


def method_content(table: VerdictTable) -> MethodContent:
    """Return what a verdict table says of its method."""
    return MethodContent(
        sentences=tuple(sentences(table)),
        is_amber=table.twins is not None and table.twins.alarms.is_amber,
        effects=tuple(_effects(effects, table) for effects in table.effects),
        crossover=_crossover(table),
    )


def _effects(effects: EffectTable, table: VerdictTable) -> EffectsContent:
    metric = METRICS[effects.metric]
    return EffectsContent(
        title=effect_title(effects, table.varying),
        unit=metric.unit,
        off=", ".join(factor_text(axis.off, axis.off) for axis in effects.axes),
        base=format_value(effects.metric, effects.base),
        all_on=signed(effects.all_on / effects.base),
        blocks=effects.blocks,
        level=effects.level,
        rows=tuple(
            EffectLine(
                kind=row.kind,
                name=effect_name(row, len(effects.axes)),
                estimate=row.estimate,
                absolute=("+" if row.estimate > 0 else "−" if row.estimate < 0 else "")
                + format_value(effects.metric, abs(row.estimate)),
                change=signed(row.share),
                interval=_interval(row.low, row.high, effects.base),
                low=row.low,
                high=row.high,
                p_value=row.p_value,
            )
            for row in effects.rows
        ),
    )


def _interval(low: float | None, high: float | None, base: float) -> str:
    if low is None or high is None:
        return ""
    ends = sorted((low / base, high / base))
    return f"[{signed(ends[0])}, {signed(ends[1])}]"


def _crossover(table: VerdictTable) -> CrossoverContent | None:
    answer = table.crossover
    if answer is None:
        return None
    rows = [
        CrossoverRow(
            one.level,
            display(answer.factor, one.level),
            percent_change(one.ratio, 1),
            one.ratio,
            one.n,
            one.better,
        )
        for one in answer.levels
    ]
    return CrossoverContent(
        answer.factor,
        factor_label(answer.factor),
        answer.between,
        crossover_sentence(answer),
        tuple(rows),
    )
