"""The lines between a runner and an agent.

{"id": 7, "op": "start_receiver", "arguments": {...}}
{"id": 7, "result": {...}}
{"id": 7, "error": {"kind": "EngineError", "message": "...", "hint": null}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from zcdb import errors
from zcdb.ids import Json

PROTOCOL = 1
"""Raised when a line changes its meaning; both ends must agree."""

_KINDS = {
    kind.__name__: kind
    for kind in (
        errors.ZcdbError,
        errors.UsageError,
        errors.HostError,
        errors.EngineError,
        errors.LinkError,
        errors.AgentError,
    )
}


def encode(message: Mapping[str, Json]) -> bytes:
    """Return one line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Return the message of one line.

    Raises:
        AgentError: if it is not a JSON object.
    """
    try:
        message = json.loads(line)
    except ValueError:
        message = None
    if not isinstance(message, dict):
        raise errors.AgentError(
            f"the other end of the pipe wrote something that is no message: {line[:200]!r}",
            hint="a login script that prints, or another program called zcdb, can cause this",
        )
    return message


def error_to_json(error: errors.ZcdbError) -> dict[str, Json]:
    """Return an error as it crosses the pipe: by the nearest kind that both ends know."""
    kind = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _KINDS)
    return {"kind": kind, "message": error.message, "hint": error.hint}


def error_from_json(content: Mapping[str, Any]) -> errors.ZcdbError:
    """Return the error that crossed the pipe; an unknown kind is a plain `ZcdbError`."""
    kind = _KINDS.get(str(content.get("kind")), errors.ZcdbError)
    return kind(str(content.get("message", "unknown error")), hint=content.get("hint"))
