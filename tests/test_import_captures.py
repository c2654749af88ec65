"""Captures of the real tools; beside each stands a note with tool, version and kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from zcdb.factors import FACTORS
from zcdb.importers import Reading, read
from zcdb.metrics import METRICS

DATA = Path(__file__).parent / "data" / "import"
CAPTURES = sorted(path for path in DATA.iterdir() if path.suffix != ".note")


def reading_of(name: str) -> Reading:
    return read((DATA / name).read_bytes(), name)


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_every_capture_says_which_tool_made_it(path):
    note = path.with_name(path.name + ".note").read_text()

    assert note.count("\n") == 1
    assert any(character.isdecimal() for character in note)


MEASURED = {
    "iperf2-tcp-client-enhanced.txt": ("iperf2", "TCP", {"throughput": 21.0e9, "retransmits": 14}),
    "iperf2-tcp-client-f-M.txt": ("iperf2", "TCP", {"throughput": 707 * 2**20 * 8}),
    "iperf2-tcp-server.txt": ("iperf2", "TCP", {"throughput": 1.51e9}),
    "iperf2-tcp-two-streams.csv": ("iperf2", "TCP", {"throughput": 17817944889}),
    "iperf2-udp-client-f-k.txt": ("iperf2", "UDP", {"sent_throughput": 20011e3, "loss": 0}),
    "iperf2-udp-client.csv": ("iperf2", "UDP", {"sent_throughput": 10022593}),
    "iperf2-udp-server-plain.txt": ("iperf2", "UDP", {"throughput": 20.0e6, "jitter": 1e-6}),
    "iperf3-tcp.json": ("iperf3", "TCP", {"throughput": 8213332471.001858, "retransmits": 3}),
    "iperf3-udp.json": ("iperf3", "UDP", {"sent_throughput": 28630898.0227672, "loss": 0}),
    "iperf3-text-two-streams.txt": ("iperf3", "TCP", {"throughput": 9.96e9, "retransmits": 26}),
    "iperf3-text-udp-f-K.txt": ("iperf3", "UDP", {"throughput": 6014 * 1024 * 8, "jitter": 34e-6}),
    "iperf3-text-reverse-verbose.txt": ("iperf3", "TCP", {"throughput": 15.7e9, "retransmits": 8}),
    "nuttcp-intervals.txt": ("nuttcp", "TCP", {"throughput": 22416.0063e6, "tcp_rtt": 60e-6}),
    "nuttcp-parse-intervals.txt": ("nuttcp", "TCP", {"throughput": 20494.3488e6}),
    "nuttcp-receive-verbose.txt": (
        "nuttcp",
        "TCP",
        {"throughput": 17073.6507e6, "sent_throughput": 17067.0846e6, "utilisation_sender": 0.33},
    ),
    "nuttcp-udp.txt": ("nuttcp", "UDP", {"throughput": 49.9347e6, "loss": 0}),
    "sockperf-ping-pong.txt": ("sockperf", "sockperf", {"latency_mean": 9.746e-6}),
    "sockperf-full-rtt.txt": ("sockperf", "sockperf", {"latency_mean": 207.84e-6}),
    "sockperf-throughput.txt": ("sockperf", "throughput", {"message_rate": 286830}),
}


@pytest.mark.parametrize("name", MEASURED)
def test_a_capture_gives_the_figures_that_its_text_shows(name):
    tool, test, figures = MEASURED[name]

    reading = reading_of(name)

    (result,) = reading.results
    assert (result.tool, result.test) == (tool, test)
    assert reading.refused == ()
    for metric, value in figures.items():
        assert result.metrics[metric] == pytest.approx(value, rel=1e-12), metric


def test_a_udp_csv_row_of_a_newer_sender_has_no_loss():
    (result,) = reading_of("iperf2-udp-client.csv").results

    assert result.metrics.keys() == {"sent_throughput"}


def test_sockperf_latency_kind_follows_what_the_text_calls_it():
    (half,) = reading_of("sockperf-ping-pong.txt").results
    (full,) = reading_of("sockperf-full-rtt.txt").results

    assert half.factors["latency_kind"] == "half_rtt"
    assert full.factors["latency_kind"] == "rtt"
    assert "latency_p99_99" not in full.metrics  # 2651 observations say nothing of it


def test_both_directions_of_a_bidirectional_run_are_results():
    send, receive = reading_of("iperf3-bidir-two-streams.json").results

    assert (send.details["direction"], receive.details["direction"]) == ("send", "recv")
    assert send.metrics["throughput"] == 1102141918.9848435
    assert receive.metrics["throughput"] == 694076150.6334304


FACTS = {
    "ethtool-k.txt": ("features", "vA"),
    "ethtool-k.json": ("features", "vA"),
    "ethtool-K.txt": ("feature-change", None),
    "ethtool-l.txt": ("channels", "vA"),
    "ethtool-T.txt": ("timestamping", "vA"),
    "ethtool-i.txt": ("driver", None),
    "ethtool-S.txt": ("statistics", None),
}


@pytest.mark.parametrize("name", FACTS)
def test_ethtool_captures_give_their_kind_and_interface(name):
    (result,) = reading_of(name).results

    assert (result.test, result.details.get("interface")) == FACTS[name]
    assert result.metrics == {}


def test_ethtool_text_and_json_of_one_moment_say_the_same():
    (text,) = reading_of("ethtool-k.txt").results
    (document,) = reading_of("ethtool-k.json").results

    fixed = {name: f["fixed"] for name, f in document.details["features"].items()}
    on = {name: f["on"] for name, f in document.details["features"].items()}
    assert on == {name: f["on"] for name, f in text.details["features"].items()}
    assert fixed == {name: f["fixed"] for name, f in text.details["features"].items()}


def test_what_ethtool_could_not_do_is_refused():
    reading = reading_of("ethtool-c-unsupported.txt")

    assert reading.results == ()
    assert "Operation not supported" in reading.refused[0].reason


def test_perf_forms_of_one_machine_agree_on_what_is_not_supported():
    (semicolon,) = reading_of("perf-stat-semicolon.csv").results
    (lines,) = reading_of("perf-stat.json").results

    for result in (semicolon, lines):
        assert result.details["events"]["cycles"] == {"value": None, "state": "not supported"} | {
            key: value
            for key, value in result.details["events"]["cycles"].items()
            if key in ("runtime_ns", "running_percent")
        }
        assert result.details["events"]["task-clock"]["unit"] == "msec"


def test_perf_intervals_are_kept_apart():
    (result,) = reading_of("perf-stat-interval.csv").results

    assert result.details["intervals"] == 3
    assert result.details["by_interval"][0]["time_s"] == 0.100161788


def test_lspci_lists_the_devices_with_their_drivers_if_it_says_them():
    (plain,) = reading_of("lspci-nn.txt").results
    (verbose,) = reading_of("lspci-nnv.txt").results

    assert [d["slot"] for d in plain.details["devices"]] == [
        d["slot"] for d in verbose.details["devices"]
    ]
    assert plain.details["devices"][3]["class"] == "0200"
    assert any("driver" in d or "subsystem" in d for d in verbose.details["devices"])


def test_ip_link_keeps_a_peer_as_a_number():
    (result,) = reading_of("ip-link.json").results

    links = {link["ifname"]: link for link in result.details["links"]}
    assert links["vA"]["kind"] == links["vB"]["kind"] == "veth"
    assert links["lo"]["kind"] is None


def test_mpstat_text_and_json_have_one_row_for_each_cpu_and_time():
    (text,) = reading_of("mpstat.txt").results
    (document,) = reading_of("mpstat.json").results

    assert text.details["rows"] == 9
    assert document.details["cpus"] == text.details["cpus"] == 2
    average = [r for r in text.details["tables"]["cpu"] if r["time"] == "Average"]
    assert average[0] == {
        "time": "Average",
        "cpu": "all",
        "usr": 0.0,
        "nice": 93.23,
        "sys": 6.27,
        "iowait": 0.0,
        "irq": 0.0,
        "soft": 0.5,
        "steal": 0.0,
        "guest": 0.0,
        "gnice": 0.0,
        "idle": 0.0,
    }


def test_every_metric_and_factor_of_the_captures_is_in_the_registry():
    results = [r for path in CAPTURES for r in reading_of(path.name).results]
    names = {m.metric for r in results for m in r.measurements}
    factors = {name for r in results for name in r.factors}

    assert names <= set(METRICS)
    assert all(name in FACTORS for name in factors)
