"""The CPU books against a scripted machine whose loads are known exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest
from books_support import (
    SAMPLE_NS,
    Script,
    idle_edges,
    script_edges,
    without_groups,
    without_soakers,
)

from zcdb import flags
from zcdb.engine.books import Books, Idle, calibrate, cpu_books
from zcdb.records import Flag

IDLE = calibrate(idle_edges([0, 1]))


def books_of(samples, before: Idle | None = IDLE, after: Idle | None = IDLE, **options) -> Books:
    cpus_of_end = options.pop("cpus_of_end", {"sender": None})
    return cpu_books(script_edges(samples, **options), before, after, cpus_of_end)


def flag_of(books: Books, code: str) -> Flag | None:
    assert all(flag.code in flags.FLAGS for flag in books.flags)
    return next((flag for flag in books.flags if flag.code == code), None)


@pytest.mark.parametrize("load", [0.0, 0.10, 0.25, 0.50, 0.90, 1.0])
def test_both_estimators_recover_a_known_load_exactly(load):
    books = books_of([{0: Script(load=load)}] * 10, lengths_ns=[2 * SAMPLE_NS] * 10)

    (book,) = books.cpus
    assert book.soak_share == pytest.approx(load, abs=1e-6)
    assert book.soak_median_share == pytest.approx(load, abs=1e-6)
    assert book.soak_work_share == pytest.approx(load, abs=1e-6)
    assert books.ends["sender"]["soak"].cpu_time_ns == pytest.approx(load * 2e9, abs=2000)
    assert books.window_ns == 20 * SAMPLE_NS
    assert books.flags == ()


def test_what_only_the_work_rate_feels_is_contention():
    books = books_of([{0: Script(load=0.5, slowdown=0.2)}] * 20)

    assert books.ends["sender"]["soak"].cpu_time_ns == pytest.approx(1.0e9, abs=1000)
    assert books.ends["sender"]["soak_work"].cpu_time_ns == pytest.approx(1.2e9, abs=1000)
    assert books.contention["sender"].cpu_time_ns == pytest.approx(0.2e9, abs=1000)
    assert books.host_contention == books.contention["sender"]


def test_samples_with_hidden_steal_are_left_out():
    quiet, stolen = {0: Script(load=0.3)}, {0: Script(load=0.1, steal=0.05)}

    books = books_of([quiet] * 15 + [stolen] * 5)

    assert books.cpus[0].soak_share == pytest.approx(0.3, abs=1e-6)
    assert (books.cpus[0].kept_samples, books.cpus[0].samples) == (15, 20)
    assert books.cpus[0].steal_share == pytest.approx(0.0125)
    detail = flag_of(books, "steal").detail
    assert detail == "CPU 0: 5 of 20 samples, 1.25 % of the window; /proc/stat counted 0 ticks"
    assert flag_of(books, "contaminated") is None
    assert books.columns["sender_undisturbed"] == [1] * 15 + [0] * 5


def test_steal_up_to_one_per_cent_is_kept():
    books = books_of([{0: Script(load=0.3, steal=0.01)}] * 4)

    assert books.cpus[0].kept_samples == 4
    assert books.flags == ()


def test_samples_in_which_other_work_ran_are_left_out():
    quiet, busy = {0: Script(load=0.3)}, {0: Script(load=0.6, foreign=0.30)}

    books = books_of([quiet] * 15 + [busy] * 5)

    assert books.cpus[0].soak_share == pytest.approx(0.3, abs=1e-6)
    assert books.cpus[0].foreign_share == pytest.approx(0.075)
    assert flag_of(books, "foreign-load").detail == "CPU 0: 5 of 20 samples, 7.50 % of the window"


def test_too_few_undisturbed_samples_means_all_are_used_and_flagged():
    books = books_of([{0: Script(load=0.2)}] * 9 + [{0: Script(load=0.4, steal=0.1)}] * 11)

    assert books.cpus[0].soak_share == pytest.approx((9 * 0.2 + 11 * 0.4) / 20, abs=1e-6)
    assert books.cpus[0].is_contaminated
    assert flag_of(books, "contaminated").detail == "CPU 0 in the window"


def test_a_cpu_is_judged_by_its_own_samples():
    samples = [{0: Script(load=0.3), 1: Script(load=0.1, steal=0.1)}] * 20

    books = books_of(samples, cpus_of_end={"sender": [0], "receiver": [1]})

    assert [book.is_contaminated for book in books.cpus] == [False, True]
    assert books.columns["sender_undisturbed"] == [1] * 20
    assert books.columns["receiver_undisturbed"] == [0] * 20


def test_disturbed_cpus_outside_the_ends_raise_no_flag():
    samples = [{0: Script(load=0.3), 1: Script(), 2: Script(steal=0.1)}] * 20
    idle = calibrate(idle_edges([0, 1, 2]))

    books = books_of(samples, idle, idle, cpus_of_end={"sender": [0], "receiver": [1]})

    assert flag_of(books, "steal") is None


def test_the_samplers_own_time_is_not_foreign():
    edges = script_edges([{0: Script(foreign=0.10)}] * 20)
    edges = [
        replace(
            edge, host={**edge.host, "sampler_cpu": 0, "sampler_cpu_time_ns": place * 8_000_000}
        )
        for place, edge in enumerate(edges)
    ]

    books = cpu_books(edges, IDLE, IDLE, {"sender": None})

    assert books.cpus[0].foreign_share == pytest.approx(0.02)
    assert flag_of(books, "foreign-load") is None


def test_without_control_groups_foreign_time_is_not_measured():
    books = cpu_books(
        without_groups(script_edges([{0: Script(load=0.3)}] * 4)), IDLE, IDLE, {"sender": None}
    )

    assert books.cpus[0].foreign_share is None
    assert books.columns["sender_foreign_ns"] == [None] * 4
    assert books.cpus[0].soak_share == pytest.approx(0.3, abs=1e-6)


@pytest.mark.parametrize(("endpoint_share", "is_flagged"), [(0.30, False), (0.20, True)])
def test_without_control_groups_other_work_shows_in_the_cpu_clocks(endpoint_share, is_flagged):
    used = {"sender": [round(endpoint_share * SAMPLE_NS)] * 20}
    edges = without_groups(script_edges([{0: Script(load=0.3)}] * 20, ends=used))

    flag = flag_of(cpu_books(edges, IDLE, IDLE, {"sender": None}), "foreign-load")

    assert (flag is not None) == is_flagged
    if flag is not None:
        assert flag.detail == (
            "sender: 10.00 % of its CPUs, by CPU clocks; no sample could be left out"
        )


def test_a_gap_that_is_still_open_at_the_last_edge_counts():
    books = books_of([{0: Script(load=1.0, idle_gaps=0, open_gap=1.0)}] * 3)

    assert books.cpus[0].soak_share == pytest.approx(1.0)


def test_a_gap_that_was_open_at_the_first_edge_counts_from_that_edge():
    all_edges = script_edges(
        [{0: Script(load=1.0, idle_gaps=0, open_gap=1.0)}, *[{0: Script(load=0.4)}] * 4]
    )

    books = cpu_books(all_edges[1:], IDLE, IDLE, {"sender": None})

    assert books.cpus[0].soak_share == pytest.approx(0.4, abs=1e-6)


def test_samples_count_by_their_length():
    samples = [{0: Script(load=0.2)}, {0: Script(load=0.8)}]

    books = books_of(samples, lengths_ns=[300_000_000, 100_000_000])

    assert books.cpus[0].soak_share == pytest.approx(0.35, abs=1e-6)
    assert books.columns["start_ns"] == [0, 300_000_000]
    assert books.columns["end_ns"] == [300_000_000, 400_000_000]


def test_a_burst_in_few_samples_is_in_the_mean_and_flagged_beside_the_median():
    books = books_of([{0: Script(load=0.0)}] * 16 + [{0: Script(load=0.5)}] * 4)

    time = books.ends["sender"]["soak"]
    assert time.cpu_time_ns == pytest.approx(0.1 * 2e9, abs=2000)
    assert time.median_cpu_time_ns == pytest.approx(0, abs=2000)
    assert flag_of(books, "mean-median-differ").detail == "CPU 0: mean 10.00 %, median 0.00 %"


def test_a_load_below_the_idle_gaps_is_negative_and_not_cut_off():
    before = calibrate(idle_edges(idle_gaps=0.05))

    books = books_of([{0: Script()}] * 4, before, before)

    assert books.cpus[0].soak_share == pytest.approx((0.02 - 0.05) / 0.95, abs=1e-6)


def test_calibration_is_the_mean_of_both_brackets():
    before = calibrate(idle_edges(idle_gaps=0.010))
    after = calibrate(idle_edges(idle_gaps=0.014))

    books = books_of([{0: Script(idle_gaps=0.012)}] * 4, before, after)

    assert books.cpus[0].idle_gap_share == pytest.approx(0.012, abs=1e-6)
    assert books.cpus[0].soak_share == pytest.approx(0, abs=1e-6)
    assert flag_of(books, "bracket-drift") is None


@pytest.mark.parametrize(
    ("drifted", "detail"),
    [
        ({"slowdown": 0.03}, "CPU 0: work rate -3.00 %, gap share +0.00 points"),
        ({"idle_gaps": 0.03}, "CPU 0: work rate +0.00 %, gap share +1.00 points"),
    ],
)
def test_brackets_that_drift_apart_are_flagged(drifted, detail):
    books = books_of([{0: Script()}] * 4, IDLE, calibrate(idle_edges(**drifted)))

    assert flag_of(books, "bracket-drift").detail == detail


def test_one_bracket_is_enough_for_a_figure_but_shows_no_drift():
    books = books_of([{0: Script(load=0.3)}] * 4, IDLE, None)

    assert books.cpus[0].soak_share == pytest.approx(0.3, abs=1e-6)
    assert books.cpus[0].work_drift is None


def test_without_a_bracket_soaking_says_why_it_has_no_figure():
    books = books_of([{0: Script(load=0.3)}] * 4, None, None)

    assert books.host["soak"].cpu_time_ns is None
    assert books.host["soak"].reason == "there is no idle bracket in which the soaker worked"
    assert books.host_contention.reason == books.host["soak"].reason
    assert books.host["procstat"].cpu_time_ns is not None


def test_a_bracket_in_which_a_soaker_never_ran_calibrates_nothing():
    starved = calibrate(idle_edges(load=1.0))

    books = books_of([{0: Script(load=0.3)}] * 4, starved, starved)

    assert starved.cpus == {}
    assert books.host["soak"].reason == "there is no idle bracket in which the soaker worked"


def test_a_contaminated_bracket_is_flagged():
    before = calibrate(idle_edges(steal=0.1))

    books = books_of([{0: Script()}] * 4, before, IDLE)

    assert flag_of(books, "contaminated").detail == "CPU 0 in an idle bracket"


def test_a_bracket_leaves_disturbed_samples_out_as_well():
    edges = script_edges([{0: Script()}] * 8 + [{0: Script(idle_gaps=0.2, steal=0.1)}] * 2)

    assert calibrate(edges).cpus[0].gap_share == pytest.approx(0.02, abs=1e-6)
    assert not calibrate(edges).cpus[0].is_contaminated


def test_without_soakers_the_kernels_ticks_include_the_nice_column():
    edges = without_soakers(script_edges([{0: Script(load=0.3)}] * 10))

    books = cpu_books(edges, None, None, {"sender": None}, "soaking is not supported on riscv64")

    assert books.host["soak"].reason == "soaking is not supported on riscv64"
    assert books.host["procstat"].cpu_time_ns == pytest.approx(1e9)


def test_the_soakers_nice_time_is_not_busy():
    books = books_of([{0: Script(load=0.3)}] * 10)

    assert books.host["procstat"].cpu_time_ns == pytest.approx(0.3e9)
    assert books.cpus[0].soaker_share == pytest.approx(0.7)


def test_a_counter_that_goes_backwards_counts_as_nothing():
    edges = script_edges([{0: Script(load=0.3)}] * 10)
    row = edges[-1].cpus[0]
    falling = replace(row, ticks=row.ticks._replace(system=10, iowait=5))
    edges[-1] = replace(edges[-1], cpus=(falling,))

    books = cpu_books(edges, IDLE, IDLE, {"sender": None})

    assert books.host["procstat"].cpu_time_ns == pytest.approx(0.3e9)
    assert (books.cpus[0].ticks.system, books.cpus[0].ticks.iowait) == (0, 0)


def test_a_cpu_that_goes_offline_has_no_figure_by_ticks():
    edges = script_edges([{0: Script(load=0.3), 1: Script()}] * 10)
    offline = replace(edges[5].cpus[1], ticks=None)
    edges[5] = replace(edges[5], cpus=(edges[5].cpus[0], offline))

    books = cpu_books(edges, IDLE, IDLE, {"sender": None})

    assert books.host["procstat"].cpu_time_ns is None
    assert "CPU 1" in books.host["procstat"].reason
    assert books.cpus[0].procstat_ns == pytest.approx(0.3e9)
    assert books.cpus[1].ticks is None
    assert books.columns["host_procstat_ns"][4:6] == [None, None]
    assert None not in books.columns["host_procstat_ns"][:4]


@pytest.mark.parametrize(
    ("soak", "ticked", "is_flagged"),
    [(0.10, 0.14, True), (0.10, 0.0, True), (0.50, 0.52, False), (0.001, 0.0, False)],
)
def test_methods_disagree_above_five_per_cent_and_one_tick(soak, ticked, is_flagged):
    books = books_of([{0: Script(load=soak, ticked=ticked)}], lengths_ns=[10_000_000_000])

    flag = flag_of(books, "cpu-methods-disagree")
    assert (flag is not None) == is_flagged
    assert books.tick_resolution_ns == 10_000_000


def test_the_disagreement_carries_its_figures():
    books = books_of([{0: Script(load=0.10, ticked=0.14)}], lengths_ns=[10_000_000_000])

    detail = flag_of(books, "cpu-methods-disagree").detail
    assert detail == "sender: soak 0.100 CPUs, /proc/stat 0.140 CPUs"


# -- whose CPU time --------------------------------------------------------------------------

SHARED = [{0: Script(load=0.8), 1: Script(load=0.3)}] * 20


def test_two_ends_on_separate_cpus_have_their_own_figures():
    books = books_of(SHARED, cpus_of_end={"sender": [0], "receiver": [1]})

    assert books.ends["sender"]["soak"].cpu_time_ns == pytest.approx(1.6e9, abs=2000)
    assert books.ends["receiver"]["soak"].cpu_time_ns == pytest.approx(0.6e9, abs=2000)
    assert books.host["soak"].cpu_time_ns == pytest.approx(2.2e9, abs=4000)
    assert [book.end for book in books.cpus] == ["sender", "receiver"]
    assert flag_of(books, "ends-share-host").detail == "sender: CPU 0; receiver: CPU 1"


@pytest.mark.parametrize(
    ("sender", "receiver", "reason"),
    [
        ([0], [0], "both ends are pinned to CPU 0: its time cannot be told apart"),
        ([0, 1], [1], "both ends are pinned to CPU 1: its time cannot be told apart"),
        (
            None,
            None,
            "both ends share this host and are not pinned: no CPU belongs to one of them",
        ),
    ],
)
def test_ends_that_cannot_be_told_apart_have_the_hosts_total_only(sender, receiver, reason):
    books = books_of(SHARED, cpus_of_end={"sender": sender, "receiver": receiver})

    for end in ("sender", "receiver"):
        for method in ("soak", "soak_work", "procstat"):
            assert books.ends[end][method].cpu_time_ns is None
            assert books.ends[end][method].reason == reason
        assert books.contention[end].reason == reason
    assert books.host["soak"].cpu_time_ns == pytest.approx(2.2e9, abs=4000)
    assert [book.end for book in books.cpus] == [None, None]
    assert "sender_soak_ns" not in books.columns


def test_an_end_alone_on_its_host_owns_all_of_its_cpus():
    books = books_of(SHARED, cpus_of_end={"receiver": [1]})

    assert books.ends["receiver"]["soak"].cpu_time_ns == pytest.approx(2.2e9, abs=4000)
    assert books.ends["receiver"]["soak"].cpu_count == 2
    assert "sender" not in books.ends


def test_a_pinned_cpu_without_a_soaker_is_named():
    books = books_of(SHARED, cpus_of_end={"sender": [0], "receiver": [7]})

    assert books.ends["receiver"]["soak"].reason == "CPU 7 was not read"
    assert books.ends["sender"]["soak"].cpu_time_ns is not None


def test_rusage_is_the_growth_of_the_endpoints_cpu_clock():
    times = {"sender": [70_000_000] * 20, "receiver": [31_000_000] * 20}

    books = books_of(SHARED, cpus_of_end={"sender": None, "receiver": None}, ends=times)

    assert books.ends["sender"]["rusage"].cpu_time_ns == 20 * 70_000_000
    assert books.ends["receiver"]["rusage"].cpu_time_ns == 20 * 31_000_000
    assert books.host["rusage"].cpu_time_ns == 20 * 101_000_000
    assert books.columns["receiver_rusage_ns"] == [31_000_000] * 20


def test_an_end_whose_clock_was_not_read_says_so():
    books = books_of(SHARED, cpus_of_end={"sender": None})

    assert books.ends["sender"]["rusage"].cpu_time_ns is None
    reason = "the CPU clock of the sender was not read at these edges"
    assert books.ends["sender"]["rusage"].reason == reason


def test_edges_of_a_process_that_does_not_read_the_host_give_rusage_only():
    edges = [
        replace(edge, cpus=(), host={}, tsc=0)
        for edge in script_edges(SHARED, ends={"sender": [50_000_000] * 20})
    ]

    books = cpu_books(edges, None, None, {"sender": None})

    assert books.ends["sender"]["rusage"].cpu_time_ns == 10**9
    assert books.ends["sender"]["soak"].reason == "no soaker ran on these CPUs"
    assert books.ends["sender"]["procstat"].cpu_time_ns is None
    assert {len(column) for column in books.columns.values()} == {20}


def test_samples_sum_up_to_the_window():
    books = books_of(SHARED, cpus_of_end={"sender": [0], "receiver": [1]})

    assert {len(column) for column in books.columns.values()} == {20}
    for end in ("sender", "receiver"):
        for method in ("soak", "soak_work", "procstat"):
            total = sum(books.columns[f"{end}_{method}_ns"])
            assert total == pytest.approx(books.ends[end][method].cpu_time_ns, abs=100)


def test_six_hundred_cpus_add_up():
    cpus = range(600)
    idle = calibrate(idle_edges(cpus, samples=3))

    books = books_of([dict.fromkeys(cpus, Script(load=0.25))] * 3, idle, idle)

    assert books.cpu_count == 600
    assert books.host["soak"].cpu_time_ns == pytest.approx(600 * 0.25 * 0.3e9, rel=1e-5)
    assert books.columns["host_soak_ns"][0] == pytest.approx(600 * 0.25 * 0.1e9, rel=1e-5)


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_edges_are_refused(count):
    edges = script_edges([{0: Script()}])[:count]

    with pytest.raises(ValueError, match="two edges"):
        cpu_books(edges, IDLE, IDLE, {})


def test_each_cpu_s_samples_are_told_by_what_took_them():
    script = Script(load=0.5, idle_gaps=0.1, steal=0.2)

    columns = books_of([{0: script, 1: Script()}] * 3).columns

    assert columns["cpu0_task_ns"] == [SAMPLE_NS // 2] * 3
    # Interrupts come to the soaker in the half that the load leaves it.
    assert columns["cpu0_interrupt_ns"] == [SAMPLE_NS // 20] * 3
    assert columns["cpu0_steal_ns"] == [SAMPLE_NS // 5] * 3
    assert columns["cpu1_task_ns"] == [0] * 3


def test_without_a_soaker_a_cpu_s_samples_come_from_the_kernel_s_ticks():
    edges = without_soakers(script_edges([{0: Script(load=0.5)}] * 2))

    columns = cpu_books(edges, None, None, {"sender": None}).columns

    # Half of the ticks are the load's; the scripted machine books the rest as nice.
    assert columns["cpu0_task_ns"] == [SAMPLE_NS] * 2
    assert columns["cpu0_interrupt_ns"] == [0] * 2


def test_of_many_cpus_only_some_have_columns_the_ends_first():
    scripts = {cpu: Script() for cpu in range(40)}

    columns = books_of(
        [scripts] * 2, before=None, after=None, cpus_of_end={"sender": [39], "receiver": [38]}
    ).columns

    names = {name for name in columns if name.endswith("_task_ns")}
    assert len(names) == 16
    assert {"cpu38_task_ns", "cpu39_task_ns"} <= names
