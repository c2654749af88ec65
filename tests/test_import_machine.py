"""perf stat, ethtool, lspci, ip link, mpstat, sar and flent; texts made up after their formats."""

from __future__ import annotations

import bz2
import gzip
import json

import pytest

from zcdb.importers import Result, read


def only(data: str | bytes) -> Result:
    reading = read(data if isinstance(data, bytes) else data.encode(), "x")
    assert [r.reason for r in reading.refused] == []
    (result,) = reading.results
    return result


def codes(result: Result) -> set[str]:
    return {flag.code for flag in result.flags}


PERF = """\
 Performance counter stats for 'system wide':

     {cycles}      cycles                    #    {ghz} GHz                      (83{d}31%)
          {msec} msec task-clock                #    1{d}000 CPUs utilized
     <not counted>      cache-misses                                        (0{d}00%)

      10{d}001234567 seconds time elapsed
"""


@pytest.mark.parametrize(
    ("cycles", "msec", "point"),
    [
        ("9,400,000,000", "1,234.50", "."),
        ("9.400.000.000", "1.234,50", ","),
        ("9'400'000'000", "1'234.50", "."),
        ("9400000000", "1234.50", "."),
    ],
)
def test_perf_separators_are_told_from_the_whole_table(cycles, msec, point):
    result = only(PERF.format(cycles=cycles, ghz=f"0{point}940", msec=msec, d=point))

    events = result.details["events"]
    assert events["cycles"]["value"] == 9.4e9
    assert events["task-clock"] == {
        "value": 1234.5,
        "unit": "msec",
        "metric": "1.000 CPUs utilized",
    }
    assert events["cache-misses"]["value"] is None
    assert result.details["elapsed_s"] == 10.001234567
    assert "multiplexed" in codes(result)


def test_perf_numbers_that_nothing_explains_are_refused():
    text = " Performance counter stats for 'x':\n\n   423.246      page-faults\n"

    reading = read(text.encode(), "x")

    assert reading.results == ()
    assert "cannot be told apart" in reading.refused[0].reason


def test_an_old_perf_table_with_square_brackets_is_read():
    text = (
        " Performance counter stats for './netperf -H hostB -c':\n\n"
        "       4282.648396 task-clock                #    0.423 CPUs utilized\n"
        "    11,812,797,651 cycles                    #    2.758 GHz                     [82.79%]\n"
        "\n      10.128990264 seconds time elapsed\n"
    )

    result = only(text)

    assert result.details["events"]["task-clock"]["value"] == 4282.648396
    assert result.details["events"]["cycles"]["running_percent"] == 82.79


def test_perf_intervals_of_the_text_form_are_read_without_a_heading():
    text = (
        "#           time             counts unit events\n"
        "     1.001092774        340,060,066      cycles                    #    0.340 GHz\n"
        "     1.001092774        244,499,732      instructions       #    0.72 insn per cycle\n"
        "     2.004750051         84,063,123      cycles                    #    0.084 GHz\n"
    )

    result = only(text)

    assert [row["time_s"] for row in result.details["by_interval"]] == [1.001092774, 2.004750051]
    assert result.details["by_interval"][1]["events"]["cycles"]["value"] == 84063123


@pytest.mark.parametrize("separator", [",", ";", "|", "\t"])
def test_perf_fields_are_read_with_any_separator(separator):
    fields = ["9400000000", "", "cycles", "10001234567", "83.31", "0.940", "GHz"]

    result = only(separator.join(fields) + "\n")

    event = result.details["events"]["cycles"]
    assert (event["value"], event["running_percent"], event["metric"]) == (
        9.4e9,
        83.31,
        "0.940 GHz",
    )
    assert result.details["separator"] == separator


