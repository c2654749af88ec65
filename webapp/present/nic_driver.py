"""The pages of a driver and of a device: every claim, with the place where it stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from zcdb.nics.advice import probed_subjects, shipped_capabilities
from zcdb.nics.advice_measured import Observations
from zcdb.nics.advice_subjects import (
    TOPICS_OF_CAPABILITIES,
    Subject,
    claims_about_card,
)
from zcdb.nics.capabilities import CAPABILITIES
from zcdb.nics.catalogue import Catalogue, Device, load
from zcdb.nics.claims import TOPICS, Claim, stale_reason
from zcdb.nics.facts import DriverFacts, id_to_text
from zcdb.nics.matrix import matrix
from zcdb.nics.probe import ProbedClaim
from zcdb.nics.speeds import MEDIA, speeds_in_name
from zcdb.nics.usecases import ATTACHED, load_cards, load_use_cases
from zcdb.nics.verdicts import RULES, WORDS, judge
from zcdb.store.queries.nics import StoredClaim
from zcdb.webapp.present.nic_cells import (
    GROUPS,
    CellView,
    cell_view,
    cells_of,
    speed_words,
)
from zcdb.webapp.present.nic_measured import (
    MeasuredCase,
    cases_over,
    measured_by_subject,
    names_of_driver,
)
from zcdb.webapp.present.nics import device_address, devices

SECTIONS = ("transmit", "receive", "packets", "time", "scale")


@dataclass(frozen=True, slots=True)
class ClaimView:
    """A statement by people, old kernels or machines.

    Attributes:
        about: titles of what it is about.
        document: title of the document; "" for kernels and machines.
        stale: why it is stale; "" if it is not.
        relations: (what it does to another claim, id of that one).
    """

    id: str
    about: tuple[str, ...]
    nic: str
    value: str
    conditions: str
    status: str
    is_hedged: bool
    kind: str
    author: str
    dated: str
    place: str
    document: str
    relations: tuple[tuple[str, str], ...]
    note: str
    stale: str


@dataclass(frozen=True, slots=True)
class CapabilityRow:
    """A capability of a driver: its cell in each scanned kernel, the newest last, and its claims.

    Attributes:
        searched: the kernel's name that a driver must use to have it.
    """

    capability: str
    title: str
    why: str
    searched: str
    cells: tuple[CellView, ...]
    claims: tuple[ClaimView, ...]


@dataclass(frozen=True, slots=True)
class CapabilityGroup:
    """Capabilities under one heading."""

    title: str
    rows: tuple[CapabilityRow, ...]


@dataclass(frozen=True, slots=True)
class UseLine:
    """What the rules say of a driver for one use."""

    use: str
    title: str
    address: str
    word: str
    verdict: str
    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device that a driver claims."""

    id: str
    address: str
    name: str
    speed: str
    cards: int


@dataclass(frozen=True, slots=True)
class DriverContent:
    """All that a driver's page says.

    Attributes:
        kernels: scanned kernels that have it; `gone_in` do not.
        uses: judged in the newest kernel that has it.
    """

    driver: str
    description: str
    config: str
    modules: tuple[str, ...]
    folder: str
    attached: str
    attached_why: str
    kernels: tuple[str, ...]
    gone_in: tuple[str, ...]
    speed: str
    speed_place: str
    media: tuple[str, ...]
    groups: tuple[CapabilityGroup, ...]
    uses: tuple[UseLine, ...]
    claims: tuple[ClaimView, ...]
    measured: tuple[MeasuredCase, ...]
    devices: tuple[DeviceRow, ...]
    other_ids: tuple[str, ...]
    unresolved_ids: int


@dataclass(frozen=True, slots=True)
class DeviceEntry:
    """A device on one bus, with the drivers that claim it."""

    id: str
    bus: str
    vendor: str
    name: str
    speed: str
    cards: tuple[tuple[str, str], ...]
    drivers: tuple[DriverContent, ...]


@dataclass(frozen=True, slots=True)
class DeviceContent:
    """All that a device's page says; one id may be a PCI and a USB device."""

    id: str
    entries: tuple[DeviceEntry, ...]


