"""The founding tables: `runs/history/*.toml` into frozen records, purely.

The field's measurements from before zcdb, a file per table (docs/history.md describes the form).
`read` takes the texts of all files; nothing here opens one.  Every normalised value is recomputed
from the stated figure, its unit and the documented reading of its prefix, and a file that says
something else is refused with its line.  Nothing is guessed: what was deduced stays apart from what
was stated.
"""

from __future__ import annotations

from zcdb.importers.history.compare import comparable, exclusion, recompute
from zcdb.importers.history.output import as_json, as_text, conclusions_as_json
from zcdb.importers.history.place import HistoryError
from zcdb.importers.history.reader import read
from zcdb.importers.history.records import (
    Comparison,
    Conclusion,
    Document,
    HistoricCell,
    HistoricValue,
    History,
    Inferred,
    Recomputed,
    Relation,
    RelativeChange,
    Source,
)
from zcdb.importers.history.sources import sources
from zcdb.importers.history.vocabulary import BASE_UNITS, PERCENT

__all__ = [
    "BASE_UNITS",
    "PERCENT",
    "Comparison",
    "Conclusion",
    "Document",
    "HistoricCell",
    "HistoricValue",
    "History",
    "HistoryError",
    "Inferred",
    "Recomputed",
    "Relation",
    "RelativeChange",
    "Source",
    "as_json",
    "as_text",
    "comparable",
    "conclusions_as_json",
    "exclusion",
    "read",
    "recompute",
    "sources",
]
