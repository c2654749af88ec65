"""How templates write values: the only place where a page turns numbers into text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from flask import Flask
from markupsafe import Markup, escape

from zcdb import metrics, units
from zcdb.webapp.charts.svg import drawings
from zcdb.webapp.labels import sentence_start
from zcdb.webapp.present.measured import CpuRow, Estimate
from zcdb.webapp.quantities import quantity, varies_by_row

NOTHING = "–"
_BREAK = re.compile(r"_|\.(?!\d)")
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=[KMGT]?i?B\b|[kMGT]?bit/s)")


def _or_nothing(write: Any) -> Any:
    """Return `write` with None shown as a dash."""

    def written(value: Any, *rest: Any) -> str:
        return NOTHING if value is None else str(write(value, *rest))

    return written


def utc(moment: datetime | None) -> str:
    """Return a `time` element: to the minute, in UTC."""
    if moment is None:
        return NOTHING
    moment = moment.astimezone(UTC)
    return Markup('<time datetime="{}">{}</time>').format(
        moment.strftime("%Y-%m-%dT%H:%M:%SZ"), moment.strftime("%Y-%m-%d %H:%M UTC")
    )


def metric_value(value: float | None, name: str) -> str:
    """Return a metric's value with its unit, or a dash."""
    return NOTHING if value is None else metrics.format_value(name, value)


def metric_number(value: float | None, name: str) -> str:
    """Return a metric's value; with its unit where prefixes differ from row to row."""
    if value is None:
        return NOTHING
    unit = quantity(name, [value])
    text = unit.number(value)
    return f"{text} {unit.unit}" if varies_by_row(name) else text


def number(estimate: Estimate) -> str:
    """Return an estimate's mean as `metric_number` writes it."""
    return metric_number(estimate.mean, estimate.metric)


def interval(estimate: Estimate) -> str:
    """Return an estimate's interval in the unit of `number`, or nothing."""
    if estimate.mean is None:
        return ""
    unit = quantity(estimate.metric, [estimate.mean])
    return unit.interval(estimate.mean, estimate.low, estimate.high)


def plain(value: object) -> str:
    """Return a fact or count: numbers with a thin space each three digits, truth in words."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace(",", "\u202f")
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def percent(ratio: float) -> str:
    """Return a declared ratio as it was declared: 0.02 is "2 %"."""
    return f"{ratio * 100:g} %"


def p_value(value: float | None) -> str:
    """Return a p value with three places, the small ones as a limit."""
    if value is None:
        return NOTHING
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def repetitions(cells: Sequence[Estimate]) -> str:
    """Return n of a row of estimates: "5", or "4 to 5" where they differ."""
    found = sorted({cell.n for cell in cells if cell.mean is not None})
    if not found:
        return "0"
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"


def reasons(rows: Sequence[CpuRow]) -> list[tuple[str, str]]:
    """Return (method, reason) of the CPU methods that have no figure at all, for a note below."""
    return [
        (row.method, row.cells[0].reason or "not measured")
        for row in rows
        if all(cell.mean is None for cell in row.cells)
    ]


def count(number: int, singular: str, plural: str | None = None) -> str:
    """Return "1 run", "2 runs"."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def short_id(text: str) -> Markup:
    """Return the first digits of an id, the whole one as its title."""
    return Markup('<span class="id" title="{}">{}</span>').format(text, text[:8])


def breakable(text: str) -> Markup:
    """Return a name that may wrap after its underscores and dots.

    It stays whole before a unit and inside a number or a version: "2.4.1-pre10", "64 KiB".
    """
    whole = _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", str(escape(text)))
    return Markup(_BREAK.sub(r"\g<0><wbr>", whole))  # noqa: S704  # went through escape()


def arrow(word: str, ratio: float | None) -> str:
    """Return the sign beside a verdict's word: which way, "=" for the same, "?" for not known."""
    if word not in ("better", "worse") or ratio is None:
        return {"equivalent": "=", "undecided": "?"}.get(word, "")
    return "↑" if ratio > 1 else "↓"


def init_app(app: Flask) -> None:
    """Give the filters to an application's templates."""
    app.jinja_env.filters.update(
        arrow=arrow,
        breakable=breakable,
        count=count,
        duration=_or_nothing(units.format_duration),
        interval=interval,
        metric=metric_value,
        metric_number=metric_number,
        number=number,
        p_value=p_value,
        percent=percent,
        plain=plain,
        reasons=reasons,
        repetitions=repetitions,
        sentence_start=sentence_start,
        short_id=short_id,
        svg=drawings,
        utc=utc,
    )
