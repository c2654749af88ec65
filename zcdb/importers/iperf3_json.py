"""iperf 3's JSON (-J) and JSON stream (--json-stream).

`sum_received` is the result and `sum_sent` what the sender wrote.  A side
that was never heard of prints 0, which is not a measurement.  CPU figures are
of the iperf 3 processes alone.  The UDP `sum` of older versions is the sent
rate.  Which call moved the bytes is in no field; only the command line tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from zcdb.ids import Json
from zcdb.importers import quantities as q
from zcdb.importers.commands import Command, parse_command, printed_command
from zcdb.importers.context import Context, Found, Source, is_loopback, mark_loopback
from zcdb.importers.documents import Document, has_duplicate_keys
from zcdb.importers.model import Draft, Refusal, Span

TOOL = "iperf3"
JITTER_LIMIT_S = 10.0
"""A longer jitter is an uninitialised start value."""

Tree = Mapping[str, Json]


def matches(value: Json) -> bool:
    """Tell whether a document is iperf 3's, alone, in a list, or one event of a stream."""
    if isinstance(value, list):
        return bool(value) and any(_is_run(item) for item in value)
    return _is_run(value) or _is_event(value)


def _is_run(value: Json) -> bool:
    if not isinstance(value, dict):
        return False
    start = value.get("start")
    if "intervals" in value and ("start" in value or "end" in value):
        return True
    return isinstance(start, dict) and ("test_start" in start or "connected" in start)


def _is_event(value: Json) -> bool:
    return (
        isinstance(value, dict)
        and value.get("event")
        in ("start", "interval", "end", "error", "server_output_json", "server_output_text")
        and "data" in value
    )


@dataclass(frozen=True, slots=True)
class _Run:
    tree: Tree
    format: str
    start: int
    end: int
    is_cut: bool = False
    is_mended: bool = False


def parse(documents: Sequence[Document], source: Source, context: Context) -> Found:
    """Return the results and refusals of iperf 3 documents that follow each other."""
    found: Found = []
    ends: dict[str, Json] = {}
    command = parse_command(context.command, "iperf3?") if context.command else None
    after = 0
    for run in _runs(documents):
        place = source.span(run.start, run.end)
        before = source.text[max(after, run.start - 4000) : run.start]
        own = command or _command_in(before)
        after = run.end
        cookie = _text(run.tree, "start", "cookie")
        end = run.tree.get("end")
        if cookie and cookie in ends and repr(ends[cookie]) == repr(end):
            reason = f"the same run again (cookie {cookie[:40]}): recorded once"
            found.append(Refusal(TOOL, reason, place))
            continue
        if cookie:
            ends[cookie] = end
        found += _read_run(run, place, source.text[run.start : run.end], own)
    return found


def _command_in(text: str) -> Command | None:
    for line in reversed(text.splitlines()):
        command = printed_command(line, "iperf3")
        if command is not None and command.globals:
            return command
    return None


def _runs(documents: Sequence[Document]) -> Iterator[_Run]:
    """Yield the runs; events of a stream are put together."""
    events: list[Document] = []
    for document in documents:
        if _is_event(document.value):
            event = document.value["event"]  # type: ignore[index, call-overload]
            if event == "start" and events:
                yield _of_events(events)
                events = []
            events.append(document)
            continue
        if events:
            yield _of_events(events)
            events = []
        items = document.value if isinstance(document.value, list) else [document.value]
        for item in items:
            if isinstance(item, dict) and _is_run(item):
                yield _Run(
                    item, "json", document.start, document.end, document.is_cut, document.is_mended
                )
    if events:
        yield _of_events(events)


def _of_events(events: Sequence[Document]) -> _Run:
    tree: dict[str, Json] = {"intervals": []}
    intervals: list[Json] = []
    for document in events:
        event = document.value
        assert isinstance(event, dict)  # noqa: S101 - _is_event has seen it
        if event["event"] == "interval":
            intervals.append(event["data"])
        else:
            tree[str(event["event"])] = event["data"]
    tree["intervals"] = intervals
    is_cut = any(document.is_cut for document in events) or "end" not in tree
    is_mended = any(document.is_mended for document in events)
    return _Run(tree, "json-stream", events[0].start, events[-1].end, is_cut, is_mended)


def _field(tree: Json, *path: str) -> Json:
    for key in path:
        if not isinstance(tree, dict):
            return None
        tree = tree.get(key)
    return tree


def _number(tree: Json, name: str, *path: str) -> float | int | None:
    """Return a number of at least 0; None for what is missing, negative, nan or absurd."""
    value = tree.get(name) if type(tree) is dict else None
    if path:
        value = _field(value, *path)
    # Called for every interval: the type is compared first, which leaves out true and false.
    if type(value) is float or type(value) is int:
        return value if 0 <= value < q.HUGEST else None
    return None


