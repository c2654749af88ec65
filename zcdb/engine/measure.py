"""The soakers on their own: live, and around a command.

As in a trial, soakers are started and calibrated in idle brackets, and edges are
read with the sampler's priority.  One measurement runs on a host at a time.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from zcdb.engine.books import Books, CpuBook, Idle, calibrate, cpu_books
from zcdb.engine.soak import Soakers, SoakOptions
from zcdb.engine.window import Edge, EdgeReader, Sampler, Sources, read_edges, sampling_priority
from zcdb.errors import HostError, UsageError
from zcdb.host.cgroups import CpuGroups
from zcdb.host.lock import HostLock
from zcdb.host.procstat import usable_cpus
from zcdb.records import End

SAMPLE_NS = 100_000_000
BRACKET_NS = 1_000_000_000
LOCK_POLL_S = 0.5
NOT_FOUND = 127
NOT_EXECUTABLE = 126


class Bench:
    """Soakers, groups and a sampler's CPU: what every measurement here shares.

    Attributes:
        foreign_reason: why other work's CPU time is not measured; None if it is.
    """

    def __init__(self, soakers: Soakers, groups: CpuGroups | str, sampler_cpu: int) -> None:
        self.soakers = soakers
        self.groups = None if isinstance(groups, str) else groups
        self.foreign_reason = groups if isinstance(groups, str) else groups.usage_reason
        self.sampler_cpu = sampler_cpu

    def sampler(self) -> Sampler:
        """Return how edges are read here: its priority is taken for a moment to see if it can."""
        with sampling_priority(self.sampler_cpu) as sampler:
            return sampler

    def idle(self, duration_ns: int = BRACKET_NS) -> Idle:
        """Calibrate the soakers while nothing is measured."""
        return calibrate(self.edges(duration_ns))

    def edge(self) -> Edge:
        """Read one edge now."""
        with sampling_priority(self.sampler_cpu), EdgeReader(self._sources()) as reader:
            return reader.read()

    def edges(
        self,
        duration_ns: int | None,
        ends: Mapping[End, Callable[[], Mapping[str, int]]] | None = None,
        should_stop: Callable[[], bool] = lambda: False,
        wait: Callable[[float], object] = time.sleep,
    ) -> tuple[Edge, ...]:
        """Read edges as a trial does (see `window.read_edges`)."""
        with sampling_priority(self.sampler_cpu):
            return read_edges(duration_ns, SAMPLE_NS, self._sources(ends), should_stop, wait)

    def _sources(
        self, ends: Mapping[End, Callable[[], Mapping[str, int]]] | None = None
    ) -> Sources:
        return Sources(self.soakers, ends or {}, self.groups)


def take_lock(*, is_waiting: bool) -> HostLock:
    """Return the right to measure on this host: two measurements would spoil each other.

    Raises:
        HostError: if another one is running and this one is not to wait for its end.
    """
    while True:
        lock = HostLock.acquire(f"zcdb soak, process {os.getpid()}")
        if isinstance(lock, HostLock):
            return lock
        if not is_waiting:
            raise HostError(
                f"another measurement runs on this machine: {lock}",
                hint="Two at once would spoil each other; --wait waits for its end.",
            )
        time.sleep(LOCK_POLL_S)


@contextmanager
def open_bench(
    cpus: Collection[int] | None = None,
    *,
    is_load_pinned: bool,
    sampler_cpu: int | None = None,
    is_waiting: bool = False,
) -> Iterator[Bench]:
    """Start soakers on `cpus` (None: all); stop them and give everything back at the end.

    Args:
        is_waiting: wait for the end of another measurement on this host.

    Raises:
        HostError: if this machine cannot soak, or another measurement is running.
    """
    chosen = sorted(cpus) if cpus is not None else usable_cpus()
    lock = take_lock(is_waiting=is_waiting)
    joined = None
    try:
        groups = CpuGroups.create(chosen, is_isolated=None if is_load_pinned else False)
        joined = groups if isinstance(groups, CpuGroups) else None
        with Soakers.start(SoakOptions(cpus=tuple(chosen)), joined) as soakers:
            yield Bench(soakers, groups, chosen[0] if sampler_cpu is None else sampler_cpu)
    finally:
        if joined is not None:
            joined.close()
        lock.release()


# -- live ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FreeCpu:
    """What one CPU's soaker saw in one interval; shares of time, 0 to 1."""

    cpu: int
    free_share: float
    task_share: float
    interrupt_share: float
    steal_share: float


def watch(
    bench: Bench, interval_ns: int, duration_ns: int | None
) -> Iterator[tuple[int, list[FreeCpu]]]:
    """Yield (nanoseconds since the start, every CPU's shares) after each interval.

    Nothing is calibrated: the sampler and the timer interrupts count as used.
    """
    with EdgeReader(Sources(bench.soakers, is_host_read=False)) as reader:
        start = before = reader.read()
        while duration_ns is None or before.at_ns - start.at_ns < duration_ns:
            due_ns = before.at_ns + interval_ns
            if duration_ns is not None:
                due_ns = min(due_ns, start.at_ns + duration_ns)
            time.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)
            now = reader.read()
            bench.soakers.check()
            yield now.at_ns - start.at_ns, _free_cpus(before, now)
            before = now


def _free_cpus(before: Edge, now: Edge) -> list[FreeCpu]:
    return [_free_cpu(book) for book in cpu_books((before, now), None, None, {}).cpus]


