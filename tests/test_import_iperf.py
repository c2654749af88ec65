"""iperf 2 and iperf 3; texts made up after their format strings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zcdb.importers import Result, read


def results(text: str, command: str | None = None) -> list[Result]:
    reading = read(text.encode(), "x", command)
    assert [r.reason for r in reading.refused] == []
    return list(reading.results)


def codes(result: Result) -> set[str]:
    return {flag.code for flag in result.flags}


# iperf 3, JSON ---------------------------------------------------------------------------------


def document(**changes: Any) -> dict[str, Any]:
    """A TCP client's result; `changes` replace top-level keys."""
    interval = {"seconds": 1.0, "bytes": 1_175_000_000, "bits_per_second": 9.4e9, "omitted": False}
    base = {
        "start": {
            "connected": [{"local_host": "192.0.2.1", "remote_host": "192.0.2.2"}],
            "version": "iperf 3.17",
            "cookie": "abc",
            "test_start": {
                "protocol": "TCP",
                "num_streams": 1,
                "blksize": 131072,
                "omit": 0,
                "reverse": 0,
            },
        },
        "intervals": [{"streams": [], "sum": interval} for _ in range(10)],
        "end": {
            "streams": [{"sender": {"mean_rtt": 180}, "receiver": {}}],
            "sum_sent": {
                "seconds": 10.0,
                "bytes": 11_750_000_000,
                "bits_per_second": 9.4e9,
                "retransmits": 4,
            },
            "sum_received": {
                "seconds": 10.0,
                "bytes": 11_749_000_000,
                "bits_per_second": 9.3992e9,
            },
            "cpu_utilization_percent": {
                "host_total": 31.2,
                "host_user": 1.1,
                "host_system": 30.1,
                "remote_total": 55.0,
                "remote_user": 2.0,
                "remote_system": 53.0,
            },
        },
    }
    return {**base, **changes}


def reversed_document() -> dict[str, Any]:
    changed = document()
    changed["start"]["test_start"]["reverse"] = 1
    return changed


def test_what_arrived_is_the_throughput_and_what_was_written_stands_beside_it():
    (result,) = results(json.dumps(document()))

    assert result.metrics["throughput"] == 9.3992e9
    assert result.metrics["sent_throughput"] == 9.4e9
    assert result.metrics["retransmits"] == 4
    assert result.metrics["tcp_rtt"] == pytest.approx(180e-6)
    assert result.version == "3.17"


def test_process_cpu_never_becomes_service_demand():
    (result,) = results(json.dumps(document()))

    assert result.metrics["utilisation_sender"] == pytest.approx(0.312)
    assert result.metrics["utilisation_receiver"] == pytest.approx(0.55)
    methods = {m.metric: m.method for m in result.measurements}
    assert methods["utilisation_sender"] == methods["utilisation_receiver"] == "rusage"
    assert not any(name.startswith("service_demand") for name in result.metrics)
    assert "process-cpu" in codes(result)


def test_in_reverse_mode_the_local_cpu_is_the_receivers():
    (result,) = results(json.dumps(reversed_document()))

    assert result.details["direction"] == "recv"
    assert result.metrics["utilisation_receiver"] == pytest.approx(0.312)
    assert result.metrics["utilisation_sender"] == pytest.approx(0.55)


@pytest.mark.parametrize(
    ("command", "api"),
    [
        ("iperf3 -c 192.0.2.2 -Z -J", "sendfile"),
        ("iperf3 -c 192.0.2.2 -JZ", "sendfile"),
        ("iperf3 -c 192.0.2.2 --zerocopy -J", "sendfile"),
        ("iperf3 -c 192.0.2.2 -J", "write"),
        (None, None),
    ],
)
def test_only_the_command_line_tells_the_api(command, api):
    (result,) = results(json.dumps(document()), command)

    assert result.factors.get("api") == api
    assert ("api-unknown" in codes(result)) == (api is None)


def test_a_command_above_the_json_is_found():
    (result,) = results(f"$ iperf3 -c 192.0.2.2 -Z -J\n{json.dumps(document(), indent=1)}\n")

    assert result.factors["api"] == "sendfile"
    assert result.span.first_line == 2


def test_the_same_run_twice_is_recorded_once():
    text = json.dumps(document())

    reading = read((text + text).encode(), "x")

    assert len(reading.results) == 1
    assert "the same run again (cookie abc)" in reading.refused[0].reason
    assert reading.refused[0].span.first_byte == len(text)


