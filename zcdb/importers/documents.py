"""JSON documents inside a text: found, mended, or saved from a cut file.

Several may follow each other with or without a separator, with text before,
between and after them.  `nan`, `-nan` and "5.924e 06" are mended without
moving anything; a cut document gives what was complete.  What a document
means is the formats' business.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from zcdb.ids import Json

_OPENING = re.compile(r'[\[{](?=\s{0,200}["{])|\[(?=\s{0,200}\])')
_BARE_NAN = re.compile(r"(?<=[\s:,\[])(-?)(?:nan|NaN|inf|Infinity)\b(?=\s*[,}\]])")
_SPLIT_EXPONENT = re.compile(r"(?<=[0-9])([eE]) ([0-9]{2,3})(?=\s*[,}\]])")
_TOKEN = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')
_SCALAR = re.compile(
    r"-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?|true|false|null|NaN"
)
_DECODER = json.JSONDecoder()
BROKEN_LIMIT = 1000
"""After so many broken documents the rest of a file is read as text."""
DEEP_CHARACTERS = 1000
"""What is nested deeper than the decoder can go takes at least so many characters."""
SMALLEST_WORTH_SAVING = 40
"""A broken document of fewer characters says nothing."""


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON value in the text, from character `start` to before `end`.

    Attributes:
        is_cut: True if only its beginning could be read.
        is_mended: True if nan or a split exponent was repaired.
    """

    value: Json
    start: int
    end: int
    is_cut: bool = False
    is_mended: bool = False


def _mend(text: str) -> str:
    """Repair what printf writes and JSON does not know; every character keeps its place."""
    text = _BARE_NAN.sub(lambda m: "NaN".ljust(len(m[0])), text)
    return _SPLIT_EXPONENT.sub(r"\1\2 ", text)


def _decode(text: str, start: int) -> tuple[Json, int] | int:
    """Return value and end, or the position where the decoder stopped."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        return error.pos
    except RecursionError:
        return start + DEEP_CHARACTERS
    except ValueError:
        # A number of thousands of digits: no tool prints that.
        return start + 1
    return value, end


def find_documents(text: str) -> Iterator[Document]:
    """Yield the objects and arrays in `text`, outermost ones, in order."""
    position = 0
    mended: str | None = None
    broken = 0
    while broken < BROKEN_LIMIT and (opening := _OPENING.search(text, position)):
        start = opening.start()
        found = _decode(text, start)
        was_mended = False
        if isinstance(found, int):
            if mended is None:
                mended = _mend(text)
            if mended != text:
                again = _decode(mended, start)
                was_mended = not isinstance(again, int)
                found = again if not isinstance(again, int) else max(found, again)
        if not isinstance(found, int):
            yield Document(found[0], start, found[1], is_mended=was_mended)
            position = found[1]
            continue
        broken += 1
        stopped = min(found, len(text))
        if stopped - start >= SMALLEST_WORTH_SAVING:
            saved = _save(mended or text, start, stopped)
            if saved is not None:
                yield Document(saved, start, stopped, is_cut=True)
        # The next document may begin on the line where this one broke.
        line = text.rfind("\n", start + 1, stopped) + 1
        position = line if line > start else max(start + 1, stopped)


def _save(text: str, start: int, stopped: int) -> Json | None:
    """Read a broken document up to its last complete value and close it there."""
    stack: list[str] = []
    good = -1
    closers = ""
    pending = -1
    previous = ""
    for match in _TOKEN.finditer(text, start, stopped):
        piece = match[0]
        if piece in "{[":
            stack.append("}" if piece == "{" else "]")
            if len(stack) > 100:
                return None
            pending = -1
        elif piece in "}]":
            if not stack or stack.pop() != piece:
                break
            if not stack:
                break
            good, closers = match.end(), "".join(reversed(stack))
            pending = -1
        elif piece == ",":
            if pending >= 0:
                good, closers = pending, "".join(reversed(stack))
            pending = -1
        elif piece != ":":
            is_value = previous in ":,[" and (stack[-1:] == ["]"] or previous == ":")
            is_sound = piece[0] == '"' or _SCALAR.fullmatch(piece) is not None
            if not is_sound:
                break
            pending = match.end() if is_value else -1
        previous = piece
    if good < 0:
        return None
    found = _decode(text[start:good] + closers, 0)
    return None if isinstance(found, int) else found[0]


def has_duplicate_keys(text: str) -> bool:
    """Tell whether an object in this JSON text has a key twice (the last one is kept)."""
    seen_twice = False

    def hook(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        nonlocal seen_twice
        fields = dict(pairs)
        seen_twice = seen_twice or len(fields) != len(pairs)
        return fields

    try:
        json.JSONDecoder(object_pairs_hook=hook).raw_decode(text)
    except (RecursionError, ValueError):
        return False
    return seen_twice
