"""What transactions left behind whose owner died: found, and undone.

Run at the next start of a run and by 'zcdb restore'.  The journal of a living
owner is never touched, nor is a setting of an earlier boot (it is gone).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from zcdb.host import facts
from zcdb.host.settings import journal
from zcdb.host.settings.backend import SystemBackend, process
from zcdb.host.settings.journal import JournalError, Record, Undoing
from zcdb.host.settings.model import (
    Backend,
    BackendError,
    Namespace,
    Restored,
    SettingsError,
)
from zcdb.host.settings.undo import Memory, undo_entries

State = Literal["left", "owner lives", "earlier boot", "empty", "unreadable"]

WORKER_WAIT_S = 5.0
"""How long a dead owner's helper may still be in the kernel; it is killed with its owner."""

OpenBackend = Callable[[Path | None], Backend]
"""Makes the backend for a network namespace, None for that of this process."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """A journal that is still there.

    Attributes:
        owner_pid: the process that made it; None if the file does not tell.
        changes: settings in it that were not undone.
        sentence: for people, complete.
    """

    path: Path
    owner_pid: int | None
    state: State
    changes: int
    sentence: str


@dataclass(frozen=True, slots=True)
class Restoration:
    """What came of one leftover; `values` is empty where nothing had to be put back.

    Attributes:
        is_complete: False if something stays to be done, so the journal stays too.
    """

    leftover: Leftover
    values: tuple[Restored, ...]
    is_complete: bool
    sentence: str


def find_leftovers(folder: Path | None = None, root: Path = Path("/")) -> list[Leftover]:
    """Return the journals that are still there, the newest first.

    Args:
        folder: where they are; `journal.settings_folder()` if None.
        root: where /proc hangs; another folder in tests.
    """
    where = journal.settings_folder() if folder is None else folder
    looked = [_look(path, root) for path in journal.paths(where)]
    looked.sort(key=lambda pair: pair[0], reverse=True)
    return [leftover for _, leftover in looked]


def restore_leftovers(
    folder: Path | None = None,
    *,
    dry_run: bool = False,
    root: Path = Path("/"),
    open_backend: OpenBackend | None = None,
) -> list[Restoration]:
    """Undo what dead owners left, the newest first.

    Args:
        dry_run: change nothing and say what would be done.
        open_backend: what reads and writes; this machine if None.
    """
    make = open_backend or (lambda path: SystemBackend(root, path))
    memories: dict[Namespace, Memory] = {}
    return [
        _restore(leftover, dry_run, root, make, memories)
        for leftover in find_leftovers(folder, root)
    ]


def _look(path: Path, root: Path) -> tuple[int, Leftover]:
    """Return a journal's age (CLOCK_BOOTTIME) and what is to be said of it."""
    try:
        owner = journal.owner_of(path)
        record = journal.read(path)
    except FileNotFoundError:
        return 0, Leftover(path, None, "empty", 0, f"{path} was removed meanwhile")
    except (JournalError, OSError) as error:
        sentence = f"{error}; look what it says, then remove it"
        return 0, Leftover(path, None, "unreadable", 0, sentence)
    if process(owner.pid, root) == owner and _is_of_this_boot(record, root):
        return 0, Leftover(path, owner.pid, "owner lives", 0, f"process {owner.pid} is at work")
    if record is None:
        return 0, Leftover(path, owner.pid, "empty", 0, f"process {owner.pid} changed nothing")
    return record.created_ns, _judge(record, root)


def _is_of_this_boot(record: Record | None, root: Path) -> bool:
    return record is None or record.boot_id == facts.boot_id(root)


def _judge(record: Record, root: Path) -> Leftover:
    pid, changes = record.owner.pid, sum(not entry.is_undone for entry in record.entries)
    if not _is_of_this_boot(record, root):
        sentence = f"process {pid} left {_count(changes)} in an earlier boot; the reboot undid that"
        return Leftover(record.path, pid, "earlier boot", 0, sentence)
    sentence = f"process {pid} ended without undoing {_count(changes)}"
    return Leftover(record.path, pid, "left", changes, sentence)


def _count(changes: int) -> str:
    return f"{changes} change{'' if changes == 1 else 's'} of settings"


def _restore(
    leftover: Leftover,
    dry_run: bool,
    root: Path,
    open_backend: OpenBackend,
    memories: dict[Namespace, Memory],
) -> Restoration:
    if leftover.state in ("owner lives", "unreadable"):
        is_complete = leftover.state == "owner lives"
        return Restoration(leftover, (), is_complete, leftover.sentence)
    try:
        if leftover.state != "left":
            if not dry_run:
                journal.discard(leftover.path)
            return Restoration(leftover, (), True, leftover.sentence)
        return _play(leftover, dry_run, root, open_backend, memories)
    except (SettingsError, JournalError) as error:
        return Restoration(leftover, (), False, str(error))
    except BackendError as error:
        return Restoration(leftover, (), False, f"{leftover.path}: {error.reason}")
    except OSError as error:
        return Restoration(leftover, (), False, f"{leftover.path}: {error.strerror}")


def _play(
    leftover: Leftover,
    dry_run: bool,
    root: Path,
    open_backend: OpenBackend,
    memories: dict[Namespace, Memory],
) -> Restoration:
    undoing = Undoing.begin(leftover.path)
    if undoing is None:
        sentence = f"{leftover.path} is being undone by another process"
        return Restoration(leftover, (), False, sentence)
    is_complete = False
    try:
        _wait_for_worker(undoing.record, root)
        memory = memories.setdefault(undoing.record.namespace, Memory())
        values = tuple(_undo(undoing, dry_run, root, open_backend, memory))
        is_complete = not any(value.outcome == "refused" for value in values)
    finally:
        undoing.end(remove=is_complete and not dry_run)
    return Restoration(leftover, values, is_complete, leftover.sentence)


def _wait_for_worker(record: Record, root: Path) -> None:
    """Wait until the helper that died with its owner has left the kernel."""
    deadline = time.monotonic() + WORKER_WAIT_S
    while (worker := record.living_worker(root)) is not None:
        if time.monotonic() > deadline:
            raise SettingsError(
                f"process {worker.pid} is still changing settings for process {record.owner.pid}"
            )
        time.sleep(0.01)


def _undo(
    undoing: Undoing, dry_run: bool, root: Path, open_backend: OpenBackend, memory: Memory
) -> list[Restored]:
    wanted = undoing.record.namespace
    for path in itertools.chain([None], _namespace_paths(wanted, root)):
        with open_backend(path) as backend:
            if backend.namespace() == wanted:
                return undo_entries(undoing, backend, dry_run=dry_run, memory=memory)
    # What belongs to the machine outlives the namespace.
    with open_backend(None) as backend:
        return undo_entries(
            undoing, backend, dry_run=dry_run, memory=memory, is_namespace_gone=True
        )


def _namespace_paths(wanted: Namespace, root: Path) -> Iterator[Path]:
    """Return paths of a network namespace: of a process in it, or of a name it has."""
    for folder, pattern in ((root / "proc", "[0-9]*/ns/net"), (root / "run/netns", "*")):
        for path in folder.glob(pattern):
            try:
                inode = path.stat().st_ino
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue  # it ended meanwhile, or is somebody else's
            if inode == wanted.inode:
                yield path
                break
