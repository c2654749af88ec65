"""What a trial counted, as tables that a person reads: CPUs, network, TCP, interrupts, memory.

Takes the counts as they are stored.  A trial of an older zcdb, or of a source,
lacks some of them: then there is no such table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from zcdb import units
from zcdb.ids import Json
from zcdb.records import ENDS
from zcdb.webapp.labels import sentence_start

MOST_KINDS = 12
"""Rows of interrupts and of protocol counters; the raw counts have them all."""

NOTHING = "–"


@dataclass(frozen=True, slots=True)
class CounterTable:
    """One table.

    Attributes:
        note: what to know before reading it; "" for nothing.
        columns: the first one names the rows.
    """

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def counter_tables(counts: Mapping[str, Json]) -> tuple[CounterTable, ...]:
    """Return every table that these counts can fill."""
    found = [
        *_cpu_tables(counts),
        _interface_table(counts),
        _tcp_table(counts),
        *_kind_tables(counts),
        _memory_table(counts),
        _hardware_table(counts),
    ]
    return tuple(table for table in found if table is not None and table.rows)


def _at(counts: Json, *path: str) -> Json:
    """Return a nested value, or None where it is not there."""
    found = counts
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def _number(value: Json) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None  # type: ignore[arg-type]


def _count(value: Json) -> str:
    number = _number(value)
    return NOTHING if number is None else f"{round(number):,}".replace(",", "\u202f")


def _percent(part: Json, whole: float) -> str:
    number = _number(part)
    return NOTHING if number is None or whole <= 0 else f"{100 * number / whole:.1f}"


# -- CPUs ------------------------------------------------------------------------------------

TICK_COLUMNS = ("user", "system", "irq", "softirq", "steal", "idle")


def _cpu_tables(counts: Mapping[str, Json]) -> Iterator[CounterTable]:
    hosts = _mapping(counts.get("hosts"))
    for name, account in hosts.items():
        cpus = _at(account, "cpus")
        rows = [
            row
            for cpu in (cpus if isinstance(cpus, Sequence) and not isinstance(cpus, str) else ())
            if isinstance(cpu, Mapping) and (row := _cpu_row(cpu)) is not None
        ]
        if rows:
            yield CounterTable(
                "CPUs" if len(hosts) == 1 else f"CPUs of the {name}",
                "Per cent of the window. By the kernel's ticks, in whose nice column the soaker"
                " is; the last columns are what the soaker itself saw.",
                ("CPU", *TICK_COLUMNS, "soaker: tasks", "interrupts", "stolen"),
                tuple(rows),
            )


def _cpu_row(cpu: Mapping[str, Json]) -> tuple[str, ...] | None:
    ticks = _mapping(cpu.get("ticks"))
    whole = sum(
        _number(value) or 0.0
        for name, value in ticks.items()
        if name not in ("guest", "guest_nice")
    )
    if not whole:
        return None
    end = f" ({cpu['end']})" if cpu.get("end") else ""
    return (
        f"{cpu.get('cpu')}{end}",
        *(_percent(ticks.get(name), whole) for name in TICK_COLUMNS),
        *(_percent(cpu.get(f"{kind}_share"), 1.0) for kind in ("task", "interrupt", "steal")),
    )


# -- network ---------------------------------------------------------------------------------


def _interface_table(counts: Mapping[str, Json]) -> CounterTable | None:
    rows = []
    for end in ENDS:
        interface = _mapping(_at(counts, "network", end, "interface"))
        for direction, prefix in (("sent", "tx"), ("received", "rx")):
            if interface:
                rows.append((f"{sentence_start(end)}, {direction}", *_frames(interface, prefix)))
    qdiscs = [text for end in ENDS if (text := _qdisc_text(counts, end))]
    return CounterTable(
        "On the interface",
        "A packet is what the kernel handed over at once: with segmentation offload more than a"
        f" frame of the wire. {' '.join(qdiscs)}",
        ("Direction", "packets", "bytes", "mean size (B)", "errors", "dropped"),
        tuple(rows),
    )


def _frames(interface: Mapping[str, Json], prefix: str) -> tuple[str, ...]:
    packets, size = _number(interface.get(f"{prefix}_packets")), interface.get(f"{prefix}_bytes")
    mean = f"{(_number(size) or 0.0) / packets:.0f}" if packets else NOTHING
    return (
        _count(packets),
        _count(size),
        mean,
        _count(interface.get(f"{prefix}_errors")),
        _count(interface.get(f"{prefix}_dropped")),
    )


def _qdisc_text(counts: Mapping[str, Json], end: str) -> str:
    qdisc = _mapping(_at(counts, "network", end, "qdisc"))
    kinds = qdisc.get("kinds")
    if not isinstance(kinds, list | tuple) or not kinds or "drops" not in qdisc:
        return ""
    return (
        f"Queueing at the {end}: {', '.join(dict.fromkeys(map(str, kinds)))},"
        f" {_count(qdisc['drops'])} dropped, {_count(qdisc.get('requeues'))} requeued."
    )


TCP_ROWS = (
    ("Segments sent", "tcp_segs_out"),
    ("with data", "tcp_data_segs_out"),
    ("Segments received", "tcp_segs_in"),
    ("with data", "tcp_data_segs_in"),
    ("Segments sent again", "retransmits"),
    ("Bytes sent again", "tcp_bytes_retrans"),
    ("Busy sending (ms)", "tcp_busy_us"),
    ("Waiting for the receive window (ms)", "tcp_rwnd_limited_us"),
    ("Waiting for the send buffer (ms)", "tcp_sndbuf_limited_us"),
)
"""Of the counters of an endpoint's sockets; times in microseconds."""


