"""netperf's classic tables: what the numbers of a row mean, and the -v 2 tables behind it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from zcdb.importers import quantities as q
from zcdb.importers.model import Draft
from zcdb.importers.netperf_common import Unit, cpu_count, take_cpu
from zcdb.importers.netperf_tables import Header, Rows
from zcdb.importers.text import Line
from zcdb.importers.vocabulary import netperf_cpu_method

_HISTOGRAM = re.compile(
    r"^\s*([A-Z]{2,8}_[A-Z]{2,4})\s*:((?:\s*[0-9]{1,20}:){9}\s*[0-9]{1,20})\s*$"
)
_HISTOGRAM_TOTAL = re.compile(rf"HIST_TOTAL:\s*({q.COUNT})")


def _fill_stream(draft: Draft, header: Header, row: Rows) -> None:
    assert header.unit is not None  # noqa: S101 - refused before
    recv, send, message, elapsed, rate, *cpu = row.first
    draft.detail("recv_socket_bytes", q.whole(recv))
    draft.detail("send_socket_bytes", q.whole(send))
    size = q.whole(message)
    if size is not None and size > 0:
        draft.factors["message_size"] = size
    draft.detail("elapsed_s", q.not_negative(q.number(elapsed)))
    _take_rate(draft, header.unit, rate)
    if cpu:
        local, remote = (
            ("receiver", "sender") if header.local_is_receiver else ("sender", "receiver")
        )
        if draft.details.get("direction") == "recv" and not header.local_is_receiver:
            local, remote = "receiver", "sender"
        bps = draft.value("throughput")
        take_cpu(draft, "local", local, header.cpu_letters[0], cpu[0], cpu[2], bps, rate)
        take_cpu(draft, "remote", remote, header.cpu_letters[1], cpu[1], cpu[3], bps, rate)


def _take_rate(draft: Draft, unit: Unit, printed: str, metric: str = "throughput") -> None:
    """Take a printed rate; a negative one was not measured."""
    value = q.not_negative(q.scaled(printed, unit.factor))
    if unit.is_transactions:
        draft.measure("transaction_rate", value, "netperf prints no number")
        return
    draft.measure(metric, value, "netperf prints no number")
    draft.detail("rate_printed", f"{printed} {unit.name}")
    if unit.is_mislabelled:
        draft.flag("unit-mislabelled", f"'{unit.name}' of netperf -f b counts bytes")


def _fill_udp(draft: Draft, header: Header, row: Rows) -> None:
    assert header.unit is not None  # noqa: S101 - refused before
    socket, message, elapsed, okay, errors, rate, *cpu = row.first
    size = q.whole(message)
    draft.detail("send_socket_bytes", q.whole(socket))
    if size is not None and size > 0:
        draft.factors["message_size"] = size
    draft.detail("elapsed_s", q.not_negative(q.number(elapsed)))
    draft.detail("messages_sent", q.whole(okay))
    draft.detail("send_errors", q.whole(errors))
    _take_rate(draft, header.unit, rate, "sent_throughput")
    _check_messages(draft, size, okay, elapsed, rate, header.unit)
    if cpu:
        sent = draft.value("sent_throughput")
        take_cpu(draft, "local", "sender", header.cpu_letters[0], cpu[0], cpu[1], sent, rate)
    if not row.second:
        draft.measure("throughput", None, "the receiver's row is missing")
        draft.flag("incomplete", "the receiver's row is missing")
        return
    socket, _, okay, rate, *cpu = row.second
    draft.detail("recv_socket_bytes", q.whole(socket))
    draft.detail("messages_received", q.whole(okay))
    _take_rate(draft, header.unit, rate)
    if not draft.value("throughput"):
        draft.measure("throughput", None, "nothing arrived, or the receiver did not report")
        draft.flag("incomplete", "the receiver's row is zero")
        return
    if cpu:
        arrived = draft.value("throughput")
        take_cpu(draft, "remote", "receiver", header.cpu_letters[1], cpu[0], cpu[1], arrived, rate)


def _check_messages(
    draft: Draft, size: int | None, okay: str, elapsed: str, rate: str, unit: Unit
) -> None:
    messages, seconds = q.whole(okay), q.number(elapsed)
    printed = q.scaled(rate, unit.factor)
    if not messages or not seconds or not size or not printed or seconds < 0:
        return
    again = messages * size * 8 / seconds
    slack = q.relative_half_unit(elapsed) + q.relative_half_unit(rate) + 0.002
    if not q.rates_agree(again, printed, slack):
        draft.flag(
            "rate-contradicts",
            f"{messages} messages of {size} bytes in {elapsed} s are not {rate} {unit.name}",
        )


def _fill_rr(draft: Draft, header: Header, row: Rows) -> None:
    send, recv, request, response, elapsed, rate, *cpu = row.first
    draft.detail("send_socket_bytes", q.whole(send))
    draft.detail("recv_socket_bytes", q.whole(recv))
    for name, printed in (("request_size", request), ("response_size", response)):
        size = q.whole(printed)
        if size is not None and size >= 0:
            draft.factors[name] = size
    draft.detail("elapsed_s", q.not_negative(q.number(elapsed)))
    if row.second:
        draft.detail("remote_send_socket_bytes", q.whole(row.second[0]))
        draft.detail("remote_recv_socket_bytes", q.whole(row.second[1]))
    if header.unit is not None and not header.unit.is_transactions:
        _take_rate(draft, header.unit, rate)
        draft.flag("both-directions", "requests and responses")
    else:
        value = q.not_negative(q.number(rate))
        draft.measure("transaction_rate", value, "netperf prints no number")
    if cpu:
        for side, end, letter, percent, demand in (
            ("local", "client", header.cpu_letters[0], cpu[0], cpu[2]),
            ("remote", "server", header.cpu_letters[1], cpu[1], cpu[3]),
        ):
            _take_transaction_cpu(draft, side, end, letter, percent, demand, rate)


def _take_transaction_cpu(
    draft: Draft, side: str, end: str, letter: str, percent: str, demand: str, rate: str
) -> None:
    share, us = q.number(percent), q.number(demand)
    per_s = draft.value("transaction_rate")
    if share is None or us is None or share < 0 or us < 0 or letter == "U" or share > 100:
        reason = "netperf did not measure it" if letter != "U" else "netperf's method is unknown"
        draft.measure(f"transaction_demand_{end}", None, reason)
        return
    method = netperf_cpu_method(letter)
    draft.detail(f"cpu_{side}_percent_of_machine", share)
    draft.detail("cpu_method_letter", letter)
    draft.measure(f"transaction_demand_{end}", us, method=method)
    draft.derive(f"utilisation_{end}", "transaction demand times rate", us, per_s, method=method)
    cpu_count(draft, end, "cpus of transactions", us, per_s, share, (demand, rate, percent))


FILL = {"stream": _fill_stream, "udp": _fill_udp, "rr": _fill_rr}


_TABLE_WORDS = re.compile(
    r"^\s*(?:Alignment|Local\s+Remote|Send\s+Recv|Histogram of|Maximum|Segment|Size \(bytes\)"
    r"|>100_SECS|Transport)"
)


def after_table(draft: Draft, lines: Sequence[Line], start: int) -> int:
    """Read the -v 2 tables behind a result; return the index behind what was read."""
    end = start
    histogram: dict[str, list[int]] = {}
    round_trip = False
    i = start
    while i < len(lines):
        text = lines[i].text
        if match := _HISTOGRAM.match(text):
            histogram[match[1]] = [int(x) for x in match[2].replace(" ", "").split(":")]
        elif match := _HISTOGRAM_TOTAL.search(text):
            draft.detail("histogram_total", q.whole(match[1]))
        elif _TABLE_WORDS.match(text):
            round_trip = round_trip or "RoundTrip" in text
        elif round_trip and _take_round_trip(draft, text):
            round_trip = False
        elif text.strip() and not re.fullmatch(r"\s*[0-9.e+\s]{1,120}", text):
            break
        if text.strip():
            end = i + 1
        elif i - end > 1:
            break
        i += 1
    if histogram:
        draft.detail("histogram", histogram)
    return end


def _take_round_trip(draft: Draft, text: str) -> bool:
    """Take the RR figures of -v 2: round trip latency, rate, both directions' throughput."""
    words = text.split()
    if len(words) != 8 or any(q.number(word) is None for word in words):
        return False
    latency = q.not_negative(q.micro(words[4]))
    if latency is not None:
        draft.factors["latency_kind"] = "rtt"
        draft.measure("latency_mean", latency)
    if draft.value("transaction_rate") is None:
        draft.measure("transaction_rate", q.not_negative(q.number(words[5])))
    draft.detail("outbound_printed", q.number(words[6]))
    draft.detail("inbound_printed", q.number(words[7]))
    return True
