"""Netlink for the helper process: one exchange with the kernel, and its errors as sentences.

pyroute2 is imported inside the functions only: see `backend`.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from zcdb.host.settings.model import BackendError


def interface_index(name: str) -> int | None:
    """Return the kernel's number of an interface of this namespace."""
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return None


def required_index(name: str) -> int:
    """Return the kernel's number of an interface.

    Raises:
        BackendError: if there is none of that name.
    """
    index = interface_index(name)
    if index is None:
        raise BackendError(errno.ENODEV, f"there is no interface {name}")
    return index


@contextmanager
def netlink_errors(unsupported: str = "") -> Iterator[None]:
    """Turn pyroute2's errors into a `BackendError`.

    Args:
        unsupported: what EOPNOTSUPP means here; the kernel gives no text with it.
    """
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        yield
    except NetlinkError as error:
        number = abs(int(error.code))
        said = str(error.args[1]) if len(error.args) > 1 and error.args[1] else ""
        if number == errno.EOPNOTSUPP and unsupported:
            said = unsupported
        raise BackendError(number, said) from None


def device(name: str) -> dict[str, Any]:
    """Return the header of an ethtool message."""
    return {"attrs": [("ETHTOOL_A_HEADER_DEV_NAME", name)]}


def ethtool(message_class: Any, command: int, attributes: list[Any], *, answer: bool) -> list[Any]:
    """Send one ethtool message and return the answers; without `answer` only wait for its end.

    Raises:
        NetlinkError: pyroute2's; callers are inside `netlink_errors`.
    """
    from pyroute2.netlink import NLM_F_ACK, NLM_F_REQUEST
    from pyroute2.netlink.generic import GenericNetlinkSocket

    message = message_class()
    message["cmd"], message["version"], message["attrs"] = command, 1, attributes
    with GenericNetlinkSocket(ext_ack=True) as netlink:
        netlink.bind("ethtool", message_class)
        flags = NLM_F_REQUEST if answer else NLM_F_REQUEST | NLM_F_ACK
        return list(netlink.nlm_request(message, msg_type=netlink.prid, msg_flags=flags))
