"""iperf 3's text: client and server, with and without -V, --bidir, -P, -R, -u.

Omitted rows are told by their word, summary rows by "sender" and "receiver".
Older versions print one UDP summary row, which is the sent rate.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from zcdb.importers import quantities as q
from zcdb.importers.commands import command_above
from zcdb.importers.context import (
    Context,
    Found,
    derive_from_intervals,
    is_loopback,
    mark_loopback,
)
from zcdb.importers.iperf3_json import TOOL, take_api, take_jitter
from zcdb.importers.model import Draft, Refusal
from zcdb.importers.text import Line, span

_N = q.UNSIGNED
_CONNECT = re.compile(r"Connecting to host (\S+), port ([0-9]{1,5})")
_ACCEPT = re.compile(r"Accepted connection from (\S+), port ([0-9]{1,5})")
_CONNECTION = re.compile(r"\[\s*([0-9]{1,6})\] local (\S+) port [0-9]{1,5} connected to (\S+) port")
_ROW = re.compile(
    rf"\[\s*([0-9]{{1,6}}|SUM)\](?:\[([TR]X-[CS])\])?\s+({_N})\s*-\s*({_N})\s+sec\s+({_N})"
    rf" ([KMGT]?)Bytes\s+({_N}) ([KMGT]?)(bits|Bytes)/sec(.*)$"
)
_DATAGRAMS = re.compile(rf"({_N}) ms\s+([0-9]{{1,20}})/([0-9]{{1,20}})\s*\(([^)]{{0,20}})\)")
_RETRIES = re.compile(rf"^\s+([0-9]{{1,12}})(?:\s+{_N} [KMGT]?Bytes)?\s*(?:sender)?\s*$")
_CPU = re.compile(
    rf"CPU Utilization: local/(sender|receiver) ({_N})% \(({_N})%u/({_N})%s\),"
    rf" remote/(?:sender|receiver) ({_N})%"
)
_START = re.compile(
    r"Starting Test: protocol: (\w+), ([0-9]{1,6}) streams, ([0-9]{1,12}) byte blocks,"
    r" omitting ([0-9]{1,6}) seconds"
)
_IPERF2 = re.compile(r"Client connecting to|Server listening on (?:TCP|UDP)| connected with ")
_MSS = re.compile(r"TCP MSS: ([0-9]{1,6}) ")
_VERSION = re.compile(r"^\s*iperf (3\.\S{1,20})")
_FAILURE = re.compile(r"^\s*iperf3: (.{1,300})$")


@dataclass(frozen=True, slots=True)
class _Row:
    stream: str
    role: str
    start_s: float
    end_s: float
    size_bytes: float
    rate_bps: float
    rest: str
    is_summary: bool
    printed: tuple[str, str, str]

    @property
    def side(self) -> str:
        """Which end a summary row is of: "sender", "receiver" or "" (old UDP)."""
        words = self.rest.split()
        return words[-1] if words and words[-1] in ("sender", "receiver") else ""

    @property
    def is_omitted(self) -> bool:
        return "(omitted)" in self.rest


@dataclass(slots=True)
class _Session:
    first: int
    last: int
    is_server: bool = False
    is_reverse: bool = False
    in_summary: bool = False
    hosts: list[str] = field(default_factory=list)
    rows: list[_Row] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    version: str | None = None
    cpu: re.Match[str] | None = None
    start: re.Match[str] | None = None
    mss: int | None = None
    congestion: str | None = None
    is_udp: bool = False
    is_finished: bool = False
    is_sender_unknown: bool = False


def is_hinted(text: str) -> bool:
    """Tell whether iperf 3's text may stand here."""
    return "iperf3: " in text or (
        "/sec" in text
        and (
            " connected to " in text
            or (" sec " in text and re.search(r"(sender|receiver)\s*$", text, re.M) is not None)
        )
    )