def _text(tree: Json, *path: str) -> str | None:
    value = _field(tree, *path)
    return value if isinstance(value, str) and value else None


def _read_run(run: _Run, place: Span, text: str, command: Command | None) -> Found:
    error = _text(run.tree, "error")
    if error is not None:
        error = error.removeprefix("error - ").strip()
    sides = [side for side in ("", "_bidir_reverse") if _has_side(run.tree, side)]
    if not sides and not _good_intervals(run.tree):
        why = (
            f"iperf3 failed: {error}; no intervals were measured"
            if error
            else ("iperf3 JSON without an interval or an end: nothing was measured")
        )
        return [Refusal(TOOL, why, place)]
    found: Found = []
    for side in sides or [""]:
        draft = _draft(run, side, len(sides) > 1, command)
        if error is not None:
            draft.flag("incomplete", error[:200])
        elif run.is_cut:
            draft.flag("incomplete", "the JSON is cut off")
        if run.is_mended:
            draft.flag("not-a-number")
        if _start_has_duplicates(text):
            draft.flag("duplicate-keys")
        if sides:
            _fill(draft, run.tree, side)
        else:
            _fill_intervals(draft, run.tree)
        found.append(draft.done(place))
    return found


def _start_has_duplicates(text: str) -> bool:
    """Look at the small first part only: reading a whole file twice would halve the speed."""
    begin, end = text.find('"start"'), text.find('"intervals"')
    if begin < 0 or end < 0 or end - begin > 200_000:
        return False
    head = text[begin + len('"start"') : end].lstrip().removeprefix(":").lstrip()
    return has_duplicate_keys(head)


def _has_side(tree: Tree, side: str) -> bool:
    return any(
        isinstance(_field(tree, "end", name + side), dict)
        for name in ("sum_sent", "sum_received", "sum")
    )


def _is_server(tree: Tree) -> bool:
    return _field(tree, "start", "accepted_connection") is not None


def _is_local_sender(tree: Tree, side: str) -> bool:
    reverse = bool(_field(tree, "start", "test_start", "reverse"))
    return (_is_server(tree) == reverse) != (side != "")


def _draft(run: _Run, side: str, is_bidirectional: bool, command: Command | None) -> Draft:
    tree = run.tree
    test = _field(tree, "start", "test_start")
    protocol = (_text(test, "protocol") or "").upper()
    if protocol not in ("TCP", "UDP", "SCTP"):
        protocol = "UDP" if _field(tree, "end", "sum", "jitter_ms") is not None else "TCP"
    draft = Draft(TOOL, run.format, protocol)
    version = _text(tree, "start", "version")
    draft.version = version.removeprefix("iperf ").strip() if version else None
    draft.factors["protocol"] = protocol.lower()
    draft.factors["bidirectional"] = is_bidirectional
    streams = q.json_count(_field(test, "num_streams"))
    if streams:
        draft.factors["streams"] = streams
    _take_start(draft, tree)
    draft.detail("direction", "send" if _is_local_sender(tree, side) else "recv")
    if _is_server(tree):
        draft.detail("role", "server")
    take_api(draft, command)
    return draft


def take_api(draft: Draft, command: Command | None) -> None:
    """Take from the command line what iperf 3 does not print: -Z, --skip-rx-copy."""
    if command is None:
        draft.flag("api-unknown", "-Z leaves no trace in the output")
        return
    draft.detail("command", command.text)
    is_zero_copy = command.has("-Z") or any(
        word == "--zerocopy" or word.startswith("--zerocopy=") for word in command.globals
    )
    draft.factors["api"] = "sendfile" if is_zero_copy else "write"
    if command.has("--skip-rx-copy"):
        draft.factors["rx_api"] = "recv_trunc"


def _take_start(draft: Draft, tree: Tree) -> None:
    start, test = _field(tree, "start"), _field(tree, "start", "test_start")
    size = q.json_count(_field(test, "blksize"))
    if size:
        draft.factors["message_size"] = size
    mss = q.json_count(_field(start, "tcp_mss")) or q.json_count(_field(start, "tcp_mss_default"))
    if mss:
        draft.factors["mss"] = mss
    target = _number(test, "target_bitrate") or _number(start, "target_bitrate")
    if target:
        draft.factors["target_rate"] = int(target)
    pacing = q.json_count(_field(test, "fqrate"))
    if pacing:
        draft.factors["pacing_rate"] = pacing
    congestion = _text(tree, "end", "sender_tcp_congestion")
    if congestion:
        draft.factors["congestion_control"] = congestion
    draft.detail("omit_s", _number(test, "omit"))
    for name in ("sndbuf_actual", "rcvbuf_actual"):
        draft.detail(f"{name}_bytes", _number(start, name))
    draft.detail("bytes_requested", _number(test, "bytes") or None)
    draft.detail("started_at_epoch_s", _number(start, "timestamp", "timesecs"))
    system = _text(start, "system_info")
    draft.detail("system_info", system.strip() if system else None)
    connected = _field(start, "connected")
    hosts: list[str | None] = []
    for item in connected if isinstance(connected, list) else []:
        hosts += [_text(item, "local_host"), _text(item, "remote_host")]
    if hosts and all(hosts) and ":" in str(hosts[0]):
        draft.factors["address_family"] = "inet6"
    elif hosts:
        draft.factors["address_family"] = "inet"
    if is_loopback(hosts):
        mark_loopback(draft)


