"""The streams of an endpoint: one thread each, all of whose time is spent in a C loop.

The threads are started early, say where they may run, and wait; the C call
gives up Python's lock for the whole run.  What the loops are given is made in
`jobs`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zcdb.engine.native import native

if TYPE_CHECKING:
    from zcdb.engine._hot import CData

_EXPLANATIONS = {
    errno.ETIME: "notifications of its last sends did not arrive within 2 s",
    errno.ENODATA: "a source file has become shorter",
    errno.ENOMEM: "no memory, or more locked pages than the memlock limit allows (ulimit -l)",
    errno.ENOBUFS: "no memory for notifications or locked pages"
    " (raise net.core.optmem_max or the memlock limit)",
    errno.EADDRNOTAVAIL: "no local port is free (widen net.ipv4.ip_local_port_range)",
}

GOODBYES = (0.0, 0.01, 0.05)
"""Seconds before each empty datagram that ends a stream: the first may find a full buffer."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One connection and the loop that serves it.

    Attributes:
        number: its number among all streams of the endpoint.
        connection: None where the loop makes its own.
        loop: name of the C function.
        job: its argument.
        owned: whatever the job points to, kept alive here.
        is_closing: the other end is to be told that nothing more comes.
    """

    number: int
    connection: socket.socket | None
    loop: str
    job: CData
    owned: Sequence[object]
    is_closing: bool = True

    def run(self) -> str | None:
        """Run the loop to its end; return what failed, if anything did."""
        _, lib = native()
        function: Callable[[CData], int] = getattr(lib, self.loop)
        number = -function(self.job)
        if self.connection is not None and self.is_closing:
            _say_goodbye(self.connection)
        if not number:
            return None
        what = _EXPLANATIONS.get(number, os.strerror(number))
        return f"stream {self.number}: {self.loop.split('_', 2)[2]}: {what}"


def _say_goodbye(connection: socket.socket) -> None:
    """Let the other end see the end of the stream; it may be gone already."""
    if connection.type == socket.SOCK_STREAM:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        return
    for pause_s in GOODBYES:
        time.sleep(pause_s)
        with contextlib.suppress(OSError):
            connection.send(b"")


class Crew:
    """The threads of an endpoint's streams, waiting to be let go.

    The first stream is run by the calling thread.  So an endpoint of one stream
    is a process of one thread, for which the C library and the kernel's lookup
    of a descriptor cost less at every call.

    Attributes:
        cpus: those that any of the threads may use, read back in each.
        pids: processes of its own, beside the calling one: none.
    """

    pids: Sequence[int] = ()

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
        return [failure for failure in self._failures if failure is not None]

    def _wait_and_run(self, number: int) -> None:
        self._cpus_of_threads.append(os.sched_getaffinity(0))
        self._are_ready.wait()
        self._may_go.wait()
        self._failures[number] = self._streams[number].run()
