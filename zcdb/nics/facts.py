"""The facts a scan returns: plain, frozen, and without a word of source text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from zcdb.ids import Json

Value = Literal["yes", "some", "no", "unknown"]
Default = Literal["on", "off", "fixed"]


@dataclass(frozen=True, slots=True, order=True)
class Evidence:
    """A line of the kernel tree.

    Attributes:
        line: from 1.
        line_hash: first 8 hex digits of SHA-256 of the line, blanks squeezed: it finds the line
            again after a point release.
    """

    path: str
    line: int
    line_hash: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """What the source says about one capability of one driver.

    Attributes:
        value: yes for every device of the driver, some with `conditions`, no, or unknown.
        default: for net_device flags: on, off (can be switched on) or fixed (on, for good).
        conditions: names that the conditions test (constants, fields, functions).
        condition_class: what kind of thing they are about; "" without conditions.
        copies: the driver copies every packet although it advertises this.
        evidence: where it is set, best first.
        note: why it is unknown; "" otherwise.
    """

    value: Value
    default: Default | None = None
    conditions: tuple[str, ...] = ()
    condition_class: str = ""
    copies: bool = False
    evidence: tuple[Evidence, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class DeviceId:
    """One entry of a driver's id table.

    Attributes:
        bus: pci, usb or of.
        vendor, device: 16-bit ids; None matches any.  For `of` both are None.
        compatible: the device tree's name; "" for others.
    """

    bus: Literal["pci", "usb", "of"]
    vendor: int | None = None
    device: int | None = None
    subvendor: int | None = None
    subdevice: int | None = None
    compatible: str = ""


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """What a scan found about one driver.

    Attributes:
        name: the main module's name.
        modules: every module of the unit.
        sources: paths of its .c files.
        aliases: other names it is known by (folder, names it registers drivers under).
        config: Kconfig symbol.
        description: what the driver calls itself (MODULE_DESCRIPTION).
        buses: pci, usb, platform, virtio, ... as registered; "virtual" for links made by hand.
        unresolved_ids: entries of id tables whose macros could not be resolved.
    """

    name: str
    modules: tuple[str, ...]
    sources: tuple[str, ...]
    aliases: tuple[str, ...]
    config: str
    description: str
    folder: str
    buses: tuple[str, ...]
    ids: tuple[DeviceId, ...]
    unresolved_ids: int
    facts: Mapping[str, Fact] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TreeFacts:
    """A scanned kernel tree: its version and every driver by name."""

    kernel: str
    drivers: Mapping[str, DriverFacts]


def driver_to_json(driver: DriverFacts) -> dict[str, Json]:
    """Return a driver as JSON: evidence as "path:line", ids as hexadecimal words."""
    return {
        "driver": driver.name,
        "modules": list(driver.modules),
        "sources": list(driver.sources),
        "aliases": list(driver.aliases),
        "config": driver.config,
        "description": driver.description,
        "folder": driver.folder,
        "buses": list(driver.buses),
        "ids": [id_to_text(one) for one in driver.ids],
        "unresolved_ids": driver.unresolved_ids,
        "facts": {key: fact_to_json(fact) for key, fact in driver.facts.items()},
    }


def driver_from_json(data: Mapping[str, Any]) -> DriverFacts:
    """Return the driver that `driver_to_json` wrote."""
    return DriverFacts(
        name=data["driver"],
        modules=tuple(data["modules"]),
        sources=tuple(data["sources"]),
        aliases=tuple(data["aliases"]),
        config=data["config"],
        description=data["description"],
        folder=data["folder"],
        buses=tuple(data["buses"]),
        ids=tuple(id_from_text(text) for text in data["ids"]),
        unresolved_ids=data["unresolved_ids"],
        facts={key: fact_from_json(fact) for key, fact in data["facts"].items()},
    )


def fact_to_json(fact: Fact) -> dict[str, Json]:
    """Return a fact as JSON; what is empty is left out."""
    data: dict[str, Json] = {"value": fact.value}
    if fact.default is not None:
        data["default"] = fact.default
    if fact.conditions:
        data["conditions"] = list(fact.conditions)
        data["condition_class"] = fact.condition_class
    if fact.copies:
        data["copies"] = True
    if fact.note:
        data["note"] = fact.note
    data["evidence"] = [f"{one.path}:{one.line}" for one in fact.evidence]
    data["line_hashes"] = [one.line_hash for one in fact.evidence]
    return data


def fact_from_json(data: Mapping[str, Any]) -> Fact:
    """Return the fact that `fact_to_json` wrote."""
    evidence = []
    for place, line_hash in zip(data["evidence"], data["line_hashes"], strict=True):
        path, _, line = place.rpartition(":")
        evidence.append(Evidence(path, int(line), line_hash))
    return Fact(
        value=data["value"],
        default=data.get("default"),
        conditions=tuple(data.get("conditions", ())),
        condition_class=data.get("condition_class", ""),
        copies=data.get("copies", False),
        evidence=tuple(evidence),
        note=data.get("note", ""),
    )


def id_to_text(one: DeviceId) -> str:
    """Return an id as one word: `pci:8086:1533`, `pci:8086:1533:8086:0001`, `of:fsl,imx6q-fec`."""
    if one.bus == "of":
        return f"of:{one.compatible}"
    numbers = [one.vendor, one.device]
    if one.subvendor is not None or one.subdevice is not None:
        numbers += [one.subvendor, one.subdevice]
    return ":".join([one.bus, *("*" if number is None else f"{number:04x}" for number in numbers)])


@lru_cache(maxsize=8192)
def id_from_text(text: str) -> DeviceId:
    """Return the id that `id_to_text` wrote.

    Raises:
        ValueError: if it is none.
    """
    bus, _, rest = text.partition(":")
    if bus == "of" and rest:
        return DeviceId("of", compatible=rest)
    words = rest.split(":")
    if bus not in ("pci", "usb") or len(words) not in (2, 4):
        raise ValueError(f"{text!r} is not a device id; write bus:vendor:device, as pci:8086:1533")
    numbers = [None if word == "*" else int(word, 16) for word in words] + [None, None]
    vendor, device, subvendor, subdevice = numbers[:4]
    return DeviceId("pci" if bus == "pci" else "usb", vendor, device, subvendor, subdevice)
