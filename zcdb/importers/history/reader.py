"""Texts of `runs/history/` to records: documents, tables of cells, conclusions.

A table's file has defaults at its top and in `[columns.*]`, sets of settings in `[with.*]` that
cells name, and the cells.  A cell overrides its sets, a set overrides the top; two sets of one cell
may not say different things.  Unknown keys, words, units and flags are errors.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, cast, get_args

from zcdb.flags import FLAGS, SOURCE_FLAGS
from zcdb.importers.history.context import read_context, read_inferred, registry_factors
from zcdb.importers.history.place import HistoryError, Place, Table
from zcdb.importers.history.records import (
    Comparison,
    Conclusion,
    Document,
    HistoricCell,
    History,
    Kind,
    Relation,
    RelativeChange,
    Source,
    Verdict,
)
from zcdb.importers.history.values import historic_value, low_high, number
from zcdb.importers.history.vocabulary import (
    BASE_UNITS,
    CELL_KEYS,
    CONTEXT_TYPES,
    COUNTER_KEYS,
    COUNTERS,
    LINE_LISTS,
    RELATION_TYPES,
    SOURCE_KEYS,
    TABLE_KEYS,
    VALUE_KEYS,
)

DOCUMENTS_FILE = "documents.toml"
CONCLUSIONS_FILE = "conclusions.toml"

_TOP_KEYS = (CELL_KEYS - set(BASE_UNITS)) | {"group", "title", "columns", "with", "cells"}
_ROW_KEYS = CELL_KEYS | {"id", "line", "with"}
_TABLES = TABLE_KEYS | {"columns", "with", "documents"}
_LISTS = {"cells", "flags", "notes", "relations", *LINE_LISTS}
_CONCLUSION_KEYS = frozenset(Conclusion.__dataclass_fields__) - {"lines", "comparisons"} | {
    "line",
    "compare",
}


def read(files: Mapping[str, str]) -> History:
    """Return all founding tables.

    Args:
        files: file name -> text, of every `*.toml` in `runs/history/`; one is `documents.toml`.
            A folder may stand before the name.

    Raises:
        HistoryError: for a file that cannot be read, contradicts itself or another one; names file,
            line, table and value.
    """
    by_name = {name.rpartition("/")[2]: (name, text) for name, text in sorted(files.items())}
    if DOCUMENTS_FILE not in by_name:
        raise HistoryError(
            f"{DOCUMENTS_FILE} is missing among the historic tables",
            hint="it lists the documents that the tables come from",
        )
    documents = read_documents(*by_name.pop(DOCUMENTS_FILE))
    conclusions: tuple[Conclusion, ...] = ()
    if CONCLUSIONS_FILE in by_name:
        conclusions = read_conclusions(*by_name.pop(CONCLUSIONS_FILE), documents)
    tables = [read_table(file, text, documents) for file, text in by_name.values()]
    order = list(documents)
    tables.sort(key=lambda table: min(_reading_order(cell, order) for cell in table))
    cells = [cell for table in tables for cell in table]
    _check_links(cells, conclusions)
    return History(documents, tuple(cells), conclusions)


def _reading_order(cell: HistoricCell, order: Sequence[str]) -> tuple[int, int]:
    """Return what sorts cells as the documents have them."""
    return order.index(cell.source.document), cell.source.lines[0]


def read_documents(file: str, text: str) -> dict[str, Document]:
    """Return the documents by id."""
    table = _parse(file, text)
    Place(file, text).check_keys(table, ("documents",))
    found = {}
    for name, entry in table.get("documents", {}).items():
        place = Place(file, text).header(f"documents.{name}", f"document {name}")
        place.check_keys(entry, ("title", "published", "text", "lines", "sha256"))
        words = {key: place.take(entry, key, str) for key in entry if key != "lines"}
        found[name] = Document(id=name, lines=place.take(entry, "lines", int), **words)
    return found


def read_table(file: str, text: str, documents: Mapping[str, Document]) -> list[HistoricCell]:
    """Return the cells of one table, in the file's order."""
    table = _parse(file, text)
    top = Place(file, text)
    top.check_keys(table, _TOP_KEYS)
    _check_shapes(top, table)
    group = top.take(table, "group", str)
    if not file.endswith(f"{group}.toml"):
        top.fail(f"group {group!r} must stand in {group}.toml", "group")
    columns = table.get("columns", {})
    for name, column in columns.items():
        place = top.header(f"columns.{name}", f"columns.{name}")
        if name not in BASE_UNITS:
            place.fail(f"unknown metric {name!r}", hint=f"known: {', '.join(sorted(BASE_UNITS))}")
        place.check_keys(column, VALUE_KEYS)
    for name, entry in table.get("with", {}).items():
        place = top.header(f"with.{name}", f"with.{name}")
        place.check_keys(entry, CELL_KEYS)
        _check_shapes(place, entry)
    cells = []
    for index, row in enumerate(table.get("cells", [])):
        place = top.entry("cells", index, f"cell {row.get('id', index)}")
        place.check_keys(row, _ROW_KEYS)
        _check_shapes(place, row)
        merged = _merged(place, table, columns, row)
        cells.append(_cell(place, group, top.take(table, "title", str), merged, row, documents))
    if not cells:
        top.fail("it has no cells")
    return cells


