"""Where source, machines and people contradict each other; a person must look at each.

Pure.  Source and machine contradict if the source gives a capability to every
device and a machine lacks it, or the source has it nowhere and a machine
does.  A kernel that was not scanned is judged by the scanned ones around it,
where both say the same.  People are held against the source of their time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from zcdb.nics.capabilities import CAPABILITIES
from zcdb.nics.catalogue import Catalogue
from zcdb.nics.claims import VALUES, Claim, series
from zcdb.nics.facts import Fact
from zcdb.nics.probe import ProbedClaim

SAME_TIME_DAYS = 366
"""A statement holds against a kernel's source of the same year."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the statements that contradict each other.

    Attributes:
        kind: source, probed or published.
        place: file and line, document and line, or what was asked of a machine.
    """

    kind: str
    value: str
    place: str
    kernel: str
    date: str

    def words(self) -> str:
        """Return it in one line."""
        when = f", {self.date}" if self.date else ""
        kernel = f" (Linux {self.kernel}{when})" if self.kernel else f" ({self.date})"
        return f"{self.kind} says {self.value}: {self.place}{kernel}"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two statements about one capability of a driver that cannot both hold."""

    driver: str
    capability: str
    one: Side
    other: Side

    def words(self) -> str:
        """Return it in one line."""
        return f"{self.driver} {self.capability}: {self.one.words()}; {self.other.words()}"


def conflicts(catalogue: Catalogue, probed: Iterable[ProbedClaim] = ()) -> list[Conflict]:
    """Return every contradiction, by driver and capability.

    Args:
        probed: what machines showed; claims about devices repeat those about their drivers.
    """
    found = [*_with_machines(catalogue, probed), *_with_people(catalogue)]
    order = {key: number for number, key in enumerate(CAPABILITIES)}
    return sorted(
        dict.fromkeys(found), key=lambda one: (one.driver, order.get(one.capability, len(order)))
    )


def _with_machines(catalogue: Catalogue, probed: Iterable[ProbedClaim]) -> Iterator[Conflict]:
    for claim in probed:
        if claim.subject_kind != "driver":
            continue
        name = catalogue.find(claim.driver)
        said = source_about(catalogue, name, claim.capability, claim.kernel) if name else None
        if name is None or said is None:
            continue
        kernel, fact = said
        if (fact.value, claim.value) in (("yes", "no"), ("no", "yes")):
            machine = Side("probed", claim.value, claim.where, claim.kernel, claim.date)
            yield Conflict(name, claim.capability, _source_side(kernel, fact), machine)


def source_about(
    catalogue: Catalogue, driver: str, capability: str, kernel: str
) -> tuple[str, Fact] | None:
    """Return what the source says for a kernel, and the scanned kernel that says it.

    Returns:
        The fact of the scan of the same series; else that of the scan before, if the one after
        has the same value; None if that does not decide.
    """
    scanned = [
        (tree.kernel, tree.drivers[driver].facts[capability])
        for tree in catalogue.trees
        if driver in tree.drivers
    ]
    for version, fact in scanned:
        if series(version) == series(kernel):
            return version, fact
    before = [one for one in scanned if series(one[0]) < series(kernel)]
    after = [one for one in scanned if series(one[0]) > series(kernel)]
    if before and after and before[-1][1].value == after[0][1].value:
        return before[-1]
    return None


def _source_side(kernel: str, fact: Fact) -> Side:
    places = " ".join(f"{one.path}:{one.line}" for one in fact.evidence)
    return Side("source", fact.value, places or "named nowhere in the driver", kernel, "")


def _with_people(catalogue: Catalogue) -> Iterator[Conflict]:
    """Yield contradictions among the claims in the data files: what is yes here and no there."""
    plain = [
        claim
        for claim in catalogue.claims
        if claim.value in VALUES and claim.status not in ("withdrawn", "question", "gap")
    ]
    for number, one in enumerate(plain):
        for other in plain[number + 1 :]:
            if {one.value, other.value} != {"yes", "no"} or not _same_time(one, other):
                continue
            for driver in sorted(set(one.drivers) & set(other.drivers)):
                for about in sorted(set(one.about) & set(other.about)):
                    if not _other_chip(one, other):
                        yield Conflict(driver, about, _claim_side(one), _claim_side(other))


def _other_chip(one: Claim, other: Claim) -> bool:
    """Return whether two claims read in one source are about different chips of its driver."""
    return bool(one.kernel and one.kernel == other.kernel and one.nic != other.nic)


def _same_time(one: Claim, other: Claim) -> bool:
    return abs((_day(one) - _day(other)).days) <= SAME_TIME_DAYS


def _day(claim: Claim) -> date:
    first = claim.date.partition("/")[0]
    year, month, day = (int(part) for part in (first + "-01-01").split("-")[:3])
    return date(year, month, day)


def _claim_side(claim: Claim) -> Side:
    kind = "source" if claim.kernel else "published"
    place = " ".join(claim.evidence) if claim.kernel else f"{claim.author}, {claim.source}"
    return Side(kind, claim.value, place, claim.kernel, claim.date)


def conflict_to_json(one: Conflict) -> dict[str, Any]:
    """Return a contradiction as JSON."""
    return asdict(one)
