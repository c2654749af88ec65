"""What a network interface says of itself, read by the ethtool ioctl.  Reads only.

The ioctl works in the network namespace of the calling process, where /sys may
show another one's, and needs no library, so an agent can use it at the edge of
a window.  Changing settings is the business of `settings`, which uses netlink.

Layouts: linux/ethtool.h.  A driver that has no answer gives None.
"""

from __future__ import annotations

import array
import errno
import fcntl
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType

SIOCETHTOOL = 0x8946
SIOCGIFMTU = 0x8921
SIOCGIFTXQLEN = 0x8942

_GET_DRIVER = 0x03
_GET_COALESCING = 0x0E
_GET_RINGS = 0x10
_GET_STRINGS = 0x1B
_GET_RX_RINGS = 0x2D
_GET_SET_SIZE = 0x37
_GET_FEATURES = 0x3A
_GET_CHANNELS = 0x3C
_GET_RSS = 0x46
_GET_LINK = 0x4C

_STRING_SET_FEATURES = 4
_STRING_BYTES = 32

RING_NAMES = (
    *("rx_max", "rx_mini_max", "rx_jumbo_max", "tx_max"),
    *("rx", "rx_mini", "rx_jumbo", "tx"),
)
CHANNEL_NAMES = (
    *("rx_max", "tx_max", "other_max", "combined_max"),
    *("rx", "tx", "other", "combined"),
)
COALESCING_NAMES = (
    *("rx_usecs", "rx_frames", "rx_usecs_irq", "rx_frames_irq"),
    *("tx_usecs", "tx_frames", "tx_usecs_irq", "tx_frames_irq"),
    *("stats_block_usecs", "adaptive_rx", "adaptive_tx"),
    *("pkt_rate_low", "rx_usecs_low", "rx_frames_low", "tx_usecs_low", "tx_frames_low"),
    *("pkt_rate_high", "rx_usecs_high", "rx_frames_high", "tx_usecs_high", "tx_frames_high"),
    "sample_interval",
)
_HASHES = {1: "toeplitz", 2: "xor", 4: "crc32"}
_DUPLEX = {0: "half", 1: "full"}
_UNKNOWN_SPEED = 0xFFFFFFFF

OFFLOADS: dict[str, tuple[str, ...]] = {
    "sg": ("tx-scatter-gather",),
    "tx_checksum": ("tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"),
    "tso": ("tx-tcp-segmentation",),
    "gso": ("tx-generic-segmentation",),
    "gro": ("rx-gro",),
    "lro": ("rx-lro",),
    "tx_nocache_copy": ("tx-nocache-copy",),
}
"""Short name -> the kernel's features; one suffices, as a driver has one kind of checksum."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature.

    Attributes:
        is_on: what holds.
        is_requested: what was asked for; the kernel may not do it while another one is off.
        is_fixed: the driver cannot change it.
    """

    is_on: bool
    is_requested: bool
    is_fixed: bool

    @property
    def state(self) -> str:
        """Return the state as 'ethtool -k' writes it: "on", "off [fixed]", "off [requested on]"."""
        word = "on" if self.is_on else "off"
        if self.is_fixed:
            return f"{word} [fixed]"
        if self.is_requested != self.is_on:
            return f"{word} [requested {'on' if self.is_requested else 'off'}]"
        return word


