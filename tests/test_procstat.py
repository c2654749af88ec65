"""/proc/stat and /proc/softirqs: the arithmetic, and reading them from an open file."""

from __future__ import annotations

import os

import pytest

from zcdb.errors import HostError
from zcdb.host.procstat import (
    CpuTicks,
    OpenFile,
    StatReader,
    parse_cpu_list,
    parse_softirqs,
    parse_stat,
    usable_cpus,
)

STAT = """\
cpu  300 30 60 4000 40 6 8 10 50 5
cpu0 100 10 20 2000 20 2 4 5 25 2
cpu2 200 20 40 2000 20 4 4 5 25 3
intr 900001 5 0 0 7
ctxt 123456
btime 1700000000
processes 4242
procs_running 1
procs_blocked 0
softirq 77 1 2 3 4 5 6 7 8 9 10
"""

SOFTIRQS = """\
                    CPU0       CPU1       CPU2
          HI:          1          0          0
      NET_TX:          6          0         12
      NET_RX:       8824      16933          7
    HRTIMER:           0          0          0
"""


def test_rows_are_by_cpu_and_an_offline_cpu_has_none():
    stat = parse_stat(STAT)

    assert sorted(stat.cpus) == [0, 2]
    assert stat.cpus[2] == CpuTicks(200, 20, 40, 2000, 20, 4, 4, 5, 25, 3)
    assert (stat.interrupts, stat.context_switches) == (900001, 123456)


def test_busy_counts_iowait_as_idle_leaves_steal_out_and_guests_once():
    ticks = CpuTicks(
        user=100,
        nice=10,
        system=20,
        idle=2000,
        iowait=30,
        irq=2,
        softirq=4,
        steal=50,
        guest=60,
        guest_nice=5,
    )

    assert ticks.busy() == 100 + 10 + 20 + 2 + 4
    assert ticks.busy(is_nice_busy=False) == 100 + 20 + 2 + 4


def test_a_column_that_goes_backwards_counts_as_nothing():
    before = CpuTicks(100, 0, 0, 1000, 50, 0, 0, 0, 0, 0)
    after = CpuTicks(130, 0, 0, 990, 40, 0, 0, 0, 0, 0)

    assert after.since(before) == CpuTicks(30, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def test_six_hundred_cpus_are_read():
    text = "cpu  0 0 0 0\n" + "".join(f"cpu{cpu} {cpu} 0 0 5 0 0 0 0 0 0\n" for cpu in range(600))

    stat = parse_stat(text)

    assert len(stat.cpus) == 600
    assert stat.cpus[599].user == 599


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("cpu0 1 2 3 4", CpuTicks(1, 2, 3, 4, 0, 0, 0, 0, 0, 0)),
        ("cpu0 1 2 3 4 5 6 7 8 9 10 11 12", CpuTicks(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)),
    ],
)
def test_kernels_with_fewer_or_more_columns_are_understood(row, expected):
    assert parse_stat(row).cpus[0] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "/proc/stat has no line for any CPU"),
        ("cpu0 1 2 x 4\n", "/proc/stat: 'x' in 'cpu0 1 2 x 4' is not a number"),
        ("cpuX 1 2 3 4\n", "/proc/stat: 'X' in 'cpuX 1 2 3 4' is not a number"),
        ("cpu0 1 2 3\n", "/proc/stat: 'cpu0 1 2 3' has fewer than four columns"),
    ],
)
def test_what_is_not_proc_stat_is_refused_in_one_sentence(text, message):
    with pytest.raises(HostError) as refused:
        parse_stat(text)

    assert refused.value.message == message


def test_network_softirqs_are_by_cpu():
    assert parse_softirqs(SOFTIRQS) == {
        "NET_TX": {0: 6, 1: 0, 2: 12},
        "NET_RX": {0: 8824, 1: 16933, 2: 7},
    }


def test_a_softirq_row_that_is_too_short_is_refused():
    with pytest.raises(HostError, match="NET_RX has 1 numbers for 2 CPUs"):
        parse_softirqs("  CPU0 CPU1\n  NET_RX: 5\n")


@pytest.mark.parametrize(
    ("text", "cpus"), [("0\n", [0]), ("0-2,5", [0, 1, 2, 5]), ("3,1,1", [1, 3])]
)
def test_cpu_lists_are_read(text, cpus):
    assert parse_cpu_list(text) == cpus


@pytest.mark.parametrize("text", ["", "x", "1-", "-3", "1,,2", "1-2-3"])
def test_what_is_not_a_cpu_list_is_refused(text):
    with pytest.raises(ValueError, match="is not a CPU or a range of CPUs"):
        parse_cpu_list(text)


def test_usable_cpus_do_not_depend_on_the_present_pinning():
    all_cpus = usable_cpus()
    pinned = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, [all_cpus[0]])

        assert usable_cpus() == all_cpus
        assert os.sched_getaffinity(0) == {all_cpus[0]}
    finally:
        os.sched_setaffinity(0, pinned)


def test_an_open_file_is_read_anew_each_time(tmp_path):
    path = tmp_path / "stat"
    path.write_text("first")
    file = OpenFile(path)

    first = file.read()
    path.write_text("second, longer")

    assert (first, file.read()) == ("first", "second, longer")
    file.close()
    file.close()


def test_a_file_longer_than_the_first_buffer_is_read_whole(tmp_path):
    path = tmp_path / "stat"
    path.write_text("x" * 1_000_000)
    file = OpenFile(path)

    assert len(file.read()) == 1_000_000
    file.close()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(HostError, match=f"cannot read {tmp_path}/stat: No such file"):
        StatReader(tmp_path)


def test_this_machines_counters_grow():
    with StatReader() as reader:
        before = reader.stat()
        os.sched_yield()
        after = reader.stat()
        softirqs = reader.softirqs()

    assert after.interrupts >= before.interrupts > 0
    assert after.context_switches > 0
    assert set(usable_cpus()) <= set(after.cpus) <= set(softirqs["NET_RX"])


def test_a_file_that_comes_in_records_is_read_to_its_end(tmp_path, monkeypatch):
    text = "".join(f"{number:08x} 00000000 00000000\n" for number in range(700))
    (tmp_path / "softnet_stat").write_text(text)
    pread = os.pread

    def whole_records_of_a_page(descriptor, size, offset):
        data = pread(descriptor, min(size, 4096), offset)
        return data[: data.rfind(b"\n") + 1]

    file = OpenFile(tmp_path / "softnet_stat")
    monkeypatch.setattr(os, "pread", whole_records_of_a_page)

    assert file.read_records() == text
    assert file.read_records() == text
    file.close()


def test_a_file_of_records_without_an_end_is_refused(monkeypatch, tmp_path):
    (tmp_path / "endless").write_text("x")
    file = OpenFile(tmp_path / "endless")
    monkeypatch.setattr(os, "pread", lambda *_: b"x" * 2**20)

    with pytest.raises(HostError, match="is longer than"):
        file.read_records()
    file.close()