def _free_cpu(book: CpuBook) -> FreeCpu:
    used = (book.task_share or 0, book.interrupt_share or 0, book.steal_share or 0)
    return FreeCpu(book.cpu, 1 - sum(used), *used)


# -- a command -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command cost.

    Attributes:
        exit_code: the command's; 128 plus the signal's number if one ended it.
        rusage_ns: user and system time of the command and the children it waited for.
        books: of the whole machine while it ran; the window is as long as it took.
        foreign_reason: why other work's CPU time was not measured; None if it was.
    """

    command: tuple[str, ...]
    exit_code: int
    rusage_ns: int
    books: Books
    sampler: Sampler
    foreign_reason: str | None


def find_program(name: str) -> str:
    """Return the path of a program.

    Raises:
        UsageError: if there is none of that name (exit code 127), or it may not be run (126).
    """
    found = shutil.which(name)
    if found is not None:
        return found
    if "/" in name and Path(name).exists():
        raise _usage_error(f"{name}: not an executable file", NOT_EXECUTABLE)
    raise _usage_error(f"{name}: command not found", NOT_FOUND)


def _usage_error(message: str, exit_code: int) -> UsageError:
    error = UsageError(
        message,
        hint="Write the command as you would in a shell, after '--'; there is no shell in"
        " between, so use 'sh -c \"...\"' for pipes.",
    )
    error.exit_code = exit_code  # what a shell would exit with
    return error


def measure_command(
    command: Sequence[str],
    cpus: Collection[int] | None = None,
    *,
    is_stdout_moved: bool = False,
    is_waiting: bool = False,
) -> CommandResult:
    """Run a command between two idle brackets and return what it cost.

    Args:
        command: program and arguments; no shell.
        is_stdout_moved: send its standard output to standard error.
        is_waiting: wait for the end of another measurement on this host.

    Raises:
        UsageError: if there is no such program.
        EngineError: if this machine cannot soak.
    """
    program = find_program(command[0])
    with open_bench(cpus, is_load_pinned=False, is_waiting=is_waiting) as bench:
        before = bench.idle()
        with _ignoring_interrupts():
            child = _Child(program, command, is_stdout_moved=is_stdout_moved)
            edges = _edges_around(bench, child)
        after = bench.idle()
        return CommandResult(
            command=tuple(command),
            exit_code=child.exit_code,
            rusage_ns=child.rusage_ns,
            books=cpu_books(edges, before, after, {}),
            sampler=bench.sampler(),
            foreign_reason=bench.foreign_reason,
        )


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Leave Ctrl-C to the command, as time(1) does: its figures are wanted all the same."""
    old = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, old)


class _Child:
    """A command that is forked now, executed on `go`, and waited for by `reap`."""

    def __init__(self, program: str, command: Sequence[str], *, is_stdout_moved: bool) -> None:
        self._name = command[0]
        waiting, self._gate = os.pipe()
        self._report, failing = os.pipe()
        self.rusage_ns = 0
        self._status = 0
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._gate)
            _execute(program, command, waiting, failing, is_stdout_moved=is_stdout_moved)
        os.close(waiting)
        os.close(failing)
        self._ended = os.pidfd_open(self.pid)

    def go(self) -> None:
        """Let it run its program.

        Raises:
            UsageError: if the kernel refuses the program.
        """
        os.write(self._gate, b"g")
        # The other end closes when the program is executed, and speaks when it cannot be.
        refusal = os.read(self._report, 4096).decode()
        if refusal:
            raise _usage_error(f"{self._name}: cannot be run: {refusal}", NOT_EXECUTABLE)

    def has_ended(self, wait_s: float = 0.0) -> bool:
        """Return True if it has ended; wait for that as long as is said."""
        return bool(select.select([self._ended], [], [], wait_s)[0])

    def reap(self) -> None:
        """Wait for its end, if it was let go, and take its exit status and CPU time."""
        for descriptor in (self._gate, self._report, self._ended):
            os.close(descriptor)
        _, self._status, usage = os.wait4(self.pid, 0)
        self.rusage_ns = round((usage.ru_utime + usage.ru_stime) * 1e9)

    @property
    def exit_code(self) -> int:
        """Its exit code, or 128 plus the number of the signal that ended it."""
        code = os.waitstatus_to_exitcode(self._status)
        return code if code >= 0 else 128 - code


def _execute(
    program: str, command: Sequence[str], gate: int, report: int, *, is_stdout_moved: bool
) -> NoReturn:
    """Wait at the gate, then become the command.  Never returns."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        if is_stdout_moved:
            os.dup2(2, 1)
        # Nothing comes if the parent has died.
        if os.read(gate, 1):
            os.execv(program, list(command))  # noqa: S606 (the user's own command)
    except OSError as error:
        os.write(report, (error.strerror or str(error)).encode())
    finally:
        os._exit(NOT_EXECUTABLE)


def _edges_around(bench: Bench, child: _Child) -> tuple[Edge, ...]:
    """Return edges from just before the command's start to its end, and reap it."""
    try:
        if bench.groups is not None:
            # Before it can fork: what joins later leaves its children outside.
            bench.groups.add(bench.groups.cpus[0], child.pid)
        first = bench.edge()
        child.go()
        return first, *bench.edges(None, should_stop=child.has_ended, wait=child.has_ended)
    finally:
        child.reap()
