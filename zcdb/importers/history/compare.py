"""What of the founding tables may be compared, and what the authors' conclusions come to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal

from zcdb.importers.history.place import HistoryError
from zcdb.importers.history.records import (
    Comparison,
    Conclusion,
    HistoricCell,
    HistoricValue,
    Recomputed,
)

_EXCLUDING_FLAGS = {
    "superseded": "a later mail corrects it",
    "withdrawn": "the author has withdrawn it",
    "implausible-as-stated": "it cannot be right as stated",
}
_EXCLUDED_KINDS = {
    "relative": "only a change is stated, no figure",
    "series": "it shows the samples of a run, and which case they belong to is not stated",
    "machine-fact": "it describes a machine, not a case",
    "total": "it is a sum over cases",
}


def exclusion(cell: HistoricCell) -> str | None:
    """Return why a cell takes part in no comparison, or None if it does."""
    for flag, reason in _EXCLUDING_FLAGS.items():
        if flag in cell.flags:
            return reason
    if cell.kind in _EXCLUDED_KINDS:
        return _EXCLUDED_KINDS[cell.kind]
    if not without_disowned(cell):
        return "the author disowns its CPU figure, and it has no other"
    return None


def without_disowned(cell: HistoricCell) -> tuple[HistoricValue, ...]:
    """Return the figures of a cell without disowned CPU figures."""
    if "cpu-bogus" not in cell.flags:
        return cell.values
    return tuple(value for value in cell.values if not value.method)


def comparable(cells: Iterable[HistoricCell]) -> list[HistoricCell]:
    """Return the cells that may be compared, each with the figures that may be.

    Superseded, withdrawn and impossible figures are left out, and so are CPU figures that their
    author disowns; contested ones stay, with their flags.
    """
    return [
        replace(cell, values=without_disowned(cell)) for cell in cells if exclusion(cell) is None
    ]


def recompute(conclusion: Conclusion, cells: Sequence[HistoricCell]) -> list[Recomputed]:
    """Return what the cells say to a conclusion, one entry a comparison.

    Args:
        cells: all cells; what may not be compared is left out here.

    Raises:
        HistoryError: if a compared cell has no such figure, a range, or another unit.
    """
    usable = comparable(cells)
    return [_recomputed(conclusion, comparison, usable) for comparison in conclusion.comparisons]


def _recomputed(
    conclusion: Conclusion, comparison: Comparison, cells: Sequence[HistoricCell]
) -> Recomputed:
    by_id = {cell.id: cell for cell in cells}
    if comparison.minimum_of:
        group = [cell for cell in cells if cell.group == comparison.minimum_of]
        best = min(group, key=lambda cell: _figure(conclusion, comparison, cell)[0])
        figure, unit = _figure(conclusion, comparison, best)
        at = best.context.get(comparison.along)
        return Recomputed(comparison, unit, figure, figure, None, at)
    before, unit = _figure(conclusion, comparison, by_id.get(comparison.from_id))
    after, other_unit = _figure(conclusion, comparison, by_id.get(comparison.to_id))
    if unit != other_unit:
        raise HistoryError(f"conclusion {conclusion.id} compares {unit} with {other_unit}")
    return Recomputed(comparison, unit, before, after, float((after / before - 1) * 100))


def _figure(
    conclusion: Conclusion, comparison: Comparison, cell: HistoricCell | None
) -> tuple[Decimal, str]:
    value = cell.value(comparison.metric) if cell else None
    if value is None or len(value.stated) != 1:
        name = cell.id if cell else f"{comparison.from_id} or {comparison.to_id}"
        raise HistoryError(
            f"conclusion {conclusion.id}: {name} has no single comparable {comparison.metric}"
        )
    return value.stated[0], value.unit
