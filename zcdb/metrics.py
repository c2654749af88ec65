"""The registry of metrics: what zcdb can say about a case, in which unit, and which way is better.

A CPU metric is never without its method (`CPU_METHODS`); the other metrics
have the method `""`.  Values are kept in the base unit; pages convert.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from zcdb import units

Direction = Literal["higher", "lower", "neither"]

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
    ]
}


def format_value(name: str, value: float) -> str:
    """Return a metric's value for people, with its unit: `"11.5 Gbit/s"`, `"0.412 us/KB"`."""
    metric = METRICS[name]
    if metric.unit == "bit/s":
        return units.format_bps(value)
    if metric.unit == "ratio":
        return units.format_ratio(value)
    return f"{units.format_number(value)} {metric.unit}"