def _tcp_table(counts: Mapping[str, Json]) -> CounterTable | None:
    windows = {end: _mapping(_at(counts, "window", end)) for end in ENDS}
    if not any("tcp_segs_out" in window for window in windows.values()):
        return None
    rows = tuple(
        (label, *(_tcp_value(windows[end].get(name), name) for end in ENDS))
        for label, name in TCP_ROWS
    )
    return CounterTable(
        "TCP",
        "TCP_INFO, added up over the sockets of each end; times add up over sockets too.",
        ("", *ENDS),
        rows,
    )


def _tcp_value(value: Json, name: str) -> str:
    number = _number(value)
    if number is not None and name.endswith("_us"):
        return f"{number / 1000:.0f}"
    return _count(value)


# -- the kernel ------------------------------------------------------------------------------


def _kind_tables(counts: Mapping[str, Json]) -> Iterator[CounterTable]:
    hosts = _mapping(counts.get("kernel"))
    for name, host in hosts.items():
        seconds = (_number(_at(host, "span_ns")) or 0.0) / 1e9
        for title, key in (("Interrupts", "interrupts"), ("Softirqs", "softirqs")):
            whose = "" if len(hosts) == 1 else f" of the {name}"
            yield _kinds(f"{title}{whose}", _mapping(_at(host, key)), seconds)
    for end in ENDS:
        protocols = _mapping(_at(counts, "network", end, "protocols"))
        seconds = (_number(_at(counts, "network", end, "span_ns")) or 0.0) / 1e9
        yield _kinds(f"Protocol counters of the {end}", protocols, seconds)


def _kinds(title: str, counted: Mapping[str, Json], seconds: float) -> CounterTable:
    ordered = sorted(counted.items(), key=lambda entry: -(_number(entry[1]) or 0.0))
    left = len(ordered) - MOST_KINDS
    return CounterTable(
        title,
        f"The largest {MOST_KINDS}; {left} more are in the raw counts." if left > 0 else "",
        ("Kind", "in the window", "per second"),
        tuple(
            (name, _count(value), _count((_number(value) or 0.0) / seconds if seconds else None))
            for name, value in ordered[:MOST_KINDS]
        ),
    )


MEMORY_ROWS = (
    ("Free", "free_bytes"),
    ("Available", "available_bytes"),
    ("Page cache", "cached_bytes"),
    ("Slab", "slab_bytes"),
    ("Slab, unreclaimable", "slab_unreclaimable_bytes"),
)


