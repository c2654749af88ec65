"""How single values of an experiment file are read; each refuses what it cannot mean.

Values of factors are not here: the registry of factors knows how they are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from pydantic import BeforeValidator, WithJsonSchema

from zcdb import units
from zcdb.experiment.words import did_you_mean
from zcdb.factors import normalise
from zcdb.metrics import METRICS

DURATION_SCHEMA = WithJsonSchema(
    {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?\s*(ns|us|µs|ms|s|m|min|h)$"}
)
RATIO_SCHEMA = WithJsonSchema({"type": ["string", "number"]})
METRIC_SCHEMA = WithJsonSchema({"enum": sorted(METRICS)})


def text(value: object) -> str:
    """Read a text that says something."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text; put it in quotes")
    if not value.strip():
        raise ValueError("must not be empty")
    return value.strip()


def name(value: object) -> str:
    """Read the name of an experiment, which becomes part of an address."""
    name = text(value)
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,79}", name):
        raise ValueError(
            f"{value!r} is not a name; write lower-case letters, digits, '-', '_' or '.',"
            " at most 80, for it becomes part of an address"
        )
    return name


def whole(minimum: int, maximum: int) -> BeforeValidator:
    """Return what reads a whole number within limits, both included."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{value!r} is not a whole number")
        if not minimum <= value <= maximum:
            raise ValueError(f"{value!r} must be at least {minimum} and at most {maximum}")
        return value

    return BeforeValidator(read)


def duration(shortest: str, longest: str = "24h") -> BeforeValidator:
    """Return what reads a duration within limits, both included, as nanoseconds."""

    def read(value: object) -> int:
        if not isinstance(value, str):
            raise ValueError(f"{value!r} is not a duration; write a number with ms, s, m or h")
        duration_ns = units.parse_duration(value)
        if not units.parse_duration(shortest) <= duration_ns <= units.parse_duration(longest):
            raise ValueError(f"{value!r} must be at least {shortest} and at most {longest}")
        return duration_ns

    return BeforeValidator(read)


def rate(value: object) -> int:
    """Read the rate of a link in bit/s."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{value!r} is not a rate; write it as '1gbit'")
    known = normalise("link_rate", value)
    assert isinstance(known, int)  # noqa: S101
    return known


def port_range(value: object) -> str:
    """Read a range of ports."""
    match = re.fullmatch(r"([0-9]{1,5})-([0-9]{1,5})", value) if isinstance(value, str) else None
    if match is None or not 1 <= int(match[1]) <= int(match[2]) <= 65535:
        raise ValueError(f"{value!r} is not a range of ports; write it as '5300-5399'")
    return f"{int(match[1])}-{int(match[2])}"


def ssh_name(value: object) -> str:
    """Read the name of a machine; nothing that ssh could take for an option."""
    name = text(value)
    if name.startswith("-") or not re.fullmatch(r"[A-Za-z0-9_.@:%-]+", name):
        raise ValueError(f"{value!r} is not a name of a machine as ssh knows it")
    return name


def ratio(value: object) -> float:
    """Read a ratio between 0 and 1, both excluded."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is not a ratio; write 0.02 or '2%'")
    known = units.parse_ratio(value)
    if not 0 < known < 1:
        raise ValueError(f"{value!r} must be above 0 and below 1 (100 %)")
    return known


def metric(value: object) -> str:
    """Read the name of a metric of which more or less is better."""
    if not isinstance(value, str) or value not in METRICS:
        raise ValueError(f"unknown metric {value!r}" + did_you_mean(str(value), METRICS))
    if METRICS[value].better == "neither":
        raise ValueError(f"{value!r} cannot be compared: neither more nor less of it is better")
    return value


def one_of(known: Sequence[str]) -> Callable[[object], str]:
    """Return what reads one of some names."""

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in known:
            raise ValueError(f"{value!r} is not one of them" + did_you_mean(str(value), known))
        return value

    return read


def twins(value: object) -> int:
    """Read how many cases get a twin: true is one, false is none."""
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, int) or not 0 <= value <= 1000:
        raise ValueError(f"{value!r} is not true, false or a number of cases up to 1000")
    return value
