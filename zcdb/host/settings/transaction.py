"""Applying settings: read, journal, set, read back, compare.

A `Transaction` belongs to one process.  It is undone by `restore`, also after a
failure in the middle; what its process leaves when it is killed is undone by
`leftovers`.  Transactions nest: the later one is restored first.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import TracebackType

from zcdb.host.settings import kinds, undo
from zcdb.host.settings.backend import SystemBackend
from zcdb.host.settings.journal import Journal, settings_folder
from zcdb.host.settings.model import (
    Backend,
    BackendError,
    Effective,
    Item,
    Process,
    Reading,
    Restored,
    Setting,
    SettingsError,
    Values,
)
from zcdb.ids import Json


class Transaction:
    """Changes of this machine's settings that are undone together.

    Args:
        interfaces: the interfaces that may be changed: those the experiment names.
        allow_interfaces: those of them that may be changed although they carry the
            default route or the control connection.
        backend: what reads and writes; this machine if None.
        folder: where the journal goes; `settings_folder()` if None.
        environment: where $SSH_CONNECTION is looked up.
    """

    def __init__(
        self,
        interfaces: Collection[str] = (),
        allow_interfaces: Collection[str] = (),
        *,
        backend: Backend | None = None,
        folder: Path | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._interfaces = frozenset(interfaces)
        self._allowed = frozenset(allow_interfaces)
        self._backend = SystemBackend() if backend is None else backend
        self._folder = settings_folder() if folder is None else folder
        self._control_address = control_address(environment)
        self._journal: Journal | None = None
        self._owner_pid = os.getpid()
        self._noted_worker: Process | None = None

    def __enter__(self) -> Transaction:
        """Return the transaction itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Restore, whatever happened."""
        self.restore()

    def apply(self, settings: Iterable[Setting]) -> list[Effective]:
        """Make settings hold, in order, and return what holds now.

        What the kernel refuses or silently changes is no error: it stands in the
        result, and the other settings are made all the same.

        Raises:
            SettingsError: before anything is changed, if an interface may not be; at any
                point, if the journal cannot be written.
        """
        wanted = list(settings)
        with self._backend as backend:
            check_interfaces(
                backend, wanted, self._interfaces, self._allowed, self._control_address
            )
            return [self._apply_one(backend, setting) for setting in wanted]

    def check(self, settings: Iterable[Setting]) -> list[list[str]]:
        """Return for each setting what of it does not hold now, as sentences; empty if all does."""
        with self._backend as backend:
            return [_not_held(backend, setting) for setting in settings]

    def restore(self) -> list[Restored]:
        """Put everything back as it was, the last change first.  Idempotent.

        What somebody else has changed since is left alone and reported.  If something
        cannot be put back now, the journal stays for a later `zcdb restore`.
        """
        if self._journal is None or os.getpid() != self._owner_pid:
            # A forked child has a copy of this object, but the settings are its parent's.
            return []
        journal, self._journal = self._journal, None
        journal.close()
        return undo.undo_journal(journal.path, self._backend)

    def _apply_one(self, backend: Backend, setting: Setting) -> Effective:
        try:
            before = backend.read(setting.kind, setting.target)
        except BackendError as error:
            return Effective(setting, {}, {}, refusals(setting, error))
        asked, problems = sort_out(setting, before)
        changes = {key: value for key, value in asked.items() if before[key].stored != value}
        after = before
        refused: tuple[str, ...] = ()
        if changes:
            after, refused = self._change(backend, setting, before, changes)
        # What was refused is not as asked either, but that goes without saying.
        problems += refused or mismatches(setting, asked, after)
        return Effective(setting, active(before, asked), active(after, asked), tuple(problems))

    def _change(
        self, backend: Backend, setting: Setting, before: Reading, changes: Values
    ) -> tuple[Reading, tuple[str, ...]]:
        """Journal, set, read back.  Returns what holds then, and why it was refused."""
        journal = self._ready_journal(backend)
        is_of_interface = kinds.is_of_interface(setting.kind)
        index = backend.interface_index(setting.target) if is_of_interface else None
        old = {key: before[key].stored for key in changes}
        held = active(before, changes)
        seq = journal.add(setting.kind, setting.target, index, old, held, changes)
        refused: tuple[str, ...] = ()
        try:
            backend.write(setting.kind, setting.target, changes)
        except BackendError as error:
            refused = refusals(setting, error)
        try:
            after = backend.read(setting.kind, setting.target)
        except BackendError as error:
            return {}, refused or refusals(setting, error)
        journal.read_back(seq, {key: after[key].stored for key in changes if key in after})
        return after, refused

    def _ready_journal(self, backend: Backend) -> Journal:
        if self._journal is None:
            self._journal = Journal.create(self._folder, backend.namespace())
        worker = backend.worker()
        if worker is not None and worker != self._noted_worker:
            self._journal.note_worker(worker)
            self._noted_worker = worker
        return self._journal


def _not_held(backend: Backend, setting: Setting) -> list[str]:
    try:
        reading = backend.read(setting.kind, setting.target)
    except BackendError as error:
        return list(refusals(setting, error))
    asked, problems = sort_out(setting, reading)
    return problems + mismatches(setting, asked, reading)


def control_address(environment: Mapping[str, str]) -> str | None:
    """Return the address from which somebody is logged in here over ssh; None if nobody is.

    Through a proxy command sshd has no connection of its own to name: it says "UNKNOWN".
    """
    words = environment.get("SSH_CONNECTION", "").split()
    try:
        ipaddress.ip_address(words[0].partition("%")[0] if words else "")
    except ValueError:
        return None
    return words[0]


def check_interfaces(
    backend: Backend,
    settings: Iterable[Setting],
    interfaces: Collection[str],
    allowed: Collection[str],
    control: str | None,
) -> None:
    """Check that the settings touch only interfaces that may be changed.

    Raises:
        SettingsError: names the first one that may not, and why.
    """
    touched = [setting.target for setting in settings if kinds.is_of_interface(setting.kind)]
    foreign = next((name for name in touched if name not in interfaces), None)
    if foreign is not None:
        raise SettingsError(
            f"settings of {foreign} may not be changed: the experiment does not name it",
            hint="name the interface in the experiment's link",
        )
    guarded = [name for name in touched if name not in allowed]
    if not guarded:
        return
    try:
        carriers = backend.carriers(control)
    except BackendError as error:
        raise SettingsError(f"the routes of this host cannot be read ({error.reason})") from None
    for name in guarded:
        if name in carriers:
            raise SettingsError(
                f"settings of {name} may not be changed: it carries {carriers[name]}",
                hint=f"if that is what you want, say --allow-interface {name}",
            )


def sort_out(setting: Setting, reading: Reading) -> tuple[dict[str, Json], list[str]]:
    """Return the stored values to ask for, and a sentence for each that cannot be had."""
    asked: dict[str, Json] = {}
    problems: list[str] = []
    for key, value in kinds.KINDS[setting.kind].expand(setting.value, reading).items():
        item = reading.get(key)
        problem = _obstacle(setting, key, value, item)
        if problem:
            problems.append(problem)
        elif item is not None:
            asked[key] = value
    return asked, problems


def _obstacle(setting: Setting, key: str, value: Json, item: Item | None) -> str | None:
    if item is None:
        return f"{_what(setting, key)} cannot be {kinds.show(value)}: its driver has none"
    if item.fixed is not None and not kinds.KINDS[setting.kind].matches(value, item):
        return f"{_what(setting, key)} stays {kinds.show(item.active)}: {item.fixed}"
    if item.limits and isinstance(value, int) and not item.limits[0] <= value <= item.limits[1]:
        low, high = item.limits
        return f"{_what(setting, key)} can be {low} to {high} here, not {value}"
    return None


def mismatches(setting: Setting, asked: Values, reading: Reading) -> list[str]:
    """Return a sentence for each value that the kernel did not make as asked."""
    kind = kinds.KINDS[setting.kind]
    sentences = []
    for key, value in asked.items():
        item = reading.get(key, Item(None, None))
        if kind.matches(value, item):
            continue
        found = kinds.show(item.active)
        wanted = kinds.show(setting.value["root"] if setting.kind == "qdisc" else value)
        sentence = f"{_what(setting, key)} is {found}, although {wanted} was asked for"
        missing = missing_needs(key, reading) if setting.kind == "feature" and value else None
        sentences.append(f"{sentence}: it needs {missing}, which is off" if missing else sentence)
    return sentences


def missing_needs(feature: str, reading: Reading) -> str | None:
    """Return what a feature needs that is off, if the kernel's rules tell."""
    for pattern, needs in kinds.FEATURE_NEEDS.items():
        if feature not in kinds.feature_names(pattern, [feature]):
            continue
        for need in needs:
            members = kinds.feature_names(need, reading)
            if not any(reading[member].active for member in members):
                return need.rstrip("*-")
    return None


def active(reading: Reading, keys: Iterable[str]) -> dict[str, Json]:
    """Return what holds, for those keys that were read."""
    return {key: reading[key].active for key in keys if key in reading}


def refusals(setting: Setting, error: BackendError) -> tuple[str, ...]:
    """Return a sentence for each value of a setting that the kernel refused as a whole."""
    return tuple(
        f"{kinds.what(setting.kind, key, setting.target)} cannot be {kinds.show(value)}:"
        f" {error.reason}"
        for key, value in setting.value.items()
    )


def _what(setting: Setting, key: str) -> str:
    return kinds.what(setting.kind, key, setting.target)
