"""Endpoints: processes that move bytes over loopback, seen from their parent."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import time
from pathlib import Path

import pytest
from engine_support import (
    ADDRESS,
    FILE_APIS,
    MEMORY_APIS,
    move,
    running,
    supported,
    wait_until,
)

from zcdb.engine import child
from zcdb.engine.apis import SENDER_APIS
from zcdb.engine.channel import wait_process
from zcdb.engine.endpoint import (
    ReceiverOptions,
    SenderOptions,
    start_receiver,
    start_sender,
)
from zcdb.engine.options import pattern_period_bytes
from zcdb.errors import EngineError, LinkError
from zcdb.host.links import enter_new_namespace

SENDERS = supported(MEMORY_APIS + FILE_APIS)
SIZES = [(1, 997), (4099, 23 * 4099 + 7), (65536, 101 * 65536), (16 << 20, (32 << 20) + 5)]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(("message_size", "total_bytes"), SIZES)
@pytest.mark.parametrize("api", SENDERS)
def test_every_api_delivers_every_byte_of_every_size_unchanged(api, message_size, total_bytes):
    sender, receiver = move(total_bytes, api=api, message_size=message_size, verify=True)

    assert (sender.errors, receiver.errors) == ([], [])
    assert receiver.verify_mismatch == 0
    assert receiver.first_bad_offset is None
    assert sender.totals["payload_bytes"] == receiver.totals["payload_bytes"] == total_bytes
    shortest = -(-total_bytes // message_size)
    assert sender.totals["calls"] - sender.totals["short_calls"] <= shortest
    assert sender.totals["calls"] >= shortest


@pytest.mark.parametrize("rx_api", supported(["recv", "recv_trunc", "splice_null"]))
def test_every_receive_api_takes_every_byte(rx_api):
    sender, receiver = move(1_000_003, api="send", message_size=10_000, rx_api=rx_api)

    assert receiver.totals["payload_bytes"] == sender.totals["payload_bytes"] == 1_000_003
    assert receiver.verify_mismatch is None


@pytest.mark.parametrize("api", supported(["msg_zerocopy", "io_uring_send_zc"]))
def test_zero_copy_sends_are_all_completed_and_over_loopback_all_copied(api):
    sender, _ = move(500_000_000, api=api, message_size=65536, verify=True)

    calls = sender.totals["calls"]
    assert calls >= 500_000_000 // 65536
    assert (sender.totals["completions"], sender.totals["copied"]) == (calls, calls)


def move_in_a_namespace_with(optmem_max: int, *, until_enobufs: bool = False) -> dict[str, object]:
    """Send with MSG_ZEROCOPY where notification memory is short; in a child of its own.

    With `until_enobufs` the receiver stands still until a send was refused: sends then wait in
    the sender's queue and keep their notification memory, on a quiet machine too.
    """
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        result: dict[str, object] = {}
        try:
            enter_new_namespace()
            Path("/proc/sys/net/core/optmem_max").write_text(str(optmem_max))
            with running(
                api="msg_zerocopy", message_size=65536, verify=True, total_bytes=100_000_000
            ) as (sender, receiver):
                if until_enobufs:
                    os.kill(receiver.pid, signal.SIGSTOP)
                    wait_until(lambda: sender.reading()["enobufs"] > 0)
                    os.kill(receiver.pid, signal.SIGCONT)
                wait_until(lambda: receiver.has_ended)
                end, mismatch = sender.stop(), receiver.stop().verify_mismatch
            result = {"errors": end.errors, **end.totals, "mismatch": mismatch}
        except (LinkError, PermissionError) as error:
            result = {"skip": str(error)}
        finally:
            os.write(write_end, json.dumps(result).encode())
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    result = json.loads(text)
    if "skip" in result:
        pytest.skip(f"no namespace with its own optmem_max here: {result['skip']}")
    return result


@pytest.mark.net
@pytest.mark.skipif("msg_zerocopy" not in SENDERS, reason="no SO_ZEROCOPY here")
def test_a_zero_copy_sender_short_of_notification_memory_waits_and_counts_it():
    result = move_in_a_namespace_with(optmem_max=4096, until_enobufs=True)

    assert result["errors"] == []
    assert result["enobufs"] > 0
    assert result["payload_bytes"] == 100_000_000
    assert result["completions"] == result["calls"]
    assert result["mismatch"] == 0


@pytest.mark.net
@pytest.mark.skipif("msg_zerocopy" not in SENDERS, reason="no SO_ZEROCOPY here")
def test_a_zero_copy_sender_without_any_notification_memory_ends_with_a_sentence():
    result = move_in_a_namespace_with(optmem_max=1)

    assert result["errors"] == [
        "stream 0: msg_zerocopy: no memory for notifications or locked pages"
        " (raise net.core.optmem_max or the memlock limit)"
    ]
    assert result["payload_bytes"] == 0


def test_three_streams_each_send_their_total():
    sender, receiver = move(777_777, api="send", message_size=1000, streams=3, verify=True)

    assert receiver.totals["payload_bytes"] == 3 * 777_777
    assert sender.totals["calls"] == 3 * 778
    assert receiver.verify_mismatch == 0


def test_more_streams_than_descriptors_fit_into_one_message_are_connected():
    with running(api="send", message_size=100, streams=256, total_bytes=1000) as (sender, receiver):
        wait_until(lambda: receiver.reading()["payload_bytes"] == 256_000)

        assert len(sender.ports) == 256
        assert sender.reading()["calls"] == 2560
        assert sender.stop().errors == receiver.stop().errors == []


@pytest.mark.parametrize("fragments", [3, 1024])
def test_a_message_of_many_fragments_arrives_in_order(fragments):
    sender, receiver = move(
        23 * 5000 + 7, api="sendmsg", message_size=5000, fragments=fragments, verify=True
    )

    assert receiver.verify_mismatch == 0
    assert sender.totals["calls"] == 24


@pytest.mark.parametrize("api", supported(FILE_APIS))
def test_passes_over_a_file_set_are_counted(api):
    sender, receiver = move(
        3 * 7 * 10_000 + 1,
        api=api,
        message_size=4096,
        working_set="files=7;mean_size=10000;passes=3",
        verify=True,
    )

    assert sender.totals["passes"] == 3
    assert receiver.verify_mismatch == 0


@pytest.mark.parametrize("api", SENDERS)
def test_a_sender_that_is_stopped_in_full_flow_loses_nothing(api):
    with running(api=api, message_size=16384, verify=True) as (sender, receiver):
        wait_until(lambda: receiver.reading()["payload_bytes"] > 10 << 20)
        sender_end, receiver_end = sender.stop(), receiver.stop()

    assert (sender_end.errors, receiver_end.errors) == ([], [])
    assert sender_end.totals["payload_bytes"] == receiver_end.totals["payload_bytes"]
    assert receiver_end.verify_mismatch == 0


def test_a_reading_grows_while_the_loops_run_and_stays_after_their_end():
    with running(api="send", message_size=1000) as (sender, receiver):
        wait_until(lambda: sender.reading()["payload_bytes"] > 0)
        first = sender.reading()
        wait_until(lambda: sender.reading()["cpu_time_ns"] > first["cpu_time_ns"])
        later = sender.reading()
        sender.stop()
        receiver.stop()
        last = sender.reading()

    assert first["streams_running"] == 1
    assert later["payload_bytes"] > first["payload_bytes"]
    assert later["retransmits"] >= first["retransmits"] >= 0
    assert last["payload_bytes"] >= later["payload_bytes"]
    assert last["streams_running"] == 0


def test_a_sender_sends_nothing_before_it_is_told_to_go():
    receiver = start_receiver(ReceiverOptions(address=ADDRESS))
    sender = start_sender(SenderOptions(address=ADDRESS, ports=tuple(receiver.ports), api="send"))

    time.sleep(0.05)
    before = sender.reading()
    ends = sender.stop(), receiver.stop()

    assert (before["payload_bytes"], before["streams_running"]) == (0, 0)
    assert [end.totals["payload_bytes"] for end in ends] == [0, 0]


def pass_on_with_a_flipped_bit(
    incoming: socket.socket, outgoing: socket.socket, offset: int
) -> None:
    passed = 0
    while some := bytearray(incoming.recv(65536)):
        if passed <= offset < passed + len(some):
            some[offset - passed] ^= 0x40
        outgoing.sendall(some)
        passed += len(some)


@pytest.mark.parametrize("api", ["send", "sendfile"])
def test_a_bit_that_is_turned_over_on_the_way_is_found_at_its_place(api):
    factors = {"api": api, "message_size": 10_000, "verify": True}
    receiver = start_receiver(ReceiverOptions.from_factors(factors, address=ADDRESS))
    with socket.create_server((ADDRESS, 0)) as proxy:
        options = SenderOptions.from_factors(
            factors, address=ADDRESS, ports=[proxy.getsockname()[1]], total_bytes=100_000
        )
        sender = start_sender(options)
        incoming, _ = proxy.accept()

    with incoming, socket.create_connection((ADDRESS, receiver.ports[0])) as outgoing:
        sender.go()
        pass_on_with_a_flipped_bit(incoming, outgoing, 54_321)
    sender.stop()
    end = receiver.stop()

    assert end.totals["payload_bytes"] == 100_000
    assert (end.verify_mismatch, end.first_bad_offset) == (1, 54_321)


def test_a_killed_sender_is_one_sentence_and_its_receiver_sees_the_end_of_the_stream():
    with running(api="send", message_size=1000) as (sender, receiver):
        wait_until(lambda: receiver.reading()["payload_bytes"] > 0)
        os.kill(sender.pid, signal.SIGKILL)
        assert wait_process(sender.pid, 60)

        with pytest.raises(EngineError) as caught:
            sender.reading()
        with pytest.raises(EngineError) as again:
            sender.stop()
        wait_until(lambda: receiver.has_ended)
        end = receiver.stop()

    assert caught.value.message == f"the sender (process {sender.pid}) was killed by SIGKILL"
    assert again.value.message == caught.value.message
    assert end.totals["payload_bytes"] > 0


def is_running(pid: int) -> bool:
    """Whether a process is neither gone nor a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return file.read().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def test_a_sender_whose_peer_is_killed_reports_which_call_failed():
    with running(api="send", message_size=1000) as (sender, receiver):
        wait_until(lambda: receiver.reading()["payload_bytes"] > 0)
        receiver.kill()
        wait_until(lambda: sender.has_ended)
        end = sender.stop()

    assert len(end.errors) == 1
    assert end.errors[0].startswith("stream 0: send: ")
    assert end.errors[0].endswith(("Connection reset by peer", "Broken pipe"))


