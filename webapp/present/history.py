"""The founding tables and other sources as pages show them: what was stated, and what it means.

A table reads like the original: what all of its rows share stands above it, what differs is a
column, the figures are as stated.  Beside them stand the normalised figures, the other reading of
an ambiguous prefix, and everything that warns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import zcdb
from zcdb import factors
from zcdb.factors import UNSTATED
from zcdb.ids import Json
from zcdb.store.results import EntryLine, Erratum, FlagLine, SourceLine, SourcePage
from zcdb.webapp.present.published import (
    FigureShown,
    figure_label,
    figure_shown,
    flat,
    mappings,
    place_text,
)

_CONTEXT_LABELS = {
    "tx_csum": "TX checksum",
    "rx_csum": "RX checksum",
    "sg": "scatter-gather",
    "tso": "TSO",
    "api": "API",
    "os": "system",
    "nic": "NIC",
    "cpu.as_stated": "CPU",
    "ram": "memory",
    "mtu": "MTU",
    "chunk_bytes": "chunk, bytes",
    "file_size_bytes": "file, bytes",
    "kernel_as_stated": "kernel",
}
_REPEATED = frozenset(
    {
        *("link_bps", "ram_bytes", "kernel", "cpu.model", "cpu.clock_mhz", "cpu.count"),
        *("rsize_evident", "workload", "pinning_detail", "command", "statistic"),
    }
)
"""Context keys that say again what another key says, or that are too long for a column."""


@dataclass(frozen=True, slots=True)
class Row:
    """A cell of a table.

    Attributes:
        context: its values of the columns in which the rows differ, in their order.
        figures: in the order of the table's metrics; None where it has none.
        deduced: figures that follow from something that was deduced.
    """

    id: str
    name: str
    kind: str
    lines: str
    case_id: str | None
    context: tuple[str, ...]
    figures: tuple[FigureShown | None, ...]
    deduced: tuple[FigureShown, ...]
    left_out: str | None
    flags: tuple[FlagLine, ...]
    errata: tuple[Erratum, ...]
    notes: tuple[str, ...]
    relations: tuple[str, ...]
    inferred: tuple[tuple[str, str], ...]
    extra: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Repeats:
    """An experiment that ships with zcdb and measures a table again."""

    name: str
    file: str


@dataclass(frozen=True, slots=True)
class TableContent:
    """A founding table, or an imported file.

    Attributes:
        shared: (label, value) of what all rows have in common.
        columns: labels of what differs from row to row.
        metrics: (metric, method, label) of the columns of figures.
        repeats: experiments that measure it again.
    """

    id: str
    name: str
    kind: str
    title: str
    author: str | None
    document: str
    dated: str | None
    lines: str | None
    shared: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    metrics: tuple[tuple[str, str, str], ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    flags: tuple[FlagLine, ...]
    errata: tuple[Erratum, ...]
    repeats: tuple[Repeats, ...]
    details: tuple[tuple[str, str], ...]
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class DocumentContent:
    """The tables of one document."""

    title: str
    published: str
    tables: tuple[TableContent, ...]


@dataclass(frozen=True, slots=True)
class HistoryContent:
    """All founding tables."""

    cells: int
    documents: tuple[DocumentContent, ...]


@dataclass(frozen=True, slots=True)
class SourcesContent:
    """The list of sources."""

    sources: tuple[SourceLine, ...]
    next_after: str | None


@cache
def _shipped_experiments() -> tuple[tuple[str, str], ...]:
    folder = Path(zcdb.__file__).parent / "shipped_runs"
    return tuple((path.stem, path.read_text("utf-8")) for path in sorted(folder.glob("*.toml")))


def repeats_of(group: str) -> tuple[Repeats, ...]:
    """Return the shipped experiments that name a table as the one they measure again."""
    return tuple(
        Repeats(name, f"runs/{name}.toml") for name, text in _shipped_experiments() if group in text
    )


def _label(key: str) -> str:
    return _CONTEXT_LABELS.get(key, key.replace(".as_stated", "").replace("_", " "))


def _context(entry: EntryLine) -> dict[str, str]:
    """Return what differs or is shared: a cell's context as stated, or a result's factors."""
    stated = entry.details.get("context")
    if isinstance(stated, Mapping):
        whole = flat(stated)
        keys = [key for key in whole if key not in _REPEATED or _is_alone(key, whole)]
        return {_label(key): str(whole[key]) for key in keys}
    return {
        factors.FACTORS[name].label if name in factors.FACTORS else name: factors.display(
            name, value
        )
        for name, value in entry.factors.items()
        if value != UNSTATED and (name not in factors.FACTORS or value != _default(name))
    }


def _default(name: str) -> Json:
    return factors.FACTORS[name].default


def _is_alone(key: str, whole: Mapping[str, Json]) -> bool:
    """Tell whether no other key says what this one does."""
    instead = {"link_bps": "link", "kernel": "kernel_as_stated", "ram_bytes": "ram"}
    if key.startswith("cpu."):
        return "cpu.as_stated" not in whole
    return instead.get(key, key) not in whole


def table_content(page: SourcePage) -> TableContent:
    """Return a source as a table."""
    source, entries = page.source, page.entries
    contexts = [_context(entry) for entry in entries]
    keys = list(dict.fromkeys(key for context in contexts for key in context))
    shared = {
        key: contexts[0][key]
        for key in keys
        if all(context.get(key) == contexts[0].get(key) for context in contexts)
    }
    differing = [key for key in keys if key not in shared]
    metrics = list(
        dict.fromkeys(
            (figure.metric, figure.method)
            for entry in entries
            for figure in entry.figures
            if not figure.is_inferred
        )
    )
    notes = _in_all([_texts(entry, "notes") for entry in entries])
    codes = _in_all([[flag.code for flag in entry.flags] for entry in entries])
    flags = {flag.code: flag for entry in entries for flag in entry.flags}
    return TableContent(
        id=source.id,
        name=source.name,
        kind=source.kind,
        title=source.title,
        author=source.author,
        document=str(source.details.get("document_title") or source.document),
        dated=source.dated,
        lines=place_text(source.lines),
        shared=tuple(shared.items()),
        columns=tuple(differing),
        metrics=tuple((name, method, figure_label(name)) for name, method in metrics),
        rows=tuple(
            _row(entry, context, differing, metrics, notes, codes)
            for entry, context in zip(entries, contexts, strict=True)
        ),
        notes=notes,
        flags=tuple(flags[code] for code in codes),
        errata=page.errata,
        repeats=repeats_of(source.name) if source.kind == "historic" else (),
        details=_details(source),
        sha256=page.sha256,
        size_bytes=page.size_bytes,
    )


def _in_all(lists: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return what stands in every list, in the first one's order; nothing for a single list."""
    if len(lists) < 2:
        return ()
    return tuple(item for item in lists[0] if all(item in other for other in lists[1:]))


