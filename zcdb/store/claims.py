"""Writing claims: what this database has gathered that network cards can and cannot do.

The catalogue's own claims ship with zcdb and are not stored; here come those of probed machines.
The same claim from the same kind of place is one row, however often it is met.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import select

from zcdb.ids import Json, canonical_json, content_id
from zcdb.store.models import ClaimRow, EnvironmentRow
from zcdb.store.session import Database
from zcdb.store.upsert import insert_new


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement about one driver or device.

    Attributes:
        subject_kind, subject: "driver" and its name, or "device" and its id word.
        value: yes, some, no or unknown.
        state: on, off or fixed; "" where there is no switch.
        kernel: release or range that it holds for.
        source_kind: "probed", "published" or "source".
        place: what was asked, or where it stands.
        dated: ISO day on which it was seen; the first one is kept.
        environment_id: of the machine it was seen on; None if none was stored.
    """

    subject_kind: str
    subject: str
    capability: str
    value: str
    state: str
    kernel: str
    source_kind: str
    place: str
    dated: str
    environment_id: str | None = None
    details: Mapping[str, Json] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The content hash of what is claimed, of what, for which kernel and from where."""
        return content_id(
            "claim",
            [
                *(self.subject_kind, self.subject, self.capability, self.value, self.state),
                *(self.kernel, self.source_kind, self.place),
            ],
        )


def add_claims(db: Database, claims: Sequence[Claim]) -> int:
    """Store the claims that are not there yet; returns how many were new."""
    with db.writing() as session:
        wanted = {claim.environment_id for claim in claims if claim.environment_id}
        environments = {
            row.public_id: row.id
            for row in session.execute(
                select(EnvironmentRow.public_id, EnvironmentRow.id).where(
                    EnvironmentRow.public_id.in_(wanted)
                )
            )
        }
        ids = {claim.id: claim for claim in claims}
        known = set(session.scalars(select(ClaimRow.public_id).where(ClaimRow.public_id.in_(ids))))
        new = [claim for claim_id, claim in ids.items() if claim_id not in known]
        rows = [
            {
                "public_id": claim.id,
                "subject_kind": claim.subject_kind,
                "subject": claim.subject,
                "capability": claim.capability,
                "value": claim.value,
                "state": claim.state,
                "kernel": claim.kernel,
                "source_kind": claim.source_kind,
                "place": claim.place,
                "dated": claim.dated,
                "environment_id": environments.get(claim.environment_id or ""),
                "details_json": canonical_json(claim.details),
            }
            for claim in new
        ]
        insert_new(session, ClaimRow, rows)
        return len(rows)
