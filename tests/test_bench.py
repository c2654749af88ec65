"""The real bench with agents that misbehave: what becomes of the link, the lock and the trial."""

from __future__ import annotations

from typing import ClassVar

import pytest
from runner_support import TIMING, MemoryRecorder, SilentProgress, make_execution

from zcdb.errors import AgentError, HostError, LinkError
from zcdb.experiment.form import Link
from zcdb.runner import hosts
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
        self.host = ""
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
    monkeypatch.setattr(hosts, "AgentClient", FakeAgent)
    return FakeAgent.script


def make_bench(link="veth", **options):
    form = Link.model_validate({"kind": link})
    return LinkBench(form, [{"api": "write"}], lambda text: None, holder="test", **options)


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
    monkeypatch.setattr(hosts, "LOCK_POLL_S", 0.0)
    answers = iter([{"taken": False, "holder": "other"}] * 3 + [{"taken": True}])
    agents["lock"] = lambda arguments: next(answers)
    told = []
    form = Link.model_validate({"kind": "loopback"})
    bench = LinkBench(form, [{"api": "write"}], told.append, holder="me", is_waiting=True)

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


HOSTS = {
    "kind": "hosts",
    "sender": {"ssh": "left", "interface": "lan0"},
    "receiver": {"ssh": "right", "interface": "lan1", "address": "fd00::2"},
    "ports": "5300-5301",
}


@pytest.fixture
def two_machines(agents, monkeypatch):
    """Two machines behind ssh, "left" and "right", each with a boot of its own."""
    card = {"driver": "ixgbe", "model": "82599ES", "mtu": 1500, "link_speed_bps": 10**10}
    agents["facts"] = {"facts": {**FACTS, "interface": card}, "readings": {}}
    agents["addresses"] = lambda arguments: {"inet": ["10.0.0.1"], "inet6": ["fd00::2"]}

    def start_ssh(ssh, name):
        agent = FakeAgent(name)
        agent.hello["boot_id"] = agent.host = ssh
        return agent

    monkeypatch.setattr(FakeAgent, "start_ssh", start_ssh, raising=False)
    form = Link.model_validate(HOSTS)
    return LinkBench(form, [{"api": "write", "link": "hosts"}], lambda text: None, holder="test")


def test_each_machine_behind_ssh_is_locked_cleaned_up_and_soaked(two_machines):
    two_machines.open()

    assert [agent.name for agent in FakeAgent.started] == [
        "the sender's agent on left",
        "the receiver's agent on right",
    ]
    for agent in FakeAgent.started:
        asked = [op for op in agent.asked if op in ("lock", "undo_leftovers", "start_soak")]
        assert asked == ["lock", "undo_leftovers", "start_soak"]


def test_a_lock_that_is_taken_elsewhere_names_the_machine(two_machines, agents):
    agents["lock"] = {"taken": False, "holder": "zcdb run other, process 7"}

    with pytest.raises(HostError, match="another run measures on left: zcdb run other"):
        two_machines.open()


def test_the_context_of_a_hosts_link_names_its_cards(two_machines):
    two_machines.open()

    context = two_machines.context()

    assert context["sender_nic"] == "82599ES"
    assert context["receiver_driver"] == "ixgbe"
    assert context["sender_link_speed"] == "10000000000"


def test_a_stated_address_decides_the_family_that_an_end_has(two_machines):
    two_machines.open()

    case = {"api": "write", "link": "hosts"}

    assert two_machines.unsupported({**case, "address_family": "inet6"}) is None
    assert two_machines.unsupported({**case, "interfaces": 2}) == (
        "interfaces = 2: a hosts link has 1"
    )


def test_a_host_that_came_back_with_another_kernel_does_not_go_on_with_the_run(
    two_machines, agents
):
    two_machines.open()
    agents["kill"] = AgentError("the agent ended")
    agents["facts"] = {"facts": {**FACTS, "kernel": {"release": "0.1-fake"}}, "readings": {}}

    with pytest.raises(HostError, match="the sender's host came back changed") as caught:
        two_machines.recover()

    assert "--resume" in caught.value.hint


def test_what_changed_between_start_and_end_is_said_of_each_host(two_machines, agents):
    two_machines.open()
    agents["facts"] = {"facts": {**FACTS, "clock_source": "hpet"}, "readings": {}}

    changed = two_machines.final_readings()["environment_changed"]

    assert any("clock_source was tsc before and is hpet after" in text for text in changed)
    assert {text.partition(":")[0] for text in changed} == {"sender", "receiver"}


def test_an_agent_that_is_gone_at_the_end_leaves_that_open(two_machines, agents):
    two_machines.open()
    agents["facts"] = AgentError("the agent ended")

    told = two_machines.final_readings()

    assert told["environment_changed"] is None
    assert told["final_readings_reason"] == "the agent ended"


def test_leftovers_of_killed_runs_are_undone_first_and_told(agents):
    agents["undo_leftovers"] = ["mtu of eth1: 1500 again"]
    told = []
    form = Link.model_validate({"kind": "veth"})
    bench = LinkBench(form, [{"api": "write"}], told.append, holder="test")

    bench.open()

    assert "note: mtu of eth1: 1500 again" in told
    asked = FakeAgent.started[0].asked
    assert asked.index("undo_leftovers") < asked.index("enter_namespace")


def test_a_loopback_run_with_settings_gets_a_namespace_of_its_own_and_others_none(agents):
    form = Link.model_validate({"kind": "loopback"})
    for case in ({"api": "write"}, {"api": "write", "mtu": 1500}):
        LinkBench(form, [case], lambda text: None, holder="test").open()

    plain, isolated = FakeAgent.started
    assert "enter_namespace" not in plain.asked
    assert "enter_namespace" in isolated.asked


def test_several_interfaces_are_several_pairs_with_networks_of_their_own(agents):
    agents["has_ipv6"] = True
    made = []
    agents["make_veth"] = lambda arguments: made.append(arguments) or {}
    form = Link.model_validate({"kind": "veth", "interfaces": 2})

    LinkBench(form, [{"api": "write", "interfaces": 2}], lambda text: None, holder="test").open()

    assert [one["name"] for one in made] == ["zcdb-tx", "zcdb-tx1"]
    assert made[1]["addresses"] == ["10.77.1.1/24", "fd77:0:0:1::1/64"]
    assert made[1]["peer_addresses"] == ["10.77.1.2/24", "fd77:0:0:1::2/64"]


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
    assert FakeAgent.started[1].asked[:2] == ["lock", "undo_leftovers"]


def test_what_could_not_be_measured_once_per_run_is_said_and_the_run_goes_on(agents):
    agents["start_receiver"] = AgentError("the agent did not answer")
    bench = make_bench("loopback")
    bench.open()

    readings = bench.readings([{"api": "write"}], TIMING)

    assert "did not answer" in readings["soaker_effect"]["reason"]
