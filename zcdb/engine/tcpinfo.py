"""The kernel's TCP_INFO of a socket, and its sum over an endpoint's sockets.

Fields by their kernel names, in the order of `struct tcp_info` in linux/tcp.h.
The kernel only ever appends to that struct and returns as much as it knows, so a
field that it does not have is left out of the result.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Sequence

_FIRST_BYTES = 8
"""State, options and window scales: bit fields that nothing here needs."""

_LAYOUT: tuple[tuple[str, str], ...] = (
    *(
        (name, "I")
        for name in (
            *("rto", "ato", "snd_mss", "rcv_mss", "unacked", "sacked", "lost", "retrans"),
            *("fackets", "last_data_sent", "last_ack_sent", "last_data_recv", "last_ack_recv"),
            *("pmtu", "rcv_ssthresh", "rtt", "rttvar", "snd_ssthresh", "snd_cwnd", "advmss"),
            *("reordering", "rcv_rtt", "rcv_space", "total_retrans"),
        )
    ),
    *((name, "Q") for name in ("pacing_rate", "max_pacing_rate", "bytes_acked", "bytes_received")),
    *(
        (name, "I")
        for name in (
            *("segs_out", "segs_in", "notsent_bytes", "min_rtt", "data_segs_in", "data_segs_out"),
        )
    ),
    *((name, "Q") for name in ("delivery_rate", "busy_time", "rwnd_limited", "sndbuf_limited")),
    *((name, "I") for name in ("delivered", "delivered_ce")),
    *((name, "Q") for name in ("bytes_sent", "bytes_retrans")),
)
"""Name (without the `tcpi_` that all share) and width.  Times are in microseconds."""

_STRUCT = struct.Struct(f"={_FIRST_BYTES}x" + "".join(width for _, width in _LAYOUT))
_ASKED_BYTES = 512

PLACES: dict[str, int] = {name: place for place, (name, _) in enumerate(_LAYOUT)}
ENDS_AT: dict[str, int] = {}
"""Name -> first byte after the field: what a kernel must have returned to know it."""
_end = _FIRST_BYTES
for _name, _width in _LAYOUT:
    _end += struct.calcsize(f"={_width}")
    ENDS_AT[_name] = _end

COUNTERS: dict[str, str] = {
    "retransmits": "total_retrans",
    "tcp_segs_out": "segs_out",
    "tcp_segs_in": "segs_in",
    "tcp_data_segs_out": "data_segs_out",
    "tcp_data_segs_in": "data_segs_in",
    "tcp_bytes_acked": "bytes_acked",
    "tcp_bytes_received": "bytes_received",
    "tcp_bytes_retrans": "bytes_retrans",
    "tcp_busy_us": "busy_time",
    "tcp_rwnd_limited_us": "rwnd_limited",
    "tcp_sndbuf_limited_us": "sndbuf_limited",
}
"""Name in a reading -> field.  Cumulative: a window's part is a difference of sums."""

GAUGE_PREFIX = "now_"
"""Begins the name of a value that is of the moment: a difference of it means nothing."""

GAUGES: dict[str, str] = {
    "now_tcp_rtt_us": "rtt",
    "now_tcp_snd_cwnd": "snd_cwnd",
    "now_tcp_delivery_rate": "delivery_rate",
    "now_tcp_notsent_bytes": "notsent_bytes",
}
"""The same for values of the moment: sums over the sockets, delivery_rate in bytes per second."""

_SUMMED = {*COUNTERS.values(), *GAUGES.values()}
_SUMMED_ORDER = [name for name, _ in _LAYOUT if name in _SUMMED]
_SUMMED_STRUCT = struct.Struct(
    f"={_FIRST_BYTES}x"
    + "".join(
        width if name in _SUMMED else f"{struct.calcsize(f'={width}')}x" for name, width in _LAYOUT
    )
)
"""Only the fields that are summed: an endpoint with hundreds of sockets reads them at each edge."""


def parse_tcp_info(raw: bytes, names: Sequence[str]) -> dict[str, int]:
    """Return the named fields of the bytes that the kernel returned.

    Raises:
        KeyError: for a name that the struct does not have.
    """
    values = _STRUCT.unpack_from(raw.ljust(_STRUCT.size, b"\0"))
    return {name: values[PLACES[name]] for name in names if ENDS_AT[name] <= len(raw)}


def read_tcp_info(connection: socket.socket, names: Sequence[str]) -> dict[str, int]:
    """Return the named TCP_INFO fields of a socket, now.

    Raises:
        OSError: if it is not a TCP socket.
    """
    return parse_tcp_info(_raw(connection), names)


def read_totals(connections: Iterable[socket.socket]) -> dict[str, int]:
    """Return the sums over TCP sockets of `COUNTERS` and `GAUGES`, and now_tcp_sockets.

    Without a socket the counters are not there, except for retransmits, which is 0.

    Raises:
        OSError: if one is not a TCP socket.
    """
    rows = [_raw(connection) for connection in connections]
    return sum_totals(rows)


def sum_totals(rows: Sequence[bytes]) -> dict[str, int]:
    """Return what `read_totals` says of what the kernel returned for each socket."""
    found = {"retransmits": 0, "now_tcp_sockets": len(rows)}
    if not rows:
        return found
    known_bytes = min(map(len, rows))
    if known_bytes < _STRUCT.size:
        rows = [raw.ljust(_STRUCT.size, b"\0") for raw in rows]
    unpacked = map(_SUMMED_STRUCT.unpack_from, rows)
    sums = dict(zip(_SUMMED_ORDER, map(sum, zip(*unpacked, strict=True)), strict=True))
    for name, field in (*COUNTERS.items(), *GAUGES.items()):
        if ENDS_AT[field] <= known_bytes:
            found[name] = sums[field]
    return found


def _raw(connection: socket.socket) -> bytes:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ASKED_BYTES)
