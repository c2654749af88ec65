"""What the tests of the engine share: the pattern once more, TCP pairs, waiting."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zcdb.engine import apis
from zcdb.engine.endpoint import (
    Endpoint,
    EndpointEnd,
    ReceiverOptions,
    SenderOptions,
    start_receiver,
    start_sender,
)
from zcdb.factors import FactorValue

ADDRESS = "127.0.0.1"
SENDER_NAMES = [name for name in apis.SENDER_APIS if name != apis.MIXED]
MEMORY_APIS = [name for name in SENDER_NAMES if not apis.SENDER_APIS[name].takes_file]
FILE_APIS = [name for name in SENDER_NAMES if apis.SENDER_APIS[name].takes_file]


def supported(names: list[str]) -> list[str]:
    """Leave out what this kernel lacks; `test_engine_apis` tests that it says so."""
    return [name for name in names if apis.unsupported_reason(name) is None]


def pattern(count: int, offset: int = 0) -> bytes:
    """The verification pattern, written down a second time and independently of the C code."""
    mask = 2**64 - 1
    words = bytearray()
    for index in range(offset // 8, (offset + count) // 8 + 1):
        word = (index + 0x9E3779B97F4A7C15) & mask
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
        words += struct.pack("<Q", word ^ (word >> 31))
    start = offset % 8
    return bytes(words[start : start + count])


@contextmanager
def tcp_pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two connected, blocking TCP sockets."""
    with socket.create_server((ADDRESS, 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    with one, other:
        yield one, other


class Collector:
    """Reads everything from a socket in a thread."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._bytes = bytearray()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while some := self._connection.recv(1 << 20):
            self._bytes += some

    def result(self) -> bytes:
        """All bytes up to the end of the stream."""
        self._thread.join(60)
        assert not self._thread.is_alive(), "the stream did not end"
        return bytes(self._bytes)


def wait_until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Wait for a condition; fail if it does not come true."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


@contextmanager
def running(**factors: FactorValue) -> Iterator[tuple[Endpoint, Endpoint]]:
    """A sender and a receiver over loopback, both told to go; killed at the end if still there."""
    total_bytes = factors.pop("total_bytes", None)
    receiver = start_receiver(ReceiverOptions.from_factors(factors, address=ADDRESS))
    try:
        options = SenderOptions.from_factors(
            factors, address=ADDRESS, ports=receiver.ports, total_bytes=total_bytes
        )
        sender = start_sender(options)
        try:
            receiver.go()
            sender.go()
            yield sender, receiver
        finally:
            sender.kill()
    finally:
        receiver.kill()


def move(total_bytes: int, **factors: FactorValue) -> tuple[EndpointEnd, EndpointEnd]:
    """Send so many bytes per stream over loopback and return how both ends ended."""
    with running(total_bytes=total_bytes, **factors) as (sender, receiver):
        wait_until(lambda: receiver.has_ended)
        return sender.stop(), receiver.stop()