def test_perf_counts_by_cpu_are_kept_apart():
    fields = (
        "CPU0,100,,cycles,1,100.00,,\nCPU1,200,,cycles,1,100.00,,\nS0,2,300,,cycles,1,100.00,,\n"
    )
    lines = '{"cpu": "0", "counter-value": "5.0", "unit": "", "event": "cycles"}\n'

    assert {name: e["value"] for name, e in only(fields).details["events"].items()} == {
        "CPU0 cycles": 100.0,
        "CPU1 cycles": 200.0,
        "S0 2 cycles": 300.0,
    }
    assert only(lines).details["events"]["CPU0 cycles"]["value"] == 5.0


def test_perf_json_lines_make_one_result():
    lines = [
        {
            "counter-value": "9400000000.000000",
            "unit": "",
            "event": "cycles",
            "event-runtime": 1,
            "pcnt-running": 83.31,
            "metric-value": "0.940",
            "metric-unit": "GHz",
        },
        {"counter-value": "<not counted>", "unit": "", "event": "cache-misses"},
    ]

    result = only("\n".join(json.dumps(line) for line in lines))

    assert result.details["events"]["cycles"]["value"] == 9.4e9
    assert result.details["events"]["cache-misses"] == {"value": None, "state": "not counted"}


def test_ethtool_coalesce_and_rings_of_json_are_read():
    coalesce = [{"ifname": "eth0", "adaptive-rx": False, "adaptive-tx": None, "rx-usecs": 3}]
    rings = [{"ifname": "eth0", "rx-max": 4096, "tx-max": 4096, "rx": 512, "tx": 512}]

    results = read((json.dumps(coalesce) + "\n" + json.dumps(rings)).encode(), "x").results

    assert results[0].details["values"] == {
        "adaptive-rx": False,
        "adaptive-tx": None,
        "rx-usecs": 3,
    }
    assert results[1].details["max"] == {"rx": 4096, "tx": 4096}
    assert results[1].details["current"] == {"rx": 512, "tx": 512}


def test_ethtool_features_say_what_the_kernel_wants_and_cannot():
    text = (
        "Features for eth0:\nrx-checksumming: on\n"
        "\ttx-tcp-segmentation: off [requested on]\ntx-lockless: on [fixed]\n"
    )

    features = only(text).details["features"]

    assert features["tx-tcp-segmentation"] == {"on": False, "fixed": False, "requested": True}
    assert features["tx-lockless"] == {"on": True, "fixed": True}


def test_several_ethtool_calls_in_one_shell_log_are_results_of_their_interface():
    text = (
        "root@hostA:~# ethtool -i eth0\ndriver: ixgbe\nversion: 5.1.0-k\nfirmware-version: 0x80\n"
        "bus-info: 0000:04:00.0\nroot@hostA:~# ethtool -g eth0\nRing parameters for eth0:\n"
        "Pre-set maximums:\nRX:\t\t4096\nTX:\t\t4096\nCurrent hardware settings:\nRX:\t\t512\n"
        "TX:\t\t512\nroot@hostA:~# ethtool -c eth1\n"
        "Cannot get device coalesce settings: Operation not supported\n"
    )

    reading = read(text.encode(), "x")

    assert [r.test for r in reading.results] == ["driver", "rings"]
    assert reading.results[0].details["interface"] == "eth0"
    assert reading.refused[0].reason == (
        "ethtool -c: Cannot get device coalesce settings: Operation not supported"
    )


def test_lspci_names_may_have_brackets_of_their_own():
    text = "3b:00.0 Ethernet controller [0200]: Some Vendor Card [Model-X] [1234:5678] (rev 0a)\n"

    (device,) = only(text).details["devices"]

    assert (device["vendor"], device["device"], device["revision"]) == ("1234", "5678", "0a")
    assert device["name"] == "Some Vendor Card [Model-X]"


def test_a_cut_list_of_links_is_read_as_far_as_it_is_whole():
    links = [
        {"ifindex": 1, "ifname": "lo", "mtu": 65536},
        {"ifindex": 2, "ifname": "e0", "mtu": 1500},
    ]
    text = json.dumps(links)

    result = only(text[: text.index("1500") + 2])

    assert [link["mtu"] for link in result.details["links"]] == [65536, None]
    assert "incomplete" in codes(result)


