"""Exchanges of requests and responses: over one connection (rr), or one for each (crr)."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import threading
import time

import pytest
from engine_support import ADDRESS, running, wait_until

from zcdb.engine.counters import SharedCounters
from zcdb.engine.endpoint import ReceiverOptions, SenderOptions, start_receiver, start_sender
from zcdb.engine.jobs import Line, sender_streams
from zcdb.engine.latency import Histogram, bucket_bounds_ns
from zcdb.engine.native import native
from zcdb.engine.streams import Crew
from zcdb.errors import EngineError

TOKEN = "0123456789abcdef" * 2


def histogram(reading: dict[str, int]) -> Histogram:
    return Histogram.between({}, reading)


@pytest.mark.parametrize("test", ["rr", "crr"])
@pytest.mark.parametrize(("request_size", "response_size"), [(1, 1), (1000, 70_001), (70_001, 3)])
def test_every_request_is_answered_and_counted_at_both_ends(test, request_size, response_size):
    factors = {"test": test, "request_size": request_size, "response_size": response_size}
    with running(**factors) as (client, server):
        wait_until(lambda: client.reading()["transactions"] > 50)
        ends = client.stop(), server.stop()

    done = ends[0].totals["transactions"]
    assert [end.errors for end in ends] == [[], []]
    assert ends[1].totals["transactions"] == done
    assert [end.totals["payload_bytes"] for end in ends] == [done * request_size] * 2
    assert histogram(ends[0].totals).total == done
    assert ends[1].totals["refused"] == 0


@pytest.mark.parametrize(
    ("burst", "request_size", "response_size"), [(1, 1, 1), (63, 100, 100), (40, 300_000, 300_000)]
)
def test_a_burst_of_requests_in_flight_ends_in_order(burst, request_size, response_size):
    factors = {"burst": burst, "request_size": request_size, "response_size": response_size}
    with running(test="rr", **factors) as (client, server):
        wait_until(lambda: client.reading()["transactions"] > 3 * burst)
        ends = client.stop(), server.stop()

    assert [end.errors for end in ends] == [[], []]
    assert ends[0].totals["transactions"] == ends[1].totals["transactions"]
    # A request that was only half sent when it stopped is no request.
    assert ends[1].totals["payload_bytes"] == ends[1].totals["transactions"] * request_size


@pytest.mark.parametrize("test", ["rr", "crr"])
def test_many_flows_are_summed(test):
    with running(test=test, streams=16) as (client, server):
        wait_until(lambda: client.reading()["transactions"] > 500)
        running_now = client.reading()["streams_running"]
        ends = client.stop(), server.stop()

    assert running_now == 16
    assert [end.errors for end in ends] == [[], []]
    assert ends[0].totals["transactions"] == ends[1].totals["transactions"]
    assert histogram(ends[0].totals).total == ends[0].totals["transactions"]


def test_what_happened_between_two_readings_is_their_difference():
    with running(test="rr") as (client, server):
        wait_until(lambda: client.reading()["transactions"] > 100)
        first = client.reading()
        wait_until(lambda: client.reading()["transactions"] > first["transactions"] + 100)
        last = client.reading()
        client.stop()
        server.stop()

    between = Histogram.between(first, last)
    grown = last["transactions"] - first["transactions"]
    assert abs(between.total - grown) <= 2  # one may end while a reading is made
    assert between.value_s(1) <= between.percentile_s(0.5) <= between.value_s(between.total)


def slow_server(pause_s: float) -> tuple[socket.socket, threading.Thread]:
    """A server of 1-byte requests that lets each wait for a while, until the client is gone."""
    listener = socket.create_server((ADDRESS, 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            while connection.recv(1):
                time.sleep(pause_s)
                connection.send(b"r")

    thread = threading.Thread(target=serve)
    thread.start()
    return listener, thread


def test_a_latency_is_at_least_what_the_server_takes():
    listener, thread = slow_server(pause_s=0.02)
    options = SenderOptions(test="rr", address=ADDRESS, ports=(listener.getsockname()[1],))
    client = start_sender(options)
    client.go()
    wait_until(lambda: client.reading()["transactions"] >= 5)
    end = client.stop()
    thread.join(60)
    listener.close()

    latencies, count = histogram(end.totals), end.totals["transactions"]
    low, _ = bucket_bounds_ns(min(latencies.counts))
    assert low >= 0.0198 * 10**9
    assert end.totals["latency_sum_ns"] >= count * 0.02 * 10**9
    assert end.totals["latency_squares_ns2"] >= count * (0.02 * 10**9) ** 2 * 0.999


def test_no_reading_of_a_stream_has_what_only_exchanges_count():
    with running(api="send", total_bytes=10) as (sender, receiver):
        names = {*sender.stop().totals, *receiver.stop().totals}

    assert not {name for name in names if "transaction" in name or "latency" in name}


def test_an_exchange_nagles_unless_told_otherwise_at_both_ends():
    with running(test="rr", tcp_nodelay=True, request_size=100, burst=4) as (client, server):
        wait_until(lambda: client.reading()["transactions"] > 10)
        assert server.reading()["streams_running"] == 1
        sockets = [end._sockets[0] for end in (client, server)]
        delays = [one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for one in sockets]
        client.stop()
        server.stop()

    assert delays == [1, 1]


def test_a_client_whose_server_dies_says_so():
    with running(test="rr") as (client, server):
        wait_until(lambda: client.reading()["transactions"] > 0)
        server.kill()
        wait_until(lambda: client.has_ended)
        end = client.stop()

    assert end.errors in (["stream 0: rr: Connection reset by peer"], ["stream 0: rr: Broken pipe"])


def test_a_crr_client_whose_server_dies_says_so():
    with running(test="crr") as (client, server):
        wait_until(lambda: client.reading()["transactions"] > 0)
        server.kill()
        wait_until(lambda: client.has_ended)
        end = client.stop()

    assert len(end.errors) == 1
    assert end.errors[0].startswith("stream 0: crr: Connection re")


def test_a_crr_server_without_a_client_is_stopped_at_once():
    server = start_receiver(ReceiverOptions(test="crr", address=ADDRESS))
    started_s = time.monotonic()
    end = server.stop(timeout_s=30)

    assert end.errors == []
    assert time.monotonic() - started_s < 15


def test_a_crr_server_ends_connections_without_the_token_and_counts_them():
    server = start_receiver(ReceiverOptions(test="crr", address=ADDRESS, token=TOKEN))
    with socket.create_connection((ADDRESS, server.ports[0])) as stranger:
        stranger.sendall(TOKEN[:-1].encode() + b"X")
        answer = stranger.recv(100)
    client = start_sender(
        SenderOptions(test="crr", address=ADDRESS, ports=tuple(server.ports), token=TOKEN)
    )
    client.go()
    wait_until(lambda: client.reading()["transactions"] > 20)
    ends = client.stop(), server.stop()

    assert answer == b""
    assert [end.errors for end in ends] == [[], []]
    assert ends[1].totals["refused"] == 1
    assert ends[0].totals["transactions"] == ends[1].totals["transactions"]


def test_a_crr_client_comes_from_the_address_it_is_bound_to():
    server = start_receiver(ReceiverOptions(test="crr", address=ADDRESS))
    options = SenderOptions(
        test="crr", address=ADDRESS, ports=tuple(server.ports), bind_address="127.0.0.7"
    )
    client = start_sender(options)
    client.go()
    wait_until(lambda: client.reading()["transactions"] > 20)
    ends = client.stop(), server.stop()

    assert [end.errors for end in ends] == [[], []]


def test_an_exchange_stopped_before_it_began_did_nothing():
    counters = SharedCounters(1, ("transactions",), has_histograms=True)
    counters.stop()
    with socket.create_server((ADDRESS, 0)) as listener:
        port = listener.getsockname()[1]
        options = SenderOptions(test="crr", address=ADDRESS, ports=(port,))
        errors = Crew(sender_streams(options, [Line(0, None)], counters, None)).run(10**9)

    assert errors == []
    assert counters.read()["transactions"] == 0


def test_a_killed_client_is_one_sentence_and_its_server_goes_on_to_the_end():
    with running(test="rr") as (client, server):
        wait_until(lambda: client.reading()["transactions"] > 0)
        os.kill(client.pid, signal.SIGKILL)
        with pytest.raises(EngineError, match="was killed by SIGKILL"):
            client.stop()
        end = server.stop()

    assert end.totals["transactions"] > 0


# -- the buckets -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "latency_ns",
    [0, 1, 127, 128, 129, 255, 256, 257, 1000, 65_535, 65_536, 10**6, 123_456_789, 2 * 10**9],
)
def test_a_latency_falls_into_a_bucket_of_less_than_a_hundredth_of_it(latency_ns):
    _, lib = native()

    bucket = lib.zc_latency_bucket(latency_ns)
    low, high = bucket_bounds_ns(bucket)

    assert low <= latency_ns < high
    assert high - low <= max(1, latency_ns / 128)


def test_what_takes_longer_than_all_buckets_is_in_the_last_one():
    _, lib = native()

    assert lib.zc_latency_bucket(2**63) == lib.ZC_LATENCY_BUCKETS - 1
    assert bucket_bounds_ns(lib.ZC_LATENCY_BUCKETS - 1)[1] == 2**37


def test_buckets_follow_each_other_without_a_gap():
    _, lib = native()
    bounds = [bucket_bounds_ns(bucket) for bucket in range(lib.ZC_LATENCY_BUCKETS)]

    assert all(one[1] == next_one[0] for one, next_one in itertools.pairwise(bounds))


# -- what cannot work ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"test": "rr", "api": "sendfile"}, "test = 'rr' runs with api = 'send' only"),
        ({"test": "crr", "burst": 2}, "test = 'crr' runs with burst = 0 only, not 2"),
        ({"test": "rr", "protocol": "udp"}, "test = 'rr' runs with protocol = 'tcp' only"),
        ({"test": "stream", "burst": 1}, "burst = 1 needs test = 'rr'"),
        ({"test": "ping"}, "'ping' is not one of stream, rr, crr"),
        ({"test": "rr", "request_size_bytes": 0}, "request_size must be at least 1"),
    ],
)
def test_an_exchange_that_cannot_be_is_refused(values, said):
    with pytest.raises(EngineError) as caught:
        SenderOptions.from_dict({"ports": [1], **values})

    assert said in caught.value.message
