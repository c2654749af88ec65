"""The data behind the advice: what each use asks of a card, which drivers are cards, cards of 2001.

The files are TOML, reviewed by people, and read strictly: an unknown key or
capability fails with file, entry and word.  No rule is here, and no verdict.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from zcdb.errors import ZcdbError
from zcdb.nics.capabilities import CAPABILITIES
from zcdb.nics.catalogue import DATA
from zcdb.nics.facts import DriverFacts
from zcdb.nics.speeds import MEDIA

FOLDER = DATA / "usecases"

Attached = Literal["pci", "usb", "board", "guest", "switch", "modem", "software", "other"]
ATTACHED: dict[Attached, str] = {
    "pci": "card in a PCI slot",
    "usb": "USB adapter",
    "board": "part of a processor or board",
    "guest": "device of a cloud or hypervisor",
    "switch": "port of a switch",
    "modem": "phone, modem or cable",
    "software": "made by software",
    "other": "other or older buses",
}
"""How a driver's devices are attached -> what to call it."""

SPEEDS: dict[str, int] = {
    "10m": 10,
    "100m": 100,
    "1g": 1000,
    "2.5g": 2500,
    "5g": 5000,
    "10g": 10_000,
    "25g": 25_000,
    "40g": 40_000,
    "50g": 50_000,
    "100g": 100_000,
    "200g": 200_000,
    "400g": 400_000,
    "800g": 800_000,
}
"""Word of an address -> Mbit/s."""

TITLES: dict[tuple[str, ...], str] = {
    ("ip_csum", "hw_csum"): "TX checksum",
    ("ipv6_csum", "hw_csum"): "TX checksum over IPv6",
    ("gro_hw", "lro"): "Hardware GRO or LRO",
}
"""Capabilities of which any will do -> a shorter title than all of theirs."""

EXPERIMENT_END = """
[link]
kind = "hosts"
sender = { ssh = "SENDER", interface = "eth0", address = "192.0.2.1" }
receiver = { ssh = "RECEIVER", interface = "eth0", address = "192.0.2.2" }

[measure]
repetitions = 10
duration = "2s"
seed = 2026
"""
"""The end of every experiment file that would settle something: names and addresses are yours."""

_GUEST_BUSES = frozenset(("virtio", "hv", "xenbus", "vio"))
_BOARD_BUSES = frozenset(("platform", "spi", "i2c", "ssb", "bcma", "fsl_mc", "macio"))


class UseCaseError(ZcdbError):
    """A data file of the advice breaks a rule."""


@dataclass(frozen=True, slots=True)
class Need:
    """A capability that a use asks for; any of `any_of` will do."""

    any_of: tuple[str, ...]
    why: str

    @property
    def title(self) -> str:
        """What to call it."""
        return TITLES.get(self.any_of) or " or ".join(
            CAPABILITIES[key].title for key in self.any_of
        )


@dataclass(frozen=True, slots=True)
class UseCase:
    """What one use asks of a card.

    Attributes:
        needs: without one of them the use gains nothing.
        expects: what a card of today has; without one it is good with conditions only.
        likes: decide nothing; they order cards within a verdict.
        factor: the factor whose levels `zero_copy` and `copying` are.
        metric: what decides between two measured cards.
        buses: how a card is attached, unless the reader asks for others.
        slowest, fastest: words of `SPEEDS`, unless the reader asks for others; "" is no limit.
        experiment: the head of an experiment file that would settle what is open.
    """

    id: str
    version: int
    title: str
    question: str
    summary: str
    needs: tuple[Need, ...]
    expects: tuple[Need, ...]
    likes: tuple[Need, ...]
    factor: str
    zero_copy: tuple[str, ...]
    copying: tuple[str, ...]
    metric: str
    buses: tuple[Attached, ...]
    slowest: str
    fastest: str
    medium: str
    experiment: str

    @property
    def experiment_file(self) -> str:
        """The whole experiment file; machines and addresses are the reader's to fill in."""
        return f"{self.experiment}\n{EXPERIMENT_END}"


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution and the series of the kernel it runs."""

    id: str
    name: str
    kernel: str


@dataclass(frozen=True, slots=True)
class Attachment:
    """How a driver's devices are attached, where that is not its bus.

    Attributes:
        why, source: the reason and where it stands; "" if the bus says it.
    """

    attached: Attached
    why: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Copying:
    """How a driver copies every packet although it advertises scatter-gather.

    Attributes:
        evidence: "path:line" in `kernel`.
    """

    why: str
    kernel: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Card:
    """A card of the founding threads.

    Attributes:
        names: words of claims (`nic`) that mean this card.
        meets: ids of claims about some cards whose condition this card meets.
        measured: values of the factors for NIC and driver that mean this card.
    """

    id: str
    name: str
    driver: str
    speed: str
    names: frozenset[str]
    meets: frozenset[str]
    measured: frozenset[str]


def _read(path: Path, table: str, keys: frozenset[str]) -> list[Mapping[str, Any]]:
    """Return the entries of a file; refuses unknown and missing keys."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UseCaseError(f"{path}: {error}") from error
    entries: list[Mapping[str, Any]] = data.get(table, [])
    optional = {"factor", "fastest", "medium", "meets"}
    for number, entry in enumerate(entries, start=1):
        name = f"{path}: {table} {entry.get('id', f'number {number}')}"
        unknown, missing = sorted(entry.keys() - keys), sorted(keys - optional - entry.keys())
        if unknown or missing:
            says = f"unknown key {unknown[0]!r}" if unknown else f"lacks {missing[0]!r}"
            raise UseCaseError(f"{name}: {says}", hint=f"known keys: {', '.join(sorted(keys))}")
    return entries


