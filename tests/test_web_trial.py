"""The page of a trial: what limited it, what proves zero copy, its counters and its CPUs."""

from __future__ import annotations

import pytest
from store_support import make_end, make_environment, make_run, make_start
from web_support import client_of, get_json, get_page

from zcdb.records import MetricValue, SampleSeries
from zcdb.store import write
from zcdb.store.results import TrialValue
from zcdb.webapp.charts import trial as charts
from zcdb.webapp.present.measured import single, zero_copy_words
from zcdb.webapp.present.trial_counters import counter_tables, limiter_content, proof_content

pytest_plugins = ["store_fixtures"]

LINK = {
    "name": "link rate",
    "rule": "for 100 % of the window the link carried at least 90 % of 100 Mbit/s",
    "signals": {"link_share": 1.0, "sender_cpu_share": 0.21, "rwnd_share": None},
}
PROVEN = {
    "label": "proven",
    "is_asked": True,
    "method": "offloads of the path",
    "bytes_completed": 12_000_000,
    "bytes_copied": 0,
    "sentence": "scatter-gather and checksum offload were on",
}
COUNTS = {
    "limiter": LINK,
    "zero_copy": PROVEN,
    "window": {
        "sender": {"tcp_segs_out": 8000, "tcp_busy_us": 990_000, "retransmits": 3},
        "receiver": {"tcp_segs_out": 400, "tcp_busy_us": 0, "retransmits": 0},
    },
    "hosts": {
        "host": {
            "window_ns": 10**9,
            "cpus": [
                {
                    "cpu": 1,
                    "end": "sender",
                    "task_share": 0.5,
                    "interrupt_share": 0.125,
                    "steal_share": 0.0,
                    "ticks": {"user": 10, "nice": 40, "system": 30, "idle": 0, "iowait": 0}
                    | {"irq": 0, "softirq": 20, "steal": 0, "guest": 0, "guest_nice": 0},
                }
            ],
        }
    },
    "network": {
        "sender": {
            "span_ns": 10**9,
            "interface": {"tx_packets": 8000, "tx_bytes": 12_112_000, "tx_errors": 0}
            | {"tx_dropped": 7, "rx_packets": 400, "rx_bytes": 26_400, "rx_errors": 0}
            | {"rx_dropped": 0},
            "qdisc": {"kinds": ["tbf"], "drops": 12, "requeues": 1},
            "protocols": {f"TcpExt.Counter{number}": number for number in range(1, 16)},
        }
    },
    "kernel": {
        "host": {
            "span_ns": 2 * 10**9,
            "interrupts": {"LOC Local timer interrupts": 5000},
            "softirqs": {"NET_RX": 900},
            "memory_before": {"free_bytes": 2**30},
            "memory_after": {"free_bytes": 2**29},
            "hardware_events": None,
            "hardware_events_reason": "this processor offers none",
        }
    },
}


def cpu_samples(host="", cpus=2):
    columns = {
        "start_ns": [0, 100_000_000],
        "end_ns": [100_000_000, 200_000_000],
        "kept": [0, 1],
        "payload_bytes": [1000, 1000],
    }
    for cpu in range(cpus):
        columns[f"{host}cpu{cpu}_task_ns"] = [1_000_000 * cpu, 50_000_000]
        columns[f"{host}cpu{cpu}_interrupt_ns"] = [0, 10_000_000]
        columns[f"{host}cpu{cpu}_steal_ns"] = [0, None]
    return SampleSeries(columns)


@pytest.fixture
def client_and_id(sqlite_db):
    run, environment = make_run(), make_environment()
    start = make_start(run, run.plan[0], environment=environment)
    values = (
        MetricValue("throughput", "", 96e6),
        MetricValue("service_demand_sender", "soak", 0.5),
        MetricValue("proven_zero_copy_share", "", 1.0),
    )
    write.add_run(sqlite_db, run)
    write.add_environment(sqlite_db, environment)
    write.start_trial(sqlite_db, start)
    end = make_end(start, counts=COUNTS, measurements=values, samples=cpu_samples())
    write.end_trial(sqlite_db, end)
    return client_of(sqlite_db), start.id


def section(page, name):
    return next(part for part in page.all("section") if part.attributes["aria-labelledby"] == name)


def test_the_limiter_leads_with_its_rule_and_every_signal(client_and_id):
    client, trial_id = client_and_id

    found = section(get_page(client, f"/trials/{trial_id}"), "limiter")
    signals = dict(
        zip(
            (term.text for term in found.all("dt")),
            (text.text for text in found.all("dd")),
            strict=True,
        )
    )

    assert "Link rate: for 100 % of the window" in found.text
    assert signals["Sender CPU busy"] == "21 %"
    assert signals["Waiting for the receive window"] == "not measured"


