"""The runner's side of the pipe, against agents that behave badly."""

from __future__ import annotations

import os
import sys
import time

import pytest

from zcdb import __version__
from zcdb.agent import protocol
from zcdb.agent.client import AgentClient
from zcdb.errors import AgentError, EngineError, HostError, ZcdbError

PREAMBLE = f"""
import json, os, sys, time
def answer(line, result=None, error=None):
    message = {{"id": json.loads(line)["id"]}}
    message.update({{"error": error}} if error else {{"result": result}})
    print(json.dumps(message), flush=True)
answer(sys.stdin.readline(), {{"version": {__version__!r}, "protocol": {protocol.PROTOCOL}}})
"""


@pytest.fixture
def start():
    """Start an agent that greets properly and then does what the given script says."""
    clients = []

    def begin(script, preamble=PREAMBLE):
        clients.append(AgentClient([sys.executable, "-c", preamble + script], "the test agent"))
        return clients[-1]

    yield begin
    for client in clients:
        client.close()


def test_a_request_returns_the_result(start):
    client = start("for line in sys.stdin: answer(line, json.loads(line)['arguments'])")

    assert client.request("echo", size=7) == {"size": 7}


def test_two_agents_can_work_at_the_same_time(start):
    first = start("for line in sys.stdin: answer(line, 1)")
    second = start("for line in sys.stdin: answer(line, 2)")

    numbers = first.begin("work"), second.begin("work")

    assert (first.finish(numbers[0]), second.finish(numbers[1])) == (1, 2)


def test_an_error_crosses_the_pipe_with_its_kind_and_hint(start):
    client = start(
        "for line in sys.stdin:"
        " answer(line, error={'kind': 'EngineError', 'message': 'no such CPU', 'hint': 'look'})"
    )

    with pytest.raises(EngineError, match="no such CPU") as caught:
        client.request("start")

    assert caught.value.hint == "look"


def test_an_agent_that_dies_is_reported_with_its_last_words(start):
    client = start("sys.stdin.readline(); sys.exit('disk on fire')")

    with pytest.raises(AgentError, match=r"the test agent ended .* disk on fire"):
        client.request("work")


def test_an_agent_that_hangs_is_ended_after_the_timeout(start):
    client = start("time.sleep(600)")

    with pytest.raises(AgentError, match="did not answer"):
        client.request("work", timeout_s=0.2)

    with pytest.raises(ProcessLookupError):
        os.kill(client.pid, 0)


def test_an_agent_that_speaks_nonsense_is_reported(start):
    client = start("sys.stdin.readline(); print('Welcome to host!', flush=True); time.sleep(60)")

    with pytest.raises(AgentError, match="Welcome to host"):
        client.request("work")


def test_another_version_at_the_other_end_is_refused(start):
    script = PREAMBLE.replace(__version__, "0.0.1") + "sys.stdin.read()"

    with pytest.raises(HostError, match=r"zcdb 0\.0\.1") as caught:
        start(script, preamble="")

    assert "same version" in str(caught.value.hint)


def test_closing_ends_the_agent_and_may_be_repeated(start):
    client = start("sys.stdin.read()")

    client.close()
    client.close()

    with pytest.raises(ProcessLookupError):
        os.kill(client.pid, 0)


def test_an_agent_that_does_not_end_by_itself_is_killed(start, monkeypatch):
    monkeypatch.setattr("zcdb.agent.client.CLOSE_TIMEOUT_S", 0.2)
    client = start("sys.stdin.read(); time.sleep(600)")
    began = time.monotonic()

    client.close()

    assert time.monotonic() - began < 60
    with pytest.raises(ProcessLookupError):
        os.kill(client.pid, 0)


def test_an_unknown_kind_of_error_is_still_an_error():
    error = protocol.error_from_json({"kind": "FutureError", "message": "from tomorrow"})

    assert type(error) is ZcdbError
    assert error.message == "from tomorrow"
