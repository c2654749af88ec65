"""Nested facts and counts as flat tables: a line for each value, a table for each list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zcdb.ids import Json

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class FactTable:
    """A list of like things: one column a key, one row a thing."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Scalar, ...], ...]


@dataclass(frozen=True, slots=True)
class FactGroup:
    """Facts under one heading: (name, value) pairs and tables."""

    title: str
    facts: tuple[tuple[str, Scalar], ...]
    tables: tuple[FactTable, ...]


def _is_table(value: Json) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(entry, Mapping) for entry in value)
    )


def _scalar(value: Json) -> Scalar:
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_scalar(entry)}" for key, entry in value.items())
    return ", ".join(str(_scalar(entry)) for entry in value)


def _table(title: str, entries: Sequence[Mapping[str, Json]]) -> FactTable:
    columns = tuple(dict.fromkeys(key for entry in entries for key in entry))
    rows = tuple(tuple(_scalar(entry.get(column)) for column in columns) for entry in entries)
    return FactTable(title, columns, rows)


def _walk(
    prefix: str, value: Json, facts: list[tuple[str, Scalar]], tables: list[FactTable]
) -> None:
    """Add the facts and tables below `value` to the two lists."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            _walk(f"{prefix}.{key}" if prefix else str(key), entry, facts, tables)
    elif _is_table(value):
        tables.append(_table(prefix, value))  # type: ignore[arg-type]
    else:
        facts.append((prefix, _scalar(value)))


def groups(facts: Mapping[str, Json]) -> tuple[FactGroup, ...]:
    """Return the facts by their first key; values that stand alone come first, without a title."""
    alone: dict[str, Json] = {}
    nested: dict[str, Json] = {}
    for key, value in facts.items():
        (nested if isinstance(value, Mapping) or _is_table(value) else alone)[key] = value
    parts: list[tuple[str, Json]] = [("", alone)] if alone else []
    parts += nested.items()
    return tuple(_group(title, value) for title, value in parts)


def _group(title: str, value: Json) -> FactGroup:
    flat: list[tuple[str, Scalar]] = []
    tables: list[FactTable] = []
    _walk("" if isinstance(value, Mapping) else title, value, flat, tables)
    return FactGroup(title, tuple(flat), tuple(tables))
