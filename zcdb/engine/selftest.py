"""How well CPU time can be measured here: known loads, measured by every method.

The burner keeps one CPU busy for a stated part of every 10 ms and publishes the
CPU time it has really used: the truth that every method is compared with.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from zcdb.engine.books import Idle, cpu_books
from zcdb.engine.measure import Bench, open_bench
from zcdb.engine.native import native
from zcdb.engine.soak import cpu_time_ns
from zcdb.engine.window import Edge, Sampler
from zcdb.errors import EngineError
from zcdb.host.procstat import usable_cpus

WINDOW_NS = 2_000_000_000
DUTIES = (0.0, 0.10, 0.25, 0.50, 0.90)
SETTLE_S = 0.3
"""Time between the start of a load and its window, as in a trial."""
START_TIMEOUT_S = 10.0
PERIOD_NS = 10_000_000
IDLE_SLEEP_S = 1.0
DISTURBING = frozenset({"contaminated", "steal", "foreign-load"})


class Burner:
    """A process that keeps one CPU busy for a part of every period; a context manager."""

    def __init__(self, cpu: int, duty: float) -> None:
        self.cpu = cpu
        self._used = mmap.mmap(-1, mmap.PAGESIZE)
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _burn(cpu, duty, self._used, parent)

    def wait_until_started(self) -> None:
        """Return once it burns: a window that starts before would measure an idle CPU.

        Raises:
            EngineError: if it does not start.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.reading()["true_ns"]:
            self.check()
            if time.monotonic() > deadline:
                raise EngineError(
                    f"the load on CPU {self.cpu} did not start within {START_TIMEOUT_S:g} s"
                )
            time.sleep(0.001)

    def check(self) -> None:
        """Raise `EngineError` if it has ended."""
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            raise EngineError(f"the load on CPU {self.cpu} has ended before its window did")

    def reading(self) -> dict[str, int]:
        """Return CPU time as the burner itself counts it, and as its CPU clock says."""
        (true_ns,) = struct.unpack_from("q", self._used, 0)
        return {"true_ns": true_ns, "cpu_time_ns": cpu_time_ns(self.pid)}

    def __enter__(self) -> Burner:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._used.close()


def _burn(cpu: int, duty: float, used: mmap.mmap, parent: int) -> NoReturn:
    """Be the burner.  Its CPU clock ticks only while it really has the CPU."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _, lib = native()
        lib.zc_soak_die_with_parent()
        os.sched_setaffinity(0, [cpu])
        next_ns = time.monotonic_ns()
        while os.getppid() == parent:
            until_ns = time.process_time_ns() + round(duty * PERIOD_NS)
            while (now_ns := time.process_time_ns()) < until_ns:
                struct.pack_into("q", used, 0, now_ns)
            struct.pack_into("q", used, 0, now_ns)
            next_ns = max(next_ns + PERIOD_NS, time.monotonic_ns())
            time.sleep(max(0, next_ns - time.monotonic_ns()) / 1e9 if duty else IDLE_SLEEP_S)
    finally:
        os._exit(0)


@dataclass(frozen=True, slots=True)
class KnownLoad:
    """One step of the self-test.

    Attributes:
        duty: load asked for, share of the CPU.
        true_share: load there was, by the burner's own clock.
        error_points: method -> what it said minus the truth, in percentage points of the
            CPU; None where it had no figure.
        flags: code -> detail, of the books of this window.
    """

    duty: float
    true_share: float
    shares: Mapping[str, float | None]
    error_points: Mapping[str, float | None]
    flags: Mapping[str, str]

    @property
    def is_contaminated(self) -> bool:
        """True if too few undisturbed samples were left, here or in a bracket."""
        return "contaminated" in self.flags

    @property
    def is_disturbed(self) -> bool:
        """True if the hypervisor or other work disturbed samples, left out or not."""
        return not DISTURBING.isdisjoint(self.flags)


@dataclass(frozen=True, slots=True)
class SelfTest:
    """How well this machine's CPU time can be measured."""

    cpu: int
    sampler: Sampler
    is_isolated: bool
    foreign_reason: str | None
    loads: tuple[KnownLoad, ...]


def self_test(
    progress: Callable[[KnownLoad], None] = lambda _: None, *, is_waiting: bool = False
) -> SelfTest:
    """Measure known loads of the last CPU by every method; the sampler runs on another one.

    Args:
        progress: told of each load as soon as it is measured.
        is_waiting: wait for the end of another measurement on this host.

    Raises:
        HostError: if this machine cannot soak, or another measurement is running.
    """
    cpus = usable_cpus()
    cpu, sampler_cpu = cpus[-1], cpus[0]
    with open_bench(is_load_pinned=True, sampler_cpu=sampler_cpu, is_waiting=is_waiting) as bench:
        loads = []
        before = bench.idle()
        for duty in DUTIES:
            edges = _burn_window(bench, cpu, duty)
            after = bench.idle()
            loads.append(known_load(cpu, duty, edges, before, after))
            progress(loads[-1])
            before = after
        return SelfTest(
            cpu=cpu,
            sampler=bench.sampler(),
            is_isolated=bench.groups is not None and bench.groups.is_isolated,
            foreign_reason=bench.foreign_reason,
            loads=tuple(loads),
        )


def _burn_window(bench: Bench, cpu: int, duty: float) -> tuple[Edge, ...]:
    with Burner(cpu, duty) as burner:
        if bench.groups is not None:
            bench.groups.add(cpu, burner.pid)
        burner.wait_until_started()
        time.sleep(SETTLE_S)
        edges = bench.edges(WINDOW_NS, {"sender": burner.reading})
        burner.check()
        return edges


def known_load(
    cpu: int, duty: float, edges: Sequence[Edge], before: Idle, after: Idle
) -> KnownLoad:
    """Compare every method with the truth that the edges carry.  Pure."""
    alone = [
        replace(edge, cpus=tuple(row for row in edge.cpus if row.cpu == cpu)) for edge in edges
    ]
    books = cpu_books(alone, before, after, {"sender": None})
    start, end = (edge.ends["sender"] for edge in (edges[0], edges[-1]))
    true_share = (end["true_ns"] - start["true_ns"]) / (end["at_ns"] - start["at_ns"])
    shares = {
        method: None if time.cpu_time_ns is None else time.cpu_time_ns / books.window_ns
        for method, time in books.ends["sender"].items()
    }
    return KnownLoad(
        duty=duty,
        true_share=true_share,
        shares=shares,
        error_points={
            method: None if share is None else 100 * (share - true_share)
            for method, share in shares.items()
        },
        flags={flag.code: flag.detail for flag in books.flags},
    )
