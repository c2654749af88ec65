"""Ports for servers that are told where to listen."""

from __future__ import annotations

import socket

from zcdb.errors import EngineError


def free_port(address: str, port_range: tuple[int, int] | None = None, besides: int = 0) -> int:
    """Return a TCP port of an address that nobody listens on at this moment.

    Args:
        port_range: first and last that may be taken; None lets the kernel choose.
        besides: one that is promised already.

    Raises:
        EngineError: if none is free, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    candidates = range(port_range[0], port_range[1] + 1) if port_range else (0,) * 3
    reason = "all are taken"
    for candidate in candidates:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, candidate))
                probe.listen(1)
            except OSError as error:
                reason = error.strerror or str(error)
                continue
            port: int = probe.getsockname()[1]
        if port != besides:
            return port
    where = f" between {port_range[0]} and {port_range[1]}" if port_range else ""
    raise EngineError(f"no port{where} of {address} can be had: {reason}")
