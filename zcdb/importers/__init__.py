"""Importers: the text of other tools into results; pure.

`read` takes the bytes of a file and returns results, refusals and where each
stands.  One module a format; `reading` knows which there are.  An importer
keeps to the text: it never invents a number, never guesses a unit, says what
it refuses and why, and never raises on what it is given.

Must not know: files, a database, the network, click, or any room above the
ground floor.
"""

from __future__ import annotations

from zcdb.importers.model import Derivation, Reading, Refusal, Result, Span
from zcdb.importers.reading import JSON_FORMATS, TEXT_FORMATS, read

__all__ = [
    "JSON_FORMATS",
    "TEXT_FORMATS",
    "Derivation",
    "Reading",
    "Refusal",
    "Result",
    "Span",
    "read",
]