NAMES = ("usr", "nice", "sys", "iowait", "irq", "soft", "steal", "guest", "gnice", "idle")
HEADER = ["CPU", *(f"%{name}" for name in NAMES)]
ROW = ["all", "5.00", "0.00", "10.00", "0.00", "0.00", "5.00", "0.00", "0.00", "0.00", "80.00"]


def mpstat(meridian: str, point: str) -> str:
    def line(time: str, cells: list[str]) -> str:
        return time + "".join(f"{cell:>8}" for cell in cells) + "\n"

    row = [cell.replace(".", point) for cell in ROW]
    return (
        "Linux 6.1.0 (hostA) \t12/01/2026 \t_x86_64_\t(2 CPU)\n\n"
        + line(f"10:00:00 {meridian}", HEADER)
        + line(f"10:00:01 {meridian}", row)
        + line("Average:", row)
    )


@pytest.mark.parametrize(("meridian", "point"), [("", "."), ("AM", "."), ("", ",")])
def test_mpstat_rows_are_told_by_their_header(meridian, point):
    result = only(mpstat(meridian, point))

    row = result.details["tables"]["cpu"][0]
    assert (row["cpu"], row["usr"], row["soft"], row["idle"]) == ("all", 5.0, 5.0, 80.0)
    assert ("locale" in codes(result)) == (point == ",")


def test_sar_columns_stand_in_another_order_and_keep_their_names():
    text = (
        "Linux 6.1.0 (hostA) \t12/01/2026 \t_x86_64_\t(2 CPU)\n\n"
        "10:00:00        CPU     %user     %nice   %system   %iowait    %steal     %idle\n"
        "10:00:01        all      5.00      0.00     10.00      1.00      2.00     82.00\n"
    )

    result = only(text)

    assert result.test == "sar"
    assert result.details["tables"]["cpu"][0] == {
        "time": "10:00:01",
        "cpu": "all",
        "usr": 5.0,
        "nice": 0.0,
        "sys": 10.0,
        "iowait": 1.0,
        "steal": 2.0,
        "idle": 82.0,
    }


def test_cpu_rows_without_a_header_must_add_up():
    cells = [
        "all",
        "0.55",
        "0.00",
        "0.38",
        "0.04",
        "0.00",
        "17.77",
        "0.00",
        "0.00",
        "0.00",
        "81.27",
    ]
    good = "18:28:27" + "".join(f"{cell:>8}" for cell in cells) + "\n"
    bad = good.replace("81.27", "11.27")

    assert "columns-assumed" in codes(only(good))
    assert read(bad.encode(), "x").results == ()


FLENT = {
    "version": 4,
    "metadata": {"NAME": "tcp_upload", "SERIES_META": {"TCP upload": {"UNITS": "Mbits/s"}}},
    "x_values": [0.0, 0.2],
    "results": {"TCP upload": [None, 941.2]},
    "raw_values": {"TCP upload": [{"t": 1.0, "val": 941.2}, {"t": 1.2, "val": 940.2}]},
}


@pytest.mark.parametrize("pack", [lambda b: b, gzip.compress, bz2.compress])
def test_flent_uses_raw_values_packed_or_not(pack):
    result = only(pack(json.dumps(FLENT).encode()))

    assert result.metrics["throughput"] == pytest.approx(940.7e6)
    assert result.derivations["throughput"].rule == "mean"


def test_a_flent_file_of_a_newer_version_is_refused():
    reading = read(json.dumps({**FLENT, "version": 5}).encode(), "x")

    assert reading.results == ()
    assert "version 5" in reading.refused[0].reason


def test_a_damaged_gzip_file_is_refused_with_a_sentence():
    packed = gzip.compress(json.dumps(FLENT).encode() * 50)

    reading = read(packed[: len(packed) // 2], "x.flent.gz")

    assert any("cut off" in refusal.reason for refusal in reading.refused)