def claims_about(driver: str) -> list[Claim]:
    """Return the published claims about a driver or about a card of 2001 that it drives."""
    catalogue = load()
    claims = catalogue.claims
    found = {claim.id: claim for claim in catalogue.claims_about(driver)}
    for card in load_cards():
        if card.driver == driver:
            found |= {claim.id: claim for claim in claims_about_card(card, claims)}
    return [claim for claim in claims if claim.id in found]


def claim_view(claim: Claim, catalogue: Catalogue) -> ClaimView:
    """Return a claim of the catalogue as pages show it."""
    document = catalogue.documents.get(claim.document)
    return ClaimView(
        id=claim.id,
        about=tuple(
            CAPABILITIES[topic].title if topic in CAPABILITIES else TOPICS[topic]
            for topic in claim.about
        ),
        nic=claim.nic,
        value=claim.value,
        conditions=claim.conditions,
        status=claim.status,
        is_hedged=claim.hedged,
        kind="kernel source" if claim.kernel else "published",
        author=claim.author,
        dated=claim.date,
        place=claim.source,
        document=document.title if document else "",
        relations=claim.relations,
        note=claim.note,
        stale=stale_reason(claim, date.today(), catalogue.kernels) or "",
    )


def stored_claim_view(claim: StoredClaim) -> ClaimView:
    """Return a claim of this database as pages show it."""
    known = CAPABILITIES.get(claim.capability)
    state = f"{claim.value} ({claim.state})" if claim.state else claim.value
    return ClaimView(
        id=claim.id,
        about=(known.title if known else claim.capability,),
        nic=claim.subject,
        value=state,
        conditions="",
        status="claim",
        is_hedged=False,
        kind=claim.source_kind,
        author=f"environment {claim.environment_id[:8]}" if claim.environment_id else "",
        dated=claim.dated,
        place=f"Linux {claim.kernel}: {claim.place}" if claim.kernel else claim.place,
        document="",
        relations=(),
        note="",
        stale="",
    )


def driver_content(
    name: str,
    stored: Sequence[StoredClaim],
    probes: Mapping[str, Sequence[ProbedClaim]],
    observations: Observations,
) -> DriverContent | None:
    """Return the content of a driver's page; None if no scanned kernel has the driver."""
    catalogue = load()
    facts = catalogue.driver(name)
    if facts is None:
        return None
    seen = catalogue.seen(name)
    newest = matrix(seen[-1]).rows[name]
    claims = claims_about(name)
    mine = {name: probes[name]} if name in probes else {}
    subject = next(one for one in probed_subjects(seen[-1], mine) if one.id == name)
    return DriverContent(
        driver=name,
        description=facts.description,
        config=facts.config,
        modules=facts.modules,
        folder=facts.folder,
        attached=ATTACHED[newest.attachment.attached],
        attached_why=newest.attachment.why,
        kernels=seen,
        gone_in=tuple(one for one in catalogue.kernels if one not in seen),
        speed=speed_words(newest.mbit),
        speed_place=newest.speed_place,
        media=tuple(MEDIA[one] for one in newest.media),
        groups=_groups(name, seen, claims, stored, probes),
        uses=_uses(subject, observations),
        claims=tuple(claim_view(one, catalogue) for one in claims if not _capabilities_of(one)),
        measured=cases_over(names_of_driver(facts), observations),
        devices=_devices(facts),
        other_ids=tuple(
            id_to_text(one) for one in facts.ids if not device_address(id_to_text(one))
        ),
        unresolved_ids=facts.unresolved_ids,
    )


def _capabilities_of(claim: Claim) -> set[str]:
    """Return the capabilities that a claim speaks of, also in the words of its time."""
    found = {topic for topic in claim.about if topic in CAPABILITIES}
    for topic in claim.about:
        found.update(TOPICS_OF_CAPABILITIES.get(topic, ()))
    return found


