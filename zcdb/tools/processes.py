"""What the kernel tells of other processes: their tree, their CPU time, how one ended."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from zcdb.errors import EngineError

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> list[int]:
    """Return a process and all its living descendants."""
    found = [pid]
    for one in found:
        found += _children(one)
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    except (FileNotFoundError, ProcessLookupError):
        # It ended while we looked.
        pass
    return children


def tree_cpu_time_ns(pid: int) -> int:
    """Return the CPU time of a process and its descendants, those that ended included."""
    return sum(_clock_ns(one) + _reaped_children_ns(one) for one in tree(pid))


def _clock_ns(pid: int) -> int:
    try:
        # The clock id of a process is made from its pid; see clock_getcpuclockid(3).
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError:
        return 0


def _reaped_children_ns(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    # The name in parentheses may hold anything; fields are counted after it.
    fields = text.rpartition(")")[2].split()
    cutime, cstime = int(fields[13]), int(fields[14])
    return (cutime + cstime) * 10**9 // _TICKS_PER_S


def describe_status(status: int) -> str:
    """Return what a wait status says: `"ended with exit code 1"`, `"was killed by SIGSEGV"`."""
    if os.WIFSIGNALED(status):
        return f"was killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"ended with exit code {os.WEXITSTATUS(status)}"


def interface_received_bytes(name: str) -> int:
    """Return what an interface of this network namespace has received, headers included.

    Raises:
        EngineError: if there is no such interface.
    """
    # Not from /sys, which may still show another namespace's interfaces.
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        interface, colon, counters = line.partition(":")
        if colon and interface.strip() == name:
            return int(counters.split()[0])
    raise EngineError(f"there is no interface {name!r} at this end")
