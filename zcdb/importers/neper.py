"""neper: key=value output and samples.csv.

A reading side prints `throughput`; its unit stands in `throughput_units`, and
transactions have none.  Latencies are in seconds.  Not read: the correlation
coefficient, which says nothing here.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence

from zcdb.importers import quantities as q
from zcdb.importers.commands import Command, command_above, parse_command
from zcdb.importers.context import Context, Found, is_loopback, mark_loopback
from zcdb.importers.model import Draft, Refusal, Result
from zcdb.importers.text import Line, is_prompt, span, without_prompt
from zcdb.importers.vocabulary import percentile_metric

TOOL = "neper"

_PAIR = re.compile(r"^\s*([a-z][a-z0-9_]{1,40}|VERSION)=(.{0,200})$")
_OURS = frozenset(
    (
        "total_run_time",
        "num_flows",
        "num_threads",
        "time_start",
        "time_end",
        "num_samples",
        "correlation_coefficient",
        "invalid_secret_count",
        "num_transactions",
        "local_throughput",
        "remote_throughput",
        "maxevents",
        "throughput_units",
        "utime_start",
        "stime_end",
        "suicide_length",
    )
)
_UNIT = re.compile(r"([KMG]?)(i?)(b|B)(?:it|yte)?s?/s|10\^([369])bits/s|([KMG])Bytes/s")
_HEADER = re.compile(r"^\s*(?:tid|time|flow_id),(?:\w+,)*(?:bytes_read|transactions)\b")
_WORKLOADS = re.compile(r"\b((?:tcp|udp|psp)_(?:stream|rr|crr)|tcp_maerts)\b")


def is_hinted(text: str) -> bool:
    """Tell whether neper's output may stand here."""
    return (
        "total_run_time=" in text
        or "correlation_coefficient=" in text
        or ("time_end=" in text)
        or re.search(r"^\s*(?:tid|time|flow_id),", text, re.M) is not None
    )


def parse(lines: Sequence[Line], context: Context) -> Found:
    """Return the results and refusals of neper in `lines`."""
    found: Found = []
    after = 0
    i = 0
    while i < len(lines):
        if _HEADER.match(lines[i].text):
            item, i = _samples(lines, i)
            found.append(item)
            after = i
            continue
        if _PAIR.match(lines[i].text) is None:
            i += 1
            continue
        pairs, end, notes = _block(lines, i)
        if len(_OURS & set(pairs)) >= 2:
            found.append(_result(lines, i, end, pairs, notes, after, context))
            after = end
        i = end
    return found


def _block(lines: Sequence[Line], start: int) -> tuple[dict[str, str], int, list[str]]:
    """Return the pairs of one side's output, the index behind it, and the lines between."""
    pairs: dict[str, str] = {}
    notes: list[str] = []
    i, end = start, start + 1
    while i < len(lines) and i - end <= 25:
        match = _PAIR.match(lines[i].text)
        if match is not None:
            if match[1] in pairs:
                break
            pairs[match[1]] = match[2].strip()
            end = i + 1
        elif lines[i].text.strip():
            if end - i < -3 and not lines[i].text.startswith(("connect:", "F ", "E ", "W ")):
                break
            notes.append(lines[i].text.strip())
        i += 1
    return pairs, end, notes


def _result(
    lines: Sequence[Line],
    start: int,
    end: int,
    pairs: Mapping[str, str],
    notes: Sequence[str],
    after: int,
    context: Context,
) -> Result | Refusal:
    place = span(lines, start, end - 1)
    if "throughput" not in pairs and not q.number(pairs.get("remote_throughput")):
        if "num_transactions" not in pairs and "time_end" not in pairs:
            why = next((n for n in notes if "refused" in n or "connect" in n), "")
            reason = "neper printed its options but no result: the run did not take place"
            return Refusal(TOOL, reason + (f" ({why[:100]})" if why else ""), place)
        if "time_end" not in pairs:
            return Refusal(TOOL, "neper's output is cut off before a result", place)
    command = _command(lines, start, after, context)
    above = "\n".join(line.text for line in lines[max(after, start - 5) : start])
    workload = _WORKLOADS.search(f"{context.command or ''}\n{above}")
    is_rr = "num_transactions" in pairs or "request_size" in pairs
    draft = Draft(TOOL, "keyval", workload[1] if workload else "tcp_rr" if is_rr else "tcp_stream")
    if workload is None:
        draft.flag("test-assumed", "the output does not name the program")
    if command is not None:
        draft.detail("command", command.text)
        draft.detail("role", "client" if command.has("-c", "--client") else "server")
    draft.version = pairs.get("VERSION") or None
    _take_options(draft, pairs, is_rr)
    _take_rates(draft, pairs, is_rr)
    _take_latencies(draft, pairs)
    _take_cpu(draft, pairs)
    return draft.done(place)