def _fill(draft: Draft, tree: Tree, side: str) -> None:
    end = _field(tree, "end")
    sent, received = _field(end, "sum_sent" + side), _field(end, "sum_received" + side)
    rows = _side_streams(tree, side)
    if draft.test == "UDP":
        _fill_udp(draft, tree, sent, received, _field(end, "sum" + side), side)
    else:
        _fill_tcp(draft, tree, sent, received, rows, side)
    elapsed = _number(sent, "seconds") or _number(end, "sum" + side, "seconds")
    draft.detail("elapsed_s", elapsed or _number(received, "seconds"))
    draft.detail("receiver_elapsed_s", _number(received, "end") or None)
    _take_intervals(draft, tree, side)
    _take_cpu(draft, tree, side, heard=bool(_number(received, "bytes")) or draft.test == "UDP")
    _check(draft, sent, "sent")
    _check(draft, received, "received")


def _side_streams(tree: Tree, side: str) -> list[Json]:
    """Return the entries of end.streams that belong to one direction."""
    streams = _field(tree, "end", "streams")
    if not isinstance(streams, list):
        return []
    wanted = side == ""
    if not _has_side(tree, "_bidir_reverse"):
        return streams
    return [
        item
        for item in streams
        if _field(item, "sender", "sender") is (wanted != _is_server(tree))
        or _field(item, "udp", "sender") is (wanted != _is_server(tree))
    ]


def _fill_tcp(
    draft: Draft, tree: Tree, sent: Json, received: Json, rows: Sequence[Json], side: str
) -> None:
    sent_bytes, received_bytes = _number(sent, "bytes"), _number(received, "bytes")
    reason = "no results were exchanged: the printed 0 is not a measurement"
    heard = received_bytes is None or received_bytes > 0
    told = sent_bytes is None or sent_bytes > 0
    if not heard and not told:
        reason = "no byte moved"
    rate = _number(received, "bits_per_second") if heard else None
    draft.measure("throughput", rate, reason)
    sent_rate = _number(sent, "bits_per_second") if told else None
    draft.measure("sent_throughput", sent_rate, reason)
    draft.detail("bytes_sent", sent_bytes if told else None)
    draft.detail("bytes_received", received_bytes if heard else None)
    if sent_bytes and received_bytes and received_bytes > sent_bytes:
        draft.flag("received-exceeds-sent", f"{received_bytes} > {sent_bytes} bytes")
    retransmits = q.json_count(_field(sent, "retransmits"))
    draft.measure("retransmits", retransmits, "the sender's kernel or side did not report it")
    rtts = [_number(row, "sender", "mean_rtt") for row in rows]
    if len(rtts) == 1:
        value = rtts[0]
        draft.measure("tcp_rtt", value / 1e6 if value else None, "printed as 0: not measured")
    elif any(rtts):
        draft.detail("per_stream_tcp_rtt_us", rtts)
    rates = [_number(row, "receiver", "bits_per_second") for row in rows]
    if len(rates) > 1 and all(rates):
        draft.detail("per_stream_bps", rates)


def _fill_udp(draft: Draft, tree: Tree, sent: Json, received: Json, whole: Json, side: str) -> None:
    local_sends = _is_local_sender(tree, side)
    is_deaf = _is_server(tree) and local_sends
    summary = received if _number(received, "packets") else whole
    lost, packets = (
        q.json_count(_field(summary, "lost_packets")),
        q.json_count(_field(summary, "packets")),
    )
    rate = _number(sent, "bits_per_second") or _number(whole, "bits_per_second")
    arrived = _number(received, "bits_per_second") or None
    if _field(whole, "sender") is False and arrived is None:
        arrived, rate = rate, None
    draft.measure("sent_throughput", rate, "the sender's figure is not in the text")
    draft.detail("bytes_sent", _number(sent, "bytes") or _number(whole, "bytes"))
    draft.detail("bytes_received", _number(received, "bytes") or None)
    if is_deaf:
        draft.detail("datagrams_sent", packets)
        for name in ("throughput", "loss", "jitter"):
            draft.measure(name, None, "the sending server prints 0 for what it does not know")
        return
    draft.detail("datagrams", packets)
    draft.detail("lost_packets", lost)
    is_impossible = lost is not None and packets is not None and lost > packets
    if arrived is None and lost == 0 and packets and _field(whole, "sender") is None:
        # The `sum` of old versions is the sent rate; with nothing lost all of it arrived.
        arrived = rate
    if is_impossible:
        arrived = None
    draft.measure("throughput", arrived, "only the sent rate is in the text")
    if is_impossible:
        draft.measure("loss", None, "more datagrams lost than sent")
        draft.flag("loss-impossible", f"{lost} of {packets} datagrams")
    elif lost is not None and packets:
        draft.derive("loss", "share", float(lost), float(packets))
    take_jitter(draft, _number(summary, "jitter_ms"))


