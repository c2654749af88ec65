"""Soakers: one process per CPU that uses what nothing else wants and counts what it got.

The timed loop is soaker.c.  Here are its start, its priority (SCHED_IDLE *and*
nice 19: the first keeps it out of the way, the second makes the kernel book its
time as nice and not as user), pinning, pausing and reading.  What the counters
mean is in `books`.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import NamedTuple, NoReturn

from zcdb.engine.native import native
from zcdb.errors import EngineError
from zcdb.host.cgroups import CpuGroups
from zcdb.host.procstat import usable_cpus

GAP_NS = 2_000
"""A step of the cycle counter above this is a gap.  A batch of the soaker takes a third of it."""
STEAL_NS = 1_000_000
"""A gap without a task switch above this is the hypervisor's: no interrupt takes so long."""
FEWEST_GAP_TICKS = 8
"""Below this many ticks of a slow counter a step cannot be told from its rounding."""
LONGEST_FOOTPRINT_BYTES = 1 << 30
START_TIMEOUT_S = 20.0
RESUME_TIMEOUT_S = 10.0
POLL_S = 0.001
FREQUENCY_TRIES = 3
NICE_LOWEST = 19


@dataclass(frozen=True, slots=True)
class SoakOptions:
    """How the soakers work.

    Attributes:
        footprint_bytes: memory each one walks through, a line at a time; 0 touches none.
        reads_per_write: lines read for each line written.
        spin_iterations: empty iterations in each unit; keep a unit near 40 ns, since the
            counter is read every 16 units and a gap is 2 us.
        cpus: where to run; None is every CPU this process may use.
    """

    footprint_bytes: int = 65536
    reads_per_write: int = 4
    spin_iterations: int = 80
    cpus: tuple[int, ...] | None = None


class SoakReading(NamedTuple):
    """One soaker's counters at a moment, cumulative since its start.

    Attributes:
        at_ticks: cycle counter when this was read.
        open_gap_ticks: time since the soaker was last seen working, if that is a gap
            already: it is in none of the other counters yet.
        task_gaps, interrupt_gaps, steal_gaps: how many gaps of each kind.
    """

    at_ticks: int
    units: int
    task_gap_ticks: int
    interrupt_gap_ticks: int
    steal_gap_ticks: int
    open_gap_ticks: int
    task_gaps: int
    interrupt_gaps: int
    steal_gaps: int


def unsupported_reason() -> str | None:
    """Return why this processor cannot be soaked, or None if it can.

    Raises:
        EngineError: if the C module is not there.
    """
    _, lib = native()
    if not lib.zc_soak_is_supported():
        return f"soaking is not supported on {os.uname().machine}: only on x86 and aarch64"
    return None


@cache
def ticks_per_s() -> float:
    """Return the frequency of the cycle counter: what the processor states, else measured."""
    _, lib = native()
    stated = int(lib.zc_soak_stated_hz())
    # The median: a task switch between the two clocks spoils one try, not most of them.
    return float(stated) if stated else median(_measured_hz() for _ in range(FREQUENCY_TRIES))


def _measured_hz() -> float:
    _, lib = native()
    ticks, start_ns = int(lib.zc_soak_ticks()), time.monotonic_ns()
    time.sleep(0.005)
    return (int(lib.zc_soak_ticks()) - ticks) * 1e9 / (time.monotonic_ns() - start_ns)


def cpu_time_ns(pid: int) -> int:
    """Return the CPU time of another process so far, read through its CPU clock.

    Up to one kernel tick of what is running just now may be missing.

    Raises:
        EngineError: if there is no such process.
    """
    clock = (~pid << 3) | 2  # the kernel's MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED)
    try:
        return time.clock_gettime_ns(clock)
    except OSError as error:
        raise EngineError(f"process {pid} has ended: its CPU time is lost") from error


