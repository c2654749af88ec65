"""Flags of a whole run, made from its readings: what to know of the time between start and end.

They are derived each time and stored nowhere, since the readings are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from zcdb.flags import sentence
from zcdb.ids import Json
from zcdb.records import Flag

SHOWN = 8
"""Differences that a flag quotes; the readings have all of them."""


def run_flags(readings: Sequence[Mapping[str, Json]]) -> tuple[Flag, ...]:
    """Return the flags of a run.

    Args:
        readings: what the run read of its machines, once for each time it was worked on.
    """
    flags = []
    for code, key in (
        ("environment-changed", "environment_changed"),
        ("settings-not-restored", "settings_not_restored"),
    ):
        if found := _sentences(readings, key):
            flags.append(Flag(code, _quoted(found)))
    reasons = [str(part["final_readings_reason"]) for part in _with(readings)]
    if reasons:
        flags.append(Flag("environment-unchecked", _quoted(list(dict.fromkeys(reasons)))))
    return tuple(flags)


def flag_text(flag: Flag) -> str:
    """Return a flag as a remark: code, what it says, the figures that raised it."""
    said = f"{flag.code}: {sentence(flag.code)}"
    return f"{said} {flag.detail}." if flag.detail else said


def _with(readings: Iterable[Mapping[str, Json]]) -> list[Mapping[str, Json]]:
    return [part for part in readings if part.get("final_readings_reason")]


def _sentences(readings: Iterable[Mapping[str, Json]], key: str) -> list[str]:
    """Return what all readings say under a key, each sentence once, in their order."""
    told = [cast(Sequence[str], part.get(key) or ()) for part in readings]
    return list(dict.fromkeys(text for sentences in told for text in sentences))


def _quoted(sentences: Sequence[str]) -> str:
    left = len(sentences) - SHOWN
    more = [f"and {left} more, see the run's readings"] if left > 0 else []
    return "; ".join([*sentences[:SHOWN], *more])
