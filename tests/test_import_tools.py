"""nuttcp, ttcp, neper, sockperf and uperf; texts made up after their format strings."""

from __future__ import annotations

import pytest

from zcdb.importers import Result, read


def only(text: str, command: str | None = None) -> Result:
    reading = read(text.encode(), "x", command)
    assert [r.reason for r in reading.refused] == []
    (result,) = reading.results
    return result


def codes(result: Result) -> set[str]:
    return {flag.code for flag in result.flags}


# nuttcp ----------------------------------------------------------------------------------------


def test_nuttcp_mb_are_binary_and_mbps_decimal():
    result = only(
        "11205.6732 MB /  10.00 sec = 9400.0000 Mbps 38 %TX 71 %RX 0 retrans 0.21 msRTT\n"
    )

    assert result.metrics["throughput"] == 9400e6
    assert result.metrics["utilisation_sender"] == 0.38
    assert result.metrics["utilisation_receiver"] == 0.71
    assert result.metrics["tcp_rtt"] == 0.00021
    assert result.details["bytes_received"] == pytest.approx(11205.6732 * 2**20)
    assert "rate-contradicts" not in codes(result)


def test_nuttcp_flags_a_rate_that_its_bytes_do_not_give():
    result = only("11205.6732 MB /  10.00 sec = 940.0000 Mbps 38 %TX 71 %RX\n")

    assert "rate-contradicts" in codes(result)


@pytest.mark.parametrize(
    "glued",
    [
        "12.11205.6732 MB /  10.00 sec = 9400.0000 Mbps 38 %TX 71 %RX\n",
        "ttcp-r: 2929.16777216 bytes in 1.44 real seconds = 11377.78 KB/sec +++\n",
        "sockperf: Total 12.5000 observations; each percentile contains 1 observations\n",
    ],
)
def test_a_piece_of_a_longer_number_is_not_taken_for_a_number(glued):
    assert read(glued.encode(), "x").results == ()


def test_nuttcp_intervals_without_a_final_line_are_refused():
    text = " 1120.5625 MB /   1.00 sec = 9400.0000 Mbps     0 retrans\n" * 3

    reading = read(text.encode(), "x")

    assert reading.results == ()
    assert "no final line" in reading.refused[0].reason


def test_nuttcp_transfers_of_nothing_are_refused():
    reading = read(b"0.0000 MB /   0.00 sec =    0.0000 Mbps 0 %TX 0 %RX\n", "x")

    assert reading.results == ()
    assert "nothing moved" in reading.refused[0].reason


def test_nuttcp_parse_form_is_read_by_its_keys():
    result = only(
        "megabytes=11205.6732 real_seconds=10.00 rate_Mbps=9400.0000 tx_cpu=38 rx_cpu=71"
        " drop=12 pkt=8123456 data_loss=0.00015\n"
    )

    assert (result.test, result.format) == ("UDP", "parse")
    assert result.metrics["loss"] == pytest.approx(12 / 8123456)
    assert result.details["datagrams"] == 8123456


# ttcp ------------------------------------------------------------------------------------------

TTCP = """\
ttcp-{r}: buflen=8192, nbuf=2048, align=16384/0, port=5001  tcp{peer}
ttcp-{r}: socket
ttcp-{r}: 16777216 bytes in 1.44 real seconds = 11377.78 KB/sec +++
ttcp-{r}: 16777216 bytes in 0.06 CPU seconds = 273066.67 KB/cpu sec
ttcp-{r}: 2048 I/O calls, msec/call = 0.72, calls/sec = 1422.22
ttcp-{r}: 0.0user 0.06sys 0:01real 4% 0i+0d 0maxrss 0+2pf 10+11csw
"""


