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

__all__ = ["Derivation", "Reading", "Refusal", "Result", "Span", "read"]


def read(data: bytes, file_name: str, command: str | None = None) -> Reading:
    """Return everything that the importers find in a file; see `zcdb.importers.reading.read`."""
    # All formats together take 0.2 s to import; who reads the founding tables needs none of them.
    from zcdb.importers.reading import read as read_with_all_formats

    return read_with_all_formats(data, file_name, command)
