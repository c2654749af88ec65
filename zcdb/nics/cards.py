"""One network interface as a machine shows it: what it is, what is on, what could be.

A `Card` is made from the facts of a host (`from_facts`: the `interface` of an
environment, so a stored run has it too) or from captures of ethtool and lspci
(`zcdb.nics.captures`).  What the machine did not say is None, never False.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from zcdb.ids import Json

State = Literal["on", "off", "on [fixed]", "off [fixed]"]
"""on and off can be switched; fixed ones cannot."""

CHECKSUM_UNNEEDED = "csum_unneeded"
"""No capability: until 2011 links in software said so that they need no checksum at all."""

FEATURES: dict[str, tuple[str, ...]] = {
    "sg": ("tx-scatter-gather", "scatter-gather"),
    "ip_csum": ("tx-checksum-ipv4",),
    "ipv6_csum": ("tx-checksum-ipv6",),
    "hw_csum": ("tx-checksum-ip-generic",),
    CHECKSUM_UNNEEDED: ("tx-checksum-unneeded",),
    "rxcsum": ("rx-checksum", "rx-checksumming"),
    "tso": ("tx-tcp-segmentation",),
    "tso6": ("tx-tcp6-segmentation",),
    "tso_ecn": ("tx-tcp-ecn-segmentation",),
    "gso_partial": ("tx-gso-partial",),
    "uso": ("tx-udp-segmentation",),
    "lro": ("rx-lro", "large-receive-offload"),
    "gro_hw": ("rx-gro-hw",),
    "rxhash": ("rx-hashing", "receive-hashing"),
    "ntuple": ("rx-ntuple-filter", "ntuple-filters"),
    "hw_tc": ("hw-tc-offload",),
    "tls_tx": ("tls-hw-tx-offload",),
    "tls_rx": ("tls-hw-rx-offload",),
    "macsec": ("macsec-hw-offload",),
    "highdma": ("highdma",),
    "loopback": ("loopback",),
}
"""Capability -> the kernel's name of the feature, then the name that ethtool prints for it."""

_STATE = re.compile(r"(on|off)(?: \[(fixed|requested (?:on|off)|not requested)\])?")
_SPEED = re.compile(r"([0-9]+(?:\.[0-9]+)?) GT/s")
_IDS = re.compile(r"([0-9a-f]{4}:[0-9a-f]{4})(?: \(([0-9a-f]{4}:[0-9a-f]{4})\))?")
LOOPBACK_TYPE = 772
"""What /sys says of lo: ARPHRD_LOOPBACK."""


@dataclass(frozen=True, slots=True)
class PcieLink:
    """The lanes of a card: what runs and what the card can.

    Attributes:
        speed, speed_max: GT/s of a lane.
        width, width_max: lanes.
    """

    speed: float
    speed_max: float
    width: int
    width_max: int

    @property
    def is_narrow(self) -> bool:
        """Whether the slot gives the card less than it can take."""
        return self.width < self.width_max or self.speed < self.speed_max


@dataclass(frozen=True, slots=True)
class Card:
    """One interface.

    Attributes:
        interface: its name; "" where a capture does not say.
        driver: as `ethtool -i` names it; None if nothing says.
        is_in_tree: whether the driver came with the kernel.
        bus: pci, usb, virtio, ...; None for an interface that no device is behind.
        device: id word as in `zcdb.nics.facts.id_to_text` ("pci:8086:1533"); "" if none.
        card: subsystem ids, "8086:0001".
        described: the name that the capture itself gives the device.
        features: capability -> state, for the flags of `FEATURES` that the machine told.
        xdp: capability -> whether it has it, from the kernel's netdev family.
        timestamps: capability -> whether it has it.
        queues, queues_max: channels in use and the most there can be.
        has_rss: whether an RSS table can be read.
    """

    interface: str
    driver: str | None = None
    driver_version: str | None = None
    is_in_tree: bool | None = None
    bus: str | None = None
    device: str = ""
    card: str = ""
    described: str = ""
    is_loopback: bool = False
    mtu: int | None = None
    link_speed_bps: int | None = None
    pcie: PcieLink | None = None
    features: Mapping[str, State] = field(default_factory=dict)
    xdp: Mapping[str, bool] = field(default_factory=dict)
    timestamps: Mapping[str, bool] = field(default_factory=dict)
    queues: int | None = None
    queues_max: int | None = None
    has_rss: bool | None = None

    def has(self, capability: str) -> bool | None:
        """Return whether a capability is there, on or off; None if the machine did not say."""
        if capability in self.features:
            return self.features[capability] != "off [fixed]"
        return self.xdp.get(capability, self.timestamps.get(capability))

    def is_on(self, capability: str) -> bool | None:
        """Return whether a feature is on; None if the machine did not say."""
        state = self.features.get(capability)
        return None if state is None else state.startswith("on")


