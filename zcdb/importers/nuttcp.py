"""nuttcp: the one-line result, -fparse, and the verbose -t/-r blocks.

nuttcp's rate is the receiver's; MB is 2^20 bytes, Mbps 10^6 bit/s.  Its CPU
figures are whole per cent of one CPU, of its processes alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from zcdb.importers import quantities as q
from zcdb.importers.commands import command_above
from zcdb.importers.context import Context, Found, is_loopback, mark_loopback
from zcdb.importers.iperf2 import take_loss
from zcdb.importers.model import Draft, Refusal, Result
from zcdb.importers.text import Line, span

TOOL = "nuttcp"

_N = q.UNSIGNED
_ROW = re.compile(rf"({_N}) MB\s*/\s*({_N}) sec\s*=\s*({_N}) ([KMG]?)bps(.*)$")
_CPU = re.compile(rf"({q.COUNT}) %TX\s+({q.COUNT}) %RX")
_RETRANS = re.compile(rf"({q.COUNT}) (?:host-)?retrans\b")
_RTT = re.compile(rf"({_N}) msRTT")
_DROPS = re.compile(rf"((?<![0-9.,])-?[0-9]{{1,20}})\s*/\s*({q.COUNT}) (~?)drop/pkt")
_PARSED = re.compile(r"\bmegabytes=([0-9.]{1,30})\s+real_sec(?:onds)?=")
_PAIR = re.compile(r"\b(\w{1,40})=(\S{1,60})")
_VERBOSE = re.compile(r"^\s*nuttcp-([tr])(?:-\w{1,20})?: (.*)$")
_MOVED = re.compile(rf"({_N}) MB in ({_N}) real seconds = {_N} KB/sec = ({_N}) ([KMG]?)bps")
_USED = re.compile(rf"{_N}user {_N}sys \S{{1,20}}real ({q.COUNT})%")
_BUFFER = re.compile(rf"buflen=({q.COUNT}), nstream=({q.COUNT}), port=[0-9]{{1,5}} (?:(tcp|udp))?")
_MSS = re.compile(rf"\bmss=({q.COUNT})(?:, RTT=({_N}) ms)?")
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}


def is_hinted(text: str) -> bool:
    """Tell whether nuttcp's output may stand here."""
    return ("bps" in text and (" MB " in text or "nuttcp-" in text)) or "rate_Mbps=" in text


def parse(lines: Sequence[Line], context: Context) -> Found:
    """Return the results and refusals of nuttcp in `lines`."""
    found: Found = []
    intervals: list[tuple[int, float]] = []
    after = 0
    i = 0
    while i < len(lines):
        text = lines[i].text
        if _VERBOSE.match(text):
            results, i = _verbose(lines, i, after, context)
            found += results
            after = i
            continue
        pairs = dict(_PAIR.findall(text)) if _PARSED.search(text) else {}
        match = _ROW.search(text)
        if "tx_cpu" in pairs or ("rate_Mbps" in pairs and "real_seconds" in pairs):
            found.append(_parsed(lines, i, pairs, intervals, after, context))
            intervals, after = [], i + 1
        elif pairs:
            rate = q.scaled(pairs.get("rate_Mbps", ""), 10**6)
            if rate is not None:
                intervals.append((i, rate))
        elif match is not None:
            rate = q.scaled(match[3], _UNITS[match[4]])
            if q.number(match[2]) == 0:
                reason = "nuttcp's line says that nothing moved in no time"
                found.append(Refusal(TOOL, reason, span(lines, i, i)))
            elif "%TX" not in match[5] and (_is_interval(match) or _more_follow(lines, i)):
                if rate is not None:
                    intervals.append((i, rate))
            else:
                found.append(_line(lines, i, match, intervals, after, context))
                intervals, after = [], i + 1
        elif text.startswith(("nuttcp: ", "Error: nuttcp")):
            found.append(Refusal(TOOL, f"nuttcp failed: {text.strip()[:200]}", span(lines, i, i)))
        i += 1
    if intervals:
        place = span(lines, intervals[0][0], intervals[-1][0])
        found.append(Refusal(TOOL, "nuttcp printed intervals but no final line", place))
    return found


