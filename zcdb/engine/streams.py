"""The streams of an endpoint: one thread each, all of whose time is spent in a C loop.

The threads are started early, say where they may run, and wait; the C call
gives up Python's lock for the whole run.  Memory is touched before anything is
timed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zcdb.engine import files
from zcdb.engine.apis import RECEIVER_APIS, SENDER_APIS
from zcdb.engine.counters import SharedCounters
from zcdb.engine.native import native
from zcdb.engine.options import ReceiverOptions, SenderOptions
from zcdb.errors import EngineError

if TYPE_CHECKING:
    from zcdb.engine._hot import CData

_EXPLANATIONS = {
    errno.ETIME: "notifications of its last sends did not arrive within 2 s",
    errno.ENODATA: "a source file has become shorter",
    errno.ENOMEM: "no memory, or more locked pages than the memlock limit allows (ulimit -l)",
    errno.ENOBUFS: "no memory for notifications or locked pages"
    " (raise net.core.optmem_max or the memlock limit)",
}


@dataclass(frozen=True, slots=True)
class Stream:
    """One connection and the loop that serves it.

    Attributes:
        loop: name of the C function.
        job: its argument.
        owned: whatever the job points to, kept alive here.
    """

    connection: socket.socket
    loop: str
    job: CData
    owned: Sequence[object]

    def run(self) -> str | None:
        """Run the loop to its end; return what failed, if anything did."""
        _, lib = native()
        function: Callable[[CData], int] = getattr(lib, self.loop)
        number = -function(self.job)
        # So the other end sees the end of the stream; it may be gone already.
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
        if not number:
            return None
        return f"{self.loop.split('_', 2)[2]}: {_EXPLANATIONS.get(number, os.strerror(number))}"


class Crew:
    """The threads of an endpoint's streams, waiting to be let go.

    The first stream is run by the calling thread.  So an endpoint of one stream
    is a process of one thread, for which the C library and the kernel's lookup
    of a descriptor cost less at every call.

    Attributes:
        cpus: those that any of the threads may use, read back in each.
    """

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._streams = streams
        self._failures: list[str | None] = [None] * len(streams)
        self._are_ready = threading.Barrier(len(streams))
        self._may_go = threading.Event()
        self._cpus_of_threads: list[set[int]] = [os.sched_getaffinity(0)]
        self._threads = [
            threading.Thread(target=self._wait_and_run, args=(number,), daemon=True)
            for number in range(1, len(streams))
        ]
        for thread in self._threads:
            thread.start()
        self._are_ready.wait()
        self.cpus = sorted(set().union(*self._cpus_of_threads))

    def run(self, longest_run_ns: int) -> list[str]:
        """Run all loops to their end; return a sentence for each that failed."""
        deadline_ns = time.monotonic_ns() + longest_run_ns
        for stream in self._streams:
            stream.job.deadline_ns = deadline_ns
        self._may_go.set()
        self._failures[0] = self._streams[0].run()
        for thread in self._threads:
            thread.join()
        return [
            f"stream {number}: {failure}"
            for number, failure in enumerate(self._failures)
            if failure is not None
        ]

    def _wait_and_run(self, number: int) -> None:
        self._cpus_of_threads.append(os.sched_getaffinity(0))
        self._are_ready.wait()
        self._may_go.wait()
        self._failures[number] = self._streams[number].run()


def sender_streams(
    options: SenderOptions,
    connections: Sequence[socket.socket],
    counters: SharedCounters,
    source: files.SourceFiles | None,
) -> list[Stream]:
    """Return a waiting stream for each connection.

    Args:
        source: the files to send from, for APIs that take files.
    """
    return [
        _sender_stream(options, number, connection, counters, source)
        for number, connection in enumerate(connections)
    ]


def _sender_stream(
    options: SenderOptions,
    number: int,
    connection: socket.socket,
    counters: SharedCounters,
    source: files.SourceFiles | None,
) -> Stream:
    ffi, _ = native()
    api = SENDER_APIS[options.api]
    sizes = files.extent_sizes(options.working_set, options.message_size_bytes)
    descriptors = source.descriptors if source is not None else [-1]
    extents = ffi.new(
        "struct zc_extent[]",
        [
            {"bytes": size, "fd": descriptor}
            for size, descriptor in zip(sizes, descriptors, strict=True)
        ],
    )
    job = ffi.new("struct zc_send_job *")
    job.socket_fd = connection.fileno()
    job.fragments = options.fragments
    job.message_bytes = options.message_size_bytes
    job.total_bytes = options.total_bytes or 0
    job.fills_pattern = options.verify and not api.takes_file
    job.extents, job.extents_count = extents, len(sizes)
    job.stop, job.counters = counters.stop_word, counters.of_stream(number)
    owned: list[object] = [extents, connection, source]
    if api.name == "splice":
        job.pipe_read_fd, job.pipe_write_fd = _pipe(options.message_size_bytes)
    memory_bytes = _sender_memory_bytes(options, sizes)
    if memory_bytes:
        owned += _give_memory(job, memory_bytes)
        job.memory_bytes = memory_bytes
    if api.takes_pool:
        owned += _give_pool(job, memory_bytes // options.message_size_bytes)
        job.pool_walks = options.working_set != "hot"
    return Stream(connection, api.loop, job, owned)


def _sender_memory_bytes(options: SenderOptions, sizes: Sequence[int]) -> int:
    api = SENDER_APIS[options.api]
    if api.takes_file:
        return options.message_size_bytes if api.name == "read_write" else 0
    if api.takes_pool and options.working_set == "hot":
        return files.pool_buffers(options.message_size_bytes) * options.message_size_bytes
    return sum(sizes)


def _give_memory(job: CData, size_bytes: int) -> list[object]:
    """Give a job page-aligned memory of its own, touched and filled with the pattern."""
    ffi, lib = native()
    try:
        memory = mmap.mmap(-1, size_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise EngineError(
            f"no memory for a buffer of {size_bytes} bytes: {error.strerror}",
            hint="use a smaller working set, smaller messages or fewer streams",
        ) from None
    view = ffi.from_buffer("uint8_t[]", memory)
    lib.zc_pattern_fill(view, size_bytes, 0)
    job.memory = view
    return [memory, view]


def _give_pool(job: CData, buffers: int) -> list[object]:
    ffi, _ = native()
    job.pool = pool = ffi.new("uint32_t[]", buffers)
    # Twice the pool, so that a notification that is late blocks no number of a newer send.
    job.sends_count = 1 << (2 * buffers - 1).bit_length()
    job.sends = sends = ffi.new("uint32_t[]", job.sends_count)
    return [pool, sends]


def pipe_size_bytes(message_size_bytes: int) -> int:
    """Return how large a pipe this user may have for messages of this size, at most."""
    read_end, write_end = _pipe(message_size_bytes)
    try:
        return fcntl.fcntl(write_end, fcntl.F_GETPIPE_SZ)
    finally:
        os.close(read_end)
        os.close(write_end)


def _pipe(message_size_bytes: int) -> tuple[int, int]:
    """Return a pipe that holds a message, or as much of it as this user may have.

    A message that does not start at a page's begin touches one page more.
    """
    read_end, write_end = os.pipe()
    limit = int(Path("/proc/sys/fs/pipe-max-size").read_text())
    wanted = message_size_bytes + mmap.PAGESIZE
    for size in (wanted, min(wanted, limit)):
        # Without root there is also a limit for all pipes of the user together.
        with contextlib.suppress(OSError):
            fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, max(size, 65536))
            break
    return read_end, write_end


def receiver_streams(
    options: ReceiverOptions, connections: Sequence[socket.socket], counters: SharedCounters
) -> list[Stream]:
    """Return a waiting stream for each connection."""
    return [
        _receiver_stream(options, number, connection, counters)
        for number, connection in enumerate(connections)
    ]


def _receiver_stream(
    options: ReceiverOptions, number: int, connection: socket.socket, counters: SharedCounters
) -> Stream:
    ffi, _ = native()
    job = ffi.new("struct zc_receive_job *")
    job.socket_fd = connection.fileno()
    job.receive_bytes = options.receive_size_bytes
    job.checks_pattern = options.verify
    job.period_bytes = options.pattern_period_bytes
    job.stop, job.counters = counters.stop_word, counters.of_stream(number)
    owned: list[object] = [connection, *_give_memory(job, options.receive_size_bytes)]
    if options.rx_api == "splice_null":
        job.pipe_read_fd, job.pipe_write_fd = _pipe(options.receive_size_bytes)
        job.null_fd = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    return Stream(connection, RECEIVER_APIS[options.rx_api].loop, job, owned)
