"""iperf 2: its text, with and without -e, and its CSV (-y C).

The client's rate is what it wrote, the server's what arrived; a UDP client
prints the server's report too.  [SUM] rows are checked against their streams,
because iperf 2 counts the first interval twice in some versions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from zcdb.importers import quantities as q
from zcdb.importers.commands import command_above
from zcdb.importers.context import (
    Context,
    Found,
    derive_from_intervals,
    is_loopback,
    mark_loopback,
)
from zcdb.importers.iperf2_rows import (
    IPERF3,
    ROW,
    UDP_REST,
    WRITES,
    Row,
    Session,
    begins_run,
    next_session,
    read_line,
    stream_groups,
    total_row,
)
from zcdb.importers.model import Draft, Refusal
from zcdb.importers.text import Line, span

TOOL = "iperf2"

_N = q.UNSIGNED
_LATENCY = re.compile(rf"^\s+({_N})\s*/\s*({_N})\s*/\s*({_N})\s*/\s*({_N}) ms")
_PPS = re.compile(rf"({q.COUNT}) pps")
_RETRY = re.compile(
    rf"^\s+[0-9]{{1,20}}/[0-9]{{1,20}}\s+({q.COUNT})(?:\s+(-?[0-9]{{1,12}})K(?:\([^)]{{0,20}}\))?/({q.COUNT}))?"
)


def parse(lines: Sequence[Line], context: Context) -> Found:
    """Return the results and refusals of iperf 2's text in `lines`."""
    found: Found = []
    session: Session | None = None
    after = 0
    report_of: str | None = None
    is_other = False
    server: Session | None = None
    for i, line in enumerate(lines):
        text = line.text
        if IPERF3.search(text):
            if session is not None:
                found += _results(lines, session, after, context)
                after, session = i, None
            is_other = True
        begins = begins_run(text, session)
        is_other = is_other and not begins
        if is_other:
            continue
        if session is not None and session.is_server and not session.is_client:
            server = session
        if begins and session is not None and session.rows:
            found += _results(lines, session, after, context)
            after, session = session.last + 1, None
        if session is None:
            if not begins and ROW.search(text) is None:
                continue
            session = next_session(i, text, server)
        if read_line(text, i, session, report_of):
            session.last = i
        match = re.search(r"\[\s*(\*?[0-9]{1,10})\] Server Report:", text)
        if match:
            report_of = match[1]
            session.last = i
        elif ROW.search(text):
            report_of = None
    if session is not None:
        found += _results(lines, session, after, context)
    return found


def _results(lines: Sequence[Line], session: Session, after: int, context: Context) -> Found:
    place = span(lines, session.first, session.last)
    groups = stream_groups(session)
    if not groups:
        only_banner = not session.rows and not session.connections
        if only_banner and session.is_server and not session.is_client:
            return []
        if not (session.is_client or session.connections):
            return []
        return [Refusal(TOOL, "iperf 2 started but printed no result row", place)]
    command = command_above(lines, session.first, after, "iperf", context.command)
    found: Found = []
    for (direction, is_known), streams in groups.items():
        draft = _draft(session, direction, streams)
        draft.factors["bidirectional"] = len(groups) > 1
        if command:
            draft.detail("command", command.text)
        _fill(draft, session, direction, streams, is_sum_ours=len(groups) == 1)
        if not is_known:
            draft.flag("end-unknown", "neither port nor banner tells the end")
        found.append(draft.done(place))
    return found


def _draft(session: Session, direction: str, streams: list[str]) -> Draft:
    is_udp = session.protocol == "UDP" or (
        session.protocol is None
        and any(UDP_REST.match(row.rest) for row in session.rows + session.reports)
    )
    draft = Draft(TOOL, "text", "UDP" if is_udp else "TCP")
    draft.factors["protocol"] = draft.test.lower()
    draft.factors["streams"] = len(streams)
    draft.detail("direction", direction)
    if session.is_server != session.is_client:
        draft.detail("role", "server" if session.is_server else "client")
    for name, value in session.details.items():
        draft.detail(name, value)
    size = session.details.get("write_size_bytes") or session.details.get("datagram_size_bytes")
    if size and direction == "send":
        draft.factors["message_size"] = int(size)
    hosts = [host for connection in session.connections.values() for host in connection[::2][:2]]
    if is_loopback(hosts):
        mark_loopback(draft)
    return draft


