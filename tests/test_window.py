"""Edges: what is read, when, with which time stamps and which priority."""

from __future__ import annotations

import json
import os
import time

import pytest
from books_support import Script, script_edges

from zcdb.engine import window
from zcdb.engine.window import CpuEdge, Edge, Sources, read_edges, sampling_priority
from zcdb.errors import EngineError
from zcdb.host.procstat import usable_cpus

MS = 1_000_000


def test_edges_come_at_the_start_at_every_sample_and_at_the_end():
    edges = read_edges(50 * MS, 20 * MS, Sources())

    offsets = [edge.at_ns - edges[0].at_ns for edge in edges]
    assert len(edges) >= 2
    assert offsets[-1] >= 50 * MS
    assert all(offset >= 20 * MS for offset in offsets[1:])
    assert offsets == sorted(offsets)


def test_a_late_edge_does_not_delay_the_next(monkeypatch):
    now = [1_000 * MS]
    monkeypatch.setattr(window.time, "monotonic_ns", lambda: now[0])
    delays = iter([0, 35 * MS, 0, 0, 0, 0])

    def wait(seconds: float) -> None:
        now[0] += round(seconds * 1e9) + next(delays)

    edges = read_edges(60 * MS, 10 * MS, Sources(is_host_read=False), wait=wait)

    # The second edge came at 55 instead of 20: 30, 40 and 50 are over, the grid goes on.
    assert [(edge.at_ns - 1_000 * MS) // MS for edge in edges] == [0, 10, 55, 60]


def test_the_last_sample_may_be_shorter(monkeypatch):
    now = [1_000 * MS]
    monkeypatch.setattr(window.time, "monotonic_ns", lambda: now[0])

    def wait(seconds: float) -> None:
        now[0] += round(seconds * 1e9)

    edges = read_edges(25 * MS, 10 * MS, Sources(is_host_read=False), wait=wait)

    assert [(edge.at_ns - 1_000 * MS) // MS for edge in edges] == [0, 10, 20, 25]


def test_being_told_to_stop_ends_the_window_with_an_edge():
    stop_at = time.monotonic() + 0.03

    edges = read_edges(
        None, 10_000 * MS, Sources(), lambda: time.monotonic() > stop_at, lambda _: time.sleep(0.01)
    )

    assert len(edges) == 2


def test_a_window_without_end_is_thinned_and_keeps_its_first_and_last_edge(monkeypatch):
    monkeypatch.setattr(window, "MOST_EDGES", 16)
    now = [0]
    monkeypatch.setattr(window.time, "monotonic_ns", lambda: now[0])

    def wait(seconds: float) -> None:
        now[0] += round(seconds * 1e9)

    edges = read_edges(None, MS, Sources(is_host_read=False), lambda: now[0] >= 1_000 * MS, wait)

    assert len(edges) <= 17
    assert (edges[0].at_ns, edges[-1].at_ns) == (0, now[0])
    assert now[0] >= 1_000 * MS


@pytest.mark.parametrize(("duration_ns", "sample_ns"), [(0, MS), (-1, MS), (MS, 0)])
def test_a_window_without_length_is_refused(duration_ns, sample_ns):
    with pytest.raises(EngineError, match="is not one"):
        read_edges(duration_ns, sample_ns, Sources())


def test_an_edge_has_the_kernels_row_of_every_cpu_and_its_totals():
    edge = read_edges(MS, MS, Sources())[0]

    assert set(usable_cpus()) <= {row.cpu for row in edge.cpus}
    assert all(row.ticks is not None and row.net_rx is not None for row in edge.cpus)
    assert all(row.soak is None and row.usage_ns is None for row in edge.cpus)
    assert edge.tsc == 0
    assert edge.host["stat_at_ns"] >= edge.at_ns
    assert edge.host["user_hz"] == os.sysconf("SC_CLK_TCK")
    assert edge.host["interrupts"] > 0
    assert edge.host["context_switches"] > 0


def test_endpoints_are_read_at_every_edge_with_their_own_time():
    counts = iter(range(100))
    sources = Sources(ends={"receiver": lambda: {"payload_bytes": next(counts)}})

    edges = read_edges(30 * MS, 10 * MS, sources)

    values = [edge.ends["receiver"]["payload_bytes"] for edge in edges]
    assert values == list(range(len(edges)))
    for edge in edges:
        assert edge.at_ns <= edge.ends["receiver"]["at_ns"] <= edge.host["stat_at_ns"]


def test_a_time_that_the_endpoint_states_itself_is_kept():
    sources = Sources(ends={"sender": lambda: {"at_ns": 42}}, is_host_read=False)

    assert read_edges(MS, MS, sources)[0].ends["sender"]["at_ns"] == 42


def test_a_second_agent_of_a_host_reads_its_endpoints_only():
    edge = read_edges(MS, MS, Sources(ends={"sender": dict}, is_host_read=False))[0]

    assert edge.cpus == ()
    assert "stat_at_ns" not in edge.host
    assert "sender" in edge.ends


def test_edges_survive_a_pipe():
    edges = script_edges([{0: Script(load=0.3), 1: Script()}] * 2, ends={"sender": [5, 6]})
    edges.append(Edge(1, 2, (CpuEdge(3),), {}, {}))

    returned = [Edge.from_json(json.loads(json.dumps(edge.to_json()))) for edge in edges]

    assert returned == edges


# -- priority --------------------------------------------------------------------------------


def _may_be_realtime() -> bool:
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except PermissionError:
        return False
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return True


needs_realtime = pytest.mark.skipif(not _may_be_realtime(), reason="no permission for SCHED_FIFO")


@needs_realtime
def test_the_sampler_is_pinned_and_comes_first_and_is_put_back():
    pinned, cpu = os.sched_getaffinity(0), usable_cpus()[-1]

    with sampling_priority(cpu) as sampler:
        inside = os.sched_getscheduler(0), os.sched_getaffinity(0)

    assert (sampler.cpu, sampler.reason) == (cpu, None)
    assert inside == (os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, {cpu})
    assert (os.sched_getscheduler(0), os.sched_getaffinity(0)) == (os.SCHED_OTHER, pinned)


@needs_realtime
def test_what_the_sampler_forks_has_an_ordinary_priority():
    with sampling_priority(usable_cpus()[0]):
        pid = os.fork()
        if pid == 0:
            os._exit(os.sched_getscheduler(0))
        _, status = os.waitpid(pid, 0)

    assert os.waitstatus_to_exitcode(status) == os.SCHED_OTHER


def test_without_permission_the_sampler_says_so_and_works(monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(window.os, "sched_setscheduler", refuse)
    pinned = os.sched_getaffinity(0)

    with sampling_priority(usable_cpus()[0]) as sampler:
        edges = read_edges(MS, MS, Sources())

    assert sampler.reason == "no permission for SCHED_FIFO: Operation not permitted"
    assert len(edges) >= 2
    assert os.sched_getaffinity(0) == pinned


def test_a_cpu_that_does_not_exist_is_named():
    with (
        pytest.raises(EngineError, match="the sampler cannot run on CPU 9999"),
        sampling_priority(9999),
    ):
        pass


def test_the_first_edge_after_the_ramp_and_the_last_one_carry_details():
    edges = read_edges(60 * MS, 10 * MS, Sources(interfaces=("lo",)), discard_ns=25 * MS)

    begin = next(
        place for place, edge in enumerate(edges) if edge.at_ns - edges[0].at_ns >= 25 * MS
    )
    detailed = [place for place, edge in enumerate(edges) if edge.details is not None]
    assert detailed == [begin, len(edges) - 1]
    assert edges[begin].details["at_ns"] <= edges[begin].at_ns
    assert edges[-1].details["at_ns"] >= edges[-1].at_ns


def test_without_a_ramp_the_first_edge_carries_details():
    edges = read_edges(20 * MS, 10 * MS, Sources(interfaces=("lo",)))

    assert [edge.details is not None for edge in edges] == [True, *[False] * (len(edges) - 2), True]


def test_without_an_interface_no_network_counter_is_read():
    edges = read_edges(10 * MS, 10 * MS, Sources())

    assert [(edge.interfaces, edge.details) for edge in edges] == [({}, None)] * len(edges)
    assert edges[0].cpus[0].softnet is None


def test_thinning_keeps_the_edges_with_details():
    edges = [Edge(place, 0, details={} if place in (3, 7) else None) for place in range(9)]

    assert [edge.at_ns for edge in window._thinned(edges)] == [0, 2, 3, 4, 6, 7, 8]


def test_counters_of_an_edge_survive_the_pipe():
    edge = read_edges(10 * MS, 10 * MS, Sources(interfaces=("lo",)))[-1]

    assert edge.interfaces["lo"].tx_packets >= 0
    assert edge.cpus[0].softnet is not None
    assert Edge.from_json(json.loads(json.dumps(edge.to_json()))) == edge
