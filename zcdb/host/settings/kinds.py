"""The registry of kinds of setting: how each is written, and what is wrong with a bad value.

Pure: parses and compares, reads no machine.  Whether *this* machine has a
feature, and in which limits, is known when the setting is applied.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from zcdb import units
from zcdb.host.settings.model import Item, Reading, Setting, SettingError, Values
from zcdb.ids import Json

Target = Literal["interface", "sysctl", "irq", "cpus"]

SHORT_FEATURES: dict[str, str] = {
    "sg": "tx-scatter-gather*",
    "tx_checksum": "tx-checksum-*",
    "rx_checksum": "rx-checksum",
    "tso": "tx-tcp*-segmentation",
    "gso": "tx-generic-segmentation",
    "gro": "rx-gro",
    "lro": "rx-lro",
    "tx_nocache_copy": "tx-nocache-copy",
}
"""Short name -> pattern of the kernel's feature names: the same groups as in 'ethtool -K'."""

FEATURE_NEEDS: dict[str, tuple[str, ...]] = {
    "tx-generic-segmentation": ("tx-scatter-gather",),
    "tx-tcp*-segmentation": ("tx-scatter-gather", "tx-checksum-*"),
    "rx-lro": ("rx-checksum",),
    "rx-gro-hw": ("rx-checksum",),
}
"""What the kernel turns off when something else is off (net/core/dev.c, netdev_fix_features)."""

COALESCING_KEYS = (
    *("rx_usecs", "rx_frames", "rx_usecs_irq", "rx_frames_irq"),
    *("tx_usecs", "tx_frames", "tx_usecs_irq", "tx_frames_irq"),
    *("stats_block_usecs", "adaptive_rx", "adaptive_tx"),
    *("pkt_rate_low", "rx_usecs_low", "rx_frames_low", "tx_usecs_low", "tx_frames_low"),
    *("pkt_rate_high", "rx_usecs_high", "rx_frames_high", "tx_usecs_high", "tx_frames_high"),
    *("sample_interval", "cqe_mode_tx", "cqe_mode_rx"),
)
"""In the order of the kernel's attributes."""

COALESCING_FLAGS = ("adaptive_rx", "adaptive_tx", "cqe_mode_rx", "cqe_mode_tx")
RING_KEYS = ("rx", "rx_mini", "rx_jumbo", "tx")
CHANNEL_KEYS = ("rx", "tx", "other", "combined")

TBF_BURST_BYTES = 128 * 1024
"""A smaller burst makes the token bucket's timer fire so often that it costs ten times the CPU."""

TBF_LATENCY_MS = 50
TBF_RATE_LIMIT_BPS = (2**32 - 1) * 8
TBF_HANDLE = 0x5A430000
TICK_NS = 64
"""The unit in which the kernel keeps a bucket's size (/proc/net/psched); fixed since 2.6.31."""

_INTERFACE = re.compile(r"[^\s/:]{1,15}")
_FEATURE = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_SYSCTL = re.compile(r"net[./][A-Za-z0-9_./:@-]+")
_CPU_LIST = re.compile(r"[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*")
CPU_LIMIT = 8192


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of setting.

    Attributes:
        target: what a setting of this kind belongs to.
        help: one sentence with the form of the value.
        phrase: names one value for people, from its key and target.
        parse_value: checks a value and returns it in canonical form.
        expand: canonical value and reading -> stored values to write.
        matches: whether an item is as asked, given the stored value that was asked for.
    """

    name: str
    target: Target
    help: str
    phrase: str
    parse_value: Callable[[Json], Values]
    expand: Callable[[Values, Reading], dict[str, Json]]
    matches: Callable[[Json, Item], bool]


def parse_setting(kind: str, target: str | int, value: Json) -> Setting:
    """Check a setting and return it in canonical form.

    Args:
        kind: a name in `KINDS`.
        target: interface, sysctl name, IRQ number or CPU list ("0-3", "all").
        value: as in `Kind.help`.

    Raises:
        SettingError: names what is wrong; also a ValueError.
    """
    if kind not in KINDS:
        raise SettingError(f"there is no kind of setting {kind!r}; there are {', '.join(KINDS)}")
    checked = _TARGETS[KINDS[kind].target](str(target))
    try:
        parsed = KINDS[kind].parse_value(value)
    except ValueError as error:
        raise SettingError(f"{kind} of {checked}: {error}") from None
    return Setting(kind, checked, dict(sorted(parsed.items())))


def cpus(text: str) -> list[int]:
    """Return the CPUs of a list like "0-3,5", in order.

    Raises:
        ValueError: if it is not one, or names a CPU beyond what Linux can have.
    """
    if not _CPU_LIST.fullmatch(text):
        raise ValueError(f"{text!r} is not a CPU list; write it as 0-3,5")
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if high >= CPU_LIMIT or high < low:
            raise ValueError(f"{text!r} is not a CPU list: {part} is out of order or too high")
        found.update(range(low, high + 1))
    return sorted(found)


def cpu_list(numbers: list[int]) -> str:
    """Return the one spelling of a set of CPUs: "0-3,5"."""
    spans: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


def feature_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the kernel's names that a short or kernel name stands for, among those `known`."""
    return sorted(fnmatch.filter(known, SHORT_FEATURES.get(name, name)))