def _fill(
    draft: Draft, session: Session, direction: str, streams: list[str], is_sum_ours: bool
) -> None:
    totals = [t for s in streams if (t := total_row(session.rows, s)) is not None]
    own = [row for row in session.rows if row.stream in streams]
    draft.count(
        "intervals",
        max(0, max(sum(row.stream == s for row in own) for s in streams) - (1 if totals else 0)),
    )
    if len(totals) < len(streams):
        _fill_cut(draft, own, direction)
        return
    longest = max(totals, key=lambda row: row.end_s - row.start_s)
    if longest.start_s:
        draft.derive_detail("elapsed_s", "difference", longest.start_s, longest.end_s)
    else:
        draft.detail("elapsed_s", longest.end_s)
    sum_row = total_row(session.rows, "SUM") if is_sum_ours else None
    if sum_row is not None and not _is_sound_sum(draft, sum_row, totals):
        sum_row = None
    is_udp = draft.test == "UDP"
    metric = "sent_throughput" if is_udp and direction == "send" else "throughput"
    _take_rate(draft, metric, totals, sum_row)
    if direction == "send" and not is_udp:
        draft.flag("measured-at-sender", "iperf 2 client: what it wrote")
    for row in totals:
        _check_rate(draft, row)
    if len(totals) > 1:
        draft.detail("per_stream_bps", [row.rate_bps for row in totals])
    _take_writes(draft, totals, sum_row)
    if is_udp and direction == "send":
        _take_reports(draft, session, streams)
    elif is_udp:
        _take_loss(draft, totals)
    _add(draft, "out_of_order", session.out_of_order)
    _check_rising(draft, own, totals)


def _take_rate(draft: Draft, metric: str, totals: Sequence[Row], sum_row: Row | None) -> None:
    if len(totals) == 1:
        draft.measure(metric, totals[0].rate_bps)
    elif sum_row is not None:
        draft.measure(metric, sum_row.rate_bps)
    else:
        draft.derive(metric, "sum", *(row.rate_bps for row in totals))


def _is_sound_sum(draft: Draft, sum_row: Row, totals: Sequence[Row]) -> bool:
    """Tell whether the [SUM] row's bytes are those of its rows, within rounding."""
    added = sum(row.size_bytes for row in totals)
    slack = sum(row.size_slack_bytes for row in totals) + sum_row.size_slack_bytes
    if abs(added - sum_row.size_bytes) <= slack + 0.005 * added:
        return True
    draft.flag(
        "sum-row-wrong",
        f"[SUM] says {sum_row.size_bytes:.6g} bytes, its streams add up to {added:.6g}",
    )
    return False


def _check_rate(draft: Draft, row: Row) -> None:
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


def _take_writes(draft: Draft, totals: Sequence[Row], sum_row: Row | None) -> None:
    rows = [sum_row] if sum_row is not None and WRITES.match(sum_row.rest) else list(totals)
    writes = [m for row in rows if (m := WRITES.match(row.rest))]
    if not writes or len(writes) < len(rows):
        return
    _add(draft, "writes", [int(m[1]) for m in writes])
    _add(draft, "write_errors", [int(m[2]) for m in writes])
    retries = [m for row in rows if (m := _RETRY.match(row.rest)) and "pps" not in row.rest]
    if len(retries) == len(rows):
        counts = [float(m[1]) for m in retries]
        if len(counts) == 1:
            draft.measure("retransmits", counts[0])
        else:
            draft.derive("retransmits", "sum", *counts)
        if len(retries) == 1 and retries[0][3] is not None:
            draft.measure("tcp_rtt", q.micro(retries[0][3]))
            window = int(retries[0][2])
            draft.detail("cwnd_bytes", window * 1024 if window >= 0 else None)
    pps = [m for row in rows if (m := _PPS.search(row.rest))]
    if len(pps) == 1:
        draft.measure("packet_rate", float(pps[0][1]))


def _add(draft: Draft, name: str, numbers: Sequence[int]) -> None:
    """Keep one printed number, or the sum of several."""
    if len(numbers) == 1:
        draft.detail(name, numbers[0])
    elif numbers:
        draft.derive_detail(name, "sum", *(float(n) for n in numbers))


