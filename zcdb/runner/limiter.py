"""What limited a trial: the one signal that held for most of the window, and the rule that says so.

Pure.  A limiter is named when its signal holds for at least 80 % of the window.
Several may: a receiver that cannot keep up closes its window, so the window's
signal holds as well.  Therefore causes come before what follows from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from zcdb import units
from zcdb.ids import Json

Name = Literal[
    "link rate",
    "memory",
    "receiver CPU",
    "sender CPU",
    "receive window",
    "send buffer",
    "not identified",
]

HOLDS_FROM = 0.8
"""The share of the window from which on a signal names the limiter."""

LINK_FULL_FROM = 0.9
"""A sample counts as full from this share of the link's rate on: headers take the rest."""


@dataclass(frozen=True, slots=True)
class Signals:
    """For which share of the window each possible limiter was at work; None if not measured.

    Attributes:
        link_share: share of the window in which the link carried its rate.
        link_rate_bps: that rate.
        sender_cpu_share, receiver_cpu_share: how busy the end's busiest CPU was.
        rwnd_share, sndbuf_share: TCP waited for the receiver's window, for its send buffer.
        memory_share: TCP was short of memory (its memory pressure).
        memory_read_share: of the memory bandwidth that copying took to read its source.
    """

    link_share: float | None = None
    link_rate_bps: int | None = None
    sender_cpu_share: float | None = None
    receiver_cpu_share: float | None = None
    rwnd_share: float | None = None
    sndbuf_share: float | None = None
    memory_share: float | None = None
    memory_read_share: float | None = None


@dataclass(frozen=True, slots=True)
class Limiter:
    """What limited a trial.

    Attributes:
        rule: the rule that fired, with its figures; for "not identified" the highest signals.
    """

    name: Name
    rule: str
    signals: Signals

    def to_json(self) -> dict[str, Json]:
        """Return the form in which a trial's counts hold it."""
        return {"name": self.name, "rule": self.rule, "signals": asdict(self.signals)}


def identify(signals: Signals) -> Limiter:
    """Return the limiter of a trial."""
    for name, share, rule in _candidates(signals):
        if share is not None and share >= HOLDS_FROM:
            return Limiter(name, rule(share), signals)
    return Limiter("not identified", _highest(signals), signals)


Candidate = tuple[Name, float | None, Callable[[float], str]]


def _candidates(signals: Signals) -> Sequence[Candidate]:
    """Return all possible limiters, a cause before what follows from it."""
    cpus: list[Candidate] = [
        ("receiver CPU", signals.receiver_cpu_share, _cpu_rule("receiver")),
        ("sender CPU", signals.sender_cpu_share, _cpu_rule("sender")),
    ]
    # Of two busy ends the busier one decides.
    cpus.sort(key=lambda candidate: candidate[1] or 0.0, reverse=True)
    return [
        ("link rate", signals.link_share, lambda share: _link_rule(share, signals.link_rate_bps)),
        ("memory", signals.memory_share, _memory_rule),
        ("memory", signals.memory_read_share, _memory_read_rule),
        *cpus,
        ("receive window", signals.rwnd_share, _rwnd_rule),
        ("send buffer", signals.sndbuf_share, _sndbuf_rule),
    ]


def _link_rule(share: float, rate_bps: int | None) -> str:
    rate = units.format_bps(rate_bps) if rate_bps else "its rate"
    return (
        f"for {_percent(share)} of the window the link carried at least"
        f" {_percent(LINK_FULL_FROM)} of {rate}"
    )


def _cpu_rule(end: str) -> Callable[[float], str]:
    return lambda share: f"the {end}'s busiest CPU was busy for {_percent(share)} of the window"


def _memory_rule(share: float) -> str:
    return f"TCP was under memory pressure for {_percent(share)} of the window"


def _memory_read_rule(share: float) -> str:
    return (
        f"reading what was copied took {_percent(share)} of the memory bandwidth that the"
        " sender's CPUs have"
    )


def _rwnd_rule(share: float) -> str:
    return f"TCP waited for the receiver's window for {_percent(share)} of the window"


def _sndbuf_rule(share: float) -> str:
    return f"TCP waited for its send buffer for {_percent(share)} of the window"


def _highest(signals: Signals) -> str:
    known = [(share, name) for name, share, _ in _candidates(signals) if share is not None]
    if not known:
        return "nothing that could limit was measured"
    share, name = max(known)
    return (
        f"no signal held for {_percent(HOLDS_FROM)} of the window;"
        f" the highest: {name}, {_percent(share)}"
    )


def _percent(share: float) -> str:
    return units.format_ratio(share, 2 if share < 0.995 else 3)


def link_share(
    rates_bps: Sequence[float], lengths_ns: Sequence[int], link_rate_bps: int | None
) -> float | None:
    """Return for which share of some samples the link was full; None if its rate is not known."""
    total_ns = sum(lengths_ns)
    if not link_rate_bps or total_ns <= 0:
        return None
    full_ns = sum(
        length_ns
        for rate_bps, length_ns in zip(rates_bps, lengths_ns, strict=True)
        if rate_bps >= LINK_FULL_FROM * link_rate_bps
    )
    return full_ns / total_ns
