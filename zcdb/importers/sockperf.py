"""sockperf: ping-pong, under-load, playback and throughput.

A latency is half the round trip unless --full-rtt was given.  "MBps" is
2^20 bytes and "Mbps" eight of those, so both understate by 4.9 % what they
seem to say.  Percentiles that fewer observations than one stand behind are
left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from zcdb.importers import quantities as q
from zcdb.importers.commands import command_above
from zcdb.importers.context import Context, Found, is_loopback, mark_loopback
from zcdb.importers.model import Draft, Refusal
from zcdb.importers.text import Line, span
from zcdb.importers.vocabulary import percentile_metric

TOOL = "sockperf"

_N = q.UNSIGNED
_OURS = re.compile(r"sockperf(?:\[[A-Z]{1,10}\])?:? (.*)$|^\s*(\[ ?[0-9]{1,4}\] IP = .*)$")
_VERSION = re.compile(r"== version #(\S{1,40}?) ?==")
_PEER = re.compile(r"\[ ?[0-9]{1,4}\] IP = (\S{1,60})\s+PORT =\s+[0-9]{1,5}\s*# (TCP|UDP)")
_RUN = re.compile(
    rf"\[(Total Run|Valid Duration)\] RunTime=({_N}) sec;.*?SentMessages=({q.COUNT});"
    rf" ReceivedMessages=({q.COUNT})"
)
_SENT = re.compile(rf"Total of ({q.COUNT}) messages sent in ({_N}) sec")
_MEAN = re.compile(rf"====> avg-(lat(?:ency)?|rtt)\s*=\s*({_N}) \(std-dev=\s*({_N})")
_SUMMARY = re.compile(rf"Summary: (Latency|Round trip|Round-trip time) is\s+({_N}) usec")
_RATE = re.compile(rf"Summary: Message Rate is\s+({_N}) \[msg/sec\]")
_BANDWIDTH = re.compile(rf"Summary: BandWidth is\s+({_N}) ([MG])Bps \(({_N}) [MG]bps\)")
_COUNT = re.compile(rf"Total ({q.COUNT}) observations")
_PERCENTILE = re.compile(rf"---> percentile\s+([0-9]{{1,3}}\.[0-9]{{1,6}}) =\s+({_N})")
_EXTREME = re.compile(rf"---> <(MIN|MAX)> observation =\s+({_N})")
_DROPPED = re.compile(rf"# dropped messages = ({q.COUNT})")
_FAILED = re.compile(r"(?:ERROR|Error|error)[: ]|No messages were received")
_MODES = {
    "ping-pong": "ping-pong",
    "pp": "ping-pong",
    "under-load": "under-load",
    "ul": "under-load",
    "throughput": "throughput",
    "tp": "throughput",
    "playback": "playback",
    "pb": "playback",
}


def is_hinted(text: str) -> bool:
    """Tell whether sockperf's output may stand here."""
    return "sockperf" in text and (
        "observation" in text or "Summary:" in text or "RunTime" in text or "== version" in text
    )


def parse(lines: Sequence[Line], context: Context) -> Found:
    """Return the results and refusals of sockperf in `lines`."""
    found: Found = []
    block: list[tuple[int, str]] = []
    after = 0
    for i, line in enumerate(lines):
        match = _OURS.search(line.text)
        if match is None or "TEST from" in line.text:
            continue
        statement = (match[1] if match[1] is not None else match[2]).strip()
        if block and _begins(statement, block):
            found += _read(lines, block, after, context)
            after, block = block[-1][0] + 1, []
        if _is_statement(statement) or block:
            block.append((i, statement))
    return found + (_read(lines, block, after, context) if block else [])


def _is_statement(text: str) -> bool:
    return any(
        p.search(text)
        for p in (
            _VERSION,
            _PEER,
            _RUN,
            _SENT,
            _MEAN,
            _SUMMARY,
            _RATE,
            _COUNT,
            _PERCENTILE,
            _EXTREME,
        )
    )


def _begins(statement: str, block: Sequence[tuple[int, str]]) -> bool:
    """Tell whether a statement opens another run (or the next server of the same one)."""
    if _VERSION.search(statement):
        return True
    for pattern in (_COUNT, _SUMMARY, _RATE):
        if pattern.search(statement) and any(pattern.search(text) for _, text in block):
            return True
    return "Printing statistics for Server No" in statement and any(
        "Printing statistics for Server No" in text for _, text in block
    )


