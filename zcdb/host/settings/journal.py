"""The journal: what was there before, on disk before it is changed.

One file a transaction, a JSON object a line, each line on disk (fsync) before
the next step is taken:

    {"journal": 1, "boot_id": ..., "owner": [pid, start], "namespace": [inode, cookie], ...}
    {"worker": [pid, start]}                      the helper process that changes things
    {"seq": 0, "kind": ..., "target": ..., "old": {...}, "asked": {...}, "active": {...}, ...}
    {"seq": 0, "set": {...}}                      what the kernel made of it
    {"undone": 0}

The owner's number is in the file's name too: a file whose first line was never
finished belongs to an owner who has changed nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zcdb.host import facts
from zcdb.host.settings.backend import process
from zcdb.host.settings.model import Namespace, Process, SettingsError, Values

FORM = 1
SUFFIX = ".journal"


class JournalError(Exception):
    """A journal that cannot be understood; the sentence says where."""


def settings_folder() -> Path:
    """Return the folder of this user's journals on this host."""
    return facts.state_folder() / "settings"


@dataclass(slots=True)
class Entry:
    """One change.

    Attributes:
        index: the interface's number, which a new interface of the same name does not have.
        old: stored values before.
        active: what held before, of the same keys.
        asked: stored values that were to be written.
        set: stored values read back; None if the owner died before it knew.
        is_undone: whether it was put back already.
    """

    seq: int
    kind: str
    target: str
    index: int | None
    old: Values
    active: Values
    asked: Values
    set: Values | None = None
    is_undone: bool = False


@dataclass(slots=True)
class Record:
    """A journal as read.

    Attributes:
        created_ns: CLOCK_BOOTTIME.
        workers: helper processes that may still be at work.
    """

    path: Path
    owner: Process
    boot_id: str | None
    namespace: Namespace
    created_ns: int
    workers: list[Process] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)

    def living_worker(self, root: Path) -> Process | None:
        """Return a helper process of a dead owner that has not ended yet."""
        return next(
            (worker for worker in self.workers if process(worker.pid, root) == worker), None
        )


class Journal:
    """A journal that is written."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._next_seq = 0

    @classmethod
    def create(cls, folder: Path, namespace: Namespace) -> Journal:
        """Make the journal of a transaction of this process.

        Raises:
            SettingsError: if the folder cannot be written.
        """
        owner = process(os.getpid())
        assert owner is not None  # noqa: S101
        created_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        path = folder / f"{owner.pid}-{owner.start_ticks}-{created_ns}{SUFFIX}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            journal = cls(path, os.open(path, flags, 0o600))
            _sync_folder(folder)
        except OSError as error:
            raise _unwritable(folder, error) from None
        header = {"boot_id": facts.boot_id(), "owner": owner, "namespace": namespace}
        journal._append({"journal": FORM, **header, "created_ns": created_ns})
        return journal

    def note_worker(self, worker: Process) -> None:
        """Record the helper process that is about to change something."""
        self._append({"worker": worker})

    def add(
        self, kind: str, target: str, index: int | None, old: Values, active: Values, asked: Values
    ) -> int:
        """Record a change that is about to be made and return its number; see `Entry`."""
        seq, self._next_seq = self._next_seq, self._next_seq + 1
        line = {"seq": seq, "kind": kind, "target": target, "index": index}
        self._append({**line, "old": old, "active": active, "asked": asked})
        return seq

    def read_back(self, seq: int, values: Values) -> None:
        """Record what the kernel made of a change."""
        self._append({"seq": seq, "set": values})

    def close(self) -> None:
        """Close the file; what is in it stays."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, line: dict[str, Any]) -> None:
        try:
            append_line(self._descriptor, line)
        except OSError as error:
            raise _unwritable(self.path, error) from None


