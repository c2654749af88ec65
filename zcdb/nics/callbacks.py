"""Facts that ops tables, callbacks and calls decide.

A driver may have several tables of a kind (PF, VF, safe mode): what only some
of them offer is conditional.  A callback that answers "not supported" for
some devices makes its capability conditional too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tree_sitter import Node

from zcdb.nics.conditions import conditions_of, is_about_a_ring
from zcdb.nics.frames import OutOfSteps
from zcdb.nics.interpreter import Interpreter
from zcdb.nics.nodes import calls, text_of
from zcdb.nics.source import Function, Index, Table
from zcdb.nics.values import ALWAYS, EMPTY, Bits, Condition, Conditions, Presence, join_bits

COALESCE_MEMBERS = {
    "ETHTOOL_COALESCE_RX_USECS": "rx_coalesce_usecs",
    "ETHTOOL_COALESCE_TX_USECS": "tx_coalesce_usecs",
    "ETHTOOL_COALESCE_USE_ADAPTIVE_RX": "use_adaptive_rx_coalesce",
}
_TIMES = frozenset(("ETHTOOL_COALESCE_RX_USECS", "ETHTOOL_COALESCE_TX_USECS"))
_USER_STRUCTS = frozenset(
    """ethtool_coalesce kernel_ethtool_coalesce netlink_ext_ack ethtool_rxfh_param
    ethtool_ringparam kernel_ethtool_ringparam""".split()  # noqa: SIM905
)
_REFUSAL = re.compile(r"(?:return|\b(?:err|ret|rc)\s*=)\s*-\s*(?:EOPNOTSUPP|ENOTSUPP)\s*;")
_NOT_CALLS = frozenset(("if", "while", "return", "sizeof", "switch"))
_BQL_CALL = re.compile(r"\b_*netdev_(?:tx_)?sent_queue\s*\(")


@dataclass(frozen=True)
class Callbacks:
    """Looks into the ops tables of one unit."""

    index: Index
    interpreter: Interpreter

    def tables(self, struct: str) -> list[Table]:
        """Return the unit's tables of a kind; a helper library's if it has none itself."""
        found = [
            t
            for t in self.index.tables
            if t.struct == struct and not self.interpreter.is_secondary(t)
        ]
        own = [table for table in found if not table.is_library]
        return own or [table for table in found if self._is_used(table)]

    def _is_used(self, table: Table) -> bool:
        pattern = re.compile(rf"\b{table.name}\b")
        return any(pattern.search(file.text) for file in self.index.files)

    def field(self, struct: str, name: str) -> Presence | None:
        """Return how a callback is there: in all tables of a kind, or in some."""
        tables = self.tables(struct)
        places, missing = set(), 0
        for table in tables:
            line = _field_line(table, name)
            if line is None:
                missing += 1
            else:
                places.add((table.path, line))
        if not places:
            return None
        return Presence(frozenset((Condition((name,)),)) if missing else ALWAYS, frozenset(places))

    def rss_table(self) -> Presence | None:
        """Return how the RSS table can be read: some devices answer that they have none."""
        presence = self.field("ethtool_ops", "get_rxfh")
        if presence is None:
            return None
        readers = self.functions("ethtool_ops", "get_rxfh")
        sizes = self.functions("ethtool_ops", "get_rxfh_indir_size")
        presence = presence.under(self.refusals(readers + sizes))
        return presence.under(frozenset().union(*(self._zero_sizes(size) for size in sizes)))

    def _zero_sizes(self, function: Function) -> Conditions:
        """Return the conditions under which a table has no entries."""
        if function.body is None:
            return ALWAYS
        starts_at_zero = re.search(r"\b\w+\s+(\w+)\s*=\s*0\s*[,;]", function.text)
        found: Conditions = ALWAYS
        for node in _top_ifs(function.body):
            condition = node.child_by_field_name("condition")
            then = node.child_by_field_name("consequence")
            if condition is None or then is None:
                continue
            sets = starts_at_zero and re.search(rf"\b{starts_at_zero[1]}\s*=(?!=)", text_of(then))
            if re.search(r"return\s+0\s*;", text_of(then)) or sets:
                told = conditions_of(condition, self.interpreter.ignored)
                found |= {one for one in told if not is_about_a_ring(one)}
        return found

    def data_split(self) -> Bits:
        """Return whether header/data split can be set; some devices refuse it."""
        bits = self.bits("ethtool_ops", "supported_ring_params")
        return bits.under(self.refusals(self.functions("ethtool_ops", "set_ringparam")))

    def sriov(self) -> Presence | None:
        """Return where SR-IOV is configured; which functions of which cards have it is not here."""
        presence = self.field("pci_driver", "sriov_configure")
        return presence and presence.under(frozenset((Condition(("pci_sriov_get_totalvfs",)),)))

    def bits(self, struct: str, name: str, required: str = "") -> Bits:
        """Return the bits of a table field, joined over the tables of a kind."""
        joined: Bits | None = None
        for table in self.tables(struct):
            bits = self.interpreter.table_value(table, name) or EMPTY
            if required and required not in table.fields:
                bits = EMPTY
            condition = frozenset((Condition((name,)),))
            joined = bits if joined is None else join_bits(joined, bits, condition)
        return joined or EMPTY

    def functions(self, struct: str, name: str) -> list[Function]:
        """Return the functions that tables of a kind have in a field."""
        wanted = {table.name for table in self.tables(struct)}
        found = [
            function
            for kind, table, function in self.index.candidates.get(name, ())
            if kind == struct and table in wanted
        ]
        return list({id(function): function for function in found}.values())

    # -- interrupt mitigation --------------------------------------------------------------------

    def coalesce(self) -> Bits:
        """Return which parameters `ethtool -C` can set."""
        bits = self.bits("ethtool_ops", "supported_coalesce_params", required="set_coalesce")
        setters = self.functions("ethtool_ops", "set_coalesce")
        if not setters:
            return bits
        text = "\n".join(f.text for f in self.reached(setters, depth=4))
        read = {
            bit for bit, member in COALESCE_MEMBERS.items() if re.search(rf"\b{member}\b", text)
        }
        # Where a callback names none of the times, they are read in a way not seen here.
        believed = frozenset(bits.have) if self._copies_parameters(setters) else frozenset()
        believed |= _TIMES if not read & _TIMES else frozenset()
        refused = self.refusals(setters)
        have = {
            bit: presence.under(refused)
            for bit, presence in bits.have.items()
            if bit in read or bit in believed
        }
        return Bits(have)

    def _copies_parameters(self, setters: list[Function]) -> bool:
        """Return whether the user's parameters are kept as a whole, or handed out of the unit."""
        for function in self.reached(setters, depth=4):
            for name, struct in function.parameters:
                if struct != "ethtool_coalesce":
                    continue
                if re.search(rf"=\s*\*\s*{name}\b|\bmemcpy\s*\([^;]*\b{name}\b", function.text):
                    return True
                handed = re.finditer(rf"\b(\w+)\s*\((?:[^();]*,)?\s*{name}\s*[,)]", function.text)
                if any(
                    call[1] not in self.index.functions and call[1] not in _NOT_CALLS
                    for call in handed
                    if call.start() > len(function.head)
                ):
                    return True
        return False

    def unread_coalesce(self) -> set[str]:
        """Return parameters that a driver declares settable and whose value it never reads."""
        declared = self.bits("ethtool_ops", "supported_coalesce_params", required="set_coalesce")
        return set(declared.have) - set(self.coalesce().have)

    def reached(self, functions: Iterable[Function], depth: int) -> list[Function]:
        """Return functions and what they call inside the unit, down to `depth`."""
        found = {id(function): function for function in functions}
        level = list(found.values())
        for _ in range(depth):
            below: list[Function] = []
            for function in level:
                names = set(function.called)
                for field in function.indirect_calls:
                    names |= {f.name for _, _, f in self.index.candidates.get(field, ())}
                for name in names:
                    for target in self.index.functions.get(name, ()):
                        if id(target) not in found:
                            found[id(target)] = target
                            below.append(target)
            level = below
        return list(found.values())

    def refusals(self, functions: list[Function], depth: int = 1) -> Conditions:
        """Return the conditions, not about the user's arguments, under which callbacks refuse."""
        refused: Conditions = ALWAYS
        for function in functions:
            if function.body is None:
                continue
            chosen = {
                n for n, struct in function.parameters if struct in _USER_STRUCTS or not struct
            }
            refused |= self._refusals_in(function.body, chosen, function)
            if depth:
                refused |= self.refusals(self._handed_on(function, chosen), depth - 1)
        return refused

    def _handed_on(self, function: Function, chosen: set[str]) -> list[Function]:
        """Return the called functions that get the user's arguments or parts of them."""
        targets = {
            name: target
            for name in sorted(function.called)
            if (target := self.index.function(name, function.path)) is not None
        }
        return [
            targets[text_of(call.child_by_field_name("function"))]
            for call in calls(function.tree, targets)
            if chosen.intersection(
                re.findall(r"\w+", text_of(call.child_by_field_name("arguments")))
            )
        ]

    def _refusals_in(self, body: Node, chosen: set[str], function: Function) -> Conditions:
        found: Conditions = ALWAYS
        for node in _top_ifs(body):
            condition = node.child_by_field_name("condition")
            then = node.child_by_field_name("consequence")
            if condition is None or then is None or not _REFUSAL.search(text_of(then)):
                continue
            words = set(re.findall(r"\w+", text_of(condition)))
            if words & chosen or not _refuses_first(then):
                continue
            found |= conditions_of(condition, self.interpreter.ignored)
        found |= self._refusing_branches(body, chosen, function)
        for node in body.named_children:
            condition = node.child_by_field_name("condition")
            if (
                node.type == "switch_statement"
                and condition is not None
                and self._case_refuses(node)
            ):
                words = set(re.findall(r"\w+", text_of(condition)))
                found |= ALWAYS if words & chosen else conditions_of(condition)
        return found

    def _refusing_branches(self, body: Node, chosen: set[str], function: Function) -> Conditions:
        """Return conditions that choose between a function that sets and one that only refuses."""
        found: Conditions = ALWAYS
        for node in _top_ifs(body):
            condition = node.child_by_field_name("condition")
            then, other = (node.child_by_field_name(n) for n in ("consequence", "alternative"))
            if condition is None or then is None or other is None:
                continue
            words = set(re.findall(r"\w+", text_of(condition)))
            if not words & chosen and self._only_refuses(then, function) != self._only_refuses(
                other, function
            ):
                found |= conditions_of(condition, self.interpreter.ignored)
        return found

    def _only_refuses(self, branch: Node, function: Function) -> bool:
        """Return whether a branch calls one unit function, and that sets nothing but may refuse."""
        names = re.findall(r"(\w+)\s*\(", text_of(branch))
        target = self.index.function(names[0], function.path) if len(names) == 1 else None
        return (
            target is not None
            and bool(_REFUSAL.search(target.text))
            and not re.search(r"(?:->|\.)\w+\s*[-+|&]?=(?!=)", target.text)
        )

    @staticmethod
    def _case_refuses(node: Node) -> bool:
        """Return whether a case (not the default) of a switch refuses."""
        body = node.child_by_field_name("body")
        cases = body.named_children if body is not None else []
        return any(
            case.type == "case_statement"
            and case.child_by_field_name("value") is not None
            and _REFUSAL.search(text_of(case))
            for case in cases
        )

    # -- time stamps -----------------------------------------------------------------------------

    def timestamps(self) -> Bits:
        """Return the time stamps that get_ts_info reports."""
        joined: Bits | None = None
        for table in self.tables("ethtool_ops"):
            bits = self._ts_info(table)
            condition = frozenset((Condition(("get_ts_info",)),))
            joined = bits if joined is None else join_bits(joined, bits, condition)
        return joined or EMPTY

    def _ts_info(self, table: Table) -> Bits:
        symbol = "F.so_timestamping"
        for name, target in table.pointers:
            function = self.index.function(target, table.path)
            if name != "get_ts_info" or function is None:
                continue
            try:
                state, _ = self.interpreter.run(function, {symbol: EMPTY})
            except OutOfSteps:
                return EMPTY
            return state.get(symbol, EMPTY)
        return EMPTY

    # -- calls -----------------------------------------------------------------------------------

    def queue_limits(self) -> Presence | None:
        """Return where byte queue limits are used."""
        for function in self._reachable():
            match = _BQL_CALL.search(function.text)
            if match and not self.interpreter.is_secondary(function):
                line = function.line + function.text.count("\n", 0, match.start())
                return Presence(ALWAYS, frozenset(((function.path, line),)))
        return None

    def _reachable(self) -> list[Function]:
        """Return the unit's own functions and the library functions they lead to."""
        own = [f for found in self.index.functions.values() for f in found if not f.is_library]
        named = {target for t in self.index.tables if not t.is_library for _, target in t.pointers}
        own += [f for name in named for f in self.index.functions.get(name, ()) if f.is_library]
        return own + [f for f in self.reached(own, depth=6) if f.is_library]


def _top_ifs(body: Node) -> Iterator[Node]:
    """Yield the if statements of a body that stand under no other condition."""
    for child in body.named_children:
        if child.type == "if_statement":
            yield child
        elif child.type in ("compound_statement", "labeled_statement"):
            yield from _top_ifs(child)


def _refuses_first(then: Node) -> bool:
    """Return whether a branch does nothing but refuse (perhaps after a message)."""
    return not any(
        node.type in ("if_statement", "for_statement", "switch_statement")
        for node in then.named_children
    )


def _field_line(table: Table, name: str) -> int | None:
    match = re.search(rf"\.{name}\s*=(?!\s*NULL\b)", table.text)
    return None if match is None else table.line + table.text.count("\n", 0, match.start())
