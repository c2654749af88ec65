"""/proc/interrupts and /proc/softirqs as totals by kind.  Pure parsers.

The first has a column for each CPU and a row for each interrupt, so on a large
machine it is long: it is read at the ends of a window, never at each edge.
"""

from __future__ import annotations

from dataclasses import dataclass

from zcdb.errors import HostError


@dataclass(frozen=True, slots=True)
class InterruptRow:
    """One row of /proc/interrupts.

    Attributes:
        count: sum over all CPUs since boot.
        actions: the names of the handlers, more than one if the line is shared; of an
            architecture's own row its description.
    """

    count: int
    actions: tuple[str, ...]


def parse_interrupts(text: str) -> dict[str, InterruptRow]:
    """Read /proc/interrupts: row name ("36", "LOC") -> its row.

    Rows may be shorter than the heading (ERR and MIS have one number).

    Raises:
        HostError: if there is no heading of CPUs.
    """
    heading, _, body = text.partition("\n")
    cpus = heading.split()
    if not cpus or not all(word.startswith("CPU") for word in cpus):
        raise HostError(f"/proc/interrupts begins with {heading[:60]!r}, not with CPUs")
    rows: dict[str, InterruptRow] = {}
    for line in body.splitlines():
        name, colon, rest = line.partition(":")
        if not colon:
            continue
        words = rest.split()
        counts = _leading_numbers(words, len(cpus))
        rows[name.strip()] = InterruptRow(sum(counts), _actions(name, words[len(counts) :]))
    return rows


def _leading_numbers(words: list[str], most: int) -> list[int]:
    numbers: list[int] = []
    for word in words[:most]:
        if not word.isdecimal():
            break
        numbers.append(int(word))
    return numbers


def _actions(name: str, words: list[str]) -> tuple[str, ...]:
    if not name.strip().isdecimal():
        return (" ".join(words),) if words else ()
    # Chip, then "5-edge" or "5 edge" or nothing, then handlers separated by commas.
    for place, word in enumerate(words):
        if word.endswith(("edge", "level", "fasteoi")) or word in ("Edge", "Level"):
            words = words[place + 1 :]
            break
    else:
        words = words[2:]
    text = " ".join(words)
    return tuple(part.strip() for part in text.split(",") if part.strip())


def kind_of(name: str, row: InterruptRow) -> str:
    """Return what to call a row: "36 virtio1-req.0", "LOC Local timer interrupts"."""
    return " ".join([name, *row.actions])


def parse_softirq_totals(text: str) -> dict[str, int]:
    """Read /proc/softirqs: kind -> sum over all CPUs since boot."""
    totals: dict[str, int] = {}
    for line in text.splitlines()[1:]:
        name, colon, rest = line.strip().partition(":")
        if colon:
            totals[name] = sum(int(word) for word in rest.split() if word.isdecimal())
    return totals
