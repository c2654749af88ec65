"""The words of the founding tables: flags, APIs, CPU methods, roles, units and context keys.

Everything a file of `runs/history/` may say is listed here; the reader refuses the rest.  Scaling
factors come from `zcdb.units`.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from zcdb import units
from zcdb.metrics import METRICS

End = Literal["sender", "receiver"]


PERCENT = "%"
"""Unit of a utilisation whose machine has no stated CPU count: percent of that machine."""

API_FACTORS: dict[str, str | None] = {
    "sendfile": "sendfile",
    "send": "send",
    "write": "write",
    "write (tcp_sendmsg)": "write",
    "read-write": "read_write",
    "send/write": "send_or_write",
    "receive": "receive",
    "nfs-read": "nfs_read",
    "request-response": None,
}
"""The documents' words for how bytes move -> the factor `api`, None where it has no such value."""

CPU_METHODS: dict[str, str] = {
    "subtractive cycle soaker (what is left over)": "soak_work",
    (
        "subtractive cycle soaker, one per CPU, network code SCHED_FIFO or interrupt context"
    ): "soak_work",
    "cyclesoak (subtractive)": "soak_work",
    "cycle soaker": "soak_work",
    "slow-down of a low-priority process": "soak_work",
    "netperf -c -C": "procstat",
    "netperf -c (local); perf stat": "procstat",
    "times() inside ttcp (bogus)": "rusage",
    "times() inside ttcp-sf (bogus)": "rusage",
    "top": "rusage",
}
"""How the documents say CPU time was measured -> the nearest CPU method of the registry."""

ENDS_OF_ROLE: dict[str, tuple[End, ...]] = {
    "sender": ("sender",),
    "server": ("sender",),
    "end-to-end (sender = server)": ("sender",),
    "receiver": ("receiver",),
    "client": ("receiver",),
    "client (Xeon)": ("sender",),
    "sender and receiver": ("sender",),
    "sender and receiver on one host": ("sender", "receiver"),
    "client and server on one host": ("sender", "receiver"),
    "host": (),
    "host (disk)": (),
}
"""Role of the measured machine -> the ends it is; in these tables an NFS client receives, a
request/response client sends first, and "sender and receiver" describes the sender and has the
receiver as its peer."""

_HISTORIC_UNITS: dict[str, str] = {
    "transaction_rate": "1/s",
    "latency_p50": "s",
    "latency_p90": "s",
    "latency_p95": "s",
    "latency_p99": "s",
    "elapsed": "s",
    "cycles_per_byte_sender": "cycles/byte",
    "cycles_cpu0": "cycles",
    "cycles_cpu1": "cycles",
    "interrupt_rate": "1/s",
    "packet_rate": "1/s",
    "interrupts_per_packet": "1",
    "memory_write_bandwidth": "byte/s",
    "memory_read_bandwidth": "byte/s",
    "disk_block_write": "byte/s",
    "average_rx_packet_size": "bytes",
    "tx_frame_size": "bytes",
}
BASE_UNITS: dict[str, str] = {
    name: METRICS[name].unit
    for name in (
        "throughput",
        "utilisation_sender",
        "utilisation_receiver",
        "service_demand_sender",
        "service_demand_receiver",
    )
} | _HISTORIC_UNITS
"""Metric of a historic value -> its base unit; the registry's metrics first."""

