"""What is judged: a driver in a scanned kernel, or a card of 2001, as abilities with their sources.

Both become a `Subject`, so that one set of rules judges them.  For a scanned
kernel the abilities are cells of the matrix; for the kernels of 2001 they are
drawn from claims: what a kernel's source enabled, and what people reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from zcdb.nics.capabilities import CAPABILITIES
from zcdb.nics.claims import Claim, version_key
from zcdb.nics.matrix import Cell, Level, Row, State
from zcdb.nics.speeds import Medium
from zcdb.nics.usecases import SPEEDS, Attached, Card

SourceKind = Literal["source", "published", "probed", "measured"]

FIRST_SCANNED = (3,)
"""Kernels before this one have cards and claims instead of a scan."""

TOPICS_OF_CAPABILITIES = {
    "hw_checksum": ("ip_csum",),
    "tx_csum": ("ip_csum",),
    "rx_csum": ("rxcsum",),
}
"""Topics of published claims that speak about capabilities in the words of their time."""

REMARKS = (
    "advice",
    "efficiency",
    "reputation",
    "zerocopy_effect",
    "zerocopy_throughput",
    "tx_csum_benefit",
    "availability",
    "driver_quality",
    "copies",
    "rx_copy",
    "rx_alignment",
    "interrupt_mitigation",
    "irq_sharing",
    "min_fragment",
    "half_duplex",
    "multicast",
    "speed",
    "throughput",
    "chipset",
)
"""Topics that a card's page repeats as remarks, in this order.  None of them moves a verdict."""

_TX_CHECKSUMS = frozenset(("ip_csum", "hw_csum"))

_VALUES: dict[str, State] = {"yes": "yes", "some": "some", "no": "no", "unknown": "unknown"}


@dataclass(frozen=True, slots=True)
class Source:
    """Where a statement stands.

    Attributes:
        place: "path:line" in a kernel, "document:line", or the id of a case.
        stated: kernel version or date.
        claim: id of the claim; "" for a scan.
    """

    kind: SourceKind
    place: str
    stated: str
    author: str = ""
    claim: str = ""


@dataclass(frozen=True, slots=True)
class Ability:
    """What a subject can do about one capability.

    Attributes:
        is_out_of_tree: it takes another driver than the kernel's.
    """

    capability: str
    state: State
    default: str = ""
    copies: bool = False
    condition: str = ""
    condition_class: str = ""
    why: str = ""
    level: Level = "advertised"
    is_out_of_tree: bool = False
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Remark:
    """Something people said about a card that no rule uses."""

    topic: str
    value: str
    status: str
    is_hedged: bool
    source: Source


@dataclass(frozen=True, slots=True)
class Subject:
    """A driver or a card of 2001.

    Attributes:
        id: of its entry on pages: the driver's name, or the card's id.
        kernel: in which it is judged.
        gone_in: a newer kernel without the driver; "" if there is none.
        measured_as: values of the factors for NIC and driver that mean it.
    """

    id: str
    name: str
    driver: str
    kernel: str
    attached: Attached
    vendors: tuple[str, ...]
    products: tuple[str, ...]
    mbit: tuple[int, ...]
    media: tuple[Medium, ...]
    gone_in: str
    abilities: Mapping[str, Ability]
    remarks: tuple[Remark, ...]
    measured_as: frozenset[str]


def source_of_claim(claim: Claim) -> Source:
    """Return where a claim stands."""
    if claim.kernel:
        return Source(
            "source", " ".join(claim.evidence), f"Linux {claim.kernel}", claim.author, claim.id
        )
    return Source("published", claim.source, claim.date, claim.author, claim.id)


def remark_of_claim(claim: Claim, topic: str) -> Remark:
    """Return a claim as a remark."""
    return Remark(topic, claim.value, claim.status, claim.hedged, source_of_claim(claim))


# -- a driver of a scanned kernel ------------------------------------------------------------------


def ability_of_cell(cell: Cell) -> Ability:
    """Return what a cell of the matrix says."""
    sources = [
        Source("source", f"{one.path}:{one.line}", f"Linux {cell.kernel}") for one in cell.evidence
    ]
    if cell.copying:
        sources.append(Source("source", cell.copying.evidence, f"Linux {cell.copying.kernel}"))
    return Ability(
        capability=cell.capability,
        state=cell.state,
        default=cell.default or "",
        copies=cell.copies,
        condition=cell.condition,
        condition_class=cell.condition_class,
        why=cell.copying.why if cell.copying else cell.why,
        level=cell.level,
        sources=tuple(sources),
    )


