"""iperf 2's text: its lines, and which of them make one run.

A run begins with a banner or a connection and ends where the next begins; a
server prints its banner once for all that follow.  What the rows mean is
`iperf2`'s business.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from zcdb.importers import quantities as q

_N = q.UNSIGNED
_CLIENT = re.compile(r"Client connecting to (\S+), (TCP|UDP) port ([0-9]{1,5})")
_SERVER = re.compile(r"Server listening on (TCP|UDP) port ([0-9]{1,5})")
_CONNECTION = re.compile(
    r"\[\s*(\*?[0-9]{1,10})\] local (\S+?)(?:%\w+)? port ([0-9]{1,5}) connected with"
    r" (\S+) port ([0-9]{1,5})(.*)"
)
ROW = re.compile(
    rf"\[\s*(\*?[0-9]{{1,10}}|SUM)\]\s*({_N})\s*-\s*({_N})\s+sec\s+({_N})\s*([KMGT]?)Bytes"
    rf"\s+({_N})\s*([KMGT]?)(bits|Bytes)/sec(.*)$"
)
UDP_REST = re.compile(
    rf"^\s+({_N}) ms\s+([0-9]{{1,20}})\s*/\s*([0-9]{{1,20}})\s*\(([^)]{{0,20}})\)(.*)"
)
WRITES = re.compile(r"^\s+([0-9]{1,20})/([0-9]{1,20})(?:\s|$)")
IPERF3 = re.compile(r"Connecting to host|Accepted connection from| connected to |^iperf 3")
_WRITE_SIZE = re.compile(rf"(Write|Read) buffer size:\s+({_N}) ([KMG]?)Byte")
_DATAGRAM = re.compile(r"(?:Sending|Receiving) ([0-9]{1,6}) byte datagrams")
_SENT = re.compile(rf"\[\s*(\*?[0-9]{{1,10}}|SUM)\] Sent ({q.COUNT}) datagrams")
_ORDER = re.compile(rf"({q.COUNT}) datagrams received out-of-order")
_WINDOW = re.compile(rf"TCP window size:\s+({_N}) ([KMG]?)Byte")


@dataclass(frozen=True, slots=True)
class Row:
    """One printed row, in base units; `printed` keeps what precision is told from."""

    stream: str
    start_s: float
    end_s: float
    size_bytes: float
    rate_bps: float
    rest: str
    index: int
    printed: tuple[str, str, str]

    @property
    def size_slack_bytes(self) -> float:
        """Half a unit of the last digit of the printed transfer."""
        return self.size_bytes * q.relative_half_unit(self.printed[0]) if self.size_bytes else 0.0


@dataclass(slots=True)
class Session:
    """What one run printed, until a new one begins."""

    protocol: str | None = None
    is_server: bool = False
    is_client: bool = False
    port: str | None = None
    first: int = 0
    last: int = 0
    details: dict[str, float] = field(default_factory=dict)
    connections: dict[str, tuple[str, str, str, str, str]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    reports: list[Row] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)
    out_of_order: list[int] = field(default_factory=list)
    is_no_ack: bool = False


def next_session(index: int, text: str, server: Session | None) -> Session:
    """Return a fresh session; a server goes on with the banner it printed once."""
    session = Session(first=index, last=index)
    if server is not None and _CONNECTION.search(text):
        session.is_server, session.protocol = True, server.protocol
        session.port = server.port
    return session


def begins_run(text: str, session: Session | None) -> bool:
    """Tell whether a new run begins on this line."""
    if _CLIENT.search(text) or _SERVER.search(text):
        return True
    match = _CONNECTION.search(text)
    if match is None or session is None:
        return match is not None
    if match[1] in session.connections and session.rows:
        return True
    # A server that goes on listening: every earlier connection has its total.
    has_totals = all(total_row(session.rows, stream) for stream in session.connections)
    return bool(session.rows) and session.is_server and has_totals


def read_line(text: str, index: int, session: Session, report_of: str | None) -> bool:
    """Take what a line says; tell whether it belongs to iperf's output."""
    if match := ROW.search(text):
        row = _row(match, index)
        if row is not None:
            (session.reports if report_of == row.stream else session.rows).append(row)
        return row is not None
    if match := _CONNECTION.search(text):
        session.connections[match[1]] = (match[2], match[3], match[4], match[5], match[6])
        return True
    if match := _CLIENT.search(text):
        session.protocol, session.port, session.is_client = match[2], match[3], True
        return True
    if match := _SERVER.search(text):
        session.protocol, session.is_server = match[1], True
        session.port = session.port or match[2]
        return True
    if match := _SENT.search(text):
        session.sent[match[1]] = int(match[2])
        return True
    if match := _ORDER.search(text):
        session.out_of_order.append(int(match[1]))
        return True
    if "did not receive ack of last datagram" in text:
        session.is_no_ack = True
        return True
    if match := _WRITE_SIZE.search(text):
        # Only whole bytes are exact: "0.12 MByte" is rounded.
        if not match[3] and (size := q.whole(match[2])) is not None:
            session.details[f"{match[1].lower()}_size_bytes"] = size
        return True
    if match := _DATAGRAM.search(text):
        session.details["datagram_size_bytes"] = int(match[1])
        return True
    if match := _WINDOW.search(text):
        window = q.scaled(match[1], q.size_factor(match[2]))
        if window is not None:
            session.details["window_bytes"] = window
        return True
    return "[ ID]" in text or text.lstrip().startswith("------")


def _row(match: re.Match[str], index: int) -> Row | None:
    if match[9].rstrip().endswith(("sender", "receiver", "(omitted)")):
        return None  # iperf 3's
    start, end = q.number(match[2]), q.number(match[3])
    size = q.scaled(match[4], q.size_factor(match[5]))
    rate = q.scaled(match[6], q.rate_factor(match[7], match[8]))
    if start is None or end is None or size is None or rate is None or end < start:
        return None
    return Row(match[1], start, end, size, rate, match[9], index, (match[4], match[6], match[3]))


def total_row(rows: Sequence[Row], stream: str) -> Row | None:
    """Return the row that covers the whole run of a stream, or None if there is none."""
    own = [row for row in rows if row.stream == stream]
    if not own:
        return None
    last = own[-1]
    if last.start_s > own[0].start_s or last.end_s < max(row.end_s for row in own):
        return None
    return last


def stream_groups(session: Session) -> dict[tuple[str, bool], list[str]]:
    """Return the streams by (direction, whether an end is known)."""
    streams = [s for s in dict.fromkeys(row.stream for row in session.rows) if s != "SUM"]
    groups: dict[tuple[str, bool], list[str]] = {}
    for stream in streams:
        groups.setdefault(_direction(session, stream), []).append(stream)
    return groups


def _direction(session: Session, stream: str) -> tuple[str, bool]:
    connection = session.connections.get(stream.lstrip("*"))
    flip = stream.startswith("*")
    if connection is not None and session.port is not None:
        _, local_port, _, remote_port, _ = connection
        if local_port != remote_port and session.port in (local_port, remote_port):
            receives = (local_port == session.port) != flip
            return ("recv" if receives else "send"), True
    if session.is_client != session.is_server:
        return ("recv" if session.is_server != flip else "send"), True
    rest = next(row.rest for row in session.rows if row.stream == stream)
    if UDP_REST.match(rest):
        return "recv", True
    if WRITES.match(rest):
        return "send", True
    return "send", False
