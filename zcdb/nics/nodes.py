"""Small helpers over tree-sitter nodes, shared by everything that reads C."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import tree_sitter_c
from tree_sitter import Language, Node, Parser

_PARSER = Parser(Language(tree_sitter_c.language()))


def parse(text: str) -> Node:
    """Return the root node of parsed C."""
    return _PARSER.parse(text.encode()).root_node


def parse_expression(text: str) -> Node | None:
    """Return the node of an expression; None if `text` is not one."""
    for node in parse(f"int x = {text};").named_children:
        if node.type == "declaration":
            declarator = node.child_by_field_name("declarator")
            if declarator is not None and declarator.type == "init_declarator":
                return declarator.child_by_field_name("value")
    return None


def text_of(node: Node | None) -> str:
    """Return a node's text; "" for no node."""
    return (node.text or b"").decode() if node is not None else ""


def inner(node: Node) -> Node | None:
    """Return what stands in parentheses, behind `*` or `&`, or before `[`."""
    argument = node.child_by_field_name("argument")
    return argument or (node.named_children[0] if node.named_children else None)


def walk_to(node: Node, *kinds: str) -> Iterator[Node]:
    """Yield every node of some kinds at or under `node`, outer and earlier ones first."""
    pending = [node]
    while pending:
        at = pending.pop()
        if at.type in kinds:
            yield at
        pending.extend(reversed(at.named_children))


def calls(node: Node, names: Iterable[str]) -> Iterator[Node]:
    """Yield the calls of functions by name."""
    wanted = set(names)
    for call in walk_to(node, "call_expression"):
        if text_of(call.child_by_field_name("function")) in wanted:
            yield call


def declared_name(node: Node | None) -> str:
    """Return the name that a declarator declares; "" if there is none."""
    while node is not None and node.type != "identifier":
        node = node.child_by_field_name("declarator")
    return text_of(node)