def _texts(entry: EntryLine, key: str) -> list[str]:
    found = entry.details.get(key)
    return [str(text) for text in found] if isinstance(found, list) else []


def _row(
    entry: EntryLine,
    context: Mapping[str, str],
    columns: Sequence[str],
    metrics: Sequence[tuple[str, str]],
    notes: Sequence[str],
    codes: Sequence[str],
) -> Row:
    figures = {(figure.metric, figure.method): figure for figure in entry.figures}
    return Row(
        id=entry.id,
        name=entry.name,
        kind=entry.kind,
        lines=place_text(entry.lines) or "",
        case_id=entry.case_id,
        context=tuple(context.get(key, "") for key in columns),
        figures=tuple(figure_shown(figures[key]) if key in figures else None for key in metrics),
        deduced=tuple(figure_shown(figure) for figure in entry.figures if figure.is_inferred),
        left_out=entry.left_out,
        flags=tuple(flag for flag in entry.flags if flag.code not in codes),
        errata=entry.errata,
        notes=tuple(note for note in _texts(entry, "notes") if note not in notes),
        relations=tuple(_relations(entry)),
        inferred=tuple(_inferred(entry)),
        extra=tuple(_extra(entry)),
    )


def _relations(entry: EntryLine) -> Iterable[str]:
    for relation in mappings(entry.details.get("relations")):
        target = relation.get("id") or f"line {relation.get('line')}"
        yield f"{str(relation.get('type')).replace('-', ' ')} {target}"


def _inferred(entry: EntryLine) -> Iterable[tuple[str, str]]:
    found = entry.details.get("inferred")
    for key, deduced in found.items() if isinstance(found, Mapping) else ():
        if isinstance(deduced, Mapping):
            value = deduced.get("value")
            shown = flat({"": value}) if isinstance(value, Mapping) else {"": value}
            text = ", ".join(str(part) for part in shown.values())
            yield _label(key), f"{'left open' if value is None else text}: {deduced.get('why')}"


def _extra(entry: EntryLine) -> Iterable[tuple[str, str]]:
    """Give what a cell has beside figures: a change of which only the ratio is stated, counters."""
    change = entry.details.get("relative")
    if isinstance(change, Mapping):
        pct = change.get("change_pct")
        ends = " to ".join(str(end) for end in pct) if isinstance(pct, list) else pct
        yield str(change.get("what")), f"{ends} % when {change.get('condition')}"
    if entry.details.get("change_pct_stated") is not None:
        yield "change as printed", f"{entry.details['change_pct_stated']} %"
    counters = entry.details.get("counters")
    for name, values in counters.items() if isinstance(counters, Mapping) else ():
        if not isinstance(values, Mapping):
            continue
        parts = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in values.items())
        yield name.replace("_", " "), parts


def _details(source: SourceLine) -> tuple[tuple[str, str], ...]:
    labels = (
        ("subject", "subject"),
        ("date_note", "about the date"),
        ("published", "published"),
        ("command", "command"),
    )
    found = [(label, str(source.details[key])) for key, label in labels if source.details.get(key)]
    given = source.details.get("given")
    if isinstance(given, Mapping) and given:
        found.append(("stated beside it", ", ".join(f"{k} = {v}" for k, v in given.items())))
    found += [
        ("refused", f"{place_text(tuple(item['lines']))}: {item['reason']}")
        for item in mappings(source.details.get("refused"))
    ]
    return tuple(found)


def history_content(pages: Sequence[SourcePage]) -> HistoryContent:
    """Return all founding tables by document."""
    by_document: dict[str, list[SourcePage]] = {}
    for page in pages:
        by_document.setdefault(page.source.document, []).append(page)
    return HistoryContent(
        cells=sum(len(page.entries) for page in pages),
        documents=tuple(
            DocumentContent(
                title=str(of_document[0].source.details.get("document_title")),
                published=str(of_document[0].source.details.get("published")),
                tables=tuple(table_content(page) for page in of_document),
            )
            for of_document in by_document.values()
        ),
    )
