"""Datagrams: counted, numbered, paced; what is lost on the way is seen by the receiver."""

from __future__ import annotations

import socket
import struct
import threading
import time

import pytest
from engine_support import ADDRESS, running, wait_until

from zcdb.engine.counters import DATAGRAM_RECEIVER_NAMES, SharedCounters
from zcdb.engine.endpoint import ReceiverOptions, SenderOptions, start_receiver, start_sender
from zcdb.engine.jobs import Line, receiver_streams
from zcdb.engine.options import datagrams_of_a_call
from zcdb.engine.probes import udp_segment_reason
from zcdb.engine.sockets import HELLO, WELCOME
from zcdb.engine.streams import Crew
from zcdb.errors import EngineError

SLOW_BPS = 20_000_000
MANY = 50
"""Datagrams that all fit into a receive buffer: where a machine is busy a paced sender may have to
catch up in one go."""

TOKEN = "fedcba9876543210" * 2
segmented = pytest.mark.skipif(udp_segment_reason() is not None, reason=str(udp_segment_reason()))


@pytest.mark.parametrize("message_size", [1, 7, 8, 100, 1400])
@pytest.mark.parametrize("api", ["send", "write", "sendmsg"])
def test_paced_datagrams_all_arrive_one_for_each_call(api, message_size):
    with running(
        api=api, protocol="udp", message_size=message_size, target_rate=SLOW_BPS,
        total_bytes=MANY * message_size,
    ) as (sender, receiver):  # fmt: skip
        wait_until(lambda: receiver.has_ended)
        ends = sender.stop(), receiver.stop()

    assert [end.errors for end in ends] == [[], []]
    assert ends[0].totals["calls"] == ends[0].totals["datagrams"] == MANY
    assert ends[1].totals["datagrams"] == MANY
    assert ends[1].totals["payload_bytes"] == MANY * message_size
    assert (ends[1].totals["lost"], ends[1].totals["reordered"]) == (0, 0)


@segmented
def test_with_segmentation_one_call_hands_over_many_datagrams():
    total_bytes = 2 * 64 * 100 + 5 * 100
    with running(
        api="send", protocol="udp", udp_segment=True, message_size=100, target_rate=SLOW_BPS,
        total_bytes=total_bytes,
    ) as (sender, receiver):  # fmt: skip
        per_call = sender.effective["datagrams_per_call"]
        wait_until(lambda: receiver.has_ended)
        ends = sender.stop(), receiver.stop()

    assert per_call == 64
    assert ends[0].totals["calls"] == 3
    assert ends[0].totals["datagrams"] == ends[1].totals["datagrams"] == 133
    assert ends[1].totals["payload_bytes"] == total_bytes
    assert ends[1].totals["lost"] == 0


@segmented
def test_segments_shorter_than_the_hello_do_not_cut_it_up():
    with running(
        api="send", protocol="udp", udp_segment=True, message_size=1, target_rate=100_000,
        total_bytes=128,
    ) as (sender, receiver):  # fmt: skip
        wait_until(lambda: receiver.has_ended)
        ends = sender.stop(), receiver.stop()

    assert ends[0].totals["calls"] == 2
    assert ends[1].totals["datagrams"] == 128


@pytest.mark.parametrize(("size", "datagrams"), [(1, 64), (1400, 46), (65507, 1), (40_000, 1)])
def test_a_segmented_call_is_as_large_as_one_packet_may_be(size, datagrams):
    options = SenderOptions(ports=(1,), protocol="udp", udp_segment=True, message_size_bytes=size)

    assert datagrams_of_a_call(options) == datagrams


def test_what_a_full_receive_buffer_drops_is_counted_as_lost():
    with running(api="send", protocol="udp", message_size=1000, rcvbuf=4096) as (sender, receiver):
        wait_until(lambda: receiver.reading()["lost"] > 100)
        ends = sender.stop(), receiver.stop()

    sent, received = ends[0].totals["datagrams"], ends[1].totals["datagrams"]
    assert received < sent
    # Only what was lost after the last one that arrived is not known to the receiver.
    assert received + ends[1].totals["lost"] <= sent


