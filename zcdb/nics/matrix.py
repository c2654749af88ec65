"""Drivers against capabilities in one kernel: every cell has a word, a kernel and its evidence.

A cell is *yes* (since a kernel), *yes, with conditions*, *no*, *not applicable*,
*unknown* or *conflict*; it is never blank.  What the source alone shows is
built once per kernel; what machines reported is laid over it by `with_probes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from zcdb.nics.capabilities import CAPABILITIES
from zcdb.nics.catalogue import Catalogue, load
from zcdb.nics.claims import version_key
from zcdb.nics.compare import PRESENT, since
from zcdb.nics.facts import Default, DriverFacts, Evidence, Fact, TreeFacts, id_to_text
from zcdb.nics.matrix_names import products, vendors
from zcdb.nics.probe import ProbedClaim
from zcdb.nics.speeds import Medium, load_speeds, media_in_name, speeds_in_name
from zcdb.nics.usecases import Attachment, Copying, attachment, load_copying

State = Literal["yes", "some", "no", "not_applicable", "unknown", "conflict"]
Level = Literal["advertised", "probed", "measured"]

STATES: dict[State, str] = {
    "yes": "yes",
    "some": "yes, with conditions",
    "no": "no",
    "not_applicable": "not applicable",
    "unknown": "unknown",
    "conflict": "conflict",
}
"""State of a cell -> the word on pages."""

LEVELS: dict[Level, str] = {
    "advertised": "the driver's source says so",
    "probed": "a real machine reported it",
    "measured": "a measurement shows it",
}
"""Evidence level -> what it means, the weakest first."""

CONDITIONS = {
    "chip": "depends on the chip",
    "firmware": "depends on the firmware or what the device reports",
    "pf-vf": "depends on the function, physical or virtual",
    "host": "depends on the host or hypervisor",
    "dma": "depends on DMA addressing",
    "mode": "depends on the mode of the card",
    "kconfig": "depends on the kernel's configuration",
}
"""Class of a condition -> how to say it."""

_ONLY_PCI = frozenset(("sriov",))
_NOT_ON_USB = frozenset(("highdma",))
_HARDWARE_ONLY = frozenset(("hwts_tx", "hwts_rx", "coal_rx_usecs", "coal_tx_usecs", "sriov"))


@dataclass(frozen=True, slots=True)
class Cell:
    """What is known about one capability of one driver in one kernel.

    Attributes:
        since: the oldest scanned kernel from which on it is there; "" if it is not there.
        is_first_seen: an older scanned kernel had the driver without it.
        condition: in words, with the names the source tests; "" without one.
        copies: the driver advertises it and copies every packet.
        copying: how it copies, where a person read that.
        level: the strongest evidence.
        why: why it is not applicable, unknown or in conflict.
    """

    capability: str
    state: State
    kernel: str
    since: str = ""
    is_first_seen: bool = False
    default: Default | None = None
    condition: str = ""
    condition_class: str = ""
    copies: bool = False
    copying: Copying | None = None
    evidence: tuple[Evidence, ...] = ()
    level: Level = "advertised"
    why: str = ""

    @property
    def is_present(self) -> bool:
        """Whether some device of the driver has it."""
        return self.state in PRESENT


@dataclass(frozen=True, slots=True)
class Row:
    """A driver in one kernel.

    Attributes:
        vendors: of its devices, the one with most first.
        products: what its devices are called, as far as names are known, without guests' functions.
        mbit: link speeds that its devices' names or its source name, slowest first.
        speed_place: "path:line" of the fastest that the source names; "" if it names none.
        gone_in: the oldest newer kernel of the catalogue that has no such driver; "" if all do.
    """

    driver: DriverFacts
    attachment: Attachment
    vendors: tuple[str, ...]
    products: tuple[str, ...]
    mbit: tuple[int, ...]
    speed_place: str
    media: tuple[Medium, ...]
    gone_in: str
    cells: Mapping[str, Cell]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Every driver of one kernel."""

    kernel: str
    package: str
    rows: Mapping[str, Row]


def condition_words(fact: Fact) -> str:
    """Return a fact's condition in words: "depends on the chip: mac.type, e1000_82576"."""
    if fact.value != "some":
        return ""
    says = CONDITIONS.get(fact.condition_class, "depends on the card")
    return f"{says}: {', '.join(fact.conditions)}" if fact.conditions else says


def nearest_kernel(wanted: str, known: Iterable[str]) -> str | None:
    """Return the newest known kernel that is not newer than `wanted`; None if all are newer.

    A point release counts as its series: 6.12 means 6.12.117, and so does 6.12.200.
    """
    series = version_key(wanted)[:2]
    older = [kernel for kernel in known if version_key(kernel)[:2] <= series]
    return max(older, key=version_key, default=None)