def test_two_runs_without_anything_between_are_two_results():
    other = document()
    other["start"]["cookie"] = "def"

    assert len(results(json.dumps(document()) + json.dumps(other))) == 2


def test_a_receiver_that_was_never_heard_of_is_not_zero():
    silent = document(error="interrupt - the client has terminated")
    silent["end"]["sum_received"] = {"seconds": 10.0, "bytes": 0, "bits_per_second": 0}
    silent["end"]["cpu_utilization_percent"] |= {
        "remote_total": 0,
        "remote_user": 0,
        "remote_system": 0,
    }

    (result,) = results(json.dumps(silent))

    assert "throughput" not in result.metrics
    assert "utilisation_receiver" not in result.metrics
    assert result.metrics["sent_throughput"] == 9.4e9
    assert "incomplete" in codes(result)


def test_an_error_without_an_interval_is_refused_with_its_words():
    reading = read(
        json.dumps(document(intervals=[], end={}, error="error - unable to connect")).encode(), "x"
    )

    assert reading.results == ()
    assert reading.refused[0].reason.startswith("iperf3 failed: unable to connect")


def test_a_cut_document_gives_the_intervals_that_are_whole():
    text = json.dumps(document(), indent=1)
    cut = text[: text.index('"end"') - 200]

    (result,) = results(cut)

    assert "throughput" not in result.metrics
    assert result.metrics["sent_throughput"] == pytest.approx(9.4e9)
    assert result.details["intervals"] == 9
    assert "incomplete" in codes(result)
    assert result.derivations["sent_throughput"].rule == "summed bits over summed times"


@pytest.mark.parametrize("damage", ["-nan", "nan", "inf", "-inf"])
def test_nan_of_printf_is_no_value(damage):
    text = json.dumps(document()).replace("9399200000.0", damage)

    (result,) = results(text)

    assert "throughput" not in result.metrics
    assert "not-a-number" in codes(result)


def test_an_exponent_with_a_blank_is_read():
    text = json.dumps(document()).replace("9399200000.0", "9.3992e 09")

    (result,) = results(text)

    assert result.metrics["throughput"] == 9.3992e9


def test_keys_that_occur_twice_are_flagged_and_the_last_is_taken():
    text = json.dumps(document()).replace('"blksize": 131072', '"blksize": 1, "blksize": 131072')

    (result,) = results(text)

    assert result.factors["message_size"] == 131072
    assert "duplicate-keys" in codes(result)


def test_an_impossible_cpu_figure_is_left_out_and_the_rate_stays():
    mad = document()
    mad["end"]["cpu_utilization_percent"]["host_total"] = 58214093.4

    (result,) = results(json.dumps(mad))

    assert "utilisation_sender" not in result.metrics
    assert result.metrics["throughput"] == 9.3992e9
    assert "cpu-not-believable" in codes(result)


def test_a_rate_that_its_bytes_and_times_do_not_give_is_flagged():
    odd = document()
    odd["end"]["sum_received"]["bytes"] = 5_000_000_000

    (result,) = results(json.dumps(odd))

    assert "rate-contradicts" in codes(result)


def udp(**summary: Any) -> str:
    base = document(intervals=[])
    base["start"]["test_start"]["protocol"] = "UDP"
    base["end"] = {
        "sum": {
            "seconds": 10.0,
            "bytes": 1_250_000_000,
            "bits_per_second": 1e9,
            "jitter_ms": 0.015,
            "lost_packets": 2,
            "packets": 10_000,
            **summary,
        }
    }
    return json.dumps(base)


def test_the_old_udp_sum_is_the_sent_rate():
    (result,) = results(udp(sender=True))

    assert result.metrics["sent_throughput"] == 1e9
    assert "throughput" not in result.metrics
    assert result.metrics["loss"] == pytest.approx(0.0002)
    assert result.metrics["jitter"] == pytest.approx(15e-6)


def test_a_sum_that_says_it_is_the_senders_stays_the_senders():
    (result,) = results(udp(lost_packets=0, sender=True))

    assert result.metrics["sent_throughput"] == 1e9
    assert "throughput" not in result.metrics


