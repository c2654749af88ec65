"""A driver's source as an index: functions, tables, macros, who calls whom.

Bodies are cut out by the kernel's layout (an opening brace that ends a line
which starts in column 0, a closing brace in column 0) and parsed with
tree-sitter only when somebody asks for them: most of a driver never says a
word about capabilities.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from tree_sitter import Node

from zcdb.nics.nodes import parse, text_of, walk_to
from zcdb.nics.preprocess import (
    Macro,
    blank_dead_branches,
    blank_defines,
    defined_names,
    macros,
    strip_comments,
)

_OPENING = re.compile(r"^(?:[^\s#}/][^\n]*)?\{[ \t]*$", re.MULTILINE)
_ONE_LINE_TABLE = re.compile(r"^[A-Za-z_][^\n;(]*=\s*\{[^\n]*\}\s*;", re.MULTILINE)
_LOCAL_TABLE = re.compile(r"^([ \t]+)static const struct \w+ \w+\s*=\s*\{[ \t]*$", re.MULTILINE)
_CLOSING = re.compile(r"^\}", re.MULTILINE)
_BRACE = re.compile(r"[{}]")
_OPENS_TABLE = re.compile(r"=[ \t]*\{[ \t]*$")
_NOT_A_FUNCTION = frozenset(
    ("__attribute__", "__printf", "__acquires", "__releases", "__must_hold")
)
_CALLED_NAME = re.compile(r"\b([A-Za-z_]\w+)\s*\(")
_INDIRECT_CALL = re.compile(r"(?:->|\.)\s*(\w+)\s*\(")
_NAME = re.compile(r"\b([A-Za-z_]\w*)\b")
_TYPED_NAME = re.compile(r"\bstruct\s+(\w+)\s*\**\s*(?:const\s*|__\w+\s*)?(\w+)\s*(?=[;,)\[=])")
_TABLE_HEAD = re.compile(r"struct\s+(\w+)\s*(?:__\w+(?:\([^)]*\))?\s*)*(\w+)\s*(\[[^=]*)?=")
_EXPORT = re.compile(r"\bEXPORT_SYMBOL\w*\s*\(\s*(\w+)")
_POINTER_SET = re.compile(r"(?:->|\.)(\w+)\s*=\s*&?\s*([A-Za-z_]\w*)\s*[;,}\n]")


@dataclass(slots=True, eq=False)
class Block:
    """A function or an initialised table, as text and place.

    Attributes:
        head: the text before the opening brace.
        text: head and body.
        line: line of the first character of `text` in its file, from 1.
    """

    path: str
    head: str
    text: str
    line: int


@dataclass(eq=False)
class Function(Block):
    """A function, or a function-like macro that is read as one."""

    name: str = ""
    is_library: bool = False

    @cached_property
    def tree(self) -> Node:
        """The parsed text; its rows start at `line`."""
        return parse(self.text)

    @cached_property
    def body(self) -> Node | None:
        """The compound statement of the body."""
        for node in walk_to(self.tree, "function_definition"):
            return node.child_by_field_name("body")
        return None

    @cached_property
    def parameters(self) -> list[tuple[str, str]]:
        """(name, struct type or "") of each parameter, in order."""
        inside = self.head[self.head.find(self.name) + len(self.name) :]
        inside = inside[inside.find("(") + 1 : inside.rfind(")")]
        found = []
        for part in inside.split(","):
            names = _NAME.findall(part)
            struct = re.search(r"\bstruct\s+(\w+)", part)
            found.append((names[-1] if names else "", struct[1] if struct else ""))
        return found

    @cached_property
    def types(self) -> dict[str, str]:
        """Struct type of each parameter and local that has one."""
        return {name: struct for struct, name in _TYPED_NAME.findall(self.text)}

    @cached_property
    def called(self) -> set[str]:
        """Names that stand before a parenthesis."""
        return set(_CALLED_NAME.findall(self.text[len(self.head) :]))

    @cached_property
    def indirect_calls(self) -> set[str]:
        """Fields that are called through a pointer."""
        return set(_INDIRECT_CALL.findall(self.text[len(self.head) :]))

    @cached_property
    def names(self) -> set[str]:
        """Every name in the body."""
        return set(_NAME.findall(self.text[len(self.head) :]))


@dataclass(eq=False)
class Table(Block):
    """An initialised variable of a struct type (or an array of them)."""

    struct: str = ""
    name: str = ""
    is_library: bool = False

    @cached_property
    def tree(self) -> Node:
        """The parsed text."""
        return parse(self.text)

    @cached_property
    def pointers(self) -> list[tuple[str, str]]:
        """(field, name) of each field that is set to a plain name."""
        return [
            (match[1], match[2])
            for match in re.finditer(r"\.(\w+)\s*=\s*&?\s*([A-Za-z_]\w*)\s*(?=[,}\n])", self.text)
        ]

    @cached_property
    def fields(self) -> dict[str, Node]:
        """The designated fields and their expressions, nested ones too; the last of a name wins."""
        found: dict[str, Node] = {}
        for pair in walk_to(self.tree, "initializer_pair"):
            value = pair.child_by_field_name("value")
            for designator in pair.children_by_field_name("designator"):
                if designator.type == "field_designator" and value is not None:
                    found[text_of(designator).lstrip(".")] = value
        return found


class SourceFile:
    """One file with comments and dead branches gone, cut into functions and tables."""

    def __init__(self, path: str, raw: str, defined: set[str], is_library: bool = False) -> None:
        live = blank_dead_branches(raw, defined)
        self.path = path
        self.raw, self._defined = raw, defined
        self.is_library = is_library
        self.macros: list[Macro] = macros(live, path)
        self.live = live
        self.text = blank_defines(live)
        self._starts = [0] + [match.end() for match in re.finditer("\n", self.text)]
        self.functions: list[Function] = []
        self.tables: list[Table] = []
        self._cut()

    @cached_property
    def any_text(self) -> str:
        """The text that is live under any configuration, macros included; lines as in `text`."""
        return blank_dead_branches(self.raw, self._defined, any_options=True)

    def line_of(self, offset: int) -> int:
        """Return the line, from 1, of a character."""
        return bisect_right(self._starts, offset)

    def _cut(self) -> None:
        position = 0
        for match in _OPENING.finditer(self.text):
            if match.start() < position:
                continue
            closing = self._closing(match)
            if closing is None:
                break
            start = self._head_start(match)
            head = self.text[start : match.end() - 1]
            end = self.text.find("\n", closing)
            end = len(self.text) if end < 0 else end
            position = end
            self._add(head, start, end)
        for match in _ONE_LINE_TABLE.finditer(self.text):
            self._add(match[0].split("{")[0], match.start(), match.end())
        for match in _LOCAL_TABLE.finditer(self.text):
            last = self.text.find("\n" + match[1] + "}", match.end())
            if last > 0:
                self._add(match[0].split("{")[0], match.start(), last + len(match[1]) + 2)

    def _closing(self, opening: re.Match[str]) -> int | None:
        """Return where the brace stands that closes a block; None if there is none."""
        if _OPENS_TABLE.search(opening[0]):
            # The elements of a table may have their braces in column 0 too, so they are counted.
            depth = 0
            for brace in _BRACE.finditer(self.text, opening.start()):
                depth += 1 if brace[0] == "{" else -1
                if depth == 0:
                    return brace.start()
        found = _CLOSING.search(self.text, opening.end())
        return None if found is None else found.start()

    def _head_start(self, match: re.Match[str]) -> int:
        """Return where the declaration that opens at `match` starts."""
        start = match.start()
        if self.text[start] == "{":
            # There may be blank lines between a function's head and its brace.
            start = len(self.text[:start].rstrip("\n")) + 1
        for _ in range(24):
            line_start = self.text.rfind("\n", 0, max(start - 1, 0)) + 1
            line = self.text[line_start : start - 1] if start else ""
            stripped = line.strip()
            if start == 0 or not stripped or stripped[-1] in ";}{" or stripped.startswith("#"):
                break
            start = line_start
        return start

    def _add(self, head: str, start: int, end: int) -> None:
        text = self.text[start:end]
        line = self.line_of(start)
        if "=" in head.split("(")[0] or head.rstrip().endswith("="):
            found = _TABLE_HEAD.search(head)
            if found:
                self.tables.append(
                    Table(self.path, head, text, line, found[1], found[2], self.is_library)
                )
            return
        for name in _CALLED_NAME.findall(head):
            if name not in _NOT_A_FUNCTION:
                self.functions.append(Function(self.path, head, text, line, name, self.is_library))
                return


@dataclass(eq=False)
class Index:
    """All that is known about the source of one unit and the helper libraries it calls.

    Attributes:
        functions: by name; of two with one name (PF and VF variants) all are kept.
        candidates: field -> (struct type, table or "", function) that may be called through it.
    """

    files: list[SourceFile]
    functions: dict[str, list[Function]] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    macros: dict[str, Macro] = field(default_factory=dict)
    candidates: dict[str, list[tuple[str, str, Function]]] = field(default_factory=dict)
    field_types: dict[str, set[str]] = field(default_factory=dict)
    text: str = ""

    @cached_property
    def exported(self) -> set[str]:
        """Names that files of the unit or its libraries export to other modules.

        Whoever calls them may do so through macros of headers that are not read here.
        """
        return {name for file in self.files for name in _EXPORT.findall(file.any_text)}

    def function(self, name: str, path: str) -> Function | None:
        """Return the function that a call of `name` in file `path` means."""
        found = self.functions.get(name)
        if not found:
            return None
        for function in found:
            if function.path == path:
                return function
        return found[0]


def build_index(texts: Iterable[tuple[str, str, bool]], core_macros: Iterable[Macro] = ()) -> Index:
    """Return the index of a unit.

    Args:
        texts: (path, raw text, is a helper library's) of every file, the unit's own first.
        core_macros: macros of the kernel's own headers.
    """
    stripped = [(path, strip_comments(text), library) for path, text, library in texts]
    defined: set[str] = set()
    for _, text, _ in stripped:
        defined |= defined_names(text)
    index = Index([SourceFile(path, text, defined, library) for path, text, library in stripped])
    for macro in core_macros:
        index.macros[macro.name] = macro
    for file in index.files:
        for macro in file.macros:
            index.macros.setdefault(macro.name, macro)
        for function in file.functions:
            index.functions.setdefault(function.name, []).append(function)
        index.tables += file.tables
        for struct, name in _TYPED_NAME.findall(file.text):
            index.field_types.setdefault(name, set()).add(struct)
    _add_macro_functions(index)
    _add_candidates(index)
    index.text = "\n".join(file.text for file in index.files if not file.is_library)
    return index


def _add_macro_functions(index: Index) -> None:
    """Read function-like macros that hold statements as functions."""
    for macro in list(index.macros.values()):
        if macro.parameters is None or macro.name in index.functions:
            continue
        if "(" not in macro.body or not re.search(r"=[^=]|\w\s*\(.*\w+->", macro.body):
            continue
        names = ", ".join(name if name != "..." else "..." for name in macro.parameters)
        head = f"void {macro.name}({names})"
        text = f"{head} {{ {macro.body}; }}"
        index.functions[macro.name] = [Function(macro.path, head, text, macro.line, macro.name)]


def _add_candidates(index: Index) -> None:
    for table in index.tables:
        for name, target in table.pointers:
            function = index.function(target, table.path)
            if function is not None:
                index.candidates.setdefault(name, []).append((table.struct, table.name, function))
    for functions in list(index.functions.values()):
        for function in functions:
            for match in _POINTER_SET.finditer(function.text):
                found = index.function(match[2], function.path)
                if found is not None:
                    index.candidates.setdefault(match[1], []).append(("", "", found))
