"""Mixes of APIs, receivers that map or use io_uring, work per call, and who may connect."""

from __future__ import annotations

import socket
import time

import pytest
from engine_support import ADDRESS, move, running, supported, wait_until

from zcdb.engine import apis
from zcdb.engine.endpoint import ReceiverOptions, SenderOptions, start_receiver, start_sender
from zcdb.engine.jobs import burn_turns
from zcdb.engine.native import native
from zcdb.errors import EngineError

FILES = "files=2;mean_size=99999;passes=1"
TOKEN = "00112233445566778899aabbccddeeff"  # noqa: S105


def test_streams_go_to_the_apis_of_a_mix_by_their_shares_and_evenly():
    assert apis.apis_of_streams("mixed", "sendfile=3;write=1", 8) == (
        ["sendfile", "sendfile", "write", "sendfile"] * 2
    )
    assert apis.apis_of_streams("send", "", 3) == ["send"] * 3


@pytest.mark.parametrize("streams", [2, 5, 64])
def test_every_stream_of_a_mix_has_an_api_and_no_share_is_off_by_more_than_one(streams):
    chosen = apis.apis_of_streams("mixed", "send=1;splice=2;write=4", streams)

    for name, share in (("send", 1), ("splice", 2), ("write", 4)):
        assert abs(chosen.count(name) - streams * share / 7) < 1


def test_a_mix_delivers_every_byte_of_every_stream():
    names = supported(["sendfile", "write", "msg_zerocopy"])
    mix = ";".join(f"{name}=1" for name in sorted(names))
    sender, receiver = move(
        500_000, api="mixed", api_mix=mix, streams=2 * len(names), message_size=10_000
    )

    assert (sender.errors, receiver.errors) == ([], [])
    assert receiver.totals["payload_bytes"] == 2 * len(names) * 500_000
    if "msg_zerocopy" in names:
        assert sender.totals["completions"] == 2 * 50


@pytest.mark.parametrize(
    ("factors", "said"),
    [
        ({"api": "mixed"}, "needs api_mix"),
        ({"api": "send", "api_mix": "send=1;write=1"}, "needs api = 'mixed'"),
        ({"api_mix": "send=9;write=1", "streams": 2}, "2 streams are too few for the mix"),
        ({"api_mix": "nfs_read=1;write=1", "streams": 2}, "nfs_read cannot be part of a mix"),
        ({"api_mix": "send=1;write=1", "streams": 2, "verify": True}, "verify one API at a time"),
        (
            {"api_mix": "send=1;sendfile=1", "streams": 2, "working_set": FILES},
            "send sends from memory",
        ),
    ],
)
def test_a_mix_that_cannot_be_is_refused(factors, said):
    assert said in apis.unsupported_combination({"api": "mixed", **factors})


# -- receivers -------------------------------------------------------------------------------


@pytest.mark.parametrize("rx_api", supported(["io_uring_recv"]))
@pytest.mark.parametrize("receive_size", [1, 1000, 262_144])
def test_io_uring_takes_every_byte_unchanged(rx_api, receive_size):
    sender, receiver = move(
        100_003,
        api="send",
        message_size=5000,
        rx_api=rx_api,
        receive_size=receive_size,
        verify=True,
    )

    assert (sender.errors, receiver.errors) == ([], [])
    assert receiver.totals["payload_bytes"] == 100_003
    assert receiver.verify_mismatch == 0


maps = pytest.mark.skipif(
    apis.unsupported_reason("zerocopy_receive") is not None,
    reason=str(apis.unsupported_reason("zerocopy_receive")),
)


@maps
@pytest.mark.parametrize("api", supported(["send", "sendfile", "msg_zerocopy"]))
def test_a_mapping_receiver_takes_every_byte_and_says_how_many_it_mapped(api):
    sender, receiver = move(20_000_003, api=api, message_size=65536, rx_api="zerocopy_receive")

    assert (sender.errors, receiver.errors) == ([], [])
    assert receiver.totals["payload_bytes"] == 20_000_003
    assert 0 <= receiver.totals["mapped_bytes"] <= 20_000_003
    assert receiver.totals["mapped_bytes"] % 4096 == 0
    if api == "sendfile":
        # Pages of the page cache are not mapped a second time: the proof says copied.
        assert receiver.totals["mapped_bytes"] == 0


