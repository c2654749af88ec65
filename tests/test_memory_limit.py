"""Memory as what limits a trial: how much of its bandwidth a copying sender needs."""

from __future__ import annotations

import pytest

from zcdb.factors import with_defaults
from zcdb.runner.limiter import Signals, identify
from zcdb.runner.memory import Memory, read_share, source_bytes

SECOND_NS = 10**9
MEMORY = Memory(bytes_per_s=10e9, buffer_bytes=64 << 20)
BIG = with_defaults({"working_set": 1 << 30})


def test_the_higher_of_both_bandwidths_counts_and_the_size_that_no_cache_held():
    readings = {
        "memory_bandwidth": {
            "read_bytes_per_s": 5e9,
            "write_bytes_per_s": 20e9,
            "buffer_bytes": 64 << 20,
            "reason": None,
        }
    }

    assert Memory.of(readings) == Memory(20e9, 64 << 20)


@pytest.mark.parametrize(
    "readings",
    [
        {},
        {
            "memory_bandwidth": {
                "read_bytes_per_s": None,
                "write_bytes_per_s": None,
                "buffer_bytes": 1,
                "reason": "too little memory is free",
            }
        },
    ],
)
def test_memory_that_was_not_measured_is_unknown(readings):
    assert Memory.of(readings) is None
    assert read_share(Memory.of(readings), BIG, 10**9, SECOND_NS, 1) is None


@pytest.mark.parametrize(
    ("working_set", "expected_bytes"),
    [
        ("hot", 65536),
        (1 << 30, 1 << 30),
        ("files=63;mean_size=350000;passes=10", 22_050_000),
    ],
)
def test_the_source_is_all_that_is_sent_again_and_again(working_set, expected_bytes):
    factors = with_defaults({"message_size": 65536, "working_set": working_set})

    assert source_bytes(factors) == expected_bytes


@pytest.mark.parametrize(("cpus", "expected"), [(1, 0.9), (2, 0.45)])
def test_the_share_is_what_was_copied_over_what_the_end_s_cpus_can_move(cpus, expected):
    assert read_share(MEMORY, BIG, 9 * 10**9, SECOND_NS, cpus) == pytest.approx(expected)


def test_a_source_that_a_cache_may_hold_is_not_held_against_memory():
    factors = with_defaults({"working_set": "hot"})

    assert read_share(MEMORY, factors, 30 * 10**9, SECOND_NS, 1) == 0.0


def test_memory_comes_before_the_cpu_that_waits_for_it():
    found = identify(Signals(memory_read_share=0.9, sender_cpu_share=1.0))

    assert found.name == "memory"
    assert found.rule == (
        "reading what was copied took 90 % of the memory bandwidth that the sender's CPUs have"
    )
