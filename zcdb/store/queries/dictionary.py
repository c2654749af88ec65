"""The data dictionary: every table and column, from the models themselves."""

from __future__ import annotations

from dataclasses import dataclass

from zcdb.store.models import Base
from zcdb.store.session import SCHEMA_REVISION


@dataclass(frozen=True, slots=True)
class ColumnWords:
    """A column.

    Attributes:
        refers_to: "table.column" of the rows it leads to; "" for none.
    """

    name: str
    type: str
    is_key: bool
    may_be_null: bool
    refers_to: str


@dataclass(frozen=True, slots=True)
class TableWords:
    """A table with what a row of it is."""

    name: str
    about: str
    columns: tuple[ColumnWords, ...]


@dataclass(frozen=True, slots=True)
class Schema:
    """All tables; `revision` is the form that a database of today has."""

    revision: str
    tables: tuple[TableWords, ...]


def schema() -> Schema:
    """Return the tables, each after the ones it refers to; asks no database."""
    classes = {row.__tablename__: row for row in Base.__subclasses__()}
    return Schema(
        SCHEMA_REVISION,
        tuple(
            TableWords(
                table.name,
                " ".join((classes[table.name].__doc__ or "").split()),
                tuple(
                    ColumnWords(
                        column.name,
                        str(column.type).lower(),
                        column.primary_key,
                        bool(column.nullable),
                        ", ".join(sorted(key.target_fullname for key in column.foreign_keys)),
                    )
                    for column in table.columns
                ),
            )
            for table in Base.metadata.sorted_tables
        ),
    )
