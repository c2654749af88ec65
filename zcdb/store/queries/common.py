"""What all queries share: errors for what is not there (any more), and limits of lists."""

from __future__ import annotations

from zcdb.errors import StoreError
from zcdb.store.results import Erratum

RUNS_SHOWN = 50
"""Runs on a page that lists them beside something else."""


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
