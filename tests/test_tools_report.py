"""A tool's own report, and a trial's record once everything unseen is taken out of it."""

from __future__ import annotations

import pytest
from runner_support import make_measured

from zcdb.factors import with_defaults
from zcdb.records import Flag, MetricValue, SampleSeries
from zcdb.runner.tool_ends import as_endpoints, finished
from zcdb.tools.report import comparison, disagrees, read_report

NETPERF = """\
MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 127.0.0.1 () port 9 AF_INET : demo
THROUGHPUT=8000.00
THROUGHPUT_UNITS=10^6bits/s
ELAPSED_TIME=2.00
PROTOCOL=TCP
"""
COMMAND = ["netperf", "-H", "127.0.0.1", "-l", "2", "-t", "TCP_STREAM"]


def test_a_report_is_read_through_the_importers():
    report = read_report("netperf", COMMAND, NETPERF)

    assert report["metrics"] == {"throughput": 8e9}
    assert report["elapsed_s"] == 2.0


def test_a_report_that_is_none_says_why():
    report = read_report("netperf", COMMAND, "connection refused\n")

    assert report == {"reason": "no output of a known tool was recognised"}


@pytest.mark.parametrize(
    ("sent_bytes", "is_apart"),
    [(2_000_000_000, False), (1_970_000_000, False), (1_900_000_000, True)],
)
def test_a_figure_is_held_against_the_bytes_of_the_sockets(sent_bytes, is_apart):
    compared = comparison(read_report("netperf", COMMAND, NETPERF), sent_bytes, None)

    assert compared["ours"] == sent_bytes * 4
    assert compared["tool"] == 8e9
    assert disagrees(compared) is is_apart


def test_exchanges_are_compared_by_requests():
    report = {"metrics": {"transaction_rate": 1000.0}, "elapsed_s": 3.0}

    compared = comparison(report, sent_bytes=300_000, request_bytes=100)

    assert (compared["metric"], compared["ours"], compared["ratio"]) == (
        "transaction_rate", 1000.0, 1.0,
    )  # fmt: skip


def test_nothing_is_compared_with_nothing():
    compared = comparison({"reason": "no output"}, 1000, None)

    assert compared == {"reason": "no output"}
    assert not disagrees(compared)


def filled(**factors):
    return with_defaults({"api": "write", **factors})


def started(sender: str = "sockets-to", receiver: str = "sockets-at"):
    return {
        "sender": {"effective": {"payload_counting": sender}, "differences": []},
        "receiver": {"effective": {"payload_counting": receiver}, "differences": []},
    }


def ending(**changes):
    report = {
        "command": COMMAND,
        "version": None,
        "runs": 1,
        "started_ns": 0,
        "ended_ns": 0,
        "output": "",
        "errors": "",
    }
    return {"totals": {"payload_bytes": 10**9}, "errors": [], "report": {**report, **changes}}


def measured(**changes):
    zeros = {"calls": 0, "copied": 0}
    values = {
        "measurements": [
            MetricValue("throughput", "", 8e9),
            MetricValue("sent_throughput", "", 8e9),
            MetricValue("call_rate", "", 0.0),
            MetricValue("retransmits", "", 3.0),
            MetricValue("copied_share", "", None, "write gives no notice"),
            MetricValue("utilisation_sender", "soak", 0.5),
            MetricValue("service_demand_sender", "soak", 2.0),
            MetricValue("utilisation_sender", "rusage", 0.25),
        ],
        "counts": {
            "window": {
                "sender": {"payload_bytes": 10**9, **zeros},
                "receiver": {"payload_bytes": 10**9, **zeros},
            }
        },
        "flags": [Flag("retransmits", "3 segments")],
        "samples": SampleSeries(
            {
                "start_ns": [0],
                "end_ns": [10**9],
                "kept": [1],
                "payload_bytes": [10**9],
                "sent_bytes": [10**9],
                "calls": [0],
                "retransmits": [3],
            }
        ),
        **changes,
    }
    return make_measured(**values)


def values_of(record):
    return {(value.metric, value.method): value for value in record.measurements}


def test_a_trial_of_zcdbs_own_is_left_as_it_is():
    before = measured()

    assert finished(before, filled(), started(), {}) is before
    assert as_endpoints(filled(api="splice")) == filled(api="splice")


