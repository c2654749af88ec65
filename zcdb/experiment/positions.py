"""Where each key and value of a TOML text stands.

tomllib throws positions away, so the text is read a second time by
tree-sitter, and only when there is a mistake to point at.  Without
tree-sitter only the line numbers go.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

Path = tuple[str | int, ...]
"""A place in the data: `("factors", "api", 1)` is the second level of api."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the text; both count from 1, columns in characters."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Positions:
    """The places of all keys and of all values."""

    keys: dict[Path, Position] = field(default_factory=dict)
    values: dict[Path, Position] = field(default_factory=dict)

    def find(self, path: Path, *, key: bool = False) -> Position | None:
        """Return the place of the value (or key) at `path`, or of what is nearest around it."""
        if key and path in self.keys:
            return self.keys[path]
        while path:
            if path in self.values:
                return self.values[path]
            if path in self.keys:
                return self.keys[path]
            path = path[:-1]
        return None


def locate(text: str) -> Positions:
    """Return the positions in `text`, which tomllib has accepted; empty without tree-sitter."""
    try:
        import tree_sitter
        import tree_sitter_toml
    except ImportError:
        return Positions()
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_toml.language()))
    root = parser.parse(text.encode()).root_node
    if root.has_error:
        # The grammar is older than tomllib's; better no place than a wrong one.
        return Positions()
    walker = _Walker(text)
    walker.document(root)
    return walker.found


class _Walker:
    """Walks a syntax tree and notes where keys and values are."""

    def __init__(self, text: str) -> None:
        self.found = Positions()
        self._lines = text.encode().split(b"\n")
        self._elements: Counter[Path] = Counter()

    def document(self, root: Node) -> None:
        for node in root.children:
            if node.type == "pair":
                self._pair(node, ())
            elif node.type == "table":
                self._table(node, is_element=False)
            elif node.type == "table_array_element":
                self._table(node, is_element=True)

    def _position(self, node: Node) -> Position:
        row, column_bytes = node.start_point
        before = self._lines[row][:column_bytes].decode(errors="replace")
        return Position(row + 1, len(before) + 1)

    def _table(self, node: Node, *, is_element: bool) -> None:
        header = next(iter(_parts(node)))
        path: Path = ()
        names = _names(header)
        for depth, name in enumerate(names):
            path = (*path, name)
            self.found.keys.setdefault(path, self._position(header))
            is_last = depth == len(names) - 1
            if is_last and is_element:
                self._elements[path] += 1
            if path in self._elements:
                # A header under [[name]] speaks of the element written last.
                path = (*path, self._elements[path] - 1)
                self.found.keys.setdefault(path, self._position(header))
        for child in node.children:
            if child.type == "pair":
                self._pair(child, path)

    def _pair(self, node: Node, path: Path) -> None:
        key, value = _parts(node)
        for name in _names(key):
            path = (*path, name)
            self.found.keys.setdefault(path, self._position(key))
        self._value(value, path)

    def _value(self, node: Node, path: Path) -> None:
        self.found.values[path] = self._position(node)
        if node.type == "array":
            for index, item in enumerate(_parts(node)):
                self._value(item, (*path, index))
        elif node.type == "inline_table":
            for child in node.children:
                if child.type == "pair":
                    self._pair(child, path)


def _parts(node: Node) -> list[Node]:
    """Return the children that mean something: no brackets, commas and comments."""
    return [child for child in node.children if child.is_named and child.type != "comment"]


def _names(key: Node) -> list[str]:
    if key.type == "dotted_key":
        return [name for part in _parts(key) for name in _names(part)]
    written = (key.text or b"").decode()
    if key.type == "quoted_key":
        return list(tomllib.loads(f"{written} = 0"))
    return [written]