def subject_of_row(row: Row, kernel: str, claims: Iterable[Claim] = ()) -> Subject:
    """Return a driver of a scanned kernel as a subject.

    Args:
        claims: published claims about the driver; they are repeated as remarks only, since they are
            about other kernels.
    """
    name = row.driver.name
    return Subject(
        id=name,
        name=name,
        driver=name,
        kernel=kernel,
        attached=row.attachment.attached,
        vendors=row.vendors,
        products=row.products,
        mbit=row.mbit,
        media=row.media,
        gone_in=row.gone_in,
        abilities={key: ability_of_cell(cell) for key, cell in row.cells.items()},
        remarks=_remarks(claims),
        measured_as=frozenset((name, *row.driver.modules, *row.driver.aliases)),
    )


# -- a card of 2001 --------------------------------------------------------------------------------


def claims_about_card(card: Card, claims: Iterable[Claim]) -> list[Claim]:
    """Return the claims whose words mean this card, or that name its driver and no card."""
    return [
        claim
        for claim in claims
        if claim.nic in card.names or (not claim.nic and card.driver in claim.drivers)
    ]


def subject_of_card(card: Card, claims: Iterable[Claim], kernel: str) -> Subject:
    """Return a card of 2001 as a subject, judged in a kernel of its time.

    Args:
        claims: every claim of the catalogue; those read in newer kernels do not count.
    """
    known = [
        claim
        for claim in claims_about_card(card, claims)
        if not claim.kernel or version_key(claim.kernel) <= version_key(kernel)
    ]
    return Subject(
        id=card.id,
        name=card.name,
        driver=card.driver,
        kernel=kernel,
        attached="pci",
        vendors=(),
        products=(),
        mbit=(SPEEDS[card.speed],),
        media=(),
        gone_in="",
        abilities={key: _ability_of_claims(card, key, known, kernel) for key in CAPABILITIES},
        remarks=_remarks(known),
        measured_as=card.measured | card.names,
    )


def _remarks(claims: Iterable[Claim]) -> tuple[Remark, ...]:
    claims = list(claims)
    return tuple(
        remark_of_claim(claim, topic)
        for topic in REMARKS
        for claim in claims
        if topic in claim.about
    )


def _says(claim: Claim, key: str) -> bool:
    """Return whether a claim gives a capability a definite value.

    A source that was read and has no checksum of one kind was read for the other kind too.
    """
    if claim.value not in _VALUES or claim.status == "withdrawn":
        return False
    if claim.kernel and claim.value == "no" and key in _TX_CHECKSUMS:
        return not _TX_CHECKSUMS.isdisjoint(claim.about)
    return key in claim.about or any(
        key in TOPICS_OF_CAPABILITIES.get(topic, ()) for topic in claim.about
    )


def _ability_of_claims(card: Card, key: str, claims: list[Claim], kernel: str) -> Ability:
    """Return what claims say about one capability of a card.

    What the newest kernel that was read enabled counts first; what people reported counts where no
    kernel's source was read.  A card that worked for its author, but not with the stock kernel,
    has the capability with that condition.
    """
    saying = [claim for claim in claims if _says(claim, key)]
    sources = tuple(source_of_claim(claim) for claim in saying)
    copying = [one for one in claims if "copies" in one.about and one.kernel and one.value != "no"]
    read = max(
        (claim for claim in saying if claim.kernel),
        key=lambda claim: version_key(claim.kernel),
        default=None,
    )
    reported = {claim.value for claim in saying if not claim.kernel}
    if read is None and copying and key in ("sg", "ip_csum", "hw_csum"):
        return Ability(
            key,
            _VALUES[copying[0].value],
            copies=True,
            condition=copying[0].conditions,
            why=copying[0].note,
            sources=(*map(source_of_claim, copying), *sources),
        )
    if read is None:
        state: State = "unknown"
        if reported:
            state = _VALUES[reported.pop()] if len(reported) == 1 else "conflict"
        why = "" if sources else f"nobody said it, and Linux {kernel} was not read for it"
        return Ability(key, state, why=why, sources=sources)
    state = "yes" if read.value == "some" and read.id in card.meets else _VALUES[read.value]
    if state == "no" and "yes" in reported:
        note = f" ({read.note})" if read.note else ""
        condition = f"not with the driver of Linux {read.kernel}{note}"
        return Ability(key, "some", condition=condition, is_out_of_tree=True, sources=sources)
    return Ability(
        key,
        state,
        condition=read.conditions if state == "some" else "",
        why=read.note if state == "no" else "",
        sources=sources,
    )
