"""The counters of an endpoint, in memory that its process and its parent share.

Made by the parent before the fork.  The loops store into it without a lock and
the parent reads it without stopping them.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

from zcdb.engine.native import native

if TYPE_CHECKING:
    from zcdb.engine._hot import CData

COUNTER_NAMES = (
    "payload_bytes",
    "calls",
    "short_calls",
    "completions",
    "copied",
    "enobufs",
    "passes",
)
"""Counters that a reading carries; names as in `struct zc_counters`."""


class SharedCounters:
    """One `struct zc_counters` a stream, and before them the stop word on lines of its own."""

    def __init__(self, streams: int) -> None:
        ffi, self._lib = native()
        size = self._lib.ZC_COUNTERS_BYTES
        # Anonymous and shared: it has no name, and is gone with the last process.
        self._memory = mmap.mmap(-1, (1 + streams) * size)
        start = ffi.cast("uint8_t *", ffi.from_buffer(self._memory))
        self.streams = streams
        self.stop_word: CData = ffi.cast("uint64_t *", start)
        self._counters = ffi.cast("struct zc_counters *", start + size)
        self._sum = ffi.new("struct zc_counters *")

    def of_stream(self, stream: int) -> CData:
        """Return a pointer to one stream's counters, for its loop."""
        return self._counters + stream

    def stop(self) -> None:
        """Ask all loops to end after the call they are in."""
        self.stop_word[0] = 1

    def read(self) -> dict[str, int]:
        """Return the sums over all streams now, and how many streams are running."""
        self._add_up()
        reading = {name: int(getattr(self._sum, name)) for name in COUNTER_NAMES}
        reading["streams_running"] = int(self._sum.state)
        return reading

    def mismatches(self) -> tuple[int, int | None]:
        """Return how many bytes differed, and the smallest offset in a stream of a first one."""
        self._add_up()
        count = int(self._sum.mismatch_bytes)
        return count, int(self._sum.first_bad_offset) if count else None

    def _add_up(self) -> None:
        self._lib.zc_sum_counters(self._counters, self.streams, self._sum)