def take_jitter(draft: Draft, jitter_ms: float | None) -> None:
    """Take a jitter; one of many seconds is flagged."""
    draft.measure("jitter", jitter_ms / 1e3 if jitter_ms is not None else None)
    if jitter_ms is not None and jitter_ms / 1e3 > JITTER_LIMIT_S:
        draft.flag("jitter-not-believable", f"{jitter_ms:g} ms")


def _take_cpu(draft: Draft, tree: Tree, side: str, heard: bool) -> None:
    cpu = _field(tree, "end", "cpu_utilization_percent")
    if not isinstance(cpu, dict):
        return
    streams = draft.factors.get("streams", 1)
    limit = 100.0 * (2 * int(streams) + 1) + 50
    ends = ("sender", "receiver") if _is_local_sender(tree, side) else ("receiver", "sender")
    for key, name, end in (("host", "local", ends[0]), ("remote", "remote", ends[1])):
        percent = _number(cpu, f"{key}_total")
        parts = [_number(cpu, f"{key}_user"), _number(cpu, f"{key}_system")]
        if key == "remote" and percent == 0 and not any(parts):
            percent = None
        metric = f"utilisation_{end}"
        if percent is not None and percent > limit:
            draft.flag("cpu-not-believable", f"{name}: {percent:g} %")
            percent = None
        draft.detail(f"cpu_{name}_percent_of_process", percent)
        if draft.factors["bidirectional"]:
            continue
        value = percent / 100 if percent is not None else None
        draft.measure(metric, value, "impossible or never heard of", method="rusage")
    if draft.value("utilisation_sender") or draft.value("utilisation_receiver"):
        draft.flag("process-cpu")


def _good_intervals(tree: Tree) -> list[Json]:
    """Return the interval sums that are whole and not omitted."""
    intervals = _field(tree, "intervals")
    sums = [_field(item, "sum") for item in intervals] if isinstance(intervals, list) else []
    return [
        row
        for row in sums
        if _number(row, "bytes") is not None
        and _number(row, "seconds")
        and _field(row, "omitted") is not True
    ]


def _take_intervals(draft: Draft, tree: Tree, side: str) -> None:
    intervals = _field(tree, "intervals")
    if not isinstance(intervals, list):
        return
    rows = [_field(item, "sum" + side) for item in intervals]
    kept = [row for row in rows if isinstance(row, dict) and row.get("omitted") is not True]
    draft.count("intervals", len(kept))
    draft.detail("interval_bps", [_number(row, "bits_per_second") for row in kept])


def _check(draft: Draft, summary: Json, what: str) -> None:
    """Flag a printed rate that neither `seconds` nor `end` explains."""
    size, rate = _number(summary, "bytes"), _number(summary, "bits_per_second")
    times = [t for t in (_number(summary, "seconds"), _number(summary, "end")) if t]
    if not size or not rate or not times:
        return
    if not any(q.rates_agree(size * 8 / t, rate, 0.002) for t in times):
        draft.flag(
            "rate-contradicts", f"{what}: {size:g} bytes in {times[0]:g} s at {rate:g} bit/s"
        )


def _fill_intervals(draft: Draft, tree: Tree) -> None:
    """Take what the whole intervals of a run without an end say."""
    rows = _good_intervals(tree)
    sizes = [float(_number(row, "bytes") or 0) for row in rows]
    seconds = [float(_number(row, "seconds") or 0) for row in rows]
    is_sending = _is_local_sender(tree, "")
    metric = "sent_throughput" if is_sending else "throughput"
    if is_sending:
        draft.measure("throughput", None, "the run did not end: the receiver was never heard")
    draft.derive(metric, "summed bits over summed times", *sizes, *seconds)
    draft.derive_detail("elapsed_s", "sum", *seconds)
    draft.count("intervals", len(rows))
    draft.detail("interval_bps", [_number(row, "bits_per_second") for row in rows])
    if not draft.has_flag("incomplete"):
        draft.flag("incomplete", "the JSON has no end")
