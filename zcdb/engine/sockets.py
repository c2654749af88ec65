"""The sockets of an endpoint: made, tuned, and what the kernel made of it."""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

from zcdb.engine.apis import SENDER_APIS, apis_of_streams
from zcdb.engine.channel import seconds_until, wait_readable
from zcdb.engine.options import ReceiverOptions, SenderOptions
from zcdb.engine.probes import SO_ZEROCOPY, UDP_SEGMENT
from zcdb.engine.tcpinfo import read_tcp_info
from zcdb.errors import EngineError

SO_MAX_PACING_RATE = 47
"""From asm-generic/socket.h; in bytes per second."""

IP_BIND_ADDRESS_NO_PORT = 24
IP_MTU = 14
IPV6_MTU = 24

CONNECT_TIMEOUT_S = 10.0
HELLO_RETRY_S = 0.2
DATAGRAM_WAIT_MS = 100
"""How long a receiver of datagrams waits before it looks at the stop word again."""

EXCHANGE_WAIT_MS = 2000
"""How long a crr server waits for one client to go on."""

BACKLOG = 4096
"""Of a crr server, whose clients come as fast as they can."""

SPARE_BACKLOG = 16
"""Places for connections that are not ours."""

ACCEPTED = b"\x06"
HELLO = b"zcdb hello "
WELCOME = b"zcdb welcome"

Option = tuple[int, int, int]
"""Level, name and value, as setsockopt takes them."""


def family(address: str) -> socket.AddressFamily:
    """Return the address family of a numeric address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def raw_address(address: str, port: int) -> bytes:
    """Return the `struct sockaddr` of a numeric address, as C takes it."""
    kind = family(address)
    flags = socket.AI_NUMERICHOST
    found = socket.getaddrinfo(address, port, kind, socket.SOCK_STREAM, flags=flags)[0][4]
    number = socket.inet_pton(kind, str(found[0]).partition("%")[0])
    if kind == socket.AF_INET:
        return struct.pack("=H", kind) + struct.pack("!H", port) + number + bytes(8)
    scope = int(found[3]) if len(found) == 4 else 0
    return struct.pack("=H", kind) + struct.pack("!HI", port, 0) + number + struct.pack("=I", scope)


# -- receivers -------------------------------------------------------------------------------


def listen(options: ReceiverOptions) -> list[socket.socket]:
    """Return a listening socket for each address; its connections inherit what it is tuned to.

    Raises:
        EngineError: if an address is not this host's, or no port is free.
    """
    listeners: list[socket.socket] = []
    for address in options.all_addresses:
        listener = _bound(options, address, socket.SOCK_STREAM)
        if options.test == "crr":
            _set_timeout(listener, EXCHANGE_WAIT_MS)
            listener.listen(BACKLOG)
        else:
            listener.listen(options.streams + SPARE_BACKLOG)
        listeners.append(listener)
    return listeners


def open_datagram_sockets(options: ReceiverOptions) -> list[socket.socket]:
    """Return a bound socket for each stream; the streams take the addresses in turns."""
    addresses = options.all_addresses
    sockets = []
    for stream in range(options.streams):
        endpoint = _bound(options, addresses[stream % len(addresses)], socket.SOCK_DGRAM)
        _set_timeout(endpoint, DATAGRAM_WAIT_MS)
        sockets.append(endpoint)
    return sockets


def _bound(options: ReceiverOptions, address: str, kind: socket.SocketKind) -> socket.socket:
    endpoint = socket.socket(family(address), kind)
    low, high = options.port_range or (options.port, options.port)
    try:
        if kind == socket.SOCK_STREAM:
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if endpoint.family == socket.AF_INET6:
            endpoint.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        _tune(endpoint, options)
        _bind_first_free(endpoint, address, range(low, high + 1))
    except OSError as error:
        endpoint.close()
        ports = f"port {low}" if low == high else f"any port from {low} to {high}"
        raise EngineError(
            f"the receiver cannot listen on {address} {ports}: {error.strerror}",
            hint="the address must be one of this host, and the port free (0 takes any)",
        ) from None
    return endpoint


def _bind_first_free(endpoint: socket.socket, address: str, ports: Sequence[int]) -> None:
    for port in ports:
        try:
            endpoint.bind((address, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE or port == ports[-1]:
                raise
        else:
            return


def _set_timeout(endpoint: socket.socket, milliseconds: int) -> None:
    """Let the kernel end a blocked call; Python's own timeouts make sockets non-blocking."""
    seconds, rest = divmod(milliseconds, 1000)
    value = struct.pack("@ll", seconds, rest * 1000)
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)


# -- senders ---------------------------------------------------------------------------------


