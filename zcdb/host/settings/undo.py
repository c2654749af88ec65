"""Playing a journal backwards.

A value is put back only if it still is what zcdb made of it; what somebody has
changed since is reported and left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from zcdb.host.settings import kinds
from zcdb.host.settings.journal import Entry, JournalError, Undoing
from zcdb.host.settings.model import (
    Backend,
    BackendError,
    Outcome,
    Reading,
    Restored,
    SettingsError,
)
from zcdb.ids import Json

Place = tuple[str, str, str]
"""Kind, target and key of a value."""


def undo_journal(path: Path, backend: Backend) -> list[Restored]:
    """Undo what a journal holds and remove it if nothing is left to do.

    Raises:
        SettingsError: if the journal cannot be read, or somebody else is undoing it now.
    """
    try:
        undoing = Undoing.begin(path)
    except (JournalError, OSError) as error:
        raise SettingsError(f"the settings cannot be put back: {error}") from None
    if undoing is None:
        raise SettingsError(f"{path} is being undone by another process, or was removed")
    is_done = False
    try:
        with backend:
            results = undo_entries(undoing, backend, dry_run=False)
        is_done = not any(result.outcome == "refused" for result in results)
    finally:
        undoing.end(remove=is_done)
    return results


@dataclass(slots=True)
class Memory:
    """What later changes of the same values came to, while earlier ones are undone.

    Attributes:
        assumed: what a dry run would have put back by now.
        stuck: what could not be put back; that it still has a later value is nobody else's doing.
    """

    assumed: dict[Place, Json] = field(default_factory=dict)
    stuck: set[Place] = field(default_factory=set)


def undo_entries(
    undoing: Undoing,
    backend: Backend,
    *,
    dry_run: bool,
    memory: Memory | None = None,
    is_namespace_gone: bool = False,
) -> list[Restored]:
    """Undo the entries of one journal, the last one first.

    Args:
        dry_run: change nothing and say what would be done.
        memory: of the journals of the same namespace that were undone before this one.
        is_namespace_gone: the network namespace is no more, and its settings with it.
    """
    remembered = memory or Memory()
    results: list[Restored] = []
    worker = backend.worker()
    if worker is not None and not dry_run:
        undoing.note_worker(worker)
    for entry in reversed(undoing.record.entries):
        if entry.is_undone:
            continue
        if is_namespace_gone and entry.kind not in kinds.MACHINE_WIDE:
            undone = _all_gone(entry, "its network namespace is gone")
        else:
            undone = _undo_entry(entry, backend, remembered, dry_run)
        refused = {_place(entry, r.key) for r in undone if r.outcome == "refused"}
        remembered.stuck |= refused
        results += undone
        if not refused and not dry_run:
            undoing.undone(entry.seq)
    return results


def _undo_entry(entry: Entry, backend: Backend, memory: Memory, dry_run: bool) -> list[Restored]:
    if entry.index is not None and backend.interface_index(entry.target) != entry.index:
        return _all_gone(entry, "the interface is gone")
    try:
        reading = backend.read(entry.kind, entry.target)
    except BackendError as error:
        return [_result(entry, key, None, "refused", error.reason) for key in entry.old]
    results = [_judge(entry, key, reading, memory) for key in entry.old]
    ours = [result.key for result in results if result.outcome == "would restore"]
    if dry_run:
        memory.assumed |= {_place(entry, key): entry.old[key] for key in ours}
        return results
    refusal = _write_back(entry, ours, backend) if ours else {}
    return [
        _settled(entry, result, refusal.get(result.key)) if result.key in ours else result
        for result in results
    ]


def _place(entry: Entry, key: str) -> Place:
    return entry.kind, entry.target, key


def _all_gone(entry: Entry, reason: str) -> list[Restored]:
    return [_result(entry, key, None, "gone", reason) for key in entry.old]


def _judge(entry: Entry, key: str, reading: Reading, memory: Memory) -> Restored:
    """Say what has to be done about one value, given what is there now."""
    place = _place(entry, key)
    now = reading[key].stored if key in reading else None
    found = memory.assumed.get(place, now)
    if place in memory.stuck:
        return _result(entry, key, found, "refused", "a later change could not be undone")
    if found == entry.old[key]:
        return _result(entry, key, found, "unchanged")
    # Without a read-back the owner died while it set the value: whatever is there is ours.
    if entry.set is None or found in (entry.asked[key], entry.set.get(key)):
        return _result(entry, key, found, "would restore")
    return _result(entry, key, found, "changed since")


def _write_back(entry: Entry, keys: list[str], backend: Backend) -> dict[str, str]:
    """Write old values and read them back; returns why, for each key that is not as before."""
    try:
        backend.write(entry.kind, entry.target, {key: entry.old[key] for key in keys})
        reading: Reading = backend.read(entry.kind, entry.target)
    except BackendError as error:
        return dict.fromkeys(keys, error.reason)
    refusals = {}
    for key in keys:
        if key not in reading or reading[key].stored != entry.old[key]:
            refusals[key] = "the kernel did not keep the old value"
        elif reading[key].active != entry.active[key]:
            # Going backwards, what a feature needs is at this point as it was then.
            held = kinds.show(reading[key].active)
            refusals[key] = f"it is stored as before, but {held} holds"
    return refusals


def _settled(entry: Entry, result: Restored, refusal: str | None) -> Restored:
    if refusal is None:
        return _result(entry, result.key, result.found, "restored")
    return _result(entry, result.key, result.found, "refused", refusal)


_SENTENCES: dict[Outcome, str] = {
    "restored": "{what}: {old} again",
    "would restore": "{what}: would be {old} again, is {found}",
    "unchanged": "{what}: is {old}, as before",
    "changed since": "{what}: somebody set {found} since; left so, it was {old} before",
    "gone": "{what}: nothing to put back, {reason}",
    "refused": "{what}: cannot be put back to {old}: {reason}",
}


def _result(entry: Entry, key: str, found: Json, outcome: Outcome, reason: str = "") -> Restored:
    what = kinds.what(entry.kind, key, entry.target)
    old = kinds.show(entry.active[key])
    words = {"what": what, "old": old, "found": kinds.show(found), "reason": reason}
    sentence = _SENTENCES[outcome].format(**words)
    return Restored(entry.kind, entry.target, key, entry.old[key], found, outcome, sentence)
