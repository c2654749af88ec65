"""What the loops are given: a job for each stream, with its memory, files and pipes.

Memory is touched before anything is timed, and belongs to one stream alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import mmap
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zcdb.engine import files
from zcdb.engine.apis import RECEIVER_APIS, SENDER_APIS, Api, apis_of_streams
from zcdb.engine.counters import SharedCounters
from zcdb.engine.native import native
from zcdb.engine.options import (
    ReceiverOptions,
    SenderOptions,
    datagrams_of_a_call,
)
from zcdb.engine.sockets import connection_options, raw_address
from zcdb.engine.streams import Stream
from zcdb.errors import EngineError

if TYPE_CHECKING:
    from zcdb.engine._hot import CData

CALIBRATION_TURNS = 200_000
CALIBRATIONS = 5


@dataclass(frozen=True, slots=True)
class Line:
    """A stream that has no loop yet.

    Attributes:
        number: its number among all streams of the endpoint.
        connection: connected; crr: the server's listening socket, None for a client.
    """

    number: int
    connection: socket.socket | None

    @property
    def descriptor(self) -> int:
        """The connection's descriptor; -1 without one."""
        return self.connection.fileno() if self.connection is not None else -1


def sender_streams(
    options: SenderOptions,
    lines: Sequence[Line],
    counters: SharedCounters,
    source: files.SourceFiles | None,
) -> list[Stream]:
    """Return a waiting stream for each line.

    Args:
        source: the files to send from, for APIs that take files.
    """
    if options.is_exchange:
        return [_client_stream(options, line, counters) for line in lines]
    apis = apis_of_streams(options.api, options.api_mix, options.streams)
    return [
        _sender_stream(options, SENDER_APIS[apis[line.number]], line, counters, source)
        for line in lines
    ]


def _sender_stream(
    options: SenderOptions,
    api: Api,
    line: Line,
    counters: SharedCounters,
    source: files.SourceFiles | None,
) -> Stream:
    ffi, _ = native()
    message_bytes = options.message_size_bytes * datagrams_of_a_call(options)
    sizes = files.extent_sizes(options.working_set, message_bytes)
    extents = ffi.new("struct zc_extent[]", _extents(sizes, source if api.takes_file else None))
    job = ffi.new("struct zc_send_job *")
    job.socket_fd = line.descriptor
    job.fragments = options.fragments if api.name == "sendmsg" else 1
    job.message_bytes = message_bytes
    job.datagram_bytes = options.message_size_bytes if options.protocol == "udp" else 0
    job.total_bytes = options.total_bytes or 0
    job.work_turns = burn_turns(options.call_work_ns)
    if options.target_bps:
        job.ns_per_byte = 8e9 * options.streams / options.target_bps
    job.fills_pattern = options.verify and not api.takes_file
    job.drops_cache = options.page_cache == "cold"
    job.extents, job.extents_count = extents, len(sizes)
    job.stop, job.counters = counters.stop_word, counters.of_stream(line.number)
    owned: list[object] = [extents, line, source]
    if api.name == "splice":
        job.pipe_read_fd, job.pipe_write_fd = _pipe(message_bytes)
    memory_bytes = _sender_memory_bytes(options, api, sizes, message_bytes)
    if memory_bytes:
        memory = _touched_memory(memory_bytes)
        job.memory, job.memory_bytes = memory[-1], memory_bytes
        owned += memory
    if api.takes_pool:
        owned += _give_pool(job, memory_bytes // message_bytes)
        job.pool_walks = options.working_set != "hot"
    return Stream(line.number, line.connection, api.loop, job, owned)


def _extents(sizes: Sequence[int], source: files.SourceFiles | None) -> list[dict[str, int]]:
    if source is None:
        return [{"offset": 0, "bytes": size, "fd": -1} for size in sizes]
    places = zip(source.offsets, source.sizes, source.descriptors, strict=True)
    return [{"offset": offset, "bytes": size, "fd": fd} for offset, size, fd in places]


def _sender_memory_bytes(
    options: SenderOptions, api: Api, sizes: Sequence[int], message_bytes: int
) -> int:
    if api.takes_file:
        return message_bytes if api.name == "read_write" else 0
    if api.takes_pool and options.working_set == "hot":
        return files.pool_buffers(message_bytes) * message_bytes
    return sum(sizes)


@functools.cache
def burn_turns(duration_ns: int) -> int:
    """Return how many turns of the burning loop use up so much CPU time on this machine.

    The fastest of some calibrations counts: whatever disturbs one makes it slower.
    """
    if duration_ns == 0:
        return 0
    _, lib = native()
    fastest_ns = min(_burn_ns(lib.zc_burn) for _ in range(CALIBRATIONS))
    return max(1, round(duration_ns * CALIBRATION_TURNS / fastest_ns))


def _burn_ns(burn: Callable[[int], None]) -> int:
    start_ns = time.thread_time_ns()
    burn(CALIBRATION_TURNS)
    return max(1, time.thread_time_ns() - start_ns)


def _touched_memory(size_bytes: int) -> list[object]:
    """Return page-aligned memory, touched and filled with the pattern; its pointer is last."""
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
    options: ReceiverOptions, lines: Sequence[Line], counters: SharedCounters
) -> list[Stream]:
    """Return a waiting stream for each line."""
    if options.is_exchange:
        return [_server_stream(options, line, counters) for line in lines]
    return [_receiver_stream(options, line, counters) for line in lines]


