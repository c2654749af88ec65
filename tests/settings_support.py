"""A machine of dictionaries for the tests of settings, which can be stopped at any step."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from zcdb.host import facts
from zcdb.host.settings import journal, restore_leftovers
from zcdb.host.settings.kinds import FEATURE_NEEDS, feature_names
from zcdb.host.settings.model import BackendError, Item, Namespace, Process

NAMESPACE = Namespace(inode=4026531840, cookie=1)


class Killed(BaseException):
    """kill -9: nothing of the owner runs any more, no clean-up either."""


class Fuse:
    """Counts the steps of a program and kills it at one of them: none comes after that."""

    def __init__(self, kill_at: int | None = None) -> None:
        self.kill_at = kill_at
        self.steps = 0

    def step(self) -> None:
        self.steps += 1
        if self.kill_at is not None and self.steps > self.kill_at:
            raise Killed


def feature(active: bool, fixed: str | None = None) -> Item:
    return Item(stored=active, active=active, fixed=fixed)


def plain(value: object) -> Item:
    return Item(stored=value, active=value)


def machine() -> dict[tuple[str, str], dict[str, Item]]:
    """A machine with one idle card, "eth1", as its driver left it."""
    return {
        ("feature", "eth1"): {
            "tx-scatter-gather": feature(True),
            "tx-checksum-ip-generic": feature(True),
            "tx-checksum-fcoe-crc": feature(False, "its driver cannot change it"),
            "tx-tcp-segmentation": feature(True),
            "tx-tcp6-segmentation": feature(True),
            "tx-generic-segmentation": feature(True),
            "rx-gro": feature(False),
            "rx-lro": feature(False, "its driver cannot change it"),
        },
        ("mtu", "eth1"): {"mtu": Item(1500, 1500, limits=(68, 9000))},
        ("rings", "eth1"): {
            "rx": Item(512, 512, limits=(0, 4096)),
            "tx": Item(512, 512, limits=(0, 4096)),
        },
        ("coalescing", "eth1"): {"rx_usecs": plain(50), "adaptive_rx": plain(True)},
        ("qdisc", "eth1"): {"root": Item({"kind": "none"}, {"kind": "none", "qdisc": "mq"})},
        ("sysctl", "net.ipv4.tcp_wmem"): {
            "value": Item("4096 16384 4194304", "4096 16384 4194304")
        },
        ("irq_affinity", "41"): {"cpus": plain("0-1")},
        ("governor", "all"): {
            "0": Item("powersave", "powersave"),
            "1": Item("schedutil", "schedutil"),
        },
    }


class FakeBackend:
    """A machine that keeps the kernel's rules about features.

    Attributes:
        refuse: (kind, target) -> errno with which a write is refused.
        bend: (kind, target, key) -> value that the kernel makes of any other.
    """

    def __init__(self, fuse: Fuse | None = None) -> None:
        self.state = machine()
        self.fuse = fuse or Fuse()
        self.refuse: dict[tuple[str, str], int] = {}
        self.bend: dict[tuple[str, str, str], object] = {}
        self.indexes = {"eth1": 7}
        self.guarded: dict[str, str] = {"eth0": "the default route"}
        self.here = NAMESPACE
        self.writes: list[tuple[str, str, dict[str, object]]] = []

    def __enter__(self) -> FakeBackend:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def worker(self) -> Process | None:
        return None

    def read(self, kind: str, target: str) -> Mapping[str, Item]:
        self.fuse.step()
        if (kind, target) not in self.state:
            raise BackendError(0, "its driver has none")
        return copy.deepcopy(self.state[(kind, target)])

    def write(self, kind: str, target: str, values: Mapping[str, object]) -> None:
        self.fuse.step()
        if (kind, target) in self.refuse:
            raise BackendError(self.refuse[(kind, target)])
        self.writes.append((kind, target, dict(values)))
        items = self.state[(kind, target)]
        for key, value in values.items():
            if kind == "governor":
                self.fuse.step()  # one file a CPU; the other kinds are set in one go
            kept = self.bend.get((kind, target, key), value)
            items[key] = replace(items[key], stored=kept, active=self._active(kind, kept))
        if kind == "feature":
            self._settle_features(items)
        self.fuse.step()

    def _active(self, kind: str, stored: object) -> object:
        if kind != "qdisc" or not isinstance(stored, Mapping):
            return stored
        return dict(stored) if stored["kind"] == "tbf" else {"kind": "none", "qdisc": "mq"}

    def _settle_features(self, items: dict[str, Item]) -> None:
        """Work out what is active from what is wanted, as the kernel does."""
        for name, item in items.items():
            if item.fixed is None:
                items[name] = replace(item, active=item.stored)
        for pattern, needs in FEATURE_NEEDS.items():
            if all(any(items[n].active for n in feature_names(need, items)) for need in needs):
                continue
            for name in feature_names(pattern, items):
                items[name] = replace(items[name], active=False)

    def namespace(self) -> Namespace:
        return self.here

    def interface_index(self, name: str) -> int | None:
        return self.indexes.get(name)

    def has_tbf(self) -> bool:
        return True

    def carriers(self, control_address: str | None) -> Mapping[str, str]:
        return self.guarded


class NewStart:
    """What the next start of zcdb sees, in a world where this process has died."""

    def __init__(self, fake: FakeBackend, folder: Path, root: Path) -> None:
        self.fake, self.folder, self.root = fake, folder, root
        random = root / "proc/sys/kernel/random"
        random.mkdir(parents=True, exist_ok=True)
        (random / "boot_id").write_text(f"{facts.boot_id()}\n")

    def restore(self, *, dry_run: bool = False):
        return restore_leftovers(
            self.folder, dry_run=dry_run, root=self.root, open_backend=lambda _path: self.fake
        )

    def reboot(self) -> None:
        (self.root / "proc/sys/kernel/random/boot_id").write_text("another\n")


def fuse_the_journal(monkeypatch: pytest.MonkeyPatch, fuse: Fuse) -> None:
    """Make every line of the journal two steps: before it is written, and after."""
    write_line = journal.append_line

    def append_line(descriptor, line):
        fuse.step()
        write_line(descriptor, line)
        fuse.step()

    monkeypatch.setattr(journal, "append_line", append_line)
