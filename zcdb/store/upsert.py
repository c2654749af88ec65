"""INSERT ... ON CONFLICT for both databases.

The statements are made once: making one takes longer than executing it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import DeclarativeBase, Session

Rows = Sequence[Mapping[str, Any]]
T = TypeVar("T")

_BATCH = 500
"""Values in one IN (...): well below what either database takes."""


def batched(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Give the values in pieces that fit into one IN (...)."""
    for start in range(0, len(values), _BATCH):
        yield values[start : start + _BATCH]


@cache
def _insert_new(dialect: str, row_class: type[DeclarativeBase]) -> sqlite.Insert:
    return _insert(dialect, row_class).on_conflict_do_nothing()


@cache
def _upsert(
    dialect: str, row_class: type[DeclarativeBase], names: tuple[str, ...]
) -> sqlite.Insert:
    insert = _insert(dialect, row_class)
    keys = [column.name for column in cast(Table, row_class.__table__).primary_key]
    replaced = {name: insert.excluded[name] for name in names if name not in keys}
    return insert.on_conflict_do_update(index_elements=keys, set_=replaced)


def _insert(dialect: str, row_class: type[DeclarativeBase]) -> sqlite.Insert:
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    # The two Insert classes share no base that has the ON CONFLICT methods.
    return cast(sqlite.Insert, insert(cast(Table, row_class.__table__)))


def _dialect(db: Session | Connection) -> str:
    return (db.get_bind() if isinstance(db, Session) else db).dialect.name


def insert_new(db: Session | Connection, row_class: type[DeclarativeBase], rows: Rows) -> None:
    """Insert the rows that are not there yet; a row with a taken key is left as it is."""
    if rows:
        db.execute(_insert_new(_dialect(db), row_class), rows)


def upsert(db: Session | Connection, row_class: type[DeclarativeBase], rows: Rows) -> None:
    """Insert rows, replacing the other columns where the primary key is there already."""
    if rows:
        db.execute(_upsert(_dialect(db), row_class, tuple(rows[0])), rows)
