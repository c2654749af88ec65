"""From edges to a trial's record, with known answers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from books_support import Script, script_edges

from zcdb.engine.books import Idle
from zcdb.engine.window import CpuEdge, Edge
from zcdb.factors import with_defaults
from zcdb.flags import FLAGS
from zcdb.host.netcounters import InterfaceCounters
from zcdb.metrics import METRICS
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


def with_details(edges, sg=True, tx_checksum=True, speed_bps=None):
    """The same edges as an agent reads them that also counts the interface eth0."""
    counted = []
    for index, edge in enumerate(edges):
        sent = edge.ends["sender"]["payload_bytes"]
        interfaces = {"eth0": InterfaceCounters(0, 0, 0, 0, sent, sent // 1448, 0, 0)}
        details = {
            "at_ns": edge.at_ns,
            "protocols": {},
            "offloads": {"eth0": {"sg": sg, "tx_checksum": tx_checksum}},
            "link_speed_bps": {"eth0": speed_bps},
        }
        is_detailed = index in (3, len(edges) - 1)
        counted.append(
            replace(edge, interfaces=interfaces, details=details if is_detailed else None)
        )
    return tuple(counted)


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
        # Files of 10 ms each, in samples of 100 ms.
        (
            {"api": "sendfile", "working_set": "files=3;mean_size=10240000;passes=1"},
            {},
            "sampling-alias",
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


@pytest.mark.parametrize(
    ("sg", "label", "code"),
    [(True, "proven", None), (False, "copied", "copied")],
)
def test_sendfile_is_proven_by_the_offloads_that_held_in_the_window(sg, label, code):
    edges = with_details(make_edges(), sg=sg)

    measured = assemble.measured(make_observed({"api": "sendfile"}, edges))

    codes = {flag.code for flag in measured.flags}
    assert measured.counts["zero_copy"]["label"] == label
    assert values(measured)["proven_zero_copy_share", ""].value == float(sg)
    assert codes & {"copied", "proof-unknown"} == ({code} if code else set())


def test_a_report_without_scatter_gather_proves_nothing():
    edges = with_details(make_edges(), sg=False)

    measured = assemble.measured(make_observed(edges=edges))

    found = values(measured)["proven_zero_copy_share", ""]
    assert measured.counts["zero_copy"]["label"] == "unknown"
    assert (found.value, "scatter-gather off" in found.reason) == (None, True)


@pytest.mark.parametrize(
    ("factors", "speed_bps"),
    [
        ({"link_rate": 9 * 10**9}, None),
        ({}, 9 * 10**9),
        ({"pacing_rate": 2_250_000_000, "streams": 4}, None),
        ({"target_rate": 9 * 10**9, "link_rate": 10**12}, None),
    ],
)
def test_a_trial_that_reaches_its_rate_is_limited_by_it_and_flagged(factors, speed_bps):
    # 1 KiB a microsecond is 8.19 Gbit/s: more than nine tenths of 9.
    edges = with_details(make_edges(), speed_bps=speed_bps)

    measured = assemble.measured(make_observed(factors, edges))

    assert measured.counts["limiter"]["name"] == "link rate"
    assert measured.counts["limiter"]["signals"]["link_rate_bps"] == 9 * 10**9
    assert "link-limited" in {flag.code for flag in measured.flags}


def test_a_process_that_fills_its_cpu_limits_the_trial():
    edges = with_details(make_edges(sender_cpu=0.97, receiver_cpu=0.5))

    measured = assemble.measured(make_observed(edges=edges))

    assert measured.counts["limiter"]["name"] == "sender CPU"
    assert "97 % of the window" in measured.counts["limiter"]["rule"]


def test_threads_share_the_time_of_their_process():
    edges = with_details(make_edges(sender_cpu=0.97))
    # Two CPUs are seen, and four streams cannot fill more.
    edges = tuple(replace(edge, cpus=(CpuEdge(0), CpuEdge(1))) for edge in edges)

    measured = assemble.measured(make_observed({"streams": 4}, edges))

    signals = measured.counts["limiter"]["signals"]
    assert signals["sender_cpu_share"] == pytest.approx(0.485)


def test_two_hosts_columns_are_told_apart():
    edges = script_edges([{0: Script(load=0.5)}] * 4, ends={"sender": [1] * 4, "receiver": [1] * 4})
    edges = tuple(
        replace(
            edge,
            ends={end: {**make_edges()[place].ends[end], **own} for end, own in edge.ends.items()},
        )
        for place, edge in enumerate(edges)
    )

    one = assemble.measured(make_observed(edges=edges, discard_ns=0))
    two = assemble.measured(make_observed(edges=edges, discard_ns=0, shares_host=False))

    assert "cpu0_task_ns" in one.samples.columns
    assert {"sender_cpu0_task_ns", "receiver_cpu0_task_ns", "sender_host_steal_ns"} <= set(
        two.samples.columns
    )
    assert "cpu0_task_ns" not in two.samples.columns
    assert set(two.counts["kernel"]) == {"sender", "receiver"}


def test_an_exchange_has_transactions_and_no_service_demand():
    exchanged = {"transactions": 0, "latency_sum_ns": 0, "latency_squares_ns2": 0}
    edges = tuple(
        replace(
            edge,
            ends={
                **edge.ends,
                "sender": {**edge.ends["sender"], **exchanged, "transactions": place * 1000},
            },
        )
        for place, edge in enumerate(make_edges())
    )

    found = values(assemble.measured(make_observed({"test": "rr", "api": "send"}, edges)))

    assert found["transaction_rate", ""].value == pytest.approx(10_000)
    # Half a CPU for 10,000 transactions a second.
    assert found["transaction_demand_client", "rusage"].value == pytest.approx(50)
    assert found["utilisation_server", "rusage"].value == pytest.approx(0.25)
    for metric, method in (("throughput", ""), ("service_demand_sender", "rusage")):
        assert found[metric, method].value is None
        assert "counts transactions" in found[metric, method].reason
    assert found["cycles_per_byte_sender", "perf"].value is None


def test_datagrams_that_arrived_are_messages_and_the_others_losses():
    edges = tuple(
        replace(
            edge,
            ends={
                "sender": {**edge.ends["sender"], "datagrams": place * 120},
                "receiver": {
                    **edge.ends["receiver"],
                    "datagrams": place * 100,
                    "lost": place * 20,
                },
            },
        )
        for place, edge in enumerate(with_details(make_edges()))
    )

    factors = {"protocol": "udp", "api": "send"}
    found = values(assemble.measured(make_observed(factors, edges)))

    assert found["message_rate", ""].value == pytest.approx(1000)
    assert found["loss", ""].value == pytest.approx(1 / 6)
    assert found["retransmits", ""].value is None


def test_a_core_that_was_throttled_in_the_window_is_flagged():
    edges = tuple(
        replace(edge, details={**edge.details, "throttles": place})
        if edge.details is not None
        else edge
        for place, edge in enumerate(with_details(make_edges()))
    )

    measured = assemble.measured(make_observed(edges=edges))

    assert {flag.code: flag.detail for flag in measured.flags}["throttled"] == "10 times"
    assert measured.counts["kernel"]["host"]["throttles"] == 10


def test_every_metric_and_flag_is_registered():
    measured = assemble.measured(make_observed(edges=with_details(make_edges())))

    assert {value.metric for value in measured.measurements} <= set(METRICS)
    assert {flag.code for flag in measured.flags} <= set(FLAGS)
