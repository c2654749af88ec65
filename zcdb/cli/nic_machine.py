"""This machine's cards for `zcdb nic`: what the kernel tells of each interface, joined.

The facts come from `zcdb.host`, XDP features and time stamps by netlink.
"""

from __future__ import annotations

import platform
import socket
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zcdb.nics.cards import Card
    from zcdb.nics.summary import Verdict


def interfaces() -> list[str]:
    """Return the interfaces of this process's network namespace."""
    return [name for _, name in socket.if_nameindex()]


def machine_cards(names: Sequence[str]) -> list[Card]:
    """Return the cards of this machine: those with a device first.

    Raises:
        UsageError: if there is no interface of a name.
    """
    from zcdb.errors import UsageError
    from zcdb.host.ethtool import EthtoolReader
    from zcdb.host.nicfacts import interface_facts
    from zcdb.nics import netlink
    from zcdb.nics.cards import from_facts

    existing = interfaces()
    for name in names:
        if name not in existing:
            raise UsageError(
                f"there is no interface {name!r} here", hint=f"there are {', '.join(existing)}"
            )
    found = []
    with EthtoolReader() as reader:
        for name in names:
            facts = interface_facts(Path("/"), name, reader, lambda address: "")
            told = netlink.xdp_features(name), netlink.timestamps(name)
            found.append(from_facts(name, facts, xdp=told[0], timestamps=told[1]))
    return sorted(found, key=lambda card: (card.bus is None, names.index(card.interface)))


def captured_cards(files: Sequence[Path]) -> list[Card]:
    """Return the cards that captures of one machine describe.

    Raises:
        UsageError: if a file cannot be read or none says anything of a card.
    """
    from zcdb.errors import UsageError
    from zcdb.importers import read
    from zcdb.nics import captures

    results, reasons = [], []
    for path in files:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error
        reading = read(data, str(path))
        results += [(result.tool, result.details) for result in reading.results]
        reasons += [refusal.reason for refusal in reading.refused]
    cards = captures.cards(results)
    if not cards:
        why = f": {reasons[0]}" if reasons else ""
        raise UsageError(
            f"{', '.join(map(str, files))}: nothing about a network card{why}",
            hint="captures of ethtool -k, -i, -l, -T, of lspci -nn and of ip -j -d link are read.",
        )
    return cards


def verdicts(cards: Sequence[Card], kernel: str = "") -> list[Verdict]:
    """Return what is to be said of each card."""
    from zcdb.nics import catalogue, summary

    known = catalogue.load()
    return [summary.verdict(card, known, kernel) for card in cards]


def this_kernel() -> str:
    """Return the running kernel's release."""
    return platform.release()
