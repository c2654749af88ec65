"""One run measures on a host at a time.

The lock is the kernel's (`flock`), so it ends with its holder, also after
`kill -9`; the text inside says who holds it.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

LOCK_NAME = "zcdb-measuring.lock"


def lock_path() -> Path:
    """Return the file that all users of this host lock: `/run/lock` where it exists."""
    for folder in (Path("/run/lock"), Path("/var/lock")):
        if folder.is_dir() and os.access(folder, os.W_OK):
            return folder / LOCK_NAME
    return Path(tempfile.gettempdir()) / LOCK_NAME


class HostLock:
    """The right to measure on this host."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def acquire(cls, holder: str, path: Path | None = None) -> HostLock | str:
        """Take the lock without waiting.

        Args:
            holder: who is asking, for the next one's message ("run ... of user ..., pid 1234").
            path: another file, in tests.

        Returns:
            The lock, or what its present holder wrote about itself.
        """
        path = path or lock_path()
        try:
            # Not O_CREAT first: in a sticky folder the kernel refuses that for another user's file.
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            os.fchmod(descriptor, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.pread(descriptor, 4096, 0).decode(errors="replace").strip()
            os.close(descriptor)
            return text or "another run"
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, holder.encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        """Give the lock back.  Idempotent."""
        if self._descriptor >= 0:
            os.ftruncate(self._descriptor, 0)
            # Closing is not enough: a process forked meanwhile has a copy, and with it the lock.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = -1
