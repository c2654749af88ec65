"""What differs between the machines of two groups of trials."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from zcdb.ids import Json
from zcdb.store.results import Facts

MOVING = ("readings",)
"""Parts of the facts that move by themselves."""


def flat(facts: Mapping[str, Json], prefix: str = "") -> Iterator[tuple[str, Json]]:
    """Yield dotted name and value of every fact."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def shown(value: Json) -> str:
    """Return a fact for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "unknown"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _values(environments: Sequence[Facts]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for facts in environments:
        for name, value in flat(facts):
            if not name.startswith(MOVING):
                found.setdefault(name, set()).add(shown(value))
    return found


def changed_facts(
    environments: Mapping[str, Sequence[Facts]],
) -> tuple[tuple[str, str, str], ...]:
    """Return (fact, baseline's values, candidate's values) where the two sides differ."""
    first = _values(environments.get("baseline", ()))
    second = _values(environments.get("candidate", ()))
    if not first or not second:
        return ()
    return tuple(
        (name, ", ".join(sorted(first.get(name, ()))), ", ".join(sorted(second.get(name, ()))))
        for name in sorted(first.keys() | second.keys())
        if first.get(name) != second.get(name)
    )
