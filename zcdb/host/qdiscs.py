"""What the queueing disciplines of an interface dropped and requeued, by rtnetlink.  Reads only.

One dump of RTM_GETQDISC over a plain socket: the agent, which forks, must not
have pyroute2's threads, and this is one message.  Layouts: linux/rtnetlink.h,
linux/pkt_sched.h, linux/gen_stats.h.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

from zcdb.errors import HostError

NETLINK_ROUTE = 0
RTM_NEWQDISC = 36
RTM_GETQDISC = 38
NLM_F_REQUEST = 0x01
NLM_F_DUMP = 0x300
NLMSG_ERROR = 2
NLMSG_DONE = 3
TCA_KIND = 1
TCA_STATS2 = 7
TCA_STATS_BASIC = 1
TCA_STATS_QUEUE = 3
TC_ROOT = 0xFFFFFFFF

_HEADER = struct.Struct("=IHHII")
_TCMSG = struct.Struct("=BxxxiIII")
_ATTRIBUTE = struct.Struct("=HH")
_ANSWER_BYTES = 1 << 16
_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class Qdisc:
    """One queueing discipline, cumulative since it was made.

    Attributes:
        kind: "tbf", "fq_codel", "noqueue", ...
        is_root: it is what the interface's packets meet first.
        overlimits: times it had to wait to keep to its rate.
        backlog_bytes: what is queued now.
    """

    kind: str
    is_root: bool
    handle: int
    bytes: int
    packets: int
    drops: int
    requeues: int
    overlimits: int
    backlog_bytes: int


class QdiscReader:
    """Reads qdiscs of this process's network namespace; a context manager."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE)
        self._socket.settimeout(_TIMEOUT_S)
        self._number = 0

    def read(self, interface: str) -> list[Qdisc]:
        """Return the qdiscs of an interface; empty if there is no such interface.

        Raises:
            HostError: if the kernel refuses, or answers with something else.
        """
        try:
            index = socket.if_nametoindex(interface)
        except OSError:
            return []
        self._number += 1
        body = _TCMSG.pack(socket.AF_UNSPEC, index, 0, 0, 0)
        flags = NLM_F_REQUEST | NLM_F_DUMP
        length = _HEADER.size + len(body)
        self._socket.send(_HEADER.pack(length, RTM_GETQDISC, flags, self._number, 0) + body)
        # The kernel's dump ignores the index of the request on many versions.
        return [qdisc for found, qdisc in self._answers() if found == index]

    def _answers(self) -> Iterator[tuple[int, Qdisc]]:
        while True:
            for kind, number, body in _messages(self._socket.recv(_ANSWER_BYTES)):
                if number != self._number:
                    continue
                if kind == NLMSG_DONE:
                    return
                if kind == NLMSG_ERROR:
                    reason = os.strerror(-struct.unpack_from("=i", body)[0])
                    raise HostError(f"the kernel does not list qdiscs: {reason}")
                if kind == RTM_NEWQDISC:
                    yield parse_qdisc(body)

    def close(self) -> None:
        """Close the socket.  Idempotent."""
        self._socket.close()

    def __enter__(self) -> QdiscReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _messages(raw: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield (type, sequence number, body) of each message of a datagram."""
    place = 0
    while place + _HEADER.size <= len(raw):
        length, kind, _, number, _ = _HEADER.unpack_from(raw, place)
        if length < _HEADER.size:
            return
        yield kind, number, raw[place + _HEADER.size : place + length]
        place += -(-length // 4) * 4


def _attributes(raw: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    place = 0
    while place + _ATTRIBUTE.size <= len(raw):
        length, kind = _ATTRIBUTE.unpack_from(raw, place)
        if length < _ATTRIBUTE.size:
            break
        found[kind & 0x3FFF] = raw[place + _ATTRIBUTE.size : place + length]
        place += -(-length // 4) * 4
    return found


def parse_qdisc(body: bytes) -> tuple[int, Qdisc]:
    """Return the interface's index and the qdisc of an RTM_NEWQDISC message's body."""
    _, index, handle, parent, _ = _TCMSG.unpack_from(body)
    attributes = _attributes(body[_TCMSG.size :])
    kind = attributes.get(TCA_KIND, b"?").partition(b"\0")[0].decode(errors="replace")
    stats = _attributes(attributes.get(TCA_STATS2, b""))
    sent_bytes, packets = struct.unpack_from("=QI", stats.get(TCA_STATS_BASIC, bytes(12)))
    queue = struct.unpack_from("=IIIII", stats.get(TCA_STATS_QUEUE, bytes(20)))
    _, backlog, drops, requeues, overlimits = queue
    return index, Qdisc(
        kind=kind,
        is_root=parent == TC_ROOT,
        handle=handle,
        bytes=sent_bytes,
        packets=packets,
        drops=drops,
        requeues=requeues,
        overlimits=overlimits,
        backlog_bytes=backlog,
    )