def test_several_streams_have_sockets_of_their_own():
    with running(
        api="send", protocol="udp", message_size=100, streams=5, target_rate=SLOW_BPS,
        total_bytes=100 * MANY,
    ) as (sender, receiver):  # fmt: skip
        wait_until(lambda: receiver.has_ended)
        ports = receiver.ports
        ends = sender.stop(), receiver.stop()

    assert len(set(ports)) == 5
    assert ends[1].totals["datagrams"] == 5 * MANY
    assert ends[1].totals["lost"] == 0


def test_datagrams_are_spread_over_several_addresses():
    addresses = ("127.0.0.2", "127.0.0.3")
    receiver = start_receiver(ReceiverOptions(protocol="udp", addresses=addresses, streams=3))
    sender = start_sender(
        SenderOptions(
            protocol="udp",
            addresses=addresses,
            ports=tuple(receiver.ports),
            streams=3,
            message_size_bytes=100,
            target_bps=SLOW_BPS,
            total_bytes=1000,
        )
    )
    ways = [one.getpeername() for one in sender._sockets]
    sender.go()
    wait_until(lambda: receiver.has_ended)
    sender.stop()
    end = receiver.stop()

    assert ways == list(zip(("127.0.0.2", "127.0.0.3", "127.0.0.2"), receiver.ports, strict=True))
    assert end.totals["datagrams"] == 30


def test_a_target_rate_is_kept():
    with running(api="send", protocol="udp", message_size=1000, target_rate=8_000_000) as (
        sender,
        receiver,
    ):
        wait_until(lambda: sender.reading()["datagrams"] > 0)
        first, start_ns = sender.reading()["datagrams"], time.monotonic_ns()
        wait_until(lambda: sender.reading()["datagrams"] > first + 200)
        sent, elapsed_ns = sender.reading()["datagrams"] - first, time.monotonic_ns() - start_ns
        sender.stop()
        receiver.stop()

    # 1000 a second; what it fell behind by up to 0.1 s it may have caught up.
    assert sent <= 1000 * elapsed_ns / 10**9 + 101


class Arrivals:
    """What the receiver's loop makes of datagrams with these numbers."""

    def __init__(self, numbers: list[int]) -> None:
        counters = SharedCounters(1, DATAGRAM_RECEIVER_NAMES)
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        ):
            receiver.bind((ADDRESS, 0))
            sender.connect(receiver.getsockname())
            for number in numbers:
                sender.send(struct.pack(">Q", number) + bytes(100))
            sender.send(b"")
            options = ReceiverOptions(protocol="udp")
            Crew(receiver_streams(options, [Line(0, receiver)], counters)).run(60 * 10**9)
        self.counts = counters.read()


@pytest.mark.parametrize(
    ("numbers", "lost", "reordered"),
    [
        ([0, 1, 2, 3], 0, 0),
        ([0, 1, 4, 5], 2, 0),
        ([3, 4], 3, 0),
        ([0, 2, 1, 3], 0, 1),
        ([0, 5, 1, 2], 2, 2),
        ([0, 1, 1], 0, 1),
    ],
)
def test_gaps_are_losses_until_what_is_missing_comes_late(numbers, lost, reordered):
    counts = Arrivals(numbers).counts

    assert counts["datagrams"] == len(numbers)
    assert (counts["lost"], counts["reordered"]) == (lost, reordered)


def test_a_hello_that_comes_late_is_no_loss_of_all_before_its_number():
    hello_as_number = int.from_bytes(HELLO[:8], "big")

    assert Arrivals([0, 1, hello_as_number, 2]).counts["lost"] == 0


# -- who may send ----------------------------------------------------------------------------


