"""The registry of metrics: what zcdb can say about a case, in which unit, and which way is better.

A CPU metric is never without its method (`CPU_METHODS`); the other metrics
have the method `""`.  Values are kept in the base unit; pages convert.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from zcdb import units

Direction = Literal["higher", "lower", "neither"]
End = Literal["sender", "receiver"]

CPU_METHODS: dict[str, str] = {
    "soak": "the gap estimator: time during which something else had the CPU of an idle soaker",
    "soak_work": "2001's formula: work the soaker lost against its idle rate;"
    " also feels cache and memory contention",
    "procstat": "the kernel's tick accounting in /proc/stat",
    "rusage": "CPU time of the endpoint processes alone; interrupt work done for others is missing",
    "perf": "hardware counters",
}
"""Method name -> what it says, the headline first.  Part of the key of every CPU number."""

HEADLINE_CPU_METHOD = "soak"


@dataclass(frozen=True, slots=True)
class Metric:
    """One thing that is measured.

    Attributes:
        unit: base unit, as written beside numbers ("bit/s", "CPUs", "us/KB").
        better: which direction is better; "neither" for context.
        has_method: True for CPU metrics, whose key includes the CPU method.
        end: "sender", "receiver" or None where the metric belongs to the trial.
        formula: how it is got from raw counts, in words.
    """

    name: str
    label: str
    unit: str
    better: Direction
    help: str
    formula: str
    has_method: bool = False
    end: Literal["sender", "receiver"] | None = None


PERCENTILES = (
    *("1", "5", "10", "25", "50", "75", "80", "90", "95", "99"),
    *("99_5", "99_9", "99_95", "99_99", "99_999", "99_9999"),
)
"""Percentiles of a latency that have a metric; an underscore stands for the decimal point."""


def _latency(name: str, label: str, formula: str) -> Metric:
    help = f"{label}; what it spans is the factor latency_kind."
    return Metric(f"latency_{name}", label, "s", "lower", help, formula)


_END_OF_ROLE: dict[str, End] = {"client": "sender", "server": "receiver"}


def _roles(name: str, label: str, unit: str, help: str, formula: str) -> list[Metric]:
    """Return a CPU metric of client and server: the sender sends the requests."""
    return [
        Metric(f"{name}_{role}", f"{label}, {role}", unit, "lower", help, formula, True, end)
        for role, end in _END_OF_ROLE.items()
    ]


def _ends(
    name: str,
    label: str,
    unit: str,
    better: Direction,
    help: str,
    formula: str,
) -> list[Metric]:
    return [
        Metric(f"{name}_{end}", f"{label}, {end}", unit, better, help, formula, True, end)
        for end in ("sender", "receiver")
    ]


def _host_ends(name: str, label: str, unit: str, help: str, formula: str) -> list[Metric]:
    """Return a metric of each end's host that is no CPU time."""
    ends: tuple[End, ...] = ("sender", "receiver")
    return [
        Metric(f"{name}_{end}", f"{label}, {end}", unit, "lower", help, formula, False, end)
        for end in ends
    ]


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in [
        Metric(
            "throughput",
            "Throughput",
            "bit/s",
            "higher",
            "Payload bits per second that the receiving application got.",
            "payload bytes read by the receiver in the window × 8 ÷ window,"
            " by the receiver's clock",
        ),
        *_ends(
            "service_demand",
            "Service demand",
            "us/KB",
            "lower",
            "CPU time per KB (1024 bytes) of payload; the field's measure of cost.",
            "CPU time of the end in the window ÷ payload KB the receiver read in the window",
        ),
        *_ends(
            "utilisation",
            "CPU utilisation",
            "CPUs",
            "lower",
            "CPU-seconds used per second: 1.0 is one CPU busy.",
            "CPU time of the end in the window ÷ window",
        ),
        *_ends(
            "contention",
            "Contention",
            "CPUs",
            "lower",
            "Work the soaker lost while it had the CPU: cache, memory and clock effects.",
            "utilisation by soak_work − utilisation by soak",
        ),
        Metric(
            "copied_share",
            "Copied share",
            "ratio",
            "lower",
            "Share of zero-copy completions for which the kernel says it copied after all.",
            "copied completions ÷ completions",
        ),
        Metric(
            "call_rate",
            "Calls",
            "1/s",
            "neither",
            "Calls of the sender API per second.",
            "sender calls in the window ÷ window",
        ),
        Metric(
            "sent_throughput",
            "Sent throughput",
            "bit/s",
            "neither",
            "Payload bits per second that the sender handed to the kernel.",
            "bytes the kernel took in the window × 8 ÷ window, by the sender's clock",
        ),
        Metric(
            "retransmits",
            "Retransmits",
            "segments",
            "lower",
            "TCP segments sent again during the trial.",
            "TCP_INFO total_retrans of the sender's sockets at the end of the window"
            " − at its start",
        ),
        Metric(
            "transaction_rate",
            "Transactions",
            "1/s",
            "higher",
            "Requests answered per second.",
            "answers read by the client in the window ÷ window",
        ),
        *_roles(
            "transaction_demand",
            "CPU per transaction",
            "us/transaction",
            "CPU time per transaction.",
            "CPU time of the end in the window ÷ answers in the window",
        ),
        *_roles(
            "utilisation",
            "CPU utilisation",
            "CPUs",
            "CPU-seconds used per second by an end of an exchange: 1.0 is one CPU busy.",
            "CPU time of the end in the window ÷ window",
        ),
        _latency("min", "Shortest latency", "shortest transaction of the window"),
        _latency("mean", "Mean latency", "sum of the latencies ÷ transactions of the window"),
        _latency("max", "Longest latency", "longest transaction of the window"),
        _latency(
            "stddev", "Standard deviation of the latency", "over the transactions of the window"
        ),
        *(
            _latency(
                f"p{percent}",
                f"{percent.replace('_', '.')}th percentile of the latency",
                "from the histogram of the window's transactions, buckets of 1 %",
            )
            for percent in PERCENTILES
        ),
        Metric(
            "message_rate",
            "Messages",
            "1/s",
            "higher",
            "Messages per second that the receiver got.",
            "messages in the window ÷ window",
        ),
        Metric(
            "packet_rate",
            "Packets",
            "1/s",
            "neither",
            "Datagrams or packets per second.",
            "packets in the window ÷ window",
        ),
        *_ends(
            "packet_demand",
            "CPU per packet",
            "us/packet",
            "lower",
            "CPU time per packet on the interface.",
            "CPU time of the end in the window ÷ packets that passed its interface",
        ),
        Metric(
            "tcp_rtt",
            "Round-trip time of TCP",
            "s",
            "neither",
            "Mean of the round-trip time that TCP itself estimates.",
            "TCP_INFO rtt, mean over the sender's sockets",
        ),
        Metric(
            "jitter",
            "Jitter",
            "s",
            "lower",
            "Mean deviation of the packet spacing, as in RFC 1889.",
            "as the tool prints it",
        ),
        Metric(
            "loss",
            "Loss",
            "ratio",
            "lower",
            "Datagrams lost over datagrams sent.",
            "1 − datagrams received ÷ datagrams sent",
        ),
        *_ends(
            "cycles_per_byte",
            "Cycles per byte",
            "cycles/byte",
            "lower",
            "CPU cycles per payload byte, by hardware counters.",
            "cycles of the end's CPUs in the window ÷ payload bytes the receiver read",
        ),
        *_ends(
            "machine_utilisation",
            "Share of the machine",
            "ratio",
            "lower",
            "CPU time used over all that the end's machine has; of sources that do not say how"
            " many CPUs it has.",
            "as the source states it",
        ),
        Metric(
            "proven_zero_copy_share",
            "Proven zero copy",
            "ratio",
            "higher",
            "Share of the sent bytes of which it is proven that the sender did not copy them.",
            "1 − copied ÷ completed bytes where the kernel's reports or the path's offloads prove"
            " it; 0 for an API that copies; none where nothing proves either",
        ),
        Metric(
            "frame_size_sent",
            "Frame size sent",
            "B",
            "neither",
            "Mean size of what the sender's interface sent at once; with segmentation offload"
            " larger than a frame of the wire.",
            "bytes ÷ packets that the sender's interface sent in the window",
        ),
        Metric(
            "frame_size_received",
            "Frame size received",
            "B",
            "neither",
            "Mean size of what the sender's interface received at once: mostly acknowledgements.",
            "bytes ÷ packets that the sender's interface received in the window",
        ),
        Metric(
            "acks_per_mb",
            "ACKs per MB",
            "1/MiB",
            "neither",
            "Segments without data that the sender's sockets received, per MB (1024 × 1024 bytes)"
            " of payload.",
            "(TCP_INFO segs_in − data_segs_in) of the sender's sockets ÷ payload MB",
        ),
        Metric(
            "rwnd_limited_share",
            "Limited by the receive window",
            "ratio",
            "neither",
            "Share of the window in which the sender waited for the receiver's window.",
            "TCP_INFO rwnd_limited of the sender's sockets ÷ window ÷ sockets",
        ),
        Metric(
            "sndbuf_limited_share",
            "Limited by the send buffer",
            "ratio",
            "neither",
            "Share of the window in which the sender waited for room in its send buffer.",
            "TCP_INFO sndbuf_limited of the sender's sockets ÷ window ÷ sockets",
        ),
        Metric(
            "qdisc_drops",
            "Dropped by the qdisc",
            "packets",
            "lower",
            "Packets that the queueing discipline of the sender's interface dropped.",
            "drops of all qdiscs of the sender's interfaces, window's end − start",
        ),
        *_host_ends(
            "interrupts_per_packet",
            "Interrupts per packet",
            "1/packet",
            "Interrupts of the interface per packet on it: how well they are coalesced.",
            "interrupts of the interface's device ÷ packets sent and received",
        ),
        *_host_ends(
            "interrupt_rate",
            "Interrupts",
            "1/s",
            "Interrupts of all kinds per second on the end's host.",
            "/proc/stat intr, per second of the window",
        ),
        *_host_ends(
            "context_switch_rate",
            "Context switches",
            "1/s",
            "Context switches per second on the end's host, those to the soakers included.",
            "/proc/stat ctxt, per second of the window",
        ),
        *_host_ends(
            "softnet_drops",
            "Dropped before the stack",
            "packets",
            "Packets that found a CPU's backlog full on the end's host.",
            "/proc/net/softnet_stat dropped, window's end − start",
        ),
        *_host_ends(
            "softnet_squeezes",
            "Squeezed polls",
            "polls",
            "Polls on the end's host that ran out of budget or time with packets left over.",
            "/proc/net/softnet_stat time_squeeze, window's end − start",
        ),
        Metric(
            "mapped_share",
            "Mapped share",
            "ratio",
            "higher",
            "Share of the payload that a zerocopy_receive receiver mapped instead of copying.",
            "bytes mapped by the receiver ÷ payload bytes it read",
        ),
    ]
}


def format_value(name: str, value: float) -> str:
    """Return a metric's value for people, with its unit: `"11.5 Gbit/s"`, `"0.412 us/KB"`."""
    metric = METRICS[name]
    if metric.unit == "bit/s":
        return units.format_bps(value)
    if metric.unit == "ratio":
        return units.format_ratio(value)
    if metric.unit == "s":
        return units.format_duration(value * 10**9)
    return f"{units.format_number(value)} {metric.unit}"
