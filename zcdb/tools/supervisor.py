"""The process that runs a tool: a child of the agent, and the tool's parent.

It joins the end's control groups, pins itself, waits to be told to go, runs
the job (again and again, if it is a repeated one) and keeps in shared memory
what became of it, so that reading disturbs nobody.  It dies with the agent, and
the tool dies with it.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import resource
import signal
import struct
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from zcdb.tools.model import PRIVATE_FOLDER, Job

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
CLONE_NEWNS = 0x00020000
CLONE_NEWPID = 0x20000000
MS_REC = 0x4000
MS_PRIVATE = 1 << 18
FOLDER_SHARE = "90%"
"""Of the memory, at most, for a private folder."""

FILL_BYTES = 1 << 20
EXIT_CANNOT_RUN = 127
EXIT_SUPERVISOR = 71
EXIT_BY_SIGNAL = 128
_FIELDS = (
    *("generation", "pid", "runs", "written_bytes", "cpu_time_ns", "started_ns", "ended_ns"),
    *("is_over", "status", "is_prepared"),
)
_STRUCT = struct.Struct(f"={len(_FIELDS)}q")
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job has come.

    Attributes:
        pid: of the run that is going on; 0 between runs and after the last.
        runs: runs that have ended well.
        written_bytes: what those and a failed last one wrote, by the kernel's account.
        cpu_time_ns: CPU time of all runs that have ended, their children included.
        started_ns, ended_ns: begin of the first and end of the last run that has ended,
            CLOCK_MONOTONIC; 0 before.
        is_over: no run will follow.
        status: wait status of the last run that ended; 0 before.
        is_prepared: it is pinned, has its folder, and waits to be told to go, or has gone.
    """

    pid: int
    runs: int
    written_bytes: int
    cpu_time_ns: int
    started_ns: int
    ended_ns: int
    is_over: bool
    status: int
    is_prepared: bool


class Board:
    """Memory that a supervisor writes and its parent reads."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _STRUCT.size)
        self._values = dict.fromkeys(_FIELDS, 0)

    def write(self, **values: int) -> None:
        """Change some values at once; the supervisor only."""
        self._values |= values
        self._values["generation"] += 1
        # An odd generation tells the reader that the rest is being written.
        _STRUCT.pack_into(self._memory, 0, *self._values.values())
        self._values["generation"] += 1
        struct.pack_into("=q", self._memory, 0, self._values["generation"])

    def read(self) -> Progress:
        """Return values that belong together."""
        while True:
            generation, *values = _STRUCT.unpack_from(self._memory, 0)
            (again,) = struct.unpack_from("=q", self._memory, 0)
            if generation == again and generation % 2 == 0:
                pid, runs, written, cpu, started, ended, is_over, status, is_prepared = values
                return Progress(
                    pid,
                    runs,
                    written,
                    cpu,
                    started,
                    ended,
                    bool(is_over),
                    status,
                    bool(is_prepared),
                )


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a supervisor is started with.

    Attributes:
        go: reading from it gives a byte when the tool shall run; its end means to give up.
        output, errors: descriptors that take what the tool prints.
        source: descriptor of the file that `{file}` names; None if there is none.
    """

    go: int
    output: int
    errors: int
    source: int | None
    cpus: Sequence[int]
    cgroup_paths: Sequence[str]


def run_supervisor(job: Job, surroundings: Surroundings, board: Board, parent_pid: int) -> NoReturn:
    """Be the supervisor, then exit; never returns into the code of the parent."""
    exit_code = EXIT_SUPERVISOR
    is_told = False
    try:
        _become_independent(surroundings, parent_pid)
        _supervise(job, surroundings, board)
        exit_code = 0
    except OSError as error:
        is_told = True
        os.write(surroundings.errors, f"{error.strerror}: {error.filename or ''}\n".encode())
    finally:
        try:
            if exit_code:
                board.write(pid=0, is_over=1, status=exit_code << 8)
            if exit_code and not is_told:
                os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(exit_code)


