"""Sources, their entries and errata as plain text, for the command line."""

from __future__ import annotations

from zcdb.factors import FACTORS, UNSTATED, display
from zcdb.metrics import METRICS, format_value
from zcdb.store.results import EntryLine, Erratum, FigureLine, SourceLine, SourceList, SourcePage


def source_list_text(found: SourceList) -> str:
    """Return sources, a line each."""
    if not found.sources:
        return "no sources: 'zcdb import FILE' records what other tools printed\n"
    rows = [_line_cells(source) for source in found.sources]
    rows.insert(0, ["source", "kind", "results", "recorded", "what it is"])
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    if found.next_after:
        lines.append(f"(more: --after {found.next_after})")
    return "\n".join(lines) + "\n"


def _line_cells(source: SourceLine) -> list[str]:
    return [
        source.id,
        source.kind,
        str(source.entries),
        f"{source.recorded_at:%Y-%m-%d}",
        source.title if source.kind == "historic" else f"{source.name}: {source.title}",
    ]


def source_text(page: SourcePage) -> str:
    """Return a source with its entries."""
    source = page.source
    lines = [f"source {source.id} ({source.kind}): {source.title}"]
    lines.append(f"  {origin(source)}")
    lines.append(f"  text: {page.size_bytes} bytes, SHA-256 {page.sha256}")
    lines += [f"  {sentence(erratum)}" for erratum in page.errata]
    for entry in page.entries:
        lines += ["", *_entry_lines(entry)]
    return "\n".join(lines) + "\n"


def entry_text(entry: EntryLine) -> str:
    """Return one entry and where it stands."""
    return "\n".join([*_entry_lines(entry), f"  from: {origin(entry.source)}"]) + "\n"


def origin(source: SourceLine) -> str:
    """Return author, document and date in one line."""
    title = source.details.get("document_title") or source.document
    parts = [source.author, str(title), source.dated[:10] if source.dated else None]
    return ", ".join(part for part in parts if part)


def _entry_lines(entry: EntryLine) -> list[str]:
    first, last = entry.lines
    place = f"line {first}" if first == last else f"lines {first}-{last}"
    lines = [f"{entry.name} ({entry.kind}, {place}): entry {entry.id}"]
    if entry.case_id:
        lines.append(f"  case {entry.case_id}: {_conditions(entry)}")
    lines += [f"  {figure_text(figure)}" for figure in entry.figures]
    if entry.left_out:
        lines.append(f"  takes part in no comparison: {entry.left_out}")
    lines += [f"  ! {flag.code}: {flag.detail or flag.sentence}" for flag in entry.flags]
    lines += [f"  {sentence(erratum)}" for erratum in entry.errata]
    return lines


def _conditions(entry: EntryLine) -> str:
    stated = {
        name: value
        for name, value in entry.factors.items()
        if value != UNSTATED and value != FACTORS[name].default
    }
    return ", ".join(f"{name} {display(name, value)}" for name, value in stated.items())


def figure_text(figure: FigureLine) -> str:
    """Return a figure as stated and normalised: `"throughput: 66600 Mbyte/s = 533 Mbit/s"`."""
    method = f" [{figure.method}]" if figure.method else ""
    mark = " (deduced)" if figure.is_inferred else ""
    said = f"{figure.stated} = " if figure.stated else ""
    if figure.low is None or figure.high is None:
        return f"{figure.metric}{method}{mark}: {figure.stated or 'no figure'}: {figure.reason}"
    ends = dict.fromkeys(number(figure, value) for value in (figure.low, figure.high))
    return f"{figure.metric}{method}{mark}: {said}{' to '.join(ends)}"


def number(figure: FigureLine, value: float) -> str:
    """Return a number of a figure with its unit."""
    known = METRICS.get(figure.metric)
    if known is not None and known.unit == figure.unit:
        return format_value(figure.metric, value)
    return f"{value:.10g} {figure.unit}"


def sentence(erratum: Erratum) -> str:
    """Return an erratum as a sentence."""
    what = f" {erratum.metric}" if erratum.metric else ""
    if erratum.kind == "corrected":
        what += f" from {erratum.old if erratum.old is not None else 'nothing'} to {erratum.new}"
    successor = f" (now: {erratum.successor})" if erratum.successor else ""
    return (
        f"{erratum.kind}{what} on {erratum.at:%Y-%m-%d} by {erratum.by}:"
        f" {erratum.reason}{successor}"
    )
