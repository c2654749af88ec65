"""Rows of a case: its factors for filters, and its pairings for comparison along any factor."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from zcdb import factors as registry
from zcdb.factors import Factors, FactorValue
from zcdb.ids import canonical_json
from zcdb.store import registries
from zcdb.store.models import CaseFactorRow, CaseRow, PairingRow
from zcdb.store.upsert import batched, insert_new

_BATCH = 500
"""Cases whose derived rows are made at one go."""


def factors_json(factors: Factors) -> str:
    """Return the canonical text of what a case's id hashes: the factors that are no default."""
    return canonical_json(registry.without_defaults(factors))


def factors_from_json(text: str) -> dict[str, FactorValue]:
    """Return all factors of a case, defaults filled in, in the registry's order."""
    return registry.with_defaults(cast(Mapping[str, FactorValue], json.loads(text)))


def observed_from_json(text: str) -> dict[str, FactorValue]:
    """Return the observed factors of a case: the context that it was measured in."""
    return {
        name: value
        for name, value in factors_from_json(text).items()
        if not registry.FACTORS[name].is_declared
    }


def value_text(value: FactorValue) -> str:
    """Return a factor's value as the tables spell it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(value: FactorValue) -> float | None:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else None


def derived_rows(
    case_id: int, factors: Factors
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of `case_factors` and of `pairings` for a case.

    An observed factor that is absent has no row: the case is not on that axis.
    """
    filled = registry.with_defaults(factors)
    facets = [
        {
            "factor": name,
            "value": value_text(value),
            "case_id": case_id,
            "number": _number(value),
        }
        for name, value in filled.items()
    ]
    pairings = [
        {
            "factor": name,
            "rest_hash": registry.pairing_hash(name, factors),
            "value": value_text(value),
            "case_id": case_id,
        }
        for name, value in filled.items()
    ]
    return facets, pairings


def ensure_case(session: Session, factors: Factors) -> int:
    """Return the key of the row of a case; makes it where it is not there yet."""
    known = session.scalar(select(CaseRow.id).where(CaseRow.public_id == registry.case_id(factors)))
    return ensure_cases(session, [factors])[0] if known is None else known


def ensure_cases(session: Session, many: Sequence[Factors]) -> list[int]:
    """Return the keys of the rows of many cases, in their order; makes what is not there yet."""
    ids = [registry.case_id(factors) for factors in many]
    by_id = dict(zip(ids, many, strict=True))
    keys = _case_keys(session, list(by_id))
    new = {public_id: factors for public_id, factors in by_id.items() if public_id not in keys}
    if new:
        rows = [
            {"public_id": public_id, "factors_json": factors_json(factors)}
            for public_id, factors in new.items()
        ]
        insert_new(session, CaseRow, rows)
        keys |= _case_keys(session, list(new))
        registries.add_settings(session, {name for factors in new.values() for name in factors})
        derived = [derived_rows(keys[public_id], factors) for public_id, factors in new.items()]
        insert_new(session, CaseFactorRow, [row for facets, _ in derived for row in facets])
        insert_new(session, PairingRow, [row for _, pairings in derived for row in pairings])
    return [keys[public_id] for public_id in ids]


def _case_keys(session: Session, public_ids: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for some in batched(public_ids):
        chosen = select(CaseRow.public_id, CaseRow.id).where(CaseRow.public_id.in_(some))
        found |= {row.public_id: row.id for row in session.execute(chosen)}
    return found


def rebuild_derived(session: Session, cases: Sequence[CaseRow]) -> None:
    """Make the rows of `case_factors` and `pairings` of some cases anew."""
    keys = [case.id for case in cases]
    derived: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    for case in cases:
        factors = json.loads(case.factors_json)
        registries.add_settings(session, factors)
        for rows, more in zip(derived, derived_rows(case.id, factors), strict=True):
            rows += more
    session.execute(delete(CaseFactorRow).where(CaseFactorRow.case_id.in_(keys)))
    session.execute(delete(PairingRow).where(PairingRow.case_id.in_(keys)))
    insert_new(session, CaseFactorRow, derived[0])
    insert_new(session, PairingRow, derived[1])


def rebuild_all_derived(session: Session) -> None:
    """Make these rows anew for every case: after the registry of factors has widened.

    Factors that this zcdb does not know are of a newer one; their cases are left as they are.
    """
    after = 0
    while True:
        chosen = select(CaseRow).where(CaseRow.id > after).order_by(CaseRow.id).limit(_BATCH)
        cases = session.scalars(chosen).all()
        if not cases:
            return
        after = cases[-1].id
        known = [
            case
            for case in cases
            if all(name in registry.FACTORS for name in json.loads(case.factors_json))
        ]
        rebuild_derived(session, known)
        session.expunge_all()
