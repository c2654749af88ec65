"""Checks of a whole database, and computing anew what is derived in it.

verify    is the file sound, does every reference hold, is what is derived right?
rebuild   case factors, pairings, statistics of measurements, summaries, uses of environments
backup    a copy of an SQLite database that others may be writing
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from zcdb.errors import StoreError, UsageError
from zcdb.factors import FACTORS, case_id
from zcdb.ids import content_id
from zcdb.store.cases import derived_rows, rebuild_derived
from zcdb.store.models import (
    CaseFactorRow,
    CaseRow,
    EnvironmentRow,
    EnvironmentUseRow,
    MeasurementRow,
    PairingRow,
    RunRow,
    TextRow,
)
from zcdb.store.session import Database
from zcdb.store.statistics import (
    outdated,
    refresh_measurements,
    refresh_summaries,
)
from zcdb.store.upsert import batched
from zcdb.store.uses import outdated_uses, refresh_uses


@dataclass(frozen=True, slots=True)
class Verified:
    """What `verify` looked at, and what is wrong, a sentence each."""

    cases: int
    environments: int
    measurements: int
    problems: tuple[str, ...]


def verify(db: Database) -> Verified:
    """Check a database; changes nothing."""
    with db.reading() as session:
        problems = _file_problems(session)
        cases = session.scalars(select(CaseRow).order_by(CaseRow.id)).all()
        for case in cases:
            problems += _case_problems(session, case)
        environments = session.scalars(select(EnvironmentRow)).all()
        problems += [
            f"environment {row.public_id}: its facts hash to another id"
            for row in environments
            if content_id("environment", json.loads(row.facts_json)) != row.public_id
        ]
        problems += _text_problems(session)
        runs = session.execute(select(RunRow.id, RunRow.public_id)).all()
        names = {row.id: row.public_id for row in runs}
        problems += [
            f"run {names[key]}: table {EnvironmentUseRow.__tablename__} is out of date"
            for key in outdated_uses(session, names)
        ]
        measurements = len(session.execute(select(MeasurementRow.run_id)).all())
        return Verified(len(cases), len(environments), measurements, tuple(problems))


def raise_for_problems(db: Database, found: Verified) -> None:
    """Raise `StoreError` if `verify` found something wrong."""
    if found.problems:
        count = len(found.problems)
        raise StoreError(
            f"{db.name} has {count} problem{'' if count == 1 else 's'}",
            hint="'zcdb db rebuild' puts right what is out of date; for the rest go back to a"
            " copy made by 'zcdb db backup'.",
        )


def _file_problems(session: Session) -> list[str]:
    if session.get_bind().dialect.name != "sqlite":
        return []  # the server keeps its references and its files sound itself
    problems = [
        f"the file is damaged: {row[0]}"
        for row in session.execute(text("PRAGMA integrity_check"))
        if row[0] != "ok"
    ]
    for table, row_id, parent, _ in session.execute(text("PRAGMA foreign_key_check")):
        problems.append(f"table {table}, row {row_id}: what it refers to in {parent} is missing")
    return problems


def _text_problems(session: Session) -> list[str]:
    """Return which stored texts are not what their hash says."""
    problems = []
    for row in session.scalars(select(TextRow).execution_options(yield_per=20)):
        try:
            text_bytes = zlib.decompress(row.bytes_zlib)
        except zlib.error:
            text_bytes = b""
        if hashlib.sha256(text_bytes).hexdigest() != row.sha256:
            problems.append(f"text {row.sha256}: it hashes to another id")
    return problems


def _case_problems(session: Session, case: CaseRow) -> list[str]:
    factors = json.loads(case.factors_json)
    name = f"case {case.public_id}"
    unknown = sorted(name for name in factors if name not in FACTORS)
    if unknown:
        return [f"{name}: this zcdb knows no factor {', '.join(unknown)}"]
    problems = []
    if case_id(factors) != case.public_id:
        problems.append(f"{name}: its factors hash to another id")
    facets, pairings = derived_rows(case.id, factors)
    for row_class, expected in ((CaseFactorRow, facets), (PairingRow, pairings)):
        stored = session.execute(
            select(row_class.__table__).where(row_class.case_id == case.id)
        ).mappings()
        if not _same_rows([dict(row) for row in stored], expected):
            problems.append(f"{name}: table {row_class.__tablename__} is out of date")
    problems += [f"{name}: {what} is out of date" for what in outdated(session, case.id)]
    return problems


def _same_rows(stored: list[dict[str, object]], expected: list[dict[str, object]]) -> bool:
    def by_factor(rows: list[dict[str, object]]) -> list[dict[str, object]]:
        return sorted(rows, key=lambda row: str(row["factor"]))

    return by_factor(stored) == by_factor(expected)


def rebuild(db: Database) -> int:
    """Compute everything that is derived anew, a case at a time; returns how many cases.

    Each case has a transaction of its own, so that a run that records meanwhile
    waits for milliseconds and not for the whole rebuild.
    """
    with db.reading() as session:
        keys = session.scalars(select(CaseRow.id).order_by(CaseRow.id)).all()
        runs = session.scalars(select(RunRow.id).order_by(RunRow.id)).all()
    for key in keys:
        with db.writing() as session:
            _rebuild_case(session, key)
    for some in batched(runs):
        with db.writing() as session:
            refresh_uses(session, some)
    return len(keys)


def _rebuild_case(session: Session, key: int) -> None:
    case = session.get_one(CaseRow, key, with_for_update=True)
    rebuild_derived(session, [case])
    refresh_measurements(session, case.id)
    refresh_summaries(session, case.id)


def backup(db: Database, target: Path) -> None:
    """Copy an SQLite database to a new file, also while others write into it.

    Raises:
        UsageError: if the database is on a server, or `target` exists.
        StoreError: if the copy cannot be written.
    """
    if db.engine.dialect.name != "sqlite":
        raise UsageError(
            f"{db.name} is on a server, which zcdb cannot copy to a file",
            hint="Use pg_dump.",
        )
    if target.exists():
        raise UsageError(f"{target} exists already", hint="Name a file that does not.")
    try:
        with closing(sqlite3.connect(db.name)) as source, closing(sqlite3.connect(target)) as copy:
            source.backup(copy)
    except sqlite3.Error as error:
        raise StoreError(f"{db.name} could not be copied to {target}: {error}") from error