def _command(lines: Sequence[Line], start: int, after: int, context: Context) -> Command | None:
    """Return the command line; neper's server needs no option, so a bare prompt counts too."""
    program = r"(?:tcp|udp|psp)_(?:stream|rr|crr)"
    command = command_above(lines, start, after, program, context.command)
    for i in range(start - 1, max(after, start - 3) - 1, -1):
        if command is None and is_prompt(lines[i].text):
            command = parse_command(without_prompt(lines[i].text), program)
    return command


def _count(pairs: Mapping[str, str], name: str) -> int | None:
    value = q.whole(pairs.get(name))
    return value if value is not None and value >= 0 else None


def _take_options(draft: Draft, pairs: Mapping[str, str], is_rr: bool) -> None:
    draft.factors["protocol"] = "udp" if draft.test.startswith("udp") else "tcp"
    if "client" in pairs or "host" in pairs:
        is_client = pairs.get("client") == "1" or (
            "client" not in pairs and bool(pairs.get("host"))
        )
        draft.detail("role", "client" if is_client else "server")
    for factor, option in (
        ("streams", "num_flows"),
        ("request_size", "request_size"),
        ("response_size", "response_size"),
        ("message_size", "buffer_size"),
    ):
        value = _count(pairs, option)
        if value and not (is_rr and factor == "message_size"):
            draft.factors[factor] = value
    if not is_rr and "zerocopy" in pairs:
        draft.factors["api"] = "msg_zerocopy" if pairs["zerocopy"] == "1" else "send"
        if pairs.get("skip_rx_copy") == "1":
            draft.factors["rx_api"] = "recv_trunc"
        elif pairs.get("rx_zerocopy") == "1":
            draft.factors["rx_api"] = "zerocopy_receive"
    pacing = _count(pairs, "max_pacing_rate")
    if pacing:
        # Echoed in bytes/s; the argument of -m is read by prefix and may say something else.
        draft.factors["pacing_rate"] = pacing * 8
    if pairs.get("congestion_control"):
        draft.factors["congestion_control"] = pairs["congestion_control"]
    draft.detail("threads", _count(pairs, "num_threads"))
    draft.detail("samples_printed", _count(pairs, "num_samples"))
    if is_loopback([pairs.get("host")]):
        mark_loopback(draft)


def _take_rates(draft: Draft, pairs: Mapping[str, str], is_rr: bool) -> None:
    printed = pairs.get("throughput")
    start, end = q.number(pairs.get("time_start")), q.number(pairs.get("time_end"))
    if start is not None and end is not None and end > start:
        draft.derive_detail("elapsed_s", "difference", start, end)
    if is_rr:
        draft.measure("transaction_rate", q.number(printed), "no throughput line")
        draft.detail("num_transactions", _count(pairs, "num_transactions"))
        return
    local, remote = _count(pairs, "local_throughput"), _count(pairs, "remote_throughput")
    draft.detail("local_throughput_bps", local)
    draft.detail("remote_throughput_bps", remote)
    units = pairs.get("throughput_units", "")
    factor = _unit_factor(units)
    printed_bps = q.scaled(printed, factor) if factor is not None else None
    if local:
        draft.measure("throughput", float(local))
        if printed_bps and not q.rates_agree(printed_bps, local, 0.01):
            draft.flag("unit-mislabelled", f"throughput {printed} {units}, local {local} bit/s")
    elif printed_bps is not None:
        draft.measure("throughput", printed_bps)
    elif remote:
        # This side only wrote; what the other side read came over the control connection.
        draft.measure("throughput", float(remote))
    else:
        draft.measure("throughput", None, "only a reading side prints its throughput")
    draft.detail("rate_printed", f"{printed} {units}".strip() if printed else None)
    share = q.number(pairs.get("percent_mmaped"))
    draft.detail("receive_mapped_percent", share)


