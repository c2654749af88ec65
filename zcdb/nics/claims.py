"""Claims: statements that a card or driver can or cannot do something, by people or by old kernels.

A claim is a fact with its author, its date and the place where it stands; the
wording of documents is not kept.  The files are TOML, reviewed by people, and
read strictly: an unknown word, a missing source or a missing date fails with
file, claim and value.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal

from zcdb.errors import ZcdbError
from zcdb.nics.capabilities import CAPABILITIES

Status = Literal[
    "claim",
    "question",
    "gap",
    "disputed",
    "questioned",
    "contested",
    "contradicted",
    "denied",
    "withdrawn",
]
STATUSES = frozenset(Status.__args__)  # type: ignore[attr-defined]
SUBJECTS = frozenset(("nic", "stack", "tuning", "link", "resource"))
VALUES = frozenset(("yes", "some", "no", "unknown"))

TOPICS: dict[str, str] = {
    "hw_checksum": "checksums in hardware, TX at least",
    "tx_csum": "TX checksum",
    "rx_csum": "RX checksum, advertised or not",
    "tx_csum_benefit": "what the TX checksum brings",
    "sg_alone_benefit": "what scatter-gather brings without a checksum",
    "sg_chain_length": "how well a card follows chains of buffers",
    "sg_policy": "when the stack uses scatter-gather",
    "buffers_per_packet": "buffers that a packet takes",
    "min_fragment": "the shortest fragment a card takes well",
    "copies": "the driver copies every packet",
    "rx_copy": "received packets are copied",
    "rx_alignment": "alignment that received packets need",
    "interrupt_mitigation": "interrupts per packet",
    "irq_sharing": "who shares the interrupt line",
    "pio_vs_mmio": "port or memory access to registers",
    "pci_bandwidth": "the bus as the limit",
    "bus": "the bus as the limit, other buses",
    "mtu": "MTU",
    "speed": "link speed",
    "duplex": "duplex of the link",
    "half_duplex": "behaviour at half duplex",
    "autonegotiation": "whether to trust it",
    "chipset": "the chip of a card",
    "multicast": "multicast filtering",
    "module_parameter": "a module parameter",
    "driver_base_cost": "CPU cost of a driver besides the payload",
    "driver_quality": "quality of a driver",
    "memory_use": "memory per packet",
    "tx_descriptor_cost": "cost of more ring entries",
    "write_cost": "cost of write() and send()",
    "zerocopy_cost": "cost where zero copy does not help",
    "zerocopy_effect": "effect of zero copy",
    "zerocopy_support": "who supports zero copy",
    "zerocopy_throughput": "throughput with zero copy",
    "copy_avoidance_throughput": "throughput with copy avoidance",
    "copy_avoidance": "copy avoidance",
    "throughput": "throughput",
    "nfs_throughput": "throughput over NFS",
    "service_demand": "CPU per payload",
    "rx_packets_on_sender": "packets that come back to the sender",
    "skb_linearize": "who pays for linearising",
    "scaling": "several cards at once",
    "efficiency": "efficiency among its kind",
    "advice": "whether to buy",
    "reputation": "reputation",
    "availability": "whether it can be bought",
    "knowledge_gap": "what nobody knew",
    "resource": "a page about cards",
    "tuning": "a setting that helps",
    "tcp_cork": "TCP_CORK",
    "tx-nocache-copy": "copying past the cache",
    "cpu_affinity": "binding to CPUs",
}
"""What a claim may be about, besides the capabilities."""

_DATE = re.compile(r"\d{4}(?:-\d{2}(?:-\d{2})?)?(?:/\d{4}(?:-\d{2}(?:-\d{2})?)?)?")
_KEYS = frozenset(
    """id subject about author date document lines kernel evidence nic drivers value conditions
    status hedged relations note""".split()  # noqa: SIM905
)
_ID = re.compile(r"[a-z0-9][a-z0-9._-]*")


class ClaimError(ZcdbError):
    """A claims file breaks a rule."""


@dataclass(frozen=True, slots=True)
class Document:
    """Where published claims stand.

    Attributes:
        text: name of the transcript in which lines are counted.
    """

    key: str
    title: str
    published: str
    text: str


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement.

    Attributes:
        subject: nic, stack, tuning, link or resource.
        about: keys of `CAPABILITIES` or `TOPICS`.
        date: ISO date, month or year; "first/last" where only bounds are known.
        document: key of a `Document`; "" for claims read in a kernel's source.
        lines: first and last line in the document's transcript.
        kernel: version whose source was read; "" for published claims.
        evidence: "path:line" places in that kernel.
        value: yes, some, no, unknown for capabilities; a short phrase for other topics.
        hedged: the author said it with a reservation.
        relations: (kind, id of the other claim).
    """

    id: str
    subject: str
    about: tuple[str, ...]
    author: str
    date: str
    document: str
    lines: tuple[int, int] | None
    kernel: str
    evidence: tuple[str, ...]
    nic: str
    drivers: tuple[str, ...]
    value: str
    conditions: str
    status: str
    hedged: bool
    relations: tuple[tuple[str, str], ...]
    note: str

    @property
    def source(self) -> str:
        """Where it stands, in words: "lkml-2001-zerocopy:21-22" or "linux 2.4.16 path:line"."""
        if self.document and self.lines:
            first, last = self.lines
            return f"{self.document}:{first}" + (f"-{last}" if last != first else "")
        return f"linux {self.kernel} {' '.join(self.evidence)}"


def stale_reason(claim: Claim, on: date, kernels: Iterable[str] = ()) -> str | None:
    """Return why a claim is stale on a day; None if it is not.

    Stale is what is older than a year, or was read in a kernel that more than
    two of the catalogue's kernels have followed.

    Args:
        kernels: versions in the catalogue.
    """
    return stale_because(claim.kernel, claim.date, on, kernels)


