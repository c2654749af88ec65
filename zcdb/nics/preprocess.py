"""C text made ready for reading: comments gone, dead branches blanked, macros listed.

This is not a C preprocessor: macros stay unexpanded and line numbers stay
what they are.  Conditional directives are decided once, for a distribution
kernel: `CONFIG_...` counts as set, options of other architectures as unset,
`#if 0` and names that nothing defines as false.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

_TEXT_OR_COMMENT = re.compile(
    r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.DOTALL
)
_DIRECTIVE = re.compile(
    r"^[ \t]*#[ \t]*(ifdef|ifndef|if|elif|else|endif)\b((?:\\\n|[^\n])*)", re.MULTILINE
)
_DEFINE = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)\n]*\))?(?:[ \t]+|(?=\\?\n))((?:\\\n|[^\n])*)",
    re.MULTILINE,
)
_OTHER_ARCHITECTURE = re.compile(
    r"CONFIG_(?:SPARC(?:32|64)?|PPC(?:32|64|_\w+)?|M68K|MIPS(?:32|64)?|SUPERH|PARISC|ALPHA|IA64|ATARI"
    r"|AMIGA|MAC|COLDFIRE|M5\d\d\w+|XTENSA|NIOS2|CPU_BIG_ENDIAN|SOC_\w+|SBUS|S390|EISA|MCA|ISA)"
)
_ALWAYS_DEFINED = re.compile(r"(?:NETIF_F_|NETDEV_|ETHTOOL_|SOF_TIMESTAMPING_|__KERNEL__|MODULE$)")
_UPPER_NAME = re.compile(r"\b(?:[A-Z][A-Z0-9_]{3,}|netmem_tx|queue_mgmt_ops)\b")
_CONDITION_TOKEN = re.compile(r"\s*(defined\b|\w+|&&|\|\||==|!=|<=|>=|[-+!()<>,])")


def strip_comments(text: str) -> str:
    """Return `text` with comments removed and every line where it was."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        return found if found[0] in "\"'" else " " + "\n" * found.count("\n")

    return _TEXT_OR_COMMENT.sub(blank, text)


def defined_names(text: str) -> set[str]:
    """Return every name that `text` defines as a macro, live or not."""
    return {match[1] for match in _DEFINE.finditer(text)}


class _Condition:
    """A directive's condition, decided by descent; None stands for "cannot say"."""

    def __init__(self, text: str, defined: Collection[str]) -> None:
        self.tokens = _CONDITION_TOKEN.findall(text.replace("\\\n", " "))
        self.defined = defined
        self.at = 0

    def _next(self) -> str:
        token = self.tokens[self.at] if self.at < len(self.tokens) else ""
        self.at += 1
        return token

    def _peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def either(self) -> bool | None:
        value = self._both()
        while self._peek() == "||":
            self._next()
            other = self._both()
            value = True if value or other else (None if None in (value, other) else False)
        return value

    def _both(self) -> bool | None:
        value = self._comparison()
        while self._peek() == "&&":
            self._next()
            other = self._comparison()
            value = False if False in (value, other) else (None if None in (value, other) else True)
        return value

    def _comparison(self) -> bool | None:
        value = self._one()
        while self._peek() in ("==", "!=", "<=", ">=", "<", ">", "+", "-"):
            self._next()
            self._one()
            value = None
        return value

    def _one(self) -> bool | None:
        word = self._next()
        if word == "!":
            value = self._one()
            return None if value is None else not value
        if word == "(":
            value = self.either()
            self._next()
            return value
        if word == "defined":
            name = self._next()
            if name == "(":
                name = self._next()
                self._next()
            return is_defined(name, self.defined)
        if word in ("IS_ENABLED", "IS_REACHABLE", "IS_BUILTIN", "IS_MODULE"):
            self._next()
            name = self._next()
            self._next()
            return is_defined(name, self.defined)
        if word.isdigit():
            return int(word) != 0
        if word.startswith("CONFIG_"):
            return is_defined(word, self.defined)
        if self._peek() == "(":
            self._skip_call()
        return None

    def _skip_call(self) -> None:
        depth = 0
        while token := self._next():
            depth += {"(": 1, ")": -1}.get(token, 0)
            if depth == 0:
                return


