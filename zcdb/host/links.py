"""Links between two ends on this machine: network namespaces, veth pairs, addresses.

The namespaces have no name: they live as long as the processes in them, and a
veth pair lives as long as its namespaces.  So nothing is left behind, whatever
kills us.  Netlink work happens in a short-lived child, because pyroute2 brings
an event loop and threads that the (forking) agent must not have.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from zcdb.errors import LinkError

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
IFA_F_NODAD = 0x02
RT_SCOPE_LINK = 253

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Leave namespaces of these kinds for new ones.  Raises `OSError` if the kernel refuses."""
    if _libc.unshare(flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def setns(path: Path, kind: int) -> None:
    """Enter the namespace of `kind` at `path`.  Raises `OSError` if the kernel refuses."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.setns(descriptor, kind) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)


def _enter_user_namespace(partner_pid: int | None) -> None:
    if partner_pid is not None:
        setns(Path(f"/proc/{partner_pid}/ns/user"), CLONE_NEWUSER)
        return
    uid, gid = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def enter_new_namespace(partner_pid: int | None = None) -> None:
    """Move this (single-threaded) process into a network namespace of its own.

    Without root a user namespace gives the right to do so; both ends must then
    share one.

    Args:
        partner_pid: the process of the other end, if it has entered its namespace already.

    Raises:
        LinkError: if the kernel allows neither; says what would.
    """
    try:
        if os.geteuid() != 0:
            _enter_user_namespace(partner_pid)
        unshare(CLONE_NEWNET)
    except OSError as error:
        raise LinkError(
            f"this user may not make a network namespace here ({error.strerror})",
            hint="run as root, or allow user namespaces"
            " (sysctl kernel.unprivileged_userns_clone=1 or user.max_user_namespaces)",
        ) from None
    _in_child(_bring_up, "lo", ())


def has_ipv6() -> bool:
    """Return whether interfaces of this network namespace may have IPv6 addresses."""
    folder = Path("/proc/sys/net/ipv6/conf")
    if not folder.is_dir():
        return False
    return all((folder / name / "disable_ipv6").read_text() == "0\n" for name in ("all", "default"))


def make_veth(
    name: str,
    addresses: Sequence[str],
    peer_name: str,
    peer_addresses: Sequence[str],
    peer_pid: int,
) -> None:
    """Make a veth pair: one end here, the other in the namespace of `peer_pid`; both up.

    Args:
        addresses, peer_addresses: with prefix length, "10.77.0.1/24" or "fd77::1/64".

    Raises:
        LinkError: if the kernel refuses; names the step and the reason.
    """
    _in_child(_create_veth, name, addresses, peer_name, peer_pid)
    _in_child(_configure_peer, peer_name, peer_addresses, peer_pid)


def interface_addresses(name: str) -> dict[str, list[str]]:
    """Return the addresses of an interface by family, "inet" and "inet6", in the kernel's order.

    Link-local ones are left out: they mean nothing without the interface's name.

    Raises:
        LinkError: if there is no such interface.
    """
    try:
        index = socket.if_nametoindex(name)
    except OSError:
        raise LinkError(
            f"there is no interface {name} on this host", hint="'ip link' lists its interfaces"
        ) from None
    found: dict[str, list[str]] = _in_child(_list_addresses, index)
    return found


def _netlink_error(step: str, code: int, text: str) -> str:
    return f"{step} was refused: {os.strerror(code) if code else text or 'no reason given'}"


def _bring_up(name: str, addresses: Sequence[str]) -> None:
    from pyroute2 import IPRoute

    with IPRoute() as netlink:
        index = netlink.link_lookup(ifname=name)[0]
        for address in addresses:
            host, _, prefix = address.partition("/")
            # Nobody else is on this link: looking for duplicates would only take seconds.
            flags = IFA_F_NODAD if ":" in host else 0
            netlink.addr("add", index=index, address=host, prefixlen=int(prefix), flags=flags)
        netlink.link("set", index=index, state="up")


def _list_addresses(index: int) -> dict[str, list[str]]:
    from pyroute2 import IPRoute

    with IPRoute() as netlink:
        return {
            family: [
                # A peer-to-peer address is the other end's; ours is the local one.
                str(row.get_attr("IFA_LOCAL") or row.get_attr("IFA_ADDRESS"))
                for row in netlink.get_addr(family=number, index=index)
                if row["scope"] != RT_SCOPE_LINK
            ]
            for family, number in (("inet", socket.AF_INET), ("inet6", socket.AF_INET6))
        }


def _create_veth(name: str, addresses: Sequence[str], peer_name: str, peer_pid: int) -> None:
    from pyroute2 import IPRoute

    with IPRoute() as netlink:
        netlink.link(
            "add", ifname=name, kind="veth", peer={"ifname": peer_name, "net_ns_pid": peer_pid}
        )
    _bring_up(name, addresses)


def _configure_peer(name: str, addresses: Sequence[str], pid: int) -> None:
    setns(Path(f"/proc/{pid}/ns/net"), CLONE_NEWNET)
    _bring_up(name, addresses)


def _in_child(function: Callable[..., Any], *arguments: object) -> Any:
    """Run `function` in a forked child; return its result or raise what it says went wrong."""
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receive)
        os.write(send, json.dumps(_outcome(function, arguments)).encode())
        os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    outcome: Mapping[str, Any] = json.loads(text) if text else {"error": "its helper died"}
    if "error" in outcome:
        step = function.__name__.strip("_").replace("_", " ")
        raise LinkError(
            f"the link could not be set up: {step}: {outcome['error']}",
            hint="'zcdb run' needs veth and network namespaces in this kernel for a veth link;"
            " the loopback link needs neither",
        )
    return outcome["result"]


def _outcome(function: Callable[..., Any], arguments: tuple[object, ...]) -> dict[str, Any]:
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        return {"result": function(*arguments)}
    except NetlinkError as error:
        return {"error": _netlink_error("netlink", int(error.code), str(error))}
    except OSError as error:
        return {"error": error.strerror or str(error)}
    except ImportError as error:
        return {"error": f"a library is missing ({error})"}