@pytest.mark.parametrize("api", SENDERS)
def test_a_sender_whose_peer_hangs_can_be_stopped_all_the_same(api):
    with socket.create_server((ADDRESS, 0)) as deaf:
        # Memory senders block in a call; those with a pool wait for its four buffers.
        size = 1 << 16 if SENDER_APIS[api].takes_pool else 1 << 20
        options = SenderOptions(
            address=ADDRESS,
            ports=(deaf.getsockname()[1],),
            api=api,
            message_size_bytes=size,
            working_set=4 * size,
        )
        sender = start_sender(options)
        sender.go()
        wait_until(lambda: sender.reading()["streams_running"] == 1)
        time.sleep(0.2)

        end = sender.stop(timeout_s=30 if SENDER_APIS[api].takes_pool else 4)

    # What zero-copy senders say of notifications that a hung peer never lets come is true.
    assert all("notifications" in error for error in end.errors)
    assert not is_alive(sender.pid)


@pytest.mark.parametrize("rx_api", supported(["recv", "recv_trunc", "splice_null"]))
def test_a_receiver_whose_peer_says_nothing_can_be_stopped(rx_api):
    receiver = start_receiver(ReceiverOptions(address=ADDRESS, rx_api=rx_api))

    with socket.create_connection((ADDRESS, receiver.ports[0])):
        wait_until(lambda: receiver.reading()["streams_running"] == 1)
        end = receiver.stop(timeout_s=20)

    assert end.errors == []
    assert not is_alive(receiver.pid)


