"""Hardware counters through perf_event_open: per CPU, and of single tasks.

Events are counted for everything that runs on a CPU, and apart for the soaker
of that CPU, so that the soaker's own share can be taken off.  A counter that
had to share its register is scaled by the time it really ran, and says so.

Many virtual machines have none; `unsupported_reason` says why.  Layout:
linux/perf_event.h, struct perf_event_attr as of its first version.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import platform
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple

from zcdb.errors import HostError

_SYSCALL = {"x86_64": 298, "aarch64": 241, "ppc64le": 319, "s390x": 331, "riscv64": 241}
_ATTRIBUTE = struct.Struct("=IIQQQQQIIQ")
_READ_TIMES = 0x3
"""PERF_FORMAT_TOTAL_TIME_ENABLED and PERF_FORMAT_TOTAL_TIME_RUNNING."""
_CLOSE_ON_EXEC = 0x8
_READING = struct.Struct("=QQQ")

HARDWARE, SOFTWARE = 0, 1


@dataclass(frozen=True, slots=True)
class Event:
    """Something that perf can count; name as 'perf stat' writes it."""

    name: str
    kind: int
    config: int


HARDWARE_EVENTS = (
    Event("cycles", HARDWARE, 0),
    Event("instructions", HARDWARE, 1),
    Event("cache-references", HARDWARE, 2),
    Event("cache-misses", HARDWARE, 3),
)
SOFTWARE_EVENTS = (
    Event("task-clock", SOFTWARE, 1),
    Event("context-switches", SOFTWARE, 3),
)
"""Counted by the kernel itself, so every machine that has perf at all has them."""


class Count(NamedTuple):
    """A counter at a moment, cumulative.

    Attributes:
        enabled_ns, running_ns: since it was opened; less running than enabled means that it
            shared its register with others.
    """

    value: int
    enabled_ns: int
    running_ns: int

    def since(self, before: Count) -> tuple[float, bool] | None:
        """Return (events, whether they are an estimate); None if it never ran in between."""
        enabled, running = self.enabled_ns - before.enabled_ns, self.running_ns - before.running_ns
        if running <= 0:
            return None
        is_estimate = running < enabled
        factor = enabled / running if is_estimate else 1.0
        return (self.value - before.value) * factor, is_estimate


def _open(event: Event, pid: int, cpu: int) -> int:
    """Return the descriptor of a counter.

    Raises:
        OSError: as the kernel says.
    """
    number = _SYSCALL.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    times = _READ_TIMES
    raw = _ATTRIBUTE.pack(event.kind, _ATTRIBUTE.size, event.config, 0, 0, times, 0, 0, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    descriptor = libc.syscall(
        ctypes.c_long(number),
        ctypes.create_string_buffer(raw, _ATTRIBUTE.size),
        ctypes.c_int(pid),
        ctypes.c_int(cpu),
        ctypes.c_int(-1),
        ctypes.c_ulong(_CLOSE_ON_EXEC),
    )
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(descriptor)


@functools.cache
def unsupported_reason(event: Event = HARDWARE_EVENTS[0]) -> str | None:
    """Return why this machine does not let us count this event on a CPU, or None if it does."""
    cpu = min(os.sched_getaffinity(0))
    try:
        os.close(_open(event, -1, cpu))
    except OSError as error:
        return _reason(error)
    return None


def _reason(error: OSError) -> str:
    if error.errno in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV, errno.ENXIO):
        return "this processor, or its hypervisor, offers no hardware counters"
    if error.errno in (errno.EACCES, errno.EPERM):
        return (
            "this user may not count what runs on a CPU; it needs CAP_PERFMON, or sysctl"
            " kernel.perf_event_paranoid=0"
        )
    if error.errno == errno.ENOSYS:
        return "this kernel has no perf events (CONFIG_PERF_EVENTS)"
    return f"perf_event_open was refused: {error.strerror}"


CpuCounts = Mapping[str, Mapping[str, Count]]
"""CPU number as text -> event -> count."""

CpuNumbers = Mapping[str, Mapping[str, Sequence[int]]]
"""The same as JSON has it."""


@dataclass(frozen=True, slots=True)
class PerfReading:
    """Counters at a moment: everything on each CPU, and each CPU's soaker alone."""

    cpus: CpuCounts
    soakers: CpuCounts

    def to_json(self) -> dict[str, dict[str, dict[str, list[int]]]]:
        """Return a form for a pipe."""
        return {"cpus": _to_json(self.cpus), "soakers": _to_json(self.soakers)}

    @classmethod
    def from_json(cls, value: Mapping[str, CpuNumbers]) -> PerfReading:
        """Undo `to_json`."""
        return cls(_from_json(value["cpus"]), _from_json(value["soakers"]))


