"""The founding tables in the database: written once, and again when zcdb ships better ones.

They ship as files of `runs/history/`, which `zcdb.importers.history` reads.  Opening a database
compares the hashes of those files with what is stored, and nothing is read where they agree.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import select

import zcdb
from zcdb.store.models import SourceRow

if TYPE_CHECKING:
    from zcdb.store.session import Database

FORM = "history 1"
"""Raise the number when the same files give other records: old databases read them again."""

_NOT_A_TABLE = "documents.toml"


def folder() -> Path:
    """Return where the founding tables are."""
    return Path(zcdb.__file__).parent / "shipped_runs" / "history"


@cache
def _shipped() -> dict[str, bytes]:
    """Return file name -> content; read once, they do not change while zcdb runs."""
    return {path.name: path.read_bytes() for path in sorted(folder().glob("*.toml"))}


def _wanted() -> set[tuple[str, str]]:
    """Return the hash and the form of every source that should be stored."""
    files = _shipped()
    documents = hashlib.sha256(files.get(_NOT_A_TABLE, b"")).hexdigest()[:8]
    return {
        (hashlib.sha256(text).hexdigest(), f"{FORM} {documents}")
        for name, text in files.items()
        if name != _NOT_A_TABLE
    }


def keep(db: Database) -> bool:
    """Write the founding tables where they are missing or old; return whether that was so."""
    wanted = _wanted()
    with db.reading() as session:
        stored = session.execute(
            select(SourceRow.sha256, SourceRow.form).where(SourceRow.kind == "historic")
        ).all()
    if wanted <= {(row.sha256, row.form) for row in stored}:
        return False
    _write(db)
    return True


def _write(db: Database) -> None:
    # Reading the tables is slow to import, and needed once in the life of a database.
    from zcdb.importers import history
    from zcdb.store.sources import write_source

    files = {name: text.decode() for name, text in _shipped().items()}
    form = next(iter(_wanted()))[1]
    now = datetime.now(UTC)
    with db.writing() as session:
        for source in history.sources(files, form):
            write_source(session, source, now)
