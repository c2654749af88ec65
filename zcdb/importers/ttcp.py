"""ttcp and its descendants (ttcp-sf, Cisco IOS).

The letter is the role: -t sends, -r receives.  KB is 1024 bytes; the printed
rate comes from a time with more digits than the printed one, so it is taken
where there is one.  "msec/call" is 1024 times too large by ttcp's formula and
is not read.  CPU is that of the one process.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from zcdb.importers import quantities as q
from zcdb.importers.context import Context, Found
from zcdb.importers.model import Draft, Refusal
from zcdb.importers.text import Line, span

TOOL = "ttcp"

_N = q.UNSIGNED
_OURS = re.compile(r"^\s*ttcp(?:-sf)?-([tr])(?:-sf)?: ?(.*)$")
_OTHER = re.compile(r"^\s*(?:TCP|UDP) (Transmit|Receive) Test\s*$")
_BARE = re.compile(r"^\s*[0-9]{1,20} bytes in [0-9.]{1,20} real seconds = [0-9.]{1,20} [KMG]?B/sec")
_MOVED = re.compile(
    rf"({q.COUNT}) bytes in ({_N}) (?:real seconds\s+=\s+({_N}) ([KMG]?)B(?:ytes)?/sec"
    rf"|ms \(({_N}) real seconds\) \(~([0-9.]{{1,20}}) ([kM])B/s\))"
)
_CUT = re.compile(r"[0-9]{1,20} bytes in [0-9.]{0,20}")
_CALLS = re.compile(rf"({q.COUNT}) I/O calls")
_USED = re.compile(rf"({_N})user ({_N})sys \S{{1,20}}real ({q.COUNT})%")
_BUFFER = re.compile(rf"buflen=({q.COUNT}), nbuf=({q.COUNT})\b.*?(?:\s(tcp|udp)\b)?")
_RETRANSMITTED = re.compile(rf"Sent: [0-9]{{1,20}} \(retransmit: ({q.COUNT})")
_SEGMENT = re.compile(rf"max data segment is ({q.COUNT}) bytes")


def is_hinted(text: str) -> bool:
    """Tell whether ttcp's output may stand here."""
    return re.search(r"ttcp(?:-sf)?-[tr](?:-sf)?:|^\s*TCP \w+ Test\s*$", text, re.M) is not None


def parse(lines: Sequence[Line], context: Context) -> Found:
    """Return the results and refusals of ttcp in `lines`."""
    found: Found = []
    blocks = _blocks(lines)
    for first, last, role, statements in blocks:
        stop = next((b[0] for b in blocks if b[0] > last), len(lines))
        found += _read(lines, first, last, role, statements, stop)
    return found


Block = tuple[int, int, str, list[str]]


def _blocks(lines: Sequence[Line]) -> list[Block]:
    """Put wrapped statements together and cut where a new run begins."""
    blocks: list[Block] = []
    role = "t"
    i = 0
    while i < len(lines):
        match = _OURS.match(lines[i].text)
        if match is None:
            if other := _OTHER.match(lines[i].text):
                # PCATTCP names the role once and puts no prefix before its lines.
                role = "t" if other[1] == "Transmit" else "r"
                blocks.append((i, i, role, []))
            elif blocks and not blocks[-1][3] and _BARE.match(lines[i].text):
                blocks[-1] = (blocks[-1][0], i, role, [lines[i].text.strip()])
            i += 1
            continue
        role, statement, last = match[1], match[2], i
        if i + 1 < len(lines) and _goes_on(statement, lines[i + 1].text):
            statement, last = f"{statement} {lines[i + 1].text.strip()}", i + 1
        begins = statement.startswith("buflen=") or (
            "bytes in" in statement
            and "CPU seconds" not in statement
            and bool(blocks)
            and any(_CUT.match(s) for s in blocks[-1][3])
        )
        if begins or not blocks or blocks[-1][2] != role:
            blocks.append((i, last, role, [statement]))
        else:
            first, _, _, statements = blocks[-1]
            blocks[-1] = (first, last, role, [*statements, statement])
        i = last + 1
    return blocks


def _goes_on(statement: str, following: str) -> bool:
    """Tell whether a mail program wrapped this statement."""
    if not following.strip() or _OURS.match(following):
        return False
    ends_open = statement.rstrip().endswith(("=", ",", "->"))
    return ends_open or (
        "real seconds" not in statement
        and re.search(r"bytes in [0-9.]+ ?\w*$", statement) is not None
    )


def _read(
    lines: Sequence[Line], first: int, last: int, role: str, statements: Sequence[str], stop: int
) -> Found:
    text = "\n".join(statements)
    match = next((m for s in statements if (m := _MOVED.search(s))), None)
    if match is None:
        if not any(_CUT.search(s) for s in statements):
            return []
        reason = "ttcp's result line is cut off or damaged"
        return [Refusal(TOOL, reason, span(lines, first, last))]
    draft = Draft(TOOL, "text", "TCP")
    draft.detail("direction", "send" if role == "t" else "recv")
    _take_rate(draft, match)
    _take_rest(draft, text, role)
    if role == "t":
        draft.flag("measured-at-sender", "ttcp -t: what it wrote")
    if match[5] is not None:
        last = _take_ios(draft, lines, last, stop)
    return [draft.done(span(lines, first, last))]


def _take_rate(draft: Draft, match: re.Match[str]) -> None:
    size = float(match[1])
    draft.detail("bytes", int(match[1]))
    if match[5] is not None:
        seconds = q.number(match[5])
        draft.detail("elapsed_s", seconds)
        draft.detail("rate_printed", f"~{match[6]} {match[7]}B/s")
        draft.derive("throughput", "bits over time", size, seconds)
        return
    seconds = q.number(match[2])
    draft.detail("elapsed_s", seconds)
    rate = q.scaled(match[3], 8 * q.size_factor(match[4]))
    draft.measure("throughput", rate)
    if not rate or not seconds:
        return
    slack = q.relative_half_unit(match[2]) + q.relative_half_unit(match[3]) + 0.002
    if not q.rates_agree(size * 8 / seconds, rate, slack):
        draft.flag("rate-contradicts", f"{match[1]} bytes in {match[2]} s at {match[3]} KB/sec")


def _take_rest(draft: Draft, text: str, role: str) -> None:
    if match := _BUFFER.search(text):
        name = "message_size" if role == "t" else "receive_size"
        draft.factors[name] = int(match[1])
        if match[3] == "udp" or re.search(r"\budp\b", text):
            draft.test = "UDP"
    else:
        draft.flag("test-assumed", "no header line: protocol and buffer size not known")
    draft.factors["protocol"] = draft.test.lower()
    if match := _CALLS.search(text):
        draft.detail("io_calls", int(match[1]))
    if match := _USED.search(text):
        end = "sender" if role == "t" else "receiver"
        draft.measure(f"utilisation_{end}", int(match[3]) / 100, method="rusage")
        draft.detail("cpu_user_s", q.number(match[1]))
        draft.detail("cpu_system_s", q.number(match[2]))
        draft.flag("process-cpu")


def _take_ios(draft: Draft, lines: Sequence[Line], last: int, stop: int) -> int:
    """Read the connection tables that Cisco IOS prints behind; return the last line read."""
    for i in range(last + 1, min(stop, last + 40)):
        if match := _RETRANSMITTED.search(lines[i].text):
            draft.measure("retransmits", float(match[1]))
            last = i
        elif match := _SEGMENT.search(lines[i].text):
            draft.factors["mss"] = int(match[1])
            last = i
    return last