def _take_reports(draft: Draft, session: Session, streams: list[str]) -> None:
    reports = [row for row in session.reports if row.stream in streams]
    sent = [session.sent[s] for s in streams if s in session.sent]
    if len(sent) == len(streams):
        _add(draft, "datagrams_sent", sent)
    size = session.details.get("datagram_size_bytes")
    bytes_sent = sum(t.size_bytes for s in streams if (t := total_row(session.rows, s)) is not None)
    if size and bytes_sent and len(sent) == len(streams):
        printed = sum(sent)
        if not q.rates_agree(printed * size, bytes_sent, 0.05):
            draft.flag("datagrams-contradict", f"{printed} datagrams of {size} bytes were printed")
    if len(reports) < len(streams):
        reason = "the server's report did not arrive: nothing is known of what did"
        if not session.is_no_ack:
            reason = "there is no report of the server"
        draft.measure("throughput", None, reason)
        return
    sum_report = None
    if len(reports) == 1:
        draft.measure("throughput", reports[0].rate_bps)
    else:
        _take_rate(draft, "throughput", reports, sum_report)
    _take_loss(draft, reports)


def _take_loss(draft: Draft, rows: Sequence[Row]) -> None:
    matches = [m for row in rows if (m := UDP_REST.match(row.rest))]
    if len(matches) < len(rows) or not matches:
        return
    lost, total = [int(m[2]) for m in matches], [int(m[3]) for m in matches]
    _add(draft, "lost_packets", lost)
    _add(draft, "datagrams", total)
    jitters = [q.milli(m[1]) for m in matches]
    if len(matches) == 1:
        take_loss(draft, lost[0], total[0])
        draft.measure("jitter", jitters[0])
        if match := _LATENCY.match(matches[0][5]):
            draft.factors["latency_kind"] = "one_way"
            for name, text in zip(("mean", "min", "max", "stddev"), match.groups(), strict=True):
                draft.measure(f"latency_{name}", q.milli(text))
        if match := _PPS.search(matches[0][5]):
            draft.measure("packet_rate", float(match[1]))
    else:
        draft.detail("per_stream_jitter_s", [j for j in jitters if j is not None])


def take_loss(draft: Draft, lost: int, total: int) -> None:
    """Take the share of datagrams that was lost; more than all is impossible."""
    if lost > total or total == 0:
        draft.measure("loss", None, f"{lost} of {total} datagrams lost")
        if lost > total:
            draft.flag("loss-impossible", f"{lost} of {total} datagrams lost")
        return
    draft.derive("loss", "share", float(lost), float(total))


def _fill_cut(draft: Draft, rows: Sequence[Row], direction: str) -> None:
    """Take what the intervals of a run without a total say."""
    draft.flag("incomplete", "no total row for every stream")
    is_sent = direction == "send" and draft.test == "UDP"
    if is_sent:
        draft.measure("throughput", None, "the run has no total row")
    elif direction == "send":
        draft.flag("measured-at-sender", "iperf 2 client: what it wrote")
    metric = "sent_throughput" if is_sent else "throughput"
    if len({row.stream for row in rows}) == 1:
        intervals = [(row.start_s, row.end_s, row.size_bytes) for row in rows]
        derive_from_intervals(draft, metric, intervals)
    else:
        draft.measure(metric, None, "several streams without a total row")
    draft.detail("interval_bps", [row.rate_bps for row in rows])


def _check_rising(draft: Draft, rows: Sequence[Row], totals: Sequence[Row]) -> None:
    if len(totals) != 1:
        return
    rates = [row.rate_bps for row in rows if row is not totals[0]]
    if len(rates) >= 4 and rates[0] < 0.2 * max(rates) and max(rates) > 1.5 * totals[0].rate_bps:
        draft.flag("rate-rising", f"from {rates[0]:.3g} to {max(rates):.3g} bit/s")


def is_hinted(text: str) -> bool:
    """Tell whether iperf 2's text may stand here."""
    return "/sec" in text and (
        " connected with " in text
        or "Client connecting" in text
        or "Server listening on TCP" in text
        or "Server listening on UDP" in text
        or _is_bare(text)
    )


def _is_bare(text: str) -> bool:
    """Tell whether there are rows without a banner that are not iperf 3's."""
    return (
        "connected to" not in text
        and re.search(r"\[\s*(?:[0-9]{1,10}|SUM)\]\s*0\.0+- ?[0-9.]{1,12} sec", text) is not None
    )
