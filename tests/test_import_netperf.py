"""netperf in its five forms; the tables here are made up after its format strings."""

from __future__ import annotations

import pytest

from zcdb.importers import Result, read

STREAM_HEADER = """\
Recv   Send    Send                          Utilization       Service Demand
Socket Socket  Message  Elapsed              Send     Recv     Send    Recv
Size   Size    Size     Time     Throughput  local    remote   local   remote
bytes  bytes   bytes    secs.    {unit}  % {local}      % {remote}      us/KB   us/KB

"""
SHORT_HEADER = """\
Recv   Send    Send
Socket Socket  Message  Elapsed
Size   Size    Size     Time     Throughput
bytes  bytes   bytes    secs.    {unit}

"""


def banner(test: str, options: str = "") -> str:
    ends = "from 0.0.0.0 (0.0.0.0) port 0 AF_INET to hostB () port 0 AF_INET"
    return f"MIGRATED {test} TEST {ends}{options}\n"


def stream(row: str, unit: str = "10^6bits/s", local: str = "S", remote: str = "S") -> str:
    header = STREAM_HEADER.format(unit=unit, local=local, remote=remote)
    return banner("TCP STREAM") + header + row + "\n"


def only(text: str | bytes, command: str | None = None) -> Result:
    reading = read(text if isinstance(text, bytes) else text.encode(), "netperf.txt", command)
    assert [r.reason for r in reading.refused] == []
    assert len(reading.results) == 1
    return reading.results[0]


def codes(result: Result) -> set[str]:
    return {flag.code for flag in result.flags}


def reason(result: Result, metric: str) -> str | None:
    return next(m.reason for m in result.measurements if m.metric == metric)


@pytest.mark.parametrize(
    ("row", "sender_cpus", "receiver_cpus"),
    [
        # A uniprocessor sending to a dual core, 2006.
        ("87380 393216 393216 10.00 2163.08 100.00 19.35 3.787 1.466", 1, 2),
        ("87380 393216 393216 10.00 4367.18 71.54 42.07 1.342 1.578", 1, 2),
        ("87380 393216 393216 10.01 1882.73 86.15 18.43 3.749 1.604", 1, 2),
        ("87380 393216 393216 10.00 6961.08 47.69 60.11 0.561 1.415", 1, 2),
        ("87380 65536 65536 10.01 9333.00 28.98 75.23 0.254 1.321", 1, 2),
        # Two six-core processors with two threads each, 2014; the other end not measured.
        ("87380 16384 16384 10.00 9407.44 2.50 -1.00 0.522 -1.000", 24, None),
        ("87380 16384 16384 10.00 9412.45 2.15 -1.00 0.449 -1.000", 24, None),
    ],
)
def test_service_demand_and_utilisation_give_the_number_of_cpus(row, sender_cpus, receiver_cpus):
    result = only(stream(row))

    assert result.details["cpus_sender"] == sender_cpus
    assert result.details.get("cpus_receiver") == receiver_cpus
    assert "cpu-count-not-whole" not in codes(result)


def test_utilisation_is_cpu_seconds_a_second_not_a_share_of_the_machine():
    result = only(stream("87380 16384 16384 10.00 9407.44 2.50 -1.00 0.522 -1.000", remote="U"))

    assert result.metrics["utilisation_sender"] == pytest.approx(0.60, abs=0.001)
    assert result.details["cpu_local_percent_of_machine"] == 2.5
    assert "service_demand_receiver" not in result.metrics
    assert reason(result, "service_demand_receiver") == (
        "netperf prints -1: it did not measure this end"
    )
    method = next(m.method for m in result.measurements if m.metric == "service_demand_sender")
    assert method == "procstat"


def test_one_header_serves_the_rows_of_a_mail_with_their_labels():
    text = (
        "% netperf -Hrome -tTCP_SENDFILE -T,1 -c -C -- -s393216\n\nSome words.\n\n"
        + STREAM_HEADER.format(unit="10^6bits/s", local="S", remote="S")
        + "Without patch:\n87380 393216 393216 10.00 2163.08 100.00 19.35 3.787 1.466\n"
        + "With patch:\n87380 393216 393216 10.01 1882.73 86.15 18.43 3.749 1.604\n"
    )

    results = read(text.encode(), "mail").results

    assert [r.details["label"] for r in results] == ["Without patch", "With patch"]
    assert [r.test for r in results] == ["TCP_SENDFILE", "TCP_SENDFILE"]
    assert [r.factors["api"] for r in results] == ["sendfile", "sendfile"]
    assert [r.metrics["throughput"] for r in results] == [2163.08e6, 1882.73e6]
    assert results[1].span.first_line == results[1].span.last_line == 13


