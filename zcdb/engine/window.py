"""One set of edges for every metric of a host.

At an edge everything is read at once: the endpoints' counters, the soakers',
the kernel's and the control groups'.  Each source carries its own time stamp,
so an edge that comes late is late for all and wrong for none.  What the numbers
mean is in `books` and in `runner.counters`; here they are only read.

Two edges, the first after the discarded ramp and the last, carry `details` too:
what is too long to be read at each.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from zcdb.engine.soak import Soakers, SoakReading
from zcdb.errors import EngineError
from zcdb.host.cgroups import CpuGroups
from zcdb.host.counters import CounterReader
from zcdb.host.netcounters import InterfaceCounters, Softnet
from zcdb.host.procstat import CpuTicks, Stat, StatReader, user_hz
from zcdb.ids import Json
from zcdb.records import ENDS, End

SAMPLER_PRIORITY = 5
LONGEST_SLEEP_NS = 100_000_000
MOST_EDGES = 4096
"""More than this are thinned: counters are cumulative, so leaving out every second edge
only makes samples longer."""


@dataclass(frozen=True, slots=True)
class CpuEdge:
    """One CPU at an edge; what was not read is None.

    Attributes:
        soak: the soaker's counters.
        soaker_cpu_time_ns: CPU time the soaker itself has used.
        ticks: the CPU's row of /proc/stat; None while it is offline.
        usage_ns: CPU time of all tasks on this CPU, from the top control group.
        own_usage_ns: CPU time of our groups' tasks on this CPU.
        net_tx, net_rx: network softirqs raised on this CPU.
        softnet: packets its backlog processed and dropped, and polls that were squeezed.
    """

    cpu: int
    soak: SoakReading | None = None
    soaker_cpu_time_ns: int | None = None
    ticks: CpuTicks | None = None
    usage_ns: int | None = None
    own_usage_ns: int | None = None
    net_tx: int | None = None
    net_rx: int | None = None
    softnet: Softnet | None = None

    def to_json(self) -> Json:
        """Return a list in the order of the fields."""
        return [
            self.cpu,
            list(self.soak) if self.soak else None,
            self.soaker_cpu_time_ns,
            list(self.ticks) if self.ticks else None,
            self.usage_ns,
            self.own_usage_ns,
            self.net_tx,
            self.net_rx,
            list(self.softnet) if self.softnet else None,
        ]

    @classmethod
    def from_json(cls, row: Sequence[Any]) -> CpuEdge:
        """Undo `to_json`."""
        cpu, soak, soaker_cpu_time_ns, ticks, usage_ns, own_usage_ns, net_tx, net_rx, softnet = row
        return cls(
            cpu,
            SoakReading(*soak) if soak else None,
            soaker_cpu_time_ns,
            CpuTicks(*ticks) if ticks else None,
            usage_ns,
            own_usage_ns,
            net_tx,
            net_rx,
            Softnet(*softnet) if softnet else None,
        )


@dataclass(frozen=True, slots=True)
class Edge:
    """Everything read at one moment on one host.  All counters are cumulative.

    Attributes:
        at_ns: the host's monotonic clock when reading began.
        tsc: cycle counter at that moment; 0 without soakers.
        ends: what each endpoint counted, with `at_ns`, when it was read.
        host: context_switches, interrupts; stat_at_ns and usage_at_ns, when /proc/stat
            and the control groups were read; user_hz; sampler_cpu and sampler_cpu_time_ns
            of the process that reads, if it is pinned to one CPU.
        interfaces: counters of each interface that carries the data.
        details: see `CounterReader.details`; None at most edges.
    """

    at_ns: int
    tsc: int
    cpus: tuple[CpuEdge, ...] = ()
    ends: Mapping[End, Mapping[str, int]] = field(default_factory=dict)
    host: Mapping[str, int] = field(default_factory=dict)
    interfaces: Mapping[str, InterfaceCounters] = field(default_factory=dict)
    details: Mapping[str, Any] | None = None

    def to_json(self) -> Json:
        """Return a form for a pipe."""
        return {
            "at_ns": self.at_ns,
            "tsc": self.tsc,
            "cpus": [cpu.to_json() for cpu in self.cpus],
            "ends": {end: dict(counters) for end, counters in self.ends.items()},
            "host": dict(self.host),
            "interfaces": {name: list(counts) for name, counts in self.interfaces.items()},
            "details": dict(self.details) if self.details is not None else None,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Edge:
        """Undo `to_json`."""
        return cls(
            at_ns=value["at_ns"],
            tsc=value["tsc"],
            cpus=tuple(CpuEdge.from_json(row) for row in value["cpus"]),
            ends={end: value["ends"][end] for end in ENDS if end in value["ends"]},
            host=value["host"],
            interfaces={
                name: InterfaceCounters(*counts) for name, counts in value["interfaces"].items()
            },
            details=value["details"],
        )


@dataclass(frozen=True, slots=True)
class Sources:
    """What to read at an edge.

    Attributes:
        ends: a function for each endpoint on this host that returns its counters.
        is_host_read: False where another process of the same host reads /proc/stat.
        interfaces: those that carry the data; with none no network counters are read.
    """

    soakers: Soakers | None = None
    ends: Mapping[End, Callable[[], Mapping[str, int]]] = field(default_factory=dict)
    cgroups: CpuGroups | None = None
    is_host_read: bool = True
    interfaces: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Sampler:
    """How the process that reads edges runs.

    Attributes:
        cpu: the CPU it is pinned to.
        reason: why it has no real-time priority; None if it has.
    """

    cpu: int
    reason: str | None


@contextmanager
def sampling_priority(cpu: int) -> Iterator[Sampler]:
    """Pin the calling thread to `cpu` and let it run before everything else.

    Without that a saturating load keeps the sampler from its edges.  What is
    forked inside starts with an ordinary priority, but pinned to `cpu` as well.
    Both are put back at the end.

    Raises:
        EngineError: if the CPU cannot be used.
    """
    policy, parameter = os.sched_getscheduler(0), os.sched_getparam(0)
    pinned = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, [cpu])
    except OSError as error:
        raise EngineError(f"the sampler cannot run on CPU {cpu}: {error.strerror}") from error
    reason = None
    try:
        first = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, first, os.sched_param(SAMPLER_PRIORITY))
    except PermissionError as error:
        reason = f"no permission for SCHED_FIFO: {error.strerror}"
    try:
        yield Sampler(cpu, reason)
    finally:
        if reason is None:
            os.sched_setscheduler(0, policy, parameter)
        os.sched_setaffinity(0, pinned)


class EdgeReader:
    """Reads edges from open files; a context manager."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._counters = _counter_reader(sources) if sources.interfaces else None
        self._stat = StatReader() if sources.is_host_read else None
        pinned = os.sched_getaffinity(0)
        self._sampler_cpu = next(iter(pinned)) if len(pinned) == 1 else None

    def read(self, details_from_ns: int | None = None, *, is_last: bool = False) -> Edge:
        """Read everything now.

        Args:
            details_from_ns: read the details too from this time of the monotonic clock on.
            is_last: a window ends here.  Then details are read after all else, otherwise
                before, so that the time they take is not in the window.

        Raises:
            EngineError, HostError: if a source cannot be read.
        """
        sources, counters = self._sources, self._counters
        at_ns = time.monotonic_ns()
        details = None
        if counters is not None and details_from_ns is not None and at_ns >= details_from_ns:
            details = counters.details()
            at_ns = time.monotonic_ns()
        ends: dict[End, Mapping[str, int]] = {}
        for end, reading in sources.ends.items():
            ends[end] = {"at_ns": time.monotonic_ns(), **reading()}
        soak, soaker_times, tsc = self._read_soakers()
        host: dict[str, int] = {}
        usage = self._read_usage(host)
        stat = self._read_stat(host)
        softirqs = self._stat.softirqs() if self._stat is not None else {}
        interfaces = counters.interfaces() if counters is not None else {}
        softnet = counters.softnet() if counters is not None else {}
        net_tx, net_rx = softirqs.get("NET_TX", {}), softirqs.get("NET_RX", {})
        numbers = sorted({*soak, *(stat.cpus if stat is not None else ())})
        cpus = tuple(
            CpuEdge(
                cpu,
                soak.get(cpu),
                soaker_times.get(cpu),
                stat.cpus.get(cpu) if stat is not None else None,
                usage[0][cpu] if usage is not None and cpu < len(usage[0]) else None,
                usage[1][cpu] if usage is not None and cpu < len(usage[1]) else None,
                net_tx.get(cpu),
                net_rx.get(cpu),
                softnet.get(cpu),
            )
            for cpu in numbers
        )
        if counters is not None and is_last:
            details = counters.details()
        return Edge(at_ns, tsc, cpus, ends, host, interfaces, details)

    def _read_soakers(self) -> tuple[dict[int, SoakReading], dict[int, int], int]:
        soakers = self._sources.soakers
        if soakers is None:
            return {}, {}, 0
        soak = soakers.snapshot()
        return soak, soakers.cpu_time_ns(), min(reading.at_ticks for reading in soak.values())

    def _read_usage(self, host: dict[str, int]) -> tuple[list[int], list[int]] | None:
        if self._sampler_cpu is not None:
            host["sampler_cpu"] = self._sampler_cpu
            # Reading this clock also makes the kernel book our time so far in the groups.
            host["sampler_cpu_time_ns"] = time.process_time_ns()
        if self._sources.cgroups is None:
            return None
        host["usage_at_ns"] = time.monotonic_ns()
        return self._sources.cgroups.usage()

    def _read_stat(self, host: dict[str, int]) -> Stat | None:
        if self._stat is None:
            return None
        host["stat_at_ns"] = time.monotonic_ns()
        stat = self._stat.stat()
        host["user_hz"] = user_hz()
        host["context_switches"] = stat.context_switches
        host["interrupts"] = stat.interrupts
        return stat

    def close(self) -> None:
        """Close the files.  Idempotent."""
        if self._stat is not None:
            self._stat.close()
        if self._counters is not None:
            self._counters.close()

    def __enter__(self) -> EdgeReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _counter_reader(sources: Sources) -> CounterReader:
    soakers = sources.soakers.pids if sources.soakers is not None else {}
    return CounterReader(sources.interfaces, is_host_read=sources.is_host_read, soakers=soakers)


