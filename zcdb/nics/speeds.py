"""Link speeds and media: what a driver's source names, and what a device's name says.

The source names the link modes that a driver can report for any of its chips:
an upper bound for one card, so pages call it the driver's maximum.  A device's
own name, where it states a speed, is nearer to the card.  Drivers that leave
the link to another layer (phylib, firmware) name few modes or none: then the
speed is not known, which is not the same as slow.

    python -m zcdb.nics.speeds TREE...

regenerates `data/speeds.json` from the trees of the catalogue's kernels.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from zcdb.errors import UsageError
from zcdb.nics.catalogue import DATA, CatalogueError, load
from zcdb.nics.facts import DriverFacts

Medium = Literal["rj45", "fibre", "direct-attach", "backplane"]

MEDIA: dict[Medium, str] = {
    "rj45": "twisted pair (RJ45)",
    "fibre": "fibre or SFP module",
    "direct-attach": "direct-attach copper",
    "backplane": "backplane",
}
"""Medium -> what to call it."""

_GIGABIT_SPEEDS = (1, 2.5, 5, 10, 20, 25, 40, 50, 56, 100, 200, 400, 800)
SPEEDS_MBIT = frozenset((10, 100, *(int(gigabits * 1000) for gigabits in _GIGABIT_SPEEDS)))
"""Ethernet's link speeds; other numbers in a source are no speeds."""

FILE = DATA / "speeds.json"
FORMAT = 1

_MODE = re.compile(r"(?:ETHTOOL_LINK_MODE|SUPPORTED|ADVERTISED)_(\d+)base(\w+?)_(?:Full|Half)")
_SPEED = re.compile(r"\bSPEED_(\d+)\b|\bMAC_(\d+)(?:FD|HD)?\b")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Speeds:
    """What a driver's source names.

    Attributes:
        mbit: every speed named, slowest first.
        media: media of the named link modes.
        place: "path:line" of the fastest one, and the kernel it was read in.
    """

    mbit: tuple[int, ...]
    media: tuple[Medium, ...]
    place: str
    kernel: str


def medium_of(mode: str) -> Medium | None:
    """Return the medium of a link mode's name after "base": "T", "SR4", "KX"; None if it has none.

    >>> [medium_of(mode) for mode in ("T", "SR4", "CR", "KX4")]
    ['rj45', 'fibre', 'direct-attach', 'backplane']
    """
    if mode.startswith("T"):
        return "rj45"
    if mode.startswith("K"):
        return "backplane"
    if mode.startswith("C"):
        return "direct-attach"
    if mode[0] in "SLEFDXV":
        return "fibre"
    return None


def read_speeds(tree: Path, driver: DriverFacts, kernel: str) -> Speeds | None:
    """Return the speeds that a driver's .c files name; None if they name none."""
    found: dict[int, str] = {}
    media: set[Medium] = set()
    for path in driver.sources:
        text = (tree / path).read_text(encoding="utf-8", errors="replace")
        # Comments become blank lines, so that lines still count.
        text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)
        for number, line in enumerate(text.split("\n"), start=1):
            for match in _MODE.finditer(line):
                _note(found, int(match[1]), f"{path}:{number}")
                if (medium := medium_of(match[2])) and int(match[1]) in SPEEDS_MBIT:
                    media.add(medium)
            for match in _SPEED.finditer(line):
                _note(found, int(match[1] or match[2]), f"{path}:{number}")
    if not found:
        return None
    mbit = tuple(sorted(found))
    return Speeds(mbit, tuple(one for one in MEDIA if one in media), found[mbit[-1]], kernel)


def _note(found: dict[int, str], mbit: int, place: str) -> None:
    if mbit in SPEEDS_MBIT:
        found.setdefault(mbit, place)


# -- names ----------------------------------------------------------------------------------------

_GIGABITS = re.compile(
    r"(?<![A-Za-z0-9])((?:\d+(?:\.\d+)?\s*-?G?b?E?/)*\d+(?:\.\d+)?)"
    r"\s?-?(?:Gigabit\b|GigE\b|G?GbE\b|GBASE|Gb/s|Gbps|Gb\b|GE\b|G\b)"
)
_MEGABITS = re.compile(r"\b(?:10/100/(1000)|10/(100)|(1000)\s?-?Base|(100)\s?-?Base|(10)\s?-?Base)")
_WORDS = ((re.compile(r"\bFast Ethernet|FEther"), 100), (re.compile(r"\bGigabit|\bGigE"), 1000))
_PORTS: tuple[tuple[re.Pattern[str], Medium], ...] = (
    (re.compile(r"backplane|\bKR\b|\bKX\d?\b", re.I), "backplane"),
    (re.compile(r"SFP|XFP|fib(?:er|re)|optic|\b(?:SR|LR|SX|LX)\b", re.I), "fibre"),
    (re.compile(r"base-?tx?\b|RJ-?45|copper|\bNBase-T", re.I), "rj45"),
    (re.compile(r"\bCX4\b|\bDA\d?\b", re.I), "direct-attach"),
)


