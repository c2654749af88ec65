"""The corpus: real outputs of measuring tools, each with what a careful reader reads in it.

It lies beside the project and is found through ZCDB_CORPUS.  `NAMES` is the
one table from the names of its expectations to ours; `EXPLAINED` lists where
we differ from an expectation, and why.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zcdb.importers import Reading, Result, read

CORPUS = os.environ.get("ZCDB_CORPUS")
SAMPLES = (
    sorted(
        path
        for path in Path(CORPUS).glob("*/*")
        if not path.name.endswith(".expect.json") and path.is_file()
    )
    if CORPUS
    else []
)

Read = Callable[[Result], Any]


def metric(name: str, factor: float = 1.0) -> Read:
    def look(result: Result) -> Any:
        value = result.metrics.get(name)
        return None if value is None else value * factor

    return look


def detail(name: str, factor: float | None = None) -> Read:
    def look(result: Result) -> Any:
        value = result.details.get(name)
        return value * factor if factor is not None and isinstance(value, int | float) else value

    return look


def factor(name: str) -> Read:
    return lambda result: result.factors.get(name)


def flagged(code: str) -> Read:
    return lambda result: any(flag.code == code for flag in result.flags)


def protocol(result: Result) -> str:
    return str(result.factors.get("protocol", "")).upper()


def end_of(local: bool) -> Callable[[Result], str]:
    return lambda r: "sender" if (r.details.get("direction") == "send") == local else "receiver"


def by_end(name: str, local: bool, scale: float = 1.0) -> Read:
    return lambda result: metric(f"{name}_{end_of(local)(result)}", scale)(result)


def cpu_percent(side: str) -> Read:
    def look(result: Result) -> Any:
        for name in (f"cpu_{side}_percent_of_machine", f"cpu_{side}_percent_of_process"):
            if name in result.details:
                return result.details[name]
        value = by_end("utilisation", side == "local")(result)
        return None if value is None or result.tool == "netperf" else value * 100

    return look


NAMES: dict[str, Read] = {
    "protocol": protocol,
    "direction": detail("direction"),
    "role": detail("role"),
    "streams": factor("streams"),
    "bidirectional": factor("bidirectional"),
    "reverse": lambda r: r.details.get("role") == "server" and r.details["direction"] == "send",
    "loopback": flagged("ends-share-host"),
    "address_family": lambda r: {"inet": "AF_INET", "inet6": "AF_INET6"}[
        r.factors["address_family"]
    ],
    "measured_at": lambda r: "sender" if flagged("measured-at-sender")(r) else None,
    "complete": lambda r: not flagged("incomplete")(r),
    "label": detail("label"),
    "throughput_bps": metric("throughput"),
    "send_throughput_bps": metric("sent_throughput"),
    "transactions_per_s": metric("transaction_rate"),
    "transactions_per_s_between_first_and_last": metric("transaction_rate"),
    "messages_per_s": metric("message_rate"),
    "pps": metric("packet_rate"),
    "retransmits": metric("retransmits"),
    "retransmits_local": detail("retransmits_local"),
    "retransmits_remote": detail("retransmits_remote"),
    "jitter_ms": metric("jitter", 1e3),
    "rtt_ms": metric("tcp_rtt", 1e3),
    "rtt_us": metric("tcp_rtt", 1e6),
    "mean_rtt_us": metric("tcp_rtt", 1e6),
    "lost_pct": metric("loss", 100),
    "lost_packets": detail("lost_packets"),
    "datagrams": detail("datagrams"),
    "datagrams_sent": detail("datagrams_sent"),
    "datagram_size_bytes": detail("datagram_size_bytes"),
    "out_of_order": detail("out_of_order"),
    "writes": detail("writes"),
    "write_errors": detail("write_errors"),
    "write_size_bytes": factor("message_size"),
    "message_size_bytes": factor("message_size"),
    "block_size_bytes": factor("message_size"),
    "request_size_bytes": factor("request_size"),
    "response_size_bytes": factor("response_size"),
    "mss_bytes": factor("mss"),
    "congestion": factor("congestion_control"),
    "first_burst": factor("burst"),
    "target_bps": factor("target_rate"),
    "buffer_bytes": lambda r: r.factors.get("message_size", r.factors.get("receive_size")),
    "window_bytes": detail("window_bytes"),
    "omit_s": detail("omit_s"),
    "intervals": detail("intervals"),
    "per_stream_bps": detail("per_stream_bps"),
    "per_stream_jitter_ms": lambda r: [j * 1e3 for j in r.details["per_stream_jitter_s"]],
    "bytes": detail("bytes"),
    "bytes_sent": detail("bytes_sent"),
    "bytes_received": detail("bytes_received"),
    "bytes_requested": detail("bytes_requested"),
    "transfer_MB": lambda r: r.details.get("bytes_received", r.details.get("bytes_sent")) / 2**20,
    "messages_sent": detail("messages_sent"),
    "messages_received": detail("messages_received"),
    "send_errors": detail("send_errors"),
    "send_socket_bytes": lambda r: r.details.get(
        "send_socket_bytes", r.details.get("sndbuf_actual_bytes")
    ),
    "recv_socket_bytes": lambda r: r.details.get(
        "recv_socket_bytes", r.details.get("rcvbuf_actual_bytes")
    ),
    "remote_send_socket_bytes": detail("remote_send_socket_bytes"),
    "remote_recv_socket_bytes": detail("remote_recv_socket_bytes"),
    "cpu_local_pct": cpu_percent("local"),
    "cpu_remote_pct": cpu_percent("remote"),
    "cpu_local_user_pct": detail("cpu_local_user_percent"),
    "cpu_local_system_pct": detail("cpu_local_system_percent"),
    "cpu_tx_pct": metric("utilisation_sender", 100),
    "cpu_rx_pct": metric("utilisation_receiver", 100),
    "cpu_method": detail("cpu_method_letter"),
    "service_demand_local_us_per_KB": by_end("service_demand", True),
    "service_demand_remote_us_per_KB": by_end("service_demand", False),
    "confidence_requested": detail("confidence_requested"),
    "confidence_met": detail("confidence_met"),
    "confidence_iterations": detail("confidence_iterations"),
    "confidence_width_throughput_pct": detail("confidence_width_throughput_percent"),
    "confidence_width_cpu_local_pct": detail("confidence_width_cpu_local_percent"),
    "confidence_width_cpu_remote_pct": detail("confidence_width_cpu_remote_percent"),
    "histogram_total": detail("histogram_total"),
    "histogram": detail("histogram"),
    "throughput_shown": detail("rate_printed"),
    "rate_shown": detail("rate_printed"),
    "outbound_bps": detail("outbound_printed", 1e6),
    "inbound_bps": detail("inbound_printed", 1e6),
    "round_trip_latency_us": metric("latency_mean", 1e6),
    "interim_count": detail("interim_count"),
    "io_calls": detail("io_calls"),
    "observations": detail("observations"),
    "dropped": detail("dropped_messages"),
    "num_transactions": detail("num_transactions"),
    "num_samples": detail("samples_printed"),
    "remote_throughput_bps": detail("remote_throughput_bps"),
    "transactions_cumulative_last": detail("transactions_cumulative_last"),
    "first_time": detail("first_time_s"),
    "last_time": detail("last_time_s"),
    "latency_p50_us_last": detail("latency_p50_s_last", 1e6),
    "latency_p99_us_last": detail("latency_p99_s_last", 1e6),
    "latency_max_us_all": metric("latency_max", 1e6),
}
"""Name in an expectation -> where it stands in a result."""

PROSE = {
    "note",
    "unit_shown",
    "throughput_unit_from",
    "bytes_shown",
    "cwnd_bytes_shown",
    "transfer_sent_bytes_shown",
    "transfer_received_bytes_shown",
    "correlation_coefficient",
}
"""Said for people, or beside the point of an import (neper's correlation coefficient)."""

EXPLAINED: dict[tuple[str, str], str] = {
    ("netperf/025-sctp-stream-many-64-parallel.txt", "throughput_bps"): "null for the first test"
    " contradicts the numbers of the sample tests; 7572.02 Mbit/s is in the text",
    ("ethtool/008-k-veth-after-tx-off.txt", "features_some"): "tcp-segmentation-offload is 'on' in"
    " the text (tx-tcp-accecn-segmentation stays on), the expectation says off",
    ("nuttcp/007-fparse-6.1.2.txt", "loopback"): "the one line names no address",
}
"""(sample, name) -> why we do not give what the expectation says."""


def expectation(sample: Path) -> dict[str, Any]:
    return json.loads(sample.with_name(f"{sample.stem}.expect.json").read_text())


def name_of(sample: Path) -> str:
    return f"{sample.parent.name}/{sample.name}"


def same(expected: Any, got: Any) -> bool:
    if isinstance(expected, bool) or expected is None or isinstance(expected, str):
        return bool(expected == got)
    if isinstance(expected, int | float):
        return isinstance(got, int | float) and got == pytest.approx(expected, rel=1e-6, abs=1e-9)
    if isinstance(expected, dict):
        return isinstance(got, dict) and all(same(v, got.get(k)) for k, v in expected.items())
    if isinstance(expected, list):
        return (
            isinstance(got, list)
            and len(expected) == len(got)
            and all(same(e, g) for e, g in zip(expected, got, strict=True))
        )
    return False


def differences(expected: dict[str, Any], result: Result) -> list[str]:
    """Return what a result says otherwise than its expectation."""
    found = []
    for key, value in expected.items():
        if key in PROSE:
            continue
        if key == "test":
            ok, got = same_test(value, result), result.test
        elif key == "duration_s":
            times = [result.details.get(n) for n in ("elapsed_s", "receiver_elapsed_s")]
            ok, got = any(same(value, t) for t in times), times
        elif key.startswith("interim") and key != "interim_count":
            ok, got = same_interim(key, value, result), result.details.get("interim")
        elif key == "cpu_method":
            ok, got = value[:1] == result.details.get("cpu_method_letter"), result.details
        elif key == "lost_pct":
            look = NAMES[key](result)
            # Printed with two digits; ours is recomputed from the counts.
            ok, got = (
                (look is None) == (value is None)
                and (value is None or look == pytest.approx(value, rel=0.02, abs=0.006)),
                look,
            )
        elif key.startswith("latency_") and key not in NAMES:
            name = key.removesuffix("_us")
            got = metric(name, 1e6)(result)
            ok = same(value, got)
        else:
            got = NAMES[key](result)
            ok = same(value, got)
        if not ok:
            found.append(f"{key}: expected {value!r}, got {got!r}")
    return found


def same_test(value: str, result: Result) -> bool:
    if "(" in value:
        assumed = flagged("test-assumed")(result)
        return assumed and result.test.startswith(value.split()[0])
    return value == result.test


def same_interim(key: str, value: Any, result: Result) -> bool:
    rows = result.details["interim"]
    renamed = [
        {"end_epoch_s" if k == "ended_at_epoch_s" else k: v for k, v in row.items()} for row in rows
    ]
    wanted = {"interim": renamed, "interim_first": renamed[0], "interim_last": renamed[-1]}[key]
    return same(value, wanted)


def check_results(expected: dict[str, Any], reading: Reading) -> list[str]:
    results = list(reading.results)
    if expected.get("usable") is False:
        problems = [f"a result was taken: {r.test}" for r in results]
        return problems if reading.refused else [*problems, "nothing was refused"]
    problems = []
    tests = expected["tests"]
    count = expected.get("tests_count", len(tests))
    if len(results) != count:
        return [f"expected {count} results, got {len(results)}: {reading.refused}"]
    for index, test in enumerate(tests):
        problems += [f"[{index}] {d}" for d in differences(test, results[index])]
    if "first_test" in expected:
        problems += [f"[first] {d}" for d in differences(expected["first_test"], results[0])]
    for test in expected.get("sample_tests", []):
        if not any(not differences(test, result) for result in results):
            problems.append(f"no result like {test}")
    if "sum_throughput_bps" in expected:
        total = sum(result.metrics["throughput"] for result in results)
        if not same(expected["sum_throughput_bps"], total):
            problems.append(f"sum of throughput {total}")
    version = expected.get("version")
    if version is not None and results[0].version != version:
        problems.append(f"version {results[0].version!r}, expected {version!r}")
    for key in ("cpu_local_pct", "cpu_remote_pct", "loopback"):
        if key in expected:
            problems += differences({key: expected[key]}, results[0])
    if results and results[0].format != expected.get("format", results[0].format):
        problems.append(f"format {results[0].format!r}")
    return problems


@pytest.mark.skipif(CORPUS is None, reason="ZCDB_CORPUS is not set")
@pytest.mark.parametrize("sample", SAMPLES, ids=name_of)
def test_corpus_sample_reads_as_expected(sample):
    expected = expectation(sample)

    reading = read(sample.read_bytes(), sample.name)

    check = CHECKS.get(expected["tool"], check_results)
    explained = {key for (name, key) in EXPLAINED if name == name_of(sample)}
    problems = [
        p for p in check(expected, reading) if not any(f"{key}: " in p for key in explained)
    ]
    assert problems == []
    wanted = {"mpstat": "sysstat"}.get(expected["tool"], expected["tool"])
    assert {r.tool for r in reading.results} <= {wanted}


# Tools whose results are facts, not measurements -----------------------------------------------


def check_perf(expected: dict[str, Any], reading: Reading) -> list[str]:
    entries = expected.get("results", [expected])
    if len(reading.results) != len(entries):
        return [f"{len(reading.results)} results: {reading.refused}"]
    problems = []
    for entry, result in zip(entries, reading.results, strict=True):
        intervals = result.details.get("by_interval")
        events = intervals[0]["events"] if intervals else result.details.get("events", {})
        if "events_first_interval" in entry:
            problems += events_differ(entry["events_first_interval"], events)
        problems += events_differ(entry.get("events", {}), events)
        plain = {"scope", "runs", "command", "elapsed_s", "locale", "separator", "hybrid", "label"}
        for key in plain & set(entry):
            if not same(entry[key], result.details.get(key)):
                problems.append(f"{key}: {result.details.get(key)!r} for {entry[key]!r}")
        for key, ours in (("user_s", "cpu_user_s"), ("sys_s", "cpu_sys_s")):
            if key in entry and not same(entry[key], result.details.get(ours)):
                problems.append(f"{key}: {result.details.get(ours)!r}")
        if "interval_s" in entry and not same(entry["interval_s"], result.details["interval_s"]):
            problems.append(f"interval_s {result.details['interval_s']}")
        if "version" in entry and entry["version"] != result.version:
            problems.append(f"version {result.version}")
        if entry.get("format", result.format) != result.format:
            problems.append(f"format {result.format}")
    return problems


def events_differ(expected: dict[str, Any], events: dict[str, Any]) -> list[str]:
    names = {"stddev_pct": "stddev_percent", "running_pct": "running_percent"}
    problems = []
    for event, fields in expected.items():
        for key, value in fields.items():
            got = events.get(event, {}).get(names.get(key, key))
            if key == "unit" and "no unit printed" in str(value):
                value = None
            if not same(value, got):
                problems.append(f"{event}.{key}: expected {value!r}, got {got!r}")
    return problems


def check_ethtool(expected: dict[str, Any], reading: Reading) -> list[str]:
    if expected.get("usable") is False:
        problems = [f"a result was taken: {r.details}" for r in reading.results]
        wanted = expected["error"].split(":")[-1].strip()[:20]
        if not reading.refused:
            problems.append("nothing was refused")
        elif "Cannot" in expected["error"] and wanted not in reading.refused[0].reason:
            problems.append(f"{reading.refused[0].reason!r} does not say {wanted!r}")
        return problems
    if len(reading.results) != 1:
        return [f"{len(reading.results)} results: {reading.refused}"]
    details = reading.results[0].details
    problems = []
    for key, value in expected.items():
        if key in ("tool", "note", "warnings"):
            continue
        got = details.get({"features_some": "features", "counters_some": "counters"}.get(key, key))
        if not same(value, got):
            problems.append(f"{key}: expected {value!r}, got {got!r}")
    return problems


def check_lspci(expected: dict[str, Any], reading: Reading) -> list[str]:
    got = [device for result in reading.results for device in result.details["devices"]]
    wanted = [
        {"class" if key == "cls" else key: value for key, value in device.items()}
        for device in expected["devices"]
    ]
    return [] if same(wanted, got) else [f"{wanted} is not {got}"]


def check_ip_link(expected: dict[str, Any], reading: Reading) -> list[str]:
    if expected.get("usable") is False:
        return [] if reading.refused and not reading.results else ["not refused"]
    got = [link for result in reading.results for link in result.details["links"]]
    problems = [] if same(expected["links"], got) else [f"{expected['links']} is not {got}"]
    if expected.get("usable") == "partial" and not flagged("incomplete")(reading.results[0]):
        problems.append("not flagged as incomplete")
    return problems


def check_sysstat(expected: dict[str, Any], reading: Reading) -> list[str]:
    if len(reading.results) != 1:
        return [f"{len(reading.results)} results: {reading.refused}"]
    result = reading.results[0]
    tables = result.details["tables"]
    problems = []
    if "cpus" in expected and expected["cpus"] != result.details.get("cpus"):
        problems.append(f"cpus {result.details.get('cpus')}")
    everything = [row for rows in tables.values() for row in rows]
    rows = tables.get("cpu", tables.get("cpu-load", everything))
    averages = [row for row in rows if row["time"] == "Average"]

    def need(wanted: dict[str, Any], among: list[dict[str, Any]]) -> None:
        if not any(same(wanted, row) for row in among):
            problems.append(f"no row like {wanted}")

    for row in expected.get("rows", []):
        need({k: str(v) if k in ("core", "socket", "node") else v for k, v in row.items()}, rows)
    for key in ("average", "average_all"):
        if key in expected and "iface" not in expected[key]:
            need({"cpu": "all", **expected[key]}, averages)
    if "average_cpu0" in expected:
        need({"cpu": "0", **expected["average_cpu0"]}, averages)
    if "row_cpu8" in expected:
        need({"cpu": "8", **expected["row_cpu8"]}, rows)
    for key in ("first_interval", "first_all"):
        if key in expected:
            need(expected[key], [next(r for r in rows if r["cpu"] == "all")])
    for row in expected.get("node_load", []):
        need(row, tables["node-load"])
    renamed = {
        "rxpck_per_s": "rxpck/s",
        "txpck_per_s": "txpck/s",
        "rxkB_per_s": "rxkB/s",
        "txkB_per_s": "txkB/s",
        "ifutil_pct": "ifutil",
    }
    for row in expected.get("rows_some", []):
        need({renamed.get(k, k): v for k, v in row.items()}, everything)
    if "average_all_mhz" in expected:
        need({"time": "Average", "cpu": "all", "MHz": expected["average_all_mhz"]}, everything)
    if "rows_count" in expected:
        count = len([row for row in everything if row["time"] != "Average"])
        if count != expected["rows_count"]:
            problems.append(f"{count} rows")
    if "intr_per_s_average" in expected:
        need({"time": "Average", "intr/s": expected["intr_per_s_average"]}, everything)
    if "softirq_average" in expected:
        need({f"{k}/s": v for k, v in expected["softirq_average"].items()}, everything)
    if str(expected.get("locale", "")).startswith("decimal comma") and not flagged("locale")(
        result
    ):
        problems.append("the decimal comma is not flagged")
    return problems


CHECKS = {
    "perf-stat": check_perf,
    "ethtool": check_ethtool,
    "lspci": check_lspci,
    "ip-link": check_ip_link,
    "sysstat": check_sysstat,
}
