"""Statements about cards that contradict each other: for a person to look at, not to average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zcdb.nics.capabilities import CAPABILITIES
from zcdb.nics.catalogue import Catalogue, load
from zcdb.nics.claims import TOPICS, Claim
from zcdb.nics.conflicts import Conflict, Side, conflicts
from zcdb.store.queries.nics import StoredClaim
from zcdb.webapp.present.nic_cells import driver_address, probed_claims
from zcdb.webapp.present.nic_driver import ClaimView, claim_view

_RELATIONS = (
    *("contradicts", "contradicted-by", "disputes", "disputed-by", "denied-by"),
    *("corrects", "corrected-by", "questioned-by", "explained-by"),
)
"""Relations of claims in which one of the two is in doubt."""


@dataclass(frozen=True, slots=True)
class ConflictView:
    """Two statements about one capability of a driver that cannot both hold."""

    driver: str
    address: str
    capability: str
    title: str
    one: Side
    other: Side


@dataclass(frozen=True, slots=True)
class Dispute:
    """Two statements of people, and what one does to the other."""

    kind: str
    one: ClaimView
    other: ClaimView


@dataclass(frozen=True, slots=True)
class ConflictsContent:
    """All that /nics/conflicts says.

    Attributes:
        machines: machines against the source.
        people: people, and kernels of their time, against each other.
        disputes: what people said of each other's statements.
    """

    machines: tuple[ConflictView, ...]
    people: tuple[ConflictView, ...]
    disputes: tuple[Dispute, ...]


def conflicts_content(stored: Sequence[StoredClaim]) -> ConflictsContent:
    """Return every contradiction that the catalogue and this database hold."""
    catalogue = load()
    found = [_view(one, catalogue) for one in conflicts(catalogue, probed_claims(stored))]
    return ConflictsContent(
        machines=tuple(one for one in found if "probed" in (one.one.kind, one.other.kind)),
        people=tuple(one for one in found if "probed" not in (one.one.kind, one.other.kind)),
        disputes=_disputes({claim.id: claim for claim in catalogue.claims}, catalogue),
    )


def _view(one: Conflict, catalogue: Catalogue) -> ConflictView:
    key = one.capability
    return ConflictView(
        driver=one.driver,
        address=driver_address(one.driver, key if key in CAPABILITIES else "")
        if catalogue.driver(one.driver)
        else "",
        capability=key,
        title=CAPABILITIES[key].title if key in CAPABILITIES else TOPICS.get(key, key),
        one=one.one,
        other=one.other,
    )


def _disputes(claims: Mapping[str, Claim], catalogue: Catalogue) -> tuple[Dispute, ...]:
    """Return the relations between published claims, each pair once."""
    found: dict[frozenset[str], Dispute] = {}
    for claim in claims.values():
        for kind, other in claim.relations:
            pair = frozenset((claim.id, other))
            if kind in _RELATIONS and pair not in found:
                views = claim_view(claim, catalogue), claim_view(claims[other], catalogue)
                found[pair] = Dispute(kind.replace("-", " "), *views)
    return tuple(found.values())
