"""The TCP sockets of an endpoint: made, tuned, and what the kernel made of it."""

from __future__ import annotations

import os
import socket
import struct
from typing import Any

from zcdb.engine.apis import SENDER_APIS, SO_ZEROCOPY
from zcdb.engine.options import ReceiverOptions, SenderOptions
from zcdb.engine.tcpinfo import read_tcp_info
from zcdb.errors import EngineError

SO_MAX_PACING_RATE = 47
"""From asm-generic/socket.h; in bytes per second."""

CONNECT_TIMEOUT_S = 10.0


def listen(options: ReceiverOptions) -> socket.socket:
    """Return a listening socket; what it is tuned to, its connections inherit.

    Raises:
        EngineError: if the address is not this host's, or the port is taken.
    """
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _tune(listener, options)
        listener.bind((options.address, options.port))
        listener.listen(options.streams)
    except OSError as error:
        listener.close()
        raise EngineError(
            f"the receiver cannot listen on {options.address} port {options.port}:"
            f" {error.strerror}",
            hint="the address must be one of this host, and the port free (0 takes any)",
        ) from None
    return listener


def connect(options: SenderOptions, stream: int) -> socket.socket:
    """Return one stream's connected, blocking socket.

    Raises:
        EngineError: if nobody listens there, or an option is refused.
    """
    port = options.ports[stream % len(options.ports)]
    connection = socket.socket()
    try:
        _tune(connection, options)
        _tune_sender(connection, options)
        if options.bind_address is not None:
            connection.bind((options.bind_address, 0))
        connection.settimeout(CONNECT_TIMEOUT_S)
        connection.connect((options.address, port))
        connection.settimeout(None)
    except OSError as error:
        connection.close()
        # A timeout has no number and so no strerror.
        raise EngineError(
            f"the sender cannot connect to {options.address} port {port}:"
            f" {error.strerror or error}",
            hint="is the receiver running there, and no firewall between?",
        ) from None
    return connection


def _tune(endpoint: socket.socket, options: SenderOptions | ReceiverOptions) -> None:
    # Before listen() and connect(), or the window scale would not fit the buffer.
    for name, size in (
        (socket.SO_SNDBUF, options.sndbuf_bytes),
        (socket.SO_RCVBUF, options.rcvbuf_bytes),
    ):
        if size:
            endpoint.setsockopt(socket.SOL_SOCKET, name, size)
    if options.congestion_control is not None:
        _set_congestion_control(endpoint, options.congestion_control)


def _set_congestion_control(endpoint: socket.socket, name: str) -> None:
    try:
        endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
    except OSError as error:
        raise EngineError(
            f"congestion control {name!r} is refused: {os.strerror(error.errno or 0)}",
            hint="sysctl net.ipv4.tcp_available_congestion_control lists what this kernel has;"
            " without root it must also be in tcp_allowed_congestion_control",
        ) from None


def _tune_sender(connection: socket.socket, options: SenderOptions) -> None:
    if options.tcp_nodelay:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if options.tcp_cork:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    if options.pacing_bps:
        rate = struct.pack("=Q", options.pacing_bps // 8)
        connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, rate)
    if SENDER_APIS[options.api].proof == "completions":
        connection.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)


def effective_values(endpoint: socket.socket) -> dict[str, Any]:
    """Return what the kernel made of the options, by factor name; see `Endpoint.effective`."""
    name = endpoint.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    rate = endpoint.getsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 8)
    (bytes_per_s,) = struct.unpack("=Q", rate.ljust(8, b"\0"))
    is_unlimited = bytes_per_s in (2**32 - 1, 2**64 - 1)
    return {
        "sndbuf": endpoint.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF),
        "rcvbuf": endpoint.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
        "congestion_control": name.split(b"\0")[0].decode(),
        "pacing_rate": 0 if is_unlimited else bytes_per_s * 8,
        "mss": read_tcp_info(endpoint, ["snd_mss"])["snd_mss"],
    }
