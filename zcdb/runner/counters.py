"""What the counters of a window say: differences, and their form for storage.

Pure: takes the edges of a window, gives numbers.  Per-edge counters are of
exactly the window; what is in `details` is of the time between the two edges
that carry them, whose length is stored as `span_ns`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from zcdb.engine.books import Books
from zcdb.engine.tcpinfo import GAUGE_PREFIX
from zcdb.engine.window import Edge
from zcdb.host import perf
from zcdb.host.netcounters import NO_PACKETS, InterfaceCounters, grown
from zcdb.ids import Json
from zcdb.records import End

NO_DETAILS = "counters were not read at both ends of the window"


def growth(edges: Sequence[Edge], end: End) -> dict[str, int]:
    """Return by how much an end's counters, and its clock, grew between first and last edge."""
    first, last = edges[0].ends[end], edges[-1].ends[end]
    # Buckets of a histogram are read from the first transaction in them on.
    return {
        name: value - first.get(name, 0)
        for name, value in last.items()
        if not name.startswith(GAUGE_PREFIX)
    }


def gauge_mean(edges: Sequence[Edge], end: End, name: str, per: str | None = None) -> float | None:
    """Return the mean over the edges of a value of the moment, divided by another one."""
    values = []
    for edge in edges:
        counters = edge.ends.get(end, {})
        divisor = counters.get(per, 0) if per is not None else 1
        if name in counters and divisor:
            values.append(counters[name] / divisor)
    return sum(values) / len(values) if values else None


def interface_growth(edges: Sequence[Edge]) -> InterfaceCounters | None:
    """Return what the interfaces of an end counted in the window, added up; None without any."""
    first, last = edges[0].interfaces, edges[-1].interfaces
    common = [name for name in first if name in last]
    if not common:
        return None
    total = NO_PACKETS
    for name in common:
        total = total.plus(last[name].since(first[name]))
    return total


@dataclass(frozen=True, slots=True)
class Details:
    """The details at both ends of a window.

    Attributes:
        before, after: see `zcdb.host.counters.CounterReader.details`.
    """

    before: Mapping[str, Any]
    after: Mapping[str, Any]

    @classmethod
    def of(cls, edges: Sequence[Edge]) -> Details | None:
        """Return the first and the last details that edges carry; None if there are not two."""
        found = [edge.details for edge in edges if edge.details is not None]
        return cls(found[0], found[-1]) if len(found) > 1 else None

    def growth(self, name: str) -> dict[str, int]:
        """Return the counters of one kind that grew, and by how much."""
        before, after = self.before.get(name) or {}, self.after.get(name) or {}
        # Zeros are left out of what is read: what is not there before counted nothing.
        return grown(after, {**dict.fromkeys(after, 0), **before})

    @property
    def span_ns(self) -> int:
        """Time between the two readings."""
        return int(self.after["at_ns"]) - int(self.before["at_ns"])

    def interface_interrupts(self) -> int | None:
        """Return the interrupts of the interfaces' devices; None if they have none."""
        before = self.before.get("interface_interrupts")
        after = self.after.get("interface_interrupts")
        return None if before is None or after is None else int(after) - int(before)

    def throttles(self) -> int | None:
        """Return how often a core was throttled for its heat; None if that is not counted."""
        before, after = self.before.get("throttles"), self.after.get("throttles")
        return None if before is None or after is None else int(after) - int(before)

    def offload(self, name: str) -> bool | None:
        """Return whether an offload held on all interfaces, at both ends; None if not known."""
        states = [
            offloads.get(name) if offloads is not None else None
            for details in (self.before, self.after)
            for offloads in (details.get("offloads") or {}).values()
        ]
        if not states or None in states:
            return None
        return all(states)

    def qdisc_growth(self) -> dict[str, int] | None:
        """Return drops, requeues and overlimits of all qdiscs of the end; None without any."""
        before = {
            (name, place): qdisc
            for name, qdiscs in (self.before.get("qdiscs") or {}).items()
            for place, qdisc in enumerate(qdiscs)
        }
        totals: dict[str, int] | None = None
        for name, qdiscs in (self.after.get("qdiscs") or {}).items():
            for place, qdisc in enumerate(qdiscs):
                old = before.get((name, place), {})
                totals = totals or dict.fromkeys(("drops", "requeues", "overlimits"), 0)
                for key in totals:
                    totals[key] += max(0, int(qdisc[key]) - int(old.get(key, 0)))
        return totals


