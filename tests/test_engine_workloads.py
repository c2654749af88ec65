"""From edges to transactions, latencies, messages and losses: hand-made numbers."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from zcdb.engine.latency import Histogram, percentile_ranks
from zcdb.engine.native import native
from zcdb.engine.workloads import (
    DATAGRAM_NUMBER_BYTES,
    inapplicable,
    latencies,
    metrics_of,
)
from zcdb.metrics import METRICS


@dataclass
class FakeEdge:
    ends: dict[str, dict[str, int]]


def bucket(latency_ns: int) -> int:
    return native()[1].zc_latency_bucket(latency_ns)


def client(at_ns: int, latencies_ns: list[int]) -> dict[str, int]:
    """What a client reads after transactions of these latencies."""
    counts: dict[str, int] = {}
    for latency_ns in latencies_ns:
        name = f"latency_bucket_{bucket(latency_ns)}"
        counts[name] = counts.get(name, 0) + 1
    return {
        "at_ns": at_ns,
        "transactions": len(latencies_ns),
        "latency_sum_ns": sum(latencies_ns),
        "latency_squares_ns2": sum(latency_ns**2 for latency_ns in latencies_ns),
        **counts,
    }


def exchange(before: list[int], within: list[int]) -> dict[str, object]:
    edges = [
        FakeEdge({"sender": client(10**9, before)}),
        FakeEdge({"sender": client(3 * 10**9, before + within)}),
    ]
    values = metrics_of({"test": "rr"}, {"sender": edges, "receiver": edges})
    return {value.metric: value for value in values}


def test_only_the_transactions_of_the_window_count():
    within = [100_000] * 900 + [200_000] * 90 + [900_000] * 10

    values = exchange(before=[5_000_000] * 500, within=within)

    assert values["transaction_rate"].value == 500.0
    assert values["latency_mean"].value == pytest.approx(117e-6)
    assert values["latency_min"].value == pytest.approx(100e-6, rel=0.005)
    assert values["latency_p50"].value == pytest.approx(100e-6, rel=0.005)
    assert values["latency_p95"].value == pytest.approx(200e-6, rel=0.005)
    assert values["latency_p99"].value == pytest.approx(200e-6, rel=0.005)
    assert values["latency_p99_9"].value == pytest.approx(900e-6, rel=0.005)
    assert values["latency_max"].value == pytest.approx(900e-6, rel=0.005)


def test_the_deviation_is_that_of_the_latencies_themselves():
    values = exchange(before=[7], within=[100_000, 200_000, 300_000])

    assert values["latency_stddev"].value == pytest.approx(100e-6)


def test_too_few_transactions_give_no_high_percentile_and_say_how_many_it_takes():
    values = exchange(before=[], within=[1000] * 99)

    assert values["latency_p95"].value is not None
    assert values["latency_p99"].value is None
    assert values["latency_p99"].reason == (
        "99 transactions are too few: it takes 100 to have one above"
    )


def test_a_window_without_a_transaction_has_a_rate_of_0_and_no_latency():
    values = exchange(before=[1000], within=[])

    assert values["transaction_rate"].value == 0.0
    assert {values[name].reason for name in values if name.startswith("latency_")} == {
        "no transaction ended within the window"
    }


def test_one_transaction_has_no_deviation():
    values = exchange(before=[], within=[1000])

    assert values["latency_mean"].value == 1e-6
    assert values["latency_stddev"].value is None


def test_the_histogram_of_a_window_can_be_had_by_itself():
    edges = [
        FakeEdge({"sender": client(0, [50])}),
        FakeEdge({"sender": client(1, [50, 70, 70])}),
    ]

    assert latencies(edges).counts == {70: 2}


def datagrams(message_size: int, sent: int, received: int, lost: int) -> dict[str, float | None]:
    start = {"at_ns": 0, "datagrams": 0, "lost": 0}
    sender = [{"at_ns": 10**9, "datagrams": sent, "lost": 0}]
    receiver = [{"at_ns": 2 * 10**9, "datagrams": received, "lost": lost}]
    edges = {
        "sender": [FakeEdge({"sender": start}), FakeEdge({"sender": sender[0]})],
        "receiver": [FakeEdge({"receiver": start}), FakeEdge({"receiver": receiver[0]})],
    }
    factors = {"api": "send", "protocol": "udp", "message_size": message_size}
    return {value.metric: value.value for value in metrics_of(factors, edges)}


def test_lost_datagrams_are_those_whose_numbers_the_receiver_never_saw():
    values = datagrams(100, sent=1000, received=900, lost=100)

    assert values == {"message_rate": 450.0, "loss": 0.1}


def test_datagrams_too_short_for_a_number_are_counted_at_both_ends():
    assert datagrams(7, sent=1000, received=750, lost=0)["loss"] == 0.25
    assert datagrams(7, sent=1000, received=1001, lost=0)["loss"] == 0.0


def test_without_a_datagram_there_is_no_loss_to_speak_of():
    assert datagrams(100, sent=0, received=0, lost=0)["loss"] is None


def test_datagrams_carry_a_number_from_the_size_on_that_the_loops_know():
    assert native()[1].ZC_DATAGRAM_NUMBER_BYTES == DATAGRAM_NUMBER_BYTES


def test_messages_of_a_stream_are_its_bytes_by_their_size():
    edges = [
        FakeEdge({"sender": {}, "receiver": {"at_ns": 0, "payload_bytes": 0}}),
        FakeEdge({"sender": {}, "receiver": {"at_ns": 5 * 10**8, "payload_bytes": 64_000}}),
    ]

    (value,) = metrics_of({"api": "send", "message_size": 64}, {"sender": edges, "receiver": edges})

    assert (value.metric, value.value) == ("message_rate", 2000.0)


def test_a_receiver_that_maps_says_which_share_of_the_payload_it_mapped():
    first = {"at_ns": 0, "payload_bytes": 1000, "mapped_bytes": 1000}
    last = {"at_ns": 10**9, "payload_bytes": 9000, "mapped_bytes": 3000}
    edges = [FakeEdge({"sender": {}, "receiver": reading}) for reading in (first, last)]
    factors = {"api": "msg_zerocopy", "rx_api": "zerocopy_receive"}

    values = metrics_of(factors, {"sender": edges, "receiver": edges})

    assert {value.metric: value.value for value in values}["mapped_share"] == 0.25


@pytest.mark.parametrize(
    ("factors", "names"),
    [
        ({"api": "send"}, set()),
        ({"api": "send", "protocol": "udp"}, {"retransmits"}),
        (
            {"test": "rr"},
            {
                *("throughput", "sent_throughput", "copied_share"),
                *("service_demand_sender", "service_demand_receiver"),
            },
        ),
    ],
)
def test_metrics_that_a_test_cannot_have_are_named_with_the_reason(factors, names):
    found = inapplicable(factors)

    assert set(found) == names
    assert all(found.values())


def test_every_name_is_in_the_registry_of_metrics():
    names = {*exchange([], [1000]), *datagrams(100, 10, 10, 0), *inapplicable({"test": "crr"})}

    assert names | {"mapped_share"} <= set(METRICS)


# -- percentiles -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "share", "ranks"), [(6, 0.5, (1, 6)), (9, 0.5, (2, 8)), (20, 0.5, (6, 15))]
)
def test_the_interval_of_a_median_uses_published_ranks(count, share, ranks):
    assert percentile_ranks(count, share) == ranks


def test_too_few_transactions_for_an_interval_are_an_error():
    with pytest.raises(ValueError, match="too few for an interval"):
        percentile_ranks(100, 0.999)


@pytest.mark.parametrize(("count", "share"), [(500, 0.9), (2000, 0.9), (20_000, 0.99)])
def test_an_interval_covers_the_percentile_as_often_as_it_says(count, share):
    chance = random.Random(2001)
    low, high = percentile_ranks(count, share)

    covered = 0
    for _ in range(400):
        # The ranks of uniform numbers: their percentile is the share itself.
        below = (
            sum(chance.random() < share for _ in range(count))
            if count < 5000
            else round(chance.gauss(count * share, (count * share * (1 - share)) ** 0.5))
        )
        covered += low <= below < high
    assert 0.92 <= covered / 400 <= 0.985


def test_an_interval_of_a_histogram_lies_around_its_percentile():
    counts = {bucket(1000 * step): 100 for step in range(1, 101)}
    histogram = Histogram(dict(sorted(counts.items())))

    low, high = histogram.percentile_interval_s(0.9)

    assert low <= histogram.percentile_s(0.9) <= high
    assert 0 < high - low < 5e-6


@pytest.mark.parametrize("rank", [0, 4])
def test_a_rank_that_is_not_there_is_an_error(rank):
    with pytest.raises(ValueError, match="is none of 3"):
        Histogram({5: 3}).value_s(rank)
