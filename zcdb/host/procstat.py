"""The kernel's own books of CPU time: /proc/stat and /proc/softirqs.

Parsers are pure; `StatReader` keeps the files open, so that reading them at an
edge is one system call each.  /proc/interrupts is deliberately not read: its
size grows with CPUs times interrupts, and /proc/stat has the totals.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from zcdb.errors import HostError

FIRST_BUFFER_BYTES = 64 * 1024
RECORD_BUFFER_BYTES = 8192
LONGEST_FILE_BYTES = 64 * 1024 * 1024
NET_SOFTIRQS = ("NET_TX", "NET_RX")


class CpuTicks(NamedTuple):
    """One CPU's row of /proc/stat, in units of 1/`user_hz()` s since boot.

    The kernel counts `guest` in `user` as well, and `guest_nice` in `nice`.
    """

    user: int
    nice: int
    system: int
    idle: int
    iowait: int
    irq: int
    softirq: int
    steal: int
    guest: int
    guest_nice: int

    def since(self, before: CpuTicks) -> CpuTicks:
        """Return the ticks between two readings; a counter that went backwards counts as 0.

        The kernel says itself that iowait can fall, and idle falls after a CPU
        was offline.
        """
        return CpuTicks(*(max(0, now - then) for now, then in zip(self, before, strict=True)))

    def busy(self, *, is_nice_busy: bool = True) -> int:
        """Return the ticks in which the CPU worked for somebody here.

        iowait is idle time; steal is nobody's here; guests are in user and nice
        already.

        Args:
            is_nice_busy: False while a soaker at nice 19 fills the nice column.
        """
        return self.user + self.system + self.irq + self.softirq + self.nice * is_nice_busy


@dataclass(frozen=True, slots=True)
class Stat:
    """What /proc/stat says.

    Attributes:
        cpus: CPU number -> its row; CPUs that are offline have none.
        context_switches: of the whole machine since boot.
        interrupts: the same, all of them.
    """

    cpus: Mapping[int, CpuTicks]
    context_switches: int
    interrupts: int


def user_hz() -> int:
    """Return how many ticks /proc/stat counts in a second (100 on Linux, whatever CONFIG_HZ)."""
    return os.sysconf("SC_CLK_TCK")


def parse_stat(text: str) -> Stat:
    """Read the text of /proc/stat.

    Raises:
        HostError: if a line is not what the kernel's documentation says.
    """
    cpus: dict[int, CpuTicks] = {}
    totals = {"ctxt": 0, "intr": 0}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name.startswith("cpu") and name != "cpu":
            cpus[_cpu_number(name, line)] = _ticks(rest, line)
        elif name in totals:
            # intr has a number for each interrupt after the total; only the total is wanted.
            totals[name] = _whole(rest.partition(" ")[0], line)
    if not cpus:
        raise HostError("/proc/stat has no line for any CPU")
    return Stat(cpus, totals["ctxt"], totals["intr"])


def _whole(text: str, line: str) -> int:
    if not text.isdecimal():
        raise HostError(f"/proc/stat: {text[:20]!r} in {line[:60]!r} is not a number")
    return int(text)


def _cpu_number(name: str, line: str) -> int:
    return _whole(name[3:], line)


def _ticks(rest: str, line: str) -> CpuTicks:
    numbers = [_whole(word, line) for word in rest.split()]
    if len(numbers) < 4:
        raise HostError(f"/proc/stat: {line[:60]!r} has fewer than four columns")
    # Old kernels have fewer columns, and a future one may have more.
    padded = (numbers + [0] * 10)[:10]
    return CpuTicks(*padded)


def parse_softirqs(text: str) -> dict[str, dict[int, int]]:
    """Read the network rows of /proc/softirqs.

    Returns:
        "NET_TX" and "NET_RX" -> CPU number -> count since boot.

    Raises:
        HostError: if a row has not one number for each CPU of the heading.
    """
    heading, _, body = text.partition("\n")
    cpus = [int(word[3:]) for word in heading.split()]
    rows: dict[str, dict[int, int]] = {}
    for line in body.splitlines():
        name, _, rest = line.strip().partition(":")
        if name in NET_SOFTIRQS:
            counts = [int(word) for word in rest.split()]
            if len(counts) != len(cpus):
                raise HostError(
                    f"/proc/softirqs: {name} has {len(counts)} numbers for {len(cpus)} CPUs"
                )
            rows[name] = dict(zip(cpus, counts, strict=True))
    return rows


def parse_cpu_list(text: str) -> list[int]:
    """Read a list as the kernel writes it: `"0-2,5"` is [0, 1, 2, 5].

    Raises:
        ValueError: if it is not one.
    """
    cpus: list[int] = []
    for part in text.strip().split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"{part!r} in {text.strip()!r} is not a CPU or a range of CPUs")
        cpus.extend(range(int(first), int(last if dash else first) + 1))
    return sorted(set(cpus))


def usable_cpus() -> list[int]:
    """Return the CPUs on which this process may run, whatever it is pinned to just now.

    The kernel cuts a wish for all CPUs down to those that are online and in the
    cpuset, so the answer is asked of it and the old pinning put back.
    """
    pinned = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, range(os.sysconf("SC_NPROCESSORS_CONF")))
        return sorted(os.sched_getaffinity(0))
    finally:
        os.sched_setaffinity(0, pinned)


class OpenFile:
    """A file below /proc or /sys that stays open and is read from its start each time."""

    def __init__(self, path: Path) -> None:
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise HostError(f"cannot read {path}: {error.strerror}") from error
        self._path = path
        self._size_bytes = FIRST_BUFFER_BYTES

    def read(self) -> str:
        """Return the whole text, read in one system call so that it is of one moment.

        Raises:
            HostError: if it cannot be read, or has no end.
        """
        while True:
            try:
                data = os.pread(self._descriptor, self._size_bytes, 0)
            except OSError as error:
                raise HostError(f"cannot read {self._path}: {error.strerror}") from error
            if len(data) < self._size_bytes:
                return data.decode()
            self._size_bytes *= 2
            if self._size_bytes > LONGEST_FILE_BYTES:
                raise HostError(f"{self._path} is longer than {LONGEST_FILE_BYTES} bytes")

    def read_records(self) -> str:
        """Return the whole text of a file that the kernel hands out in records.

        However large the buffer, one system call gives no more than fits into a page of
        the kernel's: on a machine with 26 CPUs that is not all of /proc/net/softnet_stat.

        Raises:
            HostError: if it cannot be read, or has no end.
        """
        parts: list[bytes] = []
        offset = 0
        while True:
            try:
                data = os.pread(self._descriptor, RECORD_BUFFER_BYTES, offset)
            except OSError as error:
                raise HostError(f"cannot read {self._path}: {error.strerror}") from error
            if not data:
                return b"".join(parts).decode()
            parts.append(data)
            offset += len(data)
            if offset > LONGEST_FILE_BYTES:
                raise HostError(f"{self._path} is longer than {LONGEST_FILE_BYTES} bytes")

    def close(self) -> None:
        """Close the file.  Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class StatReader:
    """/proc/stat and /proc/softirqs, kept open; a context manager."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._stat = OpenFile(proc / "stat")
        try:
            self._softirqs = OpenFile(proc / "softirqs")
        except HostError:
            self._stat.close()
            raise

    def stat(self) -> Stat:
        """Read /proc/stat now."""
        return parse_stat(self._stat.read())

    def softirqs(self) -> dict[str, dict[int, int]]:
        """Read /proc/softirqs now."""
        return parse_softirqs(self._softirqs.read())

    def close(self) -> None:
        """Close both files.  Idempotent."""
        self._stat.close()
        self._softirqs.close()

    def __enter__(self) -> StatReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
