"""A real agent on this machine, asked through its pipe."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from zcdb.agent.client import AgentClient
from zcdb.engine.options import ReceiverOptions, SenderOptions
from zcdb.errors import AgentError, EngineError, HostError, LinkError, UsageError

pytestmark = pytest.mark.measures


@pytest.fixture
def agent():
    client = AgentClient.start_local("the agent")
    yield client
    client.close()


def children(pid):
    """Pids of a process's children."""
    tasks = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in tasks.read_text().split()]


def start_both(agent, **changes):
    receiver = ReceiverOptions(cpus=(0,), **changes)
    ports = agent.request("start_receiver", options=asdict(receiver))["ports"]
    sender = SenderOptions(ports=tuple(ports), api="write", cpus=(0,), **changes)
    agent.request("start_sender", options=asdict(sender))
    agent.request("go", end="sender")


def test_an_agent_says_who_it_is_and_what_its_host_is(agent):
    facts = agent.request("facts", interface="lo")

    assert agent.hello["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts["facts"]["kernel"]["release"] == platform.release()
    assert facts["readings"]["available_memory_bytes"] > 0


def test_an_unknown_operation_is_refused_and_the_agent_goes_on(agent):
    with pytest.raises(AgentError, match="no operation 'fly'"):
        agent.request("fly")

    assert agent.request("facts")["facts"]


def test_an_option_of_another_version_is_refused_by_name(agent):
    with pytest.raises(EngineError, match="warp_speed"):
        agent.request("start_receiver", options={"warp_speed": 9})


def test_an_operation_on_an_end_that_was_not_started_is_refused(agent):
    with pytest.raises(EngineError, match="no sender was started"):
        agent.request("go", end="sender")


def test_bytes_flow_and_a_window_reads_both_ends(agent):
    start_both(agent)

    edges = agent.request(
        "window", duration_ns=3 * 10**8, sample_ns=10**8, sampler_cpu=0, is_host_read=True
    )["edges"]
    totals = agent.request("stop", end="sender")["totals"]
    received = agent.request("stop", end="receiver")["totals"]

    assert len(edges) == 4
    first, last = (edge["ends"]["receiver"]["payload_bytes"] for edge in (edges[0], edges[-1]))
    assert last > first
    assert received["payload_bytes"] == totals["payload_bytes"]


def test_soakers_run_within_windows_only(agent):
    agent.request("start_soak", cpus=[0])
    soaker = next(
        pid
        for pid in children(agent.pid)
        if Path(f"/proc/{pid}/comm").read_text().startswith("zcdb-soak")
    )

    def state():
        return Path(f"/proc/{soaker}/stat").read_text().rsplit(")", 1)[1].split()[0]

    def wait_for(wanted):
        deadline = time.monotonic() + 30
        while state() not in wanted and time.monotonic() < deadline:
            time.sleep(0.01)
        return state()

    assert wait_for("T") == "T"
    number = agent.begin(
        "window", duration_ns=2 * 10**9, sample_ns=10**8, sampler_cpu=0, is_host_read=True
    )
    assert wait_for("R") == "R"
    agent.finish(number)
    assert wait_for("T") == "T"


def test_when_its_input_ends_nothing_of_an_agent_is_left(agent):
    agent.request("start_soak", cpus=[0])
    start_both(agent)
    processes = [agent.pid, *children(agent.pid)]

    agent.close()

    assert len(processes) == 4
    for pid in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_when_an_agent_is_killed_its_children_die_with_it(agent):
    agent.request("start_soak", cpus=[0])
    start_both(agent)
    processes = children(agent.pid)

    os.kill(agent.pid, signal.SIGKILL)
    deadline = time.monotonic() + 30
    alive = processes
    while alive and time.monotonic() < deadline:
        alive = [pid for pid in alive if _is_alive(pid)]
        time.sleep(0.02)

    assert alive == []
    with pytest.raises(AgentError):
        agent.request("facts")


def _is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_window_is_given_up_when_the_runner_is_gone(agent):
    agent.begin(
        "window", duration_ns=600 * 10**9, sample_ns=10**8, sampler_cpu=0, is_host_read=True
    )

    agent.close()

    with pytest.raises(ProcessLookupError):
        os.kill(agent.pid, 0)


def test_a_cpu_that_may_not_be_used_is_a_sentence(agent):
    with pytest.raises(HostError, match="CPU 4095"):
        agent.request("start_soak", cpus=[4095])


def test_a_line_that_is_no_message_ends_the_agent_without_a_traceback_storm():
    process = subprocess.run(
        [sys.executable, "-m", "zcdb", "agent"],
        input="hello?\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert process.returncode == 1
    assert process.stdout == ""
    assert "no message" in process.stderr
    assert "Traceback" not in process.stderr


def test_an_agent_without_settings_has_nothing_to_put_back(agent):
    assert agent.request("restore_settings") == []
    assert agent.request("check_settings") == []


def test_settings_of_an_interface_that_nobody_named_are_refused(agent):
    wanted = [{"kind": "mtu", "target": "lo", "value": 1500}]

    with pytest.raises(HostError, match="the experiment does not name it"):
        agent.request("apply_settings", wanted=wanted, interfaces=["eth9"], allow_interfaces=[])


def test_a_setting_that_makes_no_sense_crosses_the_pipe_as_the_users_error(agent):
    wanted = [{"kind": "mtu", "target": "lo", "value": "large"}]

    with pytest.raises(UsageError, match="an MTU is a whole number"):
        agent.request("apply_settings", wanted=wanted, interfaces=["lo"], allow_interfaces=[])


def test_the_clock_is_that_of_the_host(agent):
    before = time.monotonic_ns()

    there = agent.request("clock")

    assert before < there < time.monotonic_ns()


def test_an_interface_that_is_not_there_is_a_sentence(agent):
    with pytest.raises(LinkError, match="there is no interface eth77 on this host"):
        agent.request("addresses", interface="eth77")


@pytest.mark.net
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
class TestInNamespace:
    """An agent in a network namespace of its own, where settings harm nobody."""

    @pytest.fixture(autouse=True)
    def own_folder(self, tmp_path, monkeypatch):
        monkeypatch.setenv("ZCDB_STATE", str(tmp_path))
        self.journals = tmp_path / "settings"

    @pytest.fixture
    def inside(self, own_folder):
        client = AgentClient.start_local("the agent")
        client.request("enter_namespace")
        yield client
        client.close()

    def apply(self, client):
        wanted = [{"kind": "mtu", "target": "lo", "value": 1500}]
        return client.request(
            "apply_settings", wanted=wanted, interfaces=["lo"], allow_interfaces=[]
        )

    def test_settings_are_applied_checked_and_put_back(self, inside):
        answer = self.apply(inside)

        assert answer == [{"before": {"mtu": 65536}, "effective": {"mtu": 1500}, "problems": []}]
        assert inside.request("check_settings") == []
        assert len(list(self.journals.iterdir())) == 1
        assert inside.request("restore_settings") == []
        assert list(self.journals.iterdir()) == []

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
    def test_an_agent_that_is_told_to_end_puts_settings_back_first(self, inside, number):
        self.apply(inside)

        os.kill(inside.pid, number)
        deadline = time.monotonic() + 30
        while _is_alive(inside.pid) and time.monotonic() < deadline:
            time.sleep(0.02)

        assert list(self.journals.iterdir()) == []

    def test_when_the_helper_that_changes_settings_dies_a_new_agent_is_asked_for(self, inside):
        self.apply(inside)
        (helper,) = children(inside.pid)

        os.kill(helper, signal.SIGKILL)
        while _is_alive(helper):
            time.sleep(0.01)

        with pytest.raises(AgentError, match="helper process that changes settings has died"):
            inside.request("kill")

    def test_what_a_killed_agent_left_is_undone_by_the_next_one(self, inside):
        self.apply(inside)
        inside.kill()

        successor = AgentClient.start_local("the next agent")
        told = successor.request("undo_leftovers")
        successor.close()
        inside.close()

        assert "ended without undoing 1 change of settings" in told[0]
        assert told[1] == "mtu of lo: nothing to put back, its network namespace is gone"
