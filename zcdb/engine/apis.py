"""The registry of what can move bytes: what each API needs, and how it proves zero copy.

The names are those of the factors `api` and `rx_api`, and of the loops in
`hotloops_api.h`.  `unsupported_reason` asks this kernel, not its version.
"""

from __future__ import annotations

import errno
import functools
import os
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from zcdb.engine.native import native
from zcdb.errors import EngineError
from zcdb.factors import Factors, file_set, with_defaults

SO_ZEROCOPY = 60
"""From asm-generic/socket.h; Python's socket module has no name for it."""

Proof = Literal["completions", "usage-report", "path", "none"]


@dataclass(frozen=True, slots=True)
class Api:
    """A way to move bytes into a socket.

    Attributes:
        needs: what it needs, for people.
        takes_file: it sends from files in the page cache, not from memory.
        takes_pool: it sends from a pool whose buffers come back with a notification.
        proof: how one knows that the kernel did not copy: from the notifications on
            the error queue, from io_uring's usage report, from the offloads of the
            path, or not at all because the API always copies.
    """

    name: str
    needs: str
    takes_file: bool = False
    takes_pool: bool = False
    proof: Proof = "none"

    @property
    def loop(self) -> str:
        """Name of the loop in the C module."""
        return f"zc_send_{self.name}"


@dataclass(frozen=True, slots=True)
class ReceiverApi:
    """A way to take bytes out of a socket.

    Attributes:
        needs: what it needs, for people.
        sees_bytes: it copies them to where they can be verified.
    """

    name: str
    needs: str
    sees_bytes: bool = False

    @property
    def loop(self) -> str:
        """Name of the loop in the C module."""
        return f"zc_receive_{self.name}"


SENDER_APIS: dict[str, Api] = {
    api.name: api
    for api in [
        Api("write", "a socket"),
        Api("send", "a socket"),
        Api("sendmsg", "a socket"),
        Api("read_write", "a file, which it copies twice", takes_file=True),
        Api("sendfile", "a file in the page cache", takes_file=True, proof="path"),
        Api("splice", "a file in the page cache and a pipe", takes_file=True, proof="path"),
        Api(
            "msg_zerocopy",
            "SO_ZEROCOPY (Linux 4.14)",
            takes_pool=True,
            proof="completions",
        ),
        Api("io_uring_send", "io_uring with IORING_OP_SEND (Linux 5.6)"),
        Api(
            "io_uring_send_zc",
            "io_uring with IORING_OP_SEND_ZC and its usage report (Linux 6.2)",
            takes_pool=True,
            proof="usage-report",
        ),
    ]
}

RECEIVER_APIS: dict[str, ReceiverApi] = {
    api.name: api
    for api in [
        ReceiverApi("recv", "a socket", sees_bytes=True),
        ReceiverApi("recv_trunc", "MSG_TRUNC on TCP, which drops the bytes (Linux 2.4)"),
        ReceiverApi("splice_null", "a pipe and /dev/null"),
    ]
}


def unsupported_reason(api_name: str) -> str | None:
    """Return why this kernel cannot run a sender or receiver API, or None if it can.

    The reason says what to do about it.  Asked once per process, cheaply: no
    traffic is sent.

    Raises:
        KeyError: if there is no such API.
    """
    if api_name not in SENDER_APIS and api_name not in RECEIVER_APIS:
        raise KeyError(api_name)
    return _unsupported_reason(api_name)


@functools.cache
def _unsupported_reason(api_name: str) -> str | None:
    try:
        native()
    except EngineError as error:
        return f"{error.message}; {error.hint}"
    probe = _PROBES.get(api_name)
    return probe() if probe else None


def unsupported_combination(factors: Factors) -> str | None:
    """Return why no kernel can run this combination of factors, or None.

    Args:
        factors: declared factors of a case; what is missing has its default.
    """
    factors = with_defaults(factors)
    api = SENDER_APIS[str(factors["api"])]
    working_set, message_size = factors["working_set"], int(factors["message_size"])
    fragments = int(factors["fragments"])
    if fragments > 1 and api.name != "sendmsg":
        return f"{api.name} takes a message in one piece; fragments = {fragments} needs sendmsg"
    if fragments > message_size:
        return f"a message of {message_size} bytes cannot be cut into {fragments} fragments"
    if file_set(working_set) is not None and not api.takes_file:
        return f"{api.name} sends from memory; a file set needs read_write, sendfile or splice"
    if isinstance(working_set, int) and working_set < message_size:
        return (
            f"a working set of {working_set} bytes is smaller than"
            f" one message of {message_size} bytes"
        )
    rx_api = str(factors["rx_api"])
    if factors["verify"] and not RECEIVER_APIS[rx_api].sees_bytes:
        return f"{rx_api} never sees the bytes, so it cannot verify them; that needs recv"
    return None


def _probe_zerocopy() -> str | None:
    with socket.socket() as probe:
        try:
            probe.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)
        except OSError as error:
            return f"this kernel refuses SO_ZEROCOPY ({error.strerror}); it needs Linux 4.14"
    return None


def _io_uring_reason(number: int) -> str:
    if number == errno.ENOSYS:
        return "this kernel has no io_uring (CONFIG_IO_URING, Linux 5.6)"
    if number in (errno.EPERM, errno.EACCES):
        return (
            "io_uring is not allowed here; set sysctl kernel.io_uring_disabled=0,"
            " or allow it in the container's seccomp profile"
        )
    if number == errno.ENOMEM:
        return "io_uring may not lock enough memory; raise the memlock limit (ulimit -l)"
    return f"io_uring cannot be set up ({os.strerror(number)})"


def _probe_io_uring_send() -> str | None:
    _, lib = native()
    number = -lib.zc_probe_io_uring_send()
    if number == errno.EOPNOTSUPP:
        return "this kernel's io_uring has no IORING_OP_SEND; it needs Linux 5.6"
    return _io_uring_reason(number) if number else None


def _probe_io_uring_send_zc() -> str | None:
    reason = _probe_io_uring_send()
    if reason is not None:
        return reason
    _, lib = native()
    read_end, write_end = os.pipe()
    try:
        number = -lib.zc_probe_io_uring_send_zc(write_end)
    finally:
        os.close(read_end)
        os.close(write_end)
    if number == errno.ENOTSOCK:
        return None
    if number == errno.EINVAL:
        return "this kernel's io_uring has no SEND_ZC with a usage report; it needs Linux 6.2"
    return _io_uring_reason(number)


def _refused(call: str, error: OSError) -> str:
    return f"this kernel refuses {call} ({error.strerror}); a seccomp profile may forbid it"


def _probe_sendfile() -> str | None:
    one, other = socket.socketpair()
    with one, other, tempfile.TemporaryFile() as file:
        file.write(b"z")
        file.flush()
        try:
            os.sendfile(one.fileno(), file.fileno(), 0, 1)
        except OSError as error:
            return _refused("sendfile", error)
    return None


def _probe_splice() -> str | None:
    one, other = socket.socketpair()
    read_end, write_end = os.pipe()
    try:
        with one, other:
            os.write(write_end, b"z")
            os.splice(read_end, one.fileno(), 1)
    except OSError as error:
        return _refused("splice", error)
    finally:
        os.close(read_end)
        os.close(write_end)
    return None


_PROBES: dict[str, Callable[[], str | None]] = {
    "sendfile": _probe_sendfile,
    "splice": _probe_splice,
    "splice_null": _probe_splice,
    "msg_zerocopy": _probe_zerocopy,
    "io_uring_send": _probe_io_uring_send,
    "io_uring_send_zc": _probe_io_uring_send_zc,
}
