"""iperf 2's CSV (-y C): rows without names, one a stream and direction.

A UDP client prints its own row and the server's with the addresses swapped.
Rows of one moment to one port are streams of one run, which the file does not
say and the result flags.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from zcdb.importers import quantities as q
from zcdb.importers.context import Context, Found, is_loopback, mark_loopback
from zcdb.importers.iperf2 import TOOL, take_loss
from zcdb.importers.model import Draft, Refusal
from zcdb.importers.text import Line, span

_ROW = re.compile(
    r"^\s*(?:[+-][0-9]{4}:)?([0-9]{14})(?:\.[0-9]{1,6})?,([^,\s]{0,60}),([0-9]{0,5}),([^,\s]{0,60}),"
    r"([0-9]{0,5}),(-?[0-9]{1,10}),([0-9.]{1,14})-([0-9.]{1,14}),([0-9]{1,20}),([0-9]{1,20})"
    r"(?:,([0-9.]{1,20}),(-?[0-9]{1,20}),(-?[0-9]{1,20}),(-?[0-9.]{1,20}),([0-9]{1,20}))?,?\s*$"
)
_STARTS = re.compile(r"^\s*[0-9]{14}(?:\.[0-9]{1,6})?,[^,\s]{1,60},[0-9]{1,5},")
DEFAULT_PORT = 5001


@dataclass(frozen=True, slots=True)
class _Row:
    stamp: str
    local: tuple[str, str]
    remote: tuple[str, str]
    stream: int
    start_s: float
    end_s: float
    size_bytes: int
    rate_bps: int
    udp: tuple[str, ...] | None
    index: int

    @property
    def is_sum(self) -> bool:
        return self.stream < 0

    @property
    def is_received(self) -> bool:
        """True for a UDP receiver's row; newer senders fill the fields with 0 and -1."""
        return self.udp is not None and not self.udp[2].startswith("-")


def is_hinted(text: str) -> bool:
    """Tell whether iperf 2's CSV may stand here."""
    return re.search(r"^\s*(?:[+-][0-9]{4}:)?[0-9]{14}(?:\.[0-9]{1,6})?,", text, re.M) is not None


def parse(lines: Sequence[Line], context: Context) -> Found:
    """Return the results and refusals of iperf 2's CSV rows in `lines`."""
    found: Found = []
    run: list[_Row] = []
    for i, line in enumerate(lines):
        row = _row(line.text, i)
        if row is None:
            if _STARTS.match(line.text):
                found.append(
                    Refusal(TOOL, "iperf 2 CSV row that is cut off or damaged", span(lines, i, i))
                )
            continue
        if run and not _belongs(run, row):
            found += _results(lines, run)
            run = []
        run.append(row)
    return found + (_results(lines, run) if run else [])


def _row(text: str, index: int) -> _Row | None:
    match = _ROW.match(text)
    if match is None:
        return None
    start, end = q.number(match[7]), q.number(match[8])
    if start is None or end is None or end < start:
        return None
    udp = match.groups()[10:15] if match[11] is not None else None
    return _Row(
        match[1],
        (match[2], match[3]),
        (match[4], match[5]),
        int(match[6]),
        start,
        end,
        int(match[9]),
        int(match[10]),
        udp,
        index,
    )


def _belongs(run: Sequence[_Row], row: _Row) -> bool:
    """Tell whether a row goes on with the same run."""
    first = run[0]
    hosts = {first.local[0], first.remote[0]}
    if {row.local[0], row.remote[0]} - {""} != hosts - {""} and not row.is_sum:
        return False
    ports = {first.local[1], first.remote[1]}
    if not row.is_sum and not ports & {row.local[1], row.remote[1]}:
        return False
    same = [r for r in run if r.stream == row.stream and r.local == row.local]
    # The same stream at the same place in time: another run of the same kind.
    return not any(r.start_s == row.start_s and r.end_s == row.end_s for r in same)


