"""Ethtool settings by netlink: features, coalescing, rings, channels.

Runs only in the helper process of `backend`, as it needs pyroute2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zcdb.host.settings import kinds
from zcdb.host.settings.model import Item, Reading, Values
from zcdb.host.settings.netlink import device, ethtool, netlink_errors

_GET = {"rings": 15, "channels": 17, "coalescing": 19}
_FEATURES_GET, _FEATURES_SET = 11, 12
_LAYOUT: dict[str, tuple[str, ...]] = {
    "rings": (
        *("rx_max", "rx_mini_max", "rx_jumbo_max", "tx_max"),
        *kinds.RING_KEYS,
    ),
    "channels": (
        *("rx_max", "tx_max", "other_max", "combined_max"),
        *kinds.CHANNEL_KEYS,
    ),
    "coalescing": kinds.COALESCING_KEYS,
}
"""Our names in the order of the kernel's attributes, from number 2 on (ethtool_netlink.h)."""


def _features_message() -> Any:
    from pyroute2.netlink import genlmsg
    from pyroute2.netlink.generic.ethtool import ethtoolbitset, ethtoolheader

    names = ("UNSPEC", "HEADER", "HW", "WANTED", "ACTIVE", "NOCHANGE")
    types = ("none", "ethtoolheader", *["ethtoolbitset"] * 4)
    body = {
        "nla_map": tuple(zip(names, types, strict=True)),
        "ethtoolheader": ethtoolheader,
        "ethtoolbitset": ethtoolbitset,
    }
    return type("features_message", (genlmsg,), body)


def _bits(message: Any, name: str) -> dict[str, bool]:
    """Return the bits of a set by name; in a set without a mask those that are set."""
    bitset = message.get_attr(name)
    listed = bitset.get_attr("ETHTOOL_A_BITSET_BITS") if bitset else None
    bits: dict[str, bool] = {}
    for _, bit in listed["attrs"] if listed else []:
        bit_name = bit.get_attr("ETHTOOL_A_BITSET_BIT_NAME")
        if bit_name:  # the kernel has unnamed bits too
            bits[bit_name] = bool(bit.get_attr("ETHTOOL_A_BITSET_BIT_VALUE"))
    return bits


def read_features(interface: str) -> Reading:
    """Return every feature of an interface; stored is the requested bit."""
    with netlink_errors("its driver has no features to change"):
        attributes = [("HEADER", device(interface))]
        (message, *_) = ethtool(_features_message(), _FEATURES_GET, attributes, answer=True)
    changeable = _bits(message, "HW")
    wanted, active = _bits(message, "WANTED"), _bits(message, "ACTIVE")
    never = _bits(message, "NOCHANGE")
    return {
        name: Item(
            stored=name in wanted,
            active=name in active,
            fixed=None if can_change and name not in never else "its driver cannot change it",
        )
        for name, can_change in changeable.items()
    }


def write_features(interface: str, values: Values) -> None:
    """Set the requested bits of some features; the kernel works out what becomes active."""
    bits = []
    for name, value in values.items():
        bit: list[Any] = [("ETHTOOL_A_BITSET_BIT_NAME", name)]
        if value:
            bit.append(("ETHTOOL_A_BITSET_BIT_VALUE", True))
        bits.append(("ETHTOOL_A_BITSET_BITS_BIT", {"attrs": bit}))
    wanted = {"attrs": [("ETHTOOL_A_BITSET_BITS", {"attrs": bits})]}
    attributes = [("HEADER", device(interface)), ("WANTED", wanted)]
    with netlink_errors():
        ethtool(_features_message(), _FEATURES_SET, attributes, answer=False)


def _numbers_message(kind: str) -> Any:
    from pyroute2.netlink import genlmsg
    from pyroute2.netlink.generic.ethtool import ethtoolheader

    fields = [
        (name, "uint8" if name in kinds.COALESCING_FLAGS else "uint32") for name in _LAYOUT[kind]
    ]
    body = {
        "nla_map": (("UNSPEC", "none"), ("HEADER", "ethtoolheader"), *fields),
        "ethtoolheader": ethtoolheader,
    }
    return type(f"{kind}_message", (genlmsg,), body)


def read_numbers(kind: str, interface: str) -> Reading:
    """Return the coalescing, rings or channels of an interface; only what its driver has."""
    with netlink_errors(f"its driver has no {kind} to change"):
        attributes = [("HEADER", device(interface))]
        (message, *_) = ethtool(_numbers_message(kind), _GET[kind], attributes, answer=True)
    found = {name: message.get_attr(name) for name in _LAYOUT[kind]}
    return {
        name: _number_item(name, value, found.get(f"{name}_max"))
        for name, value in found.items()
        if value is not None and not name.endswith("_max")
    }


def _number_item(name: str, value: int, maximum: int | None) -> Item:
    stored = bool(value) if name in kinds.COALESCING_FLAGS else value
    return Item(stored, stored, limits=None if maximum is None else (0, maximum))


def write_numbers(kind: str, interface: str, values: Values) -> None:
    """Set coalescing, rings or channels; what is not named stays."""
    attributes = [("HEADER", device(interface)), *_ints(values)]
    with netlink_errors(f"its driver has no {kind} to change"):
        ethtool(_numbers_message(kind), _GET[kind] + 1, attributes, answer=False)


def _ints(values: Values) -> Iterator[tuple[str, int]]:
    for name, value in values.items():
        assert isinstance(value, int)  # noqa: S101
        yield name, int(value)
