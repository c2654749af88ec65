"""The working set: which bytes a sender sends, and the files that hold them.

Sizes are pure arithmetic, so that the receiver of a verified stream can know
the sender's period without asking.  Files have no name: they are gone with the
process that made them.  They are written once, to the last byte, and synced,
so that they are in the page cache and no write-back disturbs a measurement.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from io import FileIO

from zcdb import units
from zcdb.engine.native import native
from zcdb.errors import EngineError
from zcdb.factors import FactorValue, file_set
from zcdb.factors.values import FileRange, file_range

WRITE_BYTES = 1 << 20
"""Bytes written to a file at once."""

POOL_BYTES = 4 << 20
POOL_BUFFERS = (2, 1024)
"""A hot zero-copy pool has as many messages as fit POOL_BYTES, within these limits."""


def extent_sizes(working_set: FactorValue, message_size_bytes: int) -> tuple[int, ...]:
    """Return the sizes in bytes of the pieces that make up a working set.

    'hot' is one message.  A size is cut to whole messages, so that every call
    of a walk is a full one.  The files of a set lie between a half and one and
    a half times the mean, evenly spread and taken in turns from both ends, so
    that any two neighbours have about the mean size; their sum is files x mean.  A
    part of a file is taken as it is.
    """
    part = file_range(working_set)
    if part is not None:
        return (part.length_bytes,)
    files = file_set(working_set)
    if files is not None:
        return _file_sizes(files.files, files.mean_size_bytes)
    if isinstance(working_set, int):
        return (max(working_set // message_size_bytes, 1) * message_size_bytes,)
    return (message_size_bytes,)


def _file_sizes(count: int, mean_bytes: int) -> tuple[int, ...]:
    half = mean_bytes // 2
    pairs = count // 2
    sizes: list[int] = []
    for pair in range(pairs):
        difference = half * (pairs - pair) // pairs
        sizes += [mean_bytes - difference, mean_bytes + difference]
    return tuple(sizes) if count % 2 == 0 else (*sizes, mean_bytes)


def pool_buffers(message_size_bytes: int) -> int:
    """Return how many buffers the pool of a hot zero-copy sender has."""
    fewest, most = POOL_BUFFERS
    return min(max(POOL_BYTES // message_size_bytes, fewest), most)


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """Open files that hold the verification pattern, one after another.

    Attributes:
        sizes: bytes that are sent of each, same order.
        offsets: where they begin in each, same order.
    """

    files: Sequence[FileIO]
    sizes: Sequence[int]
    offsets: Sequence[int]

    @property
    def descriptors(self) -> list[int]:
        """The file descriptors, same order."""
        return [file.fileno() for file in self.files]

    def cached_share(self) -> float:
        """Return which share of all their pages is in the page cache, 0 to 1.

        Raises:
            OSError: if the kernel does not say (a file of another user, not mappable).
        """
        parts = list(zip(self.descriptors, self.offsets, self.sizes, strict=True))
        cached = sum(_cached_pages(*part) for part in parts)
        return cached / sum(page_count(size, offset) for _, offset, size in parts)

    def drop(self) -> None:
        """Take them out of the page cache, as far as the file system does that."""
        for descriptor in self.descriptors:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def page_count(size_bytes: int, offset_bytes: int = 0) -> int:
    """Return how many pages hold this many bytes from this offset on."""
    return -(-(offset_bytes + size_bytes) // mmap.PAGESIZE) - offset_bytes // mmap.PAGESIZE


def _cached_pages(descriptor: int, offset_bytes: int, size_bytes: int) -> int:
    _, lib = native()
    cached = lib.zc_cached_pages(descriptor, offset_bytes, size_bytes)
    if cached < 0:
        raise OSError(-cached, os.strerror(-cached))
    return cached


def make_source(
    working_set: FactorValue, message_size_bytes: int, folder: str | None = None
) -> SourceFiles:
    """Make the files of a working set in `folder` (None: the system's temporary folder).

    Of a part of a file only the part is written; what lies around it is a hole.

    Raises:
        EngineError: if the folder is missing or full, or too many files would be open.
    """
    sizes = extent_sizes(working_set, message_size_bytes)
    return make_files(sizes, folder, file_range(working_set))


def make_files(
    sizes: Sequence[int], folder: str | None = None, part: FileRange | None = None
) -> SourceFiles:
    """Make files of these sizes, or one that has such a part, in `folder`.

    Raises:
        EngineError: if the folder is missing or full, or too many files would be open.
    """
    folder = folder or tempfile.gettempdir()
    files: list[FileIO] = []
    stream_offset = 0
    try:
        for size in sizes:
            file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
            files.append(file)
            if part is not None:
                file.truncate(part.file_bytes)
                file.seek(part.offset_bytes)
            _write_pattern(file, size, stream_offset)
            stream_offset += size
    except OSError as error:
        for file in files:
            file.close()
        raise EngineError(
            f"the source files ({len(sizes)}, {units.format_size(sum(sizes))} in all)"
            f" cannot be made in {folder}: {error.strerror}",
            hint=_hint(error.errno),
        ) from None
    return SourceFiles(files, sizes, [part.offset_bytes if part else 0] * len(sizes))


def _hint(number: int | None) -> str:
    if number == errno.EMFILE:
        return "use fewer files, or raise the limit of open files (ulimit -n)"
    return "make room there, or set TMPDIR to a folder with more"


def _write_pattern(file: FileIO, size_bytes: int, stream_offset: int) -> None:
    ffi, lib = native()
    block = bytearray(min(size_bytes, WRITE_BYTES))
    start = ffi.from_buffer("uint8_t[]", block)
    written = 0
    while written < size_bytes:
        some = min(size_bytes - written, len(block))
        lib.zc_pattern_fill(start, some, stream_offset + written)
        # A short write is no error: the next block starts where it stopped.
        written += os.write(file.fileno(), memoryview(block)[:some])
    os.fsync(file.fileno())