def test_a_receiver_answers_its_own_sender_alone_and_hears_nobody_else_after_that():
    receiver = start_receiver(ReceiverOptions(protocol="udp", address=ADDRESS, token=TOKEN))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.settimeout(0.3)
        stranger.connect((ADDRESS, receiver.ports[0]))
        stranger.send(HELLO + b"wrong")
        with pytest.raises(TimeoutError):
            stranger.recv(100)
        sender = start_sender(
            SenderOptions(
                protocol="udp", address=ADDRESS, ports=tuple(receiver.ports), token=TOKEN,
                message_size_bytes=100, target_bps=SLOW_BPS, total_bytes=1000,
            )
        )  # fmt: skip
        wait_until(lambda: "cpus" in receiver.effective)
        # The kernel says that this port is not for it.
        stranger.send(bytes(100))
        sender.go()
        wait_until(lambda: receiver.has_ended)
    refused = receiver.effective["refused_connections"]
    ends = sender.stop(), receiver.stop()

    assert refused == 1
    assert ends[1].totals["datagrams"] == ends[0].totals["datagrams"] == 10


def test_a_sender_whose_hello_is_lost_says_it_again():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as deaf:
        deaf.bind((ADDRESS, 0))
        options = SenderOptions(
            protocol="udp",
            address=ADDRESS,
            ports=(deaf.getsockname()[1],),
            message_size_bytes=100,
        )
        heard: list[bytes] = []

        def answer_the_second() -> None:
            for _ in range(2):
                said, sender = deaf.recvfrom(100)
                heard.append(said)
            deaf.sendto(WELCOME, sender)

        thread = threading.Thread(target=answer_the_second)
        thread.start()
        sender = start_sender(options)
        thread.join()
        sender.kill()

    assert heard == [HELLO, HELLO]


def test_a_receiver_whose_sender_says_nothing_can_be_stopped():
    receiver = start_receiver(ReceiverOptions(protocol="udp", address=ADDRESS, streams=2))

    end = receiver.stop()

    assert (end.errors, end.totals["datagrams"]) == ([], 0)


def test_a_receiver_whose_sender_was_killed_can_be_stopped():
    with running(api="send", protocol="udp", message_size=100) as (sender, receiver):
        wait_until(lambda: receiver.reading()["datagrams"] > 0)
        sender.kill()
        end = receiver.stop(timeout_s=20)

    assert end.errors == []
    assert end.totals["datagrams"] > 0


# -- what cannot work ------------------------------------------------------------------------


def test_nobody_at_the_port_is_one_sentence():
    with pytest.raises(EngineError) as caught:
        start_sender(
            SenderOptions(protocol="udp", address=ADDRESS, ports=(1,), message_size_bytes=100)
        )

    assert caught.value.message == (
        "the sender cannot connect to 127.0.0.1 port 1: Connection refused"
    )


@segmented
def test_segments_that_do_not_fit_the_mtu_are_refused_before_the_first_call():
    receiver = start_receiver(ReceiverOptions(protocol="udp", address=ADDRESS))
    options = SenderOptions(
        protocol="udp", address=ADDRESS, ports=tuple(receiver.ports), udp_segment=True,
        message_size_bytes=65507,
    )  # fmt: skip
    # The loopback's MTU of 65536 takes them all, so the path is made to say less.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zcdb.engine.sockets.IP_MTU", socket.IP_TTL)
        with pytest.raises(EngineError, match="UDP_SEGMENT cannot send datagrams of 65507 bytes"):
            start_sender(options)
    receiver.kill()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"api": "sendfile"}, "sendfile does not send datagrams here"),
        ({"message_size_bytes": 65508}, "a datagram holds 65507 bytes at most, not 65508"),
        ({"pacing_bps": 10**6}, "use target_rate"),
        ({"tcp_nodelay": True}, "udp runs with tcp_nodelay = False only, not True"),
        ({"congestion_control": "reno"}, "udp runs with congestion_control = 'default' only"),
        ({"protocol": "tcp", "udp_segment": True}, "udp_segment needs protocol = 'udp'"),
        ({"protocol": "sctp"}, "'sctp' is not one of tcp, udp"),
    ],
)
def test_options_that_datagrams_do_not_have_are_refused(values, said):
    values = {"protocol": "udp", "message_size_bytes": 100, **values}
    with pytest.raises(EngineError) as caught:
        SenderOptions.from_dict({"ports": [1], **values})

    assert said in caught.value.message
