"""One window read by all agents of a link at the same time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from zcdb.agent.client import AgentClient
from zcdb.engine.window import Edge
from zcdb.factors import Factors
from zcdb.records import End
from zcdb.runner.clocks import Alignment, Offset, alignment, offset_of
from zcdb.runner.hosts import Host

WINDOW_SLACK_S = 20.0
START_AHEAD_NS = 20_000_000
"""Several agents begin a window at one stated time, this far ahead."""


@dataclass(frozen=True, slots=True)
class Window:
    """What was read.

    Attributes:
        edges: of each end; an end without an agent of its own shares the other's.
        alignment: how the ends' windows lie; None where one clock times both.
    """

    edges: Mapping[End, tuple[Edge, ...]]
    alignment: Alignment | None


def agents_of(hosts: Mapping[End, Host]) -> list[AgentClient]:
    """Return the agents of both ends, each once."""
    return list({id(host.agent): host.agent for host in hosts.values()}.values())


def host_readers(hosts: Mapping[End, Host]) -> list[AgentClient]:
    """Return one agent a host: the first end's.  It reads the host and holds its soakers."""
    readers: dict[str, AgentClient] = {}
    for host in hosts.values():
        readers.setdefault(host.boot_id, host.agent)
    return list(readers.values())


def read_window(
    hosts: Mapping[End, Host],
    duration_ns: int,
    sample_ns: int,
    *,
    is_soaked: bool = True,
    discard_ns: int = 0,
    factors: Factors | None = None,
) -> Window:
    """Read one window at both ends.

    Args:
        discard_ns: the part of `duration_ns` that is ramp.
        factors: of the case whose interfaces are counted; None counts none.

    Raises:
        ZcdbError: if an agent fails or does not answer.
    """
    readers, agents = host_readers(hosts), agents_of(hosts)
    offsets: dict[int, Offset] = {}
    start_ns = None
    if len(agents) > 1:
        offsets = {id(agent): offset_of(agent) for agent in agents}
        doubt_ns = max(offset.uncertainty_ns for offset in offsets.values())
        start_ns = time.monotonic_ns() + START_AHEAD_NS + 2 * doubt_ns
    interfaces = {
        id(host.agent): list(host.interfaces_of(factors)) if factors is not None else []
        for host in hosts.values()
    }
    numbers = [
        agent.begin(
            "window",
            duration_ns=duration_ns,
            sample_ns=sample_ns,
            # The last CPU, in brackets and windows alike, so that its cost cancels out.
            sampler_cpu=max(cpu for core in agent.hello["cores"] for cpu in core),
            is_host_read=agent in readers,
            is_soaked=is_soaked,
            start_at_ns=None if start_ns is None else start_ns + offsets[id(agent)].offset_ns,
            discard_ns=discard_ns,
            interfaces=interfaces[id(agent)],
        )
        for agent in agents
    ]
    read: dict[int, tuple[Edge, ...]] = {}
    for agent, number in zip(agents, numbers, strict=True):
        answer = agent.finish(number, duration_ns / 10**9 + WINDOW_SLACK_S)
        read[id(agent)] = tuple(Edge.from_json(edge) for edge in answer["edges"])
    edges = {end: read[id(host.agent)] for end, host in hosts.items()}
    return Window(edges, _alignment(hosts, offsets, edges) if len(readers) > 1 else None)


def _alignment(
    hosts: Mapping[End, Host],
    offsets: Mapping[int, Offset],
    edges: Mapping[End, tuple[Edge, ...]],
) -> Alignment:
    sender, receiver = hosts["sender"].agent, hosts["receiver"].agent
    return alignment(
        offsets[id(sender)],
        offsets[id(receiver)],
        edges["sender"][0].at_ns,
        edges["receiver"][0].at_ns,
    )
