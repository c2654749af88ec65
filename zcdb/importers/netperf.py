"""netperf's classic tables: STREAM, SENDFILE, MAERTS, UDP, RR, with or without CPU columns.

A table is told by its stacked column words, which also say the unit, the CPU
method and which end is local; the numbers may be wrapped.  The banner, which
names the test, may be missing or far above.  `netperf_omni` reads the
selectable outputs.  Not read: the -v 2 tables of tests other than RR.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from zcdb.importers import netperf_omni
from zcdb.importers import quantities as q
from zcdb.importers.commands import Command, command_above, parse_command
from zcdb.importers.context import Context, Found
from zcdb.importers.model import Draft, Refusal, Result
from zcdb.importers.netperf_common import (
    BANNER_WORDS,
    Banner,
    error_sentence,
    find_banner,
    is_error,
    parse_unit,
    start_draft,
    unit_of_letter,
)
from zcdb.importers.netperf_figures import FILL, after_table
from zcdb.importers.netperf_tables import Header, Rows, find_header, looks_like_row
from zcdb.importers.text import Line, label_before, span

TOOL = "netperf"

_INTERIM = re.compile(
    rf"Interim result:\s+({q.NUMBER})\s+(.{{1,20}}?) over ({q.NUMBER}) seconds"
    rf"(?: ending at ({q.NUMBER}))?"
)
_LOOK_AHEAD_LINES = 2000
_WIDTH = re.compile(rf"(Throughput|Local CPU util|Remote CPU util)\s*:\s*({q.NUMBER})%")


@dataclass(slots=True)
class _State:
    """What stands above the table that is being looked for."""

    banners: list[Banner] = field(default_factory=list)
    widths: dict[str, float] = field(default_factory=dict)
    interim: list[re.Match[str]] = field(default_factory=list)
    is_warned: bool = False
    warning_first: int | None = None
    owner: tuple[Banner | None, Command | None] | None = None


def parse(lines: Sequence[Line], context: Context) -> Found:
    """Return the results and refusals of all netperf outputs in `lines`."""
    omni = netperf_omni.parse(lines, context)
    found = [*omni, *_parse_classic(lines, context, omni)]
    command = parse_command(context.command, "netperf") if context.command else None
    if not found and command is not None and command.option("-P") == "0":
        return _parse_bare(lines, command)
    return found


def _parse_classic(lines: Sequence[Line], context: Context, omni: Found) -> Found:
    found: Found = []
    taken = {item.span.first_line: item.span.last_line for item in omni}
    state = _State()
    header: Header | None = None
    after = 0
    i = 0
    while i < len(lines):
        text = lines[i].text
        if lines[i].first in taken:
            last_line = taken[lines[i].first]
            while i < len(lines) and lines[i].first <= last_line:
                i += 1
            found += [_unanswered(lines, banner) for banner in state.banners]
            state, header, after = _State(), None, i
            continue
        banner = find_banner(lines, i) if BANNER_WORDS in text else None
        if banner is not None:
            state.banners.append(banner)
            header = None
            i = banner.end
            continue
        _note_warnings(text, i, state)
        new_header = find_header(lines, i)
        if new_header is not None:
            if len(state.banners) > 1 and not state.banners[0].is_ambiguous:
                unanswered = _drop_unanswered(lines, i, state)
                found += [_unanswered(lines, each) for each in unanswered]
            header = new_header
            state.owner = None
            i = new_header.end
            if new_header.unit is None and new_header.kind != "rr":
                state.banners = state.banners[1:]
                found.append(
                    Refusal(
                        TOOL,
                        "netperf table without a unit of throughput: not guessed",
                        span(lines, new_header.start, new_header.end - 1),
                    )
                )
                header = None
            continue
        if header is not None and (row := Rows.read(lines, i, header)) is not None:
            result, i, owner = _result(lines, header, row, state, after, context)
            found.append(result)
            after = i
            state = _spent(state, header.kind, owner)
            continue
        if header is not None and looks_like_row(text, header):
            state.banners = state.banners[1:]
            found.append(
                Refusal(
                    TOOL,
                    f"netperf row with {len(text.split())} numbers where the columns ask for"
                    f" {header.row_counts[0]}: cut off or run together",
                    span(lines, i, i),
                )
            )
        if is_error(text):
            failed = state.banners.pop() if state.banners else None
            first, last = failed.start if failed else i, i
            while last + 1 < len(lines) and is_error(lines[last + 1].text):
                last += 1
            found.append(Refusal(TOOL, error_sentence(lines, i, failed), span(lines, first, last)))
            i = last
        i += 1
    return found + [_unanswered(lines, banner) for banner in state.banners]


def _drop_unanswered(lines: Sequence[Line], index: int, state: _State) -> list[Banner]:
    """Return the banners whose tests gave nothing, and take them out of the state.

    Tests that ran side by side announce themselves together and have a table
    each; if fewer tables follow, the last banner is the one of this table.
    """
    tables = 0
    for i in range(index, min(len(lines), index + _LOOK_AHEAD_LINES)):
        if BANNER_WORDS in lines[i].text:
            break
        tables += find_header(lines, i) is not None
    if tables >= len(state.banners):
        return []
    dropped, state.banners = state.banners[:-1], state.banners[-1:]
    return dropped


def _unanswered(lines: Sequence[Line], banner: Banner) -> Refusal:
    """Return the refusal of a test that was announced and gave no result."""
    reason = f"netperf announced {banner.test} and no result follows that can be read"
    return Refusal(TOOL, reason, span(lines, banner.start, banner.end - 1))


def _note_warnings(text: str, index: int, state: _State) -> None:
    if "Interim result:" in text:
        match = _INTERIM.search(text)
        if match:
            state.interim.append(match)
    elif text.lstrip().startswith("!!!"):
        if state.warning_first is None:
            state.warning_first = index
        state.is_warned = state.is_warned or "confidence was not achieved" in text
        for match in _WIDTH.finditer(text):
            width = q.number(match[2])
            if width is not None:
                state.widths[match[1]] = width


def _fits(banner: Banner, kind: str) -> bool:
    """Tell whether a test of this name prints a table of this kind."""
    if kind == "rr":
        return banner.test.endswith(("RR", "CC", "RR_MANY")) or banner.test == "OMNI"
    is_datagram = banner.test.startswith(("UDP_", "DG_"))
    return is_datagram == (kind == "udp") and not banner.test.endswith("RR")


def _spent(state: _State, kind: str, owner: tuple[Banner | None, Command | None]) -> _State:
    """Return what is left above the next table once a result has been read."""
    fitting = [banner for banner in state.banners if _fits(banner, kind)]
    others = [banner for banner in state.banners if not _fits(banner, kind)]
    kept = [replace(banner, is_ambiguous=True) for banner in fitting[1:]]
    return _State(banners=[*others, *kept], owner=owner)


def _result(
    lines: Sequence[Line],
    header: Header,
    row: Rows,
    state: _State,
    after: int,
    context: Context,
) -> tuple[Result, int, tuple[Banner | None, Command | None]]:
    """Return the result of a row, the index behind it, and which banner and command it has."""
    fitting = [banner for banner in state.banners if _fits(banner, header.kind)]
    banner = fitting[0] if fitting else None
    is_shared = header.start < after
    first = row.start if is_shared else header.start
    if state.warning_first is not None:
        first = min(first, state.warning_first)
    is_unclear = banner is not None and (len(fitting) > 1 or banner.is_ambiguous)
    if banner is not None and not is_unclear:
        first = min(first, banner.start)
    command = command_above(lines, first, after, "netperf", context.command)
    if banner is None and is_shared and state.owner is not None:
        # Several rows under one header are runs of one command.
        banner, command = state.owner[0], command or state.owner[1]
    draft = start_draft(header.kind, "classic", banner, command)
    if is_unclear:
        draft.flag("banner-unknown")
        draft.details.pop("peer", None)
    label = label_before(lines, row.start, max(after, header.end))
    draft.detail("label", label or label_before(lines, first, after))
    FILL[header.kind](draft, header, row)
    _take_state(draft, state)
    if row.remark:
        draft.flag("foreign-text", f"behind the row: {row.remark[:80]}")
    end = after_table(draft, lines, row.end)
    return draft.done(span(lines, first, end - 1)), end, (banner, command)


def _take_state(draft: Draft, state: _State) -> None:
    if state.is_warned:
        draft.detail("confidence_met", False)
        names = {
            "Throughput": "confidence_width_throughput_percent",
            "Local CPU util": "confidence_width_cpu_local_percent",
            "Remote CPU util": "confidence_width_cpu_remote_percent",
        }
        for name, width in state.widths.items():
            draft.detail(names[name], width)
        draft.flag(
            "confidence-not-met",
            ", ".join(f"{name} {width:g} %" for name, width in state.widths.items()),
        )
    elif "confidence_requested" in draft.details:
        draft.detail("confidence_met", True)
    if state.interim:
        _take_interim(draft, state.interim)


def _take_interim(draft: Draft, matches: Sequence[re.Match[str]]) -> None:
    rows: list[dict[str, float]] = []
    for match in matches:
        unit = parse_unit(match[2])
        if unit is None:
            continue
        name = "transactions_per_s" if unit.is_transactions else "throughput_bps"
        rate = q.scaled(match[1], unit.factor)
        seconds, ended_at = q.number(match[3]), q.number(match[4])
        if rate is None or seconds is None:
            continue
        rows.append({name: rate, "interval_s": seconds})
        if ended_at is not None:
            rows[-1]["ended_at_epoch_s"] = ended_at
    if not rows:
        return
    draft.count("interim_count", len(rows))
    draft.detail("interim", rows)
    rates = [next(iter(row.values())) for row in rows]
    overall = draft.value("throughput") or draft.value("transaction_rate")
    if len(rates) >= 4 and overall and rates[-3] < rates[-2] < rates[-1] > 1.05 * overall:
        draft.flag("rate-rising", "the interim values rise to the end")


def _parse_bare(lines: Sequence[Line], command: Command) -> Found:
    """Return the results of rows without any header (-P 0), which only the command explains."""
    test = (command.option("-t") or "TCP_STREAM").upper()
    kind = "rr" if test.endswith("RR") else "udp" if test == "UDP_STREAM" else "stream"
    letter = command.option("-f") or ("x" if kind == "rr" else "m")
    unit = unit_of_letter(letter)
    local, remote = command.has("-c"), command.has("-C")
    letters = ("?", "?") if local or remote else ()
    found: Found = []
    if unit is None:
        return found
    header = Header(kind, unit, letters, test.endswith("MAERTS"), 0, 0)
    i = 0
    while i < len(lines):
        row = Rows.read(lines, i, header)
        if row is None:
            i += 1
            continue
        draft = start_draft(kind, "classic", Banner.of_command(test), command)
        draft.flag("unit-from-command", "rows without a header")
        FILL[kind](draft, header, row)
        found.append(draft.done(span(lines, row.start, row.end - 1)))
        i = row.end
    return found


def is_hinted(text: str) -> bool:
    """Tell whether netperf's output may stand here."""
    return any(
        word in text
        for word in (
            " TEST from ",
            "Recv",
            "Local /Remote",
            "Socket  Message",
            "THROUGHPUT",
            "Throughput",
            "_LATENCY=",
            "establish control",
            "establish_control",
            "netperf: ",
        )
    )
