"""What every part of reading a bundle back checks, and how it finds what is stored already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from zcdb.errors import StoreError
from zcdb.flags import FLAGS
from zcdb.store.upsert import batched

Line = dict[str, Any]
"""One line of a bundle, parsed."""


class Conflict(StoreError):
    """A bundle says otherwise than the database about something with the same id."""

    def __init__(self, what: str, differs: Iterable[str] = ()) -> None:
        named = ", ".join(sorted(differs))
        super().__init__(
            f"{what} is in the database with other content{f' ({named})' if named else ''}",
            hint="Nothing was imported; 'zcdb show ID' shows what is stored.",
        )


def moment(text: str | None) -> datetime | None:
    """Return a moment that a bundle wrote."""
    return None if text is None else datetime.fromisoformat(text)


def check_id(kind: str, said: str, computed: str) -> None:
    """Raise `StoreError` if an id is not the hash of what it names."""
    if said != computed:
        raise StoreError(f"{kind} {said} is not what its id says: its content was changed")


def keys_of(session: Session, row_class: Any, ids: Iterable[str]) -> dict[str, int]:
    """Return public id -> key of the rows that are there."""
    found: dict[str, int] = {}
    for some in batched(sorted(set(ids))):
        chosen = select(row_class.public_id, row_class.id).where(row_class.public_id.in_(some))
        found |= {row.public_id: row.id for row in session.execute(chosen)}
    return found


def check_flags(what: str, flags: Sequence[Any]) -> None:
    """Raise `StoreError` for a flag that this zcdb cannot explain."""
    for code, _ in flags:
        if code not in FLAGS:
            raise StoreError(
                f"{what} has the flag {code!r}, which this zcdb does not know",
                hint="Upgrade zcdb.",
            )


def flag_rows(owner: str, lines: Iterable[Line], keys: dict[str, int]) -> Iterator[Line]:
    """Yield a row for each flag of some lines; `owner` is the column of their keys."""
    for line in lines:
        for position, (code, detail) in enumerate(line["flags"]):
            yield {owner: keys[line["id"]], "position": position, "code": code, "detail": detail}
