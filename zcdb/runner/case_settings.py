"""From the factors of a case to the settings of each end.  Pure.

A factor alone is meant for both ends, one that begins with `sender.` or
`receiver.` for that end; the second beats the first.  The link's rate is the
exception: it is held at the sender, where the data leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from zcdb.factors import ABSENT, FACTORS, Factors, FactorValue, setting_name
from zcdb.ids import Json
from zcdb.records import End

RATE = "link_rate"
BURST = "link_burst"

_SYSCTLS = {"tcp_wmem": "net.ipv4.tcp_wmem", "tcp_rmem": "net.ipv4.tcp_rmem"}
_KIND_OF_FAMILY = {"coalescing": "coalescing", "ring": "rings", "channels": "channels"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """One setting that a case asks for.

    Attributes:
        name: the factor, without its end.
        asked: its value.
        kind, target, value: as `zcdb.host.settings.parse_setting` takes them; the target of
            an affinity is an interface, whose interrupts only its host knows.
    """

    name: str
    asked: FactorValue
    kind: str
    target: str
    value: Json

    def request(self) -> dict[str, Json]:
        """Return what an agent is asked."""
        return {"kind": self.kind, "target": self.target, "value": self.value}


def wanted_settings(factors: Factors, end: End, interfaces: Sequence[str]) -> tuple[Wanted, ...]:
    """Return the settings of one end, in the order in which they are applied.

    Args:
        interfaces: the interfaces of that end that the case uses.
    """
    stated = _stated(factors, end)
    found = [
        wanted
        for name in sorted(stated, key=_rank)
        if name != BURST
        for wanted in _settings_of(name, stated, interfaces)
    ]
    return tuple(found)


def touches_network(factors: Factors) -> bool:
    """Return whether a case sets anything that belongs to a network namespace."""
    return any(
        factor.is_setting and setting_name(name).key not in ("governor", "irq_placement")
        for name, value in factors.items()
        if value != ABSENT and (factor := FACTORS[name])
    )


def conflict(sender: Sequence[Wanted], receiver: Sequence[Wanted]) -> str | None:
    """Return a sentence if two ends that are one place ask for different values."""
    first = {(wanted.name, wanted.target): wanted.value for wanted in sender}
    for wanted in receiver:
        if first.get((wanted.name, wanted.target), wanted.value) != wanted.value:
            return (
                f"sender.{wanted.name} and receiver.{wanted.name} differ,"
                f" but both ends share {wanted.target}"
            )
    return None


def _stated(factors: Factors, end: End) -> dict[str, FactorValue]:
    """Return what is stated for an end, by the factor's name without its end."""
    both: dict[str, FactorValue] = {}
    own: dict[str, FactorValue] = {}
    for name, value in factors.items():
        if value == ABSENT or not FACTORS[name].is_setting:
            continue
        taken = setting_name(name)
        plain = name.removeprefix(f"{taken.end}.") if taken.end else name
        if taken.end == end:
            own[plain] = value
        elif taken.end is None and (end == "sender" or plain not in (RATE, BURST)):
            both[plain] = value
    return both | own


def _rank(name: str) -> tuple[int, str]:
    """Order: as the registry has them (what others need comes first), then dotted names."""
    return _ORDER.get(name, len(_ORDER)), name


_ORDER: Mapping[str, int] = {name: position for position, name in enumerate(FACTORS)}


def _settings_of(
    name: str, stated: Mapping[str, FactorValue], interfaces: Sequence[str]
) -> Iterator[Wanted]:
    value = stated[name]
    taken = setting_name(name)
    if name == "governor":
        yield Wanted(name, value, "governor", "all", value)
    elif name in _SYSCTLS or taken.family == "sysctl":
        yield Wanted(name, value, "sysctl", _SYSCTLS.get(name, taken.key), value)
    else:
        for interface in interfaces:
            yield Wanted(name, value, *_of_interface(name, stated, interface))


def _of_interface(
    name: str, stated: Mapping[str, FactorValue], interface: str
) -> tuple[str, str, Json]:
    value, taken = stated[name], setting_name(name)
    if name == RATE:
        bucket: dict[str, Json] = {"kind": "tbf", "rate": value}
        if BURST in stated:
            bucket["burst"] = stated[BURST]
        return "qdisc", interface, bucket
    if name == "mtu":
        return "mtu", interface, value
    if name == "irq_placement":
        return "irq_affinity", interface, value
    if taken.family in _KIND_OF_FAMILY:
        is_switch = FACTORS[name].type == "switch"
        number: Json = bool(value) if is_switch else int(value)
        return _KIND_OF_FAMILY[str(taken.family)], interface, {taken.key: number}
    return "feature", interface, {taken.key: bool(value)}