class Soakers:
    """Running soakers; a context manager.  They die with the process that started them."""

    def __init__(self, cpus: Sequence[int], gap_ticks: int) -> None:
        self._ffi, self._lib = native()
        self.cpus = tuple(cpus)
        self.gap_ticks = gap_ticks
        self._pids: dict[int, int] = {}
        self._shared = mmap.mmap(-1, len(cpus) * self._ffi.sizeof("struct zc_soak_cell"))
        self._cells = self._ffi.from_buffer("struct zc_soak_cell[]", self._shared)
        self._readings = self._ffi.new("struct zc_soak_reading[]", len(cpus))

    @classmethod
    def start(cls, options: SoakOptions | None = None, groups: CpuGroups | None = None) -> Soakers:
        """Start one soaker per CPU; all of them work when this returns.

        The caller may have a real-time priority with SCHED_RESET_ON_FORK, and must
        have one thread only.

        Args:
            groups: each soaker joins its CPU's group, if there is one.

        Raises:
            EngineError: if soaking is not supported or permitted here, or a CPU cannot be used.
        """
        options = options or SoakOptions()
        reason = unsupported_reason()
        if reason is not None:
            raise EngineError(reason)
        _check(options)
        cpus = sorted(set(options.cpus)) if options.cpus is not None else usable_cpus()
        gap_ticks = max(FEWEST_GAP_TICKS, round(GAP_NS * ticks_per_s() / 1e9))
        soakers = cls(cpus, gap_ticks)
        try:
            soakers._start(options, groups)
        except BaseException:
            soakers.stop()
            raise
        return soakers

    def _start(self, options: SoakOptions, groups: CpuGroups | None) -> None:
        reports = {}
        for index, cpu in enumerate(self.cpus):
            reading, writing = os.pipe()
            parent = os.getpid()
            pid = os.fork()
            if pid == 0:
                self._run_child(index, options, writing, parent)
            os.close(writing)
            self._pids[cpu] = pid
            reports[cpu] = reading
        try:
            if groups is not None:
                for cpu, pid in self._pids.items():
                    groups.add(cpu, pid)
            for report in reports.values():
                self._raise_reported(report)
        finally:
            for report in reports.values():
                os.close(report)
        self._wait_for_progress([0] * len(self.cpus), START_TIMEOUT_S, "did not start")

    @staticmethod
    def _raise_reported(report: int) -> None:
        text = os.read(report, 4096).decode()
        if text:
            message, _, hint = text.partition("\n")
            raise EngineError(message, hint=hint or None)

    def _run_child(self, index: int, options: SoakOptions, report: int, parent: int) -> NoReturn:
        """Become a soaker.  Whatever goes wrong is told through `report`; never returns."""
        cpu = self.cpus[index]
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._lib.zc_soak_die_with_parent()
            if os.getppid() != parent:
                os._exit(1)
            _drop_descriptors(report)
            # A name for people; where it cannot be set it is missing, and nothing else is.
            with contextlib.suppress(OSError):
                Path("/proc/self/comm").write_text(f"zcdb-soak/{cpu}")
            _pin(cpu)
            memory = mmap.mmap(-1, max(options.footprint_bytes, mmap.PAGESIZE))
            memory.write(b"\1" * len(memory))
            settings = self._ffi.new(
                "struct zc_soak_options *",
                {
                    "footprint_bytes": options.footprint_bytes,
                    "reads_per_write": options.reads_per_write,
                    "spin_iterations": options.spin_iterations,
                    "gap_ticks": self.gap_ticks,
                    "steal_ticks": round(STEAL_NS * ticks_per_s() / 1e9),
                },
            )
            _lower()
            os.close(report)
            self._lib.zc_soak_run(self._cells + index, self._ffi.from_buffer(memory), settings)
        except EngineError as error:
            os.write(report, f"{error.message}\n{error.hint or ''}".encode())
        except OSError as error:
            os.write(report, f"the soaker of CPU {cpu} cannot start: {error.strerror}".encode())
        finally:
            # Not even an error may unwind into the parent's code.
            os._exit(1)

    def _versions(self) -> list[int]:
        return [int(self._cells[index].version) for index in range(len(self.cpus))]

    def _wait_for_progress(self, before: Sequence[int], timeout_s: float, what: str) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            idle = [
                cpu
                for cpu, then, now in zip(self.cpus, before, self._versions(), strict=True)
                if now == then
            ]
            if not idle:
                return
            self.check()
            if time.monotonic() > deadline:
                raise EngineError(
                    f"the soaker of CPU {idle[0]} {what} within {timeout_s:g} s",
                    hint="Something else takes all of that CPU; soaking needs a machine with"
                    " some time left over.",
                )
            time.sleep(POLL_S)

    @property
    def pids(self) -> dict[int, int]:
        """CPU -> process."""
        return dict(self._pids)

    def snapshot(self) -> dict[int, SoakReading]:
        """Return every soaker's counters now, each with its own time stamp.

        Raises:
            EngineError: if counters could not be read whole.
        """
        failed = self._lib.zc_soak_read(self._cells, len(self.cpus), self._readings)
        if failed:
            raise EngineError(f"the counters of the soaker of CPU {self.cpus[failed - 1]} are torn")
        return {cpu: self._reading(self._readings[index]) for index, cpu in enumerate(self.cpus)}

    def _reading(self, raw: object) -> SoakReading:
        counts, now = raw.counts, raw.now_ticks  # type: ignore[attr-defined]
        since = now - counts.last_ticks
        return SoakReading(
            at_ticks=now,
            units=counts.units,
            task_gap_ticks=counts.task_gap_ticks,
            interrupt_gap_ticks=counts.interrupt_gap_ticks,
            steal_gap_ticks=counts.steal_gap_ticks,
            open_gap_ticks=since if since > self.gap_ticks else 0,
            task_gaps=counts.task_gaps,
            interrupt_gaps=counts.interrupt_gaps,
            steal_gaps=counts.steal_gaps,
        )

    def cpu_time_ns(self) -> dict[int, int]:
        """Return the CPU time each soaker has used."""
        return {cpu: cpu_time_ns(pid) for cpu, pid in self._pids.items()}

    def check(self) -> None:
        """Raise `EngineError` if a soaker has ended."""
        for cpu, pid in list(self._pids.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self._pids[cpu]
                code = os.waitstatus_to_exitcode(status)
                how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
                raise EngineError(f"the soaker of CPU {cpu} {how}")

    def pause(self) -> None:
        """Keep the soakers from running until `resume`."""
        for pid in self._pids.values():
            os.kill(pid, signal.SIGSTOP)

    def resume(self, *, is_waiting: bool = True) -> None:
        """Let them run again.

        Args:
            is_waiting: return when each has worked, and so booked the pause as a gap.  Beside
                a saturating load that takes long; without it the pause is an open gap until
                then, which readings count in the same way.

        Raises:
            EngineError: if one does not get going.
        """
        before = self._versions()
        for pid in self._pids.values():
            os.kill(pid, signal.SIGCONT)
        if is_waiting:
            self._wait_for_progress(before, RESUME_TIMEOUT_S, "did not go on")

    def stop(self) -> None:
        """End the soakers.  Idempotent."""
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)
            # Dying takes CPU time, which an idle priority gets late on a busy machine.
            with contextlib.suppress(PermissionError):
                os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
                os.setpriority(os.PRIO_PROCESS, pid, 0)
        for pid in self._pids.values():
            os.waitpid(pid, 0)
        self._pids.clear()

    def __enter__(self) -> Soakers:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _check(options: SoakOptions) -> None:
    if not 0 <= options.footprint_bytes <= LONGEST_FOOTPRINT_BYTES or options.footprint_bytes % 64:
        raise EngineError(
            f"a soaker's footprint of {options.footprint_bytes} bytes is not a multiple of 64"
            f" from 0 to {LONGEST_FOOTPRINT_BYTES}"
        )
    if options.reads_per_write < 0 or options.spin_iterations < 0:
        raise EngineError("a soaker's reads per write and spin iterations cannot be negative")
    if options.cpus is not None and not options.cpus:
        raise EngineError("there is no CPU to soak")


def _drop_descriptors(keep: int) -> None:
    """Close what was inherited: a soaker must not keep the parent's pipes and sockets open."""
    os.closerange(3, keep)
    os.closerange(keep + 1, os.sysconf("SC_OPEN_MAX"))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nowhere, standard)
    os.close(nowhere)


def _pin(cpu: int) -> None:
    try:
        os.sched_setaffinity(0, [cpu])
    except OSError as error:
        raise EngineError(
            f"no soaker can run on CPU {cpu}: {error.strerror}",
            hint=f"This process may use CPUs {', '.join(map(str, usable_cpus()))}.",
        ) from error


def _lower() -> None:
    """Give this process the lowest priority there is."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, NICE_LOWEST)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except OSError as error:
        raise EngineError(
            f"no permission for SCHED_IDLE: {error.strerror}",
            hint="A soaker of any higher priority would slow down what it measures; a container"
            " needs a seccomp profile that allows sched_setscheduler.",
        ) from error
