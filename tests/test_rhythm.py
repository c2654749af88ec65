"""The rhythm of a case: what makes it, how long it is, and whether samples can show it."""

from __future__ import annotations

import pytest

from zcdb.factors import with_defaults
from zcdb.runner.rhythm import burst_ns, sampling_alias

SAMPLE_NS = 100_000_000
FILES = "files=63;mean_size=350000;passes=10"


@pytest.mark.parametrize(
    ("factors", "rate_bps", "expected_ns"),
    [
        ({}, 1e9, None),
        ({"working_set": 1 << 20}, 1e9, None),
        # 350 kB at 100 Mbit/s, as in 2001; two streams take turns on the link.
        ({"working_set": FILES}, 1e8, 28_000_000),
        ({"working_set": FILES, "streams": 2}, 1e8, 56_000_000),
        # A message of 1250 bytes at 1 Mbit/s.
        ({"target_rate": 10**6, "message_size": 1250}, 1e6, 10_000_000),
        ({"target_rate": 10**8, "message_size": 1250, "working_set": FILES}, 1e8, 28_000_000),
    ],
)
def test_a_burst_is_a_message_of_a_paced_stream_or_a_file(factors, rate_bps, expected_ns):
    assert burst_ns(with_defaults(factors), rate_bps) == expected_ns


def test_samples_that_span_few_bursts_are_told_with_how_many():
    factors = with_defaults({"working_set": FILES})

    risk = sampling_alias(factors, 1e8, SAMPLE_NS)

    assert risk.startswith("a sample spans 3.57 bursts and should span 20 or more")


@pytest.mark.parametrize("rate_bps", [1e9, 0])
def test_nothing_is_said_of_many_bursts_a_sample_or_of_a_trial_without_bytes(rate_bps):
    factors = with_defaults({"working_set": FILES})

    assert sampling_alias(factors, rate_bps, SAMPLE_NS) is None
