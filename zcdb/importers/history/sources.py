"""The founding tables as records that a database keeps: a source a table, an entry a cell.

The authors' conclusions are a source of their own, with what the cells say computed anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zcdb.ids import Json
from zcdb.importers.history import output
from zcdb.importers.history.compare import exclusion, without_disowned
from zcdb.importers.history.reader import CONCLUSIONS_FILE, read
from zcdb.importers.history.records import HistoricCell, HistoricValue, History
from zcdb.importers.history.vocabulary import PERCENT
from zcdb.metrics import METRICS
from zcdb.records import Flag
from zcdb.sources import Entry, Figure, Source

_DISOWNED = "the author disowns the CPU figure"
_DEDUCED = "the number of CPUs was deduced, not stated"
_WITH_CASE = ("cell", "observation")


def sources(files: Mapping[str, str], form: str = "") -> list[Source]:
    """Return all founding tables, in the order of the documents, and the conclusions.

    Args:
        files: file name -> text, of every `*.toml` in `runs/history/`.
        form: the records' word for how they were read.

    Raises:
        HistoryError: as `read`.
    """
    history = read(files)
    texts = {name.rpartition("/")[2]: text.encode() for name, text in files.items()}
    groups: dict[str, list[HistoricCell]] = {}
    for cell in history.cells:
        groups.setdefault(cell.group, []).append(cell)
    tables = [
        _table(group, cells, history, texts[f"{group}.toml"], form)
        for group, cells in groups.items()
    ]
    if not history.conclusions:
        return tables
    return [*tables, _conclusions(history, texts[CONCLUSIONS_FILE], form)]


def _table(
    group: str, cells: Sequence[HistoricCell], history: History, text: bytes, form: str
) -> Source:
    first = cells[0].source
    document = history.documents[first.document]
    authors = dict.fromkeys(cell.source.author for cell in cells)
    dates = {cell.source.date for cell in cells}
    lines = [line for cell in cells for line in cell.source.lines]
    return Source(
        kind="historic",
        identity={"name": group},
        name=group,
        title=cells[0].title,
        document=document.id,
        author=", ".join(authors),
        dated=first.date.isoformat() if first.date and len(dates) == 1 else None,
        lines=(min(lines), max(lines)),
        text=text,
        form=form,
        entries=[_entry(cell, history) for cell in cells],
        details={
            "document_title": document.title,
            "published": document.published,
            "transcript": document.text,
            "transcript_sha256": document.sha256,
            "subject": first.subject,
            "date_note": first.date_note,
        },
    )


def _entry(cell: HistoricCell, history: History) -> Entry:
    reason = exclusion(cell)
    allowed = without_disowned(cell)
    described = output.cell_as_json(cell, history)
    return Entry(
        key=cell.id,
        name=cell.id,
        kind=cell.kind,
        lines=cell.source.lines,
        factors=cell.factors if cell.kind in _WITH_CASE else None,
        figures=[
            figure
            for value in cell.values
            for figure in _figures(cell, value, reason or (None if value in allowed else _DISOWNED))
        ],
        flags=[Flag(code) for code in cell.flags],
        left_out=reason,
        details={
            key: described[key]
            for key in (
                *("source", "context", "counters", "relative", "change_pct_stated"),
                *("resolved", "inferred", "relations", "notes"),
            )
        },
    )


def _figures(cell: HistoricCell, value: HistoricValue, left_out: str | None) -> list[Figure]:
    """Return a value as a figure; with an inferred CPU count there is a second, deduced one."""
    repeats = cell.context.get("repeats")
    n = repeats if isinstance(repeats, int) else None
    figure = Figure(
        metric=value.metric,
        method=value.method,
        unit=value.base_unit,
        stated=value.stated_text,
        low=value.low,
        high=value.high,
        sd=value.sd_base,
        spread="sd" if value.sd_base is not None else None,
        n=n,
        other_low=value.other_low,
        other_high=value.other_high,
        reason=value.reason,
        left_out=left_out,
        details=output.value_as_json(value),
    )
    if value.base_unit != PERCENT:
        return [figure]
    figures = [_share_of_machine(figure)]
    if value.cpus_by_inference:
        low, high = value.cpus_by_inference[0], value.cpus_by_inference[-1]
        deduced = replace(
            figure,
            unit=METRICS[value.metric].unit,
            low=low,
            high=high,
            is_inferred=True,
            left_out=left_out or _DEDUCED,
            details={},
        )
        figures.append(deduced)
    return figures


def _share_of_machine(figure: Figure) -> Figure:
    """Return a percentage of a machine of unknown size as what it is: a share of that machine."""

    def share(percent: float | None) -> float | None:
        return None if percent is None else percent / 100

    return replace(
        figure,
        metric=f"machine_{figure.metric}",
        unit=METRICS[f"machine_{figure.metric}"].unit,
        low=share(figure.low),
        high=share(figure.high),
        sd=share(figure.sd),
    )


def _conclusions(history: History, text: bytes, form: str) -> Source:
    entries = []
    for conclusion, described in zip(
        history.conclusions, output.conclusions_as_json(history), strict=True
    ):
        details: dict[str, Json] = dict(described)
        entries.append(
            Entry(
                key=conclusion.id,
                name=conclusion.id,
                kind="conclusion",
                lines=conclusion.lines,
                factors=None,
                figures=(),
                left_out="it is what an author concluded, not a measurement",
                details=details,
            )
        )
    return Source(
        kind="historic",
        identity={"name": "conclusions"},
        name="conclusions",
        title="What the authors concluded, and what their cells say",
        document="",
        author=None,
        dated=None,
        lines=None,
        text=text,
        form=form,
        entries=entries,
    )
