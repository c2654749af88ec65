"""The founding tables as JSON values: what `zcdb list --history --json` prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import date
from decimal import Decimal
from typing import Any

from zcdb.importers.history.compare import exclusion, recompute
from zcdb.importers.history.records import (
    Conclusion,
    HistoricCell,
    HistoricValue,
    History,
    RelativeChange,
    Source,
)
from zcdb.importers.history.vocabulary import PERCENT


def as_json(history: History) -> list[dict[str, Any]]:
    """Return all cells, in the order of their files.

    Each has `id`, `kind`, `group`, `title`, `source`, `context` (as stated), `factors` (the
    registry's words for it), `values` (stated and normalised), `flags`, `inferred`, `resolved`,
    `relations`, `notes`, and whether it is `comparable`.  What is not known is null.
    """
    return [cell_as_json(cell, history) for cell in history.cells]


def as_text(history: History) -> str:
    """Return all cells for a terminal: a heading per table, a line per cell."""
    lines: list[str] = []
    group = None
    for cell in history.cells:
        if cell.group != group:
            group = cell.group
            source = _source(cell.source, history)
            lines += ["", cell.title, f"  {source['author']}, {source['document_title']}"]
        figures = ", ".join(value.stated_text for value in cell.values)
        marks = f"  [{' '.join(cell.flags)}]" if cell.flags else ""
        lines.append(f"    {cell.id}: {figures or cell.kind}{marks}")
    return "\n".join(lines[1:]) + "\n"


def cell_as_json(cell: HistoricCell, history: History) -> dict[str, Any]:
    """Return one cell; the keys are those of `as_json`."""
    reason = exclusion(cell)
    return {
        "id": cell.id,
        "kind": cell.kind,
        "group": cell.group,
        "title": cell.title,
        "source": _source(cell.source, history),
        "context": dict(cell.context),
        "factors": dict(cell.factors),
        "values": [value_as_json(value) for value in cell.values],
        "counters": {
            name: {key: _number(figure) for key, figure in entry.items()}
            for name, entry in cell.counters.items()
        },
        "relative": _relative(cell.relative),
        "change_pct_stated": _number(cell.change_pct_stated),
        "flags": list(cell.flags),
        "resolved": dict(cell.resolved),
        "inferred": {key: asdict(entry) for key, entry in cell.inferred.items()},
        "relations": [asdict(relation) for relation in cell.relations],
        "notes": list(cell.notes),
        "comparable": reason is None,
        "not_comparable_because": reason,
    }


def _source(source: Source, history: History) -> dict[str, Any]:
    document = history.documents[source.document]
    return {
        "document": document.id,
        "document_title": document.title,
        "text": document.text,
        "lines": list(source.lines),
        "author": source.author,
        "subject": source.subject,
        "date": _iso(source.date),
        "date_line": source.date_line,
        "date_note": source.date_note,
        "after": _iso(source.after),
        "before": _iso(source.before),
    }


def value_as_json(value: HistoricValue) -> dict[str, Any]:
    """Return one figure: stated, normalised, and how it was read."""
    return {
        "metric": value.metric,
        "method": value.method,
        "stated": _one_or_range(value.stated),
        "stated_text": value.stated_text,
        "unit": value.unit,
        "unit_evident": value.unit_evident,
        "sd": _number(value.sd),
        "qualifier": value.qualifier,
        "samples": [_number(sample) for sample in value.samples],
        "occasional": _number(value.occasional),
        "normalised": _one_or_range((value.low, value.high)),
        "base_unit": value.base_unit,
        "not_normalised_because": value.reason,
        "normalised_sd": value.sd_base,
        "other_reading": _one_or_range((value.other_low, value.other_high)),
        "normalised_sum": _number(value.sum),
        "sum_of": value.sum_of,
        "cpus_by_inference": _one_or_range(value.cpus_by_inference),
        "percent_of_machine": value.base_unit == PERCENT,
        "reading": value.reading,
        "why": value.why,
        "scope": value.scope,
        "line": value.line,
        "heading_line": value.heading_line,
        "column": value.column,
        "note": value.note,
    }


def _relative(change: RelativeChange | None) -> dict[str, Any] | None:
    if change is None:
        return None
    return {
        "what": change.what,
        "condition": change.condition,
        "baseline": change.baseline,
        "change_pct": _one_or_range((change.low_pct, change.high_pct)),
        "qualifier": change.qualifier,
    }


def conclusions_as_json(history: History) -> list[dict[str, Any]]:
    """Return the authors' conclusions with what the cells say, recomputed now."""
    return [_conclusion(entry, history.cells) for entry in history.conclusions]


def _conclusion(conclusion: Conclusion, cells: Sequence[HistoricCell]) -> dict[str, Any]:
    return {
        "id": conclusion.id,
        "document": conclusion.document,
        "author": conclusion.author,
        "lines": list(conclusion.lines),
        "claim": conclusion.claim,
        "claimed_pct": [_number(change) for change in conclusion.claimed_pct],
        "verdict": conclusion.verdict,
        "note": conclusion.note,
        "cells_say": [
            {
                "metric": entry.comparison.metric,
                "from": entry.comparison.from_id or None,
                "to": entry.comparison.to_id or None,
                "minimum_of": entry.comparison.minimum_of or None,
                "at": entry.at,
                "from_stated": _number(entry.from_stated),
                "to_stated": _number(entry.to_stated),
                "unit": entry.unit,
                "change_pct": entry.change_pct,
                "difference": _number(entry.difference),
            }
            for entry in recompute(conclusion, cells)
        ],
    }


def _iso(day: date | None) -> str | None:
    return day.isoformat() if day else None


def _number(figure: Decimal | float | None) -> int | float | None:
    """Return a figure as JSON has it: whole numbers without a fraction."""
    if figure is None:
        return None
    return int(figure) if figure == int(figure) else float(figure)


def _one_or_range(figures: Iterable[Decimal | float | None]) -> Any:
    """Return one number, [low, high] where they differ, or None where there is none."""
    ends = [_number(figure) for figure in figures]
    if not ends or ends[0] is None:
        return None
    return ends[0] if ends[0] == ends[-1] else ends
