"""Which interrupts are an interface's own.

Read from /sys and /proc only.  Interrupts of the card are listed below its bus
device; those of a driver on top of another device (virtio) carry that device's
name in /proc/interrupts.
"""

from __future__ import annotations

from pathlib import Path


def interface_irqs(interface: str, root: Path = Path("/")) -> list[int]:
    """Return the numbers of an interface's interrupts, in order; none for a virtual one."""
    device = root / "sys/class/net" / interface / "device"
    if not device.exists():
        return []
    listed = device / "msi_irqs"
    if listed.is_dir():
        return sorted(int(path.name) for path in listed.iterdir())
    return _named(root, (interface, device.resolve().name)) or _legacy(device)


def _named(root: Path, names: tuple[str, ...]) -> list[int]:
    """Return the interrupts whose last word is one of the names, or begins with it and a dash."""
    found = []
    for line in (root / "proc/interrupts").read_text().splitlines():
        number, colon, rest = line.partition(":")
        words = rest.split()
        if colon and words and number.strip().isdigit() and words[-1].partition("-")[0] in names:
            found.append(int(number))
    return sorted(found)


def _legacy(device: Path) -> list[int]:
    """Return the one interrupt of a device without message-signalled ones."""
    path = device / "irq"
    number = path.read_text().strip() if path.exists() else "0"
    return [int(number)] if number.isdigit() and number != "0" else []