def is_defined(name: str, defined: Collection[str]) -> bool:
    """Return whether a distribution kernel on a common machine has `name` defined."""
    if name.startswith("CONFIG_"):
        return _OTHER_ARCHITECTURE.fullmatch(name) is None
    return name in defined or _ALWAYS_DEFINED.match(name) is not None


def _is_taken(
    kind: str, condition: str, defined: Collection[str], after: str, *, any_options: bool
) -> bool:
    """Return whether the branch of a directive is live.

    Args:
        after: the text behind the directive.
        any_options: whether options and the driver's own names may have either value.
    """
    name = condition.strip().split(" ")[0].strip()
    if any_options and (kind == "ifndef" or "CONFIG_" in condition):
        return True
    if kind == "ifdef":
        return is_defined(name, defined)
    if kind == "ifndef":
        # An include guard, or a default for a name, is defined by the very lines that ask.
        guard = re.match(rf"\s*#[ \t]*define[ \t]+{re.escape(name)}\b", after)
        return guard is not None or not is_defined(name, defined)
    return _Condition(condition, defined).either() is not False


def blank_dead_branches(text: str, defined: Collection[str], *, any_options: bool = False) -> str:
    """Return `text` with conditional directives and branches not taken blanked, lines kept.

    Args:
        text: C without comments.
        defined: macro names known to be defined besides those of the kernel's headers.
        any_options: keep what is live under any configuration, not only under a distribution's:
            then only `#if 0` and names that nothing defines are dead.
    """
    if "#" not in text:
        return text
    pieces: list[str] = []
    position = 0
    stack: list[tuple[bool, bool]] = []  # (this branch is live, an earlier one was taken)
    for match in _DIRECTIVE.finditer(text):
        live = all(branch for branch, _ in stack)
        chunk = text[position : match.start()]
        pieces.append(chunk if live else "\n" * chunk.count("\n"))
        pieces.append("\n" * match[0].count("\n"))
        position = match.end()
        kind, condition = match[1], match[2]
        if kind in ("if", "ifdef", "ifndef"):
            taken = _is_taken(
                kind, condition, defined, text[match.end() :], any_options=any_options
            )
            stack.append((taken, taken and not _is_open(kind, condition, any_options)))
        elif kind == "endif":
            if stack:
                stack.pop()
        elif stack:
            _, before = stack.pop()
            taken = not before and (
                kind == "else" or _is_taken("if", condition, defined, "", any_options=any_options)
            )
            stack.append((taken, before or (taken and not _is_open("if", condition, any_options))))
    chunk = text[position:]
    pieces.append(chunk if all(branch for branch, _ in stack) else "\n" * chunk.count("\n"))
    return "".join(pieces)


def _is_open(kind: str, condition: str, any_options: bool) -> bool:
    """Return whether the branches after this one may be live as well as it."""
    return any_options and (kind in ("ifdef", "ifndef") or "CONFIG_" in condition)


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro: `parameters` is None for an object-like one."""

    name: str
    parameters: tuple[str, ...] | None
    body: str
    path: str
    line: int
    names: frozenset[str] = field(default=frozenset(), compare=False)


def macros(text: str, path: str) -> list[Macro]:
    """Return the macros that `text` (comments and dead branches gone) defines."""
    found = []
    line, position = 1, 0
    for match in _DEFINE.finditer(text):
        body = match[3].replace("\\\n", " ").strip()
        if not body:
            continue
        line += text.count("\n", position, match.start())
        position = match.start()
        parameters = None
        if match[2]:
            parameters = tuple(name.strip() for name in match[2][1:-1].split(",") if name.strip())
        names = frozenset(_UPPER_NAME.findall(body)) if len(body) < 4000 else frozenset()
        found.append(Macro(match[1], parameters, body, path, line, names))
    return found


def blank_defines(text: str) -> str:
    """Return `text` with `#define`, `#include` and the like blanked, lines kept."""
    return re.sub(
        r"^[ \t]*#(?:\\\n|[^\n])*",
        lambda match: "\n" * match[0].count("\n"),
        text,
        flags=re.MULTILINE,
    )