def _receiver_stream(options: ReceiverOptions, line: Line, counters: SharedCounters) -> Stream:
    ffi, _ = native()
    job = ffi.new("struct zc_receive_job *")
    job.socket_fd = line.descriptor
    job.receive_bytes = options.receive_size_bytes
    job.checks_pattern = options.verify
    job.period_bytes = options.pattern_period_bytes
    job.stop, job.counters = counters.stop_word, counters.of_stream(line.number)
    memory = _touched_memory(options.receive_size_bytes)
    job.memory = memory[-1]
    if options.rx_api == "splice_null":
        job.pipe_read_fd, job.pipe_write_fd = _pipe(options.receive_size_bytes)
        job.null_fd = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    is_datagram = options.protocol == "udp"
    loop = "zc_receive_datagrams" if is_datagram else RECEIVER_APIS[options.rx_api].loop
    return Stream(line.number, line.connection, loop, job, [line, *memory], not is_datagram)


# -- exchanges -------------------------------------------------------------------------------


def _client_stream(options: SenderOptions, line: Line, counters: SharedCounters) -> Stream:
    ffi, _ = native()
    job, owned = _exchange_job(options, line, counters)
    job.burst = options.burst
    job.work_turns = burn_turns(options.call_work_ns)
    job.histogram = counters.histogram_of_stream(line.number)
    job.starts_ns = starts_ns = ffi.new("uint64_t[]", options.burst + 1)
    owned.append(starts_ns)
    if options.test == "crr":
        owned += _give_destination(job, options, line.number)
    return Stream(line.number, line.connection, f"zc_client_{options.test}", job, owned)


def _give_destination(job: CData, options: SenderOptions, stream: int) -> list[object]:
    """Give a crr client what it makes its connections from."""
    ffi, _ = native()
    address = _bytes(raw_address(*options.destination(stream)))
    job.address, job.address_bytes = address, len(address)
    numbers = connection_options(options)
    made = ffi.new("struct zc_option[]", numbers)
    job.options, job.options_count = made, len(numbers)
    owned: list[object] = [address, made]
    bound = options.source(stream)
    if bound is not None:
        source = _bytes(raw_address(bound, 0))
        job.source, job.source_bytes = source, len(source)
        owned.append(source)
    return owned


def _server_stream(options: ReceiverOptions, line: Line, counters: SharedCounters) -> Stream:
    job, owned = _exchange_job(options, line, counters)
    # All servers of a crr test share their listening sockets, which one must not end for all.
    is_closing = options.test == "rr"
    return Stream(line.number, line.connection, f"zc_server_{options.test}", job, owned, is_closing)


def _exchange_job(
    options: SenderOptions | ReceiverOptions, line: Line, counters: SharedCounters
) -> tuple[CData, list[object]]:
    """Return what client and server share, and what the job points to."""
    ffi, _ = native()
    job = ffi.new("struct zc_exchange_job *")
    token = _bytes(options.token.encode() if options.test == "crr" else b"")
    job.socket_fd = line.descriptor
    job.request_bytes = options.request_size_bytes
    job.response_bytes = options.response_size_bytes
    job.token, job.token_bytes = token, len(token)
    job.stop, job.counters = counters.stop_word, counters.of_stream(line.number)
    largest_bytes = max(options.request_size_bytes, options.response_size_bytes)
    memory = _touched_memory(len(token) + largest_bytes)
    job.memory = memory[-1]
    ffi.memmove(job.memory, token, len(token))
    return job, [line, token, *memory]


def _bytes(content: bytes) -> CData:
    """Return an array of exactly these bytes; from a `bytes` cffi would make one with a 0 more."""
    ffi, _ = native()
    return ffi.new("uint8_t[]", list(content))