def _to_json(counts: CpuCounts) -> dict[str, dict[str, list[int]]]:
    return {
        cpu: {event: list(count) for event, count in events.items()}
        for cpu, events in counts.items()
    }


def _from_json(value: CpuNumbers) -> CpuCounts:
    return {
        cpu: {event: Count(*numbers) for event, numbers in events.items()}
        for cpu, events in value.items()
    }


class PerfCounters:
    """Counters that run from now until `close`; a context manager.

    Args:
        soakers: CPU -> process whose own part is counted apart.
        events: what to count; an event that this machine lacks is left out.

    Raises:
        HostError: if not even the first event can be counted.
    """

    def __init__(
        self,
        cpus: Sequence[int],
        soakers: Mapping[int, int],
        events: Sequence[Event] = HARDWARE_EVENTS,
    ) -> None:
        self._cpus: dict[tuple[str, str], int] = {}
        self._soakers: dict[tuple[str, str], int] = {}
        try:
            for place, event in enumerate(events):
                try:
                    self._open_all(event, cpus, soakers)
                except OSError as error:
                    if place == 0:
                        raise HostError(f"no hardware counters: {_reason(error)}") from error
        except HostError:
            self.close()
            raise

    def _open_all(self, event: Event, cpus: Sequence[int], soakers: Mapping[int, int]) -> None:
        for cpu in cpus:
            self._cpus[str(cpu), event.name] = _open(event, -1, cpu)
        for cpu, pid in soakers.items():
            self._soakers[str(cpu), event.name] = _open(event, pid, -1)

    def read(self) -> PerfReading:
        """Return all counters now."""
        return PerfReading(_read_all(self._cpus), _read_all(self._soakers))

    def close(self) -> None:
        """Close the counters.  Idempotent."""
        for descriptors in (self._cpus, self._soakers):
            for descriptor in descriptors.values():
                os.close(descriptor)
            descriptors.clear()

    def __enter__(self) -> PerfCounters:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _read_all(descriptors: Mapping[tuple[str, str], int]) -> CpuCounts:
    counts: dict[str, dict[str, Count]] = {}
    for (cpu, event), descriptor in descriptors.items():
        raw = os.read(descriptor, _READING.size)
        # An event in error state (its CPU went offline) reads as nothing.
        if len(raw) == _READING.size:
            counts.setdefault(cpu, {})[event] = Count(*_READING.unpack(raw))
    return counts


@dataclass(frozen=True, slots=True)
class EventTotal:
    """An event between two readings, the soakers' part taken off.

    Attributes:
        value: None if some CPU has no figure.
        is_estimate: some counter shared its register and was scaled.
    """

    value: float | None
    is_estimate: bool


def total(before: PerfReading, after: PerfReading, event: str, cpus: Sequence[int]) -> EventTotal:
    """Return how often an event happened on some CPUs outside their soakers."""
    value, is_estimate = 0.0, False
    for cpu in map(str, cpus):
        everything = _between(before.cpus, after.cpus, cpu, event)
        if everything is None:
            return EventTotal(None, False)
        value, is_estimate = value + everything[0], is_estimate or everything[1]
        if cpu in after.soakers and event in after.soakers[cpu]:
            # A soaker that never ran in between has counted nothing.
            own = _between(before.soakers, after.soakers, cpu, event) or (0.0, False)
            value, is_estimate = value - own[0], is_estimate or own[1]
    return EventTotal(value, is_estimate)


def _between(
    before: CpuCounts, after: CpuCounts, cpu: str, event: str
) -> tuple[float, bool] | None:
    first, last = before.get(cpu, {}).get(event), after.get(cpu, {}).get(event)
    return last.since(first) if first is not None and last is not None else None