def feature_states(named: Mapping[str, str]) -> dict[str, State]:
    """Return capability -> state, of features as `ethtool -k` writes them.

    Args:
        named: feature -> "on", "off [fixed]", "off [requested on]", ...
    """
    found: dict[str, State] = {}
    for key, names in FEATURES.items():
        text = next((named[name] for name in names if name in named), None)
        match = _STATE.fullmatch(text) if text is not None else None
        if match:
            word: Literal["on", "off"] = "on" if match[1] == "on" else "off"
            found[key] = f"{word} [fixed]" if match[2] == "fixed" else word  # type: ignore[assignment]
    return found


def from_facts(
    interface: str,
    facts: Mapping[str, Any],
    *,
    xdp: Mapping[str, bool] | None = None,
    timestamps: Mapping[str, bool] | None = None,
) -> Card:
    """Return the card that a host's facts of one interface describe.

    Args:
        facts: what `zcdb.host.nicfacts.interface_facts` returns, also inside environments.
        xdp, timestamps: what the kernel's netlink families told besides.
    """
    bus = facts.get("bus") or {}
    ids = _IDS.match(bus.get("ids") or "")
    kind = bus.get("kind")
    channels = facts.get("channels")
    features = feature_states(facts.get("features") or {})
    rss = facts.get("rss")
    is_loopback = facts.get("type") == LOOPBACK_TYPE or features.get("loopback") == "on [fixed]"
    return Card(
        interface=interface,
        driver=facts.get("driver"),
        driver_version=facts.get("driver_version"),
        is_in_tree=(facts.get("module") or {}).get("in_tree"),
        bus=kind,
        device=f"{'usb' if kind == 'usb' else 'pci'}:{ids[1]}" if ids else "",
        card=(ids[2] or "") if ids else "",
        is_loopback=is_loopback,
        mtu=facts.get("mtu"),
        link_speed_bps=facts.get("link_speed_bps"),
        pcie=pcie_link(bus),
        features=features,
        xdp=xdp or {},
        timestamps=timestamps or {},
        queues=_most(channels, ""),
        queues_max=_most(channels, "_max"),
        has_rss=bool(rss and rss.get("table_entries")) if "rss" in facts else None,
    )


def pcie_link(bus: Mapping[str, Json]) -> PcieLink | None:
    """Return the lanes that /sys tells; None where it does not, as for devices of a hypervisor."""
    speeds = [_SPEED.match(str(bus.get(key))) for key in ("speed", "speed_max")]
    widths = [str(bus.get(key)) for key in ("width", "width_max")]
    if not all(speeds) or not all(width.isdigit() and 0 < int(width) <= 32 for width in widths):
        return None
    now, most = (float(match[1]) for match in speeds if match)
    return PcieLink(now, most, int(widths[0]), int(widths[1]))


def _most(channels: Mapping[str, int] | None, suffix: str) -> int | None:
    """Return the number of queue pairs: combined ones, or the larger of the separate ones."""
    if channels is None:
        return None
    numbers = [channels.get(f"{kind}{suffix}") or 0 for kind in ("combined", "rx", "tx")]
    return numbers[0] + max(numbers[1:]) or None