class EthtoolReader:
    """Reads the interfaces of this process's network namespace; a context manager."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._feature_names: list[str] = []

    def _call(self, interface: str, request: array.array[int]) -> bool:
        """Fill in a request; False where the driver, or this user, has no such answer."""
        address, _ = request.buffer_info()
        name = interface.encode()[:15].ljust(16, b"\0")
        # struct ifreq: the name, a pointer, and the rest of its largest member.
        message = struct.pack("=16sQ16x", name, address)
        try:
            fcntl.ioctl(self._socket, SIOCETHTOOL, message)
        except OSError as error:
            if error.errno in (errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM, errno.ENODEV):
                return False
            raise
        return True

    def _ask(self, interface: str, command: int, size_bytes: int) -> bytes | None:
        request = array.array("B", struct.pack("=I", command).ljust(size_bytes, b"\0"))
        return request.tobytes() if self._call(interface, request) else None

    def _numbers(
        self, interface: str, command: int, names: tuple[str, ...]
    ) -> dict[str, int] | None:
        raw = self._ask(interface, command, 4 * (1 + max(len(names), 22)))
        if raw is None:
            return None
        return dict(zip(names, struct.unpack_from(f"={len(names)}I", raw, 4), strict=True))

    def _number(self, interface: str, request: int) -> int | None:
        """Return the whole number of a plain interface ioctl."""
        name = interface.encode()[:15].ljust(16, b"\0")
        try:
            answer = fcntl.ioctl(self._socket, request, name + bytes(24))
        except OSError as error:
            if error.errno == errno.ENODEV:
                return None
            raise
        return int(struct.unpack_from("=i", answer, 16)[0])

    def mtu(self, interface: str) -> int | None:
        """Return the MTU in bytes; None if there is no such interface."""
        return self._number(interface, SIOCGIFMTU)

    def queue_length(self, interface: str) -> int | None:
        """Return how many packets its queue may hold."""
        return self._number(interface, SIOCGIFTXQLEN)

    def driver(self, interface: str) -> dict[str, str | None] | None:
        """Return driver, version, firmware and bus; None where there is no driver."""
        raw = self._ask(interface, _GET_DRIVER, 196)
        if raw is None:
            return None
        names = ("driver", "version", "firmware", "bus")
        return {name: _text(raw[4 + 32 * place :][:32]) for place, name in enumerate(names)}

    def rings(self, interface: str) -> dict[str, int] | None:
        """Return descriptors in each ring, and the most there can be."""
        return self._numbers(interface, _GET_RINGS, RING_NAMES)

    def channels(self, interface: str) -> dict[str, int] | None:
        """Return queues of each kind, and the most there can be."""
        return self._numbers(interface, _GET_CHANNELS, CHANNEL_NAMES)

    def coalescing(self, interface: str) -> dict[str, int] | None:
        """Return how interrupts are held back."""
        return self._numbers(interface, _GET_COALESCING, COALESCING_NAMES)

    def link(self, interface: str) -> dict[str, int | str | None] | None:
        """Return speed_bps, duplex and autonegotiation; None where the link has none."""
        words = 0
        for _ in range(2):
            # The first answer says, negated, how many words each mask of modes has.
            request = array.array("B", bytearray(48 + 4 * 3 * words))
            struct.pack_into("=I", request, 0, _GET_LINK)
            struct.pack_into("=b", request, 15, words)
            if not self._call(interface, request):
                return None
            words = abs(struct.unpack_from("=b", request, 15)[0])
        speed, duplex, autoneg = struct.unpack_from("=IBxxB", request, 4)
        return {
            "speed_bps": None if speed in (0, _UNKNOWN_SPEED) else speed * 10**6,
            "duplex": _DUPLEX.get(duplex),
            "autonegotiation": "on" if autoneg == 1 else "off",
        }

    def rss(self, interface: str) -> dict[str, int | str | None] | None:
        """Return how received packets are spread: hash, queues, and over how many of them."""
        raw = self._ask(interface, _GET_RSS, 24)
        if raw is None:
            return None
        entries, key_bytes, hash_bits = struct.unpack_from("=IIB", raw, 8)
        request = array.array("B", bytearray(24 + 4 * entries + key_bytes))
        struct.pack_into("=IIII", request, 0, _GET_RSS, 0, entries, key_bytes)
        if not self._call(interface, request):
            return None
        table = struct.unpack_from(f"={entries}I", request, 24)
        rings = self._ask(interface, _GET_RX_RINGS, 200)
        return {
            "hash": _HASHES.get(hash_bits),
            "table_entries": entries,
            "queues_used": len(set(table)),
            "queues": struct.unpack_from("=Q", rings, 8)[0] if rings else None,
        }

    def features(self, interface: str) -> dict[str, Feature] | None:
        """Return every feature by the kernel's name; None if there is no such interface."""
        names = self._names(interface)
        if not names:
            return None
        blocks = -(-len(names) // 32)
        request = array.array("B", struct.pack("=II", _GET_FEATURES, blocks) + bytes(16 * blocks))
        if not self._call(interface, request):
            return None
        found = {}
        for place, name in enumerate(names):
            block, bit = divmod(place, 32)
            words = struct.unpack_from("=4I", request, 8 + 16 * block)
            available, requested, active, never = (bool(word >> bit & 1) for word in words)
            if name:  # the kernel has unnamed bits too
                found[name] = Feature(active, requested, not available or never)
        return found

    def _names(self, interface: str) -> list[str]:
        """Return the names of the features, which are the same for all interfaces of a kernel."""
        if not self._feature_names:
            request = array.array(
                "B", struct.pack("=IIQI", _GET_SET_SIZE, 0, 1 << _STRING_SET_FEATURES, 0)
            )
            if not self._call(interface, request):
                return []
            (count,) = struct.unpack_from("=I", request, 16)
            wanted = struct.pack("=III", _GET_STRINGS, _STRING_SET_FEATURES, count)
            request = array.array("B", wanted + bytes(_STRING_BYTES * count))
            if not self._call(interface, request):
                return []
            raw = request.tobytes()[12:]
            self._feature_names = [
                _text(raw[_STRING_BYTES * place :][:_STRING_BYTES]) or "" for place in range(count)
            ]
        return self._feature_names

    def close(self) -> None:
        """Close its socket.  Idempotent."""
        self._socket.close()

    def __enter__(self) -> EthtoolReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _text(raw: bytes) -> str | None:
    text = raw.partition(b"\0")[0].decode(errors="replace").strip()
    return text or None


def offloads(features: Mapping[str, Feature]) -> dict[str, bool]:
    """Return which offloads hold, by short name; those the kernel does not know are left out."""
    found = {}
    for name, kernel_names in OFFLOADS.items():
        known = [features[kernel_name] for kernel_name in kernel_names if kernel_name in features]
        if known:
            found[name] = any(feature.is_on for feature in known)
    return found