def _memory_table(counts: Mapping[str, Json]) -> CounterTable | None:
    rows = []
    hosts = _mapping(counts.get("kernel"))
    for name, host in hosts.items():
        before, after = (_mapping(_at(host, f"memory_{when}")) for when in ("before", "after"))
        whose = "" if len(hosts) == 1 else f", {name}"
        rows += [
            (f"{label}{whose}", _mib(before.get(key)), _mib(after.get(key)))
            for label, key in MEMORY_ROWS
            if before or after
        ]
    return CounterTable("Memory of the host", "In MiB.", ("", "before", "after"), tuple(rows))


def _mib(value: Json) -> str:
    number = _number(value)
    return NOTHING if number is None else f"{number / 2**20:.1f}"


def _hardware_table(counts: Mapping[str, Json]) -> CounterTable | None:
    rows = []
    for name, host in _mapping(counts.get("kernel")).items():
        for event, total in _mapping(_at(host, "hardware_events")).items():
            estimate = " (estimate)" if _at(total, "is_estimate") else ""
            rows.append((f"{event}, {name}{estimate}", _count(_at(total, "value"))))
    return CounterTable(
        "Hardware counters", "Without the soakers' own.", ("Event", "in the window"), tuple(rows)
    )


def hardware_reason(counts: Mapping[str, Json]) -> str | None:
    """Return why there are no hardware counters; None if there are, or nobody asked."""
    for host in _mapping(counts.get("kernel")).values():
        reason = _at(host, "hardware_events_reason")
        if isinstance(reason, str):
            return reason
    return None


# -- what limited it, and what was copied ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class LimiterContent:
    """What limited the trial, and every signal that could have.

    Attributes:
        signals: (name, share of the window as text).
        is_link: the link's rate did: then the throughput says nothing about the case.
    """

    name: str
    rule: str
    signals: tuple[tuple[str, str], ...]
    is_link: bool


SIGNALS = (
    ("Link full", "link_share"),
    ("Sender CPU busy", "sender_cpu_share"),
    ("Receiver CPU busy", "receiver_cpu_share"),
    ("Waiting for the receive window", "rwnd_share"),
    ("Waiting for the send buffer", "sndbuf_share"),
    ("TCP short of memory", "memory_share"),
    ("Memory bandwidth read by copying", "memory_read_share"),
)


def limiter_content(counts: Mapping[str, Json]) -> LimiterContent | None:
    """Return what limited the trial; None if that was not looked at."""
    found = _mapping(counts.get("limiter"))
    if not found:
        return None
    signals = _mapping(found.get("signals"))
    return LimiterContent(
        name=str(found.get("name")),
        rule=str(found.get("rule")),
        signals=tuple((label, _share(signals.get(key))) for label, key in SIGNALS),
        is_link=found.get("name") == "link rate",
    )


def _share(value: Json) -> str:
    number = _number(value)
    return "not measured" if number is None else units.format_ratio(max(0.0, number), 2)


@dataclass(frozen=True, slots=True)
class ProofContent:
    """What is known about copying.

    Attributes:
        label: "proven", "copied" or "unknown".
        words: the label for people; an API that always copies is not reproached with it.
    """

    label: str
    words: str
    method: str
    sentence: str
    completed: str
    copied: str


def proof_content(counts: Mapping[str, Json]) -> ProofContent | None:
    """Return what proves or disproves zero copy; None if that was not looked at."""
    found = _mapping(counts.get("zero_copy"))
    if not found:
        return None
    label, is_asked = str(found.get("label")), bool(found.get("is_asked"))
    words = {
        "proven": "zero copy, proven",
        "copied": "zero copy asked for, but copied" if is_asked else "copied, as this API does",
        "unknown": "unknown: nothing proves it",
    }
    return ProofContent(
        label=label,
        words=words.get(label, label),
        method=str(found.get("method")),
        sentence=str(found.get("sentence")),
        completed=_size(found.get("bytes_completed")),
        copied=_size(found.get("bytes_copied")),
    )


def _size(value: Json) -> str:
    number = _number(value)
    return "not known" if number is None else units.format_size(int(number))
