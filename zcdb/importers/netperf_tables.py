"""netperf's classic tables: which one a header begins, and which numbers make a row.

A header is told by its stacked column words, whitespace aside, because mails
wrap and squeeze them.  What the numbers mean is `netperf_figures`' business.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from zcdb.importers import quantities as q
from zcdb.importers.netperf_common import BANNER_WORDS, Unit, parse_unit
from zcdb.importers.text import Line, is_prompt

_HEADER_STARTS = (
    ("stream", re.compile(r"^\s*Recv\s+Send\s+Send\b")),
    ("rr", re.compile(r"^\s*Local\s*/\s*Remote\b")),
    ("udp", re.compile(r"^\s*Socket\s+Message\s+Elapsed\b")),
)
_ROW_NUMBER = r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:e[+-]?[0-9]{1,3})?"
_NUMBERS_FIRST = re.compile(rf"^\s*({_ROW_NUMBER}(?:\s+{_ROW_NUMBER})*)(?:\s+(\S.*))?$")
_MAX_HEADER_LINES = 12


@dataclass(frozen=True, slots=True)
class Header:
    """A table's column words, understood.

    Attributes:
        kind: "stream", "udp" or "rr".
        cpu_letters: netperf's method letters, local then remote; empty without CPU columns.
        local_is_receiver: True where the local columns are the receiver's (MAERTS).
        end: index of the first line behind the header.
    """

    kind: str
    unit: Unit | None
    cpu_letters: tuple[str, ...]
    local_is_receiver: bool
    start: int
    end: int

    @property
    def row_counts(self) -> tuple[int, int]:
        """How many numbers the first and the second row have."""
        cpu = bool(self.cpu_letters)
        return {
            "stream": (9 if cpu else 5, 0),
            "udp": (8 if cpu else 6, 6 if cpu else 4),
            "rr": (10 if cpu else 6, 2),
        }[self.kind]


def find_header(lines: Sequence[Line], start: int) -> Header | None:
    """Return the header that begins on a line, or None."""
    text = lines[start].text
    kind = next((kind for kind, pattern in _HEADER_STARTS if pattern.match(text)), None)
    if kind is None:
        return None
    end = start + 1
    while end < len(lines) and end - start < _MAX_HEADER_LINES:
        line = lines[end].text
        if (_NUMBERS_FIRST.match(line) and not line.lstrip().startswith("10^")) or not line.strip():
            break
        if BANNER_WORDS in line or is_prompt(line) or line.rstrip().endswith(":"):
            break
        end += 1
    words = " ".join(" ".join(line.text.split()) for line in lines[start:end])
    if not _belongs(kind, words):
        return None
    letters = tuple("".join(re.findall(r"% ?([A-Z]{1,2})\b", words)))
    has_cpu = bool(letters) and ("us/" in words or "Demand" in words or "S.dem" in words)
    return Header(
        kind,
        parse_unit(words),
        _two_letters(letters) if has_cpu else (),
        re.search(r"Elapsed Recv Send\b", words) is not None,
        start,
        end,
    )


def _belongs(kind: str, words: str) -> bool:
    needed = {
        "stream": ("Socket", "Elapsed", "Throughput", "secs"),
        "udp": ("Messages", "Okay", "Errors", "Throughput"),
        "rr": ("Socket", "Resp", "Elapsed", "secs"),
    }[kind]
    return all(word in words for word in needed)


def _two_letters(letters: tuple[str, ...]) -> tuple[str, ...]:
    return (letters[0], letters[1]) if len(letters) > 1 else (letters[0], letters[0])


@dataclass(frozen=True, slots=True)
class Rows:
    """The numbers of one result: first row, second row, words behind the first row."""

    first: list[str]
    second: list[str]
    remark: str
    start: int
    end: int

    @classmethod
    def read(cls, lines: Sequence[Line], start: int, header: Header) -> Rows | None:
        """Read the row(s) at `start`, wrapped or not; None if it is not a whole row."""
        match = _NUMBERS_FIRST.match(lines[start].text)
        if match is None:
            return None
        want, want_second = header.row_counts
        numbers, remark = match[1].split(), (match[2] or "").strip()
        end = start + 1
        if want // 2 < len(numbers) < want and not remark and end < len(lines):
            # The last columns wrapped: only if the next line has just what is missing.
            rest = lines[end].text.split()
            if len(numbers) + len(rest) == want and all(q.number(x) is not None for x in rest):
                numbers += rest
                end += 1
        second = numbers[want:]
        numbers = numbers[:want]
        if len(numbers) != want or (second and len(second) != want_second):
            return None
        if want_second and not second and end < len(lines):
            rest = lines[end].text.split()
            taken = min(len(rest), want_second)
            if taken == want_second and all(q.number(x) is not None for x in rest[:taken]):
                second, end = rest[:taken], end + 1
            elif (
                taken == want_second - 1
                and end + 1 < len(lines)
                and q.number(lines[end + 1].text.strip()) is not None
                and all(q.number(x) is not None for x in rest)
            ):
                second, end = [*rest, lines[end + 1].text.strip()], end + 2
        return cls(numbers, second, remark, start, end)


def looks_like_row(text: str, header: Header) -> bool:
    """Tell whether a line is most of a row: cut off, or with numbers run together."""
    words = text.split()
    want = header.row_counts[0]
    return (
        want // 2 < len(words) < want
        and words[0].isdecimal()
        and all(re.fullmatch(r"-?[0-9.]{1,30}", word) for word in words)
    )