def _unit_factor(units: str) -> int | None:
    """Return bit/s of neper's unit words: "Mbit/s", "MiB/s", "10^6bits/s", "MBytes/s"."""
    if match := re.fullmatch(r"10\^([369])bits/s", units):
        return int(10 ** int(match[1]))
    if match := re.fullmatch(r"([KMG])Bytes/s", units):
        return 8 * q.size_factor(match[1])
    match = re.fullmatch(r"([KMG]?)(i?)(b|bit|bits|B|Byte)/s", units)
    if match is None:
        return None
    scale = q.size_factor(match[1]) if match[2] else q.rate_factor(match[1], "bits")
    return scale * (8 if match[3].startswith("B") else 1)


def _take_latencies(draft: Draft, pairs: Mapping[str, str]) -> None:
    for key, printed in pairs.items():
        match = re.fullmatch(r"latency_(min|max|mean|stddev|p[0-9]{1,2}(?:\.[0-9]{1,4})?)", key)
        value = q.number(printed) if match else None
        if match is None or value is None or value < 0:
            continue
        name = match[1]
        metric = percentile_metric(name[1:]) if name[0] == "p" else f"latency_{name}"
        draft.factors["latency_kind"] = "rtt"
        draft.measure(metric, value)


def _take_cpu(draft: Draft, pairs: Mapping[str, str]) -> None:
    names = ("utime_start", "utime_end", "stime_start", "stime_end", "time_start", "time_end")
    numbers = [q.number(pairs.get(name)) for name in names]
    if any(x is None for x in numbers):
        return
    is_machine = pairs.get("stime_use_proc") == "1"
    end = None
    if draft.details.get("role") == "client":
        end = "sender" if draft.test.endswith("stream") else "client"
    elif draft.details.get("role") == "server":
        end = "receiver" if draft.test.endswith("stream") else "server"
    rule = "cpu seconds over time"
    method = "procstat" if is_machine else "rusage"
    if end is None:
        draft.derive_detail("utilisation_cpus", rule, *numbers)
    else:
        draft.derive(f"utilisation_{end}", rule, *numbers, method=method)
    if not is_machine:
        draft.flag("process-cpu")


def _samples(lines: Sequence[Line], start: int) -> tuple[Result | Refusal, int]:
    """Read samples.csv: cumulative counters, latencies of each interval in seconds."""
    names = [name.strip() for name in lines[start].text.split(",")]
    rows: list[dict[str, float]] = []
    i = start + 1
    while i < len(lines):
        cells = next(csv.reader([lines[i].text]), [])
        numbers = [q.number(cell.strip()) for cell in cells]
        if len(cells) != len(names) or any(x is None for x in numbers):
            break
        rows.append(dict(zip(names, (x for x in numbers if x is not None), strict=True)))
        i += 1
    place = span(lines, start, max(start, i - 1))
    flows = {(row.get("tid"), row.get("flow_id")) for row in rows}
    is_rr = "transactions" in names
    draft = Draft(TOOL, "samples.csv", "rr" if is_rr else "stream")
    draft.flag("test-assumed", "samples.csv does not name the program")
    draft.factors["streams"] = len(flows)
    draft.count("samples", len(rows))
    if len(rows) < 2 or "time" not in names:
        return Refusal(TOOL, "neper samples.csv with fewer than two samples", place), i
    draft.detail("first_time_s", rows[0]["time"])
    draft.detail("last_time_s", rows[-1]["time"])
    if len(flows) == 1:
        _take_samples(draft, rows, is_rr)
    else:
        draft.measure("throughput", None, "samples of several flows: not added up")
    return draft.done(place), i


def _take_samples(draft: Draft, rows: Sequence[Mapping[str, float]], is_rr: bool) -> None:
    first, last = rows[0], rows[-1]
    t0, t1 = first["time"], last["time"]
    if is_rr:
        draft.detail("transactions_cumulative_last", last["transactions"])
        draft.derive(
            "transaction_rate",
            "grown count over a difference of times",
            first["transactions"],
            last["transactions"],
            t0,
            t1,
        )
        draft.factors["latency_kind"] = "rtt"
        for name in ("latency_p50", "latency_p99"):
            draft.detail(f"{name}_s_last", last.get(name))
        worst = [row["latency_max"] for row in rows if "latency_max" in row]
        draft.measure("latency_max", max(worst) if worst else None, "no latency_max column")
        return
    draft.derive(
        "throughput",
        "grown bits over a difference of times",
        first.get("bytes_read"),
        last.get("bytes_read"),
        t0,
        t1,
    )
