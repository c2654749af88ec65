"""The foreign tool of a trial on its page: what ran, which version, how its bytes were counted."""

from __future__ import annotations

from store_support import make_end, make_environment, make_run, make_start
from web_support import client_of, get_json, get_page

from zcdb.records import MetricValue
from zcdb.store import write
from zcdb.webapp.present.trial_tool import COUNTING, tool_content

pytest_plugins = ["store_fixtures"]

SENDER = ["/usr/bin/iperf3", "-c", "127.0.0.1", "-T", "two words"]
SERVER = ["/usr/bin/iperf3", "-s"]
VERSION = "iperf 3.12 (cJSON 1.7.15)"
COUNTS = {
    "tool": {
        "name": "iperf3",
        "ends": {
            "sender": {"command": SENDER, "version": VERSION, "runs": 1},
            "receiver": {"command": SERVER, "version": VERSION, "runs": 3},
        },
        "comparison": {"metric": "throughput", "tool": 2.02e9, "ours": 2e9, "ratio": 1.01},
    },
    "effective": {
        "sender": {"payload_counting": "sockets-to"},
        "receiver": {"payload_counting": "sockets-at"},
    },
}


def stored(db, counts, values):
    run, environment = make_run(), make_environment()
    start = make_start(run, run.plan[0], environment=environment)
    write.add_run(db, run)
    write.add_environment(db, environment)
    write.start_trial(db, start)
    write.end_trial(db, make_end(start, counts=counts, measurements=values))
    return client_of(db), f"/trials/{start.id}"


def section(page, name):
    found = [part for part in page.all("section") if part.attributes["aria-labelledby"] == name]
    return found[0] if found else None


def test_a_tool_s_trial_says_what_ran_and_how_its_bytes_were_counted(sqlite_db):
    client, path = stored(sqlite_db, COUNTS, (MetricValue("throughput", "", 2e9),))

    tool = section(get_page(client, path), "tool")

    assert [code.text for code in tool.all("code")] == [
        "/usr/bin/iperf3 -c 127.0.0.1 -T 'two words'",
        "/usr/bin/iperf3 -s",
    ]
    said = [value.text for value in tool.all("dd")]
    assert said == [COUNTING["sockets-to"], VERSION, COUNTING["sockets-at"], VERSION, "3"]
    assert "reports: 2.02 Gbit/s" in tool.text
    assert "carried until it ended: 2.00 Gbit/s (+1.00 %)" in tool.text


def test_the_json_of_a_trial_holds_the_tool_too(sqlite_db):
    client, path = stored(sqlite_db, COUNTS, (MetricValue("throughput", "", 2e9),))

    tool = get_json(client, f"{path}.json")["tool"]

    assert tool["name"] == "iperf3"
    assert [end["version"] for end in tool["ends"]] == [VERSION, VERSION]


def test_a_trial_of_zcdb_s_own_loops_has_no_tool(sqlite_db):
    client, path = stored(sqlite_db, {}, (MetricValue("throughput", "", 2e9),))

    assert section(get_page(client, path), "tool") is None


def test_an_end_where_nothing_ran_has_no_command_and_says_so():
    counts = {
        "tool": {"name": "command", "ends": {}},
        "effective": {"sender": {"payload_counting": "absent"}},
    }

    sender, receiver = tool_content(counts).ends

    assert (sender.command, sender.counting) == (None, COUNTING["absent"])
    assert (receiver.command, receiver.counting) == (None, COUNTING["endpoint"])


def test_an_exchange_leads_with_its_transactions_and_their_latency(sqlite_db):
    values = (
        MetricValue("throughput", "", None, "test = 'rr' counts transactions"),
        MetricValue("transaction_rate", "", 23400.0),
        MetricValue("latency_p50", "", 38.8e-6),
        MetricValue("latency_p99", "", 68.9e-6),
        MetricValue("transaction_demand_client", "soak", 30.8),
        MetricValue("transaction_demand_server", "soak", 23.2),
    )
    client, path = stored(sqlite_db, {}, values)

    outcome = section(get_page(client, path), "outcome")

    shown = [value.text.strip() for value in outcome.all("dd")]
    assert shown == [
        "23400 1/s",
        "38.8 us",
        "68.9 us",
        "30.8 us/transaction",
        "23.2 us/transaction",
    ]
    assert "Throughput" not in [term.text for term in outcome.all("dt")]