def _parse(file: str, text: str) -> Table:
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise HistoryError(f"{file}: not TOML: {error}") from None


def _check_shapes(place: Place, table: Table) -> None:
    """Refuse what cannot be merged: a table where a list belongs, and the like."""
    for key, value in table.items():
        kind = dict if key in _TABLES else list if key in _LISTS else None
        if kind and not isinstance(value, kind) and not (key == "with" and place.what):
            place.take(table, key, kind)


def _merged(place: Place, table: Table, columns: Table, row: Table) -> Table:
    """Return a cell with everything that holds for it: top, columns, its sets, its own keys."""
    sets = []
    for name in place.texts(row, "with"):
        if name not in table.get("with", {}):
            place.fail(f"there is no [with.{name}]", name)
        sets.append(_with_tables(table["with"][name]))
    _refuse_conflicts(place, sets)
    own = _with_tables({k: v for k, v in row.items() if k not in ("id", "line", "with")})
    top = {key: value for key, value in table.items() if key in CELL_KEYS}
    merged: Table = {}
    for part in (top, *sets, own):
        _overlay(merged, part)
    for metric, column in columns.items():
        if metric in merged or "stated" in column or "samples" in column:
            merged[metric] = {**column, **merged.get(metric, {})}
    return merged


def _with_tables(part: Table) -> Table:
    """Return the part with every figure as a table: `x = 1` is `x = { stated = 1 }`."""
    return {
        key: {"stated": value} if key in BASE_UNITS and not isinstance(value, dict) else value
        for key, value in part.items()
    }


def _overlay(merged: Table, part: Table) -> None:
    for key, value in part.items():
        if isinstance(value, dict):
            merged[key] = {**merged.get(key, {}), **value}
        elif isinstance(value, list):
            merged[key] = [*merged.get(key, []), *value]
        else:
            merged[key] = value


def _refuse_conflicts(place: Place, sets: Sequence[Table]) -> None:
    said: dict[tuple[str, str], Any] = {}
    for part in sets:
        for key, value in part.items():
            entries = value.items() if isinstance(value, dict) else [("", value)]
            for name, entry in entries:
                if isinstance(value, list):
                    continue
                if said.setdefault((key, name), entry) != entry:
                    place.fail(f"its sets differ about {key}{'.' if name else ''}{name}", "with")


def _cell(
    place: Place,
    group: str,
    title: str,
    table: Table,
    row: Table,
    documents: Mapping[str, Document],
) -> HistoricCell:
    context = read_context(place, table.get("context", {}))
    inferred = read_inferred(place, table.get("inferred", {}), context)
    resolved = {key: str(why) for key, why in table.get("resolved", {}).items()}
    for key in resolved:
        if key.partition(".")[0] not in context:
            place.fail(f"{key} is called resolved, but the context has none", key)
    flags = place.texts(table, "flags")
    for flag in flags:
        if flag not in FLAGS:
            place.fail(f"unknown flag {flag!r}", flag, f"known: {', '.join(SOURCE_FLAGS)}")
    values = tuple(
        historic_value(place, metric, table[metric], context, inferred)
        for metric in BASE_UNITS
        if metric in table
    )
    return HistoricCell(
        id=place.take(row, "id", str),
        kind=cast(Kind, place.choice(table, "kind", get_args(Kind))),
        group=group,
        title=title,
        source=_source(place, table, row, documents),
        context=context,
        factors=registry_factors(place, context, table.get("factors", {})),
        values=values,
        flags=flags,
        notes=place.texts(table, "notes"),
        relations=_relations(place, table),
        resolved=resolved,
        inferred=inferred,
        counters=_counters(place, table.get("counters", {})),
        relative=_relative(place, table["relative"]) if "relative" in table else None,
        change_pct_stated=number(place, table["change_pct_stated"], "change_pct_stated")
        if "change_pct_stated" in table
        else None,
    )


