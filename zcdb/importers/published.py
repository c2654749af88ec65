"""The case of a published result: what its source states, and what it is silent about.

A source that does not say how many bytes a call hands over does not mean zcdb's default; it says
nothing.  So every declared factor that has a default and is not stated becomes "unstated", and
such a case never pairs with one that states a value.
"""

from __future__ import annotations

from zcdb.factors import ABSENT, FACTORS, UNSTATED, Factors, FactorValue

OWN = frozenset({"call_work", "twin", "verify"})
"""Factors that only zcdb's own trials have: elsewhere they are at their default."""

_OF_EXCHANGES = frozenset({"burst"})
_OF_UDP = frozenset({"udp_segment"})
_OF_TCP = frozenset({"tcp_cork", "tcp_nodelay", "congestion_control", "mss"})


def published_factors(stated: Factors) -> dict[str, FactorValue]:
    """Return the factors of a published result's case.

    Args:
        stated: what the source says, in the registry's spelling.
    """
    found: dict[str, FactorValue] = {}
    for name, factor in FACTORS.items():
        if name in stated:
            found[name] = stated[name]
        elif (
            factor.is_declared
            and factor.default not in (None, ABSENT)
            and name not in OWN
            and not _is_meaningless(name, stated)
        ):
            found[name] = UNSTATED
    return found | {name: value for name, value in stated.items() if name not in found}


def _is_meaningless(name: str, stated: Factors) -> bool:
    """Tell whether a factor cannot mean anything for this test or protocol."""
    is_stream = stated.get("test", "stream") == "stream"
    protocol = stated.get("protocol")
    return (
        (name == "test")
        or (name in _OF_EXCHANGES and is_stream)
        or (name in _OF_UDP and protocol == "tcp")
        or (name in _OF_TCP and protocol == "udp")
    )
