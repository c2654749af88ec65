"""Facts of one network interface: driver, bus, link, features, queues, interrupts.

What a driver says comes from the ethtool ioctl, in this process's network
namespace.  What the bus says comes from /sys, which shows the interfaces of the
namespace that mounted it: for an interface elsewhere those facts are None, and
an interface without a device (loopback, veth) has none anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from zcdb.host import interrupts
from zcdb.host.ethtool import EthtoolReader, Feature
from zcdb.host.sysfiles import read_int, read_text
from zcdb.ids import Json

PERMANENT_ADDRESS = 0
"""What addr_assign_type says of an address that the hardware brought with it."""


def interface_facts(
    root: Path, name: str, reader: EthtoolReader, redact: Callable[[str], str]
) -> dict[str, Json]:
    """Return the stable facts of one interface; None where nothing says.

    Args:
        redact: makes a stand-in for the hardware address.
    """
    folder = root / "sys/class/net" / name
    driver = reader.driver(name) or {}
    driver_name = driver.get("driver") or _linked_name(folder / "device/driver")
    link = reader.link(name) or {}
    features = reader.features(name)
    bus = _bus(folder)
    return {
        # A virtual interface has the name that whoever made it chose: no fact of the host.
        "name": name if bus is not None else None,
        "driver": driver_name,
        "driver_version": driver.get("version"),
        "firmware": driver.get("firmware"),
        "module": _module(root, driver_name),
        "bus": bus,
        "model": bus["ids"] if bus is not None else None,
        "address": _address(folder, redact),
        "mtu": reader.mtu(name) if reader.mtu(name) is not None else read_int(folder / "mtu"),
        "type": read_int(folder / "type"),
        "queue_length": reader.queue_length(name),
        "link_speed_bps": link.get("speed_bps"),
        "duplex": link.get("duplex"),
        "autonegotiation": link.get("autonegotiation"),
        "rings": _json(reader.rings(name)),
        "channels": _json(reader.channels(name)),
        "coalescing": _json(reader.coalescing(name)),
        "rss": _json(reader.rss(name)),
        "queues": _queues(folder),
        "irqs": _irqs(root, name),
        "features": feature_states(features) if features is not None else None,
    }


def _json(values: Mapping[str, int | str | None] | Mapping[str, int] | None) -> Json:
    return dict(values) if values is not None else None


def feature_states(features: Mapping[str, Feature]) -> dict[str, Json]:
    """Return each feature's state as 'ethtool -k' writes it, in the order of the names."""
    return {name: features[name].state for name in sorted(features)}


def _linked_name(link: Path) -> str | None:
    return link.resolve().name if link.exists() else None


def _module(root: Path, driver: str | None) -> dict[str, Json]:
    """Return whether the driver came with the kernel, as its module tells."""
    if driver is None:
        return {"version": None, "in_tree": None}
    folder = root / "sys/module" / driver.replace("-", "_")
    taint = read_text(folder / "taint")
    # Only a loadable module has a taint; a built-in driver came with the kernel.
    in_tree = None if not folder.exists() else "O" not in (taint or "")
    return {"version": read_text(folder / "version"), "in_tree": in_tree}


def _bus_folder(folder: Path) -> Path | None:
    """Return the device on a bus that is behind an interface: for virtio, what carries virtio."""
    device = folder / "device"
    if not device.exists():
        return None
    found = device.resolve()
    while not (found / "vendor").exists() or (found / "subsystem").resolve().name == "virtio":
        if found.parent == found or found.name == "devices":
            return device.resolve()
        found = found.parent
    return found


def _bus(folder: Path) -> dict[str, Json] | None:
    device = _bus_folder(folder)
    if device is None:
        return None
    return {
        "kind": _linked_name(device / "subsystem"),
        "address": device.name,
        "ids": _ids(device),
        "revision": read_text(device / "revision"),
        "numa_node": read_int(device / "numa_node"),
        "speed": read_text(device / "current_link_speed"),
        "width": read_text(device / "current_link_width"),
        "speed_max": read_text(device / "max_link_speed"),
        "width_max": read_text(device / "max_link_width"),
    }


def _ids(device: Path) -> str | None:
    """Return the ids as 'lspci -nn' writes them: "8086:1521 (15d9:0652)"."""

    def pair(vendor: str, model: str) -> str | None:
        words = (read_text(device / vendor), read_text(device / model))
        if None in words:
            return None
        return ":".join(str(word).removeprefix("0x") for word in words)

    ids, subsystem = pair("vendor", "device"), pair("subsystem_vendor", "subsystem_device")
    return f"{ids} ({subsystem})" if ids and subsystem else ids


def _address(folder: Path, redact: Callable[[str], str]) -> str | None:
    """Return a stand-in for the hardware address; a made-up one says nothing and changes."""
    address = read_text(folder / "address")
    if address is None or read_int(folder / "addr_assign_type") != PERMANENT_ADDRESS:
        return None
    return None if not address.strip("0:") else redact(address)


def _queues(folder: Path) -> dict[str, Json] | None:
    """Return how the kernel spreads packets: RPS and XPS masks that are set, by queue."""
    queues = folder / "queues"
    if not queues.exists():
        return None
    masks = {
        f"{path.parent.name}.{path.name}": read_text(path)
        for pattern in ("rx-*/rps_cpus", "tx-*/xps_cpus")
        for path in sorted(queues.glob(pattern))
    }
    return {
        "rx": len(list(queues.glob("rx-*"))),
        "tx": len(list(queues.glob("tx-*"))),
        "steering": {name: mask for name, mask in masks.items() if (mask or "").strip("0,")},
    }


def irq_numbers(root: Path, name: str) -> list[int]:
    """Return the interrupts of an interface's device; empty if it has none or /sys hides it."""
    device = _bus_folder(root / "sys/class/net" / name)
    if device is None:
        return []
    numbers = [int(path.name) for path in (device / "msi_irqs").glob("[0-9]*")]
    legacy = read_int(device / "irq")
    return sorted(numbers) or ([legacy] if legacy else [])


def _irqs(root: Path, name: str) -> list[Json]:
    """Return each interrupt's name and with whom it is shared."""
    numbers = irq_numbers(root, name)
    if not numbers:
        return []
    rows = interrupts.parse_interrupts(read_text(root / "proc/interrupts") or "CPU0\n")
    found: list[Json] = []
    for number in numbers:
        row = rows.get(str(number))
        actions = row.actions if row is not None else ()
        found.append({"irq": number, "actions": list(actions), "is_shared": len(actions) > 1})
    return found


def irq_affinities(root: Path, name: str) -> list[Json]:
    """Return on which CPUs each interrupt may be served, and on which it is.

    A reading, not a fact: irqbalance moves them.
    """
    found: list[Json] = []
    for number in irq_numbers(root, name):
        folder = root / f"proc/irq/{number}"
        found.append(
            {
                "irq": number,
                "cpus": read_text(folder / "smp_affinity_list"),
                "effective_cpus": read_text(folder / "effective_affinity_list"),
            }
        )
    return found