def stale_because(kernel: str, stated: str, on: date, kernels: Iterable[str] = ()) -> str | None:
    """Return why a statement is stale on a day; None if it is not.

    Args:
        kernel: the version it holds for; "" if it names none.
        stated: ISO date, month or year; of "first/last" the last counts.
        kernels: versions in the catalogue.
    """
    if kernel:
        newer = [one for one in kernels if series(one) > series(kernel)]
        if len(newer) > 2:
            return f"read in Linux {kernel}; the catalogue has {len(newer)} newer kernels"
    last = stated.rpartition("/")[2]
    year, month, day = (int(part) for part in (last + "-12-28").split("-")[:3])
    if (on - date(year, month, day)).days > 365:
        return f"stated {last}, more than a year ago"
    return None


def version_key(version: str) -> tuple[int, ...]:
    """Return a version as numbers, so that 6.12 is newer than 6.2."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def series(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version: distributions number point releases their way."""
    return version_key(version)[:2]


def read_claims(path: Path) -> tuple[dict[str, Document], list[Claim]]:
    """Return the documents and claims of one file.

    Raises:
        ClaimError: if the file is no TOML or breaks a rule; names file, claim and value.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ClaimError(f"{path}: {error}") from error
    unknown = sorted(data.keys() - {"documents", "claims"})
    if unknown:
        raise ClaimError(
            f"{path}: unknown table {unknown[0]!r}",
            hint="a claims file has [documents.<key>] and [[claims]]",
        )
    documents = {
        key: Document(key, one["title"], one["published"], one["text"])
        for key, one in data.get("documents", {}).items()
    }
    claims = [
        _claim(path, number, one, documents)
        for number, one in enumerate(data.get("claims", []), start=1)
    ]
    return documents, claims


def check_together(claims: Iterable[Claim]) -> None:
    """Check what only all files together show: ids are unique, relations lead somewhere.

    Raises:
        ClaimError: naming the claim.
    """
    seen: set[str] = set()
    claims = list(claims)
    for claim in claims:
        if claim.id in seen:
            raise ClaimError(f"claim {claim.id}: the id is used twice")
        seen.add(claim.id)
    for claim in claims:
        for kind, other in claim.relations:
            if other not in seen:
                raise ClaimError(f"claim {claim.id}: {kind} {other!r}, which is no claim")


def _claim(
    path: Path, number: int, data: Mapping[str, Any], documents: Mapping[str, Document]
) -> Claim:
    name = f"{path}: claim {data.get('id', f'number {number}')}"
    unknown = sorted(data.keys() - _KEYS)
    if unknown:
        raise ClaimError(
            f"{name}: unknown key {unknown[0]!r}", hint=f"known keys: {', '.join(sorted(_KEYS))}"
        )
    _check_words(name, data)
    _check_source(name, data, documents)
    lines = data.get("lines")
    first, last = (lines, lines) if isinstance(lines, int) else lines or (0, 0)
    return Claim(
        id=data["id"],
        subject=data.get("subject", "nic"),
        about=tuple(data["about"]),
        author=data["author"],
        date=str(data["date"]),
        document=data.get("document", ""),
        lines=(first, last) if lines else None,
        kernel=data.get("kernel", ""),
        evidence=tuple(data.get("evidence", ())),
        nic=data.get("nic", ""),
        drivers=tuple(data.get("drivers", ())),
        value=data["value"],
        conditions=data.get("conditions", ""),
        status=data.get("status", "claim"),
        hedged=data.get("hedged", False),
        relations=tuple((kind, other) for kind, other in data.get("relations", ())),
        note=data.get("note", ""),
    )


def _check_words(name: str, data: Mapping[str, Any]) -> None:
    """Refuse words that no registry knows."""
    if not _ID.fullmatch(data.get("id", "")):
        raise ClaimError(f"{name}: the id {data.get('id')!r} must be lower case, digits, - . _")
    about = data.get("about") or []
    for topic in about:
        if topic not in CAPABILITIES and topic not in TOPICS:
            raise ClaimError(
                f"{name}: unknown topic {topic!r}",
                hint="known: the capabilities and zcdb.nics.claims.TOPICS",
            )
    if not about:
        raise ClaimError(f"{name}: says nothing about what it is; give 'about'")
    value = data.get("value")
    if not isinstance(value, str) or not value:
        raise ClaimError(f"{name}: has no value")
    if data.get("kernel") and value not in VALUES:
        raise ClaimError(
            f"{name}: the value {value!r} of a kernel's source must be one of"
            f" {', '.join(sorted(VALUES))}"
        )
    for key, allowed in (("subject", SUBJECTS), ("status", STATUSES)):
        if data.get(key, next(iter(allowed))) not in allowed:
            raise ClaimError(
                f"{name}: unknown {key} {data[key]!r}", hint=f"one of {', '.join(sorted(allowed))}"
            )


def _check_source(name: str, data: Mapping[str, Any], documents: Mapping[str, Document]) -> None:
    """Refuse a claim without author, date or place."""
    if not data.get("author"):
        raise ClaimError(f"{name}: has no author")
    if not _DATE.fullmatch(str(data.get("date", ""))):
        raise ClaimError(
            f"{name}: the date {data.get('date')!r} is no ISO date",
            hint="write 2001-01-27, or first/last where only bounds are known",
        )
    if data.get("document"):
        if data["document"] not in documents:
            raise ClaimError(f"{name}: unknown document {data['document']!r}")
        if not data.get("lines"):
            raise ClaimError(f"{name}: names a document but no lines")
    elif not (data.get("kernel") and data.get("evidence")):
        raise ClaimError(
            f"{name}: has no source", hint="give document and lines, or kernel and evidence"
        )
