"""Facts about a net_device's flags: from the driver's entry points to what it registers.

The interpreter says which bits are in which field when the net_device is
registered; this module chooses entry points, joins what several of them say,
and turns fields into facts with defaults.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from zcdb.nics.capabilities import CAPABILITIES
from zcdb.nics.facts import Default
from zcdb.nics.frames import OutOfSteps, Snapshot, called_by_kernel
from zcdb.nics.interpreter import Interpreter
from zcdb.nics.source import Function, Index, Table
from zcdb.nics.values import (
    EMPTY,
    Bits,
    Condition,
    Presence,
    State,
    join_states,
)

BITS = frozenset(
    capability.token
    for capability in CAPABILITIES.values()
    if capability.kind in ("feature", "xdp", "timestamp", "coalesce")
    or "ETHTOOL_" in capability.token
)

_SECONDARY_PATH = re.compile(
    r"(?:^|[/_-])(?:switch|switchdev|reps?|repr|vf_rep|vport_rep|en_rep|ipoib|eswitch)(?:[_./-]|$)"
)
_SECONDARY_NAME = re.compile(
    r"(?:^|_)(?:reps?|reprs?|representor|vfr|vf_rep|vport_rep|ipoib)(?:_|$)", re.IGNORECASE
)
_SECONDARY_TABLE = re.compile(r"(?:^|_)(?:mgmt|recovery|eswitch)(?:_|$)", re.IGNORECASE)
_SETS = re.compile(
    r"\b\w*features\s*(?:\|=|&=|=(?!=))|\bregister_netdev|xdp_(?:set|clear)_features"
    r"|queue_mgmt_ops\s*=|netmem_tx\s*=|netdev_features_t\s*\*|so_timestamping\s*\|?=|supported_\w+_params\s*\|?="
)
_LATER_FIELDS = frozenset(
    """ndo_set_features ndo_fix_features ndo_features_check ndo_change_mtu ndo_start_xmit ndo_bpf
    ndo_xdp_xmit suspend resume remove shutdown error_detected slot_reset notifier_call disconnect
    reset_resume ndo_stop freeze thaw poweroff restore""".split()  # noqa: SIM905
)
_LATER_NAME = re.compile(
    r"(?:^|_)(?:resume|suspend|remove|shutdown|thaw|freeze|restore|reset_work)$"
)
_FIELDS_OF_NETDEV = (
    "N.features",
    "N.hw_features",
    "N.xdp_features",
    "N.queue_mgmt_ops",
    "N.netmem_tx",
)


_ALLOCATES = re.compile(r"\balloc_(?:ether|net)dev")
_REGISTERS = re.compile(r"\bregister_netdev")


def is_named_secondary(block: Function | Table) -> bool:
    """Return whether file or name say that this is about representors, IPoIB or switch ports."""
    if isinstance(block, Table) and _SECONDARY_TABLE.search(block.name):
        return True
    return bool(_SECONDARY_PATH.search(block.path) or _SECONDARY_NAME.search(block.name))


class Primary:
    """Tells a unit's own net_devices from secondary ones: representors, IPoIB, a helper's own.

    Args:
        index: the unit's source.
    """

    def __init__(self, index: Index) -> None:
        self.index = index
        own = [f for found in index.functions.values() for f in found if not f.is_library]
        makers = [f for f in own if _REGISTERS.search(f.text)]
        self._allocates = any(_ALLOCATES.search(f.text) for f in own)
        # A driver of nothing but switch ports has no other net_devices: then they are its own.
        self._has_primary = not makers or not all(is_named_secondary(f) for f in makers)
        self._tables: dict[str, bool] = {}

    def is_secondary(self, block: Function | Table) -> bool:
        """Return whether a function or table is not about the unit's own net_devices."""
        if self._has_primary and is_named_secondary(block):
            return True
        if isinstance(block, Table):
            return self._has_primary and self._only_for_secondary(block)
        # A driver that allocates its net_device itself does not get it from a library.
        return block.is_library and self._allocates and bool(_REGISTERS.search(block.text))

    def _only_for_secondary(self, table: Table) -> bool:
        """Return whether every function that names a table is a secondary one."""
        if table.name not in self._tables:
            users = [
                function
                for functions in self.index.functions.values()
                for function in functions
                if table.name in function.names
            ]
            self._tables[table.name] = bool(users) and all(map(is_named_secondary, users))
        return self._tables[table.name]


