"""Cards from captures: what ethtool, lspci and ip printed on some machine, read by the importers.

Pure: takes the details of importer results, in the order of the text.  What
the capture leaves open (which interface a driver belongs to) is not guessed:
it then stands as a card of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from zcdb.nics.cards import LOOPBACK_TYPE, Card, from_facts

NETWORK_CLASS = "02"
"""First digits of the PCI class of network controllers."""

_TIMESTAMPS = {"hwts_tx": "hardware-transmit", "hwts_rx": "hardware-receive"}

Details = Mapping[str, Any]


def cards(results: Iterable[tuple[str, Details]]) -> list[Card]:
    """Return the cards that captures of one machine describe.

    Args:
        results: (tool, details) of each importer result: ethtool, lspci, ip-link.
    """
    told: dict[str, dict[str, Any]] = {}
    drivers: list[Details] = []
    devices: list[Details] = []
    for tool, details in results:
        if tool == "lspci":
            devices += [one for one in details["devices"] if is_network(one)]
        elif tool == "ip-link":
            for link in details["links"]:
                _add_link(told.setdefault(link["ifname"], {}), link)
        elif tool == "ethtool" and details.get("kind") == "driver" and not details.get("interface"):
            drivers.append(details)
        elif tool == "ethtool" and details.get("interface"):
            _add(told.setdefault(details["interface"], {}), details)
    for details in drivers:
        # `ethtool -i` does not print whom it was asked about.
        name = next(iter(told)) if len(told) == 1 and len(drivers) == 1 else ""
        _add(told.setdefault(name, {}), details)
    return _with_devices([_card(name, one) for name, one in told.items()], told, devices)


def is_network(device: Details) -> bool:
    """Return whether a line of lspci is a network controller."""
    return str(device.get("class", "")).startswith(NETWORK_CLASS)


def _add(facts: dict[str, Any], details: Details) -> None:
    """Take over what one result of ethtool says of an interface."""
    kind = details["kind"]
    if kind == "features":
        facts["features"] = {
            name: _state(one) for name, one in details["features"].items() if one is not None
        }
    elif kind == "driver":
        facts["driver"] = details.get("driver")
        facts["driver_version"] = details.get("version")
        facts["slot"] = details.get("bus_info")
    elif kind == "channels":
        for block, suffix in (("max", "_max"), ("current", "")):
            facts.setdefault("channels", {}).update(
                {f"{key}{suffix}": value or 0 for key, value in (details.get(block) or {}).items()}
            )
    elif kind == "timestamping":
        facts["capabilities"] = details["capabilities"]


def _add_link(facts: dict[str, Any], link: Details) -> None:
    facts["mtu"] = link.get("mtu")
    facts["type"] = LOOPBACK_TYPE if link.get("link_type") == "loopback" else None
    if link.get("kind"):
        facts.setdefault("driver", "bonding" if link["kind"] == "bond" else link["kind"])
    if link.get("parentdev"):
        facts.setdefault("slot", link["parentdev"])


def _state(feature: Details) -> str:
    return ("on" if feature["on"] else "off") + (" [fixed]" if feature["fixed"] else "")


def _card(name: str, facts: Mapping[str, Any]) -> Card:
    given = facts.get("capabilities")
    stamps = {key: word in given for key, word in _TIMESTAMPS.items()} if given else {}
    return from_facts(name, facts, timestamps=stamps)


def _with_devices(
    found: list[Card], told: Mapping[str, Mapping[str, Any]], devices: Iterable[Details]
) -> list[Card]:
    """Join interfaces with the devices at their bus address; what has no interface stands alone."""
    by_slot = {
        _slot(facts["slot"]): n for n, facts in enumerate(told.values()) if facts.get("slot")
    }
    result = list(found)
    for device in devices:
        number = by_slot.get(_slot(device["slot"]))
        if number is None:
            result.append(_of_device(Card(""), device))
        else:
            result[number] = _of_device(result[number], device)
    return result


def _slot(address: str) -> str:
    """Return a PCI address with its domain, which lspci leaves out where there is only one."""
    return address if address.count(":") == 2 else f"0000:{address}"


def _of_device(card: Card, device: Details) -> Card:
    return replace(
        card,
        bus="pci",
        device=f"pci:{device['vendor']}:{device['device']}",
        card=device.get("subsystem") or "",
        described=device["name"],
        driver=card.driver or device.get("driver"),
    )