def test_with_nothing_lost_all_that_was_sent_arrived():
    (result,) = results(udp(lost_packets=0))

    assert result.metrics["throughput"] == 1e9


def test_more_lost_than_sent_is_no_loss_figure():
    (result,) = results(udp(lost_packets=20_000))

    assert "loss" not in result.metrics
    assert "throughput" not in result.metrics
    assert "loss-impossible" in codes(result)


def test_a_json_stream_is_one_result():
    whole = document()
    events = [
        {"event": "start", "data": whole["start"]},
        *({"event": "interval", "data": item} for item in whole["intervals"]),
        {"event": "end", "data": whole["end"]},
    ]

    (result,) = results("\n".join(json.dumps(event) for event in events))

    assert result.format == "json-stream"
    assert result.metrics["throughput"] == 9.3992e9
    assert result.details["intervals"] == 10


def test_json_inside_quoted_mail_is_read_with_its_lines():
    quoted = "\n".join("> " + line for line in json.dumps(document(), indent=1).splitlines())

    (result,) = results(f"He wrote:\n{quoted}\nBye\n")

    assert result.metrics["throughput"] == 9.3992e9
    assert result.span.first_line == 2


# iperf 3, text ---------------------------------------------------------------------------------

IPERF3 = """\
Connecting to host 192.0.2.2, port 5201
[  5] local 192.0.2.1 port 40000 connected to 192.0.2.2 port 5201
[ ID] Interval           Transfer     {rate}         Retr  Cwnd
[  5]   0.00-1.00   sec  1.09 GBytes  9.39 Gbits/sec    0   1.52 MBytes       (omitted)
[  5]   0.00-1.00   sec  1.09 GBytes  9.40 Gbits/sec    0   1.52 MBytes
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     {rate}         Retr
[  5]   0.00-10.00  sec  10.9 GBytes  9.40 Gbits/sec    7             sender
[  5]   0.00-10.04  sec  10.9 GBytes  9.39 Gbits/sec                  receiver

iperf Done.
"""


@pytest.mark.parametrize("word", ["Bitrate", "Bandwidth"])
def test_text_summary_rows_give_both_ends(word):
    (result,) = results(IPERF3.format(rate=word))

    assert result.metrics["throughput"] == 9.39e9
    assert result.metrics["sent_throughput"] == 9.40e9
    assert result.metrics["retransmits"] == 7
    assert result.details["intervals"] == 1
    assert result.details["omit_s"] == 1.0


def test_two_runs_in_one_log_are_two_results():
    assert len(results(IPERF3.format(rate="Bitrate") * 2)) == 2


def test_a_run_that_was_cut_before_its_summary_gives_what_its_intervals_say():
    text = IPERF3.format(rate="Bitrate").partition("- - -")[0]

    (result,) = results(text)

    assert result.metrics.keys() == {"sent_throughput"}
    assert result.metrics["sent_throughput"] == pytest.approx(1.09 * 2**30 * 8)
    assert "incomplete" in codes(result)


@pytest.mark.parametrize(
    ("printed", "bps"),
    [
        ("9390000000 bits/sec", 9.39e9),
        ("9390 Mbits/sec", 9.39e9),
        ("1093 MBytes/sec", 1093 * 2**20 * 8),
        ("1.09 GBytes/sec", 1.09 * 2**30 * 8),
    ],
)
def test_rates_in_bits_count_in_thousands_and_in_bytes_in_1024(printed, bps):
    text = IPERF3.format(rate="Bitrate").replace("9.39 Gbits/sec   ", printed)

    (result,) = results(text)

    assert result.metrics["throughput"] == pytest.approx(bps)


def test_an_unreachable_server_is_refused():
    reading = read(b"iperf3: error - unable to connect to server: Connection refused\n", "x")

    assert reading.refused[0].reason == (
        "iperf3 failed: unable to connect to server: Connection refused"
    )


def test_several_streams_are_taken_from_the_sum_row_only():
    text = IPERF3.format(rate="Bitrate").replace(
        "\niperf Done.",
        "[  7]   0.00-10.00  sec  10.9 GBytes  9.40 Gbits/sec    1             sender\n"
        "[  7]   0.00-10.04  sec  10.9 GBytes  9.39 Gbits/sec                  receiver\n"
        "[SUM]   0.00-10.00  sec  21.8 GBytes  18.8 Gbits/sec    8             sender\n"
        "[SUM]   0.00-10.04  sec  21.8 GBytes  18.7 Gbits/sec                  receiver\n"
        "\niperf Done.",
    )

    (result,) = results(text)

    assert result.metrics["throughput"] == 18.7e9
    assert result.metrics["retransmits"] == 8
    assert result.factors["streams"] == 2
    assert result.details["per_stream_bps"] == [9.39e9, 9.39e9]


