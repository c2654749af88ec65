"""The interpreter's expressions: what they are worth, what they store, whom they call."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from tree_sitter import Node

from zcdb.nics.conditions import conditions_of, names_of
from zcdb.nics.frames import Frame, Snapshot, called_by_kernel
from zcdb.nics.nodes import parse_expression, text_of
from zcdb.nics.source import Function, Table
from zcdb.nics.symbols import Symbols
from zcdb.nics.values import (
    ALWAYS,
    EMPTY,
    UNKNOWN,
    Bits,
    Condition,
    Conditions,
    Presence,
    State,
    join_bits,
    join_states,
)

REGISTER_CALLS = frozenset(
    ("register_netdev", "register_netdevice", "devm_register_netdev", "register_candev")
)
_MAX_DEPTH = 14
_BELOW = re.compile(r"real_?dev|lower_?dev|phy_?dev|slave|lower|parent|standby|primary")
"""What the device below a virtual link is called."""


class Expressions(Symbols, ABC):
    """Evaluates expressions; calls run whole functions through `_run`."""

    @abstractmethod
    def _run(
        self,
        function: Function,
        state: State,
        arguments: dict[str, Bits],
        aliases: dict[str, str],
    ) -> tuple[State, Bits]:
        """Run a function; return the state after it and its value."""

    def _value(self, node: Node, state: State) -> Bits:
        kind = node.type
        if kind == "identifier":
            return self._identifier(node, state)
        if kind == "field_expression":
            return self._field(node, state)
        if kind == "assignment_expression":
            return self._assignment(node, state)
        if kind == "call_expression":
            return self._call(node, state)
        if kind == "binary_expression":
            return self._binary(node, state)
        if kind == "conditional_expression":
            return self._choice(node, state)
        if kind == "unary_expression":
            return self._unary(node, state)
        if kind in ("parenthesized_expression", "comma_expression"):
            bits = UNKNOWN
            for child in node.named_children:
                bits = self._value(child, state)
            return bits
        if kind == "cast_expression":
            value = node.child_by_field_name("value")
            return self._value(value, state) if value is not None else UNKNOWN
        if kind == "number_literal":
            return EMPTY if self.constants.value(node) == 0 else UNKNOWN
        if kind in ("false", "null"):
            return EMPTY
        if kind == "pointer_expression":
            symbol = self._symbol(node)
            return self._read(symbol, state) if symbol is not None else UNKNOWN
        if kind == "subscript_expression":
            argument = node.child_by_field_name("argument")
            return self._value(argument, state) if argument is not None else UNKNOWN
        return UNKNOWN

    def _field(self, node: Node, state: State) -> Bits:
        """Return what a field holds; of another net_device that the unit did not make, unknown.

        A virtual link takes flags over from the device below it: all net_devices of a unit are
        one here, but that one has no flags yet where another's are read.
        """
        symbol = self._symbol(node)
        bits = self._read(symbol, state)
        if symbol is not None and symbol.startswith("N.") and symbol not in state:
            base = text_of(node.child_by_field_name("argument"))
            if self._target_base and base != self._target_base and _BELOW.search(base):
                return UNKNOWN
        return bits

    def _identifier(self, node: Node, state: State) -> Bits:
        name = text_of(node)
        if self.is_bit(name):
            return Bits({name: Presence(places=frozenset((self._place(node),)))})
        if name in ("NULL", "false"):
            return EMPTY
        frame = self._stack[-1]
        if name in frame.aliases:
            return self._read(frame.aliases[name], state)
        local = f"L.{frame.number}.{name}"
        if local in state:
            return state[local]
        return self._expand(name, node, state)

    def _expand(self, name: str, node: Node, state: State) -> Bits:
        """Return the value of an object-like macro, evaluated where it is used."""
        if name not in self._macro_nodes:
            macro = self.index.macros.get(name)
            body = None
            if macro is not None and macro.parameters is None and len(macro.body) < 4000:
                body = parse_expression(macro.body)
            self._macro_nodes[name] = body
        expression = self._macro_nodes[name]
        if expression is None or len(self._stack) > 40:
            return UNKNOWN
        bits = self._value(expression, state)
        place = frozenset((self._place(node),))
        return Bits(
            {bit: Presence(p.conditions, place) for bit, p in bits.have.items()},
            bits.is_complement,
            bits.is_known,
        )

    def _binary(self, node: Node, state: State) -> Bits:
        left_node, right_node = node.child_by_field_name("left"), node.child_by_field_name("right")
        sign = text_of(node.child_by_field_name("operator"))
        if left_node is None or right_node is None:
            return UNKNOWN
        left, right = self._value(left_node, state), self._value(right_node, state)
        if sign in ("|", "+"):
            return left | right
        if sign != "&":
            return UNKNOWN
        if _says_nothing(right):
            return left.under(conditions_of(right_node, self.ignored)) if left.have else UNKNOWN
        if _says_nothing(left):
            if right.is_complement:
                return UNKNOWN
            return right.under(conditions_of(left_node, self.ignored))
        return left & right

    def _choice(self, node: Node, state: State) -> Bits:
        condition = node.child_by_field_name("condition")
        first = node.child_by_field_name("consequence")
        second = node.child_by_field_name("alternative")
        if condition is None or second is None:
            return UNKNOWN
        guard = self._value(condition, state)
        one = self._value(first, state) if first is not None else guard
        two = self._value(second, state)
        truth = self.constants.value(condition)
        if truth is not None:
            return one if truth else two
        return join_bits(one, two, conditions_of(condition, self.ignored))

    def _unary(self, node: Node, state: State) -> Bits:
        argument = node.child_by_field_name("argument")
        if argument is None:
            return UNKNOWN
        bits = self._value(argument, state)
        if text_of(node.child_by_field_name("operator")) != "~" or not (bits.have or bits.is_known):
            return UNKNOWN
        return Bits(bits.have, not bits.is_complement)

    def _assignment(self, node: Node, state: State) -> Bits:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            return UNKNOWN
        symbol = self._symbol(left)
        outer = self._target_base
        if symbol is not None and symbol.startswith("N."):
            self._target_base = text_of(left.child_by_field_name("argument"))
        bits = self._value(right, state)
        self._target_base = outer
        if symbol is None:
            return bits
        if left.type == "identifier":
            self._remember_origin(text_of(left), right)
        if symbol == "N.queue_mgmt_ops":
            bits = self._queue_ops(right)
        elif symbol == "N.netmem_tx":
            name = "netmem_tx"
            bits = EMPTY if text_of(right) in ("false", "0") else self._bit(name, right)
        self._store(symbol, text_of(node.child_by_field_name("operator")), bits, state)
        return bits

    def _queue_ops(self, node: Node) -> Bits:
        text = text_of(node)
        return EMPTY if text == "NULL" or "unsupp" in text else self._bit("queue_mgmt_ops", node)

    def _bit(self, name: str, node: Node) -> Bits:
        return Bits({name: Presence(places=frozenset((self._place(node),)))})

    def _store(self, symbol: str, operator: str, bits: Bits, state: State) -> None:
        if operator == "=":
            if bits.have or bits.is_known or not symbol.startswith("N."):
                state[symbol] = bits
        elif operator == "|=":
            if bits.have:
                state[symbol] = self._before(symbol, state) | bits
        elif operator == "&=" and (bits.is_complement or bits.have):
            state[symbol] = self._read(symbol, state) & bits

    def _before(self, symbol: str, state: State) -> Bits:
        """Return what a symbol holds before `|=`: of an own field, what its tables give it."""
        if symbol in state or not symbol.startswith("F."):
            return self._read(symbol, state)
        before = EMPTY
        for bits in self._from_tables(symbol[2:]):
            before = join_bits(before, bits, frozenset((Condition((symbol[2:],)),)))
        return before

    def _read(self, symbol: str | None, state: State) -> Bits:
        if symbol is None:
            return UNKNOWN
        if symbol in state:
            return state[symbol]
        if symbol.startswith("N."):
            return EMPTY
        if symbol.startswith("F.") and symbol[2:] in self.bit_fields:
            return self.field_summary(symbol[2:])
        return UNKNOWN

    def _remember_origin(self, name: str, value: Node) -> None:
        """Remember what a local was set from, so that a test of it can say what it tests."""
        while (
            value.type in ("parenthesized_expression", "cast_expression") and value.named_children
        ):
            value = value.named_children[-1]
        if value.type in ("call_expression", "field_expression", "binary_expression"):
            names = names_of(value)[:3]
            if names and name not in names:
                self._stack[-1].origins[name] = names

    # -- calls ---------------------------------------------------------------------------------

    def _call(self, node: Node, state: State) -> Bits:
        function = node.child_by_field_name("function")
        arguments = node.child_by_field_name("arguments")
        given = arguments.named_children if arguments is not None else []
        if function is None:
            return UNKNOWN
        if function.type == "field_expression":
            for argument in given:
                self._nested_calls(argument, state)
            return self._indirect(function, given, state)
        name = text_of(function)
        if name in REGISTER_CALLS:
            self._register(state)
            return UNKNOWN
        if name in self.call_bits:
            state["N.calls"] = state.get("N.calls", EMPTY) | self._bit(self.call_bits[name], node)
            return UNKNOWN
        if name.startswith(("xdp_set_features_flag", "xdp_features_set", "xdp_clear_features")):
            self._xdp_helper(name, given, state)
            return UNKNOWN
        if name in ("likely", "unlikely", "READ_ONCE", "cpu_to_le32", "cpu_to_be32") and given:
            return self._value(given[0], state)
        if name == "netdev_intersect_features" and len(given) == 2:
            return self._value(given[0], state) & self._value(given[1], state)
        target = self.index.function(name, self._stack[-1].function.path)
        if target is None or name not in self.relevant or self.is_secondary(target):
            for argument in given:
                self._nested_calls(argument, state)
            return UNKNOWN
        return self._enter(target, given, state)

    def _nested_calls(self, node: Node, state: State) -> None:
        if node.type in ("call_expression", "assignment_expression"):
            self._value(node, state)

    def _register(self, state: State) -> None:
        found = [
            function
            for struct, _, function in self.index.candidates.get("ndo_init", ())
            if struct == "net_device_ops" and not self.is_secondary(function)
        ]
        found = [function for function in found if not function.is_library] or found
        for function in found:
            if function.name in self.relevant:
                self._alternatives([function], 1, [], state, "ndo_init")
        guards = ALWAYS.union(*(frame.conditions() | frame.passed for frame in self._stack))
        kept = {
            symbol: bits.without(guards)
            for symbol, bits in state.items()
            if symbol.startswith("N.")
        }
        self.snapshots.append(Snapshot(kept, self._stack[-1].function.name))

    def _xdp_helper(self, name: str, given: list[Node], state: State) -> None:
        if name.startswith("xdp_set_features_flag") and len(given) == 2:
            self._store("N.xdp_features", "=", self._value(given[1], state), state)
        elif name.startswith("xdp_clear_features_flag"):
            state["N.xdp_features"] = EMPTY

    def _enter(self, target: Function, given: list[Node], state: State) -> Bits:
        """Follow a call: bind arguments, run, and take over what it changed."""
        running = [frame.function for frame in self._stack]
        if len(running) > _MAX_DEPTH or target in running:
            return UNKNOWN
        values: dict[str, Bits] = {}
        aliases: dict[str, str] = {}
        for (name, struct), argument in zip(target.parameters, given, strict=False):
            address = self._address(argument)
            if address is not None:
                aliases[name] = address
            bits = (
                self._value(argument, state)
                if not struct or argument.type == "call_expression"
                else UNKNOWN
            )
            if address is None and (bits.have or bits.is_complement):
                values[name] = bits
        after, value = self._run(target, state, values, aliases)
        state.clear()
        state.update(after)
        return value

    def _indirect(self, node: Node, given: list[Node], state: State) -> Bits:
        """Follow a call through a field: every function it may be is an alternative."""
        name = text_of(node.child_by_field_name("field"))
        candidates = [
            candidate
            for candidate in self.index.candidates.get(name, [])
            if not called_by_kernel(candidate[0])
        ]
        if not any(function.name in self.relevant for _, _, function in candidates):
            return UNKNOWN
        own = [candidate for candidate in candidates if not candidate[2].is_library]
        candidates = (
            own if any(function.name in self.relevant for _, _, function in own) else candidates
        )
        structs = self._structs_of(node.child_by_field_name("argument"))
        typed = [c for c in candidates if c[0] in structs] or candidates
        tables = {
            table.name
            for table in self.index.tables
            if table.struct in {c[0] for c in typed} and not self.is_secondary(table)
        }
        chosen = {
            (table, function.name): function
            for _, table, function in typed
            if not self.is_secondary(function) and (not table or table in tables)
        }
        functions = list({id(f): f for f in chosen.values()}.values())
        return self._alternatives(functions, len(functions), given, state, name)

    def _alternatives(
        self, functions: list[Function], total: int, given: list[Node], state: State, name: str
    ) -> Bits:
        if not functions or len(functions) > 24:
            return UNKNOWN
        conditions: Conditions = frozenset((Condition((name,)),)) if total > 1 else ALWAYS
        joined: State | None = None
        value: Bits | None = None
        for function in functions:
            branch = dict(state)
            bits = UNKNOWN
            if function.name in self.relevant:
                bits = self._enter(function, given, branch)
            joined = join_states(joined, branch, conditions)
            value = bits if value is None else join_bits(value, bits, conditions)
        assert joined is not None  # noqa: S101
        state.clear()
        state.update(joined)
        return value or UNKNOWN

    # -- fields of the driver's own structs ----------------------------------------------------

    def field_summary(self, name: str) -> Bits:
        """Return the bits that any table or function of the unit puts into field `name`."""
        if name in self._summaries:
            return self._summaries[name] or UNKNOWN
        self._summaries[name] = None
        alternatives = self._from_tables(name) + self._from_functions(name)
        summary: Bits | None = None
        for bits in alternatives:
            conditions: Conditions = frozenset((Condition((name,)),))
            summary = bits if summary is None else join_bits(summary, bits, conditions)
        self._summaries[name] = summary or UNKNOWN
        return summary or UNKNOWN

    def _from_tables(self, name: str) -> list[Bits]:
        found: list[Bits] = []
        structs: set[str] = set()
        for table in self.index.tables:
            if self.is_secondary(table):
                continue
            node = table.fields.get(name)
            if node is None:
                node = self._from_macro_element(table, name)
            if node is None:
                continue
            structs.add(table.struct)
            found.append(self._in_table(table, node))
        missing = sum(
            1
            for table in self.index.tables
            if table.struct in structs
            and not self.is_secondary(table)
            and name not in table.text
            and self._from_macro_element(table, name) is None
        )
        return found + [EMPTY] * min(missing, 1)

    def _from_macro_element(self, table: Table, name: str) -> Node | None:
        """Return the field's expression from a macro that stands for several fields."""
        for word in re.findall(r"^\s*([A-Z]\w+)\s*,", table.text, re.MULTILINE):
            macro = self.index.macros.get(word)
            if macro is None or f".{name}" not in macro.body:
                continue
            block = Table(macro.path, "", f"struct x y = {{ {macro.body} }};", table.line)
            if name in block.fields:
                return block.fields[name]
        return None

    def _in_table(self, table: Table, node: Node) -> Bits:
        place = Function(table.path, table.head, table.text, table.line, table.name)
        self._frames += 1
        self._stack.append(Frame(place, self._frames))
        try:
            return self._value(node, {})
        finally:
            self._stack.pop()

    def table_value(self, table: Table, name: str) -> Bits | None:
        """Return the bits of a designated field; None if the table does not set it."""
        node = table.fields.get(name) or self._from_macro_element(table, name)
        return None if node is None else self._in_table(table, node)

    def _from_functions(self, name: str) -> list[Bits]:
        pattern = re.compile(rf"(?:->|\.){name}\s*\|?=[^=]")
        found: list[Bits] = []
        for functions in self.index.functions.values():
            for function in functions:
                if self.is_secondary(function) or not pattern.search(function.text):
                    continue
                if function in [frame.function for frame in self._stack]:
                    continue
                saved, self.snapshots = self.snapshots, []
                state, _ = self._run(function, {}, {}, {})
                self.snapshots = saved
                bits = state.get(f"F.{name}")
                if bits is not None and bits.have:
                    found.append(bits)
        return found


def _says_nothing(bits: Bits) -> bool:
    return not bits.have and not bits.is_known