def test_a_commands_calls_are_not_taken_from_what_the_case_states():
    stated = filled(tool="command", command="nc", api="sendfile")

    assert as_endpoints(stated)["api"] == "a foreign command"
    assert as_endpoints(filled(tool="iperf3", api="sendfile"))["api"] == "sendfile"


def test_what_cannot_be_seen_of_a_tool_is_not_measured_and_never_zero():
    record = finished(
        measured(), filled(tool="iperf3"), started(), {"sender": ending(), "receiver": ending()}
    )

    values = values_of(record)
    assert values["call_rate", ""].value is None
    assert "cannot be counted from outside" in str(values["call_rate", ""].reason)
    assert values["copied_share", ""].reason == values["call_rate", ""].reason
    assert record.samples.columns["calls"] == [None]
    assert record.counts["window"]["sender"] == {"payload_bytes": 10**9}
    assert values["throughput", ""].value == values["sent_throughput", ""].value == 8e9
    assert values["retransmits", ""].value == 3.0


def test_a_server_whose_connections_come_and_go_has_no_sent_figures():
    record = finished(
        measured(),
        filled(tool="nfs", api="nfs_read"),
        started("none", "written"),
        {"sender": ending(), "receiver": ending()},
    )

    values = values_of(record)
    assert values["sent_throughput", ""].value is None
    assert values["retransmits", ""].value is None
    assert record.samples.columns["sent_bytes"] == [None]
    assert [flag.code for flag in record.flags] == []


def test_an_end_where_nothing_of_ours_runs_has_no_process_time():
    record = finished(
        measured(),
        filled(tool="command", receiver_command="cp a b"),
        started("absent", "written"),
        {"sender": {**ending(), "report": {"command": None}}, "receiver": ending()},
    )

    values = values_of(record)
    assert values["utilisation_sender", "rusage"].value is None
    assert values["utilisation_sender", "soak"].value == 0.5


def test_rates_of_a_command_measured_whole_span_its_run():
    whole = ending(started_ns=10**9, ended_ns=10**9 + 250_000_000)

    record = finished(
        measured(),
        filled(tool="command", receiver_command="cp a b", command_bytes="1G"),
        started("absent", "whole"),
        {"sender": {**ending(), "report": {"command": None}}, "receiver": whole},
    )

    values = values_of(record)
    assert values["throughput", ""].value == 32e9
    assert values["utilisation_sender", "soak"].value == 2.0
    assert values["service_demand_sender", "soak"].value == 2.0


def test_an_exchange_is_told_in_transactions():
    window = {"sender": {"payload_bytes": 10**6}, "receiver": {"payload_bytes": 10**6}}

    record = finished(
        measured(counts={"window": window}),
        filled(tool="netperf", api="send", test="rr", request_size=100),
        started(),
        {"sender": ending(), "receiver": ending()},
    )

    values = values_of(record)
    assert values["transaction_rate", ""].value == 10_000
    assert values["transaction_demand_client", "soak"].value == pytest.approx(50.0)
    assert values["utilisation_client", "soak"].value == 0.5
    assert values["throughput", ""].value is None
    assert values["service_demand_sender", "soak"].value is None


def test_a_tools_words_are_kept_and_its_figure_is_compared():
    record = finished(
        measured(),
        filled(tool="netperf", api="send"),
        started(),
        {"sender": ending(output=NETPERF), "receiver": ending()},
    )

    tool = record.counts["tool"]
    assert tool["ends"]["sender"]["output"] == NETPERF
    assert tool["report"]["metrics"] == {"throughput": 8e9}
    assert tool["comparison"]["ratio"] == 2.0
    assert ("tool-disagrees", "throughput: netperf 8e+09, zcdb 4e+09") in [
        (flag.code, flag.detail) for flag in record.flags
    ]


def test_bytes_of_an_interface_are_flagged():
    record = finished(
        measured(),
        filled(tool="command", receiver_command="cp a b", command_bytes="interface"),
        started("absent", "interface"),
        {"sender": {**ending(), "report": {"command": None}}, "receiver": ending()},
    )

    assert "headers-included" in [flag.code for flag in record.flags]
