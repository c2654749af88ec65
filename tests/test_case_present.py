"""The figures that a case's page leads with."""

from __future__ import annotations

import pytest

from zcdb.store.results import CasePage, Sibling, Statistic
from zcdb.webapp.present.case import case_content


def _statistic(metric: str, mean: float | None, method: str = "") -> Statistic:
    return Statistic(metric, method, 5, mean, mean, 0.1, mean, mean, None if mean else "no reason")


def _page(*statistics: Statistic, sibling: tuple[Statistic, ...] = ()) -> CasePage:
    return CasePage(
        "a" * 32,
        {"api": "send", "test": "rr"},
        statistics,
        (),
        None,
        {"api": (Sibling("b" * 32, "write", sibling),)},
    )


EXCHANGE = (
    _statistic("transaction_rate", 27_000.0),
    _statistic("latency_p50", 32e-6),
    _statistic("latency_p99", 61e-6),
    _statistic("transaction_demand_client", 23.2, "soak"),
    _statistic("transaction_demand_server", 23.0, "soak"),
    _statistic("throughput", None),
)


def test_a_case_of_requests_and_responses_leads_with_transactions_and_their_latency():
    content = case_content(_page(*EXCHANGE, sibling=EXCHANGE[:2]))

    assert [(one.metric, one.mean) for one in content.headline] == [
        ("transaction_rate", 27_000.0),
        ("latency_p50", 32e-6),
        ("latency_p99", 61e-6),
        ("transaction_demand_client", 23.2),
        ("transaction_demand_server", 23.0),
    ]


def test_cases_beside_it_have_the_same_columns_and_blanks_where_they_measured_less():
    content = case_content(_page(*EXCHANGE, sibling=EXCHANGE[:2]))

    (axis,) = content.axes
    other = next(row for row in axis.rows if not row.is_self)
    assert [one.metric for one in other.headline] == [one.metric for one in content.headline]
    assert [one.mean for one in other.headline] == [27_000.0, 32e-6, None, None, None]


def test_a_case_of_bytes_leads_with_throughput_and_its_cost():
    content = case_content(
        _page(_statistic("throughput", 1e9), _statistic("service_demand_sender", 0.5, "soak"))
    )

    assert [one.metric for one in content.headline] == [
        "throughput",
        "service_demand_sender",
        "service_demand_receiver",
    ]
    assert content.headline[1].mean == pytest.approx(0.5)