# iperf 2 ---------------------------------------------------------------------------------------

CLIENT = """\
------------------------------------------------------------
Client connecting to 192.0.2.2, TCP port 5001
TCP window size: 85.0 KByte (default)
------------------------------------------------------------
[  3] local 192.0.2.1 port 40000 connected with 192.0.2.2 port 5001
[ ID] Interval       Transfer     Bandwidth
[  3]  0.0-10.0 sec  10.9 GBytes  9.40 Gbits/sec
"""
SERVER = """\
Server listening on TCP port 5001
TCP window size:  128 KByte (default)
[  4] local 192.0.2.2 port 5001 connected with 192.0.2.1 port 40000
[ ID] Interval       Transfer     Bandwidth
[  4]  0.0-10.0 sec  10.9 GBytes  9.40 Gbits/sec
[  5] local 192.0.2.2 port 5001 connected with 192.0.2.1 port 40002
[  5]  0.0-10.1 sec  1.09 GBytes  0.93 Gbits/sec
"""


def test_an_iperf2_client_says_what_it_wrote():
    (result,) = results(CLIENT)

    assert result.metrics["throughput"] == 9.40e9
    assert "measured-at-sender" in codes(result)


def test_an_iperf2_server_says_what_arrived_of_each_client():
    first, second = results(SERVER)

    assert (first.metrics["throughput"], second.metrics["throughput"]) == (9.40e9, 0.93e9)
    assert "measured-at-sender" not in codes(first) | codes(second)
    assert second.details["role"] == "server"


def test_iperf2_intervals_without_a_total_give_their_own_rate():
    text = CLIENT.rsplit("[  3]", 1)[0] + (
        "[  3]  0.0- 1.0 sec  1.09 GBytes  9.40 Gbits/sec\n"
        "[  3]  1.0- 2.0 sec  1.09 GBytes  9.40 Gbits/sec\n"
    )

    (result,) = results(text)

    assert result.metrics["throughput"] == pytest.approx(2 * 1.09 * 2**30 * 8 / 2)
    assert "incomplete" in codes(result)


def test_iperf2_intervals_with_a_gap_give_no_rate():
    text = CLIENT.rsplit("[  3]", 1)[0] + (
        "[  3]  0.0- 1.0 sec  1.09 GBytes  9.40 Gbits/sec\n"
        "[  3]  4.0- 5.0 sec  1.09 GBytes  9.40 Gbits/sec\n"
    )

    (result,) = results(text)

    assert result.metrics == {}


def test_iperf2_rates_that_their_bytes_do_not_give_are_flagged():
    (result,) = results(CLIENT.replace("10.9 GBytes", "1.09 GBytes"))

    assert "rate-contradicts" in codes(result)


def test_iperf2_csv_takes_the_servers_report_of_a_udp_client():
    text = (
        "20240101120000.123,192.0.2.1,40000,192.0.2.2,5001,3,0.0-10.0,12524400,10019520\n"
        "20240101120000.456,192.0.2.2,5001,192.0.2.1,40000,3,0.0-10.0,12500000,10000000,0.5,17,8520,"
        "0.2,0\n"
    )

    (result,) = results(text)

    assert result.metrics["sent_throughput"] == 10019520
    assert result.metrics["throughput"] == 10000000
    assert result.metrics["jitter"] == 0.0005
    assert result.metrics["loss"] == pytest.approx(17 / 8520)


def test_a_cut_iperf2_csv_row_is_refused():
    reading = read(b"20240101120000,192.0.2.1,40000,192.0.2.2,5001,3,0.0-10.0,1252\n", "x")

    assert reading.results == ()
    assert "cut off" in reading.refused[0].reason


def test_iperf2_and_iperf3_in_one_file_are_told_apart():
    text = CLIENT + IPERF3.format(rate="Bitrate") + SERVER

    found = results(text)

    assert [r.tool for r in found] == ["iperf2", "iperf3", "iperf2", "iperf2"]
