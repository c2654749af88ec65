"""An endpoint: one process that sends or receives, seen from its parent.

The process is forked from the caller, which must be single-threaded, and dies
with it.  Its counters are read from shared memory, its CPU clock and its
sockets from outside, so a reading costs the endpoint nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from zcdb.engine import counters
from zcdb.engine.channel import Channel, ChannelClosed, Message, seconds_until, wait_process
from zcdb.engine.child import run_child
from zcdb.engine.counters import SharedCounters
from zcdb.engine.options import ReceiverOptions, SenderOptions
from zcdb.engine.tcpinfo import read_totals
from zcdb.errors import EngineError

__all__ = [
    "Endpoint",
    "EndpointEnd",
    "ReceiverOptions",
    "SenderOptions",
    "start_receiver",
    "start_sender",
]

START_TIMEOUT_S = 120.0
"""Making and syncing large source files on a slow disk takes its time."""

STOP_TIMEOUT_S = 10.0
RECEIVER_DRAIN_S = 1.0
"""How long a receiver that is stopped may go on reading towards the end of the stream."""

EXIT_TIMEOUT_S = 5.0


def start_receiver(options: ReceiverOptions, timeout_s: float = START_TIMEOUT_S) -> Endpoint:
    """Start a receiver; it listens on `ports[0]` when this returns.

    It reads as soon as all its streams are connected; `go` has nothing to add.

    Raises:
        EngineError: if it cannot start here; one sentence why.
    """
    return Endpoint(options, timeout_s)


def start_sender(options: SenderOptions, timeout_s: float = START_TIMEOUT_S) -> Endpoint:
    """Start a sender; it is connected, its memory is touched, and it waits for `go`.

    Raises:
        EngineError: if it cannot start here; one sentence why.
    """
    return Endpoint(options, timeout_s)


@dataclass(frozen=True, slots=True)
class EndpointEnd:
    """How an endpoint ended.

    Attributes:
        totals: the last reading; the names of `Endpoint.reading`.
        errors: a sentence for each stream whose loop failed.
        verify_mismatch: bytes that differed from the pattern; None if not verified.
        first_bad_offset: stream offset of the first of them; None if there is none.
    """

    totals: Mapping[str, int]
    errors: list[str]
    verify_mismatch: int | None
    first_bad_offset: int | None


class Endpoint:
    """A running endpoint process.

    Attributes:
        pid: its process id.
        ports: receiver: those it listens on (tcp: one for each address, udp: one for each
            stream); sender: the local one of each stream.
        effective: what the kernel made of the options, by factor name (sndbuf, rcvbuf,
            congestion_control, pacing_rate, as getsockopt returns them; the kernel doubles
            buffer sizes), mss (bytes), cpus (a list, read back in the threads).  Sender of a
            stream also: working_set_bytes, cached_share (of the source files, 0 to 1, None for
            memory), pipe_size (splice), datagrams_per_call (udp_segment).  A receiver's are
            those of its listening socket, without cpus, until its streams are connected; then
            with refused_connections if the run has a token.
    """

    def __init__(self, options: SenderOptions | ReceiverOptions, timeout_s: float) -> None:
        self.role = "sender" if isinstance(options, SenderOptions) else "receiver"
        self.ports: list[int] = []
        self._options = options
        self._effective: dict[str, Any] = {}
        self._sockets: list[socket.socket] = []
        self._end_errors: list[str] | None = None
        self._is_reaped = False
        self._failure: str | None = None
        self._last_outside: dict[str, int] = {}
        self._pids: list[int] = []
        self._has_tcp_info = options.protocol == "tcp" and options.test != "crr"
        self._counters = SharedCounters(
            options.streams,
            _counter_names(options),
            has_histograms=options.is_exchange and self.role == "sender",
        )
        self._channel, childs_channel = Channel.pair()
        parent_pid = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            run_child(options, childs_channel, self._counters, parent_pid)
        childs_channel.close()
        try:
            self._wait_until_ready(timeout_s)
        finally:
            if not self.ports:
                self.kill()

    @property
    def effective(self) -> dict[str, Any]:
        """Return what the kernel made of the options; see the class."""
        self._take_news()
        return self._effective

    @property
    def has_ended(self) -> bool:
        """Return whether all loops have ended, by themselves or because they were stopped.

        Raises:
            EngineError: if the process was killed or broke down.
        """
        self._take_news()
        return self._end_errors is not None

    @property
    def name(self) -> str:
        """Return how messages name it: "the sender (process 1234)"."""
        return f"the {self.role} (process {self.pid})"

    def go(self) -> None:
        """Let the loops run.

        Raises:
            EngineError: if the process is gone.
        """
        self._tell("go")

    def reading(self) -> dict[str, int]:
        """Return its cumulative counts now, without disturbing it.

        Keys: payload_bytes, calls, short_calls, completions, copied, enobufs, passes (those of
        the loops), streams_running, cpu_time_ns (of its processes), retransmits and the sums
        over its sockets that `tcpinfo.read_totals` gives (udp, crr: none).

        What only some endpoints count is in the readings of those alone: transactions
        (exchanges), latency_sum_ns, latency_squares_ns2 and latency_bucket_N (clients; see
        `latency`), refused (crr servers), datagrams, lost, reordered (udp), mapped_bytes
        (zerocopy_receive), dropped_pages, kept_pages (cold files).  An exchange's payload_bytes
        are those of the requests.  After its end the values stay as they were last.

        Raises:
            EngineError: if the process was killed or broke down.
        """
        if not self._is_reaped:
            self._take_news()
            self._read_outside()
        elif self._failure is not None:
            raise EngineError(self._failure)
        return {**self._counters.read(), **self._last_outside}

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> EndpointEnd:
        """End the loops and the process; stop the sender first, and the receiver reads the rest.

        A sender ends after the call it is in, a receiver at the end of the stream; a crr
        server, which has no stream, at once.  A call that is blocked for half the timeout (the
        receiver: for a second) is ended by shutting the sockets down.

        Raises:
            EngineError: if it was killed, broke down, or had to be killed now.
        """
        if self._is_reaped:
            raise EngineError(self._failure or f"{self.name} was stopped before")
        deadline_s = time.monotonic() + timeout_s
        self._ask_to_stop(timeout_s)
        while self._end_errors is None:
            if not self._take_message(seconds_until(deadline_s)):
                self.kill()
                self._failure = f"{self.name} did not stop within {timeout_s:g} s and was killed"
                raise EngineError(self._failure)
        totals = self.reading()
        mismatch, bad_offset = self._counters.mismatches()
        is_verified = self.role == "receiver" and self._options.verify
        self._say_goodbye()
        return EndpointEnd(totals, self._end_errors, mismatch if is_verified else None, bad_offset)

    def kill(self) -> None:
        """End the process at once and give everything back.  Idempotent, never raises."""
        if not self._is_reaped:
            os.kill(self.pid, signal.SIGKILL)
            self._reap()
        self._release()

    def _wait_until_ready(self, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not self.ports:
            if not self._take_message(seconds_until(deadline_s)):
                raise EngineError(f"{self.name} was not ready within {timeout_s:g} s")

    def _tell(self, kind: str) -> None:
        try:
            self._channel.send(kind)
        except ChannelClosed:
            self._fail()

    def _ask_to_stop(self, timeout_s: float) -> None:
        self._tell("stop")
        is_sender = self.role == "sender"
        if is_sender:
            self._counters.stop()
        patience_s = timeout_s / 2 if is_sender else min(timeout_s / 2, RECEIVER_DRAIN_S)
        if not is_sender and self._options.test == "crr":
            patience_s = 0
        deadline_s = time.monotonic() + patience_s
        while self._end_errors is None and self._take_message(seconds_until(deadline_s)):
            pass
        if self._end_errors is None:
            self._counters.stop()
            self._shut_down_sockets()

    def _shut_down_sockets(self) -> None:
        for connection in self._sockets:
            # It may have lost its peer already.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _take_news(self) -> None:
        """Take the messages that have come, without waiting."""
        if not self._is_reaped:
            while self._take_message(0):
                pass

    def _take_message(self, timeout_s: float) -> bool:
        """Take one message; return False if none came in time."""
        try:
            message = self._channel.receive(timeout_s)
        except ChannelClosed:
            self._fail()
        if message is None:
            return False
        self._handle(message)
        return True

    def _handle(self, message: Message) -> None:
        if message.kind == "descriptors":
            self._sockets += [socket.socket(fileno=number) for number in message.descriptors]
        elif message.kind == "end":
            self._end_errors = message.values["errors"]
        elif message.kind == "failed":
            self._failure = message.values["message"]
            self.kill()
            raise EngineError(message.values["message"], hint=message.values["hint"])
        else:
            self._effective = message.values["effective"]
            self.ports = message.values.get("ports", self.ports)
            self._pids = message.values.get("pids", self._pids)

    def _read_outside(self) -> None:
        outside = {}
        try:
            outside["cpu_time_ns"] = sum(_cpu_time_ns(pid) for pid in (self.pid, *self._pids))
        except OSError:
            self._find_out()
        outside |= read_totals(self._sockets if self._has_tcp_info else [])
        self._last_outside = outside

    def _find_out(self) -> NoReturn:
        """Raise which process is gone: one of several is named by the one that forked it."""
        while self._take_message(EXIT_TIMEOUT_S):
            pass
        self._fail()

    def _fail(self) -> NoReturn:
        """Raise what became of the process, which is gone or going."""
        status = self._reap()
        self._release()
        if os.WIFSIGNALED(status):
            what = f"was killed by {signal.Signals(os.WTERMSIG(status)).name}"
        else:
            what = f"broke down with exit code {os.WEXITSTATUS(status)}"
        self._failure = f"{self.name} {what}"
        raise EngineError(self._failure)

    def _say_goodbye(self) -> None:
        self._tell("bye")
        self._reap()
        self._release()

    def _reap(self) -> int:
        """Wait for the end of the process, which is near, and return its wait status."""
        if not wait_process(self.pid, EXIT_TIMEOUT_S):
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        self._is_reaped = True
        return status

    def _release(self) -> None:
        self._channel.close()
        for connection in self._sockets:
            connection.close()
        self._sockets.clear()


def _cpu_time_ns(pid: int) -> int:
    # The clock id of a process is made from its pid; see clock_getcpuclockid(3).
    return time.clock_gettime_ns((~pid << 3) | 2)


def _counter_names(options: SenderOptions | ReceiverOptions) -> tuple[str, ...]:
    """Return what an endpoint counts beside the counters of all."""
    if isinstance(options, SenderOptions):
        if options.is_exchange:
            return counters.CLIENT_NAMES
        if options.protocol == "udp":
            return counters.DATAGRAM_SENDER_NAMES
        return counters.COLD_NAMES if options.page_cache == "cold" else ()
    if options.is_exchange:
        return counters.SERVER_NAMES
    if options.protocol == "udp":
        return counters.DATAGRAM_RECEIVER_NAMES
    return counters.MAPPING_NAMES if options.rx_api == "zerocopy_receive" else ()