def is_bit(name: str) -> bool:
    """Return whether a name is a capability bit."""
    return name in BITS


def bit_names(index: Index) -> set[str]:
    """Return the bits and the macros that hold them, through any number of macros."""
    names = set(BITS)
    bodies = {
        macro.name: macro.names
        for macro in index.macros.values()
        if macro.parameters is None and len(macro.body) < 4000 and macro.names
    }
    grown = True
    while grown:
        new = {name for name, inside in bodies.items() if name not in names and inside & names}
        grown = bool(new)
        names |= new
    return names


@dataclass
class Relevance:
    """Which functions are worth following, and where to start."""

    index: Index
    names: set[str]
    functions: set[str] = field(default_factory=set)
    bit_fields: set[str] = field(default_factory=set)

    def find(self) -> None:
        """Mark every function that sets bits, and all that lead to one."""
        self._find_fields()
        fields = "|".join(sorted(self.bit_fields)) or "(?!)"
        sets = re.compile(_SETS.pattern + rf"|(?:->|\.)(?:{fields})\s*[|&]?=(?!=)")
        for name, functions in self.index.functions.items():
            for function in functions:
                if sets.search(function.text) or function.names & self.names:
                    self.functions.add(name)
        self.close()

    def _find_fields(self) -> None:
        pattern = re.compile(r"(?:->|\.)(\w+)\s*\|?=\s*([^;{}=,]+)")
        for file in self.index.files:
            for match in pattern.finditer(file.text):
                words = set(re.findall(r"\w+", match[2]))
                if words & self.names or ("feature" in match[1] and "feature" in match[2]):
                    self.bit_fields.add(match[1])
        for macro in self.index.macros.values():
            if macro.names & self.names:
                self.bit_fields |= set(re.findall(r"\.(\w+)\s*=", macro.body))

    def close(self) -> None:
        """Add callers, through pointers too, until nothing is added."""
        while True:
            fields = {
                name
                for name, found in self.index.candidates.items()
                if any(function.name in self.functions for _, _, function in found)
            }
            new = {
                name
                for name, functions in self.index.functions.items()
                if name not in self.functions
                and any(f.called & self.functions or f.indirect_calls & fields for f in functions)
            }
            if not new:
                return
            self.functions |= new

    def named_by_own_tables(self) -> set[str]:
        """Return the functions that tables of the unit itself, not of a library, point to."""
        return {
            target
            for table in self.index.tables
            if not table.is_library
            for _, target in table.pointers
        }

    def probes(self) -> set[str]:
        """Return the names of functions that a bus calls when it finds a device."""
        return {
            function.name
            for name in ("probe", "newlink", "setup", "add", "probe_new")
            for struct, _, function in self.index.candidates.get(name, ())
            if called_by_kernel(struct)
        }

    def roots(self, is_secondary: Callable[[Function | Table], bool]) -> list[Function]:
        """Return the relevant functions that nothing relevant calls."""
        called: set[str] = set()
        indirect: set[str] = set()
        for name in self.functions:
            for function in self.index.functions[name]:
                called |= function.called
                indirect |= function.indirect_calls
        entries: set[str] = set()
        through: set[str] = set()
        later: set[str] = set()
        for name, candidates in self.index.candidates.items():
            for struct, _, function in candidates:
                if name in _LATER_FIELDS or struct == "ethtool_ops":
                    later.add(function.name)
                elif called_by_kernel(struct):
                    entries.add(function.name)
                elif name in indirect:
                    through.add(function.name)
        called -= entries
        return [
            function
            for name in sorted(self.functions - (called - entries) - (through - entries) - later)
            for function in self.index.functions[name]
            if not is_secondary(function)
            and function.body is not None
            and not _LATER_NAME.search(name)
        ]


@dataclass(frozen=True)
class Flag:
    """A bit of the registered net_device.

    Attributes:
        default: see `zcdb.nics.facts.Fact`.
    """

    presence: Presence
    default: Default | None


