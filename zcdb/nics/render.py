"""Scans as text and JSON, for people and programs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from zcdb.ids import Json
from zcdb.nics.capabilities import CAPABILITIES
from zcdb.nics.catalogue import Catalogue
from zcdb.nics.claims import stale_reason
from zcdb.nics.facts import DriverFacts, Fact, TreeFacts, driver_to_json


def tree_to_json(tree: TreeFacts) -> dict[str, Json]:
    """Return a scan as JSON: every driver with every capability."""
    return {
        "kernel": tree.kernel,
        "drivers": [driver_to_json(driver) for driver in tree.drivers.values()],
    }


def tree_lines(tree: TreeFacts) -> Iterable[str]:
    """Yield one line a driver: what it has, what it has with conditions, what is unknown."""
    width = max((len(name) for name in tree.drivers), default=0)
    yield f"Linux {tree.kernel}: {len(tree.drivers)} drivers"
    for driver in tree.drivers.values():
        parts = []
        for value, mark in (("yes", ""), ("some", " with conditions:"), ("unknown", " unknown:")):
            keys = [key for key, fact in driver.facts.items() if fact.value == value]
            if keys:
                parts.append(f"{mark} {' '.join(keys)}".strip())
        yield f"{driver.name:{width}}  {'; '.join(parts) or 'nothing'}"


def driver_lines(driver: DriverFacts, kernel: str) -> Iterable[str]:
    """Yield everything about one driver, a capability a line with its evidence."""
    yield f"{driver.name}: {driver.description or 'no description'}"
    yield f"  Linux {kernel}, {driver.folder}, {driver.config or 'no option'}"
    yield f"  modules: {', '.join(driver.modules)}"
    buses = ", ".join(driver.buses) or "none"
    unresolved = f", {driver.unresolved_ids} unresolved" if driver.unresolved_ids else ""
    yield f"  buses: {buses}; {len(driver.ids)} ids{unresolved}"
    for key, fact in driver.facts.items():
        if fact.value != "no":
            yield f"  {CAPABILITIES[key].title:34} {fact_text(fact)}"
    noes = [CAPABILITIES[key].title for key, fact in driver.facts.items() if fact.value == "no"]
    yield f"  no: {', '.join(noes)}"


def known_lines(
    catalogue: Catalogue, driver: DriverFacts, kernel: str, today: date
) -> Iterable[str]:
    """Yield everything the catalogue has on one driver: facts, since when, published claims."""
    yield from driver_lines(driver, kernel)
    seen = ", ".join(catalogue.seen(driver.name))
    always: list[str] = []
    for key in driver.facts:
        found = catalogue.since(driver.name, key)
        if found is not None and found.is_first_seen:
            place = _first_place(catalogue, driver.name, key, found.kernel)
            yield f"  since {found.kernel}: {key}{place}"
        elif found is not None:
            always.append(key)
    yield f"  in every scanned kernel ({seen}): {', '.join(always) or 'nothing'}"
    for claim in catalogue.claims_about(driver.name):
        why = stale_reason(claim, today, catalogue.kernels)
        stale = f" [stale: {why}]" if why else ""
        yield (
            f"  {claim.author}, {claim.date}: {', '.join(claim.about)}: {claim.value}"
            f" ({claim.source}){stale}"
        )


def _first_place(catalogue: Catalogue, driver: str, capability: str, kernel: str) -> str:
    evidence = catalogue.tree(kernel).drivers[driver].facts[capability].evidence
    return f" ({evidence[0].path}:{evidence[0].line})" if evidence else ""


def known_to_json(catalogue: Catalogue, driver: DriverFacts, kernel: str) -> dict[str, Json]:
    """Return everything the catalogue has on one driver as JSON."""
    found = {key: catalogue.since(driver.name, key) for key in driver.facts}
    return {
        "kernel": kernel,
        "kernels": list(catalogue.seen(driver.name)),
        "since": {
            key: {"kernel": one.kernel, "is_first_seen": one.is_first_seen}
            for key, one in found.items()
            if one
        },
        "claims": [claim.id for claim in catalogue.claims_about(driver.name)],
        **driver_to_json(driver),
    }


def fact_text(fact: Fact) -> str:
    """Return a fact in one line: value, default, what its conditions test, where it stands."""
    words: list[str] = [fact.value]
    if fact.default:
        words.append(f"[{fact.default}]")
    if fact.copies:
        words.append("[copies anyway]")
    if fact.conditions:
        words.append(f"if {', '.join(fact.conditions)}")
    if fact.note:
        words.append(f"({fact.note})")
    words += [f"{one.path}:{one.line}" for one in fact.evidence]
    return " ".join(words)
