"""The counters of an endpoint, in memory that its process and its parent share.

Made by the parent before the fork.  The loops store into it without a lock and
the parent reads it without stopping them.  What an endpoint never counts is not
in its readings: there is no 0 that was not measured.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
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
"""Counters of every endpoint; names as in `struct zc_counters`."""

CLIENT_NAMES = ("transactions", "latency_sum_ns", "latency_squares_ns2")
SERVER_NAMES = ("transactions", "refused")
DATAGRAM_SENDER_NAMES = ("datagrams",)
DATAGRAM_RECEIVER_NAMES = ("datagrams", "lost", "reordered")
MAPPING_NAMES = ("mapped_bytes",)
COLD_NAMES = ("dropped_pages", "kept_pages")
"""What endpoints of one kind count beside them."""

LATENCY_BUCKET = "latency_bucket_"
"""Before a bucket's number: its transactions, in the reading of a client."""


class SharedCounters:
    """One `struct zc_counters` a stream, and before them the stop word on lines of its own.

    Args:
        names: counters that a reading carries beside `COUNTER_NAMES`.
        has_histograms: each stream also has a histogram of latencies.
    """

    def __init__(
        self, streams: int, names: Sequence[str] = (), *, has_histograms: bool = False
    ) -> None:
        self._ffi, self._lib = ffi, lib = native()
        self._names = (*COUNTER_NAMES, *names)
        size = lib.ZC_COUNTERS_BYTES
        counters_bytes = (1 + streams) * size
        histogram_bytes = 8 * lib.ZC_LATENCY_BUCKETS if has_histograms else 0
        # Anonymous and shared: it has no name, and is gone with the last process.
        self._memory = mmap.mmap(-1, counters_bytes + streams * histogram_bytes)
        start = ffi.cast("uint8_t *", ffi.from_buffer(self._memory))
        self.streams = streams
        self.stop_word: CData = ffi.cast("uint64_t *", start)
        self._counters = ffi.cast("struct zc_counters *", start + size)
        self._sum = ffi.new("struct zc_counters *")
        self._histograms = ffi.cast("uint64_t *", start + counters_bytes)
        self._found = ffi.new("uint64_t[]", 2 * lib.ZC_LATENCY_BUCKETS) if has_histograms else None

    def of_stream(self, stream: int) -> CData:
        """Return a pointer to one stream's counters, for its loop."""
        return self._counters + stream

    def histogram_of_stream(self, stream: int) -> CData:
        """Return a pointer to one stream's histogram, for its loop."""
        return self._histograms + stream * self._lib.ZC_LATENCY_BUCKETS

    def stop(self) -> None:
        """Ask all loops to end after the call they are in."""
        self.stop_word[0] = 1

    def read(self) -> dict[str, int]:
        """Return the sums over all streams now, and how many streams are running."""
        self._add_up()
        reading = {name: int(getattr(self._sum, name)) for name in self._names}
        reading["streams_running"] = int(self._sum.state)
        if self._found is not None:
            reading.update(self._read_histogram())
        return reading

    def mismatches(self) -> tuple[int, int | None]:
        """Return how many bytes differed, and the smallest offset in a stream of a first one."""
        self._add_up()
        count = int(self._sum.mismatch_bytes)
        return count, int(self._sum.first_bad_offset) if count else None

    def _add_up(self) -> None:
        self._lib.zc_sum_counters(self._counters, self.streams, self._sum)

    def _read_histogram(self) -> dict[str, int]:
        """Return the transactions of each bucket that has any, over all streams."""
        buckets = self._lib.zc_sum_histograms(self._histograms, self.streams, self._found)
        found = self._ffi.unpack(self._found, 2 * buckets)
        return {
            f"{LATENCY_BUCKET}{bucket}": count
            for bucket, count in zip(found[::2], found[1::2], strict=True)
        }
