"""How much of a host's memory bandwidth a copying sender needs to read its source.  Pure.

Careful on purpose.  Only the reading of a source that no cache can hold is counted: where the
other end of the copy, and the receiver's copies, find their bytes nobody knows.  And the
bandwidth is the highest that one core showed, times the cores of the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zcdb.factors import Factors, file_set
from zcdb.factors.values import file_range


@dataclass(frozen=True, slots=True)
class Memory:
    """What a host's own reading says of its memory.

    Attributes:
        bytes_per_s: the most that one core moves, reading or writing.
        buffer_bytes: size of what was read and written; no cache held it.
    """

    bytes_per_s: float
    buffer_bytes: int

    @classmethod
    def of(cls, readings: Mapping[str, Any]) -> Memory | None:
        """Return what a host's readings hold; None where it was not measured."""
        found = readings.get("memory_bandwidth") or {}
        rates = [
            rate
            for name in ("read", "write")
            if (rate := found.get(f"{name}_bytes_per_s")) is not None
        ]
        return cls(max(rates), found["buffer_bytes"]) if rates else None


def source_bytes(factors: Factors) -> int:
    """Return the size of what a sender sends again and again; one message where that is hot."""
    working_set = factors["working_set"]
    if (files := file_set(working_set)) is not None:
        return files.files * files.mean_size_bytes
    if (part := file_range(working_set)) is not None:
        return part.length_bytes
    if isinstance(working_set, int) and not isinstance(working_set, bool):
        return working_set
    return int(factors["message_size"])


def read_share(
    memory: Memory | None, factors: Factors, copied_bytes: int, elapsed_ns: int, cpus: int
) -> float | None:
    """Return the share of the bandwidth that reading the source took; None if not known.

    Args:
        copied_bytes: payload that the sender's CPUs copied in `elapsed_ns`.
        cpus: of the sender's end.

    Returns:
        0 where a cache may have held the source; at most 1.
    """
    if memory is None or elapsed_ns <= 0 or cpus < 1:
        return None
    if source_bytes(factors) < memory.buffer_bytes:
        return 0.0
    return min(1.0, copied_bytes * 1e9 / elapsed_ns / (memory.bytes_per_s * cpus))