def connect(options: SenderOptions, stream: int) -> socket.socket:
    """Return one stream's connected, blocking socket; its receiver has taken its token.

    Raises:
        EngineError: if nobody listens there, the token is not its, or an option is refused.
    """
    is_datagram = options.protocol == "udp"
    address, port = options.destination(stream)
    source = options.source(stream)
    kind = socket.SOCK_DGRAM if is_datagram else socket.SOCK_STREAM
    connection = socket.socket(family(address), kind)
    try:
        _tune(connection, options)
        _tune_sender(connection, options, stream)
        if source is not None:
            connection.bind((source, 0))
        connection.settimeout(CONNECT_TIMEOUT_S)
        connection.connect((address, port))
        if is_datagram:
            _say_hello(connection, options)
        elif options.token and options.test != "crr":
            _show_token(connection, options.token)
        connection.settimeout(None)
    except OSError as error:
        connection.close()
        # A timeout has no number and so no strerror.
        raise EngineError(
            f"the sender cannot connect to {address} port {port}: {error.strerror or error}",
            hint="is the receiver running there, and no firewall between?",
        ) from None
    if options.udp_segment:
        _segment(connection, options)
    return connection


def _show_token(connection: socket.socket, token: str) -> None:
    connection.sendall(token.encode())
    if connection.recv(1) != ACCEPTED:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "it belongs to another run")


def _say_hello(connection: socket.socket, options: SenderOptions) -> None:
    """Make ourselves known to the receiver, until it answers."""
    deadline_s = time.monotonic() + CONNECT_TIMEOUT_S
    while time.monotonic() < deadline_s:
        connection.send(HELLO + options.token.encode())
        if not wait_readable([connection.fileno()], min(HELLO_RETRY_S, seconds_until(deadline_s))):
            continue
        if connection.recv(len(WELCOME)) == WELCOME:
            return
    raise TimeoutError(errno.ETIMEDOUT, "it does not answer")


def _segment(connection: socket.socket, options: SenderOptions) -> None:
    """Let each call hand over many datagrams; from here on, for the hello was one of its own.

    Raises:
        EngineError: if the path's MTU is too small, which a first call would only call invalid.
    """
    is_ipv6 = connection.family == socket.AF_INET6
    level = socket.IPPROTO_IPV6 if is_ipv6 else socket.IPPROTO_IP
    mtu = connection.getsockopt(level, IPV6_MTU if is_ipv6 else IP_MTU)
    most = mtu - (48 if is_ipv6 else 28)
    if options.message_size_bytes > most:
        connection.close()
        raise EngineError(
            f"UDP_SEGMENT cannot send datagrams of {options.message_size_bytes} bytes over an MTU"
            f" of {mtu} bytes: it does not fragment",
            hint=f"use message_size of {most} bytes at most, or udp_segment = false",
        )
    connection.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, options.message_size_bytes)


def connection_options(options: SenderOptions) -> list[Option]:
    """Return the socket options of a new TCP connection that take a plain number."""
    found = [
        (socket.SOL_SOCKET, name, size)
        for name, size in (
            (socket.SO_SNDBUF, options.sndbuf_bytes),
            (socket.SO_RCVBUF, options.rcvbuf_bytes),
        )
        if size
    ]
    if options.mss_bytes:
        found.append((socket.IPPROTO_TCP, socket.TCP_MAXSEG, options.mss_bytes))
    if options.tcp_nodelay:
        found.append((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1))
    if options.tcp_cork:
        found.append((socket.IPPROTO_TCP, socket.TCP_CORK, 1))
    if options.bind_address is not None or options.bind_addresses:
        # Else the port would be chosen before it is known where to, and so be used up sooner.
        found.append((socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1))
    return found


# -- both ------------------------------------------------------------------------------------


def _tune(endpoint: socket.socket, options: SenderOptions | ReceiverOptions) -> None:
    # Before listen() and connect(), or the window scale would not fit the buffer.
    for name, size in (
        (socket.SO_SNDBUF, options.sndbuf_bytes),
        (socket.SO_RCVBUF, options.rcvbuf_bytes),
    ):
        if size:
            endpoint.setsockopt(socket.SOL_SOCKET, name, size)
    if options.mss_bytes:
        endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, options.mss_bytes)
    if options.tcp_nodelay and (options.is_exchange or isinstance(options, SenderOptions)):
        endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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


def _tune_sender(connection: socket.socket, options: SenderOptions, stream: int) -> None:
    if options.tcp_cork:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    if options.pacing_bps:
        rate = struct.pack("=Q", options.pacing_bps // 8)
        connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, rate)
    api = apis_of_streams(options.api, options.api_mix, options.streams)[stream]
    if SENDER_APIS[api].proof == "completions":
        connection.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)


def effective_values(endpoint: socket.socket) -> dict[str, Any]:
    """Return what the kernel made of the options, by factor name; see `Endpoint.effective`."""
    values: dict[str, Any] = {
        "sndbuf": endpoint.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF),
        "rcvbuf": endpoint.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
    }
    if endpoint.type == socket.SOCK_DGRAM:
        return values
    name = endpoint.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    rate = endpoint.getsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 8)
    (bytes_per_s,) = struct.unpack("=Q", rate.ljust(8, b"\0"))
    is_unlimited = bytes_per_s in (2**32 - 1, 2**64 - 1)
    return {
        **values,
        "congestion_control": name.split(b"\0")[0].decode(),
        "pacing_rate": 0 if is_unlimited else bytes_per_s * 8,
        "mss": read_tcp_info(endpoint, ["snd_mss"])["snd_mss"],
    }