@pytest.mark.parametrize("rx_api", supported(["io_uring_recv", "zerocopy_receive"]))
def test_a_receiver_whose_peer_says_nothing_can_be_stopped(rx_api):
    receiver = start_receiver(ReceiverOptions(address=ADDRESS, rx_api=rx_api))

    with socket.create_connection((ADDRESS, receiver.ports[0])):
        wait_until(lambda: receiver.reading()["streams_running"] == 1)
        end = receiver.stop(timeout_s=20)

    assert end.errors == []


def test_a_mapping_receiver_needs_whole_pages():
    reason = apis.unsupported_combination(
        {"api": "msg_zerocopy", "rx_api": "zerocopy_receive", "receive_size": 5000}
    )

    assert reason == (
        "zerocopy_receive maps whole pages of 4096 bytes;"
        " receive_size = 5000 is no multiple of that"
    )


@maps
def test_a_mapping_receiver_is_refused_where_nothing_could_be_mapped():
    factors = {"link": "veth", "rx_api": "zerocopy_receive"}

    assert apis.unsupported_combination({**factors, "api": "sendfile"}).startswith(
        "over veth the payload of sendfile does not lie in pages that can be mapped"
    )
    assert apis.unsupported_combination({**factors, "api": "msg_zerocopy"}) is None
    assert apis.unsupported_combination({**factors, "api": "send", "link": "hosts"}) is None


# -- a known load ----------------------------------------------------------------------------


def test_burning_takes_about_the_cpu_time_that_was_asked_for():
    _, lib = native()
    turns = burn_turns(10**6)

    used_ns = []
    for _ in range(20):
        start_ns = time.thread_time_ns()
        lib.zc_burn(turns)
        used_ns.append(time.thread_time_ns() - start_ns)

    # Calibrated against the fastest: it may take longer where something disturbs, not less.
    assert 0.7 * 10**6 < min(used_ns) < 3 * 10**6


@pytest.mark.parametrize("api", supported(["send", "sendfile", "msg_zerocopy", "io_uring_send"]))
def test_work_per_call_is_done_before_every_call(api):
    work_ns = 2 * 10**6
    with running(api=api, message_size=1000, call_work=work_ns, total_bytes=25_000) as (
        sender,
        receiver,
    ):
        before_ns = sender.reading()["cpu_time_ns"]
        wait_until(lambda: sender.has_ended)
        end = sender.stop()
        receiver.stop()

    assert end.totals["calls"] == 25
    assert end.totals["cpu_time_ns"] - before_ns > 25 * work_ns * 0.7


def test_work_per_request_is_done_before_every_request():
    with running(test="rr", call_work=2 * 10**6) as (client, server):
        wait_until(lambda: client.reading()["transactions"] >= 20)
        end = client.stop()
        server.stop()

    assert end.totals["cpu_time_ns"] > end.totals["transactions"] * 2 * 10**6 * 0.7


def test_a_target_rate_is_shared_by_the_streams():
    with running(api="send", message_size=1000, streams=4, target_rate=8_000_000) as (
        sender,
        receiver,
    ):
        wait_until(lambda: sender.reading()["calls"] > 4)
        first, start_ns = sender.reading()["calls"], time.monotonic_ns()
        wait_until(lambda: sender.reading()["calls"] > first + 200)
        sent, elapsed_ns = sender.reading()["calls"] - first, time.monotonic_ns() - start_ns
        sender.stop()
        receiver.stop()

    # Each of the four may have had up to 0.1 s to catch up.
    assert sent <= 1000 * elapsed_ns / 10**9 + 4 * 26


def test_a_segment_size_is_in_effect_and_one_that_is_not_is_said():
    receiver = start_receiver(ReceiverOptions(address=ADDRESS, mss_bytes=1000))
    options = SenderOptions(address=ADDRESS, ports=tuple(receiver.ports), mss_bytes=1000)
    sender = start_sender(options)
    effective = sender.effective
    sender.stop()
    receiver.stop()

    assert 900 < effective["mss"] <= 1000
    assert options.differences(effective) == []
    assert options.differences({"mss": 1448}) == ["MSS: 1000 asked for, 1448 bytes in effect"]


# -- who may connect, and where --------------------------------------------------------------


def test_connections_with_another_token_or_none_are_turned_away_and_counted():
    receiver = start_receiver(ReceiverOptions(address=ADDRESS, streams=2, token=TOKEN))
    port = receiver.ports[0]
    with socket.create_connection((ADDRESS, port)) as liar:
        liar.sendall(TOKEN[:-1].encode() + b"X")
        said = liar.recv(10)
    with socket.create_connection((ADDRESS, port)) as silent:
        sender = start_sender(
            SenderOptions(
                address=ADDRESS, ports=(port,), streams=2, token=TOKEN, verify=False,
                total_bytes=100_000,
            )
        )  # fmt: skip
        sender.go()
        wait_until(lambda: receiver.has_ended)
        silent.settimeout(10)
        ended = silent.recv(10)
    refused = receiver.effective["refused_connections"]
    ends = sender.stop(), receiver.stop()

    assert (said, ended) == (b"", b"")
    assert refused == 1  # the silent one was only not waited for
    assert ends[1].totals["payload_bytes"] == 200_000