@pytest.mark.parametrize(("role", "peer"), [("t", "  -> 192.0.2.2"), ("r", "")])
def test_ttcp_letter_is_the_role(role, peer):
    result = only(TTCP.format(r=role, peer=peer))

    end = {"t": "sender", "r": "receiver"}[role]
    assert result.metrics["throughput"] == pytest.approx(11377.78 * 1024 * 8)
    assert result.metrics[f"utilisation_{end}"] == 0.04
    assert ("measured-at-sender" in codes(result)) == (role == "t")
    assert result.factors["message_size" if role == "t" else "receive_size"] == 8192
    assert result.details["io_calls"] == 2048


def test_ttcp_lines_that_a_mail_wrapped_are_put_together():
    wrapped = TTCP.format(r="t", peer="  -> 192.0.2.2").replace(" = ", " =\n")

    assert only(wrapped).metrics["throughput"] == pytest.approx(11377.78 * 1024 * 8)


def test_the_windows_ttcp_names_its_role_once():
    text = (
        "TCP Transmit Test\n  Transmit    : TCP -> 192.0.2.2:5001\n"
        "16777216 bytes in 1.469 real seconds = 11154.53 KB/sec +++\n"
    )

    result = only(text)

    assert result.metrics["throughput"] == pytest.approx(11154.53 * 8192)
    assert "measured-at-sender" in codes(result)


def test_a_cut_ttcp_result_line_is_refused():
    reading = read(b"ttcp-t: socket\nttcp-t: 16777216 bytes in 1.44 re\n", "x")

    assert reading.results == ()
    assert "cut off" in reading.refused[0].reason


# neper -----------------------------------------------------------------------------------------

NEPER = """\
VERSION=1.1.0
zerocopy={zerocopy}
skip_rx_copy=1
max_pacing_rate=125000000
buffer_size=65536
num_flows=4
client={client}
total_run_time=10
time_start=1000.000000000
utime_start=0.001000
utime_end=0.101000
stime_start=0.002000
stime_end=3.002000
num_samples=11
time_end=1010.000000000
correlation_coefficient=1.00
"""
READER = "throughput={value}\nthroughput_units={unit}\nlocal_throughput={local}\n"


@pytest.mark.parametrize(
    ("unit", "value", "bps"),
    [
        ("Mbit/s", "9400.00", 9400e6),
        ("10^6bits/s", "9400.00", 9400e6),
        ("MBytes/s", "1120.00", 1120 * 2**20 * 8),
        ("MB/s", "1175.00", 1175 * 8e6),
        ("MiB/s", "1120.00", 1120 * 2**20 * 8),
        ("Gib/s", "8.00", 8 * 2**30),
    ],
)
def test_neper_units_are_what_its_source_says(unit, value, bps):
    text = NEPER.format(zerocopy=0, client=0) + READER.format(value=value, unit=unit, local=0)

    assert only(text).metrics["throughput"] == pytest.approx(bps)


def test_neper_exact_local_rate_wins_over_the_printed_one():
    text = NEPER.format(zerocopy=1, client=0) + READER.format(
        value="9400.00", unit="Mbit/s", local=9400016855
    )

    result = only(text)

    assert result.metrics["throughput"] == 9400016855
    assert result.factors["api"] == "msg_zerocopy"
    assert result.factors["pacing_rate"] == 10**9
    assert result.metrics["utilisation_receiver"] == pytest.approx(0.31)
    assert "process-cpu" in codes(result)


def test_neper_without_a_result_is_refused():
    reading = read(
        b"VERSION=1.1.0\nnum_flows=1\nnum_threads=1\ntotal_run_time=1\n"
        b"connect: Connection refused\n",
        "x",
    )

    assert reading.results == ()
    assert "no result" in reading.refused[0].reason


def test_neper_samples_of_one_flow_give_the_growth_over_the_time():
    text = "tid,flow_id,time,bytes_read\n0,0,10.0,1000\n0,0,12.0,251000\n"

    result = only(text)

    assert result.metrics["throughput"] == pytest.approx(250000 * 8 / 2)
    assert result.details["samples"] == 2