class Undoing:
    """A journal that is played backwards; nobody else can play it at the same time."""

    def __init__(self, record: Record, descriptor: int) -> None:
        self.record = record
        self._descriptor = descriptor

    @classmethod
    def begin(cls, path: Path) -> Undoing | None:
        """Take a journal to undo it; None if somebody else has it or has just finished with it.

        Raises:
            JournalError: if it cannot be understood.
            OSError: if it may not be opened.
        """
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _cut_torn_line(path, descriptor)
            # Between opening and locking another may have finished and removed it.
            record = read(path) if path.exists() else None
        except BlockingIOError:
            record = None
        except BaseException:
            os.close(descriptor)
            raise
        if record is None:
            os.close(descriptor)
            return None
        return cls(record, descriptor)

    def note_worker(self, worker: Process) -> None:
        """Record the helper process that is about to put things back."""
        self._mark({"worker": worker})

    def undone(self, seq: int) -> None:
        """Record that an entry needs nothing more."""
        self._mark({"undone": seq})

    def _mark(self, line: dict[str, Any]) -> None:
        # A full disk must not keep settings from being put back: without its marks
        # a journal that is played again finds for itself that an old value is there.
        with contextlib.suppress(OSError):
            append_line(self._descriptor, line)

    def end(self, *, remove: bool) -> None:
        """Let go of the journal, and remove it if nothing in it is left to do."""
        if remove:
            discard(self.record.path)
        os.close(self._descriptor)


def append_line(descriptor: int, line: dict[str, Any]) -> None:
    """Write one line and wait until it is on disk.

    Raises:
        OSError: if it cannot be written whole.
    """
    data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
    size_before = os.fstat(descriptor).st_size
    if os.write(descriptor, data) != len(data):
        # Half a line would swallow the next one.
        os.ftruncate(descriptor, size_before)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(descriptor)


def _cut_torn_line(path: Path, descriptor: int) -> None:
    if path.exists():
        os.ftruncate(descriptor, path.read_bytes().rfind(b"\n") + 1)


def discard(path: Path) -> None:
    """Remove a journal for good."""
    path.unlink(missing_ok=True)
    _sync_folder(path.parent)


def paths(folder: Path) -> list[Path]:
    """Return the journals in a folder."""
    return sorted(folder.glob(f"*{SUFFIX}"))


def owner_of(path: Path) -> Process:
    """Return the owner that a journal's name tells.

    Raises:
        JournalError: if it tells none.
    """
    parts = path.name.removesuffix(SUFFIX).split("-")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise JournalError(f"{path} is not named like a journal of settings")
    return Process(int(parts[0]), int(parts[1]))


def read(path: Path) -> Record | None:
    """Return what a journal says; None if its first line was never finished.

    A last line without its end was being written when the machine stopped: the
    step that it announces was not taken.

    Raises:
        JournalError: names file and line that cannot be understood.
    """
    record: Record | None = None
    for number, line in enumerate(_lines(path), start=1):
        try:
            if record is None:
                record = _header(path, line)
            else:
                _take(record, line)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise JournalError(f"{path}: line {number} makes no sense ({error!r})") from None
    return record


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for number, text in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        try:
            line = json.loads(text)
        except ValueError:
            raise JournalError(f"{path}: line {number} is not JSON") from None
        if not isinstance(line, dict):
            raise JournalError(f"{path}: line {number} is not an object")
        yield line


def _header(path: Path, line: dict[str, Any]) -> Record:
    if line["journal"] != FORM:
        raise ValueError(f"form {line['journal']!r} is another version's")
    return Record(
        path,
        owner=Process(*line["owner"]),
        boot_id=line["boot_id"],
        namespace=Namespace(*line["namespace"]),
        created_ns=int(line["created_ns"]),
    )


def _take(record: Record, line: dict[str, Any]) -> None:
    if "worker" in line:
        record.workers.append(Process(*line["worker"]))
    elif "undone" in line:
        record.entries[line["undone"]].is_undone = True
    elif "set" in line:
        record.entries[line["seq"]].set = line["set"]
    elif line["seq"] == len(record.entries):
        record.entries.append(Entry(**line))
    else:
        raise ValueError(f"seq {line['seq']} is out of order")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unwritable(path: Path, error: OSError) -> SettingsError:
    return SettingsError(
        f"the journal of settings cannot be written ({path}: {error.strerror}),"
        " so the setting was not changed",
        hint="give zcdb a state folder that it can write, with $ZCDB_STATE",
    )