def test_numbers_run_together_are_refused_not_taken_apart():
    reading = read(stream("87380 16384 1638410.00 9407.44 2.50 -1.000.522 -1.000").encode(), "x")

    assert reading.results == ()
    assert "run together" in reading.refused[0].reason


def test_a_row_cut_in_the_middle_is_refused():
    reading = read(stream(" 87380  16384  16384    10.00      9400.12   2.50     5.").encode(), "x")

    assert reading.results == ()
    assert len(reading.refused) == 1
    assert "7 numbers where the columns ask for 9" in reading.refused[0].reason


def test_maerts_takes_the_ends_from_the_column_words():
    text = banner("TCP MAERTS") + STREAM_HEADER.format(
        unit="10^6bits/s", local="S", remote="S"
    ).replace("Send     Recv     Send    Recv", "Recv     Send     Recv    Send")

    result = only(
        text + "131072  16384  16384    10.00      9400.12   5.20     2.50     0.363   0.174\n"
    )

    assert result.details["direction"] == "recv"
    assert result.metrics["service_demand_receiver"] == 0.363
    assert result.metrics["service_demand_sender"] == 0.174
    assert (result.details["cpus_receiver"], result.details["cpus_sender"]) == (8, 8)


@pytest.mark.parametrize(
    ("unit", "printed", "bps"),
    [
        ("10^3bits/s", "9400120.00", 9400.12e6),
        ("10^6bits/sec", "9400.12", 9400.12e6),
        ("10^9bits/s", "9.40", 9.40e9),
        ("KBytes/s", "1147475.59", 1147475.59 * 2**10 * 8),
        ("MBytes  /s", "1120.58", 1120.58 * 2**20 * 8),
        ("GBytes/sec", "1.09", 1.09 * 2**30 * 8),
    ],
)
def test_the_unit_of_throughput_is_the_one_in_the_header(unit, printed, bps):
    text = banner("TCP STREAM") + SHORT_HEADER.format(unit=unit)

    result = only(text + f" 87380  16384  16384    10.00    {printed}   \n")

    assert result.metrics["throughput"] == pytest.approx(bps, rel=1e-12)
    assert result.metrics.keys() == {"throughput"}


def test_bits_of_dash_f_b_are_bytes():
    text = banner("TCP STREAM") + SHORT_HEADER.format(unit="10^0bits/s")

    result = only(text + " 87380  16384  16384    10.00    1175015000.00   \n")

    assert result.metrics["throughput"] == 9400.12e6
    assert "unit-mislabelled" in codes(result)


def test_a_table_without_a_unit_is_refused():
    text = banner("TCP STREAM") + SHORT_HEADER.format(unit="")

    reading = read((text + " 87380  16384  16384    10.00      9400.12\n").encode(), "x")

    assert reading.results == ()
    assert "without a unit" in reading.refused[0].reason


def test_a_cpu_method_that_netperf_does_not_know_gives_no_figure():
    row = "87380 16384 16384 10.00 9400.12 2.50 5.20 0.174 0.363"

    result = only(stream(row, remote="U"))

    assert result.metrics["service_demand_sender"] == 0.174
    assert "service_demand_receiver" not in result.metrics
    assert "cpu-method-unknown" in codes(result)


def test_an_impossible_utilisation_drops_both_figures_of_that_end():
    result = only(stream("87380 16384 16384 10.00 142.22 -3014.82 5.20 -414.029 0.363"))

    assert "service_demand_sender" not in result.metrics
    assert "utilisation_sender" not in result.metrics
    assert "cpu-not-believable" in codes(result)


def test_cpus_that_are_no_whole_number_are_flagged():
    result = only(stream("87380 16384 16384 10.00 9400.12 25.00 52.00 1.000 3.630"))

    assert "cpu-count-not-whole" in codes(result)
    assert "cpus_sender" not in result.details


def test_request_response_with_cpu_gives_demand_by_transaction():
    text = banner("TCP REQUEST/RESPONSE", " : first burst 0") + (
        "Local /Remote\n"
        "Socket Size   Request Resp.  Elapsed Trans.   CPU    CPU    S.dem   S.dem\n"
        "Send   Recv   Size    Size   Time    Rate     local  remote local   remote\n"
        "bytes  bytes  bytes   bytes  secs.   per sec  % S    % S    us/Tr   us/Tr\n\n"
        "16384  131072 1       1      10.00   21000.50  3.10   4.00   11.809  15.238\n"
        "16384  131072\n"
    )

    result = only(text)

    assert result.metrics["transaction_rate"] == 21000.5
    assert result.metrics["transaction_demand_client"] == 11.809
    assert result.metrics["transaction_demand_server"] == 15.238
    assert (result.details["cpus_client"], result.details["cpus_server"]) == (8, 8)
    assert result.details["remote_recv_socket_bytes"] == 131072
    assert "service_demand_sender" not in result.metrics


