"""Metrics made of counters: per packet, per second, per MB, or why there is none.  Pure."""

from __future__ import annotations

from zcdb.engine.books import Books
from zcdb.host.netcounters import softnet_since
from zcdb.records import MetricValue
from zcdb.runner.counters import NO_DETAILS, EndCounters, event_totals, gauge_mean

MIB_BYTES = 1 << 20
NO_INTERFACE = "no interface was counted"
PER_PAYLOAD = ("acks_per_mb", "cycles_per_byte_sender", "cycles_per_byte_receiver")
"""The metrics here that mean nothing where bytes do not flow one way."""

NO_INTERRUPTS = "the interface has no interrupts of its own"


def _value(metric: str, value: float | None, reason: str, method: str = "") -> MetricValue:
    return MetricValue(metric, method, value, None if value is not None else reason)


def path_metrics(sender: EndCounters, payload_bytes: int) -> list[MetricValue]:
    """Return what the sender's interface and sockets say about the path."""
    return [
        *_frame_metrics(sender),
        _acks_per_mb(sender, payload_bytes),
        _tcp_rtt(sender),
        _limited("rwnd_limited_share", "tcp_rwnd_limited_us", sender),
        _limited("sndbuf_limited_share", "tcp_sndbuf_limited_us", sender),
        _qdisc_drops(sender),
    ]


def _frame_metrics(sender: EndCounters) -> list[MetricValue]:
    counted = sender.interface
    if counted is None:
        names = ("packet_rate", "frame_size_sent", "frame_size_received")
        return [MetricValue(name, "", None, NO_INTERFACE) for name in names]
    return [
        MetricValue("packet_rate", "", counted.tx_packets * 1e9 / sender.window_ns),
        _frame_size("frame_size_sent", counted.tx_bytes, counted.tx_packets),
        _frame_size("frame_size_received", counted.rx_bytes, counted.rx_packets),
    ]


def _frame_size(metric: str, size_bytes: int, packets: int) -> MetricValue:
    size = size_bytes / packets if packets else None
    return _value(metric, size, "no packet passed the interface that way")


def _acks_per_mb(sender: EndCounters, payload_bytes: int) -> MetricValue:
    segments, data = sender.own.get("tcp_segs_in"), sender.own.get("tcp_data_segs_in")
    if segments is None or data is None:
        return MetricValue("acks_per_mb", "", None, "TCP_INFO of the sender was not read")
    if not payload_bytes:
        return MetricValue("acks_per_mb", "", None, "no payload arrived within the window")
    return MetricValue("acks_per_mb", "", (segments - data) * MIB_BYTES / payload_bytes)


def _tcp_rtt(sender: EndCounters) -> MetricValue:
    mean_us = gauge_mean(sender.edges, sender.end, "now_tcp_rtt_us", per="now_tcp_sockets")
    rtt_s = mean_us / 10**6 if mean_us is not None else None
    return _value("tcp_rtt", rtt_s, "TCP_INFO of the sender was not read")


def _limited(metric: str, counter: str, sender: EndCounters) -> MetricValue:
    share = sender.share_of_window(counter)
    return _value(metric, share, "this kernel's TCP_INFO does not say, or was not read")


def _qdisc_drops(sender: EndCounters) -> MetricValue:
    totals = sender.details.qdisc_growth() if sender.details is not None else None
    reason = NO_DETAILS if sender.details is None else "the interface has no qdisc"
    return _value("qdisc_drops", float(totals["drops"]) if totals is not None else None, reason)


def end_metrics(end: EndCounters, account: Books, payload_bytes: int) -> list[MetricValue]:
    """Return what an end's host counted, per packet, per second and per byte."""
    return [
        _interrupts_per_packet(end),
        _value(f"interrupt_rate_{end.end}", end.host_rate("interrupts"), "not read"),
        _value(f"context_switch_rate_{end.end}", end.host_rate("context_switches"), "not read"),
        *_softnet_metrics(end),
        *_packet_demand(end, account),
        _cycles_per_byte(end, account, payload_bytes),
    ]


def _interrupts_per_packet(end: EndCounters) -> MetricValue:
    metric = f"interrupts_per_packet_{end.end}"
    if end.host_details is None:
        return MetricValue(metric, "", None, NO_DETAILS)
    counted = end.host_details.interface_interrupts()
    if counted is None:
        return MetricValue(metric, "", None, NO_INTERRUPTS)
    packets = end.interface.rx_packets + end.interface.tx_packets if end.interface else 0
    # The two readings lie some milliseconds outside the window: scale to its length.
    scale = end.window_ns / end.host_details.span_ns
    return _value(metric, counted * scale / packets if packets else None, NO_INTERFACE)


def _softnet_metrics(end: EndCounters) -> list[MetricValue]:
    first, last = (
        {row.cpu: row.softnet for row in edge.cpus if row.softnet is not None}
        for edge in (end.host_edges[0], end.host_edges[-1])
    )
    names = {"dropped": "softnet_drops", "squeezed": "softnet_squeezes"}
    if not last:
        return [MetricValue(f"{name}_{end.end}", "", None, "not read") for name in names.values()]
    counted = softnet_since(last, first)
    return [
        MetricValue(f"{name}_{end.end}", "", float(getattr(counted, field)))
        for field, name in names.items()
    ]


def _packet_demand(end: EndCounters, account: Books) -> list[MetricValue]:
    metric = f"packet_demand_{end.end}"
    packets = end.interface.rx_packets + end.interface.tx_packets if end.interface else 0
    values = []
    for method, time in account.ends[end.end].items():
        if time.cpu_time_ns is None:
            values.append(MetricValue(metric, method, None, time.reason))
        elif method == "rusage":
            reason = "CPU time of the process alone misses the packets' interrupt work"
            values.append(MetricValue(metric, method, None, reason))
        else:
            demand = time.cpu_time_ns / 1000 / packets if packets else None
            values.append(_value(metric, demand, NO_INTERFACE, method))
    return values


def _cycles_per_byte(end: EndCounters, account: Books, payload_bytes: int) -> MetricValue:
    metric = f"cycles_per_byte_{end.end}"
    if end.host_details is None:
        return MetricValue(metric, "perf", None, NO_DETAILS)
    found = event_totals(
        end.host_details, [book.cpu for book in account.cpus if book.end == end.end]
    )
    if isinstance(found, str):
        return MetricValue(metric, "perf", None, found)
    cycles = found["cycles"].value if "cycles" in found else None
    if cycles is None:
        return MetricValue(metric, "perf", None, "some CPU had no figure for cycles")
    if not payload_bytes:
        return MetricValue(metric, "perf", None, "no payload arrived within the window")
    scale = end.window_ns / end.host_details.span_ns
    return MetricValue(metric, "perf", cycles * scale / payload_bytes)
