"""What tests other than a plain stream measure: transactions, latencies, messages, losses.

Pure: from the same two edges as every other metric of the trial.  A metric that
a test cannot have is None with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from zcdb.engine.latency import Histogram
from zcdb.factors import Factors, with_defaults
from zcdb.records import End, MetricValue

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}
"""Name after `latency_` -> share of the transactions."""

DATAGRAM_NUMBER_BYTES = 8
"""Datagrams that are shorter carry no number (`hotloops_api.h`)."""

_NO_TRANSACTION = "no transaction ended within the window"


class EdgeLike(Protocol):
    """What is needed of an edge of the window."""

    @property
    def ends(self) -> Mapping[End, Mapping[str, int]]:
        """What each endpoint counted, with `at_ns`, when it was read."""


def metrics_of(factors: Factors, edges: Mapping[End, Sequence[EdgeLike]]) -> list[MetricValue]:
    """Return the metrics that a trial's kind of test has beside those of every stream.

    Args:
        factors: declared factors; what is missing has its default.
        edges: each end's edges of the window alone, the discarded ones left out.

    Returns:
        rr, crr: transaction_rate and latency_*; streams: message_rate; udp also loss,
        zerocopy_receive mapped_share.
    """
    factors = with_defaults(factors)
    if factors["test"] != "stream":
        first, last = edges["sender"][0].ends["sender"], edges["sender"][-1].ends["sender"]
        return _exchange_metrics(first, last)
    grown = {end: _grown(edges[end], end) for end in edges}
    if factors["protocol"] == "udp":
        return _datagram_metrics(int(factors["message_size"]), grown)
    received = grown["receiver"]
    messages = received["payload_bytes"] / int(factors["message_size"])
    rate = MetricValue("message_rate", "", messages * 10**9 / received["at_ns"])
    return [rate, _mapped_share(received)] if "mapped_bytes" in received else [rate]


def inapplicable(factors: Factors) -> dict[str, str]:
    """Return the metrics of a plain stream that a test cannot have, each with the reason."""
    factors = with_defaults(factors)
    test = factors["test"]
    if test != "stream":
        names = ["throughput", "sent_throughput", "service_demand_sender"]
        reasons = dict.fromkeys(
            [*names, "service_demand_receiver", "copied_share"],
            f"test = {test!r} counts transactions, not bytes that flow one way",
        )
        if test == "crr":
            reasons["retransmits"] = "connections that last for one exchange cannot be asked"
        return reasons
    if factors["protocol"] == "udp":
        return {"retransmits": "udp sends nothing again"}
    return {}


def latencies(edges: Sequence[EdgeLike]) -> Histogram:
    """Return the histogram of an exchange's window, from the client's edges."""
    return Histogram.between(edges[0].ends["sender"], edges[-1].ends["sender"])


def _grown(edges: Sequence[EdgeLike], end: End) -> dict[str, int]:
    first, last = edges[0].ends[end], edges[-1].ends[end]
    return {name: last[name] - first[name] for name in first}


def _exchange_metrics(first: Mapping[str, int], last: Mapping[str, int]) -> list[MetricValue]:
    histogram = Histogram.between(first, last)
    window_ns = last["at_ns"] - first["at_ns"]
    count = last["transactions"] - first["transactions"]
    rate = MetricValue("transaction_rate", "", count * 10**9 / window_ns)
    if not histogram.total or not count:
        names = ["min", "mean", "max", "stddev", *PERCENTILES]
        return [
            rate,
            *(MetricValue(f"latency_{name}", "", None, _NO_TRANSACTION) for name in names),
        ]
    mean_ns = (last["latency_sum_ns"] - first["latency_sum_ns"]) / count
    squares_ns2 = last["latency_squares_ns2"] - first["latency_squares_ns2"]
    return [
        rate,
        MetricValue("latency_min", "", histogram.value_s(1)),
        MetricValue("latency_mean", "", mean_ns / 10**9),
        MetricValue("latency_max", "", histogram.value_s(histogram.total)),
        _stddev(count, mean_ns, squares_ns2),
        *(_percentile(histogram, name, share) for name, share in PERCENTILES.items()),
    ]


def _stddev(count: int, mean_ns: float, squares_ns2: int) -> MetricValue:
    if count < 2:
        return MetricValue("latency_stddev", "", None, "one transaction has no deviation")
    # The sums are read one after another while they grow, and rounded.
    variance = max(0.0, squares_ns2 - count * mean_ns**2) / (count - 1)
    return MetricValue("latency_stddev", "", math.sqrt(variance) / 10**9)


def _percentile(histogram: Histogram, name: str, share: float) -> MetricValue:
    needed = round(1 / (1 - share))
    if histogram.total < needed:
        reason = f"{histogram.total} transactions are too few: it takes {needed} to have one above"
        return MetricValue(f"latency_{name}", "", None, reason)
    return MetricValue(f"latency_{name}", "", histogram.percentile_s(share))


def _mapped_share(received: Mapping[str, int]) -> MetricValue:
    if not received["payload_bytes"]:
        return MetricValue("mapped_share", "", None, "no payload arrived within the window")
    return MetricValue("mapped_share", "", received["mapped_bytes"] / received["payload_bytes"])


def _datagram_metrics(
    message_size: int, grown: Mapping[End, Mapping[str, int]]
) -> list[MetricValue]:
    received = grown["receiver"]
    rate = received["datagrams"] * 10**9 / received["at_ns"]
    return [
        MetricValue("message_rate", "", rate),
        _loss(message_size, grown["sender"], received),
    ]


def _loss(message_size: int, sent: Mapping[str, int], received: Mapping[str, int]) -> MetricValue:
    if message_size >= DATAGRAM_NUMBER_BYTES:
        # What the receiver misses is exact; what the sender counts is partly on its way.
        missing, expected = received["lost"], received["lost"] + received["datagrams"]
    else:
        missing, expected = max(0, sent["datagrams"] - received["datagrams"]), sent["datagrams"]
    if not expected:
        return MetricValue("loss", "", None, "no datagram was sent within the window")
    return MetricValue("loss", "", max(0, missing) / expected)
