"""Streams spread over several processes: summed, named when one dies, gone at the end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from engine_support import ADDRESS, move, running, supported, wait_until

from zcdb.engine.endpoint import (
    Endpoint,
    ReceiverOptions,
    SenderOptions,
    start_receiver,
    start_sender,
)
from zcdb.engine.streams import Crew
from zcdb.errors import EngineError


def workers(endpoint: Endpoint) -> list[int]:
    """The worker processes of an endpoint."""
    listed = Path(f"/proc/{endpoint.pid}/task/{endpoint.pid}/children").read_text()
    return [int(pid) for pid in listed.split()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("api", supported(["send", "sendfile", "msg_zerocopy"]))
def test_streams_of_several_processes_are_all_delivered_and_summed(api):
    sender, receiver = move(
        777_777, api=api, message_size=1000, streams=7, processes=3, verify=True
    )

    assert (sender.errors, receiver.errors) == ([], [])
    assert receiver.totals["payload_bytes"] == 7 * 777_777
    assert sender.totals["calls"] >= 7 * 778
    assert receiver.verify_mismatch == 0


def test_each_end_has_as_many_processes_as_it_is_told():
    with running(api="send", streams=5, processes=4) as ends:
        wait_until(lambda: ends[1].reading()["streams_running"] == 5)
        counts = [len(workers(end)) for end in ends]
        names = {Path(f"/proc/{pid}/comm").read_text() for pid in workers(ends[0])}
        threads = sorted(len(os.listdir(f"/proc/{pid}/task")) for pid in workers(ends[0]))  # noqa: PTH208
        for end in ends:
            end.stop()

    assert counts == [4, 4]
    assert names == {"zcdb-sender\n"}
    assert threads == [1, 1, 1, 2]


def test_the_cpu_time_of_all_processes_is_summed():
    with running(api="send", streams=2, processes=2) as (sender, receiver):
        wait_until(lambda: sender.reading()["cpu_time_ns"] > 200 * 10**6)
        shares = [
            int(value) for pid in workers(sender)
            for value in Path(f"/proc/{pid}/schedstat").read_text().split()[:1]
        ]  # fmt: skip
        later = sender.reading()["cpu_time_ns"]
        sender.stop()
        receiver.stop()

    assert sum(shares) <= later + 50 * 10**6
    assert later > max(shares)


@pytest.mark.parametrize("test", ["rr", "crr"])
def test_exchanges_of_several_processes_are_answered(test):
    with running(test=test, streams=6, processes=3) as (client, server):
        wait_until(lambda: client.reading()["transactions"] > 300)
        ends = client.stop(), server.stop()

    assert [end.errors for end in ends] == [[], []]
    assert ends[0].totals["transactions"] == ends[1].totals["transactions"]


def test_many_processes_are_possible():
    with running(api="send", message_size=100, streams=64, processes=64, total_bytes=1000) as (
        sender,
        receiver,
    ):
        wait_until(lambda: receiver.reading()["payload_bytes"] == 64_000)
        ends = sender.stop(), receiver.stop()

    assert [end.errors for end in ends] == [[], []]


@pytest.mark.parametrize("number", [0, 1])
def test_a_killed_process_is_named_and_all_others_go_with_it(number):
    with running(api="send", streams=3, processes=3) as ends:
        wait_until(lambda: ends[1].reading()["streams_running"] == 3)
        victim, *others = workers(ends[number])
        os.kill(victim, signal.SIGKILL)

        with pytest.raises(EngineError) as caught:
            wait_until(lambda: ends[number].reading() is None)
        wait_until(lambda: not any(is_alive(pid) for pid in others))

    role = ("sender", "receiver")[number]
    assert caught.value.message == f"the {role}'s process {victim} was killed by SIGKILL"


def test_a_stopped_endpoint_leaves_no_process():
    with running(api="send", streams=3, processes=3) as (sender, receiver):
        wait_until(lambda: receiver.reading()["streams_running"] == 3)
        pids = [*workers(sender), *workers(receiver)]
        sender.stop()
        receiver.stop()

    assert len(pids) == 6
    assert not any(is_alive(pid) for pid in pids)


def test_processes_go_with_a_killed_endpoint():
    with running(api="send", streams=3, processes=3) as (sender, receiver):
        wait_until(lambda: receiver.reading()["streams_running"] == 3)
        pids = workers(sender)
        sender.kill()

        wait_until(lambda: not any(is_alive(pid) for pid in pids))


def test_a_process_that_cannot_start_is_one_sentence(monkeypatch):
    def broken(*_arguments: object) -> None:
        raise EngineError("no memory for a buffer", hint="use less")

    monkeypatch.setattr(Crew, "__init__", broken)
    receiver = start_receiver(ReceiverOptions(address=ADDRESS, streams=2, processes=2))
    with pytest.raises(EngineError, match="no memory for a buffer"):
        start_sender(
            SenderOptions(address=ADDRESS, ports=tuple(receiver.ports), streams=2, processes=2)
        )
    receiver.kill()


def test_more_processes_than_streams_are_refused():
    with pytest.raises(EngineError, match="3 processes need as many streams at least, not 2"):
        SenderOptions(ports=(1,), streams=2, processes=3)