def _is_interval(match: re.Match[str]) -> bool:
    rest = match[5].strip()
    return "~drop" in rest or not re.search(r"[0-9]\s*$", rest)


def _more_follow(lines: Sequence[Line], index: int) -> bool:
    """Tell whether another row of the same kind comes next: then this one is an interval."""
    return any(_ROW.search(line.text) for line in lines[index + 1 : index + 3])


def _draft(
    lines: Sequence[Line], first: int, after: int, context: Context, output_format: str
) -> Draft:
    draft = Draft(TOOL, output_format, "TCP")
    draft.detail("direction", "send")
    command = command_above(lines, first, after, TOOL, context.command)
    if command is not None:
        draft.detail("command", command.text)
        streams = q.whole(command.option("-N"))
        if streams and streams > 0:
            draft.factors["streams"] = streams
        if command.has("-r"):
            draft.detail("direction", "recv")
        size = re.fullmatch(r"([0-9]{1,9})([kKmM]?)", command.option("-l") or "")
        if size:
            draft.factors["message_size"] = int(size[1]) * q.size_factor(size[2])
    return draft


def _take_rate(draft: Draft, megabytes: str, seconds: str, rate: str, unit: str) -> None:
    bps = q.scaled(rate, _UNITS[unit])
    size, elapsed = q.scaled(megabytes, 2**20), q.number(seconds)
    draft.measure("throughput", bps)
    draft.detail("bytes_received", size)
    draft.detail("elapsed_s", elapsed)
    if not bps or not size or not elapsed:
        return
    slack = q.relative_half_unit(seconds) + q.relative_half_unit(megabytes) + 0.002
    if not q.rates_agree(size * 8 / elapsed, bps, slack):
        draft.flag("rate-contradicts", f"{megabytes} MB in {seconds} s at {rate} {unit}bps")


def _take_cpu(draft: Draft, end: str, percent: str | None, reason: str = "not printed") -> None:
    value = q.scaled(percent, 1)
    share = value / 100 if value is not None and value >= 0 else None
    draft.measure(f"utilisation_{end}", share, reason, method="rusage")
    if share is not None:
        draft.flag("process-cpu")


def _take_intervals(draft: Draft, intervals: Sequence[tuple[int, float]]) -> None:
    if intervals:
        draft.count("intervals", len(intervals))
        draft.detail("interval_bps", [rate for _, rate in intervals])


def _line(
    lines: Sequence[Line],
    index: int,
    match: re.Match[str],
    intervals: Sequence[tuple[int, float]],
    after: int,
    context: Context,
) -> Result:
    first = intervals[0][0] if intervals else index
    draft = _draft(lines, first, after, context, "line")
    rest = match[5]
    _take_rate(draft, match[1], match[2], match[3], match[4])
    _take_intervals(draft, intervals)
    if cpu := _CPU.search(rest):
        _take_cpu(draft, "sender", cpu[1])
        _take_cpu(draft, "receiver", cpu[2])
    else:
        for end in ("sender", "receiver"):
            _take_cpu(draft, end, None, "the line is cut off")
        draft.flag("incomplete", f"the line is cut off behind {rest.strip()[-20:]!r}")
    if drops := _DROPS.search(rest):
        draft.test = "UDP"
        draft.detail("lost_packets", int(drops[1]))
        draft.detail("datagrams", int(drops[2]))
        take_loss(draft, int(drops[1]), int(drops[2]))
    if retrans := _RETRANS.search(rest):
        draft.measure("retransmits", float(retrans[1]))
    if rtt := _RTT.search(rest):
        draft.measure("tcp_rtt", q.milli(rtt[1]))
    draft.factors["protocol"] = draft.test.lower()
    return draft.done(span(lines, first, index))


