"""The kernel's network counters: /proc/net/dev, softnet_stat, snmp, netstat, sockstat.

Pure parsers.  All of these files show the network namespace of the process that
opened them, except softnet_stat, which is the machine's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from zcdb.errors import HostError


class InterfaceCounters(NamedTuple):
    """One interface's row of /proc/net/dev, cumulative.

    A packet is what the kernel handed over at once: with segmentation offload many
    frames of the wire, on loopback and veth always the large one.
    """

    rx_bytes: int
    rx_packets: int
    rx_errors: int
    rx_dropped: int
    tx_bytes: int
    tx_packets: int
    tx_errors: int
    tx_dropped: int

    def since(self, before: InterfaceCounters) -> InterfaceCounters:
        """Return what was counted since; 0 where a driver was reset meanwhile."""
        return InterfaceCounters(
            *(max(0, now - then) for now, then in zip(self, before, strict=True))
        )

    def plus(self, other: InterfaceCounters) -> InterfaceCounters:
        """Return the sum of two interfaces."""
        return InterfaceCounters(*(one + two for one, two in zip(self, other, strict=True)))


NO_PACKETS = InterfaceCounters(0, 0, 0, 0, 0, 0, 0, 0)

_SENT_FROM = 8
"""The column of /proc/net/dev where the sent counters begin."""


def parse_net_dev(text: str, wanted: Collection[str]) -> dict[str, InterfaceCounters]:
    """Read the rows of some interfaces of /proc/net/dev.

    Raises:
        HostError: if such a row has not the sixteen columns of the documentation.
    """
    found: dict[str, InterfaceCounters] = {}
    for line in text.splitlines()[2:]:
        # Large counters may follow the colon without a space.
        name, colon, rest = line.rpartition(":")
        if name.strip() not in wanted:
            continue
        columns = rest.split()
        if not colon or len(columns) < 16 or not all(word.isdecimal() for word in columns):
            raise HostError(f"/proc/net/dev: {line[:60]!r} is not a name and sixteen numbers")
        numbers = [int(word) for word in columns]
        found[name.strip()] = InterfaceCounters(*numbers[:4], *numbers[_SENT_FROM : _SENT_FROM + 4])
    return found


class Softnet(NamedTuple):
    """One CPU's row of /proc/net/softnet_stat, cumulative.

    Attributes:
        processed: packets that its backlog or a driver's poll handled.
        dropped: packets that found its backlog full.
        squeezed: polls that ended for want of budget or time, with work left over.
    """

    processed: int
    dropped: int
    squeezed: int


def parse_softnet(text: str) -> dict[int, Softnet]:
    """Read /proc/net/softnet_stat: CPU -> its row.  Numbers are hexadecimal, and wrap at 32 bits.

    Raises:
        HostError: if a row has fewer than three columns.
    """
    found: dict[int, Softnet] = {}
    for place, line in enumerate(text.splitlines()):
        words = line.split()
        if len(words) < 3:
            raise HostError(f"/proc/net/softnet_stat: {line[:60]!r} has fewer than three columns")
        # Only newer kernels say which CPU a row is of; a CPU that is offline has none.
        cpu = int(words[12], 16) if len(words) > 12 else place
        found[cpu] = Softnet(*(int(word, 16) for word in words[:3]))
    return found


def softnet_since(now: Mapping[int, Softnet], before: Mapping[int, Softnet]) -> Softnet:
    """Return what all CPUs that are in both readings counted between them."""
    totals = [0, 0, 0]
    for cpu, row in now.items():
        if cpu in before:
            for place, (new, old) in enumerate(zip(row, before[cpu], strict=True)):
                totals[place] += (new - old) % 2**32
    return Softnet(*totals)


def parse_snmp(text: str) -> dict[str, int]:
    """Read /proc/net/snmp or /proc/net/netstat: "Tcp.RetransSegs" -> count.

    They have a line of names and a line of values for each protocol.

    Raises:
        HostError: if the two lines do not fit each other.
    """
    found: dict[str, int] = {}
    lines = text.splitlines()
    for names_line, values_line in zip(lines[::2], lines[1::2], strict=False):
        protocol, _, names = names_line.partition(":")
        same, _, values = values_line.partition(":")
        if protocol != same or len(names.split()) != len(values.split()):
            raise HostError(f"/proc/net/snmp: the lines of {protocol[:20]!r} do not fit each other")
        for name, value in zip(names.split(), values.split(), strict=True):
            found[f"{protocol}.{name}"] = int(value)
    return found


def grown(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    """Return by how much each counter grew, those that did not left out."""
    return {
        name: value - before[name]
        for name, value in now.items()
        if name in before and value > before[name]
    }


def parse_sockstat(text: str) -> dict[str, int]:
    """Read /proc/net/sockstat: "TCP.mem" -> pages, and the like."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        protocol, _, rest = line.partition(":")
        words = rest.split()
        for name, value in zip(words[::2], words[1::2], strict=False):
            if value.isdecimal():
                found[f"{protocol}.{name}"] = int(value)
    return found


def parse_schedstat(text: str) -> dict[int, int]:
    """Read /proc/schedstat: CPU -> ns for which tasks have waited to run there.

    The eighth number of a CPU's row in every version since 2.6.9 (field 9 with the name).
    """
    found: dict[int, int] = {}
    for line in text.splitlines():
        words = line.split()
        if words and words[0].startswith("cpu") and words[0][3:].isdecimal() and len(words) > 8:
            found[int(words[0][3:])] = int(words[8])
    return found
