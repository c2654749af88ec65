"""From edges to a trial's record, with known answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zcdb.engine.books import Idle
from zcdb.engine.window import Edge
from zcdb.factors import with_defaults
from zcdb.runner import assemble

SECOND_NS = 10**9
SAMPLE_NS = 10**8


def make_edges(count=14, sender_cpu=0.5, receiver_cpu=0.25, **changes):
    """Edges 100 ms apart; 1 KiB a microsecond arrives, the first 300 ms at half of that."""
    edges = []
    payload_bytes = 0
    for index in range(count):
        at_ns = 5 * SECOND_NS + index * SAMPLE_NS
        common = {"at_ns": at_ns, "short_calls": 0, "enobufs": 0, "passes": index}
        sender = {
            **common,
            "payload_bytes": payload_bytes + 4096,
            "calls": index * 1000,
            "completions": index * 1000,
            "copied": index * 250,
            "retransmits": index,
            "cpu_time_ns": round(index * SAMPLE_NS * sender_cpu),
        }
        receiver = {
            **common,
            "payload_bytes": payload_bytes,
            "calls": index * 500,
            "completions": 0,
            "copied": 0,
            "retransmits": 0,
            "cpu_time_ns": round(index * SAMPLE_NS * receiver_cpu),
        }
        sender.update(changes)
        edges.append(Edge(at_ns, 0, (), {"sender": sender, "receiver": receiver}, {}))
        payload_bytes += (1024 if index >= 3 else 512) * SAMPLE_NS // 1000
    return tuple(edges)


def make_observed(factors=None, edges=None, **changes):
    edges = edges or make_edges()
    end = {"totals": {}, "errors": [], "verify_mismatch": None, "first_bad_offset": None}
    started = {"effective": {}, "differences": []}
    observed = assemble.Observed(
        factors=with_defaults({"api": "msg_zerocopy", **(factors or {})}),
        edges={"sender": edges, "receiver": edges},
        discard_ns=3 * SAMPLE_NS,
        before={"sender": Idle({}), "receiver": Idle({})},
        after={"sender": Idle({}), "receiver": Idle({})},
        cpus={"sender": (0,), "receiver": (1,)},
        shares_host=True,
        shares_core=False,
        started={"sender": started, "receiver": started},
        ended={"sender": end, "receiver": end},
    )
    return replace(observed, **changes)


def values(measured):
    return {(value.metric, value.method): value for value in measured.measurements}


def test_every_metric_comes_from_the_same_window_after_the_discarded_ramp():
    measured = assemble.measured(make_observed())

    found = values(measured)
    assert measured.window_ns == SECOND_NS
    assert found["throughput", ""].value == pytest.approx(1024 * 10**6 * 8)
    assert found["call_rate", ""].value == pytest.approx(10_000)
    assert found["utilisation_sender", "rusage"].value == pytest.approx(0.5)
    assert found["service_demand_sender", "rusage"].value == pytest.approx(0.5)
    assert found["service_demand_receiver", "rusage"].value == pytest.approx(0.25)
    assert found["copied_share", ""].value == 0.25
    assert found["retransmits", ""].value == 10


def test_what_was_not_measured_has_a_reason():
    measured = assemble.measured(make_observed({"api": "write"}))

    for (metric, method), value in values(measured).items():
        assert (value.value is None) == (value.reason is not None), (metric, method)
    assert "no notice of completion" in values(measured)["copied_share", ""].reason
    assert values(measured)["service_demand_sender", "soak"].value is None


def test_all_samples_are_kept_and_the_ramp_is_marked():
    samples = assemble.measured(make_observed()).samples.columns

    assert samples["kept"] == [0] * 3 + [1] * 10
    assert sum(samples["payload_bytes"]) == (3 * 512 + 10 * 1024) * SAMPLE_NS // 1000
    assert samples["start_ns"][0] == 0
    assert {len(column) for column in samples.values()} == {13}


def test_the_rates_use_the_clock_of_the_end_they_belong_to():
    edges = make_edges()
    late = tuple(
        replace(edge, ends={**edge.ends, "receiver": {**edge.ends["receiver"], "at_ns": at_ns}})
        for edge, at_ns in zip(
            edges, [*(edge.at_ns for edge in edges[:-1]), edges[-1].at_ns + SECOND_NS], strict=True
        )
    )

    found = values(assemble.measured(make_observed(edges=late)))

    assert found["throughput", ""].value == pytest.approx(1024 * 10**6 * 8 / 2)
    assert found["call_rate", ""].value == pytest.approx(10_000)


def test_an_end_that_missed_an_edge_is_paired_with_the_nearest_one():
    edges = make_edges()
    gappy = (*edges[:6], *edges[7:])

    measured = assemble.measured(make_observed())
    missing = assemble.measured(
        replace(make_observed(), edges={"sender": edges, "receiver": gappy})
    )

    assert values(missing)["throughput", ""].value == values(measured)["throughput", ""].value
    assert len(missing.samples.columns["payload_bytes"]) == 13


@pytest.mark.parametrize(
    ("factors", "changes", "code"),
    [
        ({}, {}, "copied"),
        ({"api": "sendfile"}, {}, "proof-unknown"),
        ({}, {}, "retransmits"),
        ({}, {"shares_core": True}, "ends-share-core"),
        (
            {"api": "sendfile", "working_set": "files=3;mean_size=4096;passes=99"},
            {},
            "fewer-passes-than-declared",
        ),
    ],
)
def test_what_to_know_beside_the_numbers_is_flagged(factors, changes, code):
    measured = assemble.measured(make_observed(factors, **changes))

    assert code in {flag.code for flag in measured.flags}


def test_a_value_that_the_kernel_changed_is_flagged_with_both_values():
    sentence = "SO_SNDBUF: 1000 bytes asked for, 4608 in effect"
    changed = {"effective": {}, "differences": [sentence]}

    measured = assemble.measured(
        make_observed(started={"sender": changed, "receiver": {**changed, "differences": []}})
    )

    flags = {flag.code: flag.detail for flag in measured.flags}
    assert flags["effective-differs"] == sentence


def test_bytes_that_differ_fail_the_trial_and_say_where():
    bad = {"totals": {}, "errors": [], "verify_mismatch": 3, "first_bad_offset": 4097}
    observed = make_observed()

    measured = assemble.measured(
        replace(observed, ended={"sender": observed.ended["sender"], "receiver": bad})
    )

    assert "3 bytes differ" in str(measured.failure)
    assert "4097" in str(measured.failure)
    assert "verify-failed" in {flag.code for flag in measured.flags}


def test_an_error_of_a_loop_fails_the_trial():
    observed = make_observed()
    broken = {**observed.ended["sender"], "errors": ["send: Connection reset by peer"]}

    measured = assemble.measured(
        replace(observed, ended={"sender": broken, "receiver": observed.ended["receiver"]})
    )

    assert measured.failure == "the sender: send: Connection reset by peer"


def test_no_payload_in_the_window_is_a_failure_not_a_zero():
    edges = tuple(
        replace(edge, ends={**edge.ends, "receiver": {**edge.ends["receiver"], "payload_bytes": 7}})
        for edge in make_edges()
    )

    measured = assemble.measured(make_observed(edges=edges))

    assert measured.failure == "no payload arrived within the window"
    assert values(measured)["service_demand_sender", "rusage"].value is None


def test_two_hosts_have_books_of_their_own():
    measured = assemble.measured(make_observed(shares_host=False))

    assert set(measured.counts["hosts"]) == {"sender", "receiver"}
    assert values(measured)["utilisation_receiver", "rusage"].value == pytest.approx(0.25)
