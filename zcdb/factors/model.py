"""What a factor is, and the two values that are no value: absent and unstated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

FactorValue = str | int | bool
Factors = Mapping[str, FactorValue]

Kind = Literal["workload", "tuning", "protocol", "environment"]
Type = Literal["choice", "size", "rate", "integer", "boolean", "switch", "text"]

ABSENT: Final = ""
"""Default of factors that a case need not have: such a case is not on that axis, and a
setting that is absent is left as it was found."""

UNSTATED: Final = "unstated"
"""Value of a factor about which a published source is silent: the default would be a guess."""


@dataclass(frozen=True, slots=True)
class Factor:
    """One thing that can vary.

    Attributes:
        kind: workload, tuning, protocol (all three are declared) or environment (observed).
        type: decides how a value is read and shown; a switch is on, off, or left as found.
        default: the value that stays out of the hash; `ABSENT` where a case need not have the
            factor at all; None where a case must state one.
        is_setting: True for settings of the machine, which a run changes and puts back.
        follows: the factor this one comes along with (a driver follows its NIC): a
            comparison along that factor leaves this one out of what must be equal.
        choices: the words a "choice" takes.
        minimum, maximum: limits of sizes, rates and integers, both included.
    """

    name: str
    kind: Kind
    type: Type
    label: str
    help: str
    default: FactorValue | None = None
    choices: tuple[str, ...] = ()
    minimum: int = 0
    maximum: int | None = None
    follows: str | None = None
    aliases: tuple[str, ...] = ()
    is_setting: bool = False

    @property
    def is_declared(self) -> bool:
        """True if an experiment file states it; False if it is read from the machine."""
        return self.kind != "environment"
