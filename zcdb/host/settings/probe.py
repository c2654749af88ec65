"""What can be changed on this machine and what not, with the reason.  Changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from zcdb.host import facts
from zcdb.host.settings import kinds, system
from zcdb.host.settings.backend import SystemBackend
from zcdb.host.settings.irqs import interface_irqs
from zcdb.host.settings.model import Backend, BackendError, Item
from zcdb.host.settings.transaction import control_address
from zcdb.ids import Json

CAP_NET_ADMIN = 12


@dataclass(frozen=True, slots=True)
class Ability:
    """Whether one setting can be changed here.

    Attributes:
        key: within kind and target; "" where the whole kind is meant.
        current: what holds now; None if it could not be read.
        reason: why it cannot be changed; None if it can.
    """

    kind: str
    target: str
    key: str
    current: Json
    reason: str | None

    @property
    def can_change(self) -> bool:
        """True if nothing stands in the way."""
        return self.reason is None


def probe_settings(
    interface: str,
    *,
    backend: Backend | None = None,
    root: Path = Path("/"),
    environment: Mapping[str, str] = os.environ,
) -> list[Ability]:
    """Return what can be changed for measurements over an interface.

    Every feature, coalescing, ring, channel, the MTU, the root qdisc and the IRQs of the
    interface; the network sysctls that an environment records; the governor of the CPUs.
    """
    chosen = SystemBackend(root) if backend is None else backend
    with chosen as opened:
        guard = _guard(opened, interface, environment) or _missing_right(root)
        abilities = [
            ability
            for kind in kinds.KINDS
            if kinds.is_of_interface(kind)
            for ability in _of_kind(opened, kind, interface, guard or _missing(opened, kind))
        ]
        abilities += _sysctls(opened, root)
        abilities += _irqs(opened, interface, root)
        abilities += _of_files(opened, "governor", "all", _governor_paths(root))
    return abilities


def _guard(backend: Backend, interface: str, environment: Mapping[str, str]) -> str | None:
    carried = backend.carriers(control_address(environment)).get(interface)
    if carried is None:
        return None
    return f"the interface carries {carried}; --allow-interface {interface} permits it"


def _missing_right(root: Path) -> str | None:
    for line in (root / "proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:") and not int(line.split()[1], 16) >> CAP_NET_ADMIN & 1:
            return "this user may not (it needs root, or CAP_NET_ADMIN)"
    return None


def _missing(backend: Backend, kind: str) -> str | None:
    if kind != "qdisc":
        return None
    try:
        return None if backend.has_tbf() else "this kernel has no tbf"
    except BackendError as error:
        return f"whether this kernel has tbf could not be tried ({error.reason})"


def _of_kind(backend: Backend, kind: str, target: str, guard: str | None) -> Iterator[Ability]:
    try:
        reading = backend.read(kind, target)
    except BackendError as error:
        yield Ability(kind, target, "", None, error.reason)
        return
    for key, item in reading.items():
        yield Ability(kind, target, key, item.active, _why_not(item) or guard)


def _why_not(item: Item) -> str | None:
    if item.fixed is None and item.limits and item.limits[1] == 0:
        return "its driver has none"
    return item.fixed


def _of_files(backend: Backend, kind: str, target: str, paths: list[Path]) -> Iterator[Ability]:
    locked = next((path for path in paths if not os.access(path, os.W_OK)), None)
    reason = None if locked is None else f"{locked} is read-only here"
    yield from _of_kind(backend, kind, target, reason)


def _sysctls(backend: Backend, root: Path) -> Iterator[Ability]:
    for name in facts.SYSCTLS:
        if name.startswith("net."):
            yield from _of_files(backend, "sysctl", name, [system.sysctl_path(root, name)])


def _irqs(backend: Backend, interface: str, root: Path) -> Iterator[Ability]:
    numbers = interface_irqs(interface, root)
    if not numbers:
        yield Ability("irq_affinity", interface, "", None, "it has no interrupts of its own")
    for number in numbers:
        path = root / f"proc/irq/{number}/smp_affinity_list"
        yield from _of_files(backend, "irq_affinity", str(number), [path])


def _governor_paths(root: Path) -> list[Path]:
    return sorted((root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor"))