UDP = """\
Socket  Message  Elapsed      Messages
Size    Size     Time         Okay Errors   Throughput
bytes   bytes    secs            #      #   10^6bits/sec

212992    1472   10.00      800000      0     942.08
"""


def test_udp_without_the_receivers_row_says_only_what_was_sent():
    result = only(banner("UDP STREAM") + UDP)

    assert result.metrics == {"sent_throughput": 942.08e6}
    assert reason(result, "throughput") == "the receiver's row is missing"
    assert "incomplete" in codes(result)


def test_udp_rates_are_checked_against_the_messages():
    good = only(
        banner("UDP STREAM") + UDP + "212992           10.00      790000            930.30\n"
    )
    bad = only(
        banner("UDP STREAM")
        + UDP.replace("800000", "900000")
        + "212992           10.00      790000            930.30\n"
    )

    assert good.metrics["throughput"] == 930.3e6
    assert "rate-contradicts" not in codes(good)
    assert "rate-contradicts" in codes(bad)


KEYVAL = """\
OMNI Send TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 192.0.2.2 () port 0 AF_INET
THROUGHPUT=9400.12
THROUGHPUT_UNITS=10^6bits/s
ELAPSED_TIME=10.00
LOCAL_SEND_SIZE=16384
LOCAL_CPU_UTIL=2.50
LOCAL_CPU_METHOD=S
LOCAL_CPU_COUNT=8
LOCAL_SD=0.174
REMOTE_CPU_UTIL=-1.00
REMOTE_SD=-1.000
SD_UNITS=usec/KB
LOCAL_TRANSPORT_RETRANS=3
REMOTE_TRANSPORT_RETRANS=-1
LOCAL_SYSNAME=
COMMAND_LINE=netperf -t omni -- -k all
NETPERF_INTERIM_RESULT[0]=9398.41
NETPERF_UNITS[0]=10^6bits/s
NETPERF_INTERVAL[0]=1.001
NETPERF_ENDING[0]=1700000001.234
"""


def test_keyval_gives_ends_counts_and_interim_values():
    result = only(KEYVAL)

    assert (result.format, result.test) == ("keyval", "OMNI")
    assert result.metrics["throughput"] == 9400.12e6
    assert result.metrics["utilisation_sender"] == pytest.approx(0.2)
    assert result.metrics["service_demand_sender"] == 0.174
    assert result.metrics["retransmits"] == 3
    assert "service_demand_receiver" not in result.metrics
    assert "retransmits_remote" not in result.details
    assert result.details["interim"] == [{"throughput_bps": 9398.41e6, "interval_s": 1.001}]
    assert result.details["other"]["COMMAND_LINE"] == "netperf -t omni -- -k all"


def test_two_keyval_outputs_in_a_row_are_two_results():
    text = "THROUGHPUT=1.00\nTHROUGHPUT_UNITS=10^6bits/s\n" * 2

    results = read(text.encode(), "x").results

    assert [r.metrics["throughput"] for r in results] == [1e6, 1e6]


def test_throughput_without_its_unit_is_not_guessed():
    result = only("THROUGHPUT=75.78\nELAPSED_TIME=10.00\n")

    assert result.metrics == {}
    assert "the unit is not guessed" in str(reason(result, "throughput"))


def test_the_given_command_line_supplies_the_unit():
    result = only("THROUGHPUT=75.78\nELAPSED_TIME=10.00\n", command="netperf -f m -- -k THROUGHPUT")

    assert result.metrics["throughput"] == 75.78e6
    assert "unit-from-command" in codes(result)


def test_rows_without_any_header_are_read_only_with_their_command_line():
    row = b" 87380  16384  16384    10.00      9400.12\n"

    with_command = read(row, "x", command="netperf -P 0 -H hostB -t TCP_SENDFILE -F file")
    without = read(row, "x")

    assert with_command.results[0].test == "TCP_SENDFILE"
    assert with_command.results[0].metrics["throughput"] == 9400.12e6
    assert without.results == ()


