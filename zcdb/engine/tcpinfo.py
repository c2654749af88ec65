"""The kernel's TCP_INFO of a socket.

Fields by their kernel names and places (`struct tcp_info` in linux/tcp.h).  The
kernel only ever appends to that struct and returns as much as it knows, so a
field that it does not have is left out of the result.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

TCP_INFO_FIELDS: dict[str, tuple[int, str]] = {
    "snd_mss": (16, "=I"),
    "total_retrans": (100, "=I"),
}
"""Name (without the `tcpi_` that all share) -> offset in bytes and struct format."""

_LENGTH_BYTES = 512


def parse_tcp_info(raw: bytes, names: Sequence[str]) -> dict[str, int]:
    """Return the named fields of the bytes that the kernel returned.

    Raises:
        KeyError: for a name that is not in `TCP_INFO_FIELDS`.
    """
    found: dict[str, int] = {}
    for name in names:
        offset, form = TCP_INFO_FIELDS[name]
        if offset + struct.calcsize(form) <= len(raw):
            (found[name],) = struct.unpack_from(form, raw, offset)
    return found


def read_tcp_info(connection: socket.socket, names: Sequence[str]) -> dict[str, int]:
    """Return the named TCP_INFO fields of a socket, now.

    Raises:
        OSError: if it is not a TCP socket.
    """
    raw = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LENGTH_BYTES)
    return parse_tcp_info(raw, names)