def test_a_receiver_to_which_nobody_connects_can_be_stopped():
    receiver = start_receiver(ReceiverOptions(address=ADDRESS, streams=2))

    with socket.create_connection((ADDRESS, receiver.ports[0])):
        end = receiver.stop()

    assert (end.errors, end.totals["payload_bytes"]) == ([], 0)


def test_an_endpoint_that_does_not_stop_is_killed_and_named():
    with running(api="send", message_size=1000) as (sender, _):
        os.kill(sender.pid, signal.SIGSTOP)

        with pytest.raises(
            EngineError, match=r"the sender \(process \d+\) did not stop within 0.3 s"
        ):
            sender.stop(timeout_s=0.3)

        assert not is_alive(sender.pid)


def test_an_endpoint_that_nobody_stops_ends_by_itself():
    receiver = start_receiver(ReceiverOptions(address=ADDRESS))
    sender = start_sender(
        SenderOptions(
            address=ADDRESS, ports=tuple(receiver.ports), api="send", longest_run_ns=50 * 10**6
        )
    )
    sender.go()

    wait_until(lambda: sender.has_ended and receiver.has_ended)

    assert sender.reading()["payload_bytes"] > 0
    assert sender.stop().errors == receiver.stop().errors == []


def test_endpoints_die_with_their_parent():
    read_end, write_end = os.pipe()
    parent = os.fork()
    if parent == 0:
        receiver = start_receiver(ReceiverOptions(address=ADDRESS))
        os.write(write_end, str(receiver.pid).encode())
        signal.pause()
        os._exit(0)
    os.close(write_end)
    pid = int(os.read(read_end, 100))
    os.close(read_end)
    assert is_running(pid)

    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)

    wait_until(lambda: not is_running(pid))