def _source(place: Place, table: Table, row: Table, documents: Mapping[str, Document]) -> Source:
    entry = table.get("source")
    if not entry:
        place.fail("it has no source")
    place.check_keys(entry, SOURCE_KEYS, "source")
    document = place.choice(entry, "document", documents)
    lines = place.lines_of_text(row)
    if lines[1] > documents[document].lines:
        place.fail(f"line {lines[1]} is beyond the end of {document}", "line")
    return Source(
        document=document,
        author=place.take(entry, "author", str),
        lines=lines,
        subject=place.optional(entry, "subject", str),
        date=place.optional(entry, "date", date),
        date_line=place.optional(entry, "date_line", int),
        date_note=place.optional(entry, "date_note", str) or "",
        after=place.optional(entry, "after", date),
        before=place.optional(entry, "before", date),
    )


def _relations(place: Place, table: Table) -> tuple[Relation, ...]:
    found = []
    for entry in table.get("relations", []):
        place.check_keys(entry, ("type", "id", "line"), "relations")
        kind = place.choice(entry, "type", RELATION_TYPES)
        found.append(
            Relation(kind, place.optional(entry, "id", str), place.optional(entry, "line", int))
        )
    for key, kind in LINE_LISTS.items():
        for line in place.take(table, key, list, []):
            if type(line) is not int:
                place.fail(f"{key} must be a list of lines, got {line!r}", key)
            found.append(Relation(kind, None, line))
    return tuple(found)


def _counters(place: Place, table: Table) -> dict[str, dict[str, Decimal]]:
    place.check_keys(table, COUNTERS, "counters")
    for name, entry in table.items():
        place.check_keys(entry, COUNTER_KEYS, f"counters.{name}")
    return {
        name: {key: number(place, value, key) for key, value in entry.items()}
        for name, entry in table.items()
    }


def _relative(place: Place, table: Table) -> RelativeChange:
    place.check_keys(
        table, ("what", "condition", "baseline", "change_pct", "qualifier"), "relative"
    )
    change = low_high(place, table.get("change_pct"), "change_pct")
    return RelativeChange(
        what=place.take(table, "what", str),
        condition=place.take(table, "condition", str),
        baseline=place.take(table, "baseline", str),
        low_pct=change[0],
        high_pct=change[-1],
        qualifier=place.optional(table, "qualifier", str),
    )


def read_conclusions(
    file: str, text: str, documents: Mapping[str, Document]
) -> tuple[Conclusion, ...]:
    """Return what the authors concluded, in the file's order."""
    table = _parse(file, text)
    top = Place(file, text)
    top.check_keys(table, ("conclusions",))
    found = []
    for index, entry in enumerate(table.get("conclusions", [])):
        place = top.entry("conclusions", index, f"conclusion {entry.get('id', index)}")
        place.check_keys(entry, _CONCLUSION_KEYS)
        found.append(
            Conclusion(
                id=place.take(entry, "id", str),
                document=place.choice(entry, "document", documents),
                author=place.take(entry, "author", str),
                lines=place.lines_of_text(entry),
                claim=place.take(entry, "claim", str),
                verdict=cast(Verdict, place.choice(entry, "verdict", get_args(Verdict))),
                note=place.optional(entry, "note", str) or "",
                claimed_pct=tuple(
                    number(place, item, "claimed_pct")
                    for item in place.take(entry, "claimed_pct", list, [])
                ),
                comparisons=tuple(
                    _comparison(place, item) for item in place.take(entry, "compare", list, [])
                ),
            )
        )
    return tuple(found)


def _comparison(place: Place, table: Table) -> Comparison:
    metric = place.choice(table, "metric", BASE_UNITS)
    if "minimum_of" in table:
        place.check_keys(table, ("metric", "minimum_of", "along"), "compare")
        along = place.choice(table, "along", CONTEXT_TYPES)
        return Comparison(metric, minimum_of=place.take(table, "minimum_of", str), along=along)
    place.check_keys(table, ("metric", "from", "to"), "compare")
    return Comparison(metric, place.take(table, "from", str), place.take(table, "to", str))


def _check_links(cells: Sequence[HistoricCell], conclusions: Sequence[Conclusion]) -> None:
    """Refuse ids that occur twice and links to cells that do not exist."""
    ids = {cell.id for cell in cells}
    for name, count in Counter(cell.id for cell in cells).items():
        if count > 1:
            raise HistoryError(f"cell {name} occurs {count} times in the historic tables")
    for cell in cells:
        for relation in cell.relations:
            if relation.id is not None and relation.id not in ids:
                raise HistoryError(
                    f"{cell.group}.toml: cell {cell.id}: {relation.type} names {relation.id},"
                    " which does not exist"
                )
    known = ids | {cell.group for cell in cells} | {""}
    for conclusion in conclusions:
        for comparison in conclusion.comparisons:
            for name in (comparison.from_id, comparison.to_id, comparison.minimum_of):
                if name not in known:
                    raise HistoryError(
                        f"{CONCLUSIONS_FILE}: conclusion {conclusion.id} names {name},"
                        " which does not exist"
                    )
