"""What all queries share: the error for what is not there, and limits of lists."""

from __future__ import annotations

from zcdb.errors import StoreError

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