def test_an_endpoint_has_a_name_that_ps_shows():
    receiver = start_receiver(ReceiverOptions(address=ADDRESS))

    assert Path(f"/proc/{receiver.pid}/comm").read_text() == "zcdb-receiver\n"
    receiver.stop()


def test_an_endpoint_holds_no_descriptor_of_its_parent():
    read_end, write_end = os.pipe()
    receiver = start_receiver(ReceiverOptions(address=ADDRESS))

    os.close(write_end)

    assert os.read(read_end, 1) == b""
    os.close(read_end)
    receiver.stop()


def test_a_stopped_endpoint_leaves_no_descriptor_open():
    with running(api="send", message_size=10, total_bytes=10) as (sender, receiver):
        sender.stop()
        receiver.stop()
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    with running(api="send", message_size=10, total_bytes=10) as (sender, receiver):
        sender.stop()
        receiver.stop()

    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_bug_in_the_child_is_an_exit_code_in_the_parent(monkeypatch, capfd):
    def broken(*_arguments: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(child, "listen", broken)

    with pytest.raises(
        EngineError, match=r"the receiver \(process \d+\) broke down with exit code 70"
    ):
        start_receiver(ReceiverOptions(address=ADDRESS))

    assert "ZeroDivisionError" in capfd.readouterr().err


# -- what the kernel makes of the options ---------------------------------------------------


def test_buffer_sizes_are_read_back_as_the_kernel_doubles_them():
    with running(api="send", sndbuf=50_000, rcvbuf=60_000) as (sender, receiver):
        wait_until(lambda: "cpus" in receiver.effective)

        assert sender.effective["sndbuf"] == 100_000
        assert receiver.effective["rcvbuf"] == 120_000


def test_a_buffer_size_beyond_the_limit_is_clamped_and_said_so():
    receiver = start_receiver(ReceiverOptions(address=ADDRESS))
    options = SenderOptions(
        address=ADDRESS, ports=tuple(receiver.ports), api="send", sndbuf_bytes=1 << 30
    )
    sender = start_sender(options)
    effective = sender.effective
    sender.stop()
    receiver.stop()

    assert 0 < effective["sndbuf"] < 1 << 32
    assert options.differences(effective) == [
        f"SO_SNDBUF: {1 << 30} bytes asked for, which the kernel doubles to {1 << 31};"
        f" {effective['sndbuf']} in effect"
    ]


def test_socket_options_are_in_effect():
    receiver = start_receiver(ReceiverOptions(address=ADDRESS, congestion_control="reno"))
    options = SenderOptions(
        address=ADDRESS,
        ports=tuple(receiver.ports),
        api="send",
        congestion_control="reno",
        pacing_bps=80_000_000,
        tcp_nodelay=True,
        tcp_cork=True,
    )
    sender = start_sender(options)
    effective = sender.effective
    ends = sender.stop(), receiver.stop()

    assert effective["congestion_control"] == "reno"
    assert effective["pacing_rate"] == 80_000_000
    assert effective["mss"] > 500
    assert options.differences(effective) == []
    assert [end.errors for end in ends] == [[], []]


def test_an_endpoint_is_pinned_and_its_threads_say_so():
    cpu = max(os.sched_getaffinity(0))
    receiver = start_receiver(ReceiverOptions(address=ADDRESS, cpus=(cpu,)))
    sender = start_sender(
        SenderOptions(address=ADDRESS, ports=tuple(receiver.ports), api="send", cpus=(cpu,))
    )
    wait_until(lambda: "cpus" in receiver.effective)

    assert sender.effective["cpus"] == receiver.effective["cpus"] == [cpu]
    sender.stop()
    receiver.stop()


def test_source_files_are_in_the_page_cache_before_a_sender_is_ready():
    with running(api="sendfile", message_size=65536, working_set=1 << 20) as (sender, _):
        assert sender.effective["cached_share"] == 1.0
        assert sender.effective["working_set_bytes"] == 1 << 20


def test_an_endpoint_writes_itself_into_its_cgroups(tmp_path):
    (tmp_path / "cgroup.procs").touch()
    receiver = start_receiver(
        ReceiverOptions(address=ADDRESS, cgroup_paths=(str(tmp_path / "cgroup.procs"),))
    )

    assert (tmp_path / "cgroup.procs").read_text() == str(receiver.pid)
    receiver.stop()


# -- what cannot work -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            SenderOptions(address=ADDRESS, ports=(1,), api="send"),
            "the sender cannot connect to 127.0.0.1 port 1: Connection refused",
        ),
        (
            SenderOptions(address=ADDRESS, ports=(1,), api="send", bind_address="192.0.2.1"),
            "the sender cannot connect to 127.0.0.1 port 1: Cannot assign requested address",
        ),
        (
            ReceiverOptions(address="192.0.2.1"),
            "the receiver cannot listen on 192.0.2.1 port 0: Cannot assign requested address",
        ),
        (
            ReceiverOptions(address=ADDRESS, congestion_control="nonesuch"),
            "congestion control 'nonesuch' is refused: No such file or directory",
        ),
        (
            ReceiverOptions(address=ADDRESS, cpus=(4095,)),
            "the endpoint cannot be pinned to the CPUs [4095]",
        ),
        (
            ReceiverOptions(address=ADDRESS, cgroup_paths=("/no/such/cgroup.procs",)),
            "the endpoint cannot join the cgroup /no/such/cgroup.procs: No such file or directory",
        ),
        (
            SenderOptions(address=ADDRESS, ports=(1,), api="sendfile", file_folder="/no/such"),
            "the source files (1, 64 KiB in all) cannot be made in /no/such:"
            " No such file or directory",
        ),
    ],
)
def test_an_endpoint_that_cannot_start_is_one_sentence(options, said):
    start = start_sender if isinstance(options, SenderOptions) else start_receiver

    with pytest.raises(EngineError) as caught:
        start(options)

    assert caught.value.message == said
    assert caught.value.exit_code == 4