def _read(
    lines: Sequence[Line], block: Sequence[tuple[int, str]], after: int, context: Context
) -> Found:
    place = span(lines, block[0][0], block[-1][0])
    text = "\n".join(statement for _, statement in block)
    has_result = any(p.search(text) for p in (_MEAN, _SUMMARY, _RATE, _PERCENTILE, _EXTREME, _SENT))
    if not has_result:
        failure = next((s for _, s in block if _FAILED.search(s)), "no summary was printed")
        return [Refusal(TOOL, f"sockperf gave no result: {failure[:200]}", place)]
    command = command_above(lines, block[0][0], after, TOOL, context.command)
    words = (*command.globals, *command.locals) if command else ()
    mode = next((_MODES[word] for word in words if word in _MODES), None) or _mode(text)
    draft = Draft(TOOL, "text", mode or "sockperf")
    if mode is None:
        draft.flag("test-assumed", "the mode is not in the text")
    if command is not None:
        draft.detail("command", command.text)
        size = q.whole(command.option("-m", "--msg-size"))
        if size and size > 0:
            draft.factors["message_size"] = size
    _take_header(draft, text)
    _take_counts(draft, text)
    _take_rate(draft, text)
    is_rtt = "avg-rtt" in text or "--full-rtt" in words or "Summary: Round" in text
    _take_latencies(draft, text, "rtt" if is_rtt else "half_rtt")
    return [draft.done(place)]


def _mode(text: str) -> str | None:
    """Return the mode as far as the figures tell it: only throughput prints a bandwidth."""
    if _BANDWIDTH.search(text):
        return "throughput"
    match = next((m for m in _RUN.finditer(text) if m[1] == "Valid Duration"), None)
    if match is not None and int(match[3]) > 20 * max(1, int(match[4])):
        # Only under-load asks for a reply to a share of the messages, 1 % unless told.
        return "under-load"
    return None


def _take_header(draft: Draft, text: str) -> None:
    if match := _VERSION.search(text):
        draft.version = match[1]
    peers = _PEER.findall(text)
    if peers:
        draft.factors["protocol"] = peers[0][1].lower()
        if is_loopback([peer for peer, _ in peers]):
            mark_loopback(draft)


def _take_counts(draft: Draft, text: str) -> None:
    runs = {match[1]: match for match in _RUN.finditer(text)}
    match = runs.get("Valid Duration") or runs.get("Total Run")
    if match is not None:
        draft.detail("elapsed_s", q.number(match[2]))
        draft.detail("messages_sent", int(match[3]))
        draft.detail("messages_received", int(match[4]))
    elif sent := _SENT.search(text):
        draft.detail("messages_sent", int(sent[1]))
        draft.detail("elapsed_s", q.number(sent[2]))
    if dropped := _DROPPED.search(text):
        draft.detail("dropped_messages", int(dropped[1]))


def _take_rate(draft: Draft, text: str) -> None:
    if match := _RATE.search(text):
        draft.measure("message_rate", q.number(match[1]))
    match = _BANDWIDTH.search(text)
    if match is None:
        return
    # "GBps" of sockperf is MiB / 1000.
    factor = 8 * 2**20 * (1000 if match[2] == "G" else 1)
    is_udp = draft.factors.get("protocol") == "udp"
    draft.measure("sent_throughput" if is_udp else "throughput", q.scaled(match[1], factor))
    if is_udp:
        draft.measure("throughput", None, "sockperf throughput counts what it sent")
    else:
        draft.flag("measured-at-sender", "sockperf throughput counts what it sent")
    draft.detail("rate_printed", match[0].removeprefix("Summary: BandWidth is").strip())
    draft.flag("unit-mislabelled", "MBps is 2^20 bytes/s, Mbps eight of those")


def _take_latencies(draft: Draft, text: str, kind: str) -> None:
    count = _COUNT.search(text)
    observations = int(count[1]) if count else None
    draft.detail("observations", observations)
    mean, summary = _MEAN.search(text), _SUMMARY.search(text)
    found: dict[str, float | None] = {}
    if mean is not None:
        found["latency_mean"] = q.micro(mean[2])
        found["latency_stddev"] = q.micro(mean[3])
    elif summary is not None:
        found["latency_mean"] = q.micro(summary[2])
    for match in _EXTREME.finditer(text):
        found[f"latency_{match[1].lower()}"] = q.micro(match[2])
    left_out = []
    for match in _PERCENTILE.finditer(text):
        beyond = 1 - (q.number(match[1]) or 0) / 100
        metric = percentile_metric(match[1])
        if observations is not None and observations * beyond < 0.5:
            left_out.append(match[1])
            draft.measure(metric, None, f"{observations} observations say nothing of it")
            continue
        found[metric] = q.micro(match[2])
    if left_out:
        draft.flag(
            "few-observations", f"{observations} observations for percentile {', '.join(left_out)}"
        )
    for metric, value in found.items():
        draft.factors["latency_kind"] = kind
        draft.measure(metric, value)
