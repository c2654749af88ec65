"""Hosts whose clocks differ: how far, how sure, and whether two windows lie together."""

from __future__ import annotations

import pytest

from zcdb.engine.window import Edge
from zcdb.host import facts
from zcdb.records import Environment
from zcdb.runner import windows
from zcdb.runner.clocks import EXCHANGES, Alignment, Offset, alignment, offset_of
from zcdb.runner.hosts import Host


class Clock:
    """A clock that goes on by a step each time it is read."""

    def __init__(self, *steps_ns):
        self.now_ns = 0
        self.steps_ns = list(steps_ns)

    def __call__(self):
        self.now_ns += self.steps_ns.pop(0) if self.steps_ns else 0
        return self.now_ns


class Agent:
    """An agent whose clock is ahead of ours, at the end of a pipe."""

    def __init__(self, boot_id, ahead_ns=0):
        self.hello = {"boot_id": boot_id, "cores": [[0], [1]]}
        self.ahead_ns = ahead_ns
        self.clock = lambda: 0
        self.begun = []
        self.asked = 0

    def request(self, op, **arguments):
        assert op == "clock"
        self.asked += 1
        return self.clock() + self.ahead_ns

    def begin(self, op, **arguments):
        self.begun.append(arguments)
        return len(self.begun)

    def finish(self, number, timeout_s):
        start_ns = self.begun[number - 1]["start_at_ns"] or 0
        edges = [Edge(start_ns, 0), Edge(start_ns + 10**9, 0)]
        return {"edges": [edge.to_json() for edge in edges]}


def test_the_shortest_of_several_exchanges_tells_the_offset():
    agent = Agent("elsewhere", ahead_ns=5_000_000)
    # Each exchange reads our clock, theirs and ours again; the second one is the fastest.
    clock = Clock(0, 900, 100, 0, 20, 20, *[0, 700, 700] * (EXCHANGES - 2))
    agent.clock = clock

    found = offset_of(agent, clock)

    assert found == Offset(5_000_000, 20)
    assert agent.asked == EXCHANGES


def test_an_offset_is_never_wronger_than_the_doubt_that_is_stated():
    for before_ns, after_ns in ((0, 500), (250, 250), (500, 0)):
        agent = Agent("elsewhere", ahead_ns=1000)
        clock = Clock(*[0, before_ns, after_ns] * EXCHANGES)
        agent.clock = clock

        found = offset_of(agent, clock)

        assert abs(found.offset_ns - 1000) <= found.uncertainty_ns


def test_an_agent_on_this_host_has_this_clock():
    agent = Agent(facts.boot_id(), ahead_ns=77)

    assert offset_of(agent) == Offset(0, 0)
    assert agent.asked == 0


def test_how_late_a_window_began_is_told_by_the_clocks_of_both():
    found = alignment(Offset(1000, 10), Offset(-500, 20), 51_000, 49_700)

    assert found == Alignment(offset_ns=-1500, uncertainty_ns=30, late_ns=200)


@pytest.mark.parametrize(
    ("late_ns", "uncertainty_ns", "is_off"),
    [(0, 9_000_000, False), (5_000_000, 4_000_000, False), (-8_000_000, 3_000_000, True)],
)
def test_windows_more_than_a_hundredth_apart_are_off(late_ns, uncertainty_ns, is_off):
    assert Alignment(0, uncertainty_ns, late_ns).is_off(10**9) is is_off


def host(agent):
    return Host(agent, ("lan0",), {"inet": ("10.0.0.1",)}, Environment({}), {})


def test_agents_of_two_hosts_begin_at_one_moment_of_their_own_clocks(monkeypatch):
    sender, receiver = Agent("left"), Agent("right")
    offsets = {sender: Offset(10**12, 100), receiver: Offset(-(10**12), 300)}
    monkeypatch.setattr(windows, "offset_of", lambda agent: offsets[agent])

    window = windows.read_window({"sender": host(sender), "receiver": host(receiver)}, 10**9, 10**8)

    starts = [agent.begun[0]["start_at_ns"] for agent in (sender, receiver)]
    assert starts[0] - starts[1] == 2 * 10**12
    assert window.alignment == Alignment(-2 * 10**12, 400, 0)
    # Each host is read by its own agent.
    assert [agent.begun[0]["is_host_read"] for agent in (sender, receiver)] == [True, True]


def test_two_agents_of_one_host_need_no_alignment_and_one_reads_the_host(monkeypatch):
    here = facts.boot_id()
    sender, receiver = Agent(here), Agent(here)

    window = windows.read_window({"sender": host(sender), "receiver": host(receiver)}, 10**9, 10**8)

    assert window.alignment is None
    assert [agent.begun[0]["is_host_read"] for agent in (sender, receiver)] == [True, False]


def test_one_agent_for_both_ends_reads_one_window_at_once():
    agent = Agent("here")
    both = host(agent)

    window = windows.read_window({"sender": both, "receiver": both}, 10**9, 10**8)

    assert [begun["start_at_ns"] for begun in agent.begun] == [None]
    assert window.edges["sender"] is window.edges["receiver"]