def _become_independent(surroundings: Surroundings, parent_pid: int) -> None:
    # Objects of the parent must not be collected here: they would close descriptors
    # whose numbers are ours by then.
    gc.disable()
    _die_with(parent_pid)
    _LIBC.prctl(PR_SET_NAME, b"zcdb-tool")
    os.setsid()
    signal.set_wakeup_fd(-1)
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(name, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    kept = {surroundings.go, surroundings.output, surroundings.errors, surroundings.source}
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = soft if soft != resource.RLIM_INFINITY else 1 << 20
    at = 3
    for number in sorted(number for number in kept if number is not None):
        os.closerange(at, number)
        at = number + 1
    os.closerange(at, limit)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _die_with(parent_pid: int) -> None:
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(EXIT_SUPERVISOR)


def _supervise(job: Job, surroundings: Surroundings, board: Board) -> None:
    for path in surroundings.cgroup_paths:
        Path(path).write_text(str(os.getpid()))
    if surroundings.cpus:
        os.sched_setaffinity(0, surroundings.cpus)
    if job.needs_private_folder:
        _make_private(job.files)
    board.write(is_prepared=1)
    if os.read(surroundings.go, 1) != b"g":
        board.write(is_over=1)
        return
    started_ns = time.monotonic_ns()
    while True:
        status = _run_once(job, surroundings, board, started_ns)
        if status != 0 or not job.is_repeated:
            break
    board.write(is_over=1)


def _make_private(files: Mapping[str, str | int]) -> None:
    """Leave the mount and the process namespace; make the private folder and its files.

    The first process that is forked now is the first of its namespace: whatever it forks ends
    with it.
    """
    _check(_LIBC.unshare(CLONE_NEWNS | CLONE_NEWPID), "namespaces of its own")
    _check(_LIBC.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "/")
    options = f"mode=755,size={FOLDER_SHARE}".encode()
    place = PRIVATE_FOLDER.encode()
    _check(_LIBC.mount(b"tmpfs", place, b"tmpfs", 0, options), PRIVATE_FOLDER)
    for name, content in files.items():
        path = Path(PRIVATE_FOLDER, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir()
        elif isinstance(content, str):
            path.write_text(content)
        else:
            with path.open("wb", buffering=0) as file:
                fill(file.fileno(), content)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def fill(descriptor: int, size_bytes: int) -> None:
    """Write so many bytes that no layer below can compress or share."""
    block = os.urandom(min(FILL_BYTES, size_bytes))
    written = 0
    while written < size_bytes:
        written += os.write(descriptor, memoryview(block)[: size_bytes - written])


def _run_once(job: Job, surroundings: Surroundings, board: Board, started_ns: int) -> int:
    own_pid = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become_tool(job, surroundings, own_pid)
    board.write(pid=pid, started_ns=started_ns)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    ended_ns = time.monotonic_ns()
    # It is dead but not gone: its account can still be read.
    written = written_bytes(pid)
    _, status, usage = os.wait4(pid, 0)
    before = board.read()
    board.write(
        pid=0,
        runs=before.runs + (status == 0),
        written_bytes=before.written_bytes + written,
        cpu_time_ns=before.cpu_time_ns + round((usage.ru_utime + usage.ru_stime) * 10**9),
        ended_ns=ended_ns,
        status=status,
    )
    return status


def written_bytes(pid: int) -> int:
    """Return how many bytes a process has handed to write calls.

    Raises:
        OSError: if it has gone, or the kernel keeps no such account.
    """
    text = Path(f"/proc/{pid}/io").read_text()
    words = dict(line.split(": ") for line in text.splitlines())
    return int(words["wchar"])


def _become_tool(job: Job, surroundings: Surroundings, parent_pid: int) -> NoReturn:
    try:
        os.dup2(surroundings.output, 1)
        os.dup2(surroundings.errors, 2)
        if job.needs_private_folder:
            _become_first_process()
        else:
            _die_with(parent_pid)
        argv = job.argv
        if surroundings.source is not None:
            os.set_inheritable(surroundings.source, True)
            path = f"/proc/self/fd/{surroundings.source}"
            argv = tuple(word.replace("{file}", path) for word in argv)
        os.execv(argv[0], argv)  # noqa: S606 (that no shell is there is the point)
    except OSError as error:
        os.write(2, f"{job.argv[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(EXIT_CANNOT_RUN)


def _become_first_process() -> None:
    """Stay as the first process of the namespace and return in a child of it.

    The first process inherits orphans, which no tool expects; and when it dies, all others do.
    """
    # The supervisor cannot be seen from inside, so nobody can ask whether it still lives.
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    tool = os.fork()
    if tool == 0:
        return
    pid, status = 0, 0
    while pid != tool:
        pid, status = os.wait()
    if os.WIFSIGNALED(status):
        os.write(2, f"killed by {signal.Signals(os.WTERMSIG(status)).name}\n".encode())
        os._exit(EXIT_BY_SIGNAL)
    os._exit(os.WEXITSTATUS(status))
