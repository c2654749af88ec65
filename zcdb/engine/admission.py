"""Who may send: a receiver takes a connection only from the sender of its own run.

Where a run has a token, it must be the first thing a connection says; whoever
says something else, or nothing for a while, is turned away and counted.  All of
that is before anything is timed.
"""

from __future__ import annotations

import contextlib
import hmac
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zcdb.engine.channel import Channel, seconds_until, wait_readable
from zcdb.engine.options import ReceiverOptions
from zcdb.engine.sockets import ACCEPTED, HELLO, WELCOME

TOKEN_PATIENCE_S = 2.0
MOST_VISITORS = 256
"""Connections whose token is waited for at once."""

WELCOMES = 3
"""Answers to a hello: one may get lost."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """Who came.

    Attributes:
        connections: one a stream.
        refused: how many others were turned away.
        is_complete: False if the parent said stop before all were there.
    """

    connections: list[socket.socket]
    refused: int
    is_complete: bool


@dataclass(slots=True)
class _Visitor:
    """A connection that has not shown its whole token yet."""

    connection: socket.socket
    deadline_s: float
    said: bytes = b""


class _Gate:
    """Lets connections in that show the token."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._visitors: dict[int, _Visitor] = {}
        self.admitted: list[socket.socket] = []
        self.refused = 0

    @property
    def waiting(self) -> list[int]:
        """The descriptors of those that are listened to."""
        return list(self._visitors)

    def patience_s(self) -> float:
        """Return how long one may wait for the next thing that happens."""
        deadlines = [visitor.deadline_s for visitor in self._visitors.values()]
        return seconds_until(min(deadlines)) if deadlines else TOKEN_PATIENCE_S

    def enter(self, connection: socket.socket) -> None:
        """Take a new connection."""
        connection.settimeout(None)
        if not self._token:
            self.admitted.append(connection)
            return
        deadline_s = time.monotonic() + TOKEN_PATIENCE_S
        self._visitors[connection.fileno()] = _Visitor(connection, deadline_s)

    def hear(self, descriptor: int) -> None:
        """Read what a visitor says, and never more than a token."""
        visitor = self._visitors[descriptor]
        missing = len(self._token) - len(visitor.said)
        try:
            some = visitor.connection.recv(missing, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except ConnectionError:
            some = b""
        visitor.said += some
        if some and len(visitor.said) < len(self._token):
            return
        del self._visitors[descriptor]
        if not hmac.compare_digest(visitor.said, self._token):
            self._refuse(visitor)
            return
        # Whoever breaks off now is one of ours: its loop will say so.
        with contextlib.suppress(ConnectionError):
            visitor.connection.send(ACCEPTED, socket.MSG_NOSIGNAL)
        self.admitted.append(visitor.connection)

    def lose_patience(self) -> None:
        """Turn away those that have said too little for too long."""
        now_s = time.monotonic()
        for descriptor, visitor in list(self._visitors.items()):
            if now_s >= visitor.deadline_s:
                del self._visitors[descriptor]
                self._refuse(visitor)

    def close(self) -> None:
        """Turn away all that are still waiting."""
        for visitor in self._visitors.values():
            visitor.connection.close()
        self._visitors.clear()

    def _refuse(self, visitor: _Visitor) -> None:
        visitor.connection.close()
        self.refused += 1


def admit_streams(
    listeners: Sequence[socket.socket], options: ReceiverOptions, channel: Channel
) -> Admitted:
    """Wait until every stream of the run is connected, or the parent says stop."""
    by_descriptor = {listener.fileno(): listener for listener in listeners}
    for listener in listeners:
        listener.setblocking(False)
    gate = _Gate(options.token)
    deadline_s = time.monotonic() + options.longest_run_ns / 10**9
    while len(gate.admitted) < options.streams and time.monotonic() < deadline_s:
        doors = list(by_descriptor) if len(gate.waiting) < MOST_VISITORS else []
        ready = wait_readable([channel.fileno(), *doors, *gate.waiting], gate.patience_s())
        if channel.fileno() in ready and _is_told_to_stop(channel):
            break
        for descriptor in ready:
            if descriptor in by_descriptor:
                # It may have gone again before it was accepted.
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    gate.enter(by_descriptor[descriptor].accept()[0])
            elif descriptor != channel.fileno():
                gate.hear(descriptor)
        gate.lose_patience()
    gate.close()
    return Admitted(gate.admitted, gate.refused, len(gate.admitted) >= options.streams)


def admit_datagram_senders(
    sockets: Sequence[socket.socket], options: ReceiverOptions, channel: Channel
) -> Admitted:
    """Wait until the sender of every stream has said hello; connect each socket to its sender."""
    hello = HELLO + options.token.encode()
    strangers = {endpoint.fileno(): endpoint for endpoint in sockets}
    refused = 0
    deadline_s = time.monotonic() + options.longest_run_ns / 10**9
    while strangers and time.monotonic() < deadline_s:
        ready = wait_readable([channel.fileno(), *strangers], seconds_until(deadline_s))
        if channel.fileno() in ready and _is_told_to_stop(channel):
            break
        for endpoint in _chosen(strangers, ready):
            said, sender = endpoint.recvfrom(len(hello) + 1, socket.MSG_DONTWAIT)
            if not hmac.compare_digest(said, hello):
                refused += 1
                continue
            # From here on the kernel hands us nothing from anybody else.
            endpoint.connect(sender)
            for _ in range(WELCOMES):
                endpoint.send(WELCOME)
            del strangers[endpoint.fileno()]
    met = [endpoint for endpoint in sockets if endpoint.fileno() not in strangers]
    return Admitted(met, refused, not strangers)


def _chosen(sockets: dict[int, socket.socket], ready: Sequence[int]) -> Iterator[socket.socket]:
    return (sockets[descriptor] for descriptor in ready if descriptor in sockets)


def _is_told_to_stop(channel: Channel) -> bool:
    message = channel.receive(0)
    return message is not None and message.kind == "stop"