def parse(lines: Sequence[Line], context: Context) -> Found:
    """Return the results and refusals of iperf 3's text in `lines`."""
    found: Found = []
    session: _Session | None = None
    after = 0
    for i, line in enumerate(lines):
        text = line.text
        if session is not None and (_begins_anew(text, session) or _IPERF2.search(text)):
            found += _results(lines, session, after, context)
            after, session = session.last + 1, None
        if session is None:
            if not _belongs(text):
                continue
            session = _Session(first=i, last=i)
        if _read_line(text, session):
            session.last = i
    if session is not None:
        found += _results(lines, session, after, context)
    return found


def _belongs(text: str) -> bool:
    """Tell whether a line can only be iperf 3's."""
    if any(p.search(text) for p in (_CONNECT, _ACCEPT, _CONNECTION, _FAILURE, _VERSION)):
        return True
    row = _ROW.search(text)
    return row is not None and (
        row[2] is not None or row[10].rstrip().endswith(("sender", "receiver", "(omitted)"))
    )


def _begins_anew(text: str, session: _Session) -> bool:
    """Tell whether the run is over and something else begins."""
    has_rows = bool(session.rows)
    if _CONNECT.search(text) or _ACCEPT.search(text) or "Server listening on" in text:
        return has_rows
    if session.in_summary and _CONNECTION.search(text):
        return True
    return (
        session.is_finished
        and (_FAILURE.match(text) is None or "interrupt" in text)
        and _belongs(text)
    )


def _read_line(text: str, session: _Session) -> bool:
    """Take what a line says; tell whether it is iperf 3's."""
    if match := _ROW.search(text):
        return _read_row(match, session)
    if match := _CONNECTION.search(text):
        session.hosts += [match[2], match[3]]
        return True
    if _ACCEPT.search(text):
        session.is_server = True
        return True
    if match := _CPU.search(text):
        session.cpu = match
        return True
    if match := _START.search(text):
        session.start = match
        session.is_udp = session.is_udp or match[1] == "UDP"
        return True
    if match := _MSS.search(text):
        session.mss = int(match[1]) or None
        return True
    if match := _VERSION.match(text):
        session.version = match[1]
        return not session.rows
    if match := _FAILURE.match(text):
        session.failures.append(match[1].strip())
        return True
    return _read_words(text, session)


def _read_words(text: str, session: _Session) -> bool:
    if text.lstrip().startswith("- - - - -"):
        return True
    if "[ ID]" in text:
        session.in_summary = session.in_summary or bool(session.rows)
        session.is_udp = session.is_udp or "Jitter" in text or "Datagrams" in text
        return True
    if "sender statistics not available" in text:
        session.is_sender_unknown = True
        return True
    if text.lstrip().startswith("Reverse mode"):
        session.is_reverse = True
        return True
    if match := re.match(r"^\s*snd_tcp_congestion (\w{1,20})", text):
        session.congestion = match[1]
        return True
    if text.strip() == "iperf Done.":
        session.is_finished = True
        return True
    return text.lstrip().startswith(("Connecting to host", "rcv_tcp_congestion"))


def _read_row(match: re.Match[str], session: _Session) -> bool:
    start, end = q.number(match[3]), q.number(match[4])
    size = q.scaled(match[5], q.size_factor(match[6]))
    rate = q.scaled(match[7], q.rate_factor(match[8], match[9]))
    if start is None or end is None or size is None or rate is None:
        return False
    words = match[10].split()
    is_summary = bool(words) and words[-1] in ("sender", "receiver")
    is_old = session.in_summary and start == 0 and not is_summary and "(omitted)" not in words
    session.rows.append(
        _Row(
            match[1],
            match[2] or "",
            start,
            end,
            size,
            rate,
            match[10],
            is_summary or is_old,
            (match[5], match[7], match[4]),
        )
    )
    return True


def _results(lines: Sequence[Line], session: _Session, after: int, context: Context) -> Found:
    place = span(lines, session.first, session.last)
    real = [f for f in session.failures if not f.endswith("no error")]
    if not session.rows:
        if real:
            text = real[-1].removeprefix("error - ")
            return [Refusal(TOOL, f"iperf3 failed: {text}", place)]
        if session.hosts:
            return [Refusal(TOOL, "iperf3 connected but printed no row", place)]
        return []
    command = command_above(lines, session.first, after, "iperf3", context.command)
    roles = list(dict.fromkeys(row.role for row in session.rows))
    found: Found = []
    for role in roles:
        rows = [row for row in session.rows if row.role == role]
        draft = _draft(session, role, rows, len([r for r in roles if r]) > 1)
        take_api(draft, command)
        if real:
            draft.flag("incomplete", real[-1][:200])
        _fill(draft, session, rows, is_complete=not real)
        found.append(draft.done(place))
    return found


