"""Scans as text and JSON, for people and programs."""

from __future__ import annotations

from collections.abc import Iterable

from zcdb.ids import Json
from zcdb.nics.capabilities import CAPABILITIES
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