def _check(name: str, word: str, known: Collection[str]) -> str:
    if word not in known:
        raise UseCaseError(f"{name}: unknown word {word!r}", hint=f"one of {', '.join(known)}")
    return word


def _need(name: str, any_of: str, why: str) -> Need:
    return Need(tuple(_check(name, key, CAPABILITIES) for key in any_of.split("|")), why)


@lru_cache(maxsize=1)
def load_use_cases(path: Path = FOLDER / "presets.toml") -> Mapping[str, UseCase]:
    """Return the presets by id, in the order of the file.

    Raises:
        UseCaseError: naming file, entry and word.
    """
    keys = frozenset(UseCase.__dataclass_fields__)
    return {entry["id"]: _use_case(path, entry) for entry in _read(path, "use_cases", keys)}


def _use_case(path: Path, data: Mapping[str, Any]) -> UseCase:
    name = f"{path}: use_cases {data['id']}"
    for key in ("slowest", "fastest"):
        if data.get(key):
            _check(name, data[key], SPEEDS)
    if data.get("medium"):
        _check(name, data["medium"], MEDIA)
    for bus in data["buses"]:
        _check(name, bus, ATTACHED)
    return UseCase(
        id=data["id"],
        version=data["version"],
        title=data["title"],
        question=data["question"],
        summary=data["summary"],
        needs=tuple(_need(name, *need) for need in data["needs"]),
        expects=tuple(_need(name, *need) for need in data["expects"]),
        likes=tuple(_need(name, key, CAPABILITIES[key.split("|")[0]].why) for key in data["likes"]),
        factor=data.get("factor", "api"),
        zero_copy=tuple(data["zero_copy"]),
        copying=tuple(data["copying"]),
        metric=data["metric"],
        buses=tuple(data["buses"]),
        slowest=data["slowest"],
        fastest=data.get("fastest", ""),
        medium=data.get("medium", ""),
        experiment=data["experiment"].strip(),
    )


@lru_cache(maxsize=1)
def load_distributions(path: Path = FOLDER / "presets.toml") -> Mapping[str, Distribution]:
    """Return the distributions by id.

    Raises:
        UseCaseError: naming file, entry and word.
    """
    keys = frozenset(Distribution.__dataclass_fields__)
    return {entry["id"]: Distribution(**entry) for entry in _read(path, "distributions", keys)}


@lru_cache(maxsize=1)
def load_attachments(path: Path = FOLDER / "drivers.toml") -> Mapping[str, Attachment]:
    """Return driver -> how it is attached, for those whose buses do not say it.

    Raises:
        UseCaseError: naming file, entry and word.
    """
    found: dict[str, Attachment] = {}
    keys = frozenset(("names", "attached", "why", "source"))
    for entry in _read(path, "drivers", keys):
        _check(str(path), entry["attached"], ATTACHED)
        one = Attachment(entry["attached"], entry["why"], entry["source"])
        found |= dict.fromkeys(entry["names"], one)
    return found


@lru_cache(maxsize=1)
def load_copying(path: Path = FOLDER / "drivers.toml") -> Mapping[str, Copying]:
    """Return driver -> how it copies, for those that the scanner does not find.

    Raises:
        UseCaseError: naming file, entry and word.
    """
    found: dict[str, Copying] = {}
    for entry in _read(path, "copies", frozenset(("names", "why", "kernel", "evidence"))):
        one = Copying(entry["why"], entry["kernel"], entry["evidence"])
        found |= dict.fromkeys(entry["names"], one)
    return found


def attachment(driver: DriverFacts) -> Attachment:
    """Return how a driver's devices are attached."""
    stated = load_attachments().get(driver.name)
    if stated is not None:
        return stated
    buses = set(driver.buses)
    if buses & _GUEST_BUSES:
        return Attachment("guest")
    if "pci" in buses:
        return Attachment("pci")
    if "usb" in buses:
        return Attachment("usb")
    if buses & _BOARD_BUSES:
        return Attachment("board")
    return Attachment("software" if buses <= {"virtual"} and buses else "other")


@lru_cache(maxsize=1)
def load_cards(path: Path = FOLDER / "cards-2001.toml") -> tuple[Card, ...]:
    """Return the cards of the founding threads.

    Raises:
        UseCaseError: naming file, entry and word.
    """
    cards = []
    for entry in _read(path, "cards", frozenset(Card.__dataclass_fields__)):
        _check(f"{path}: cards {entry['id']}", entry["speed"], SPEEDS)
        cards.append(
            Card(
                id=entry["id"],
                name=entry["name"],
                driver=entry["driver"],
                speed=entry["speed"],
                names=frozenset(entry["names"]),
                meets=frozenset(entry.get("meets", ())),
                measured=frozenset(entry["measured"]),
            )
        )
    return tuple(cards)
