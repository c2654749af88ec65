"""What to call a driver's cards in few words, from the names that id lists give its devices.

The lists name chips in the words of their vendors; for a table the chip alone
is enough, and functions for guests are no cards.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from zcdb.nics.facts import DriverFacts, id_to_text
from zcdb.nics.speeds import speeds_in_name

_NO_PRODUCT = re.compile(r"Virtual Function|\bVF\b|Partition\b|\bRDMA\b|Emulation|Connect-IB")
"""Names of functions, modes and InfiniBand: nothing that one buys as an Ethernet card."""

_SUFFIX = re.compile(
    r",? (?:Corporation|Corp\.?|Inc\.?(?: and subsidiaries)?|Ltd\.?|Co\.,? Ltd\.?"
    r"|Technolog(?:ies|y)|Semiconductor|Communications|Networks?|Systems?|Limited)(?=[ ,.]|$).*"
)
"""What a vendor's name ends with besides the name one knows."""

_CHIP = re.compile(
    r"(?!\d+(?:\.\d+)?-?(?:[GM]b?E?|Giga.*)$|.*Base.*|3Com$|[KC]X\d$)(?=.*\d)(?=.{3})"
    r"(?:.*[A-Za-z].*|\d{4,}.*)"
)
"""A word that names a chip: digits and letters, or four digits, but no speed."""


def vendors(driver: DriverFacts, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the vendors of a driver's devices by their short names, most devices first."""
    words = (":".join(id_to_text(one).split(":")[:2]) for one in driver.ids if one.bus != "of")
    found = Counter(_SUFFIX.sub("", name) for word in words if (name := names.get(word)))
    return tuple(name for name, _ in found.most_common())


def products(names: Iterable[str]) -> tuple[str, ...]:
    """Return short names of cards, the fastest first: the chip, or the family in brackets.

    >>> products(["MT27800 Family [ConnectX-5]", "X540 Virtual Function", "I210 Gigabit", ""])
    ('I210', 'ConnectX-5')
    >>> products(["Ethernet Controller X710 for 10GbE SFP+", "DSC Ethernet Controller"])
    ('X710', 'DSC Ethernet Controller')
    """
    found: dict[str, int] = {}
    for name in names:
        if not name or _NO_PRODUCT.search(name):
            continue
        short = _short_name(name)
        found[short] = max(found.get(short, 0), *speeds_in_name(name), 0)
    return tuple(sorted(found, key=lambda short: -found[short]))


def _short_name(name: str) -> str:
    chip, _, family = name.rpartition(" [")
    if chip.endswith("Family"):
        return family.rstrip("]")
    words = (word.strip("()[],") for word in name.split())
    return next((word for word in words if _CHIP.fullmatch(word)), name)