def read_edges(
    duration_ns: int | None,
    sample_ns: int,
    sources: Sources,
    should_stop: Callable[[], bool] = lambda: False,
    wait: Callable[[float], object] = time.sleep,
    discard_ns: int = 0,
) -> tuple[Edge, ...]:
    """Read an edge now, one every `sample_ns`, and a last one after `duration_ns`.

    The times of the edges are absolute: a late one does not delay the next.

    Args:
        duration_ns: length of the window; None is until `should_stop`.
        should_stop: asked at each edge and at least every 0.1 s; True ends the window with
            an edge at once.
        wait: sleeps for that many seconds at most, and may return early when `should_stop`
            has become true.
        discard_ns: length of the ramp; the first edge after it and the last one carry details.

    Returns:
        At least two edges.

    Raises:
        EngineError: if a soaker has ended.
    """
    if sample_ns <= 0 or (duration_ns is not None and duration_ns <= 0):
        raise EngineError(f"a window of {duration_ns} ns in samples of {sample_ns} ns is not one")
    with EdgeReader(sources) as reader:
        edges = [reader.read(None if discard_ns else 0)]
        next_ns = start_ns = edges[0].at_ns
        # The edge from which on `runner.assemble` counts: the same comparison, the same clock.
        window_from_ns = start_ns + discard_ns if discard_ns else None
        is_over = False
        while not is_over:
            next_ns = _next_edge_ns(next_ns, sample_ns)
            if duration_ns is not None:
                next_ns = min(next_ns, start_ns + duration_ns)
            is_over = _sleep_until(next_ns, should_stop, wait) or (
                duration_ns is not None and next_ns >= start_ns + duration_ns
            )
            edges.append(reader.read(window_from_ns, is_last=is_over))
            if edges[-1].details is not None:
                # It has begun.
                window_from_ns = None
            if len(edges) > MOST_EDGES and not is_over:
                edges, sample_ns = _thinned(edges), sample_ns * 2
    if sources.soakers is not None:
        sources.soakers.check()
    return tuple(edges)


def _thinned(edges: Sequence[Edge]) -> list[Edge]:
    """Return every second edge, the first one and those with details among them."""
    return [edge for place, edge in enumerate(edges) if place % 2 == 0 or edge.details is not None]


def _next_edge_ns(last_ns: int, sample_ns: int) -> int:
    """Return the next edge of the grid that is not over yet, after a delay of many samples too."""
    missed = max(0, time.monotonic_ns() - last_ns) // sample_ns
    return last_ns + (missed + 1) * sample_ns


def _sleep_until(
    deadline_ns: int, should_stop: Callable[[], bool], wait: Callable[[float], object]
) -> bool:
    """Sleep until a time of the monotonic clock.  Return True if told to stop before."""
    while not should_stop():
        left_ns = deadline_ns - time.monotonic_ns()
        if left_ns <= 0:
            return False
        wait(min(left_ns, LONGEST_SLEEP_NS) / 1e9)
    return True
