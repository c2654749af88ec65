"""What all queries share: errors for what is not there (any more), and limits of lists."""

from __future__ import annotations

import gc
import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import ColumnElement, Integer, any_, func, literal, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from zcdb.errors import StoreError
from zcdb.store.results import Erratum

RUNS_SHOWN = 50
"""Runs on a page that lists them beside something else."""


@contextmanager
def collecting_later() -> Iterator[None]:
    """Put off the search for cyclic garbage while very many rows are read.

    Each new row makes Python look sooner through all objects there are; rows have no cycles, and
    the looking takes as long as the reading.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class NotFound(StoreError):
    """There is no such thing in this database.

    Attributes:
        kind: "run", "case", "trial", "environment" or "experiment".
        wanted: the id or name that was looked for.
    """

    def __init__(self, kind: str, wanted: str, database: str) -> None:
        super().__init__(
            f"there is no {kind} {wanted} in {database}",
            hint="'zcdb list' names what is there.",
        )
        self.kind = kind
        self.wanted = wanted


class Retracted(StoreError):
    """It was taken back: who asks for it learns why, since when, and what stands in its place.

    Attributes:
        kind: "run", "trial", "source", "entry" or "report".
    """

    def __init__(self, kind: str, wanted: str, erratum: Erratum) -> None:
        when = f"{erratum.at:%Y-%m-%d}"
        super().__init__(
            f"{kind} {wanted} was retracted on {when} by {erratum.by}: {erratum.reason}",
            hint=f"{erratum.successor} stands in its place." if erratum.successor else None,
        )
        self.kind = kind
        self.wanted = wanted
        self.erratum = erratum


def among(session: Session, column: Any, keys: Collection[int]) -> ColumnElement[bool]:
    """Return the condition that a column has one of many keys, as a single parameter.

    SQLAlchemy makes a parameter of each value of a list, which takes longer than reading the rows
    from a few thousand on.
    """
    if session.get_bind().dialect.name == "sqlite":
        listed = func.json_each(json.dumps(list(keys))).table_valued("value")
        chosen: ColumnElement[bool] = column.in_(select(listed.c.value))
        return chosen
    found: ColumnElement[bool] = column == any_(literal(list(keys), ARRAY(Integer)))
    return found
