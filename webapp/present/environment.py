"""The page of an environment: the facts of one host, and where it measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from zcdb import units
from zcdb.ids import Json
from zcdb.store.results import EnvironmentPage, Facts, RunLine
from zcdb.webapp.present.facts import FactGroup, groups


@dataclass(frozen=True, slots=True)
class EnvironmentContent:
    """All that an environment's page says."""

    id: str
    summary: str
    groups: tuple[FactGroup, ...]
    trials: int
    first_at: datetime | None
    last_at: datetime | None
    runs: tuple[RunLine, ...]
    facts: Facts


def _fact(facts: Facts, *path: str) -> Json:
    """Return a nested fact, or None where this host does not say."""
    found: Json = facts
    for key in path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(key)
    return found


def summary(facts: Facts) -> str:
    """Return a host in a line: CPU, memory, kernel; what is not known is left out."""
    memory = _fact(facts, "memory_bytes")
    kernel = _fact(facts, "kernel", "release")
    # What the kernel leaves of 24 GiB is 24105 MiB: the nearest GiB is the name of the machine.
    gib = 1 << 30
    parts = [
        _fact(facts, "cpu", "model"),
        units.format_size(round(memory / gib) * gib) if isinstance(memory, int) else None,
        f"Linux {kernel}" if kernel else None,
    ]
    return ", ".join(str(part) for part in parts if part) or "a host"


def environment_content(page: EnvironmentPage) -> EnvironmentContent:
    """Return the content of an environment's page."""
    return EnvironmentContent(
        id=page.id,
        summary=summary(page.facts),
        groups=groups(page.facts),
        trials=page.trials,
        first_at=page.first_at,
        last_at=page.last_at,
        runs=page.runs,
        facts=page.facts,
    )
