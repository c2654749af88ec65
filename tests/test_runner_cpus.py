"""Where the ends of a link run."""

from __future__ import annotations

import pytest

from zcdb.runner.cpus import Placement, parse_cpu_list, place

TWO_CORES = [[0, 2], [1, 3]]


def both(cores):
    return {"sender": cores, "receiver": cores}


@pytest.mark.parametrize(
    ("text", "cpus"), [("0", (0,)), ("0,2-4", (0, 2, 3, 4)), ("1,1,0", (1, 0))]
)
def test_cpu_lists_read_as_the_kernel_writes_them(text, cpus):
    assert parse_cpu_list(text) == cpus


def test_separate_takes_two_physical_cores():
    placement = place("separate", both(TWO_CORES), shares_host=True)

    assert placement == Placement({"sender": (0,), "receiver": (1,)}, is_separate=True)


def test_separate_on_one_core_uses_its_threads_and_says_so():
    placement = place("separate", both([[0, 1]]), shares_host=True)

    assert isinstance(placement, Placement)
    assert placement.shares_core


def test_separate_on_one_cpu_cannot_be_had():
    assert "needs two CPUs" in str(place("separate", both([[5]]), shares_host=True))


def test_on_two_hosts_each_end_has_its_own_first_cpu():
    cores = {"sender": [[4], [5]], "receiver": [[8]]}

    placement = place("separate", cores, shares_host=False)

    assert placement == Placement({"sender": (4,), "receiver": (8,)}, is_separate=True)


@pytest.mark.parametrize("pinning", ["none", "same"])
def test_ends_that_share_cpus_are_not_separate(pinning):
    placement = place(pinning, both(TWO_CORES), shares_host=True)

    assert isinstance(placement, Placement)
    assert not placement.is_separate


def test_explicit_lists_are_taken_and_overlap_is_seen():
    apart = place("sender=0;receiver=1-3", both(TWO_CORES), shares_host=True)
    overlapping = place("sender=0-1;receiver=1", both(TWO_CORES), shares_host=True)

    assert apart == Placement({"sender": (0,), "receiver": (1, 2, 3)}, is_separate=True)
    assert isinstance(overlapping, Placement)
    assert not overlapping.is_separate


def test_a_cpu_that_does_not_exist_is_named():
    assert "CPU 9 for the receiver" in str(
        place("sender=0;receiver=9", both(TWO_CORES), shares_host=True)
    )
