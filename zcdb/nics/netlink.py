"""What the running kernel says of its own interfaces by netlink: XDP features, time stamps.

The only module of this room that asks a machine.  Families: `netdev`
(linux/netdev.h, since 6.3) and `ethtool` (linux/ethtool_netlink.h).  What a
kernel or driver does not answer is left out, never False.
"""

from __future__ import annotations

import errno
import socket
from typing import Any

_NETDEV_DEV_GET = 1
_NETDEV_FIELDS = ("UNSPEC", "IFINDEX", "PAD", "XDP_FEATURES")
_XDP_BITS = {"xdp": 1 << 0, "xsk_zc": 1 << 3}
"""NETDEV_XDP_ACT_BASIC and NETDEV_XDP_ACT_XSK_ZEROCOPY."""

_TSINFO_GET = 25
_TSINFO_FIELDS = ("UNSPEC", "HEADER", "TIMESTAMPING")
_TIMESTAMPS = {"hwts_tx": "hardware-transmit", "hwts_rx": "hardware-receive"}
_NO_ANSWER = frozenset((errno.EOPNOTSUPP, errno.EINVAL, errno.ENODEV, errno.ENOENT, errno.EPERM))


def xdp_features(interface: str) -> dict[str, bool]:
    """Return whether an interface has native XDP and AF_XDP zero copy; empty before Linux 6.3."""
    from pyroute2.netlink import genlmsg

    body = {
        "nla_map": tuple(zip(_NETDEV_FIELDS, ("none", "uint32", "none", "uint64"), strict=True))
    }
    message = type("netdev_message", (genlmsg,), body)
    answer = _ask(
        "netdev", message, _NETDEV_DEV_GET, [("IFINDEX", socket.if_nametoindex(interface))]
    )
    bits = answer.get_attr("XDP_FEATURES") if answer is not None else None
    return {} if bits is None else {key: bool(bits & bit) for key, bit in _XDP_BITS.items()}


def timestamps(interface: str) -> dict[str, bool]:
    """Return whether an interface stamps packets in hardware; empty before Linux 5.7."""
    from pyroute2.netlink import genlmsg
    from pyroute2.netlink.generic.ethtool import ethtoolbitset, ethtoolheader

    types = ("none", "ethtoolheader", "ethtoolbitset")
    body = {
        "nla_map": tuple(zip(_TSINFO_FIELDS, types, strict=True)),
        "ethtoolheader": ethtoolheader,
        "ethtoolbitset": ethtoolbitset,
    }
    message = type("tsinfo_message", (genlmsg,), body)
    header = {"attrs": [("ETHTOOL_A_HEADER_DEV_NAME", interface)]}
    answer = _ask("ethtool", message, _TSINFO_GET, [("HEADER", header)])
    bitset = answer.get_attr("TIMESTAMPING") if answer is not None else None
    if bitset is None:
        return {}
    listed = bitset.get_attr("ETHTOOL_A_BITSET_BITS")
    names = {
        bit.get_attr("ETHTOOL_A_BITSET_BIT_NAME") for _, bit in (listed["attrs"] if listed else ())
    }
    return {key: name in names for key, name in _TIMESTAMPS.items()}


def _ask(family: str, message_class: Any, command: int, attributes: list[Any]) -> Any:
    """Return the kernel's answer; None where it has none."""
    from pyroute2.netlink import NLM_F_REQUEST
    from pyroute2.netlink.exceptions import NetlinkError
    from pyroute2.netlink.generic import GenericNetlinkSocket

    message = message_class()
    message["cmd"], message["version"], message["attrs"] = command, 1, attributes
    try:
        with GenericNetlinkSocket() as netlink:
            netlink.bind(family, message_class)
            (answer, *_) = netlink.nlm_request(
                message, msg_type=netlink.prid, msg_flags=NLM_F_REQUEST
            )
    except NetlinkError as error:
        if abs(int(error.code)) not in _NO_ANSWER:
            raise
        return None
    return answer
