"""The control channel between an endpoint and its parent: JSON messages over a Unix socket.

Messages keep their borders (SOCK_SEQPACKET) and may carry file descriptors, so
that the parent can look at and shut down the sockets of its child.
"""

from __future__ import annotations

import json
import os
import select
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_MESSAGE_BYTES = 1 << 17
_DESCRIPTORS_PER_MESSAGE = 200
"""The kernel takes 253 at most."""


class ChannelClosed(Exception):
    """The process at the other end is gone."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message: its kind, its values and the descriptors that came along."""

    kind: str
    values: dict[str, Any]
    descriptors: list[int]


class Channel:
    """One end of the channel."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        """Return the two ends."""
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(one), cls(other)

    def fileno(self) -> int:
        """Return the descriptor, to wait for."""
        return self._connection.fileno()

    def close(self) -> None:
        """Close this end.  Idempotent."""
        self._connection.close()

    def send(self, kind: str, descriptors: Sequence[int] = (), **values: Any) -> None:
        """Send a message; many descriptors go ahead of it in messages of kind "descriptors".

        Raises:
            ChannelClosed: if the other end is gone.
        """
        for start in range(0, len(descriptors), _DESCRIPTORS_PER_MESSAGE):
            some = descriptors[start : start + _DESCRIPTORS_PER_MESSAGE]
            self._send({"kind": "descriptors"}, some)
        self._send({"kind": kind, **values}, ())

    def _send(self, message: dict[str, Any], descriptors: Sequence[int]) -> None:
        text = json.dumps(message).encode()
        try:
            socket.send_fds(self._connection, [text], list(descriptors), socket.MSG_NOSIGNAL)
        except (BrokenPipeError, ConnectionResetError):
            raise ChannelClosed from None

    def receive(self, timeout_s: float) -> Message | None:
        """Return the next message, or None if none came in time.

        Raises:
            ChannelClosed: if the other end is gone and all it sent was read.
        """
        if not wait_readable([self.fileno()], timeout_s):
            return None
        try:
            text, descriptors, _, _ = socket.recv_fds(
                self._connection,
                _MESSAGE_BYTES,
                _DESCRIPTORS_PER_MESSAGE,
                socket.MSG_CMSG_CLOEXEC,
            )
        except ConnectionResetError:
            raise ChannelClosed from None
        if not text:
            raise ChannelClosed
        values = json.loads(text)
        return Message(values.pop("kind"), values, descriptors)


def wait_readable(descriptors: Sequence[int], timeout_s: float) -> list[int]:
    """Return those descriptors that can be read or are at their end; [] after the timeout."""
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poller.poll(max(0, timeout_s) * 1000)]


def seconds_until(deadline_s: float) -> float:
    """Return the seconds left until a `time.monotonic()` deadline, at least 0."""
    return max(0.0, deadline_s - time.monotonic())


def wait_process(pid: int, timeout_s: float) -> bool:
    """Return whether the child process has ended, after waiting so long at most."""
    descriptor = os.pidfd_open(pid)
    try:
        return bool(wait_readable([descriptor], timeout_s))
    finally:
        os.close(descriptor)
