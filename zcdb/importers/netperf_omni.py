"""netperf's selectable outputs: keyval (-k), CSV (-o) and human (-O).

All three carry the same named values; CSV and human print titles, which
`vocabulary.NETPERF_TITLES` turns into the names that keyval prints.  Unknown names are kept as
details.  A title's words differ between versions, so case and blanks do not
count.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence

from zcdb.importers import quantities as q
from zcdb.importers.commands import Command, command_above
from zcdb.importers.context import Context, Found
from zcdb.importers.model import Draft, Refusal
from zcdb.importers.netperf_common import (
    BANNER_WORDS,
    Banner,
    cpu_count,
    find_banner,
    parse_unit,
    start_draft,
    unit_of_letter,
)
from zcdb.importers.text import Line, is_prompt, label_before, span
from zcdb.importers.vocabulary import NETPERF_LATENCIES, NETPERF_TITLES, netperf_cpu_method

TOOL = "netperf"

_KEYVAL = re.compile(r"^\s*([A-Z][A-Z0-9_]{2,60})(?:\[([0-9]{1,6})\])?=(.{0,400})$")
_KNOWN_KEYS = re.compile(
    r"(?:THROUGHPUT|ELAPSED_TIME|LOCAL_|REMOTE_|.*_LATENCY|TRANSACTION_RATE|CONFIDENCE_|NETPERF_"
    r"|SD_UNITS|PROTOCOL|DIRECTION|REQUEST_SIZE|RESPONSE_SIZE|LSS_|LSR_|RSS_|RSR_|TRANSPORT_MSS)"
)
_CLASSIC = re.compile(r"^\s*(?:Recv\s+Send\s+Send|Local\s*/\s*Remote|Socket\s+Message\s+Elapsed)\b")
_USED = frozenset(NETPERF_TITLES.values()) - {"LOCAL_BYTES_SENT", "REMOTE_BYTES_RECVD"}
_TITLE_WORDS = frozenset(word for title in NETPERF_TITLES for word in title.split())


def parse(lines: Sequence[Line], context: Context) -> Found:
    """Return the results and refusals of omni outputs in `lines`."""
    found: Found = []
    banner: Banner | None = None
    remarks: list[str] = []
    after = 0
    i = 0
    while i < len(lines):
        text = lines[i].text
        if BANNER_WORDS in text and (seen := find_banner(lines, i)) is not None:
            banner, remarks, i = seen, [], seen.end
            continue
        if _CLASSIC.match(text):
            # A classic table: `netperf` reads it.
            banner, remarks = None, []
        block = _keyval(lines, i) or _csv(lines, i) or (_human(lines, i) if banner else None)
        if block is None:
            if banner is not None and text.startswith(("catcher:", "!!!")):
                remarks.append(text.strip())
            i += 1
            continue
        end, output_format, rows, problem = block
        first = banner.start if banner else i
        command = command_above(lines, first, after, "netperf", context.command)
        if problem:
            found.append(Refusal(TOOL, problem, span(lines, first, end - 1)))
        for row in rows:
            draft = start_draft(_kind(row, banner), output_format, banner, command)
            draft.detail("label", label_before(lines, first, after))
            for remark in remarks:
                draft.flag("tool-warning", remark[:120])
            _fill(draft, row, command)
            end = _histogram(draft, lines, end) if row is rows[-1] else end
            found.append(draft.done(span(lines, first, end - 1)))
        banner, remarks, after, i = None, [], end, end
    return found


Row = Mapping[str, str]
Block = tuple[int, str, list[dict[str, str]], str | None]


def _keyval(lines: Sequence[Line], start: int) -> Block | None:
    match = _KEYVAL.match(lines[start].text)
    if match is None or _KNOWN_KEYS.match(match[1]) is None:
        return None
    rows: list[dict[str, str]] = [{}]
    i = start
    while i < len(lines) and (match := _KEYVAL.match(lines[i].text)) is not None:
        key = match[1] if match[2] is None else f"{match[1]}[{match[2]}]"
        if key in rows[-1]:
            # The same name again: another result follows without anything between.
            rows.append({})
        rows[-1][key] = match[3].strip()
        i += 1
    rows = [row for row in rows if "THROUGHPUT" in row or any("LATENCY" in key for key in row)]
    problem = None if rows else "netperf keyval output without THROUGHPUT: no result in it"
    return i, "keyval", rows, problem


def _csv(lines: Sequence[Line], start: int) -> Block | None:
    text = lines[start].text
    titles = [" ".join(name.lower().split()) for name in text.split(",")]
    if sum(title in NETPERF_TITLES for title in titles) < 2:
        return None
    names_text, end = text, start + 1
    while end < len(lines) and end - start < 40:
        more = lines[end].text.strip()
        first_cell = more.partition(",")[0].strip()
        if not more or q.number(first_cell) is not None or BANNER_WORDS in more:
            break
        names_text, end = f"{names_text} {more}", end + 1
    names = [" ".join(name.split()) for name in next(csv.reader([names_text]))]
    rows: list[dict[str, str]] = []
    widths: list[int] = []
    while end < len(lines) and _is_values(lines[end].text):
        values_text, end = lines[end].text, end + 1
        while (
            end < len(lines)
            and values_text.count(",") + 1 < len(names)
            and lines[end].text.strip()
            and values_text.rstrip().endswith(",")
        ):
            values_text, end = values_text + lines[end].text, end + 1
        values = [value.strip() for value in next(csv.reader([values_text]))]
        widths.append(len(values))
        row = {NETPERF_TITLES.get(n.lower(), n): v for n, v in zip(names, values, strict=False)}
        row["#names"], row["#values"] = str(len(names)), str(len(values))
        rows.append(row)
    if not rows:
        return end, "csv", [], "netperf CSV titles without a row of values"
    return end, "csv", rows, None


def _is_title(text: str) -> bool:
    words = text.lower().split()
    return bool(words) and words[0] in _TITLE_WORDS and all(w[:1].isalnum() for w in words[:2])


def _is_values(text: str) -> bool:
    cells = text.split(",")
    return len(cells) > 1 and (q.number(cells[0].strip()) is not None or not cells[0].strip())


def _human(lines: Sequence[Line], start: int) -> Block | None:
    """Read -O: titles stacked over up to four lines, columns told by blank positions."""
    text = lines[start].text
    if "," in text or not _is_title(text):
        return None
    stop = start + 1
    while stop < len(lines) and stop - start <= 5:
        value_text = lines[stop].text
        if value_text.strip() and q.number(value_text.split()[0]) is not None:
            break
        stop += 1
    else:
        return None
    if stop >= len(lines) or any(is_prompt(line.text) for line in lines[start:stop]):
        return None
    block = [line.text.expandtabs(8) for line in lines[start : stop + 1]]
    width = max(len(row) for row in block)
    block = [row.ljust(width) for row in block]
    used = [any(row[x] != " " for row in block) for x in range(width)]
    columns = [m.span() for m in re.finditer(r"1+", "".join("01"[u] for u in used))]
    row: dict[str, str] = {}
    for a, b in columns:
        title = " ".join(" ".join(line[a:b].split()) for line in block[:-1]).strip()
        title = " ".join(title.split())
        row[NETPERF_TITLES.get(title.lower(), title)] = block[-1][a:b].strip()
    if len(columns) != len(block[-1].split()) or "" in row:
        return stop + 1, "human", [], "netperf -O columns do not line up with their titles"
    return stop + 1, "human", [row], None


def _kind(row: Row, banner: Banner | None) -> str:
    if banner is not None and banner.test != "OMNI":
        return "rr" if banner.test.endswith("RR") else "stream"
    unit = parse_unit(row.get("THROUGHPUT_UNITS", ""))
    return "rr" if unit is not None and unit.is_transactions else "omni"


def _fill(draft: Draft, row: Row, command: Command | None) -> None:
    if row.get("#names") != row.get("#values"):
        draft.flag("columns-differ", f"{row['#values']} values for {row['#names']} names")
    draft.detail("elapsed_s", _positive(row, "ELAPSED_TIME"))
    _take_throughput(draft, row, command)
    if draft.details.get("direction") is None:
        draft.detail("direction", _direction(row))
    for name, key in (("request_size", "REQUEST_SIZE"), ("response_size", "RESPONSE_SIZE")):
        size = q.whole(row.get(key, ""))
        if size is not None and size >= 0:
            draft.factors[name] = size
    if command is not None and (sizes := command.option("-r", local=True)):
        for name, printed in zip(("request_size", "response_size"), sizes.split(","), strict=False):
            size = q.whole(printed)
            if size is not None and name not in draft.factors:
                draft.factors[name] = size
    is_receiving = draft.details.get("direction") == "recv"
    size = q.whole(row.get("REMOTE_SEND_SIZE" if is_receiving else "LOCAL_SEND_SIZE", ""))
    if size is not None and size > 0:
        draft.factors["message_size"] = size
    _take_latencies(draft, row)
    _take_cpu(draft, row)
    _take_retransmits(draft, row)
    _take_confidence(draft, row)
    draft.detail("interim", _interim(row))
    rest = {
        key: q.number(value) if q.number(value) is not None else value
        for key, value in row.items()
        if key not in _USED and not key.startswith(("#", "NETPERF_")) and key and value
    }
    if rest:
        draft.detail("other", rest)


def _positive(row: Row, key: str) -> float | None:
    return q.not_negative(q.number(row.get(key, "")))


def _take_throughput(draft: Draft, row: Row, command: Command | None) -> None:
    printed = row.get("THROUGHPUT", "")
    units = row.get("THROUGHPUT_UNITS")
    unit = parse_unit(units) if units else None
    is_rr = draft.details.get("direction") == "rr"
    if unit is None and units is None and command is not None:
        letter = command.option("-f")
        unit = unit_of_letter(letter)
        if unit is not None:
            draft.flag("unit-from-command", f"-f {letter}")
    metric = "transaction_rate" if unit is not None and unit.is_transactions else "throughput"
    if unit is None:
        metric = "transaction_rate" if is_rr else "throughput"
        draft.measure(metric, None, "THROUGHPUT without THROUGHPUT_UNITS: the unit is not guessed")
        draft.detail("throughput_printed", q.number(printed))
    else:
        value = q.not_negative(q.scaled(printed, unit.factor))
        draft.measure(metric, value, "netperf prints no number")
        draft.detail("rate_printed", f"{printed} {unit.name}")
        if unit.is_mislabelled:
            draft.flag("unit-mislabelled", f"'{unit.name}' of netperf -f b counts bytes")
    rate = _positive(row, "TRANSACTION_RATE")
    is_stream = draft.details.get("direction") in ("send", "recv")
    if rate is not None and not is_stream:
        draft.measure("transaction_rate", rate)
    if rate is not None and is_stream:
        draft.flag("tool-warning", f"transaction rate {rate:g} in a stream row is filler")
    sent = row.get("LOCAL_SEND_THROUGHPUT", "")
    arrived = row.get("REMOTE_RECV_THROUGHPUT", "")
    if unit is not None and not unit.is_transactions and not is_rr:
        sent_bps = q.not_negative(q.scaled(sent, unit.factor))
        arrived_bps = q.not_negative(q.scaled(arrived, unit.factor))
        if sent_bps:
            draft.measure("sent_throughput", sent_bps)
        if arrived_bps:
            draft.measure("throughput", arrived_bps)


def _direction(row: Row) -> str | None:
    words = row.get("DIRECTION", "").lower()
    if "send" in words and "rec" in words:
        return "rr"
    if "send" in words:
        return "send"
    if "rec" in words:
        return "recv"
    unit = parse_unit(row.get("THROUGHPUT_UNITS", ""))
    return "rr" if unit is not None and unit.is_transactions else None


def _take_latencies(draft: Draft, row: Row) -> None:
    direction = draft.details.get("direction")
    for key, metric in NETPERF_LATENCIES.items():
        value = q.not_negative(q.micro(row.get(key)))
        if value is None:
            continue
        # A stream's "latency" is the time one call took; a transaction's is the round trip.
        draft.factors["latency_kind"] = "rtt" if direction == "rr" else "per_call"
        draft.measure(metric, value)


def _take_cpu(draft: Draft, row: Row) -> None:
    is_rr = draft.details.get("direction") == "rr"
    is_receiving = draft.details.get("direction") == "recv"
    ends = ("client", "server") if is_rr else ("sender", "receiver")
    if is_receiving:
        ends = ("receiver", "sender")
    if draft.details.get("direction") is None and any("CPU_UTIL" in key for key in row):
        draft.detail("cpu_local_percent_of_machine", _positive(row, "LOCAL_CPU_UTIL"))
        return
    for side, end in zip(("LOCAL", "REMOTE"), ends, strict=True):
        share, demand = row.get(f"{side}_CPU_UTIL"), row.get(f"{side}_SD")
        if share is None and demand is None:
            continue
        _take_end_cpu(draft, row, side, end, is_rr)


def _take_end_cpu(draft: Draft, row: Row, side: str, end: str, is_rr: bool) -> None:
    share, demand = q.number(row.get(f"{side}_CPU_UTIL")), q.number(row.get(f"{side}_SD"))
    letter = row.get(f"{side}_CPU_METHOD", "?")[:1] or "?"
    used_name = f"utilisation_{end}"
    demand_name = f"transaction_demand_{end}" if is_rr else f"service_demand_{end}"
    if share is not None and share < 0:
        draft.measure(used_name, None, "netperf prints a negative number: not measured")
    if letter == "U" or (share is not None and share > 100):
        draft.measure(used_name, None, "netperf's CPU method is unknown or its figure impossible")
        draft.flag("cpu-method-unknown" if letter == "U" else "cpu-not-believable", end)
        return
    method = netperf_cpu_method(letter)
    if share is not None and share >= 0:
        draft.detail(f"cpu_{side.lower()}_percent_of_machine", share)
        cpus = q.whole(row.get(f"{side}_CPU_COUNT"))
        if cpus and cpus > 0:
            draft.derive(used_name, "share of the CPUs", share, cpus, method=method)
        else:
            draft.measure(used_name, None, "a share of the machine, whose CPUs are not counted")
    units = row.get("SD_UNITS", "")
    wanted = "usec/Tran" if is_rr else "usec/KB"
    if demand is None:
        return
    if demand < 0:
        draft.measure(demand_name, None, "netperf prints a negative number: not measured")
    elif units.replace("us/", "usec/").startswith(wanted):
        draft.measure(demand_name, demand, method=method)
        rate = draft.value("transaction_rate" if is_rr else "throughput")
        if share and draft.value(used_name) is None:
            rule = "transaction demand times rate" if is_rr else "service demand times rate"
            draft.derive(used_name, rule, demand, rate, method=method)
            printed = (row[f"{side}_SD"], row.get("THROUGHPUT", "0"), row[f"{side}_CPU_UTIL"])
            count_rule = "cpus of transactions" if is_rr else "cpus"
            cpu_count(draft, end, count_rule, demand, rate, share, printed)
    else:
        draft.measure(demand_name, None, f"its unit is {units!r}, not {wanted}")


def _take_retransmits(draft: Draft, row: Row) -> None:
    sender = "REMOTE" if draft.details.get("direction") == "recv" else "LOCAL"
    for side in ("LOCAL", "REMOTE"):
        printed = row.get(f"{side}_TRANSPORT_RETRANS")
        if printed is None:
            continue
        count = q.not_negative(q.number(printed))
        draft.detail(f"retransmits_{side.lower()}", count)
        if side == sender:
            draft.measure("retransmits", count, "netperf prints -1: not measured")


def _take_confidence(draft: Draft, row: Row) -> None:
    width = _positive(row, "THROUGHPUT_CONFID")
    draft.detail("confidence_width_throughput_percent", width)
    iterations = q.whole(row.get("CONFIDENCE_ITERATION", ""))
    draft.detail("confidence_iterations", iterations)


def _interim(row: Row) -> list[dict[str, float]] | None:
    rows: list[dict[str, float]] = []
    for key, printed in row.items():
        match = re.fullmatch(r"NETPERF_INTERIM_RESULT\[([0-9]{1,6})\]", key)
        if match is None:
            continue
        unit = parse_unit(row.get(f"NETPERF_UNITS[{match[1]}]", ""))
        seconds = q.number(row.get(f"NETPERF_INTERVAL[{match[1]}]"))
        rate = q.scaled(printed, unit.factor) if unit else None
        if unit is None or rate is None or seconds is None:
            continue
        name = "transactions_per_s" if unit.is_transactions else "throughput_bps"
        rows.append({name: rate, "interval_s": seconds})
    return rows or None


_HISTOGRAM = re.compile(r"^\s*(?:[A-Z]+_[A-Z]+\s*:(?:\s*[0-9]+:){9}|>100_SECS|Histogram of)")
_HISTOGRAM_TOTAL = re.compile(rf"HIST_TOTAL:\s*({q.COUNT})")


def _histogram(draft: Draft, lines: Sequence[Line], start: int) -> int:
    """Read the total of a histogram behind a result; return the index behind it."""
    i = start
    while i < len(lines) and (not lines[i].text.strip() or _HISTOGRAM.match(lines[i].text)):
        i += 1
    if i < len(lines) and (match := _HISTOGRAM_TOTAL.search(lines[i].text)):
        draft.detail("histogram_total", q.whole(match[1]))
        return i + 1
    return start
