"""TCP sockets of other processes, read through the kernel's sock_diag netlink family.

Only what a trial needs: find sockets by port, then read how much went through
each.  A search walks the kernel's whole table of connections (milliseconds on
a large machine), a reading looks one socket up (microseconds).  Sees the
sockets of the caller's network namespace.

Layouts from linux/inet_diag.h, linux/sock_diag.h and linux/tcp.h.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from zcdb.errors import EngineError

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST = 0x1
NLM_F_DUMP = 0x300
NLMSG_ERROR = 2
NLMSG_DONE = 3
INET_DIAG_INFO = 2
TCP_LISTEN = 10
LISTENING = 1 << TCP_LISTEN
CONNECTED = 0xFFF & ~LISTENING & ~(1 << 6)
"""All states but LISTEN and TIME_WAIT, which has no counters any more."""

_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI")
_ID_BYTES = 48
_REPLY = struct.Struct("=BBBB48sIIIII")
_ATTRIBUTE = struct.Struct("=HH")
_BYTES_ACKED_AT = 120
_BYTES_RECEIVED_AT = 128
_READ_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class SocketCounts:
    """What a TCP connection has moved so far, from one side's view.

    Attributes:
        sent_bytes: the application handed to the kernel.
        read_bytes: the application took from the kernel.
        tcp_info: the kernel's TCP_INFO, as it returned it.
    """

    sent_bytes: int
    read_bytes: int
    tcp_info: bytes = b""


@dataclass(frozen=True, slots=True)
class SocketId:
    """A socket as the kernel names it: its addresses, its ports and its cookie."""

    family: int
    raw: bytes


class SocketDiag:
    """An open sock_diag connection to the kernel; a context manager.

    Raises:
        EngineError: if this kernel has none.
    """

    def __init__(self) -> None:
        try:
            self._netlink = socket.socket(
                socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG
            )
        except OSError as error:
            raise EngineError(
                f"sockets of other programs cannot be watched here: {error.strerror}",
                hint="the kernel needs CONFIG_INET_DIAG and CONFIG_INET_TCP_DIAG",
            ) from None
        self._sequence = 0

    def close(self) -> None:
        """Close it.  Idempotent."""
        self._netlink.close()

    def __enter__(self) -> SocketDiag:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find(
        self, *, own_port: int = 0, peer_port: int = 0, states: int = CONNECTED
    ) -> list[SocketId]:
        """Return the TCP sockets, IPv4 and IPv6, with these ports; 0 is any."""
        ports = struct.pack(">HH", own_port, peer_port)
        wanted = ports + bytes(_ID_BYTES - len(ports) - 8) + b"\xff" * 8
        found = []
        for family in (socket.AF_INET, socket.AF_INET6):
            self._send(family, states, wanted, NLM_F_DUMP)
            found += [SocketId(family, reply[4]) for reply, _ in self._replies()]
        return found

    def is_listening(self, port: int) -> bool:
        """Tell whether any socket listens on a port."""
        return bool(self.find(own_port=port, states=LISTENING))

    def counts(self, wanted: SocketId) -> SocketCounts | None:
        """Return what a connection has moved, or None if it has gone."""
        self._send(wanted.family, CONNECTED, wanted.raw, 0)
        try:
            reply, attributes = next(self._replies())
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ESTALE):
                return None
            raise
        info = attributes.get(INET_DIAG_INFO, b"")
        if len(info) < _BYTES_RECEIVED_AT + 8:
            return None
        acked, received = struct.unpack_from("=QQ", info, _BYTES_ACKED_AT)
        unread, unacked = reply[6], reply[7]
        return SocketCounts(acked + unacked, received - unread, info)

    def _send(self, family: int, states: int, wanted: bytes, flags: int) -> None:
        self._sequence += 1
        extensions = 1 << (INET_DIAG_INFO - 1)
        body = _REQUEST.pack(family, socket.IPPROTO_TCP, extensions, 0, states) + wanted
        length = _HEADER.size + len(body)
        header = (length, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | flags, self._sequence, 0)
        self._netlink.send(_HEADER.pack(*header) + body)

    def _replies(self) -> Iterator[tuple[tuple[Any, ...], dict[int, bytes]]]:
        """Yield each answer's fixed part and attributes.  Raises `OSError` if refused."""
        while True:
            data = self._netlink.recv(_READ_BYTES)
            at = 0
            is_dump = False
            while at + _HEADER.size <= len(data):
                length, kind, flags, sequence, _ = _HEADER.unpack_from(data, at)
                body = data[at + _HEADER.size : at + length]
                at += (length + 3) & ~3
                if sequence != self._sequence:
                    continue
                if kind == NLMSG_DONE:
                    return
                if kind == NLMSG_ERROR:
                    (number,) = struct.unpack_from("=i", body)
                    raise OSError(-number, os.strerror(-number))
                is_dump = bool(flags & 0x2)
                yield _REPLY.unpack_from(body), _attributes(body[_REPLY.size :])
                if not is_dump:
                    return


def _attributes(data: bytes) -> dict[int, bytes]:
    found = {}
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size:
            break
        found[kind] = data[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
    return found


class ConnectionWatch:
    """Adds up what the TCP connections of one port move.

    Connections are searched for until the expected number is there, and after that read one by
    one.  What one had moved when it was last seen stays in the sum after it has gone.

    Args:
        own_port, peer_port: one of them, the other 0.
        expected: connections that are there once data flows.
    """

    def __init__(self, *, own_port: int = 0, peer_port: int = 0, expected: int = 1) -> None:
        self._diag = SocketDiag()
        self._own_port, self._peer_port = own_port, peer_port
        self._expected = expected
        self._last: dict[SocketId, SocketCounts] = {}

    def close(self) -> None:
        """Stop watching.  Idempotent."""
        self._diag.close()

    @property
    def is_complete(self) -> bool:
        """Whether all expected connections were seen."""
        return len(self._last) >= self._expected

    @property
    def tcp_infos(self) -> list[bytes]:
        """TCP_INFO of each connection, as it was last seen; [] before `is_complete`."""
        return [counts.tcp_info for counts in self._last.values() if counts.tcp_info]

    def read(self) -> SocketCounts:
        """Return the sums now; all 0 until the expected connections are there."""
        if not self.is_complete:
            for found in self._diag.find(own_port=self._own_port, peer_port=self._peer_port):
                self._last.setdefault(found, SocketCounts(0, 0))
            if not self.is_complete:
                return SocketCounts(0, 0)
        for known in self._last:
            counts = self._diag.counts(known)
            if counts is not None:
                self._last[known] = counts
        every = self._last.values()
        return SocketCounts(
            sum(counts.sent_bytes for counts in every), sum(counts.read_bytes for counts in every)
        )
