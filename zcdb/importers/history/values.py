"""Figures of the founding tables: from the stated number and unit to the metric's base unit.

The file states both; here the second is recomputed from the first, and a difference is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast, get_args

from zcdb.ids import Json
from zcdb.importers.history.place import Place, Table
from zcdb.importers.history.records import HistoricValue, Inferred, Reading
from zcdb.importers.history.vocabulary import (
    BASE_UNITS,
    CPU_METHODS,
    PERCENT,
    VALUE_KEYS,
    End,
    Unit,
    unit_of,
)
from zcdb.metrics import METRICS

BITS_PER_BYTE = 8


@dataclass(frozen=True, slots=True)
class _Scale:
    """How a stated figure becomes one in `base_unit`; `other` is the other reading's factor."""

    base_unit: str
    factor: Decimal
    other: Decimal | None = None


def number(place: Place, value: object, key: str) -> Decimal:
    """Return a TOML number with the digits it was printed with."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        place.fail(f"{key} must be a number, got {value!r}", key)
    if not Decimal(value).is_finite():
        place.fail(f"{key} must be a finite number, got {value}", key)
    return Decimal(value)


def low_high(place: Place, value: object, key: str) -> tuple[Decimal, ...]:
    """Return one number, or the two of a range."""
    if not isinstance(value, list):
        return (number(place, value, key),)
    figures = tuple(number(place, item, key) for item in value)
    if len(figures) != 2 or figures[0] > figures[1]:
        place.fail(f"{key} must be a number or [low, high], got {value!r}", key)
    return figures


def historic_value(
    place: Place,
    metric: str,
    table: Table,
    context: Mapping[str, Json],
    inferred: Mapping[str, Inferred],
) -> HistoricValue:
    """Return one figure of a cell, recomputed and compared with what the file says.

    Args:
        place: the cell.
        table: the cell's figure with the defaults of its column.
        context: of the cell; gives the CPU count and how CPU time was measured.

    Raises:
        HistoryError: for an unknown unit, a missing reading, or a normalised value that does not
            follow from the stated one.
    """
    place.check_keys(table, VALUE_KEYS, metric)
    samples = tuple(number(place, item, metric) for item in place.take(table, "samples", list, []))
    if not samples and "stated" not in table:
        place.fail(f"{metric} has no stated figure", metric)
    stated = (min(samples), max(samples)) if samples else low_high(place, table["stated"], metric)
    scale = _scale(place, metric, table, context)
    return HistoricValue(
        metric=metric,
        method=_method(place, metric, context),
        stated=stated,
        samples=samples,
        unit=place.take(table, "unit", str),
        base_unit=scale.base_unit,
        cpus_by_inference=_inferred_cpus(metric, stated, scale, context, inferred),
        **_normalised(place, metric, table, stated, scale),
        **_remarks(place, metric, table),
    )


def _normalised(
    place: Place, metric: str, table: Table, stated: tuple[Decimal, ...], scale: _Scale
) -> dict[str, Any]:
    """Return the fields in the base unit, after comparing them with what the file says."""
    parts = place.optional(table, "sum_of", int)
    if parts is not None and parts < 1:
        place.fail(f"sum_of must be at least 1, got {parts}", "sum_of")
    factor = scale.factor / (parts or 1)
    exact = [figure * factor for figure in stated]
    other = [figure * scale.other / (parts or 1) for figure in stated] if scale.other else []
    sums = [figure * scale.factor for figure in stated]
    reason = place.optional(table, "not_normalised", str)
    if reason is None:
        _agree(place, metric, table, "normalised", exact, scale, stated)
    if other or "other_reading" in table:
        _agree(place, metric, table, "other_reading", other, scale, ())
    if "normalised_sum" in table:
        _agree(place, metric, table, "normalised_sum", sums, scale, ())
    sd = number(place, table["sd"], metric) if "sd" in table else None
    return {
        "low": _rounded(exact[0], scale) if reason is None else None,
        "high": _rounded(exact[-1], scale) if reason is None else None,
        "reason": reason,
        "sd": sd,
        "sd_base": float(sd * factor) if sd is not None else None,
        "other_low": _rounded(other[0], scale) if other else None,
        "other_high": _rounded(other[-1], scale) if other else None,
        "sum": _rounded(sums[0], scale) if "normalised_sum" in table else None,
        "sum_of": parts,
    }


def _remarks(place: Place, metric: str, table: Table) -> dict[str, Any]:
    """Return what is said beside the figure."""
    texts = ("unit_evident", "qualifier", "reading", "why", "column", "note")
    return {
        **{key: place.optional(table, key, str) for key in texts},
        "scope": place.choice(table, "scope", ("row", "table")) if "scope" in table else "row",
        "line": place.optional(table, "line", int),
        "heading_line": place.optional(table, "heading_line", int),
        "occasional": number(place, table["occasional"], metric) if "occasional" in table else None,
    }


def _scale(place: Place, metric: str, table: Table, context: Mapping[str, Json]) -> _Scale:
    name = place.take(table, "unit_evident" if "unit_evident" in table else "unit", str)
    base = BASE_UNITS[metric]
    if metric.startswith("utilisation_"):
        if name != PERCENT:
            place.fail(f"{metric} must be in {PERCENT}, got {name!r}", name)
        count = cpu_count(context, METRICS[metric].end)
        if count is None:
            return _Scale(PERCENT, Decimal(1))
        return _Scale(base, Decimal(count) / 100)
    unit = unit_of(name)
    if unit is None:
        place.fail(f"unknown unit {name!r}", name, "add it to the units of the historic tables")
    factor = BITS_PER_BYTE if (unit.base, base) == ("byte/s", "bit/s") else 1
    if unit.base != base and factor == 1:
        place.fail(f"{metric} is in {base}, which {name!r} is not", name)
    _check_reading(place, metric, table, unit)
    return _Scale(base, unit.factor * factor, unit.binary * factor if unit.binary else None)


def _check_reading(place: Place, metric: str, table: Table, unit: Unit) -> None:
    if unit.binary is None and table.get("reading", "exact") != "exact":
        place.fail(f"{metric}: {unit.name} has one reading only", metric)
    if unit.binary is not None:
        words = [word for word in get_args(Reading) if word != "exact"]
        place.choice(table, "reading", words)
        place.take(table, "why", str)


def _agree(
    place: Place,
    metric: str,
    table: Table,
    key: str,
    computed: list[Decimal],
    scale: _Scale,
    default: tuple[Decimal, ...],
) -> None:
    """Refuse a file whose `key` is not what was computed; an absent one counts as the default."""
    said = low_high(place, table[key], key) if key in table else default
    tolerance = Decimal("0.5") if scale.base_unit in ("bit/s", "byte/s") else Decimal(0)
    if len(said) != len(computed) or any(
        abs(a - b) > tolerance for a, b in zip(said, computed, strict=True)
    ):
        wanted = " to ".join(f"{figure.normalize():f}" for figure in computed) or "absent"
        got = " to ".join(str(figure) for figure in said) or "nothing"
        place.fail(f"{metric}: {key} must be {wanted} {scale.base_unit}, got {got}", metric)


def _rounded(figure: Decimal, scale: _Scale) -> float:
    whole = scale.base_unit in ("bit/s", "byte/s")
    return float(round(figure)) if whole else float(figure)


def cpu_count(context: Mapping[str, Json], end: End | None) -> int | None:
    """Return the stated CPU count of the machine at this end, or None."""
    peer = context.get("peer")
    at_peer = isinstance(peer, Mapping) and peer.get("role") == end
    cpu = cast(Mapping[str, Json], peer).get("cpu") if at_peer else context.get("cpu")
    count = cpu.get("count") if isinstance(cpu, Mapping) else None
    return count if isinstance(count, int) else None


def _inferred_cpus(
    metric: str,
    stated: tuple[Decimal, ...],
    scale: _Scale,
    context: Mapping[str, Json],
    inferred: Mapping[str, Inferred],
) -> tuple[float, ...]:
    """Return a utilisation in CPUs by the inferred count; empty if there is none for this end."""
    peer = context.get("peer")
    at_peer = isinstance(peer, Mapping) and peer.get("role") == metric.removeprefix("utilisation_")
    if scale.base_unit != PERCENT or at_peer:
        return ()
    cpu = inferred["cpu"].value if "cpu" in inferred else None
    count = cpu.get("count") if isinstance(cpu, Mapping) else None
    if "cpu.count" in inferred:
        count = inferred["cpu.count"].value
    return tuple(float(f * count / 100) for f in stated) if isinstance(count, int) else ()


def _method(place: Place, metric: str, context: Mapping[str, Json]) -> str:
    if metric == "cycles_per_byte_sender":
        return "perf"
    if metric not in METRICS or not METRICS[metric].has_method:
        return ""
    if "cpu_method" not in context:
        place.fail(f"{metric} needs a cpu_method in the context", metric)
    return CPU_METHODS[str(context["cpu_method"])]