def _is_local_sender(session: _Session, role: str) -> bool:
    if role:
        return role.startswith("TX")
    if session.cpu is not None:
        return session.cpu[1] == "sender"
    if session.is_server:
        has_retries = any(_RETRIES.match(row.rest) for row in session.rows if not row.is_summary)
        return has_retries and not session.is_udp
    return not session.is_reverse


def _draft(session: _Session, role: str, rows: Sequence[_Row], is_bidirectional: bool) -> Draft:
    draft = Draft(TOOL, "text", "UDP" if session.is_udp else "TCP", version=session.version)
    draft.factors["protocol"] = draft.test.lower()
    draft.factors["bidirectional"] = is_bidirectional
    draft.factors["streams"] = len({row.stream for row in rows if row.stream != "SUM"}) or 1
    draft.detail("direction", "send" if _is_local_sender(session, role) else "recv")
    if session.is_server:
        draft.detail("role", "server")
    if session.start is not None:
        draft.factors["message_size"] = int(session.start[3])
        draft.detail("omit_s", int(session.start[4]))
    elif any(row.is_omitted for row in rows):
        omitted = [row.end_s for row in rows if row.is_omitted]
        draft.detail("omit_s", max(omitted))
    if session.mss:
        draft.factors["mss"] = session.mss
    if session.congestion:
        draft.factors["congestion_control"] = session.congestion
    if session.hosts:
        draft.factors["address_family"] = "inet6" if ":" in session.hosts[0] else "inet"
    if is_loopback(session.hosts):
        mark_loopback(draft)
    return draft