def show(value: Json) -> str:
    """Return a value for people: "on", "1500", "tbf 1 Gbit/s burst 128 KiB limit 6381072 bytes"."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if not isinstance(value, Mapping):
        return "unknown" if value is None else str(value)
    if value["kind"] != "tbf":
        return f"{value['kind']} ({value['qdisc']})" if value.get("qdisc") else str(value["kind"])
    parms = value.get("parms")
    if isinstance(parms, Mapping):  # the stored form
        rate_bps, limit, burst = int(str(parms["rate"])) * 8, parms["limit"], ""
    else:
        rate_bps, limit = int(str(value["rate_bps"])), value["limit_bytes"]
        burst = f" burst {units.format_size(int(str(value['burst_bytes'])))}"
    return f"tbf {units.format_bps(rate_bps)}{burst} limit {limit} bytes"


def what(kind: str, key: str, target: str) -> str:
    """Return the name of one value for people: "tx-scatter-gather of eth0", "mtu of eth0"."""
    if kind == "governor" and not key.isdigit():
        key = target  # as it was asked for: for all CPUs of the target
    return KINDS[kind].phrase.format(key=key, target=target)


def tbf_stored(rate_bps: int, burst_bytes: int, limit_bytes: int) -> dict[str, Json]:
    """Return a token bucket in the form in which the kernel keeps it."""
    rate_bytes_per_s = rate_bps // 8
    return {
        "kind": "tbf",
        "handle": TBF_HANDLE,
        "parms": {
            "rate___reserved": 1,  # the link layer: Ethernet; 0 would need a rate table
            "rate": rate_bytes_per_s,
            "limit": limit_bytes,
            "buffer": burst_bytes * 10**9 // rate_bytes_per_s // TICK_NS,
        },
    }


def _interface_name(text: str) -> str:
    if text in (".", "..") or not _INTERFACE.fullmatch(text):
        raise SettingError(
            f"{text!r} is not an interface name: up to 15 characters, no space, / or :"
        )
    return text


def _sysctl_name(text: str) -> str:
    if not _SYSCTL.fullmatch(text) or ".." in text or "//" in text or "/./" in text:
        raise SettingError(
            f"{text!r} is not a sysctl that zcdb changes; it changes names that begin with 'net.'"
        )
    return text


def _irq_number(text: str) -> str:
    if not text.isascii() or not text.isdigit():
        raise SettingError(f"{text!r} is not an IRQ; write its number from /proc/interrupts")
    return str(int(text))


def _cpu_target(text: str) -> str:
    if text == "all":
        return text
    try:
        return cpu_list(cpus(text))
    except ValueError as error:
        raise SettingError(f"{error}, or 'all'") from None


_TARGETS: dict[Target, Callable[[str], str]] = {
    "interface": _interface_name,
    "sysctl": _sysctl_name,
    "irq": _irq_number,
    "cpus": _cpu_target,
}


def _table(value: Json, example: str) -> Mapping[str, Json]:
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"{value!r} is not a table of values; write {example}")
    return value


def _flag(name: str, value: Json) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("on", "off"):
        return value == "on"
    raise ValueError(f"{name} is on or off (true or false), got {value!r}")


def _count(name: str, value: Json, smallest: int = 0, largest: int = 2**32 - 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not smallest <= value <= largest:
        raise ValueError(f"{name} is a whole number from {smallest} to {largest}, got {value!r}")
    return value


def _parse_features(value: Json) -> Values:
    table = _table(value, "{ sg = false } or { tx-udp-segmentation = true }")
    for name in table:
        if name not in SHORT_FEATURES and not _FEATURE.fullmatch(name):
            raise ValueError(
                f"{name!r} is not a feature; write a name from 'ethtool -k'"
                f" or one of {', '.join(SHORT_FEATURES)}"
            )
    return {name: _flag(name, setting) for name, setting in table.items()}


def _known(name: str, known: tuple[str, ...]) -> str:
    if name not in known:
        raise ValueError(f"there is no {name!r}; there are {', '.join(known)}")
    return name


def _parse_coalescing(value: Json) -> Values:
    return {
        _known(name, COALESCING_KEYS): _flag(name, number)
        if name in COALESCING_FLAGS
        else _count(name, number)
        for name, number in _table(value, "{ rx_usecs = 50 }").items()
    }


def _parse_rings(value: Json) -> Values:
    table = _table(value, "{ rx = 512, tx = 512 }")
    return {_known(name, RING_KEYS): _count(name, number, 1) for name, number in table.items()}


def _parse_channels(value: Json) -> Values:
    table = _table(value, "{ combined = 2 }")
    return {_known(name, CHANNEL_KEYS): _count(name, number) for name, number in table.items()}


def _parse_mtu(value: Json) -> Values:
    return {"mtu": _count("an MTU", value, 68, 2**31 - 1)}


def _parse_sysctl(value: Json) -> Values:
    parts = value if isinstance(value, (list, tuple)) else [value]
    words: list[str] = []
    for part in parts:
        if isinstance(part, bool):
            words.append(str(int(part)))
        elif isinstance(part, (int, str)):
            words += str(part).split()
        else:
            raise ValueError(f"{value!r} is not a sysctl's value: a number, a word or a list")
    if not words:
        raise ValueError("an empty value cannot be told from a missing one")
    return {"value": " ".join(words)}


def _rate(value: Json) -> int:
    if not isinstance(value, (str, int)):
        raise ValueError(f"{value!r} is not a rate; write it as '1gbit'")
    rate_bps = units.parse_rate(value)
    if not 8000 <= rate_bps <= TBF_RATE_LIMIT_BPS:
        raise ValueError(
            f"a token bucket's rate is 8 kbit/s to {units.format_bps(TBF_RATE_LIMIT_BPS)},"
            f" got {units.format_bps(rate_bps)}"
        )
    return rate_bps


def _size(name: str, value: Json) -> int:
    if not isinstance(value, (str, int)):
        raise ValueError(f"{name} {value!r} is not a size; write it as '128K'")
    return _count(name, units.parse_size(value), 1)


def _parse_qdisc(value: Json) -> Values:
    if value in ("none", {"kind": "none"}):
        return {"root": {"kind": "none"}}
    example = "'none' or { kind = 'tbf', rate = '1gbit', burst = '128K' }"
    table = _table(value, example)
    for name in table:
        _known(name, ("kind", "rate", "burst", "limit"))
    if table.get("kind") != "tbf" or "rate" not in table:
        raise ValueError(f"zcdb makes a qdisc as {example}")
    rate_bps = _rate(table["rate"])
    burst = _size("a burst", table.get("burst", TBF_BURST_BYTES))
    queue_bytes = rate_bps * TBF_LATENCY_MS // 8000
    limit = _size("a limit", table.get("limit", min(burst + queue_bytes, 2**32 - 1)))
    tbf: dict[str, Json] = {"kind": "tbf", "rate_bps": rate_bps}
    return {"root": tbf | {"burst_bytes": burst, "limit_bytes": limit}}


def _parse_affinity(value: Json) -> Values:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError(f"{value!r} is not a CPU list; write it as '0-3,5'")
    return {"cpus": cpu_list(cpus(str(value)))}


def _parse_governor(value: Json) -> Values:
    if not isinstance(value, str) or not re.fullmatch(r"[a-z_]{1,15}", value):
        raise ValueError(f"{value!r} is not a governor; 'performance' is one")
    return {"governor": value}


def _as_it_is(value: Values, _reading: Reading) -> dict[str, Json]:
    return dict(value)


def _expand_features(value: Values, reading: Reading) -> dict[str, Json]:
    """Groups first, so that a kernel name beside its group has the last word."""
    asked: dict[str, Json] = {}
    for name in sorted(value, key=lambda name: name not in SHORT_FEATURES):
        is_group = name in SHORT_FEATURES
        members = _group(name, bool(value[name]), reading) if is_group else [name]
        asked |= dict.fromkeys(members, value[name])
    return asked


def _group(name: str, on: bool, reading: Reading) -> list[str]:
    """Return the features that have to change, or already tell that a group is on or off.

    A group is off when all of it is; on when all that can change is, or, where nothing can,
    when something of it is.  The name itself stands for a group that this device has not.
    """
    members = feature_names(name, reading)
    changeable = [member for member in members if reading[member].fixed is None]
    fixed_on = [member for member in members if reading[member].fixed and reading[member].active]
    if not on:
        return changeable + fixed_on or members or [name]
    if "tx-checksum-ip-generic" in changeable:
        # It covers both protocols; beside it the kernel turns the older two off.
        changeable = [m for m in changeable if m not in ("tx-checksum-ipv4", "tx-checksum-ipv6")]
    return changeable or fixed_on or [name]


def _expand_qdisc(value: Values, _reading: Reading) -> dict[str, Json]:
    root = value["root"]
    assert isinstance(root, Mapping)  # noqa: S101
    if root["kind"] == "none":
        return {"root": {"kind": "none"}}
    numbers = (int(str(root[name])) for name in ("rate_bps", "burst_bytes", "limit_bytes"))
    return {"root": tbf_stored(*numbers)}


def _expand_governor(value: Values, reading: Reading) -> dict[str, Json]:
    return dict.fromkeys(reading, value["governor"])


def _is_active(asked: Json, item: Item) -> bool:
    return item.active == asked


def _is_stored(asked: Json, item: Item) -> bool:
    return item.stored == asked


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in [
        Kind(
            "feature",
            "interface",
            "Offloads by the names of 'ethtool -k' or short ones: { sg = false, tso = false }.",
            "{key} of {target}",
            _parse_features,
            _expand_features,
            _is_active,
        ),
        Kind(
            "coalescing",
            "interface",
            "Interrupt coalescing: { rx_usecs = 50, adaptive_rx = false }.",
            "coalescing {key} of {target}",
            _parse_coalescing,
            _as_it_is,
            _is_active,
        ),
        Kind(
            "rings",
            "interface",
            "Descriptors of each ring: { rx = 512, tx = 512 }.",
            "ring {key} of {target}",
            _parse_rings,
            _as_it_is,
            _is_active,
        ),
        Kind(
            "channels",
            "interface",
            "Queues: { combined = 2 }, or { rx = 1, tx = 2 }.",
            "{key} channels of {target}",
            _parse_channels,
            _as_it_is,
            _is_active,
        ),
        Kind(
            "mtu",
            "interface",
            "Bytes of the largest packet: 9000.",
            "mtu of {target}",
            _parse_mtu,
            _as_it_is,
            _is_active,
        ),
        Kind(
            "sysctl",
            "sysctl",
            "A net.* sysctl of the current network namespace: a number, a word or a list.",
            "{target}",
            _parse_sysctl,
            _as_it_is,
            _is_active,
        ),
        Kind(
            "qdisc",
            "interface",
            "The root qdisc: 'none', or { kind = 'tbf', rate = '1gbit', burst = '128K' }.",
            "qdisc of {target}",
            _parse_qdisc,
            _expand_qdisc,
            _is_stored,
        ),
        Kind(
            "irq_affinity",
            "irq",
            "The CPUs that may serve an interrupt: '0-3,5'.",
            "affinity of IRQ {target}",
            _parse_affinity,
            _as_it_is,
            _is_active,
        ),
        Kind(
            "governor",
            "cpus",
            "The frequency governor of CPUs: 'performance'.",
            "governor of CPU {key}",
            _parse_governor,
            _expand_governor,
            _is_active,
        ),
    ]
}
"""Name -> kind."""

MACHINE_WIDE = ("irq_affinity", "governor")
"""Kinds that belong to the machine and not to a network namespace."""


def is_of_interface(kind: str) -> bool:
    """Return whether settings of this kind belong to an interface."""
    return KINDS[kind].target == "interface"
