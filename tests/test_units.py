"""Sizes, rates, times and ratios: read and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcdb import units


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        (0, 0),
        (65536, 65536),
        ("1", 1),
        ("64K", 65536),
        ("64k", 65536),
        ("64 KiB", 65536),
        ("64KB", 65536),
        ("1.5K", 1536),
        ("16M", 16 * 2**20),
        ("2G", 2 * 2**30),
        ("100 B", 100),
    ],
)
def test_sizes_take_binary_prefixes(text, size_bytes):
    assert units.parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "K", "-1", -1, "1.3", "64X", "1e3", True, None, 1.0, "0x10"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match=r"size|negative|whole number of bytes"):
        units.parse_size(text)


@pytest.mark.parametrize(
    ("text", "rate_bps"),
    [
        (10**9, 10**9),
        ("1gbit", 10**9),
        ("1G", 10**9),
        ("2.5 Gbit/s", 25 * 10**8),
        ("100mbit", 10**8),
        ("64kbps", 64000),
        ("0", 0),
    ],
)
def test_rates_take_decimal_prefixes(text, rate_bps):
    assert units.parse_rate(text) == rate_bps


@pytest.mark.parametrize("text", ["", "fast", "1gib", -5, False, "0.5"])
def test_what_is_no_rate_is_refused(text):
    with pytest.raises(ValueError, match=r"rate|negative|whole number of bit/s"):
        units.parse_rate(text)


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("1ns", 1),
        ("5us", 5000),
        ("5 µs", 5000),
        ("500ms", 5 * 10**8),
        ("1.5s", 15 * 10**8),
        ("2m", 120 * 10**9),
        ("2min", 120 * 10**9),
        ("1h", 3600 * 10**9),
    ],
)
def test_durations_need_a_unit(text, duration_ns):
    assert units.parse_duration(text) == duration_ns


@pytest.mark.parametrize("text", ["2", 2, "", "2 days", "-1s", "0.5ns", "2S"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match=r"duration|whole number of nanoseconds"):
        units.parse_duration(text)


@pytest.mark.parametrize(
    ("text", "ratio"),
    [("2%", 0.02), ("2 %", 0.02), (0.02, 0.02), ("0.02", 0.02), (1, 1), ("0%", 0)],
)
def test_a_percentage_and_its_ratio_are_the_same(text, ratio):
    assert units.parse_ratio(text) == pytest.approx(ratio)


@pytest.mark.parametrize("text", ["two", "200%", 1.01, -0.1, True, float("nan"), ""])
def test_what_is_no_ratio_is_refused(text):
    with pytest.raises(ValueError, match=r"ratio|between 0 and 1"):
        units.parse_ratio(text)


@given(st.integers(0, 2**50))
def test_a_whole_size_survives_being_written_and_read(size_bytes):
    text = units.format_size(size_bytes)

    if size_bytes % 1024 == 0 or size_bytes < 10 * 1024:
        assert units.parse_size(text) == size_bytes
    else:
        assert units.parse_size(text.split()[0].split(".")[0]) <= size_bytes


@given(st.integers(1, 999), st.sampled_from([1, 10**3, 10**6, 10**9, 10**12]))
def test_a_rate_of_three_digits_survives_being_written_and_read(number, scale):
    assert units.parse_rate(units.format_bps(number * scale)) == number * scale


@given(st.integers(1, 999), st.sampled_from([1, 10**3, 10**6]))
def test_a_duration_below_a_second_survives_being_written_and_read(number, scale):
    assert units.parse_duration(units.format_duration(number * scale)) == number * scale


@given(st.floats(1e-6, 1))
def test_a_ratio_is_written_to_three_digits(ratio):
    assert units.parse_ratio(units.format_ratio(ratio)) == pytest.approx(ratio, rel=0.0051)


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0 ns"),
        (2 * 10**9, "2 s"),
        (1_500_000_000, "1.5 s"),
        (500 * 10**6, "500 ms"),
        (90 * 10**9, "1 min 30 s"),
        (120 * 10**9, "2 min"),
        (7500 * 10**9, "2 h 5 min"),
    ],
)
def test_durations_are_written_for_people(duration_ns, text):
    assert units.format_duration(duration_ns) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(11.5e9, "11.5 Gbit/s"), (0, "0 bit/s"), (94.0e6, "94.0 Mbit/s")],
)
def test_rates_are_written_for_people(value, text):
    assert units.format_bps(value) == text


def test_service_demand_is_netperfs():
    """Dumazet, 2014: 9407.44 Mbit/s at 2.50 % of 24 CPUs is 0.522 us/KB."""
    payload_bytes = round(9407.44e6 / 8 * 10)

    demand = units.service_demand_us_per_kb(0.0250 * 24 * 10 * 10**9, payload_bytes)

    assert demand == pytest.approx(0.522, abs=0.001)
    with pytest.raises(ValueError, match="no payload"):
        units.service_demand_us_per_kb(1, 0)


def test_throughput_is_payload_bits_by_time():
    assert units.throughput_bps(125, 10**6) == 10**6
    with pytest.raises(ValueError, match="no time has passed"):
        units.throughput_bps(1, 0)
