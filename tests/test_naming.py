"""What a case is called: alike on pages and in reports, without words that say nothing."""

from __future__ import annotations

import pytest

from zcdb.metrics import METRICS
from zcdb.report.method_text import factor_text
from zcdb.report.naming import level_words, told_text
from zcdb.webapp.labels import case_label, metric_phrase


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("api", "sendfile", "sendfile"),
        ("message_size", 65536, "message size 64 KiB"),
        ("streams", 200, "streams 200"),
        ("pinning", "separate", "pinning separate"),
        ("pinning", "none", "no pinning"),
        ("link_rate", 0, "no link rate"),
        ("latency_kind", "rtt", "latency kind rtt"),
        ("kernel", "6.18", "kernel 6.18"),
        ("mtu", 1500, "MTU 1500"),
    ],
)
def test_a_level_is_told_with_what_it_is_a_level_of(name, value, words):
    assert level_words(name, value) == words


def test_pages_and_reports_call_a_case_alike():
    case = {"api": "send", "pinning": "none", "streams": 4}
    names = list(case)

    assert case_label(case, names) == "send · no pinning · streams 4"
    assert told_text(case, names) == "send, no pinning, streams 4"
    assert factor_text(case, names) == "send, no pinning, streams 4"


def test_two_sizes_of_an_exchange_are_told_apart():
    case = {"api": "send", "request_size": 1400, "response_size": 1}

    assert case_label(case, list(case)) == "send · request size 1400 B · response size 1 B"


def test_the_ends_of_an_exchange_are_called_client_and_server():
    assert metric_phrase("transaction_demand_client") == "CPU per transaction of the client"
    assert metric_phrase("service_demand_sender") == "service demand of the sender"


def test_the_label_of_every_metric_of_an_end_names_the_end():
    ends = {
        metric.label.rpartition(", ")[2] for metric in METRICS.values() if metric.end is not None
    }

    assert ends == {"sender", "receiver", "client", "server"}
