"""What names in C stand for: symbols of the state, net_devices, types, places."""

from __future__ import annotations

import re
from collections.abc import Callable

from tree_sitter import Node

from zcdb.nics.conditions import Constants
from zcdb.nics.frames import Frame, Snapshot
from zcdb.nics.nodes import inner, text_of
from zcdb.nics.source import Function, Index, Table
from zcdb.nics.values import Bits, Place

NET_DEVICE_FIELDS = frozenset(
    """features hw_features vlan_features hw_enc_features mpls_features gso_partial_features
    xdp_features wanted_features queue_mgmt_ops netmem_tx""".split()  # noqa: SIM905
)
_NET_DEVICE_NAME = re.compile(r"(?:\w*_)?(?:n?dev|netdev|ndev|net_dev|net|netdevice|vsi_netdev)\d?")


class Symbols:
    """Knows what the names in the running function mean.

    Args:
        index: the unit's source.
        is_bit: whether a name is a capability bit (a leaf).
        constants: what is known before the driver runs.
        is_secondary: whether a function belongs to representors and the like, and is not followed.
        relevant: names of the functions worth following.
        ignored: names whose value the user chooses.
    """

    def __init__(
        self,
        index: Index,
        is_bit: Callable[[str], bool],
        constants: Constants,
        is_secondary: Callable[[Function | Table], bool],
        relevant: set[str],
        ignored: set[str],
    ) -> None:
        self.index = index
        self.is_bit = is_bit
        self.constants = constants
        self.is_secondary = is_secondary
        self.relevant = relevant
        self.ignored = ignored
        self.snapshots: list[Snapshot] = []
        self.bit_fields: set[str] = set()
        self.call_bits: dict[str, str] = {}
        self._stack: list[Frame] = []
        self._target_base = ""
        self._steps = 0
        self._frames = 0
        self._summaries: dict[str, Bits | None] = {}
        self._macro_nodes: dict[str, Node | None] = {}

    def _symbol(self, node: Node) -> str | None:
        """Return the symbol that an lvalue names."""
        kind = node.type
        if kind == "identifier":
            name = text_of(node)
            frame = self._stack[-1]
            return frame.aliases.get(name, f"L.{frame.number}.{name}")
        if kind in ("parenthesized_expression", "subscript_expression"):
            inside = inner(node)
            return self._symbol(inside) if inside is not None else None
        if kind == "pointer_expression":
            argument = node.child_by_field_name("argument")
            return self._symbol(argument) if argument is not None else None
        if kind == "field_expression":
            name = text_of(node.child_by_field_name("field"))
            base = node.child_by_field_name("argument")
            if name in NET_DEVICE_FIELDS and base is not None and self.is_net_device(base):
                return f"N.{name}"
            return f"F.{name}"
        return None

    def is_net_device(self, node: Node) -> bool:
        """Return whether an expression is a net_device: by its declared type, then by its name."""
        function = self._stack[-1].function
        if node.type == "identifier":
            name = text_of(node)
            struct = function.types.get(name)
            if struct is not None:
                return struct == "net_device"
        elif node.type == "field_expression":
            name = text_of(node.child_by_field_name("field"))
            structs = self.index.field_types.get(name, set())
            if structs:
                return "net_device" in structs
        elif node.type == "parenthesized_expression" and node.named_children:
            return self.is_net_device(node.named_children[0])
        elif node.type == "pointer_expression" or node.type == "subscript_expression":
            argument = node.child_by_field_name("argument")
            return argument is not None and self.is_net_device(argument)
        else:
            return "net" in text_of(node)
        return _NET_DEVICE_NAME.fullmatch(name) is not None

    def _address(self, node: Node) -> str | None:
        """Return the symbol whose address an argument is; None if it is no address of bits."""
        if node.type == "pointer_expression" and text_of(node).startswith("&"):
            argument = node.child_by_field_name("argument")
            return self._symbol(argument) if argument is not None else None
        if node.type == "identifier":
            return self._stack[-1].aliases.get(text_of(node))
        return None

    def _place(self, node: Node) -> Place:
        function = self._stack[-1].function
        return function.path, function.line + node.start_point[0]

    def _structs_of(self, node: Node | None) -> set[str]:
        if node is None:
            return set()
        if node.type == "identifier":
            struct = self._stack[-1].function.types.get(text_of(node))
            return {struct} if struct else set()
        if node.type == "field_expression":
            return self.index.field_types.get(text_of(node.child_by_field_name("field")), set())
        if node.type in ("parenthesized_expression", "pointer_expression", "subscript_expression"):
            return self._structs_of(inner(node))
        return set()