def build_matrix(catalogue: Catalogue, kernel: str) -> Matrix:
    """Return the matrix of a scanned kernel.

    Raises:
        KeyError: if the catalogue has no such kernel.
    """
    trees = [tree for tree in catalogue.trees if version_key(tree.kernel) <= version_key(kernel)]
    tree = {one.kernel: one for one in catalogue.trees}[kernel]
    existing = {
        key
        for driver in tree.drivers.values()
        for key, fact in driver.facts.items()
        if fact.value != "no"
    }
    rows = {
        name: _row(catalogue, driver, trees, existing)
        for name, driver in sorted(tree.drivers.items())
    }
    return Matrix(kernel, catalogue.packages.get(kernel, ""), rows)


@lru_cache(maxsize=8)
def matrix(kernel: str) -> Matrix:
    """Return the matrix of a scanned kernel of the catalogue as shipped, built once."""
    return build_matrix(load(), kernel)


def _row(
    catalogue: Catalogue, driver: DriverFacts, trees: list[TreeFacts], existing: set[str]
) -> Row:
    kernel = trees[-1].kernel
    where = attachment(driver)
    names = [catalogue.names.get(id_to_text(one), "") for one in driver.ids]
    speeds = load_speeds().get(driver.name)
    mbit = {speed for name in names for speed in speeds_in_name(name)}
    mbit |= set(speeds.mbit if speeds else ()) | set(speeds_in_name(driver.description))
    media = {medium for name in names for medium in media_in_name(name)}
    media |= set(speeds.media if speeds else ())
    seen = catalogue.seen(driver.name)
    newer = [one for one in catalogue.kernels if version_key(one) > version_key(kernel)]
    return Row(
        driver=driver,
        attachment=where,
        vendors=vendors(driver, catalogue.names),
        products=products(names),
        mbit=tuple(sorted(mbit)),
        speed_place=speeds.place if speeds else "",
        media=tuple(sorted(media)),
        gone_in=next((one for one in newer if one not in seen), ""),
        cells={key: _cell(driver, key, trees, existing, where) for key in CAPABILITIES},
    )


def _cell(
    driver: DriverFacts, key: str, trees: list[TreeFacts], existing: set[str], where: Attachment
) -> Cell:
    kernel = trees[-1].kernel
    fact = driver.facts[key]
    if fact.value == "no":
        why = _not_applicable(key, kernel, existing, where)
        return Cell(key, "not_applicable" if why else "no", kernel, why=why)
    if fact.value == "unknown":
        note = fact.note or "the driver names it, and no rule of the scanner says what for"
        return Cell(key, "unknown", kernel, evidence=fact.evidence, why=note)
    start = since(trees, driver.name, key)
    copying = load_copying().get(driver.name) if key == "sg" else None
    return Cell(
        capability=key,
        state=fact.value,
        kernel=kernel,
        since=start.kernel if start else kernel,
        is_first_seen=bool(start and start.is_first_seen),
        default=fact.default,
        condition=condition_words(fact),
        condition_class=fact.condition_class,
        copies=fact.copies or copying is not None,
        copying=copying,
        evidence=fact.evidence,
    )


def _not_applicable(key: str, kernel: str, existing: set[str], where: Attachment) -> str:
    """Return why a capability that a driver lacks makes no sense for it; "" if it would."""
    if key not in existing:
        return f"no driver of Linux {kernel} has it"
    if where.attached == "software" and key in _HARDWARE_ONLY:
        return "there is no hardware behind it"
    if where.attached == "usb" and key in _ONLY_PCI | _NOT_ON_USB:
        return "USB has no such thing: the host controller moves the bytes"
    if where.attached in ("board", "other") and key in _ONLY_PCI:
        return "only PCI has functions for guests"
    return ""


def row_with_probes(row: Row, probes: Sequence[ProbedClaim]) -> Row:
    """Return a driver with what machines showed about it laid over its cells."""
    cells = {
        key: with_probes(cell, [probe for probe in probes if probe.capability == key])
        for key, cell in row.cells.items()
    }
    return replace(row, cells=cells)


def with_probes(cell: Cell, probes: Iterable[ProbedClaim]) -> Cell:
    """Return a cell with what machines of its kernel's series reported laid over the source.

    A machine that has what the source calls *no*, and one that lacks what the source gives to every
    device, are conflicts: one of the two is wrong, and a person must look.
    """
    mine = [probe for probe in probes if _same_series(probe.kernel, cell.kernel)]
    if not mine:
        return cell
    contradicting = {"no": "yes", "yes": "no"}.get(cell.state)
    against = [probe for probe in mine if probe.value == contradicting]
    if against:
        says = (
            f"the source says {STATES[cell.state]}, a machine with Linux {against[0].kernel} says"
        )
        return replace(cell, state="conflict", level="probed", why=f"{says} {against[0].value}")
    if cell.state == "unknown":
        values = {probe.value for probe in mine}
        state: State = "some" if len(values) > 1 else mine[0].value
        return replace(
            cell, state=state, level="probed", since=cell.kernel if "yes" in values else ""
        )
    return replace(cell, level="probed")


def _same_series(one: str, other: str) -> bool:
    return version_key(one)[:2] == version_key(other)[:2]
