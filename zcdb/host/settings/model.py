"""The words of the settings engine: a setting, what was read of it, what came of it.

Plain values only, so that they cross a pipe and stand in a journal as JSON.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from zcdb.errors import HostError, UsageError
from zcdb.ids import Json

Values = Mapping[str, Json]
"""Key -> value within one kind and target: `{"tx-scatter-gather": False}`, `{"rx": 512}`."""

Outcome = Literal["restored", "would restore", "unchanged", "changed since", "gone", "refused"]


class SettingError(UsageError, ValueError):
    """A setting that does not exist or a value that it cannot take; one sentence says which."""


class SettingsError(HostError):
    """This machine's settings may not or cannot be changed; nothing was."""


class BackendError(Exception):
    """The kernel said no.

    Attributes:
        number: errno, 0 where there is none.
        reason: what the kernel said, without a full stop.
    """

    def __init__(self, number: int, reason: str = "") -> None:
        self.number = number
        self.reason = reason or (os.strerror(number) if number else "no reason given")
        super().__init__(self.reason)


class Setting(NamedTuple):
    """What somebody wants: made by `kinds.parse_setting`, which has checked it.

    Attributes:
        kind: a name in `kinds.KINDS`.
        target: interface, sysctl name, IRQ number or CPU list.
        value: canonical, keys in order.
    """

    kind: str
    target: str
    value: Values


@dataclass(frozen=True, slots=True)
class Item:
    """One value as the machine has it.

    Attributes:
        stored: what has to be written to come back to this state.  For an ethtool feature
            that is the *requested* bit, for a qdisc all of its parameters.
        active: what holds now, in the terms in which it is asked for.
        fixed: why it cannot be changed; None if it can.
        limits: (smallest, largest) value where the kernel says so.
    """

    stored: Json
    active: Json
    fixed: str | None = None
    limits: tuple[int, int] | None = None


Reading = Mapping[str, Item]


class Process(NamedTuple):
    """A process that cannot be mistaken for a later one with the same number."""

    pid: int
    start_ticks: int


class Namespace(NamedTuple):
    """A network namespace.

    Attributes:
        inode: of /proc/PID/ns/net; the kernel gives it to another namespace once this one is gone.
        cookie: SO_NETNS_COOKIE, never given twice in one boot; 0 where the kernel has none.
    """

    inode: int
    cookie: int


@dataclass(frozen=True, slots=True)
class Effective:
    """What came of one setting.

    Attributes:
        before: what held before, by key.
        effective: what holds now, by key; equal to `before` where nothing was changed.
        problems: one sentence for each value that is not as asked; empty if all are.
    """

    setting: Setting
    before: Values
    effective: Values
    problems: tuple[str, ...] = ()

    @property
    def is_as_asked(self) -> bool:
        """True if every value asked for holds."""
        return not self.problems


@dataclass(frozen=True, slots=True)
class Restored:
    """What came of one journalled value when it was undone.

    Attributes:
        old: what was there before zcdb changed it.
        found: what was there when the journal was played; None if it could not be read.
        sentence: for people, complete.
    """

    kind: str
    target: str
    key: str
    old: Json
    found: Json
    outcome: Outcome
    sentence: str = field(default="")


class Backend(AbstractContextManager["Backend"], Protocol):
    """Reads and writes this machine's settings, one kind and target at a time.

    Entered for a batch of operations; what it needs for them (a helper process) lives that long.
    """

    def worker(self) -> Process | None:
        """Return the helper process of this batch, if there is one."""

    def read(self, kind: str, target: str) -> Reading:
        """Return every value of this kind and target.

        Raises:
            BackendError: if the machine has none, or refuses.
        """

    def write(self, kind: str, target: str, values: Values) -> None:
        """Set values in their stored form.

        Raises:
            BackendError: if the kernel refuses; it may then have taken some of them.
        """

    def namespace(self) -> Namespace:
        """Return the network namespace that `read` and `write` act on."""

    def interface_index(self, name: str) -> int | None:
        """Return the kernel's number of an interface; None if there is none of that name."""

    def has_tbf(self) -> bool:
        """Return whether this kernel has the token bucket filter.

        Raises:
            BackendError: if this user may not try.
        """

    def carriers(self, control_address: str | None) -> Mapping[str, str]:
        """Return the interfaces that must be left alone, each with the reason."""