def speeds_in_name(name: str) -> tuple[int, ...]:
    """Return the speeds in Mbit/s that a device's name states, slowest first; () if it states none.

    >>> speeds_in_name("BCM57454 NetXtreme-E 10Gb/25Gb/40Gb/50Gb/100Gb Ethernet")
    (10000, 25000, 40000, 50000, 100000)
    >>> speeds_in_name("SFC9220 10/40G Ethernet Controller")
    (10000, 40000)
    >>> speeds_in_name("I210 Gigabit Network Connection")
    (1000,)
    >>> speeds_in_name("RTL-8100/8101L/8139 PCI Fast Ethernet Adapter")
    (100,)
    """
    found: set[float] = set()
    for match in _GIGABITS.finditer(name):
        found.update(float(number) * 1000 for number in re.findall(r"\d+(?:\.\d+)?", match[1]))
    for match in _MEGABITS.finditer(name):
        found.update(float(number) for number in match.groups() if number)
    if not found:
        found.update(mbit for word, mbit in _WORDS if word.search(name))
    return tuple(sorted(int(mbit) for mbit in found if mbit in SPEEDS_MBIT))


def media_in_name(name: str) -> tuple[Medium, ...]:
    """Return the media that a device's name states."""
    return tuple(medium for pattern, medium in _PORTS if pattern.search(name))


# -- data -----------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def load_speeds(path: Path = FILE) -> Mapping[str, Speeds]:
    """Return driver -> the speeds that its source names.

    Raises:
        CatalogueError: if the file breaks the format.
    """
    data = json.loads(path.read_text(encoding="utf-8"))
    if data.get("format") != FORMAT:
        raise CatalogueError(
            f"{path}: is not a file of speeds of format {FORMAT}",
            hint="regenerate it: python -m zcdb.nics.speeds TREE...",
        )
    found = {}
    for driver, (mbit, media, place, kernel) in data["drivers"].items():
        strange = [one for one in mbit if one not in SPEEDS_MBIT]
        strange += [one for one in media if one not in MEDIA]
        if strange or not mbit:
            raise CatalogueError(f"{path}: driver {driver}: unknown word {strange or mbit!r}")
        found[driver] = Speeds(tuple(mbit), tuple(media), place, kernel)
    return found


def write_speeds(path: Path, speeds: Mapping[str, Speeds]) -> None:
    """Write the speeds, a line a driver."""
    lines = [
        f"{json.dumps(name)}:"
        + json.dumps([one.mbit, one.media, one.place, one.kernel], separators=(",", ":"))
        for name, one in sorted(speeds.items())
    ]
    path.write_text(
        f'{{"format":{FORMAT},"drivers":{{\n' + ",\n".join(lines) + "\n}}\n", encoding="utf-8"
    )


def regenerate(trees: Iterable[Path]) -> dict[str, Speeds]:
    """Return the speeds of every driver of the catalogue, from the newest tree that has it.

    Raises:
        UsageError: if a folder is the tree of no kernel in the catalogue.
    """
    catalogue = load()
    known = {tuple(one.split(".")[:2]): one for one in catalogue.kernels}
    found: dict[str, Speeds] = {}
    for tree in trees:
        makefile = (tree / "Makefile").read_text(encoding="utf-8")
        numbers = re.findall(r"^(?:VERSION|PATCHLEVEL) = (\d+)", makefile, re.MULTILINE)
        kernel = known.get(tuple(numbers[:2]))
        if kernel is None:
            raise UsageError(f"{tree}: Linux {'.'.join(numbers)} is not in the catalogue")
        for name in catalogue.driver_names:
            driver = catalogue.driver(name, kernel)
            newest = catalogue.seen(name)[-1]
            if driver and newest == kernel and (one := read_speeds(tree, driver, kernel)):
                found[name] = one
    return found


if __name__ == "__main__":
    write_speeds(FILE, regenerate(Path(argument) for argument in sys.argv[1:]))
