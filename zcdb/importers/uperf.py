"""uperf: the transaction rows, the raw counters (-R) and the run statistics.

Data counts in powers of 1024, rates in powers of 1000.  The transaction that
moved the most bytes is the result: the others set up and tear down.  uperf's
CPU column is always 0 on Linux and is not read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from zcdb.importers import quantities as q
from zcdb.importers.context import Context, Found
from zcdb.importers.model import Draft, Refusal
from zcdb.importers.text import Line, span

TOOL = "uperf"

_N = q.UNSIGNED
_ROW = re.compile(
    rf"^\s*(Txn[0-9]{{1,4}}|Total)\s+({_N})([KMGT]?)B?\s*/\s*({_N})\(s\)\s*=\s*({_N})([KMGT]?)"
    rf"(?:b/s)?\s+({_N})([KMG]?)op/s"
)
_RAW = re.compile(
    rf"^\s*timestamp_ms:([0-9]{{1,20}}(?:\.[0-9]{{1,9}})?) name:(\S{{1,60}}) nr_bytes:({q.COUNT})"
    rf" nr_ops:({q.COUNT})"
)
_DIFFERENCE = re.compile(
    r"^\s*Difference\(%\)\s+(-?[0-9.]{1,12})%\s+(-?[0-9.]{1,12})%\s+(-?[0-9.]{1,12})%"
)
_START = re.compile(r"^\s*Starting ([0-9]{1,6}) (threads|processes) running profile:\s?(\S{1,100})")


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    size_bytes: float
    seconds: float
    rate_bps: float
    ops_per_s: float
    slack: float
    index: int


@dataclass(frozen=True, slots=True)
class _Raw:
    time_s: float
    name: str
    size_bytes: int
    operations: int
    index: int


def is_hinted(text: str) -> bool:
    """Tell whether uperf's output may stand here."""
    return "op/s" in text or "timestamp_ms:" in text or "uperf" in text


def parse(lines: Sequence[Line], context: Context) -> Found:
    """Return the results and refusals of uperf in `lines`."""
    found: Found = []
    rows: list[_Row] = []
    raw: list[_Raw] = []
    start: re.Match[str] | None = None
    first: int | None = None
    last = 0
    difference: re.Match[str] | None = None
    for i, line in enumerate(lines):
        text = line.text
        if match := _START.match(text):
            if rows or raw:
                found += _result(lines, first, last, rows, raw, start, difference)
            rows, raw, difference, start, first, last = [], [], None, match, i, i
        elif (row := _row(text, i)) is not None:
            if row.name != "Total" and any(r.name == row.name for r in rows):
                # Rows of running transactions are printed again and again: the last counts.
                rows = [r for r in rows if r.name != row.name]
            rows.append(row)
            first, last = i if first is None else first, i
        elif match := _RAW.match(text):
            raw.append(_Raw(float(match[1]) / 1e3, match[2], int(match[3]), int(match[4]), i))
            first, last = i if first is None else first, i
        elif first is not None and (match := _DIFFERENCE.match(text)):
            difference, last = match, i
        elif "uperf" in text and re.match(r"^\s*(?:Error|\*\* )", text):
            found.append(Refusal(TOOL, f"uperf failed: {text.strip()[:200]}", span(lines, i, i)))
    if rows or raw:
        found += _result(lines, first, last, rows, raw, start, difference)
    return found


def _row(text: str, index: int) -> _Row | None:
    match = _ROW.match(text)
    if match is None:
        return None
    size = q.scaled(match[2], q.size_factor(match[3]))
    seconds = q.number(match[4])
    rate = q.scaled(match[5], q.rate_factor(match[6], "bits"))
    operations = q.scaled(match[7], q.rate_factor(match[8], "bits"))
    if size is None or seconds is None or rate is None or operations is None:
        return None
    slack = sum(q.relative_half_unit(match[n]) for n in (2, 4, 5) if q.number(match[n]))
    return _Row(match[1], size, seconds, rate, operations, slack, index)


def _result(
    lines: Sequence[Line],
    first: int | None,
    last: int,
    rows: Sequence[_Row],
    raw: Sequence[_Raw],
    start: re.Match[str] | None,
    difference: re.Match[str] | None,
) -> Found:
    place = span(lines, first or 0, last)
    draft = Draft(TOOL, "text" if rows else "raw", start[3].rstrip(".") if start else "uperf")
    if start is not None:
        draft.factors["streams"] = int(start[1])
    else:
        draft.flag("test-assumed", "the profile is not named")
    working = [row for row in rows if row.name != "Total" and row.size_bytes > 0]
    if working:
        row = max(working, key=lambda r: r.size_bytes)
        draft.detail("transaction", row.name)
        draft.detail("elapsed_s", row.seconds)
        draft.detail("operations_per_s", row.ops_per_s)
        draft.measure("throughput", row.rate_bps)
        if row.seconds and not q.rates_agree(
            row.size_bytes * 8 / row.seconds, row.rate_bps, row.slack + 0.002
        ):
            draft.flag("rate-contradicts", row.name)
    elif not _take_raw(draft, raw):
        return [Refusal(TOOL, "uperf printed no transaction that moved bytes", place)]
    if difference is not None:
        draft.detail("data_difference_percent", q.number(difference[2]))
    else:
        draft.flag("end-unknown", "uperf's master printed its own figure only")
    draft.flag("both-directions", "uperf counts bytes read and written")
    return [draft.done(place)]


def _take_raw(draft: Draft, raw: Sequence[_Raw]) -> bool:
    """Take the growth of the cumulative counters of the transaction that moved most."""
    names = {row.name for row in raw}
    series = {name: [row for row in raw if row.name == name] for name in sorted(names)}
    grown = {
        name: rows
        for name, rows in series.items()
        if len(rows) > 1
        and rows[-1].size_bytes > rows[0].size_bytes
        and rows[-1].time_s > rows[0].time_s
    }
    if not grown:
        return False
    name = max(grown, key=lambda n: grown[n][-1].size_bytes - grown[n][0].size_bytes)
    first, last = grown[name][0], grown[name][-1]
    draft.detail("transaction", name)
    draft.derive(
        "throughput",
        "grown bits over a difference of times",
        float(first.size_bytes),
        float(last.size_bytes),
        first.time_s,
        last.time_s,
    )
    draft.derive_detail("elapsed_s", "difference", first.time_s, last.time_s)
    draft.count("samples", len(grown[name]))
    return True
