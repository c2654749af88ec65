"""How fast this machine reads and writes its memory, by one core.  A reading, never a fact.

The C library's own loops are timed through ctypes: memchr for a byte that is not
there reads everything, memset writes everything.  The buffer is larger than the
largest cache, and the best of a few passes counts: what else runs only slows it.
"""

from __future__ import annotations

import ctypes
import mmap
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from zcdb.host.cpufacts import largest_cache_bytes
from zcdb.host.sysfiles import read_kib, read_pairs
from zcdb.ids import Json

USUAL_BUFFER_BYTES = 64 << 20
LARGEST_BUFFER_BYTES = 256 << 20
CACHE_MULTIPLE = 2
MEMORY_SHARE = 16
"""Never more than this part of the memory that is available."""
PASSES = 3


@dataclass(frozen=True, slots=True)
class MemoryBandwidth:
    """Bytes per second that one core moves; None with a reason where it was not measured."""

    read_bytes_per_s: float | None
    write_bytes_per_s: float | None
    buffer_bytes: int
    reason: str | None = None

    def to_json(self) -> dict[str, Json]:
        """Return the form in which readings hold it."""
        return {
            "read_bytes_per_s": self.read_bytes_per_s,
            "write_bytes_per_s": self.write_bytes_per_s,
            "buffer_bytes": self.buffer_bytes,
            "reason": self.reason,
        }


def buffer_bytes(available_bytes: int | None, cache_bytes: int | None) -> int:
    """Return how large a buffer to move: beyond the caches, within the memory that is free."""
    wanted = max(USUAL_BUFFER_BYTES, CACHE_MULTIPLE * (cache_bytes or 0))
    wanted = min(wanted, LARGEST_BUFFER_BYTES)
    return wanted if available_bytes is None else min(wanted, available_bytes // MEMORY_SHARE)


def measure(root: Path = Path("/")) -> MemoryBandwidth:
    """Measure for a tenth of a second or two."""
    available = read_kib(read_pairs(root / "proc/meminfo"), "MemAvailable")
    cache = largest_cache_bytes(root)
    size = buffer_bytes(available, cache)
    if size < (cache or 0):
        reason = f"too little memory is free for a buffer beyond the cache of {cache} bytes"
        return MemoryBandwidth(None, None, size, reason)
    libc = ctypes.CDLL(None)
    libc.memchr.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    libc.memchr.restype = ctypes.c_void_p
    libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    with mmap.mmap(-1, size) as memory:
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        # The first pass makes the pages, and is not timed.
        libc.memset(start, 0, size)
        write_ns = _best_ns(lambda: libc.memset(start, 0, size))
        read_ns = _best_ns(lambda: libc.memchr(start, 1, size))
    return MemoryBandwidth(size * 1e9 / read_ns, size * 1e9 / write_ns, size)


def _best_ns(work: Callable[[], object]) -> int:
    times = []
    for _ in range(PASSES):
        start_ns = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - start_ns)
    return max(1, min(times))
