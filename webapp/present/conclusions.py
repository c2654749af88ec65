"""What the authors of the founding documents concluded, and what their cells say to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zcdb.store.results import EntryLine, SourcePage
from zcdb.webapp.labels import metric_label
from zcdb.webapp.present.published import mappings, place_text


@dataclass(frozen=True, slots=True)
class CellsSay:
    """A comparison of two cells, computed from them."""

    metric: str
    label: str
    before: str | None
    after: str | None
    before_stated: str
    after_stated: str
    change: str


@dataclass(frozen=True, slots=True)
class ConclusionContent:
    """What an author concluded, and what the cells say to it."""

    id: str
    author: str
    lines: str
    claim: str
    claimed: str
    verdict: str
    note: str
    cells_say: tuple[CellsSay, ...]


@dataclass(frozen=True, slots=True)
class ConclusionsContent:
    """All conclusions; `groups` maps a cell to the table it stands in."""

    conclusions: tuple[ConclusionContent, ...]
    groups: Mapping[str, str]


def conclusions_content(page: SourcePage, tables: Sequence[SourcePage]) -> ConclusionsContent:
    """Return the authors' conclusions; `tables` tell where the cells stand."""
    groups = {entry.name: table.source.name for table in tables for entry in table.entries}
    return ConclusionsContent(
        conclusions=tuple(_conclusion(entry) for entry in page.entries), groups=groups
    )


def _conclusion(entry: EntryLine) -> ConclusionContent:
    said = entry.details
    claimed = said.get("claimed_pct")
    return ConclusionContent(
        id=entry.name,
        author=str(said.get("author")),
        lines=place_text(entry.lines) or "",
        claim=str(said.get("claim")),
        claimed=", ".join(f"{pct:+g} %" for pct in claimed if isinstance(pct, int | float))
        if isinstance(claimed, list)
        else "",
        verdict=str(said.get("verdict")).replace("-", " "),
        note=str(said.get("note") or ""),
        cells_say=tuple(_cells_say(item) for item in mappings(said.get("cells_say"))),
    )


def _cells_say(item: Mapping[str, Any]) -> CellsSay:
    unit, change = item.get("unit"), item.get("change_pct")
    is_minimum = item.get("minimum_of") is not None
    return CellsSay(
        metric=str(item.get("metric")),
        label=metric_label(str(item.get("metric"))),
        before=item.get("from"),
        after=item.get("to"),
        before_stated=f"{item.get('from_stated')} {unit}",
        after_stated=f"{item.get('to_stated')} {unit}",
        change=f"smallest at {item.get('at')}"
        if is_minimum
        else f"{change:+.1f} %".replace("-", "−")
        if isinstance(change, int | float)
        else "",
    )