def test_at_the_link_s_rate_service_demand_leads_and_throughput_is_said_to_mean_nothing(
    client_and_id,
):
    client, trial_id = client_and_id

    outcome = section(get_page(client, f"/trials/{trial_id}"), "outcome")
    labels = [term.text for term in outcome.all("dt")]

    assert labels[0] == "Service demand, sender, by soak"
    assert "Throughput" not in labels
    (aside,) = outcome.all("p", class_="muted")
    assert "throughput says nothing about this case: 96.0 Mbit/s" in aside.text


def test_zero_copy_is_shown_with_its_label_method_and_bytes(client_and_id):
    client, trial_id = client_and_id

    page = get_page(client, f"/trials/{trial_id}")

    found = section(page, "proof").text
    assert "Zero copy, proven" in found
    assert "offloads of the path" in found
    assert "zero copy proven" in page.all("h1")[0].text


def test_counters_are_tables_with_their_figures(client_and_id):
    client, trial_id = client_and_id

    found = section(get_page(client, f"/trials/{trial_id}"), "counters")
    cells = {
        row.all("th")[0].text: [cell.text for cell in row.all("td")]
        for row in found.all("tr")
        if row.all("td")
    }

    # 100 ticks: user, system, irq, softirq, steal, idle; then what the soaker saw.
    assert cells["1 (sender)"] == [
        *("10.0", "30.0", "0.0", "20.0", "0.0", "0.0"),
        *("50.0", "12.5", "0.0"),
    ]
    assert cells["Sender, sent"] == ["8 000", "12 112 000", "1514", "0", "7"]
    assert cells["Busy sending (ms)"] == ["990", "0"]
    assert cells["LOC Local timer interrupts"] == ["5 000", "2 500"]
    assert cells["Free"] == ["1024.0", "512.0"]
    assert "No hardware counters: this processor offers none" in found.text
    assert "tbf, 12 dropped, 1 requeued" in found.text
    assert "3 more are in the raw counts" in found.text


def test_the_json_twin_has_the_same(client_and_id):
    client, trial_id = client_and_id

    found = get_json(client, f"/trials/{trial_id}.json")

    assert "link rate" in str(found)
    assert "offloads of the path" in str(found)


def test_a_trial_that_looked_at_none_of_this_has_no_empty_tables():
    assert counter_tables({"payload_bytes": 7}) == ()
    assert limiter_content({}) is None
    assert proof_content({}) is None


@pytest.mark.parametrize(
    ("label", "is_asked", "words"),
    [
        ("copied", False, "copied, as this API does"),
        ("copied", True, "zero copy asked for, but copied"),
        ("unknown", True, "unknown: nothing proves it"),
    ],
)
def test_only_what_is_proven_is_called_zero_copy(label, is_asked, words):
    counts = {"zero_copy": {**PROVEN, "label": label, "is_asked": is_asked, "bytes_copied": None}}

    found = proof_content(counts)

    assert (found.words, found.copied) == (words, "not known")


def estimates(proven, reason=None, copied=None):
    return [
        single(TrialValue("proven_zero_copy_share", "", proven, reason)),
        single(TrialValue("copied_share", "", copied, None if copied is not None else "none")),
    ]


def test_the_tag_of_a_case_goes_by_the_proof_where_there_is_one():
    assert zero_copy_words(estimates(1.0)) == "zero copy proven"
    assert zero_copy_words(estimates(0.0, copied=1.0)) == "copied"
    assert zero_copy_words(estimates(None, "sg off", copied=0.0)) == "zero copy not proven"
    # An API that copies by nature promised nothing.
    assert zero_copy_words(estimates(0.0)) is None
    # A result of an older zcdb has the kernel's report alone.
    assert zero_copy_words(estimates(1.0, copied=0.0)[1:]) == "not copied"


def test_each_cpu_has_a_chart_of_what_took_its_time():
    found = {figure.key: figure for figure in charts.figures(cpu_samples(), {})}

    figure = found["cpu1"]
    assert [series.name for series in figure.series] == ["tasks", "interrupts", "stolen"]
    assert [series.kind for series in figure.series] == ["stack"] * 3
    assert figure.series[0].y == pytest.approx((0.01, 0.5))
    assert figure.series[2].y == (0.0, None)


def test_of_many_cpus_the_busiest_have_charts_in_their_order():
    keys = [figure.key for figure in charts.cpu_stacks(cpu_samples(cpus=9))]

    assert keys == ["cpu5", "cpu6", "cpu7", "cpu8"]


def test_cpus_of_two_hosts_are_named_by_their_end():
    (first, *_) = charts.cpu_stacks(cpu_samples(host="receiver_", cpus=1))

    assert (first.key, first.title) == ("receiver-cpu0", "CPU 0 of the receiver over time")
