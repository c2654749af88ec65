"""Content addresses: the same content has the same id on every machine, for ever."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

Json = str | int | float | bool | None | Sequence["Json"] | Mapping[str, "Json"]

ID_LENGTH = 32
"""Hex digits of an id: 128 bits of SHA-256."""


def canonical_json(value: Json) -> str:
    """Return the one spelling of `value`: keys sorted, no spaces, UTF-8 kept as it is.

    Raises:
        ValueError: for NaN and infinity, which JSON does not know.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def content_id(kind: str, value: Json) -> str:
    """Return the id of `value` among things of this `kind`, as 32 hex digits."""
    digest = hashlib.sha256(f"{kind}\n{canonical_json(value)}".encode())
    return digest.hexdigest()[:ID_LENGTH]