def _groups(
    name: str,
    kernels: Sequence[str],
    claims: Iterable[Claim],
    stored: Iterable[StoredClaim],
    probes: Mapping[str, Sequence[ProbedClaim]],
) -> tuple[CapabilityGroup, ...]:
    catalogue = load()
    by_key: dict[str, list[ClaimView]] = {key: [] for key in CAPABILITIES}
    for claim in claims:
        for key in _capabilities_of(claim):
            by_key[key].append(claim_view(claim, catalogue))
    for one in stored:
        if one.capability in by_key:
            by_key[one.capability].append(stored_claim_view(one))
    cells = [cells_of(matrix(kernel).rows[name], probes) for kernel in kernels]
    shown: set[str] = set()
    groups = []
    for word in SECTIONS:
        title, keys = GROUPS[word]
        mine = [key for key in keys if key in CAPABILITIES and key not in shown]
        shown.update(mine)
        groups.append((title, mine))
    groups.append(("Others", [key for key in CAPABILITIES if key not in shown]))
    return tuple(
        CapabilityGroup(
            title,
            tuple(
                CapabilityRow(
                    capability=key,
                    title=CAPABILITIES[key].title,
                    why=CAPABILITIES[key].why,
                    searched=CAPABILITIES[key].token,
                    cells=tuple(cell_view(name, one[key]) for one in cells),
                    claims=tuple(by_key[key]),
                )
                for key in keys
            ),
        )
        for title, keys in groups
        if keys
    )


def _uses(subject: Subject, observations: Observations) -> tuple[UseLine, ...]:
    """Return what the rules say of a driver for every use, whatever its bus and speed."""
    lines = []
    known = shipped_capabilities(subject.kernel)
    for use in load_use_cases().values():
        found = measured_by_subject(use, [subject], observations)
        verdict = judge(use, subject, found.get(subject.id), known=known)
        first = verdict.reasons[0] if verdict.reasons else None
        lines.append(
            UseLine(
                use=use.id,
                title=use.title,
                address=f"/buy/{use.id}",
                word=verdict.word,
                verdict=WORDS[verdict.word],
                rule=RULES[verdict.rule][1],
                reason=f"{first.what}: {first.text}" if first else "",
            )
        )
    return tuple(lines)


def _devices(facts: DriverFacts) -> tuple[DeviceRow, ...]:
    rows = {}
    for one in facts.ids:
        word = ":".join(id_to_text(one).split(":")[:3])
        if not device_address(word) or "*" in word:
            continue
        device = devices().get(word) or devices().get(id_to_text(one))
        name = device.name if device else ""
        rows[word] = DeviceRow(
            id=word,
            address=device_address(word),
            name=name,
            speed=speed_words(speeds_in_name(name)) if name else "not known",
            cards=len(device.cards) if device else 0,
        )
    return tuple(rows.values())


def device_content(
    word: str,
    contents: Mapping[str, DriverContent],
) -> DeviceContent | None:
    """Return the content of a device's page; None if no driver claims it.

    Args:
        word: "vid:did", in lower case.
        contents: of every driver that `drivers_of_device` names.
    """
    entries = [
        DeviceEntry(
            id=one.id,
            bus=one.id.partition(":")[0],
            vendor=one.vendor,
            name=one.name,
            speed=speed_words(speeds_in_name(one.name)) if one.name else "not known",
            cards=tuple(sorted(one.cards.items())),
            drivers=tuple(contents[name] for name in one.drivers if name in contents),
        )
        for one in devices_of(word)
    ]
    return DeviceContent(word, tuple(entries)) if entries else None


def devices_of(word: str) -> list[Device]:
    """Return the devices with this vendor and device id, on either bus; subsystems count too."""
    found: dict[str, Device] = {}
    for bus in ("pci", "usb"):
        for known, one in devices().items():
            if known == f"{bus}:{word}" or known.startswith(f"{bus}:{word}:"):
                base = f"{bus}:{word}"
                before = found.get(base)
                drivers = (*before.drivers, *one.drivers) if before else one.drivers
                found[base] = Device(
                    base, one.vendor, one.name, one.cards, tuple(dict.fromkeys(drivers))
                )
    return list(found.values())