_BYTE_RATES = {
    "kBps": "K",
    "KByte/s": "K",
    "MBps": "M",
    "MB/s": "M",
    "MByte/s": "M",
    "Mbyte/s": "M",
    "mbyte/sec": "M",
    "mbytes/sec": "M",
    "Mbytes/sec": "M",
    "megabytes/sec": "M",
    "meg/sec": "M",
}
_BIT_RATES = {"10^6bits/s": "M", "Mb/s": "M", "mbps, aggregate across 5 iterations": "M"}
_PLAIN_UNITS: dict[str, tuple[str, Decimal]] = {
    "s": ("s", Decimal(1)),
    "us": ("s", Decimal(units.parse_duration("1us")) / units.parse_duration("1s")),
    "1/s": ("1/s", Decimal(1)),
    "tps": ("1/s", Decimal(1)),
    "1": ("1", Decimal(1)),
    "us/KB": ("us/KB", Decimal(1)),
    "cycles/byte": ("cycles/byte", Decimal(1)),
    "Gcycle": ("cycles", Decimal(units.parse_rate("1G"))),
    "bytes": ("bytes", Decimal(1)),
}


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit as the documents write it: `factor` makes it `base`, `binary` does so with 2^10."""

    name: str
    base: str
    factor: Decimal
    binary: Decimal | None = None


def unit_of(name: str) -> Unit | None:
    """Return a unit by its spelling, or None if no document uses it."""
    if name in _BYTE_RATES:
        prefix = f"1{_BYTE_RATES[name]}"
        decimal, binary = units.parse_rate(prefix), units.parse_size(prefix)
        return Unit(name, "byte/s", Decimal(decimal), Decimal(binary))
    if name in _BIT_RATES:
        return Unit(name, "bit/s", Decimal(units.parse_rate(f"1{_BIT_RATES[name]}")))
    if name in _PLAIN_UNITS:
        base, factor = _PLAIN_UNITS[name]
        return Unit(name, base, factor)
    return None


CONTEXT_TYPES: dict[str, type] = {
    **dict.fromkeys(
        [
            "os",
            "kernel",
            "kernel_as_stated",
            "patch",
            "ram",
            "nic",
            "driver",
            "link",
            "duplex",
            "lro",
            "protocol",
            "tool",
            "command",
            "cpu_method",
            "api",
            "role",
            "pinning",
            "pinning_detail",
            "irq_placement",
            "workload",
            "statistic",
        ],
        str,
    ),
    **dict.fromkeys(
        [
            "ram_bytes",
            "link_bps",
            "mtu",
            "chunk_bytes",
            "rsize",
            "rsize_evident",
            "wsize",
            "file_size_bytes",
            "streams",
            "duration_s",
            "repeats",
        ],
        int,
    ),
    **dict.fromkeys(["cpu", "socket_buf", "sysctls", "peer"], dict),
}
SWITCH_FACTORS = {
    "sg": "sg",
    "tx_csum": "tx_checksum",
    "rx_csum": "rx_checksum",
    "tso": "tso",
    "tx_nocache_copy": "tx_nocache_copy",
    "tcp_cork": "tcp_cork",
}
"""What the documents have on or off -> the factor."""
SWITCHES = tuple(SWITCH_FACTORS)
SUBTABLES: dict[str, dict[str, type]] = {
    "cpu": {"model": str, "clock_mhz": int, "count": int, "as_stated": str},
    "peer": {
        **dict.fromkeys(["role", "os", "kernel", "ram", "nic", "driver"], str),
        "cpu": dict,
    },
    "socket_buf": {"send": int, "recv": int},
}
COUNTERS = frozenset(
    [
        "task_clock_ms",
        "context_switches",
        "cpu_migrations",
        "page_faults",
        "cycles",
        "stalled_cycles_frontend",
        "stalled_cycles_backend",
        "instructions",
        "branches",
        "branch_misses",
        "seconds_elapsed",
    ]
)
COUNTER_KEYS = frozenset(
    [
        "value",
        "running_pct",
        "cpus_utilized",
        "m_per_s",
        "k_per_s",
        "ghz",
        "pct_cycles_idle",
        "insns_per_cycle",
        "stalled_cycles_per_insn",
        "pct_of_branches",
    ]
)
SOURCE_KEYS = frozenset(
    ["document", "author", "subject", "date", "date_line", "date_note", "after", "before"]
)
LINE_LISTS = {"quoted_at": "quoted-at", "restated_at": "restated-at", "repeated_at": "repeated-at"}
RELATION_TYPES = frozenset(
    [
        "adds-row-to",
        "confirmed-by",
        "corrected-by",
        "corrects",
        "in-block",
        "pair",
        "retest-of",
        "revises-conclusion-of",
        "row-label",
        "same-run-as",
    ]
)
SHARED_KEYS = frozenset(["kind", "flags", "notes", "relations", *LINE_LISTS])
TABLE_KEYS = frozenset(
    ["source", "context", "resolved", "inferred", "factors", "counters", "relative"]
)
CELL_KEYS = SHARED_KEYS | TABLE_KEYS | frozenset(BASE_UNITS) | {"change_pct_stated"}
VALUE_KEYS = frozenset(
    [
        "unit",
        "unit_evident",
        "reading",
        "why",
        "scope",
        "line",
        "heading_line",
        "note",
        "column",
        "qualifier",
        "stated",
        "sd",
        "samples",
        "occasional",
        "normalised",
        "other_reading",
        "normalised_sum",
        "sum_of",
        "not_normalised",
    ]
)
