"""The C loops by themselves: what they send, what they count, when they end."""

from __future__ import annotations

import socket
import time

import pytest
from engine_support import (
    ADDRESS,
    FILE_APIS,
    MEMORY_APIS,
    Collector,
    pattern,
    supported,
    tcp_pair,
)

from zcdb.engine import files
from zcdb.engine.apis import SENDER_APIS
from zcdb.engine.counters import SharedCounters
from zcdb.engine.jobs import Line, receiver_streams, sender_streams
from zcdb.engine.native import native
from zcdb.engine.options import ReceiverOptions, SenderOptions
from zcdb.engine.probes import SO_ZEROCOPY
from zcdb.engine.streams import Crew

SENDERS = supported(MEMORY_APIS + FILE_APIS)
MINUTE_NS = 60 * 10**9


class Sent:
    """What one sender loop did: counts, errors, and the bytes that arrived."""

    def __init__(self, stop_before: bool = False, longest_run_ns: int = MINUTE_NS, **options):
        options = SenderOptions(address=ADDRESS, ports=(1,), **options)
        counters = SharedCounters(1)
        source = None
        if SENDER_APIS[options.api].takes_file:
            source = files.make_source(options.working_set, options.message_size_bytes)
        with tcp_pair() as (one, other):
            if options.api == "msg_zerocopy":
                one.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)
            collector = Collector(other)
            crew = Crew(sender_streams(options, [Line(0, one)], counters, source))
            if stop_before:
                counters.stop()
            self.errors = crew.run(longest_run_ns)
            self.data = collector.result()
        self.counts = counters.read()
        for file in source.files if source is not None else ():
            file.close()


@pytest.mark.parametrize("api", SENDERS)
def test_a_prime_number_of_messages_and_a_remainder_are_counted_exactly(api):
    total_bytes = 23 * 1000 + 7

    sent = Sent(api=api, message_size_bytes=1000, total_bytes=total_bytes)

    assert sent.errors == []
    assert (sent.counts["calls"], sent.counts["payload_bytes"]) == (24, total_bytes)
    assert sent.counts["short_calls"] == 0
    assert len(sent.data) == total_bytes


@pytest.mark.parametrize("api", supported(MEMORY_APIS))
def test_a_verified_memory_sender_fills_each_message_from_its_place_in_the_stream(api):
    sent = Sent(api=api, message_size_bytes=1001, total_bytes=17 * 1001 + 5, verify=True)

    assert sent.data == pattern(17 * 1001 + 5)


@pytest.mark.parametrize("api", supported(["write", "send", "sendmsg", *FILE_APIS]))
def test_a_hot_source_is_the_same_message_again_and_again(api):
    sent = Sent(api=api, message_size_bytes=1000, total_bytes=3 * 1000 + 7)

    assert sent.data == pattern(1000) * 3 + pattern(7)
    assert sent.counts["passes"] == 3


@pytest.mark.parametrize("api", SENDERS)
def test_a_walk_goes_through_whole_messages_of_the_working_set_and_starts_again(api):
    sent = Sent(api=api, message_size_bytes=1000, working_set=5999, total_bytes=13 * 1000)

    walk = pattern(5000)
    assert sent.data[:5000] == walk
    if SENDER_APIS[api].takes_pool:
        # A buffer comes round when its notification has, and those may overtake each other.
        messages = {walk[start : start + 1000] for start in range(0, 5000, 1000)}
        assert {sent.data[start : start + 1000] for start in range(0, 13000, 1000)} == messages
    else:
        assert sent.data == (walk * 3)[:13000]
    assert sent.counts["passes"] == 2
    assert sent.counts["calls"] == 13


