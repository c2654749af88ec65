"""What differs between kernels: since when a driver can do something, what changed, what vanished.

Works on scans of any versions, oldest first.  A capability that was there and
is not found any more is an alarm: either the kernel dropped it, or the
scanner lost it; a person decides and acknowledges it in the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zcdb.ids import Json
from zcdb.nics.capabilities import CAPABILITIES
from zcdb.nics.claims import version_key
from zcdb.nics.facts import Fact, TreeFacts, fact_to_json

PRESENT = frozenset(("yes", "some"))


@dataclass(frozen=True, slots=True)
class Change:
    """A capability whose value differs between two kernels.

    Attributes:
        old, new: the fact in each kernel, with its evidence.
    """

    driver: str
    capability: str
    old_kernel: str
    new_kernel: str
    old: Fact
    new: Fact

    @property
    def is_lost(self) -> bool:
        """Whether the driver had it and the newer source does not show it."""
        return self.old.value in PRESENT and self.new.value not in PRESENT


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two kernels compared.

    Attributes:
        appeared, disappeared: drivers that only the newer or older kernel has.
        changes: capabilities whose value differs, by driver.
    """

    old_kernel: str
    new_kernel: str
    appeared: tuple[str, ...]
    disappeared: tuple[str, ...]
    changes: tuple[Change, ...]

    def lost(self, acknowledged: Iterable[tuple[str, str, str]] = ()) -> list[Change]:
        """Return the alarms: lost capabilities that nobody acknowledged.

        Args:
            acknowledged: (driver, capability, newer kernel) that a person has looked at.
        """
        known = set(acknowledged)
        return [
            change
            for change in self.changes
            if change.is_lost and (change.driver, change.capability, change.new_kernel) not in known
        ]


@dataclass(frozen=True, slots=True)
class Since:
    """The oldest scanned kernel in which a driver has a capability.

    Attributes:
        is_first_seen: the driver was scanned without it in an older kernel, so this kernel (or
            one between the scanned ones) brought it; otherwise it may be older.
    """

    kernel: str
    is_first_seen: bool


def compare(old: TreeFacts, new: TreeFacts) -> Comparison:
    """Return what differs between two kernels."""
    changes = [
        Change(name, key, old.kernel, new.kernel, old.drivers[name].facts[key], fact)
        for name in sorted(old.drivers.keys() & new.drivers.keys())
        for key, fact in new.drivers[name].facts.items()
        if key in old.drivers[name].facts and old.drivers[name].facts[key].value != fact.value
    ]
    return Comparison(
        old.kernel,
        new.kernel,
        tuple(sorted(new.drivers.keys() - old.drivers.keys())),
        tuple(sorted(old.drivers.keys() - new.drivers.keys())),
        tuple(changes),
    )


def only(comparison: Comparison, driver: str) -> Comparison:
    """Return what a comparison says of one driver."""
    return Comparison(
        comparison.old_kernel,
        comparison.new_kernel,
        tuple(name for name in comparison.appeared if name == driver),
        tuple(name for name in comparison.disappeared if name == driver),
        tuple(change for change in comparison.changes if change.driver == driver),
    )


def in_order(trees: Iterable[TreeFacts]) -> list[TreeFacts]:
    """Return scans from the oldest kernel to the newest."""
    return sorted(trees, key=lambda tree: version_key(tree.kernel))


def since(trees: Sequence[TreeFacts], driver: str, capability: str) -> Since | None:
    """Return since which scanned kernel a driver has a capability without a break.

    Args:
        trees: scans, oldest first.

    Returns:
        None if the newest kernel that has the driver does not show the capability.
    """
    found: Since | None = None
    was_without = False
    for tree in trees:
        if driver not in tree.drivers:
            continue
        if tree.drivers[driver].facts[capability].value in PRESENT:
            found = found or Since(tree.kernel, was_without)
        else:
            found, was_without = None, True
    return found


def comparison_lines(comparison: Comparison) -> list[str]:
    """Return the "changed between" list, one line a change, with file and line of both sides."""
    old, new = comparison.old_kernel, comparison.new_kernel
    lines = [
        f"drivers only in {new}: {', '.join(comparison.appeared) or 'none'}",
        f"drivers only in {old}: {', '.join(comparison.disappeared) or 'none'}",
    ]
    order = {key: number for number, key in enumerate(CAPABILITIES)}
    for change in sorted(comparison.changes, key=lambda c: (c.driver, order[c.capability])):
        mark = "LOST  " if change.is_lost else "      "
        lines.append(
            f"{mark}{change.driver} {change.capability}:"
            f" {change.old.value}{_place(change.old, old)} -> {change.new.value}"
            f"{_place(change.new, new)}"
        )
    return lines


def comparison_to_json(comparison: Comparison) -> dict[str, Json]:
    """Return a comparison as JSON, each change with the facts of both kernels."""
    return {
        "old_kernel": comparison.old_kernel,
        "new_kernel": comparison.new_kernel,
        "appeared": list(comparison.appeared),
        "disappeared": list(comparison.disappeared),
        "changes": [
            {
                "driver": change.driver,
                "capability": change.capability,
                "old": fact_to_json(change.old),
                "new": fact_to_json(change.new),
                "is_lost": change.is_lost,
            }
            for change in comparison.changes
        ],
    }


def _place(fact: Fact, kernel: str) -> str:
    return f" ({kernel} {fact.evidence[0].path}:{fact.evidence[0].line})" if fact.evidence else ""
