"""Names of devices from the pci.ids and usb.ids files that distributions ship.

Only the ids a driver claims are kept.  A chip's name is not a card's: cards
are told apart by the subsystem ids, so those are kept too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from zcdb.errors import UsageError
from zcdb.nics.facts import DeviceId, id_to_text

CARRIERS = tuple(DeviceId("pci", 0x1AF4, device) for device in (0x1000, 0x1041))
"""PCI devices that carry virtio's network device: its driver claims ids of virtio's own bus."""

_VENDOR = re.compile(r"([0-9a-f]{4})\s+(.+)")
_DEVICE = re.compile(r"\t([0-9a-f]{4})\s+(.+)")
_CARD = re.compile(r"\t\t([0-9a-f]{4})\s+([0-9a-f]{4})\s+(.+)")
_VERSION = re.compile(r"^#\s*(?:Version|Date):\s*(\S+)", re.MULTILINE)


def read_ids(path: Path, bus: str) -> tuple[str, dict[str, str]]:
    """Return the file's version and every name by id word (`pci:8086`, `pci:8086:1533`, ...).

    Raises:
        UsageError: if the file cannot be read or holds no ids.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}",
            hint="Debian's packages pci.ids and usb.ids have these files",
        ) from error
    names: dict[str, str] = {}
    vendor = device = ""
    for line in text.splitlines():
        if match := _VENDOR.fullmatch(line):
            vendor = f"{bus}:{match[1]}"
            names[vendor] = match[2].strip()
        elif vendor and (match := _DEVICE.fullmatch(line)):
            device = f"{vendor}:{match[1]}"
            names[device] = match[2].strip()
        elif device and (match := _CARD.fullmatch(line)):
            names[f"{device}:{match[1]}:{match[2]}"] = match[3].strip()
        elif line and not line.startswith(("#", "\t")):
            vendor = device = ""  # the lists of classes that follow the vendors
    if not names:
        raise UsageError(f"{path}: holds no ids; is it a {bus}.ids file?")
    version = _VERSION.search(text)
    return (version[1] if version else ""), names


def names_for(ids: Iterable[DeviceId], names: dict[str, str]) -> dict[str, str]:
    """Return the names that belong to ids: of vendor, device, and every card with that chip."""
    chosen: dict[str, str] = {}
    wanted = set()
    for one in ids:
        if one.bus == "of" or one.vendor is None:
            continue
        vendor = f"{one.bus}:{one.vendor:04x}"
        wanted.add(vendor)
        if one.device is not None:
            wanted.add(f"{vendor}:{one.device:04x}")
            wanted.add(id_to_text(one))
    for word, name in names.items():
        parts = word.split(":")
        if word in wanted or (len(parts) == 5 and ":".join(parts[:3]) in wanted):
            chosen[word] = name
    return dict(sorted(chosen.items()))
