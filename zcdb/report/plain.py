"""Frozen results as plain JSON values, for `--json` and the JSON twins of pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any


def plain(value: Any) -> Any:
    """Return dataclasses and mappings as dicts, sequences and sets as lists, times as ISO 8601.

    A (metric, method) key becomes "metric/method", or "metric" where there is no method.
    """
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return [plain(item) for item in sorted(value)]
    if isinstance(value, datetime):
        return value.isoformat()
    return value


def _key(key: object) -> str:
    return "/".join(str(part) for part in key if part) if isinstance(key, tuple) else str(key)
