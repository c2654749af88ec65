"""The real bench with agents that misbehave: what becomes of the link, the lock and the trial."""

from __future__ import annotations

from typing import ClassVar

import pytest
from runner_support import TIMING, MemoryRecorder, SilentProgress, make_execution

from zcdb.errors import AgentError, HostError, LinkError
from zcdb.runner import bench as bench_module
from zcdb.runner.bench import LinkBench
from zcdb.runner.execute import execute

FACTS = {
    "kernel": {"release": "0.0-fake"},
    "cpu": {"model": "fake"},
    "clock_source": "tsc",
    "sysctls": {},
}


class FakeAgent:
    """An agent that answers what a script says; everything it is asked is kept."""

    script: ClassVar[dict] = {}
    started: ClassVar[list] = []

    def __init__(self, name):
        self.name = name
        self.asked = []
        self.is_closed = False
        self.hello = {"pid": 4000 + len(self.started), "boot_id": "b", "cores": [[0], [1]]}
        self.started.append(self)

    @classmethod
    def start_local(cls, name):
        return cls(name)

    def request(self, op, timeout_s=20.0, **arguments):
        self.asked.append(op)
        answer = self.script.get(op, {})
        if isinstance(answer, Exception):
            raise answer
        return answer(arguments) if callable(answer) else answer

    def close(self):
        self.is_closed = True


@pytest.fixture
def agents(monkeypatch):
    """Give LinkBench fake agents; the fixture is the dictionary of their answers."""
    FakeAgent.started = []
    FakeAgent.script = {
        "lock": {"taken": True},
        "facts": {"facts": FACTS, "readings": {}},
        "start_soak": {"cgroup_paths": {}, "is_isolated": False, "foreign_not_measured": None},
        "unsupported": lambda arguments: None,
    }
    monkeypatch.setattr(bench_module, "AgentClient", FakeAgent)
    return FakeAgent.script


def make_bench(link="veth", **options):
    return LinkBench(link, [{"api": "write"}], lambda text: None, holder="test", **options)


def test_a_link_that_cannot_be_made_makes_the_cases_unsupported_with_the_reason(agents):
    agents["enter_namespace"] = LinkError("this user may not make a network namespace here")
    recorder = MemoryRecorder()

    result = execute(make_execution(), make_bench(), recorder, SilentProgress())

    assert dict(result.counts) == {"unsupported": 6}
    assert {end.reason for end in recorder.ends.values()} == {
        "this user may not make a network namespace here"
    }
    assert all(agent.is_closed for agent in FakeAgent.started)


def test_a_lock_that_is_taken_is_refused_and_the_agent_ends(agents):
    agents["lock"] = {"taken": False, "holder": "zcdb run other, process 7"}

    with pytest.raises(HostError, match="zcdb run other, process 7"):
        execute(make_execution(), make_bench(), MemoryRecorder(), SilentProgress())

    assert all(agent.is_closed for agent in FakeAgent.started)


def test_waiting_asks_again_until_the_lock_is_free(agents, monkeypatch):
    monkeypatch.setattr(bench_module, "LOCK_POLL_S", 0.0)
    answers = iter([{"taken": False, "holder": "other"}] * 3 + [{"taken": True}])
    agents["lock"] = lambda arguments: next(answers)
    told = []
    bench = LinkBench("loopback", [{"api": "write"}], told.append, holder="me", is_waiting=True)

    bench.open()
    bench.close()

    assert told == ["waiting for another run on this machine: other"]


def test_too_little_memory_stops_before_anything_is_measured(agents):
    agents["facts"] = {"facts": FACTS, "readings": {"available_memory_bytes": 1 << 20}}

    with pytest.raises(HostError, match="memory is free"):
        make_bench("loopback").open()


def test_the_context_of_a_case_names_kernel_cpu_and_nic_of_both_ends(agents):
    bench = make_bench()
    bench.open()

    assert bench.context() == {
        "sender_kernel": "0.0-fake",
        "sender_cpu": "fake",
        "sender_nic": "veth",
        "sender_driver": "veth",
        "receiver_kernel": "0.0-fake",
        "receiver_cpu": "fake",
        "receiver_nic": "veth",
        "receiver_driver": "veth",
    }


def test_only_one_agent_of_a_host_holds_its_soakers(agents):
    bench = make_bench()
    bench.open()

    soaking = ["start_soak" in agent.asked for agent in FakeAgent.started]
    assert soaking == [True, False]


def test_recovering_from_a_dead_agent_starts_new_ones(agents):
    bench = make_bench("loopback")
    bench.open()
    agents["kill"] = AgentError("the agent ended")

    bench.recover()

    assert [agent.is_closed for agent in FakeAgent.started] == [True, False]
    assert FakeAgent.started[1].asked[:2] == ["lock", "facts"]


def test_what_could_not_be_measured_once_per_run_is_said_and_the_run_goes_on(agents):
    agents["start_receiver"] = AgentError("the agent did not answer")
    bench = make_bench("loopback")
    bench.open()

    readings = bench.readings([{"api": "write"}], TIMING)

    assert "did not answer" in readings["soaker_effect"]["reason"]