def _fill(draft: Draft, session: _Session, rows: Sequence[_Row], is_complete: bool) -> None:
    summary = [row for row in rows if row.is_summary]
    intervals = [row for row in rows if not row.is_summary and not row.is_omitted]
    per_interval = [row for row in intervals if row.stream != "SUM"]
    streams = len({row.stream for row in per_interval}) or 1
    draft.count("intervals", len(per_interval) // streams)
    if not summary:
        _fill_cut(draft, intervals, streams)
        return
    sent = _side(draft, summary, "sender")
    received = _side(draft, summary, "receiver")
    old = _side(draft, summary, "")
    if draft.test == "UDP":
        _fill_udp(draft, sent or old, received, old)
    else:
        _fill_tcp(draft, session, sent or old, received, summary)
    row = sent or received or old
    if row is not None:
        if row.start_s:
            draft.derive_detail("elapsed_s", "difference", row.start_s, row.end_s)
        else:
            draft.detail("elapsed_s", row.end_s)
    if received is not None:
        draft.detail("receiver_elapsed_s", received.end_s)
    _take_cpu(draft, session, is_complete)
    for checked in (sent, received):
        if checked is not None:
            _check_rate(draft, checked)


def _fill_cut(draft: Draft, intervals: Sequence[_Row], streams: int) -> None:
    """Take what the intervals of a run without a summary say."""
    draft.flag("incomplete", "the summary rows are missing")
    rows = [row for row in intervals if (row.stream == "SUM") == (streams > 1)]
    is_sending = draft.details["direction"] == "send"
    if is_sending:
        draft.measure(
            "throughput", None, "the run has no summary: nothing is known of the receiver"
        )
    metric = "sent_throughput" if is_sending else "throughput"
    derive_from_intervals(draft, metric, [(r.start_s, r.end_s, r.size_bytes) for r in rows])
    draft.detail("interval_bps", [row.rate_bps for row in rows])


def _side(draft: Draft, summary: Sequence[_Row], side: str) -> _Row | None:
    """Return the row that speaks for all streams of one end."""
    rows = [row for row in summary if row.side == side]
    sums = [row for row in rows if row.stream == "SUM"]
    single = [row for row in rows if row.stream != "SUM"]
    if not sums:
        if len(single) > 1:
            draft.flag("incomplete", f"no [SUM] row for {len(single)} {side} rows")
        return single[0] if len(single) == 1 else None
    added = sum(row.size_bytes for row in single)
    if single and added and not q.rates_agree(added, sums[0].size_bytes, 0.03):
        draft.flag("sum-row-wrong", f"[SUM] says {sums[0].size_bytes:.4g} bytes, rows {added:.4g}")
        return None
    return sums[0]


def _fill_tcp(
    draft: Draft,
    session: _Session,
    sent: _Row | None,
    received: _Row | None,
    summary: Sequence[_Row],
) -> None:
    reason = "that end was not heard of"
    told = sent is not None and sent.size_bytes > 0
    heard = received is not None and received.size_bytes > 0
    draft.measure("throughput", received.rate_bps if received and heard else None, reason)
    draft.measure("sent_throughput", sent.rate_bps if sent and told else None, reason)
    if sent and received and told and received.size_bytes > 1.005 * sent.size_bytes:
        draft.flag("received-exceeds-sent", "omitted seconds")
    retries = _RETRIES.match(sent.rest) if sent and told else None
    draft.measure("retransmits", float(retries[1]) if retries else None, "no Retr column")
    singles = [row for row in summary if row.side == "receiver" and row.stream != "SUM"]
    if len(singles) > 1:
        draft.detail("per_stream_bps", [row.rate_bps for row in singles])


def _fill_udp(draft: Draft, sent: _Row | None, received: _Row | None, old: _Row | None) -> None:
    draft.measure("sent_throughput", sent.rate_bps if sent else None, "the sender was not heard of")
    row = received or old
    match = _DATAGRAMS.search(row.rest) if row else None
    arrived = received.rate_bps if received else None
    if match is None:
        draft.measure("throughput", arrived, "only the sent rate is in the text")
        return
    lost, total = int(match[2]), int(match[3])
    draft.detail("lost_packets", lost)
    draft.detail("datagrams", total)
    if lost > total:
        draft.measure("throughput", None, "more datagrams lost than sent")
        draft.measure("loss", None, "more datagrams lost than sent")
        draft.flag("loss-impossible", f"{lost} of {total} datagrams")
        return
    if arrived is None and lost == 0 and total and old is not None:
        arrived = old.rate_bps
    draft.measure("throughput", arrived, "only the sent rate is in the text")
    if total:
        draft.derive("loss", "share", float(lost), float(total))
    take_jitter(draft, q.number(match[1]))


def _take_cpu(draft: Draft, session: _Session, is_complete: bool) -> None:
    if session.cpu is None:
        return
    local, remote = q.number(session.cpu[2]), q.number(session.cpu[5])
    if session.is_sender_unknown or (not is_complete and remote == 0):
        remote = None
    draft.detail("cpu_local_percent_of_process", local)
    draft.detail("cpu_local_user_percent", q.number(session.cpu[3]))
    draft.detail("cpu_local_system_percent", q.number(session.cpu[4]))
    draft.detail("cpu_remote_percent_of_process", remote)
    if draft.factors["bidirectional"]:
        return
    ends = ("sender", "receiver") if session.cpu[1] == "sender" else ("receiver", "sender")
    for percent, end in ((local, ends[0]), (remote, ends[1])):
        value = percent / 100 if percent is not None else None
        draft.measure(f"utilisation_{end}", value, "that end was not heard of", method="rusage")
    draft.flag("process-cpu")


def _check_rate(draft: Draft, row: _Row) -> None:
    seconds = row.end_s - row.start_s
    if seconds <= 0 or not row.rate_bps or not row.size_bytes:
        return
    slack = (
        q.relative_half_unit(row.printed[0])
        + q.relative_half_unit(row.printed[1])
        + q.half_unit(row.printed[2]) / seconds
        + 0.002
    )
    if not q.rates_agree(row.size_bytes * 8 / seconds, row.rate_bps, slack):
        draft.flag("rate-contradicts", f"[{row.stream}] {row.printed[0]} in {seconds:g} s")
