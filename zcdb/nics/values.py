"""What the interpreter computes with: sets of capability bits, each with its conditions.

A bit is *always* there (no conditions), *sometimes* (the names that the
conditions test) or absent.  States of two branches are joined: what only one
of them has becomes conditional.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce

Place = tuple[str, int]
"""Path in the tree and line, from 1."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What one condition tests: names only, never its text."""

    names: tuple[str, ...]


Conditions = frozenset[Condition]
ALWAYS: Conditions = frozenset()


@dataclass(frozen=True, slots=True)
class Presence:
    """How a bit is there: under which conditions, and set at which places."""

    conditions: Conditions = ALWAYS
    places: frozenset[Place] = frozenset()

    def under(self, conditions: Conditions) -> Presence:
        """Return the same bit with more conditions."""
        return Presence(self.conditions | conditions, self.places) if conditions else self


@dataclass(frozen=True, slots=True)
class Bits:
    """A set of bits.

    Attributes:
        have: bit -> presence.
        is_complement: the set is everything but `have` (from `~`).
        is_known: False if parts of the expression could not be read.
    """

    have: Mapping[str, Presence] = field(default_factory=dict)
    is_complement: bool = False
    is_known: bool = True

    def __or__(self, other: Bits) -> Bits:
        if self.is_complement or other.is_complement:
            known = other if self.is_complement else self
            return Bits(known.have, False, False)
        if not other.have:
            return Bits(self.have, False, self.is_known and other.is_known)
        have = dict(self.have)
        for bit, presence in other.have.items():
            have[bit] = _either(have[bit], presence) if bit in have else presence
        return Bits(have, False, self.is_known and other.is_known)

    def __and__(self, other: Bits) -> Bits:
        if self.is_complement and other.is_complement:
            return Bits({**self.have, **other.have}, True)
        if self.is_complement:
            return other & self
        if other.is_complement:
            return self._without(other.have)
        both = {
            bit: Presence(presence.conditions | other.have[bit].conditions, presence.places)
            for bit, presence in self.have.items()
            if bit in other.have
        }
        return Bits(both, False, self.is_known and other.is_known)

    def _without(self, removed: Mapping[str, Presence]) -> Bits:
        have = {}
        for bit, presence in self.have.items():
            if bit not in removed:
                have[bit] = presence
            elif removed[bit].conditions:
                have[bit] = presence.under(removed[bit].conditions)
        return Bits(have, False, self.is_known)

    def without(self, conditions: Conditions) -> Bits:
        """Return the same bits, freed of some conditions."""
        have = {
            bit: Presence(presence.conditions - conditions, presence.places)
            for bit, presence in self.have.items()
        }
        return Bits(have, self.is_complement, self.is_known)

    def under(self, conditions: Conditions) -> Bits:
        """Return the same bits, all with more conditions."""
        if not conditions:
            return self
        have = {bit: presence.under(conditions) for bit, presence in self.have.items()}
        return Bits(have, self.is_complement, self.is_known)


EMPTY = Bits()
UNKNOWN = Bits(is_known=False)


def _either(one: Presence, two: Presence) -> Presence:
    """A bit set twice on one path: the weaker set of conditions holds."""
    places = one.places | two.places
    if not one.conditions or not two.conditions:
        return Presence(ALWAYS, places)
    return Presence(one.conditions | two.conditions, places)


def join_bits(one: Bits, two: Bits, conditions: Conditions) -> Bits:
    """Return what holds after either of two branches; empty `conditions` drops the difference."""
    if one is two or one == two:
        return one
    if one.is_complement or two.is_complement:
        return UNKNOWN
    have: dict[str, Presence] = {}
    for bit in [*one.have, *(bit for bit in two.have if bit not in one.have)]:
        first, second = one.have.get(bit), two.have.get(bit)
        if first is not None and second is not None:
            have[bit] = _both_branches(first, second, conditions)
        else:
            only = first or second
            assert only is not None  # noqa: S101
            have[bit] = only.under(conditions)
    return Bits(have, False, one.is_known and two.is_known)


def _both_branches(first: Presence, second: Presence, conditions: Conditions) -> Presence:
    places = first.places | second.places
    if not first.conditions and not second.conditions:
        return Presence(ALWAYS, places)
    if first.conditions == second.conditions:
        return Presence(first.conditions, places)
    if not conditions and not (first.conditions and second.conditions):
        return Presence(ALWAYS, places)
    return Presence(first.conditions | second.conditions | conditions, places)


State = dict[str, Bits]
"""Symbol -> bits.  A symbol is "N.features" (of the net_device), "F.name" (any other field,
by name in the whole unit) or "L.frame.name" (a local)."""


def join_states(one: State | None, two: State | None, conditions: Conditions) -> State | None:
    """Return the state after either of two branches; None is a branch that does not come back."""
    if one is None or one is two:
        return two
    if two is None:
        return one
    joined: State = {}
    for symbol in one.keys() | two.keys():
        first, second = one.get(symbol), two.get(symbol)
        if first is None or second is None:
            if symbol.startswith("N."):
                joined[symbol] = join_bits(first or EMPTY, second or EMPTY, conditions)
            else:
                only = first or second
                assert only is not None  # noqa: S101
                joined[symbol] = only if symbol.startswith("F.") else only.under(conditions)
        else:
            joined[symbol] = join_bits(first, second, conditions)
    return joined


def join_all(states: Iterable[State], conditions: Conditions) -> State | None:
    """Return what holds after any of several branches."""
    return reduce(lambda one, two: join_states(one, two, conditions), states, None)
