"""Names of cases: hashes of their factors, and what two cases share."""

from __future__ import annotations

from collections.abc import Iterable

from zcdb.factors.model import ABSENT, Factors, FactorValue
from zcdb.factors.registry import FACTORS
from zcdb.ids import content_id


def without_defaults(factors: Factors) -> dict[str, FactorValue]:
    """Return the factors that differ from their default: what enters a hash."""
    return {name: value for name, value in factors.items() if value != FACTORS[name].default}


def with_defaults(factors: Factors) -> dict[str, FactorValue]:
    """Return `factors` with every declared factor that has a default filled in, registry order.

    What is absent by default stays absent; settings with a dotted name come last, by name.
    """
    filled: dict[str, FactorValue] = {}
    for name, factor in FACTORS.items():
        if name in factors:
            filled[name] = factors[name]
        elif factor.is_declared and factor.default not in (None, ABSENT):
            filled[name] = factor.default
    return filled | {name: factors[name] for name in sorted(set(factors) - set(filled))}


def plan_key(declared: Factors) -> str:
    """Return the name of a case within a plan: the hash of its declared factors."""
    unknown = [name for name in declared if not FACTORS[name].is_declared]
    if unknown:
        raise ValueError(f"not declared factors: {', '.join(sorted(unknown))}")
    return content_id("plan", without_defaults(declared))


def case_id(factors: Factors) -> str:
    """Return the id of a case: the hash of its declared factors and its observed context."""
    return content_id("case", without_defaults(factors))


def pairing_hash(axis: str, factors: Factors) -> str:
    """Return the hash of everything that two cases must share to be compared along `axis`.

    The factors that follow `axis` are left out: they come along with it.
    """
    followers = {name for name, factor in FACTORS.items() if factor.follows == axis}
    rest = {
        name: value
        for name, value in without_defaults(factors).items()
        if name != axis and name not in followers
    }
    return content_id("pairing", {"axis": axis, "rest": rest})


def varying(cases: Iterable[Factors]) -> list[str]:
    """Return the names of the factors whose value is not the same in all cases, registry order."""
    filled = [with_defaults(case) for case in cases]
    dotted = sorted({name for case in filled for name in case} - set(FACTORS))
    return [
        name for name in [*FACTORS, *dotted] if len({case.get(name, ABSENT) for case in filled}) > 1
    ]