@pytest.mark.parametrize("api", supported(FILE_APIS))
def test_a_file_set_is_sent_file_after_file_each_to_its_end(api):
    sizes = files.extent_sizes("files=5;mean_size=1000;passes=1", 300)
    calls_of_a_pass = sum(-(-size // 300) for size in sizes)

    sent = Sent(
        api=api,
        message_size_bytes=300,
        working_set="files=5;mean_size=1000;passes=1",
        total_bytes=3 * 5000,
    )

    assert sizes == (500, 1500, 750, 1250, 1000)
    assert sent.data == pattern(5000) * 3
    assert (sent.counts["passes"], sent.counts["calls"]) == (3, 3 * calls_of_a_pass)


@pytest.mark.parametrize("fragments", [1, 2, 3, 17, 1000, 1001])
def test_sendmsg_gathers_a_message_from_any_number_of_fragments(fragments):
    sent = Sent(
        api="sendmsg",
        message_size_bytes=1001,
        fragments=fragments,
        total_bytes=11 * 1001 + 2,
        verify=True,
    )

    assert sent.data == pattern(11 * 1001 + 2)
    assert sent.counts["calls"] == 12


@pytest.mark.parametrize("api", supported(["msg_zerocopy", "io_uring_send_zc"]))
def test_every_zero_copy_send_is_completed_and_over_loopback_copied(api):
    sent = Sent(api=api, message_size_bytes=5000, total_bytes=3001 * 5000)

    assert sent.counts["calls"] == 3001
    assert sent.counts["completions"] == 3001
    assert sent.counts["copied"] == 3001


@pytest.mark.parametrize("api", supported(["msg_zerocopy", "io_uring_send_zc"]))
def test_a_pool_smaller_than_the_send_buffer_waits_for_its_buffers(api):
    sent = Sent(
        api=api,
        message_size_bytes=100_003,
        working_set=2 * 100_003,
        total_bytes=41 * 100_003,
        verify=True,
    )

    assert sent.errors == []
    assert sent.data == pattern(41 * 100_003)
    assert sent.counts["completions"] == sent.counts["calls"]


@pytest.mark.parametrize("api", SENDERS)
def test_a_sender_that_is_stopped_before_it_starts_sends_nothing(api):
    sent = Sent(stop_before=True, api=api, message_size_bytes=1000)

    assert sent.errors == []
    assert sent.counts["calls"] == 0
    assert sent.data == b""


@pytest.mark.parametrize("api", SENDERS)
def test_a_sender_whose_deadline_has_passed_sends_nothing(api):
    sent = Sent(longest_run_ns=0, api=api, message_size_bytes=1000)

    assert sent.errors == []
    assert sent.data == b""


@pytest.mark.parametrize("api", SENDERS)
def test_a_sender_that_nobody_stops_ends_at_its_deadline(api):
    started_s = time.monotonic()

    sent = Sent(longest_run_ns=50 * 10**6, api=api, message_size_bytes=100_000)

    assert sent.errors == []
    assert sent.counts["payload_bytes"] == len(sent.data) > 0
    assert time.monotonic() - started_s < 60


def test_a_file_that_has_become_shorter_ends_the_loop_with_a_sentence():
    options = SenderOptions(address=ADDRESS, ports=(1,), api="sendfile", message_size_bytes=1000)
    source = files.make_files([1000])
    source.files[0].truncate(600)
    counters = SharedCounters(1)

    with tcp_pair() as (one, other):
        collector = Collector(other)
        crew = Crew(sender_streams(options, [Line(0, one)], counters, source))
        errors = crew.run(MINUTE_NS)
        data = collector.result()
    source.files[0].close()

    assert errors == ["stream 0: sendfile: a source file has become shorter"]
    assert data == pattern(600)
    assert counters.read()["short_calls"] == 1


class Received:
    """What one receiver loop did with some bytes."""

    def __init__(self, data: bytes, **options):
        counters = SharedCounters(1)
        with tcp_pair() as (one, other):
            crew = Crew(receiver_streams(ReceiverOptions(**options), [Line(0, other)], counters))
            one.sendall(data)
            one.shutdown(socket.SHUT_WR)
            self.errors = crew.run(MINUTE_NS)
        self.counts = counters.read()
        self.mismatches = counters.mismatches()


@pytest.mark.parametrize("rx_api", supported(["recv", "recv_trunc", "splice_null"]))
@pytest.mark.parametrize("receive_size_bytes", [1, 1000, 262144])
def test_a_receiver_counts_every_byte_up_to_the_end_of_the_stream(rx_api, receive_size_bytes):
    received = Received(bytes(9973), rx_api=rx_api, receive_size_bytes=receive_size_bytes)

    assert received.errors == []
    assert received.counts["payload_bytes"] == 9973
    assert 9973 / receive_size_bytes <= received.counts["calls"] <= 9973


@pytest.mark.parametrize("receive_size_bytes", [1, 7, 4096])
def test_a_verifying_receiver_finds_nothing_wrong_with_the_pattern(receive_size_bytes):
    received = Received(pattern(10_007), verify=True, receive_size_bytes=receive_size_bytes)

    assert received.mismatches == (0, None)


def test_a_verifying_receiver_counts_wrong_bytes_and_names_the_first():
    data = bytearray(pattern(10_007))
    for offset in (4001, 4002, 9999):
        data[offset] ^= 0x10

    received = Received(bytes(data), verify=True, receive_size_bytes=777)

    assert received.mismatches == (3, 4001)


def test_a_verifying_receiver_follows_the_period_of_a_file():
    data = bytearray(pattern(1001) * 5)
    data[3 * 1001 + 4] ^= 1

    received = Received(bytes(data), verify=True, pattern_period_bytes=1001, receive_size_bytes=640)

    assert received.mismatches == (1, 3 * 1001 + 4)


def test_a_receiver_that_misses_a_byte_sees_nearly_all_the_others_as_wrong():
    data = pattern(4000)[:1000] + pattern(4000)[1001:]

    count, first = Received(data, verify=True).mismatches

    assert first == 1000
    assert count > 2900


@pytest.mark.parametrize(
    ("count", "offset"), [(1, 0), (8, 0), (23, 5), (64, 3), (1000, 8_000_000_001)]
)
def test_the_pattern_depends_on_the_offset_alone(count, offset):
    ffi, lib = native()
    data = bytearray(count)

    lib.zc_pattern_fill(ffi.from_buffer("uint8_t[]", data), count, offset)

    assert bytes(data) == pattern(count, offset)


def test_streams_are_summed_and_the_smallest_bad_offset_is_kept():
    counters = SharedCounters(3)
    for stream, (payload, bad, offset) in enumerate([(100, 0, 0), (20, 2, 900), (3, 1, 50)]):
        counters.of_stream(stream).payload_bytes = payload
        counters.of_stream(stream).mismatch_bytes = bad
        counters.of_stream(stream).first_bad_offset = offset
    counters.of_stream(1).state = native()[1].ZC_STATE_RUNNING

    assert counters.read()["payload_bytes"] == 123
    assert counters.read()["streams_running"] == 1
    assert counters.mismatches() == (3, 50)
