"""How far the hosts' monotonic clocks are apart, by ping-pong over the agents' pipes.

The agent's answer was written somewhere between asking and hearing: of several
exchanges the shortest one says it best, and half of it is the doubt that stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from zcdb.agent.client import AgentClient
from zcdb.host import facts

EXCHANGES = 8
TOLERATED_SHARE = 0.01
"""Windows that lie further apart than this share of their length are flagged."""


@dataclass(frozen=True, slots=True)
class Offset:
    """An agent's clock minus this process's, with the doubt about it."""

    offset_ns: int
    uncertainty_ns: int


@dataclass(frozen=True, slots=True)
class Alignment:
    """How the windows of two hosts lie to each other.

    Attributes:
        offset_ns: the receiver's clock minus the sender's.
        uncertainty_ns: how wrong that may be.
        late_ns: how much later the receiver's window began than the sender's.
    """

    offset_ns: int
    uncertainty_ns: int
    late_ns: int

    def is_off(self, window_ns: int) -> bool:
        """Return whether the windows may be apart by more than is tolerated."""
        return abs(self.late_ns) + self.uncertainty_ns > TOLERATED_SHARE * window_ns


def offset_of(agent: AgentClient, clock: Callable[[], int] = time.monotonic_ns) -> Offset:
    """Return how far an agent's clock is from this process's; none on the same host."""
    if agent.hello["boot_id"] == facts.boot_id():
        return Offset(0, 0)
    best: Offset | None = None
    for _ in range(EXCHANGES):
        asked_ns = clock()
        there_ns = int(agent.request("clock"))
        heard_ns = clock()
        found = Offset(there_ns - (asked_ns + heard_ns) // 2, (heard_ns - asked_ns + 1) // 2)
        if best is None or found.uncertainty_ns < best.uncertainty_ns:
            best = found
    assert best is not None  # noqa: S101
    return best


def alignment(
    sender: Offset, receiver: Offset, sender_start_ns: int, receiver_start_ns: int
) -> Alignment:
    """Return how two windows lie, given when each began by the clock of its own host."""
    offset_ns = receiver.offset_ns - sender.offset_ns
    return Alignment(
        offset_ns,
        sender.uncertainty_ns + receiver.uncertainty_ns,
        receiver_start_ns - sender_start_ns - offset_ns,
    )