@dataclass(frozen=True, slots=True)
class EndCounters:
    """What one end counted in a window.

    Attributes:
        edges: of the end itself; `host_edges`: of the agent that reads its host.
        own: growth of the endpoint's counters.
        interface: growth of its interfaces' counters.
        details: of the end's namespace; `host_details`: of its host.
    """

    end: End
    edges: Sequence[Edge]
    host_edges: Sequence[Edge]
    own: Mapping[str, int]
    interface: InterfaceCounters | None
    details: Details | None
    host_details: Details | None

    @classmethod
    def of(cls, end: End, edges: Sequence[Edge], host_edges: Sequence[Edge]) -> EndCounters:
        """Take the differences over the edges of a window."""
        return cls(
            end=end,
            edges=edges,
            host_edges=host_edges,
            own=growth(edges, end),
            interface=interface_growth(edges),
            details=Details.of(edges),
            host_details=Details.of(host_edges),
        )

    @property
    def window_ns(self) -> int:
        """Length of the window by the end's own stamps."""
        return self.own["at_ns"]

    def host_rate(self, name: str) -> float | None:
        """Return a counter of the host per second, None if it was not read."""
        first, last = self.host_edges[0].host, self.host_edges[-1].host
        if name not in first or name not in last:
            return None
        elapsed_ns = last["stat_at_ns"] - first["stat_at_ns"]
        return (last[name] - first[name]) * 1e9 / elapsed_ns if elapsed_ns > 0 else None

    def share_of_window(self, name: str) -> float | None:
        """Return a time in microseconds that TCP kept, as a share of the window, per socket."""
        sockets = gauge_mean(self.edges, self.end, "now_tcp_sockets")
        if name not in self.own or not sockets:
            return None
        return self.own[name] * 1000 / (self.window_ns * sockets)


def event_totals(details: Details, cpus: Sequence[int]) -> dict[str, perf.EventTotal] | str:
    """Return each hardware event on some CPUs without the soakers' part; or why there is none."""
    if "perf" not in details.before or "perf" not in details.after:
        return str(details.after.get("perf_reason") or "hardware counters were not read")
    if not cpus:
        return "no CPU belongs to this end"
    before = perf.PerfReading.from_json(details.before["perf"])
    after = perf.PerfReading.from_json(details.after["perf"])
    events = {name for counted in after.cpus.values() for name in counted}
    return {event: perf.total(before, after, event, cpus) for event in sorted(events)}


# -- counts for storage ----------------------------------------------------------------------


def end_counts(end: EndCounters) -> dict[str, Json]:
    """Return what belongs to an end: interface, protocols, qdiscs, offloads.

    Its sockets' counters are with the endpoint's own.
    """
    interface = end.interface
    found: dict[str, Json] = {
        "interface": {**interface._asdict()} if interface is not None else None
    }
    if end.details is None:
        return found | {"reason": NO_DETAILS}
    qdiscs = [
        str(qdisc["kind"])
        for listed in (end.details.after.get("qdiscs") or {}).values()
        for qdisc in listed
    ]
    sockets: Mapping[str, Json] = end.details.after.get("sockets") or {}
    return found | {
        "span_ns": end.details.span_ns,
        "protocols": {**end.details.growth("protocols")},
        "tcp_memory_pages": sockets.get("TCP.mem"),
        "qdisc": {"kinds": qdiscs, **(end.details.qdisc_growth() or {})},
        "offloads": end.details.after.get("offloads"),
        "link_speed_bps": end.details.after.get("link_speed_bps"),
    }


def host_counts(edges: Sequence[Edge], account: Books) -> dict[str, Json]:
    """Return what belongs to a host: interrupts, softirqs, memory, waiting, hardware events."""
    details = Details.of(edges)
    if details is None:
        return {"reason": NO_DETAILS}
    found: dict[str, Json] = {
        "span_ns": details.span_ns,
        "interrupts": {**details.growth("interrupts")},
        "softirqs": {**details.growth("softirqs")},
        "memory_before": details.before.get("memory"),
        "memory_after": details.after.get("memory"),
        "run_delay_ns": {**details.growth("run_delay_ns")},
        "throttles": details.throttles(),
    }
    events = event_totals(details, [book.cpu for book in account.cpus])
    if isinstance(events, str):
        return found | {"hardware_events": None, "hardware_events_reason": events}
    return found | {
        "hardware_events": {
            name: {"value": total.value, "is_estimate": total.is_estimate}
            for name, total in events.items()
        }
    }


# -- columns of the samples ------------------------------------------------------------------

SAMPLED_TCP = (
    *("tcp_busy_us", "tcp_rwnd_limited_us", "tcp_sndbuf_limited_us"),
    *("tcp_segs_in", "tcp_segs_out"),
)
SAMPLED_INTERFACE = ("tx_packets", "tx_bytes", "rx_packets", "rx_bytes")
Column = Sequence[int | float | None]


def sample_columns(edges: Mapping[End, Sequence[Edge]]) -> dict[str, Column]:
    """Return, sample by sample, what the interfaces and the sender's TCP counted."""
    columns: dict[str, Column] = {}
    for end, own in edges.items():
        counts = [_summed(edge) for edge in own]
        if None not in counts:
            for name in SAMPLED_INTERFACE:
                columns[f"{end}_{name}"] = [
                    max(0, getattr(later, name) - getattr(earlier, name))
                    for earlier, later in pairwise(counts)
                ]
    sender = edges["sender"]
    for name in SAMPLED_TCP:
        if all(name in edge.ends["sender"] for edge in sender):
            columns[name] = [
                later.ends["sender"][name] - earlier.ends["sender"][name]
                for earlier, later in pairwise(sender)
            ]
    return columns


def _summed(edge: Edge) -> InterfaceCounters | None:
    total = NO_PACKETS
    for counts in edge.interfaces.values():
        total = total.plus(counts)
    return total if edge.interfaces else None