# sockperf --------------------------------------------------------------------------------------

SOCKPERF = """\
sockperf: == version #3.7-no.git ==
sockperf[CLIENT] send on:
[ 0] IP = 192.0.2.2       PORT = 11111 # UDP
sockperf: [Total Run] RunTime=10.000 sec; Warm up time=9 msec; SentMessages=9; ReceivedMessages=9
sockperf: [Valid Duration] RunTime=9.550 sec; SentMessages={n}; ReceivedMessages={n}
sockperf: ====> avg-{word}=8.412 (std-dev=1.204)
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: Total {n} observations; each percentile contains 1 observations
sockperf: ---> <MAX> observation =   91.204
sockperf: ---> percentile 99.900 =   33.511
sockperf: ---> percentile 99.000 =   13.511
sockperf: ---> <MIN> observation =    6.902
"""


@pytest.mark.parametrize(
    ("word", "kind"), [("latency", "half_rtt"), ("lat", "half_rtt"), ("rtt", "rtt")]
)
def test_sockperf_latency_is_half_the_round_trip_unless_it_says_rtt(word, kind):
    result = only(SOCKPERF.format(n=150000, word=word))

    assert result.factors["latency_kind"] == kind
    assert result.metrics["latency_mean"] == 8.412e-6
    assert result.metrics["latency_p99_9"] == 33.511e-6
    assert result.details["elapsed_s"] == 9.55


def test_sockperf_percentiles_that_no_observation_supports_are_left_out():
    result = only(SOCKPERF.format(n=60, word="latency"))

    assert "latency_p99_9" not in result.metrics
    assert result.metrics["latency_p99"] == 13.511e-6
    assert "few-observations" in codes(result)


def test_sockperf_bandwidth_is_binary():
    text = (
        "sockperf: Total of 500000 messages sent in 1.000 sec\n"
        "sockperf: Summary: Message Rate is 500000 [msg/sec]\n"
        "sockperf: Summary: BandWidth is 701.904 MBps (5615.234 Mbps)\n"
    )

    result = only("[ 0] IP = 192.0.2.2 PORT = 1 # TCP\n" + text)

    assert result.metrics["throughput"] == pytest.approx(500000 * 1472 * 8, rel=1e-5)
    assert {"unit-mislabelled", "measured-at-sender"} <= codes(result)


def test_sockperf_mode_comes_from_the_command_line_if_there_is_one():
    text = "$ sockperf tp --help\n$ sockperf pp -i 192.0.2.2 -m 64 -t 10\n"

    result = only(text + SOCKPERF.format(n=1000, word="latency"))

    assert result.test == "ping-pong"
    assert result.factors["message_size"] == 64


# uperf -----------------------------------------------------------------------------------------

UPERF = """\
Starting 4 threads running profile:netperf ...   0.00 seconds
Txn1            0 /   0.00(s) =            0           1op/s
Txn2      10.94GB /  10.00(s) =     9.40Gb/s       17929op/s
Total     10.94GB /  12.10(s) =     7.77Gb/s       14817op/s
"""


def test_uperf_takes_the_transaction_that_moved_the_bytes():
    result = only(UPERF)

    assert result.metrics["throughput"] == 9.40e9
    assert result.factors["streams"] == 4
    assert result.details["transaction"] == "Txn2"
    assert {"end-unknown", "both-directions"} <= codes(result)


def test_uperf_raw_counters_are_cumulative():
    rows = [(0.0, 0), (1000.0, 1175000000), (10000.0, 11750000000)]
    text = "".join(
        f"timestamp_ms:{1700000000000.25 + t} name:Txn2 nr_bytes:{b} nr_ops:{b // 65536}\n"
        for t, b in rows
    )

    result = only(text)

    assert result.metrics["throughput"] == pytest.approx(9.4e9)
    assert result.format == "raw"