def net_device_flags(interpreter: Interpreter, relevance: Relevance) -> dict[str, Flag]:
    """Return the bits that the unit's net_devices have, by name."""
    roots = relevance.roots(interpreter.is_secondary)
    offered = relevance.index.exported | relevance.named_by_own_tables()
    # What a helper library starts by itself is another driver's.
    runs = [_run(interpreter, f) for f in roots if not f.is_library or f.name in offered]
    probes = relevance.probes()
    # What a driver registers when it meets a device counts before what later events register.
    first = [run for run in runs if run.root.name in probes and run.snapshots]
    registered: State | None = None
    for run in first or runs:
        for snapshot in run.snapshots:
            condition = frozenset((Condition((snapshot.function,)),))
            registered = join_states(registered, snapshot.state, condition)
    others = sorted(runs, key=lambda run: (not run.snapshots, run.root.name not in probes))
    ends = [
        run.end if run.snapshots or run.root.name in probes else _unguarded(run.end)
        for run in others
    ]
    registered = _add_later(registered or {}, ends)
    registered = _fix_features(interpreter, registered)
    return _flags(registered)


@dataclass
class _Run:
    root: Function
    end: State
    snapshots: list[Snapshot]


def _run(interpreter: Interpreter, root: Function) -> _Run:
    interpreter.snapshots = []
    try:
        end, _ = interpreter.run(root, {})
    except OutOfSteps:
        end = {}
    return _Run(root, end, [s for s in interpreter.snapshots if _says_something(s.state)])


def _unguarded(end: State) -> State:
    """Drop the conditions that all bits share: they tell one event from another, not one device."""
    presences = [p for symbol in _FIELDS_OF_NETDEV for p in end.get(symbol, EMPTY).have.values()]
    if len(presences) < 2:
        return end
    shared = frozenset.intersection(*(presence.conditions for presence in presences))
    return {symbol: bits.without(shared) for symbol, bits in end.items()}


def _says_something(state: State) -> bool:
    return any(state.get(symbol, EMPTY).have for symbol in _FIELDS_OF_NETDEV)


def _add_later(registered: State, others: Iterable[State]) -> State:
    """Add bits that entry points set after registration or beside it."""
    state = dict(registered)
    for other in others:
        known = {bit for symbol in _FIELDS_OF_NETDEV for bit in state.get(symbol, EMPTY).have}
        for symbol in _FIELDS_OF_NETDEV:
            new = {
                bit: presence
                for bit, presence in other.get(symbol, EMPTY).have.items()
                if bit not in known
            }
            if new:
                state[symbol] = state.get(symbol, EMPTY) | Bits(new)
    return state


def _fix_features(interpreter: Interpreter, state: State) -> State:
    """Apply what ndo_fix_features takes away for some devices."""
    tables = [
        function
        for struct, table, function in interpreter.index.candidates.get("ndo_fix_features", ())
        if not interpreter.is_secondary(function) and not _SECONDARY_NAME.search(table)
    ]
    everything = Bits({bit: Presence() for bit in BITS})
    for function in {id(f): f for f in tables}.values():
        names = [name for name, struct in function.parameters]
        if len(names) < 2:
            continue
        ignored = set(interpreter.ignored)
        interpreter.ignored |= {names[1], "features"}
        try:
            _, value = interpreter.run(function, {}, {names[1]: everything})
        except OutOfSteps:
            value = everything
        interpreter.ignored = ignored
        if not value.have or value.is_complement:
            continue
        state = {
            symbol: _restrict(bits, value) if symbol in ("N.features", "N.hw_features") else bits
            for symbol, bits in state.items()
        }
    return state


def _restrict(bits: Bits, allowed: Bits) -> Bits:
    have = {
        bit: presence.under(allowed.have[bit].conditions) if bit in allowed.have else presence
        for bit, presence in bits.have.items()
    }
    return Bits(have, bits.is_complement, bits.is_known)


def _flags(state: State) -> dict[str, Flag]:
    on = state.get("N.features", EMPTY).have
    switchable = state.get("N.hw_features", EMPTY).have
    flags: dict[str, Flag] = {}
    for bit in [*on, *(bit for bit in switchable if bit not in on)]:
        default: Default = "off" if bit not in on else "on" if bit in switchable else "fixed"
        found = [where[bit] for where in (on, switchable) if bit in where]
        always = [presence for presence in found if not presence.conditions]
        best = always[0] if always else found[0]
        places = frozenset().union(*(presence.places for presence in found))
        flags[bit] = Flag(Presence(best.conditions, places), default)
    for symbol in ("N.xdp_features", "N.queue_mgmt_ops", "N.netmem_tx"):
        for bit, presence in state.get(symbol, EMPTY).have.items():
            flags[bit] = Flag(presence, None)
    return flags
