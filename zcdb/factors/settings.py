"""Settings of the machine as factors: the usual ones by a short name, all others by a dotted one.

`sg`, `mtu` or `tcp_wmem` stand in the registry.  Whatever else `zcdb.host.settings` can set is a
factor too, named by its kind and key: `feature.tx-udp-segmentation`, `coalescing.rx_usecs`,
`ring.rx`, `channels.combined`, `sysctl.net.core.default_qdisc`.  A name alone is meant for both
ends; `sender.` or `receiver.` before it names one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from zcdb.factors.model import ABSENT, Factor

Family = Literal["feature", "coalescing", "ring", "channels", "sysctl"]

COALESCING_SWITCHES = ("adaptive_rx", "adaptive_tx", "cqe_mode_tx", "cqe_mode_rx")
_KEYS: dict[str, str] = {
    "feature": r"[a-z0-9][a-z0-9_-]{0,31}",
    "coalescing": r"[a-z][a-z_]{1,31}",
    "ring": "rx|rx_mini|rx_jumbo|tx",
    "channels": "rx|tx|other|combined",
    "sysctl": r"net[./][A-Za-z0-9_./:@-]+",
}
_NAME = re.compile(r"(?:(?P<end>sender|receiver)\.)?(?P<rest>.+)")


@dataclass(frozen=True, slots=True)
class SettingName:
    """A setting's factor name, taken apart.

    Attributes:
        end: the end it is meant for; None for both.
        family: kind of setting for a dotted name; None for a short one.
        key: what is set within the family, or the short name.
    """

    end: Literal["sender", "receiver"] | None
    family: Family | None
    key: str


def setting_name(name: str) -> SettingName:
    """Take a factor name apart: `"sender.ring.rx"` is ("sender", "ring", "rx").

    Raises:
        ValueError: if the family has no such key.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is not the name of a setting")
    end, rest = match["end"], match["rest"]
    family, dot, key = rest.partition(".")
    if family not in _KEYS or not dot:
        return SettingName(end, None, rest)  # type: ignore[arg-type]  # the pattern has both words
    if not re.fullmatch(_KEYS[family], key):
        raise ValueError(f"{key!r} is not a key of {family}")
    return SettingName(end, family, key)  # type: ignore[arg-type]  # a key of _KEYS


def setting_factor(name: str, known: dict[str, Factor]) -> Factor | None:
    """Return the factor of a setting that the registry does not list, or None if it is none."""
    try:
        taken = setting_name(name)
    except ValueError:
        return None
    where = f" ({taken.end})" if taken.end else ""
    if taken.family is None:
        short = known.get(taken.key) if taken.end else None
        if short is None or not short.is_setting:
            return None
        return replace(short, name=name, label=f"{short.label}{where}", aliases=())
    is_switch = taken.family == "feature" or taken.key in COALESCING_SWITCHES
    return Factor(
        name,
        "tuning",
        "text" if taken.family == "sysctl" else "switch" if is_switch else "integer",
        f"{_LABELS[taken.family]}{taken.key}{where}",
        _HELP[taken.family],
        default=ABSENT,
        maximum=2**32 - 1,
        is_setting=True,
    )


_LABELS: dict[Family, str] = {
    "feature": "",
    "coalescing": "Coalescing ",
    "ring": "Ring ",
    "channels": "Channels ",
    "sysctl": "",
}
_HELP: dict[Family, str] = {
    "feature": "A feature of the interface, by the name that 'ethtool -k' prints.",
    "coalescing": "Interrupt coalescing of the interface, as 'ethtool -c' has it.",
    "ring": "Descriptors of the interface's ring, as 'ethtool -g' has them.",
    "channels": "Queues of the interface, as 'ethtool -l' has them.",
    "sysctl": "A sysctl of the end's network namespace.",
}
