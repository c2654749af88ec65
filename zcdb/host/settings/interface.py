"""MTU, root qdisc and routes of interfaces by rtnetlink.

Runs only in the helper process of `backend`, as it needs pyroute2.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zcdb.host.settings import kinds
from zcdb.host.settings.model import BackendError, Item, Reading, Values
from zcdb.host.settings.netlink import netlink_errors, required_index
from zcdb.ids import Json

TC_ROOT = 0xFFFFFFFF
TC_INGRESS = 0xFFFFFFF1
RTN_UNICAST = 1
LAYERED_KINDS = ("vlan", "macvlan", "macvtap", "ipvlan", "ipvtap", "macsec")


def read_mtu(interface: str) -> Reading:
    """Return the MTU with the limits of its driver."""
    from pyroute2 import IPRoute

    with netlink_errors(), IPRoute(ext_ack=True) as netlink:
        (link,) = netlink.get_links(required_index(interface))
        smallest, largest = link.get_attr("IFLA_MIN_MTU"), link.get_attr("IFLA_MAX_MTU")
        limits = (smallest or 68, largest) if largest else None
        mtu = link.get_attr("IFLA_MTU")
    return {"mtu": Item(mtu, mtu, limits=limits)}


def write_mtu(root: Path, interface: str, values: Values) -> None:
    """Set the MTU.

    Raises:
        BackendError: also if the kernel would take IPv6 addresses away with it.
    """
    from pyroute2 import IPRoute

    mtu = int(str(values["mtu"]))
    if mtu < 1280 and _has_ipv6_addresses(root, interface):
        raise BackendError(
            errno.EINVAL,
            "below 1280 the kernel removes the interface's IPv6 addresses for good",
        )
    with netlink_errors(), IPRoute(ext_ack=True) as netlink:
        netlink.link("set", index=required_index(interface), mtu=mtu)


def _has_ipv6_addresses(root: Path, interface: str) -> bool:
    """Return whether it has more than the link-local address that the kernel makes by itself."""
    path = root / "proc/self/net/if_inet6"
    if not path.exists():
        return False
    rows = [line.split() for line in path.read_text().splitlines()]
    return any(row[5] == interface and row[3] != "20" for row in rows)


def read_qdisc(interface: str) -> Reading:
    """Return the root qdisc, fixed if it is one that could not be made again as it is."""
    from pyroute2 import IPRoute

    with netlink_errors(), IPRoute(ext_ack=True) as netlink:
        qdiscs = list(netlink.get_qdiscs(index=required_index(interface)))
    mine = [qdisc for qdisc in qdiscs if qdisc["parent"] != TC_INGRESS]
    root = next((qdisc for qdisc in mine if qdisc["parent"] == TC_ROOT), None)
    if root is None:
        return {"root": Item({"kind": "none"}, {"kind": "none", "qdisc": None})}
    name = root.get_attr("TCA_KIND")
    made_by_hand = [qdisc.get_attr("TCA_KIND") for qdisc in mine if qdisc["handle"]]
    if not made_by_hand:
        return {"root": Item({"kind": "none"}, {"kind": "none", "qdisc": name})}
    if made_by_hand == ["tbf"] and root["handle"]:
        return {"root": _tbf_item(root)}
    fixed = f"it has the qdisc {', '.join(made_by_hand)}, which zcdb could not put back"
    state: dict[str, Json] = {"kind": name, "qdisc": None}
    return {"root": Item(state, state, fixed)}


def _tbf_item(root: Any) -> Item:
    options = root.get_attr("TCA_OPTIONS")
    parms = options.get_attr("TCA_TBF_PARMS")
    kept: dict[str, Json] = {name: value for name, value in parms.items() if value}
    has_more = kept.get("peak") or parms["rate"] == 2**32 - 1 or root.get_attr("TCA_STAB")
    burst_bytes = round(parms["buffer"] * kinds.TICK_NS * parms["rate"] / 10**9)
    return Item(
        stored={"kind": "tbf", "handle": root["handle"], "parms": kept},
        active={
            "kind": "tbf",
            "rate_bps": parms["rate"] * 8,
            "burst_bytes": burst_bytes,
            "limit_bytes": parms["limit"],
        },
        fixed="its tbf has a peak or 64-bit rate or a size table: zcdb could not put it back"
        if has_more
        else None,
    )


def write_qdisc(interface: str, values: Values) -> None:
    """Put a token bucket at the root, or take away what is there."""
    from pyroute2 import IPRoute

    wanted = values["root"]
    assert isinstance(wanted, Mapping)  # noqa: S101
    index = required_index(interface)
    with netlink_errors("this kernel has no tbf"), IPRoute(ext_ack=True) as netlink:
        if wanted["kind"] == "tbf":
            _replace_by_tbf(netlink, index, wanted)
        else:
            netlink.tc("del", index=index, parent=TC_ROOT)


def _replace_by_tbf(netlink: Any, index: int, wanted: Mapping[str, Json]) -> None:
    """Send the parameters as they are; `IPRoute.tc` would compute and round them."""
    from pyroute2.netlink import NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST
    from pyroute2.netlink.rtnl import RTM_NEWQDISC
    from pyroute2.netlink.rtnl.tcmsg import tcmsg

    message = tcmsg()
    message["index"], message["handle"], message["parent"] = index, wanted["handle"], TC_ROOT
    options = {"attrs": [("TCA_TBF_PARMS", wanted["parms"])]}
    message["attrs"] = [("TCA_KIND", "tbf"), ("TCA_OPTIONS", options)]
    flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE
    netlink.put(message, RTM_NEWQDISC, msg_flags=flags, msg_seq=1)
    netlink.get(msg_seq=1)


def carriers(control_address: str | None) -> dict[str, str]:
    """Return the interfaces that carry a default route or the control connection, with the reason.

    An interface below one of them (a port of a bridge or bond, the parent of a VLAN) is one too.
    """
    from pyroute2 import IPRoute

    with netlink_errors(), IPRoute() as netlink:
        links = {link["index"]: link for link in netlink.get_links()}
        reasons = dict.fromkeys(_default_route_indexes(netlink), "the default route")
        control = _route_index(netlink, control_address) if control_address else None
    if control is not None:
        reasons.setdefault(control, "the control connection ($SSH_CONNECTION)")
    names = {index: link.get_attr("IFLA_IFNAME") for index, link in links.items()}
    _spread_downwards(links, reasons)
    return {names[index]: reason for index, reason in reasons.items() if index in names}


def _default_route_indexes(netlink: Any) -> set[int]:
    indexes: set[int] = set()
    for family in (socket.AF_INET, socket.AF_INET6):
        for route in netlink.get_routes(family=family):
            if route["dst_len"] or route["type"] != RTN_UNICAST:
                continue
            hops = [hop["oif"] for hop in route.get_attr("RTA_MULTIPATH") or []]
            indexes.update(hops or [route.get_attr("RTA_OIF")])
    return indexes - {None}


def _route_index(netlink: Any, address: str) -> int | None:
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        (route, *_) = netlink.route("get", dst=address.partition("%")[0], family=family)
    except NetlinkError:
        return None  # this namespace has no way to it, so nothing here carries it
    index = route.get_attr("RTA_OIF")
    return None if index is None else int(index)


def _spread_downwards(links: dict[int, Any], reasons: dict[int, str]) -> None:
    below: dict[int, set[int]] = {}
    for index, link in links.items():
        master, parent = link.get_attr("IFLA_MASTER"), link.get_attr("IFLA_LINK")
        if master:
            below.setdefault(master, set()).add(index)
        info = link.get_attr("IFLA_LINKINFO")
        kind = info.get_attr("IFLA_INFO_KIND") if info else None
        if kind in LAYERED_KINDS and parent and link.get_attr("IFLA_LINK_NETNSID") is None:
            below.setdefault(index, set()).add(parent)
    waiting = list(reasons)
    while waiting:
        upper = waiting.pop()
        for lower in below.get(upper, set()) - set(reasons):
            reasons[lower] = reasons[upper]
            waiting.append(lower)


def can_make_tbf(interface: str) -> bool:
    """Return whether this kernel can make a token bucket filter.  Makes one."""
    stored = kinds.tbf_stored(10**9, kinds.TBF_BURST_BYTES, kinds.TBF_BURST_BYTES)
    try:
        write_qdisc(interface, {"root": stored})
    except BackendError:
        return False
    return True
