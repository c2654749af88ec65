"""How pages write numbers and names: units by row, signs of verdicts, where names may wrap."""

from __future__ import annotations

import pytest

from zcdb.webapp.filters import arrow, breakable, metric_number
from zcdb.webapp.quantities import quantity, with_minus


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("latency_p50", 20.04e-6, "20.0 us"),
        ("latency_p99", 0.0013, "1.30 ms"),
        ("latency_p99", 2.5, "2.50 s"),
        ("latency_p50", 850e-9, "850 ns"),
        ("throughput", 21.04e9, "21.0 Gbit/s"),
        ("throughput", 0.0, "0 bit/s"),
        ("copied_share", 0.5, "50.0 %"),
        ("service_demand_sender", 0.1823, "0.182"),
        ("service_demand_sender", None, "–"),
    ],
)
def test_a_value_states_its_unit_where_units_differ_from_row_to_row(metric, value, text):
    assert metric_number(value, metric) == text


def test_a_column_has_the_unit_of_its_largest_value():
    unit = quantity("latency_p50", [20e-6, None, 1.5e-3])

    assert (unit.unit, unit.number(20e-6), unit.number(1.5e-3)) == ("ms", "0.0200", "1.50")
    assert unit.interval(1.5e-3, 1.4e-3, 1.6e-3) == "[1.40, 1.60]"


@pytest.mark.parametrize(
    ("word", "ratio", "sign"),
    [
        ("better", 0.5, "↓"),
        ("better", 1.2, "↑"),
        ("worse", 1.2, "↑"),
        ("equivalent", 1.01, "="),
        ("undecided", 0.8, "?"),
        ("better", None, ""),
    ],
)
def test_a_verdict_has_a_sign_beside_its_word(word, ratio, sign):
    assert arrow(word, ratio) == sign


@pytest.mark.parametrize(
    ("name", "html"),
    [
        ("msg_zerocopy", "msg_<wbr>zerocopy"),
        ("kernel.release", "kernel.<wbr>release"),
        ("2.4.0-pre3", "2.4.0-pre3"),
        ("64 KiB", "64\N{NO-BREAK SPACE}KiB"),
        ("<a_b>", "&lt;a_<wbr>b&gt;"),
    ],
)
def test_a_name_wraps_between_its_words_and_never_inside_a_number(name, html):
    assert str(breakable(name)) == html


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3 better; on geometric average -4.8 %", "3 better; on geometric average −4.8 %"),
        ("-12.0 %", "−12.0 %"),
        ("5-tuple of kernel 6.1-rc2", "5-tuple of kernel 6.1-rc2"),
        ("x4.92, --1", "x4.92, --1"),
    ],
)
def test_what_was_written_for_a_terminal_gets_the_minus_sign_of_pages(text, expected):
    assert with_minus(text) == expected
