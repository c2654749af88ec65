"""Canonical queries: the same state has one address, whatever order it was asked in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from zcdb.factors import FactorValue
from zcdb.store.cases import value_text


def filter_query(
    filters: Mapping[str, Sequence[FactorValue]], **others: str | int | float | None
) -> str:
    """Return "?api=write&m=throughput": filters by name and value, then the others as given.

    Nothing asked is "".  Others that are None or "" are left out.
    """
    parts = [
        (name, text)
        for name in sorted(filters)
        for text in sorted(value_text(value) for value in filters[name])
    ]
    parts += [(name, str(value)) for name, value in others.items() if value not in (None, "")]
    return f"?{urlencode(parts)}" if parts else ""
