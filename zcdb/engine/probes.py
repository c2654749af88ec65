"""What this kernel can do, asked of the kernel itself and not of its version.

A probe returns None if it can, or one sentence why not and what to do about it.
No traffic leaves the process.
"""

from __future__ import annotations

import errno
import os
import socket
import tempfile
from collections.abc import Callable

from zcdb.engine.native import native

SO_ZEROCOPY = 60
"""From asm-generic/socket.h; Python's socket module has no name for it."""

UDP_SEGMENT = 103
"""From linux/udp.h."""

COLD_PROBE_BYTES = 1 << 20


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


def _probe_io_uring_recv() -> str | None:
    _, lib = native()
    number = -lib.zc_probe_io_uring_recv()
    if number == errno.EOPNOTSUPP:
        return "this kernel's io_uring has no IORING_OP_RECV; it needs Linux 5.6"
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


def _probe_zerocopy_receive() -> str | None:
    _, lib = native()
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()[:2]) as connection,
    ):
        number = -lib.zc_probe_zerocopy_receive(connection.fileno())
    if number:
        return (
            f"this kernel refuses TCP_ZEROCOPY_RECEIVE ({os.strerror(number)});"
            " it needs Linux 4.18 and CONFIG_MMU"
        )
    return None


def udp_segment_reason() -> str | None:
    """Return why this kernel cannot cut one UDP send into many datagrams, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 512)
        except OSError as error:
            return f"this kernel refuses UDP_SEGMENT ({error.strerror}); it needs Linux 4.18"
    return None


def cold_cache_reason(folder: str | None = None) -> str | None:
    """Return why files in `folder` (None: the temporary one) cannot be made cold, or None."""
    folder = folder or tempfile.gettempdir()
    _, lib = native()
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(bytes(COLD_PROBE_BYTES))
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            kept = lib.zc_cached_pages(file.fileno(), 0, COLD_PROBE_BYTES)
    except OSError as error:
        return f"no file can be made in {folder} ({error.strerror}); set TMPDIR to another folder"
    if kept:
        return (
            f"the file system of {folder} keeps its pages in memory, so files there cannot be"
            " cold; set TMPDIR to a folder on a disk"
        )
    return None


PROBES: dict[str, Callable[[], str | None]] = {
    "sendfile": _probe_sendfile,
    "splice": _probe_splice,
    "splice_null": _probe_splice,
    "msg_zerocopy": _probe_zerocopy,
    "io_uring_send": _probe_io_uring_send,
    "io_uring_send_zc": _probe_io_uring_send_zc,
    "io_uring_recv": _probe_io_uring_recv,
    "zerocopy_receive": _probe_zerocopy_receive,
}
