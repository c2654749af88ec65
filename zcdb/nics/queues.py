"""How many queues a driver allocates its net_device with: several, perhaps one, or one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tree_sitter import Node

from zcdb.nics.conditions import conditions_of
from zcdb.nics.interpreter import Interpreter
from zcdb.nics.nodes import calls, text_of, walk_to
from zcdb.nics.source import Function, Index
from zcdb.nics.values import ALWAYS, Condition, Conditions, Presence

_QUEUE_CALLS = {
    "alloc_etherdev_mq": (1, 1),
    "alloc_etherdev_mqs": (1, 2),
    "devm_alloc_etherdev_mqs": (2, 3),
    "alloc_netdev_mq": (4, 4),
    "alloc_netdev_mqs": (4, 5),
}
"""Call -> positions of its TX and RX queue counts."""

_ONE = re.compile(r"(?:0x)?1U?|\*?\w+\s*=\s*1")


def queues(index: Index, interpreter: Interpreter, asked: Presence | None) -> Presence | None:
    """Return whether net_devices are allocated with more than one queue.

    Args:
        asked: where the driver tells the core how many queues a link gets.
    """
    found: list[Presence] = [asked] if asked is not None else []
    singles = 0
    for functions in index.functions.values():
        for function in functions:
            if interpreter.is_secondary(function) or not function.called & _QUEUE_CALLS.keys():
                continue
            for call in calls(function.tree, _QUEUE_CALLS):
                count = QueueCount(index, interpreter, function).of(call)
                if count is None:
                    singles += 1
                else:
                    found.append(count)
    if not found:
        return None
    places = frozenset().union(*(presence.places for presence in found))
    conditions = frozenset().union(*(presence.conditions for presence in found))
    if singles:
        conditions |= {Condition(("alloc_etherdev",))}
    return Presence(conditions, places)


@dataclass(frozen=True)
class QueueCount:
    """Finds out whether a queue count can be one."""

    index: Index
    interpreter: Interpreter
    function: Function

    def of(self, call: Node) -> Presence | None:
        """Return how a call allocates several queues; None if it never does."""
        name = text_of(call.child_by_field_name("function"))
        arguments = call.child_by_field_name("arguments")
        given = arguments.named_children if arguments is not None else []
        place = (self.function.path, self.function.line + call.start_point[0])
        conditions: Conditions | None = None
        for position in _QUEUE_CALLS[name]:
            if position >= len(given):
                continue
            value = self.interpreter.constants.value(given[position])
            if value is not None and value <= 1:
                continue
            may_be_one = value is None and self._may_be_one(given[position], self.function)
            now = conditions_of(given[position]) if may_be_one else ALWAYS
            conditions = now if conditions is None or not now else conditions and conditions | now
        if conditions is None:
            return None
        return Presence(conditions, frozenset((place,)))

    def _may_be_one(self, node: Node, function: Function) -> bool:
        """Return whether any assignment to what `node` names stores the constant 1."""
        words = re.findall(r"(?:->|\.)\s*(\w+)|\b([a-z_]\w*)\b", text_of(node))
        if not words:
            return False
        field, local = words[-1]
        if field:
            # A field is shared by net_devices of several kinds: its 1 may be for another kind.
            return False
        pattern = re.compile(rf"(?<![\w.>])\*?{local}\s*=\s*([^;=][^;]*);")
        if any(
            _ONE.fullmatch(m[1].strip())
            for text in self._through_pointers(local, function)
            for m in pattern.finditer(text)
        ):
            return True
        return any(
            pattern.fullmatch(text_of(node) + ";")
            and _ONE.fullmatch(text_of(node).split("=", 1)[1].strip())
            and self._counts(node)
            for node in walk_to(function.tree, "assignment_expression", "init_declarator")
        )

    def _counts(self, node: Node) -> bool:
        """Return whether an assignment depends on the device, not on what the user chose."""
        at = node.parent
        while at is not None and at.type != "function_definition":
            condition = at.child_by_field_name("condition") if at.type == "if_statement" else None
            if condition is not None and not conditions_of(condition, self.interpreter.ignored):
                return False
            at = at.parent
        return True

    def _through_pointers(self, name: str, function: Function) -> list[str]:
        """Return the texts of called functions that store through `&name`, renamed to it."""
        found = []
        for call in re.finditer(r"(\w+)\s*\(([^;]*&\s*" + name + r"\b[^;]*)\)", function.text):
            target = self.index.function(call[1], function.path)
            if target is None:
                continue
            position = [part.strip() for part in call[2].split(",")]
            wanted = f"&{name}"
            for (parameter, _), given in zip(target.parameters, position, strict=False):
                if given.replace(" ", "") == wanted:
                    found.append(re.sub(rf"\*\s*{parameter}\b", name, target.text))
        return found