def _results(lines: Sequence[Line], run: Sequence[_Row]) -> Found:
    place = span(lines, run[0].index, run[-1].index)
    totals = _totals([row for row in run if not row.is_sum])
    if not totals:
        return [Refusal(TOOL, "iperf 2 CSV rows of intervals without a total", place)]
    reports = [row for row in totals if row.is_received and _has_twin(row, totals)]
    own = [row for row in totals if row not in reports]
    is_udp = any(row.udp is not None for row in totals)
    is_received = all(row.is_received for row in own)
    direction = _direction(own, bool(reports), is_received)
    draft = Draft(TOOL, "csv", "UDP" if is_udp else "TCP")
    draft.factors["protocol"] = draft.test.lower()
    draft.factors["streams"] = len(own)
    draft.detail("direction", direction)
    if len(own) > 1:
        draft.flag("streams-assumed", f"{len(own)} rows to one port")
        draft.detail("per_stream_bps", [row.rate_bps for row in own])
    if is_loopback([host for row in own for host in (row.local[0], row.remote[0])]):
        mark_loopback(draft)
    if run[0].stamp.startswith("1970"):
        draft.flag("clock-missing", run[0].stamp)
    else:
        draft.detail("local_time_printed", run[0].stamp)
    draft.detail("elapsed_s", max(row.end_s - row.start_s for row in own))
    _fill(draft, own, reports, [row for row in run if row.is_sum], direction)
    return [draft.done(place)]


def _totals(rows: Sequence[_Row]) -> list[_Row]:
    totals: dict[tuple[int, tuple[str, str]], _Row] = {}
    for row in rows:
        key = (row.stream, row.local)
        held = totals.get(key)
        if held is None or (row.start_s <= held.start_s and row.end_s >= held.end_s):
            totals[key] = row
    rows_of = {key: [r for r in rows if (r.stream, r.local) == key] for key in totals}
    return [
        row
        for key, row in totals.items()
        if row.end_s >= max(r.end_s for r in rows_of[key]) and row.start_s == 0
    ]


def _has_twin(row: _Row, rows: Sequence[_Row]) -> bool:
    return any(r.local == row.remote and r.remote == row.local for r in rows)


def _direction(own: Sequence[_Row], has_reports: bool, is_received: bool) -> str:
    if has_reports or any(row.udp is not None for row in own):
        return "recv" if is_received and not has_reports else "send"
    local, remote = int(own[0].local[1] or 0), int(own[0].remote[1] or 0)
    if DEFAULT_PORT in (local, remote):
        return "recv" if local == DEFAULT_PORT else "send"
    return "send" if remote < local else "recv"


def _fill(
    draft: Draft,
    own: Sequence[_Row],
    reports: Sequence[_Row],
    sums: Sequence[_Row],
    direction: str,
) -> None:
    is_udp = draft.test == "UDP"
    metric = "sent_throughput" if is_udp and direction == "send" else "throughput"
    _rate(draft, metric, own)
    if direction == "send" and not is_udp:
        draft.flag("measured-at-sender", "iperf 2 client: what it wrote")
    added = sum(row.size_bytes for row in own)
    whole_sums = [row for row in sums if row.end_s >= max(r.end_s for r in own) - 0.2]
    for row in whole_sums[-1:]:
        if not q.rates_agree(row.size_bytes, added, 0.01):
            draft.flag("sum-row-wrong", f"{row.size_bytes} bytes, its rows have {added}")
    if len(own) == 1:
        draft.detail("bytes_sent" if direction == "send" else "bytes_received", own[0].size_bytes)
    if is_udp and direction == "send":
        if len(reports) == len(own):
            _rate(draft, "throughput", reports)
            if len(reports) == 1:
                draft.detail("bytes_received", reports[0].size_bytes)
                _loss(draft, reports[0])
        else:
            draft.measure("throughput", None, "there is no report of the server")
    elif is_udp and len(own) == 1:
        _loss(draft, own[0])


def _rate(draft: Draft, metric: str, rows: Sequence[_Row]) -> None:
    if len(rows) == 1:
        draft.measure(metric, float(rows[0].rate_bps))
    else:
        draft.derive(metric, "sum", *(float(row.rate_bps) for row in rows))


def _loss(draft: Draft, row: _Row) -> None:
    if row.udp is None:
        return
    jitter, lost, total, _, out_of_order = row.udp
    draft.measure("jitter", q.milli(jitter))
    draft.detail("lost_packets", int(lost))
    draft.detail("datagrams", int(total))
    draft.detail("out_of_order", int(out_of_order))
    take_loss(draft, int(lost), int(total))
