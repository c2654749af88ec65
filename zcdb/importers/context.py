"""What every format gets beside the text, and what it hands back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from zcdb.importers.model import Draft, Refusal, Result, Span
from zcdb.importers.text import byte_length

Found = list[Result | Refusal]


@dataclass(frozen=True, slots=True)
class Context:
    """Attributes: command: a command line that was given for the whole file, or None."""

    command: str | None = None


@dataclass(slots=True)
class Source:
    """The decoded text of a file.

    `span` remembers how far it has counted, so that asking in the order of the
    text costs one pass.
    """

    text: str
    encoding: str
    _counted: tuple[int, int, int] = (0, 1, 0)

    def span(self, start: int, end: int) -> Span:
        """Return where the characters from `start` to before `end` stand."""
        character, line, byte = self._counted
        if start < character:
            character, line, byte = 0, 1, 0
        line += self.text.count("\n", character, start)
        byte += byte_length(self.text[character:start], self.encoding)
        self._counted = (start, line, byte)
        length = byte_length(self.text[start:end], self.encoding)
        return Span(line, line + self.text.count("\n", start, end), byte, byte + length)


def derive_from_intervals(
    draft: Draft, metric: str, rows: Sequence[tuple[float, float, float]]
) -> None:
    """Make a rate from the intervals of a run whose total is missing.

    Args:
        rows: (start in s, end in s, bytes) of each interval; a gap gives no rate.
    """
    gaps = any(abs(b[0] - a[1]) > 0.05 for a, b in pairwise(rows))
    if not rows or gaps:
        draft.measure(metric, None, "the total is missing and the intervals leave gaps")
        return
    sizes = [size for _, _, size in rows]
    rule = "summed bits over a difference of times"
    draft.derive(metric, rule, *sizes, rows[0][0], rows[-1][1])


_LOOPBACK = ("127.", "::1", "localhost")


def is_loopback(hosts: Sequence[str | None]) -> bool:
    """Tell whether these addresses are all this machine's own."""
    known = [host for host in hosts if host]
    return bool(known) and all(host.startswith(_LOOPBACK) for host in known)


def mark_loopback(draft: Draft) -> None:
    """Say that both ends ran on one machine."""
    draft.factors["link"] = "loopback"
    draft.flag("ends-share-host", "both addresses are this machine's own")