def test_a_port_in_use_is_one_sentence():
    with socket.create_server((ADDRESS, 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(EngineError, match=f"port {port}: Address already in use"):
            start_receiver(ReceiverOptions(address=ADDRESS, port=port))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"message_size_bytes": 0}, "message_size must be at least 1"),
        ({"message_size_bytes": (16 << 20) + 1}, "at most 16777216, got 16777217"),
        ({"streams": 257}, "streams must be at least 1 and at most 256, got 257"),
        ({"fragments": 2}, "needs sendmsg"),
        ({"api": "teleport"}, "'teleport' is not one of write, send"),
        ({"ports": ()}, "at least one port"),
        ({"total_bytes": 0}, "total_bytes must be at least 1"),
        ({"working_set": "files=2;mean_size=9;passes=1"}, "sends from memory"),
        ({"sndbuf_bytes": -1}, "sndbuf must be at least 0 and at most 2147483647, got -1"),
        ({"colour": "blue"}, "SenderOptions has no option 'colour'"),
    ],
)
def test_options_out_of_their_limits_are_refused(values, said):
    with pytest.raises(EngineError) as caught:
        SenderOptions.from_dict({"ports": [1], "api": "send", **values})

    assert said in caught.value.message


def test_a_receiver_that_sees_no_bytes_cannot_verify():
    with pytest.raises(EngineError, match="recv_trunc never sees the bytes"):
        ReceiverOptions(rx_api="recv_trunc", verify=True)


@pytest.mark.parametrize(
    "options",
    [
        SenderOptions(ports=(1, 2), api="sendfile", cpus=(0, 1), working_set=1 << 20),
        ReceiverOptions(port=5, cgroup_paths=("/a", "/b"), verify=True),
    ],
)
def test_options_survive_json(options):
    text = json.dumps(dataclasses.asdict(options))

    assert type(options).from_dict(json.loads(text)) == options


@pytest.mark.parametrize(
    ("api", "working_set", "period"),
    [
        ("send", "hot", 0),
        ("sendfile", "hot", 1000),
        ("splice", 5999, 5000),
        ("read_write", "files=7;mean_size=300;passes=2", 2100),
    ],
)
def test_the_period_of_a_verified_stream_is_the_files_together(api, working_set, period):
    assert pattern_period_bytes(api, 1000, working_set) == period
