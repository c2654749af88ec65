"""Rows of a case: its factors for filters, and its pairings for comparison along any factor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from sqlalchemy import select
from sqlalchemy.orm import Session

from zcdb import factors as registry
from zcdb.factors import Factors, FactorValue
from zcdb.ids import canonical_json
from zcdb.store.models import CaseFactorRow, CaseRow, PairingRow
from zcdb.store.upsert import insert_new


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
    public_id = registry.case_id(factors)
    find = select(CaseRow.id).where(CaseRow.public_id == public_id)
    known = session.scalar(find)
    if known is not None:
        return known
    row = {"public_id": public_id, "factors_json": factors_json(factors)}
    insert_new(session, CaseRow, [row])
    case_id = session.scalars(find).one()
    facets, pairings = derived_rows(case_id, factors)
    insert_new(session, CaseFactorRow, facets)
    insert_new(session, PairingRow, pairings)
    return case_id
