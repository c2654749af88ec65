"""Where in a TOML file something stands, so that an error can name the line.

`tomllib` gives no positions; a table's header and the key below it are found in the text again.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from zcdb.errors import UsageError

T = TypeVar("T")
Table = dict[str, Any]
"""A TOML table before it is checked."""

_HEADER = re.compile(r"^\s*\[")


class HistoryError(UsageError):
    """A file of historic tables cannot be read or contradicts itself."""


@dataclass(frozen=True, slots=True)
class Place:
    """A table in a file.

    Attributes:
        file: name of the file, for people.
        text: all of it.
        what: the table, for people: "cell morton-membw-read", "columns.throughput", "" at the top.
        first: index of the table's header line, or of the first line, from 0.
    """

    file: str
    text: str
    what: str = ""
    first: int = 0

    def header(self, header: str, what: str) -> Place:
        """Return the table below `[header]`."""
        return self._below(rf"\[{re.escape(header)}\]", 0, what)

    def entry(self, table: str, number: int, what: str) -> Place:
        """Return entry `number` (from 0) of the array of tables `[[table]]`."""
        return self._below(rf"\[\[{re.escape(table)}\]\]", number, what)

    def _below(self, header: str, number: int, what: str) -> Place:
        """Return what follows a header; the top of the file if it is written in another way."""
        wanted = re.compile(rf"^\s*{header}")
        hits = [i for i, line in enumerate(self.text.splitlines()) if wanted.match(line)]
        return Place(self.file, self.text, what, hits[number] if number < len(hits) else 0)

    def line(self, word: str = "") -> int:
        """Return the line, from 1, of a key or of a quoted word; of the table if there is none.

        It is looked for in this table first, then in the whole file: what a cell takes from the
        top, from a column or from a set stands elsewhere.
        """
        lines = self.text.splitlines()
        end = next(
            (i for i in range(self.first + 1, len(lines)) if _HEADER.match(lines[i])), len(lines)
        )
        key = re.compile(rf"(?:^|[{{,.\s\"])\s*{re.escape(word)}\"?\s*[=.]")
        quoted = re.compile(rf"\"{re.escape(word)}\"")
        for span in (range(self.first, end), range(len(lines))) if word else ():
            for pattern in (key, quoted):
                for index in span:
                    if pattern.search(lines[index]):
                        return index + 1
        return self.first + 1

    def fail(self, message: str, word: str = "", hint: str | None = None) -> NoReturn:
        """Refuse the file: name it, the line of `word`, the table and what is wrong."""
        what = f"{self.what}: " if self.what else ""
        raise HistoryError(f"{self.file}:{self.line(word)}: {what}{message}", hint=hint)

    def check_keys(self, table: object, allowed: Collection[str], within: str = "") -> None:
        """Refuse what is no table, and a table with a key that is not allowed."""
        if not isinstance(table, dict):
            self.fail(f"{within or 'it'} must be a table, got {table!r}", within)
        for key in table:
            if key not in allowed:
                name = f"{within}.{key}" if within else key
                self.fail(f"unknown key {name!r}", key, f"known: {', '.join(sorted(allowed))}")

    def take(self, table: Table, key: str, kind: type[T], default: T | None = None) -> T:
        """Return `table[key]` if it has the type, or the default if it is absent.

        A bool is no int.  Without a default the key must be there.
        """
        value = table.get(key, default)
        if value is None:
            self.fail(f"{key} is missing")
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.fail(f"{key} must be {_NAMES.get(kind, kind.__name__)}, got {value!r}", key)
        return value

    def optional(self, table: Table, key: str, kind: type[T]) -> T | None:
        """Return `table[key]` if it is there and has the type, else None."""
        return self.take(table, key, kind) if key in table else None

    def choice(self, table: Table, key: str, words: Collection[str]) -> str:
        """Return `table[key]` if it is one of the words."""
        word = self.take(table, key, str)
        if word not in words:
            self.fail(f"{key} is {word!r}, not one of {', '.join(sorted(words))}", word)
        return word

    def lines_of_text(self, table: Table, key: str = "line") -> tuple[int, int]:
        """Return a line, or a first and last line, of a document as a pair."""
        value = table.get(key)
        pair: list[Any] = value if isinstance(value, list) else [value, value]
        if len(pair) == 2 and all(type(line) is int for line in pair) and 0 < pair[0] <= pair[1]:
            return pair[0], pair[1]
        word = key if key in table else ""
        self.fail(f"{key} must be a line or [first, last], got {value!r}", word)

    def texts(self, table: Table, key: str) -> tuple[str, ...]:
        """Return a list of strings; empty if the key is absent."""
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.fail(f"{key} must be a list of strings, got {value!r}", key)
        return tuple(value)


_NAMES: dict[type, str] = {str: "a string", int: "a whole number", dict: "a table", list: "a list"}
