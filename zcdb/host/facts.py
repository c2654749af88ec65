"""What this machine is: the stable facts of an environment, and the readings that move.

Facts are content-addressed, so only what stays the same between two runs is
here: names that would tell who runs the machine are replaced by a salted hash,
and values that move by themselves (frequency, load, steal, where irqbalance puts
an interrupt) are `readings`.  What each part says is in `kernelconfig`,
`cpufacts` and `nicfacts`.
"""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from zcdb.host import cpufacts, membw, nicfacts
from zcdb.host.cpufacts import cpus_by_core
from zcdb.host.ethtool import EthtoolReader
from zcdb.host.kernelconfig import SYSCTLS, kernel_facts, sysctl_facts
from zcdb.host.sysfiles import read_kib, read_pairs, read_text
from zcdb.ids import Json

__all__ = [
    "SYSCTLS",
    "boot_id",
    "changes",
    "collect",
    "cpus_by_core",
    "readings",
    "redact",
    "state_folder",
]

_UNNAMED_SERIALS = ("", "none", "not specified", "to be filled by o.e.m.", "system serial number")
"""What makers leave in the place of a serial number."""


def state_folder() -> Path:
    """Return the folder where zcdb keeps this host's salt: `$ZCDB_STATE`, else XDG's place."""
    if "ZCDB_STATE" in os.environ:
        return Path(os.environ["ZCDB_STATE"])
    base = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    return Path(base) / "zcdb"


def _salt() -> str:
    path = state_folder() / "salt"
    stored = read_text(path)
    if stored:
        return stored
    salt = secrets.token_hex(16)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(salt)
    except OSError:
        # A read-only home: the host then gets a new name each time, which is safe, only less handy.
        return salt
    return salt


def redact(name: str) -> str:
    """Return a stable stand-in for a name that would tell whose machine this is."""
    return hashlib.sha256(f"{_salt()}\n{name}".encode()).hexdigest()[:12]


def _virtualisation(root: Path) -> dict[str, Json]:
    flags = read_pairs(root / "proc/cpuinfo").get("flags", "").split()
    return {
        "hypervisor_flag": "hypervisor" in flags,
        "hypervisor": read_text(root / "sys/hypervisor/type"),
        "product": read_text(root / "sys/class/dmi/id/product_name"),
        "vendor": read_text(root / "sys/class/dmi/id/sys_vendor"),
        "serial": _serial(root),
    }


def _serial(root: Path) -> str | None:
    serial = read_text(root / "sys/class/dmi/id/product_serial")
    if serial is None or serial.lower() in _UNNAMED_SERIALS:
        return None
    return redact(serial)


def collect(
    interface: str | Sequence[str] | None = None, root: Path = Path("/")
) -> dict[str, Json]:
    """Return the stable facts of this host.

    Args:
        interface: the network interface that carries the data, or several; None if there is none.
        root: where /proc and /sys hang; another folder in tests.

    Returns:
        JSON with normalised keys; None where the machine does not say.
    """
    names = [interface] if isinstance(interface, str) else list(interface or ())
    memory = read_kib(read_pairs(root / "proc/meminfo"), "MemTotal")
    clock = root / "sys/devices/system/clocksource/clocksource0/current_clocksource"
    with EthtoolReader() as reader:
        cards = [nicfacts.interface_facts(root, name, reader, redact) for name in names]
    found: dict[str, Json] = {
        "host": redact(platform.node()),
        "kernel": kernel_facts(root),
        "cpu": cpufacts.cpu_facts(root),
        "numa": cpufacts.numa_facts(root),
        "memory_bytes": cpufacts.whole_mib(memory),
        "page_size_bytes": os.sysconf("SC_PAGE_SIZE"),
        "clock_source": read_text(clock),
        "virtualisation": _virtualisation(root),
        "interface": cards[0] if cards else None,
        "sysctls": sysctl_facts(root),
    }
    if len(cards) > 1:
        found["more_interfaces"] = dict(zip(names[1:], cards[1:], strict=True))
    return found


def readings(
    root: Path = Path("/"),
    interface: str | Sequence[str] | None = None,
    *,
    is_bandwidth_measured: bool = False,
) -> dict[str, Json]:
    """Return what moves by itself: load, free memory, ticks of steal, frequency, heat.

    Args:
        is_bandwidth_measured: measure the memory's bandwidth too, which takes a tenth of a second.
    """
    names = [interface] if isinstance(interface, str) else list(interface or ())
    memory = read_pairs(root / "proc/meminfo")
    first = (read_text(root / "proc/stat") or "cpu").splitlines()[0].split()
    load = (read_text(root / "proc/loadavg") or "").split()
    frequencies = cpufacts.frequencies_hz(root)
    found: dict[str, Json] = {
        "boot_id": boot_id(root),
        "load_average_1min": float(load[0]) if load else None,
        "available_memory_bytes": read_kib(memory, "MemAvailable"),
        "slab_bytes": read_kib(memory, "Slab"),
        "steal_ticks": int(first[8]) if len(first) > 8 else None,
        "cpu0_frequency_hz": frequencies[0] if frequencies else None,
        "frequencies_hz": frequencies,
        "throttles": cpufacts.throttles(root),
        "irqbalance_runs": _is_running(root, "irqbalance"),
        "irq_affinities": {name: nicfacts.irq_affinities(root, name) for name in names},
    }
    if is_bandwidth_measured:
        found["memory_bandwidth"] = membw.measure(root).to_json()
    return found


def boot_id(root: Path = Path("/")) -> str | None:
    """Return the kernel's random name for this boot, or None."""
    return read_text(root / "proc/sys/kernel/random/boot_id")


def _is_running(root: Path, name: str) -> bool:
    return any(read_text(path) == name for path in (root / "proc").glob("[0-9]*/comm"))


# -- before and after ------------------------------------------------------------------------


def changes(before: Mapping[str, Json], after: Mapping[str, Json]) -> list[str]:
    """Return a sentence for each fact that is not the same any more.

    Args:
        before, after: what `collect` returned at the two times.
    """
    return [
        f"{name} was {_shown(old)} before and is {_shown(new)} after"
        for name, old, new in _differences("", before, after)
    ]


def _shown(value: Json) -> str:
    return "not there" if value is None else str(value)


def _differences(prefix: str, before: Json, after: Json) -> Iterator[tuple[str, Json, Json]]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in {**before, **after}:
            name = f"{prefix}.{key}" if prefix else key
            yield from _differences(name, before.get(key), after.get(key))
    elif before != after:
        yield prefix, before, after