def _parsed(
    lines: Sequence[Line],
    index: int,
    pairs: dict[str, str],
    intervals: Sequence[tuple[int, float]],
    after: int,
    context: Context,
) -> Result:
    first = intervals[0][0] if intervals else index
    draft = _draft(lines, first, after, context, "parse")
    _take_rate(
        draft,
        pairs.get("megabytes", ""),
        pairs.get("real_seconds", ""),
        pairs.get("rate_Mbps", ""),
        "M",
    )
    _take_intervals(draft, intervals)
    _take_cpu(draft, "sender", pairs.get("tx_cpu"))
    _take_cpu(draft, "receiver", pairs.get("rx_cpu"))
    if "drop" in pairs and "pkt" in pairs:
        draft.test = "UDP"
        lost, total = q.whole(pairs["drop"]), q.whole(pairs["pkt"])
        draft.detail("lost_packets", lost)
        draft.detail("datagrams", total)
        if lost is not None and total is not None:
            take_loss(draft, lost, total)
    if "retrans" in pairs:
        draft.measure("retransmits", q.not_negative(q.number(pairs["retrans"])))
    if "rtt_ms" in pairs:
        draft.measure("tcp_rtt", q.milli(pairs["rtt_ms"]))
    draft.factors["protocol"] = draft.test.lower()
    return draft.done(span(lines, first, index))


def _verbose(lines: Sequence[Line], start: int, after: int, context: Context) -> tuple[Found, int]:
    """Read the -t and -r blocks of one test; return what they give and the index behind them."""
    sides: dict[str, list[str]] = {"t": [], "r": []}
    i, last = start, start
    while i < len(lines):
        match = _VERBOSE.match(lines[i].text)
        if match:
            has_version = ": socket" in match[2] and any("socket" in x for x in sides[match[1]])
            if has_version:
                break
            sides[match[1]].append(match[2])
            last = i
        elif lines[i].text.strip() and not _ROW.search(lines[i].text):
            break
        i += 1
    place = span(lines, start, last)
    moved = {side: m for side, rows in sides.items() for x in rows if (m := _MOVED.search(x))}
    if not moved:
        return [Refusal(TOOL, "nuttcp's verbose output without a rate", place)], last + 1
    draft = _draft(lines, start, after, context, "verbose")
    _fill_verbose(draft, sides, moved)
    return [draft.done(place)], last + 1


def _fill_verbose(
    draft: Draft, sides: dict[str, list[str]], moved: dict[str, re.Match[str]]
) -> None:
    if "r" in moved:
        match = moved["r"]
        _take_rate(draft, match[1], match[2], match[3], match[4])
    if "t" in moved:
        match = moved["t"]
        draft.measure("sent_throughput", q.scaled(match[3], _UNITS[match[4]]))
        draft.detail("bytes_sent", q.scaled(match[1], 2**20))
        draft.detail("elapsed_s", q.number(match[2]))
        if "r" not in moved:
            draft.measure("throughput", None, "the receiver's block is not in the text")
    for side, end in (("t", "sender"), ("r", "receiver")):
        text = "\n".join(sides[side])
        if used := _USED.search(text):
            _take_cpu(draft, end, used[1])
        if buffer := _BUFFER.search(text):
            draft.factors["streams"] = int(buffer[2])
            draft.factors["message_size" if side == "t" else "receive_size"] = int(buffer[1])
            if buffer[3] == "udp":
                draft.test = "UDP"
        if retrans := re.search(rf"\bretrans = ({q.COUNT})", text):
            draft.measure("retransmits", float(retrans[1]))
        if segment := _MSS.search(text):
            draft.factors["mss"] = int(segment[1])
            if segment[2]:
                draft.measure("tcp_rtt", q.milli(segment[2]))
        if version := re.search(r"^v([0-9][\w.]{0,20}):", text):
            draft.version = version[1]
        peers = re.findall(r"(?:-> |accept from |connect to )(\S{1,100})", text)
        if is_loopback(peers):
            mark_loopback(draft)
    draft.factors["protocol"] = draft.test.lower()