def test_a_token_is_no_payload():
    receiver = start_receiver(ReceiverOptions(address=ADDRESS, token=TOKEN, verify=True))
    sender = start_sender(
        SenderOptions(
            address=ADDRESS, ports=tuple(receiver.ports), token=TOKEN, verify=True,
            message_size_bytes=1000, total_bytes=10_000,
        )
    )  # fmt: skip
    sender.go()
    wait_until(lambda: receiver.has_ended)
    ends = sender.stop(), receiver.stop()

    assert ends[1].totals["payload_bytes"] == 10_000
    assert ends[1].verify_mismatch == 0


def test_a_sender_with_the_wrong_token_is_told():
    receiver = start_receiver(ReceiverOptions(address=ADDRESS, token=TOKEN))
    port = receiver.ports[0]

    with pytest.raises(EngineError) as caught:
        start_sender(SenderOptions(address=ADDRESS, ports=(port,), token="x" * len(TOKEN)))
    receiver.kill()

    assert caught.value.message == (
        f"the sender cannot connect to 127.0.0.1 port {port}: it belongs to another run"
    )


def test_a_connection_that_says_too_little_for_too_long_is_turned_away(monkeypatch):
    monkeypatch.setattr("zcdb.engine.admission.TOKEN_PATIENCE_S", 0.1)
    receiver = start_receiver(ReceiverOptions(address=ADDRESS, token=TOKEN))

    with socket.create_connection((ADDRESS, receiver.ports[0])) as slow:
        slow.sendall(TOKEN[:5].encode())
        slow.settimeout(30)
        answer = slow.recv(10)
    receiver.stop()

    assert answer == b""


def test_a_receiver_takes_the_first_free_port_of_its_range():
    with socket.create_server((ADDRESS, 0)) as taken:
        low = taken.getsockname()[1]
        receiver = start_receiver(ReceiverOptions(address=ADDRESS, port_range=(low, low + 50)))
        port = receiver.ports[0]
        receiver.stop()

        with pytest.raises(EngineError, match=f"cannot listen on 127.0.0.1 port {low}: Address al"):
            start_receiver(ReceiverOptions(address=ADDRESS, port_range=(low, low)))

    assert low < port <= low + 50


def test_streams_are_spread_over_several_addresses():
    addresses = ("127.0.0.2", "127.0.0.3")
    receiver = start_receiver(ReceiverOptions(addresses=addresses, streams=4))
    sender = start_sender(
        SenderOptions(
            addresses=addresses,
            bind_addresses=("127.0.0.4", "127.0.0.5"),
            ports=tuple(receiver.ports),
            streams=4,
            total_bytes=1000,
        )
    )
    ways = sorted(
        (one.getsockname()[0], one.getpeername()[0], one.getpeername()[1])
        for one in sender._sockets
    )
    sender.go()
    wait_until(lambda: receiver.has_ended)
    ends = sender.stop(), receiver.stop()

    assert ways == sorted(
        [
            ("127.0.0.4", "127.0.0.2", receiver.ports[0]),
            ("127.0.0.5", "127.0.0.3", receiver.ports[1]),
        ]
        * 2
    )
    assert ends[1].totals["payload_bytes"] == 4000


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"port_range": [0, 10]}, "the port range 0-10 is none within 1-65535"),
        ({"port_range": [10, 9]}, "the port range 10-9 is none within 1-65535"),
        ({"token": "x" * 65}, "a token has at most 64 ASCII characters"),
        ({"mss_bytes": 40}, "mss = 40 is not between 88 and 32767"),
    ],
)
def test_options_of_a_receiver_that_make_no_sense_are_refused(values, said):
    with pytest.raises(EngineError) as caught:
        ReceiverOptions.from_dict(values)

    assert said in caught.value.message


def test_a_tool_is_not_judged_by_what_zcdbs_own_loops_can_do():
    assert apis.unsupported_combination({"tool": "iperf3", "bidirectional": True}) is None
    assert "foreign tool" in apis.unsupported_combination({"api": "send", "bidirectional": True})
