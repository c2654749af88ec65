"""What the interpreter keeps while it runs: frames, ways out of functions, snapshots."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from zcdb.nics.source import Function
from zcdb.nics.values import ALWAYS, Bits, Conditions, State

_CALLED_BY_KERNEL = re.compile(
    r".*_driver|net_device_ops|ethtool_ops|dev_pm_ops|pci_error_handlers|notifier_block|devlink_ops"
    r"|rtnl_link_ops|dcbnl_rtnl_ops|component_ops"
)


def called_by_kernel(struct: str) -> bool:
    """Return whether the functions in a table of this type are called by the kernel's core."""
    return _CALLED_BY_KERNEL.fullmatch(struct) is not None


class OutOfSteps(Exception):
    """A function took more steps than one driver may cost."""


@dataclass(slots=True)
class Exit:
    """A way out of a function: what holds there, and the conditions that lead to it."""

    state: State
    conditions: Conditions
    value: Bits


@dataclass(slots=True)
class Snapshot:
    """What a net_device has when it is registered."""

    state: State
    function: str


@dataclass(slots=True)
class Frame:
    """A function being run.

    Attributes:
        aliases: local -> the symbol it points to.
        origins: local -> the names its last value came from.
        path: for each branch around the statement: its conditions; is it an error check.
        passed: conditions of earlier branches that left, so that the rest runs only without them.
    """

    function: Function
    number: int
    aliases: dict[str, str] = field(default_factory=dict)
    origins: dict[str, tuple[str, ...]] = field(default_factory=dict)
    path: list[tuple[Conditions, bool]] = field(default_factory=list)
    passed: Conditions = ALWAYS
    exits: list[Exit] = field(default_factory=list)
    errors: list[Exit] = field(default_factory=list)
    jumps: dict[str, list[Exit]] = field(default_factory=dict)
    breaks: list[list[State]] = field(default_factory=list)

    def conditions(self) -> Conditions:
        """Return the conditions of all branches around the statement."""
        return ALWAYS.union(*(conditions for conditions, _ in self.path))

    def in_error_branch(self) -> bool:
        """Return whether the innermost branch asks if the step before went wrong."""
        return bool(self.path) and self.path[-1][1]