CSV = (
    "Throughput,Throughput Units,Elapsed Time (sec),Local CPU Util %,Local CPU Util Method,"
    "Local Service Demand,Service Demand Units,Something New\n"
    "9400.12,10^6bits/s,10.00,2.50,S,0.174,usec/KB,7\n"
)


def test_csv_columns_are_told_by_their_titles_and_unknown_ones_are_kept():
    result = only(banner("TCP STREAM") + CSV)

    assert result.format == "csv"
    assert result.metrics["service_demand_sender"] == 0.174
    assert result.details["cpus_sender"] == 8
    assert result.details["other"] == {"Something New": 7.0}


def test_human_titles_are_put_together_by_their_columns():
    text = (
        "OMNI Send TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 192.0.2.2 () port 0 AF_INET\n"
        "Local       Elapsed Throughput Throughput  Local   Local\n"
        "Send        Time               Units       CPU     Service\n"
        "Size        (sec)                          Util    Demand\n"
        "                                           %\n"
        "16384       10.00   9400.12    10^6bits/s  2.50    0.174\n"
    )

    result = only(text)

    assert result.format == "human"
    assert result.metrics["throughput"] == 9400.12e6
    assert result.factors["message_size"] == 16384
    assert result.details["elapsed_s"] == 10.0


def test_a_confidence_warning_belongs_to_the_table_behind_it():
    warning = (
        "!!! WARNING\n!!! Desired confidence was not achieved within the specified iterations.\n"
        "!!! Confidence intervals: Throughput      : 6.237%\n"
        "!!!                       Local CPU util  : 12.1%\n"
    )
    first = stream("87380 16384 16384 10.00 9400.12 2.50 5.20 0.174 0.363")
    head, rest = first.split("\n", 1)

    results = read((first + head + "\n" + warning + rest).encode(), "x").results

    assert "confidence-not-met" not in codes(results[0])
    assert results[1].details["confidence_width_throughput_percent"] == 6.237
    assert results[1].details["confidence_met"] is False


def test_a_failed_test_is_refused_with_what_netperf_said():
    text = (
        banner("UDP STREAM")
        + "send_data: data send error: errno 90\nudp_send: data send error: x\n"
    )

    reading = read(text.encode(), "x")

    assert reading.results == ()
    assert "data send error" in reading.refused[0].reason
    assert reading.refused[0].span.first_line == 1


@pytest.mark.parametrize("form", ["crlf", "quoted", "indented", "ansi", "nul", "utf16"])
def test_the_same_table_reads_the_same_in_any_wrapping(form):
    plain = stream(" 87380  16384  16384    10.00      9400.12   2.50     5.20     0.174   0.363")
    wrapped = {
        "crlf": plain.replace("\n", "\r\n").encode(),
        "quoted": "".join(f"> > {line}\n" for line in plain.splitlines()).encode(),
        "indented": "".join(f"      {line}\n" for line in plain.splitlines()).encode(),
        "ansi": plain.replace("9400.12", "\x1b[1m9400.12\x1b[0m").encode(),
        "nul": plain.replace("Elapsed", "Elapsed\0\0").encode(),
        "utf16": plain.encode("utf-16"),
    }[form]

    result = only(wrapped)

    assert result.metrics == only(plain).metrics
    assert (result.span.first_line, result.span.last_line) == (1, 7)


def test_a_table_wrapped_by_a_mail_program_is_read_if_just_the_missing_columns_follow():
    text = stream("87380 16384 16384 10.00 9400.12 2.50 5.20 0.174\n0.363")

    assert only(text).metrics["service_demand_receiver"] == 0.363


def test_a_test_that_gave_nothing_does_not_name_the_next_ones_table():
    second = stream("87380 16384 16384 10.00 9400.12 2.50 5.20 0.174 0.363")

    reading = read((banner("TCP SENDFILE") + "^C\n" + second).encode(), "x")

    assert [r.test for r in reading.results] == ["TCP_STREAM"]
    assert "banner-unknown" not in codes(reading.results[0])
    assert "announced TCP_SENDFILE" in reading.refused[0].reason


def test_tests_that_ran_side_by_side_are_flagged_because_nobody_knows_which_is_which():
    tables = SHORT_HEADER.format(unit="10^6bits/s") + " 87380  16384  16384    10.00    {}\n"
    text = banner("TCP STREAM") * 2 + tables.format(1.5) + tables.format(2.5)

    results = read(text.encode(), "x").results

    assert [r.metrics["throughput"] for r in results] == [1.5e6, 2.5e6]
    assert all("banner-unknown" in codes(r) and "peer" not in r.details for r in results)
