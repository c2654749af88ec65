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
from zcdb.errors import AgentError, EngineError, HostError

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
