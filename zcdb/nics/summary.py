"""The verdict on one card: what it is, what to expect of it, what is off, what holds it back.

Pure: a card and the catalogue in, words out.  A sentence is said only if the
machine told what it needs; what nobody told is not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from zcdb.ids import Json
from zcdb.nics.cards import CHECKSUM_UNNEEDED, Card, PcieLink
from zcdb.nics.catalogue import Catalogue
from zcdb.nics.claims import series
from zcdb.nics.facts import DriverFacts

SOFTWARE_LINKS: dict[str, tuple[str, str]] = {
    "veth": (
        "virtual Ethernet pair",
        "sendfile passes pages on; MSG_ZEROCOPY is copied where a socket of this host receives",
    ),
    "dummy": ("dummy interface", "drops what is sent: it says nothing about a card"),
    "ifb": ("intermediate functional block", "passes on what is redirected to it"),
    "bridge": ("bridge", "what goes out takes the features of its ports"),
    "bonding": ("bond", "has the features that its ports share"),
    "team": ("team of ports", "has the features that its ports share"),
    "macvlan": ("MAC-based VLAN", "has features of the device below it"),
    "ipvlan": ("IP-based VLAN", "has features of the device below it"),
    "802.1Q VLAN Support": ("VLAN", "has features of the device below it"),
    "tun": ("TUN/TAP", "hands packets to a process, which copies them"),
}
"""Driver of a link in software -> what it is, what to expect of it."""

LOOPBACK = (
    "loopback",
    "sendfile passes pages on; MSG_ZEROCOPY is copied on the way to the receiver",
)
_CHECKSUMS = ("hw_csum", "ip_csum", "ipv6_csum")
_SHORT = {
    "sg": "scatter-gather",
    "tx_csum": "TX checksum",
    "tso": "TSO",
    "uso": "UDP segmentation",
    "rxcsum": "RX checksum",
    "lro": "LRO",
    "gro_hw": "hardware GRO",
    "rxhash": "RX hash",
    "tls_tx": "kTLS",
    "xdp": "XDP",
    "xsk_zc": "AF_XDP zero copy",
    "hwts_tx": "hardware time stamps",
}
"""Capability -> its name in a line, in the order of the line."""

_WORTH_SWITCHING = ("sg", *_CHECKSUMS, "rxcsum", "tso", "tso6", "uso", "lro", "gro_hw", "tls_tx")
_SWITCHED = {**_SHORT, **dict.fromkeys(_CHECKSUMS, "TX checksum"), "tso6": "TSO over IPv6"}


_RELEASE = re.compile(r"[5-9]\.[0-9]+\.[0-9]+[-+]\S")
"""A driver without a version of its own shows the kernel's release, since Linux 5.6."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of one card.

    Attributes:
        what: its name, or what kind of link it is.
        driver: the driver and where it comes from, in words.
        expectation: what sendfile and zero copy will do.
        has: what is on, in words.
        could_be_on: what is off and can be switched on, in words.
        limits: what holds the card back.
    """

    card: Card
    what: str
    driver: str
    expectation: str
    has: tuple[str, ...]
    could_be_on: tuple[str, ...]
    limits: tuple[str, ...]

    def line(self) -> str:
        """Return all of it in one line."""
        name = f"{self.card.interface}: " if self.card.interface else ""
        parts = [f"{self.what} ({self.driver}): {self.expectation}"]
        if self.has:
            parts.append(f"on: {', '.join(self.has)}")
        if self.could_be_on:
            parts.append(f"off, could be on: {', '.join(self.could_be_on)}")
        return name + "; ".join([*parts, *self.limits])


def verdict(card: Card, catalogue: Catalogue, kernel: str = "") -> Verdict:
    """Return what is to be said of a card.

    Args:
        kernel: the release it runs under; the driver's facts are taken from the nearest scan.
    """
    driver = known_driver(card, catalogue, kernel)
    software = _software(card)
    what = software[0] if software else _device_name(card, catalogue)
    if software is None or card.features.get("sg", "on").startswith("off"):
        expectation = _expectation(card, driver)
    else:
        expectation = software[1]
    return Verdict(
        card=card,
        what=what or _by_driver(card, driver),
        driver=_driver_words(card, driver),
        expectation=expectation,
        has=tuple(_has(card)),
        could_be_on=tuple(
            dict.fromkeys(_SWITCHED[k] for k in _WORTH_SWITCHING if _is_off(card, k))
        ),
        limits=tuple(_limits(card)),
    )


def known_driver(card: Card, catalogue: Catalogue, kernel: str = "") -> DriverFacts | None:
    """Return the facts of a card's driver from the scan nearest to a kernel; None if unknown.

    Where the machine did not name the driver, it is the only one that claims the device's id.
    """
    if card.driver:
        name = catalogue.find(card.driver)
    else:
        claimed = catalogue.drivers_of(card.device) if card.device else ()
        name = claimed[0] if len(claimed) == 1 else None
    if name is None:
        return None
    seen = catalogue.seen(name)
    older = [one for one in seen if series(one) <= series(kernel)] if kernel else seen
    return catalogue.driver(name, (older or seen[:1])[-1])


def _software(card: Card) -> tuple[str, str] | None:
    if card.is_loopback:
        return LOOPBACK
    return SOFTWARE_LINKS.get(card.driver or "")


def _device_name(card: Card, catalogue: Catalogue) -> str:
    """Return what the id files call a card: the chip, and the card itself where they know it."""
    names = catalogue.names
    vendor = names.get(":".join(card.device.split(":")[:2]), "")
    device = names.get(card.device, "")
    product = names.get(f"{card.device}:{card.card}", "") if card.card else ""
    if not device:
        return card.described or " ".join(word for word in (vendor, card.device) if word)
    return f"{vendor} {device}" + (f", {product}" if product and product != device else "")


def _by_driver(card: Card, driver: DriverFacts | None) -> str:
    if driver is not None and driver.description:
        return driver.description
    return f"{card.driver} interface" if card.driver else "interface"


def _driver_words(card: Card, driver: DriverFacts | None) -> str:
    if card.driver is None:
        if card.is_loopback:
            return "no driver needed"
        return f"{driver.name} by its id" if driver is not None else "driver not told"
    in_tree = card.is_in_tree
    if in_tree is None and _is_kernels_version(card.driver_version or ""):
        in_tree = True
    origin = {True: ", in tree", False: ", out of tree", None: ""}[in_tree]
    return f"{card.driver}{origin}"


def _is_kernels_version(version: str) -> bool:
    """Return whether a driver's version is the kernel's release, or marked "-k" as the kernel's."""
    return version.endswith("-k") or _RELEASE.match(version) is not None


def _expectation(card: Card, driver: DriverFacts | None) -> str:
    """Return what sendfile will do; the first sentence whose reason the machine told."""
    if "sg" not in card.features:
        return _from_source(driver)
    if driver is not None and driver.facts["sg"].copies:
        return "the driver copies every packet it sends: sendfile gains nothing"
    if not card.is_on("sg"):
        return (
            "no scatter-gather: sendfile will copy"
            if card.features["sg"] == "off [fixed]"
            else "scatter-gather is off: sendfile will copy"
        )
    if not any(card.is_on(key) for key in (*_CHECKSUMS, CHECKSUM_UNNEEDED)):
        return "no TX checksum: the CPU reads every byte that sendfile sends"
    if card.features.get("tso") in ("off", "off [fixed]"):
        return "sendfile can go out without a copy, packet by packet (no TSO)"
    return "sendfile and MSG_ZEROCOPY can go out without a copy"


def _from_source(driver: DriverFacts | None) -> str:
    """Return what the driver's source lets one expect where the machine told no features."""
    if driver is None:
        return "what it can is not known"
    fact = driver.facts["sg"]
    if fact.copies:
        return "by its source the driver copies every packet it sends"
    return {
        "yes": "by its source the driver sends without a copy",
        "some": "by its source the driver sends some of its cards' packets without a copy",
        "no": "by its source the driver has no scatter-gather: sendfile will copy",
        "unknown": "what it can is not known",
    }[fact.value]


def _has(card: Card) -> Iterable[str]:
    for key, name in _SHORT.items():
        if key == "sg":
            continue  # the expectation says it
        if key == "tx_csum":
            is_there = any(card.is_on(one) for one in _CHECKSUMS)
        elif key in card.features:
            is_there = bool(card.is_on(key))
        else:
            is_there = card.has(key) is True
        if is_there:
            yield name
    if card.queues and card.queues > 1:
        yield f"{card.queues} queues"


def _is_off(card: Card, key: str) -> bool:
    # A card with one kind of TX checksum on does not want another.
    if key in _CHECKSUMS and any(card.is_on(one) for one in _CHECKSUMS):
        return False
    return card.features.get(key) == "off"


def _limits(card: Card) -> Iterable[str]:
    if card.pcie is not None and card.pcie.is_narrow:
        yield _pcie_words(card.pcie)
    if card.queues and card.queues_max and card.queues < card.queues_max:
        yield f"{card.queues} of {card.queues_max} queues in use"


def _pcie_words(link: PcieLink) -> str:
    return (
        f"PCIe x{link.width} at {link.speed:g} GT/s,"
        f" the card can x{link.width_max} at {link.speed_max:g} GT/s"
    )


def verdict_to_json(one: Verdict) -> dict[str, Json]:
    """Return a verdict as JSON: the line, its parts, and what the machine told."""
    card = one.card
    pcie: Json = None
    if card.pcie is not None:
        pcie = {
            "speed_gts": card.pcie.speed,
            "speed_max_gts": card.pcie.speed_max,
            "width": card.pcie.width,
            "width_max": card.pcie.width_max,
        }
    return {
        "interface": card.interface,
        "verdict": one.line(),
        "what": one.what,
        "expectation": one.expectation,
        "on": list(one.has),
        "could_be_on": list(one.could_be_on),
        "limits": list(one.limits),
        "driver": card.driver,
        "driver_version": card.driver_version,
        "in_tree": card.is_in_tree,
        "bus": card.bus,
        "device": card.device or None,
        "card": card.card or None,
        "mtu": card.mtu,
        "link_speed_bps": card.link_speed_bps,
        "pcie": pcie,
        "features": dict(card.features),
        "xdp": dict(card.xdp),
        "timestamps": dict(card.timestamps),
        "queues": card.queues,
        "queues_max": card.queues_max,
        "rss": card.has_rss,
    }
