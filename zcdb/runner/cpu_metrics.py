"""From CPU books to the metrics of an end: per second, per KB, per transaction.  Pure."""

from __future__ import annotations

from zcdb import units
from zcdb.engine import books
from zcdb.records import End, MetricValue

ROLES: dict[End, str] = {"sender": "client", "receiver": "server"}
"""What an end is called in an exchange: the sender sends the requests."""


def cpu_values(end: End, account: books.Books, payload_bytes: int) -> list[MetricValue]:
    """Return utilisation and service demand of an end by every method, and its contention."""
    values = []
    for method, cpu_time in account.ends[end].items():
        values += [
            _utilisation(f"utilisation_{end}", method, cpu_time, account.window_ns),
            _service_demand(f"service_demand_{end}", method, cpu_time, payload_bytes),
        ]
    values.append(
        _utilisation(f"contention_{end}", "soak_work", account.contention[end], account.window_ns)
    )
    return values


def _utilisation(metric: str, method: str, cpu_time: books.CpuTime, window_ns: int) -> MetricValue:
    if cpu_time.cpu_time_ns is None:
        return MetricValue(metric, method, None, cpu_time.reason)
    return MetricValue(metric, method, cpu_time.cpu_time_ns / window_ns)


def _service_demand(
    metric: str, method: str, cpu_time: books.CpuTime, payload_bytes: int
) -> MetricValue:
    if cpu_time.cpu_time_ns is None:
        return MetricValue(metric, method, None, cpu_time.reason)
    if not payload_bytes:
        return MetricValue(metric, method, None, "no payload arrived within the window")
    return MetricValue(
        metric, method, units.service_demand_us_per_kb(cpu_time.cpu_time_ns, payload_bytes)
    )


def exchange_values(end: End, account: books.Books, transactions: int) -> list[MetricValue]:
    """Return utilisation and CPU time per transaction of an end of an exchange."""
    role = ROLES[end]
    values = []
    for method, cpu_time in account.ends[end].items():
        values += [
            _utilisation(f"utilisation_{role}", method, cpu_time, account.window_ns),
            _transaction_demand(f"transaction_demand_{role}", method, cpu_time, transactions),
        ]
    return values


def _transaction_demand(
    metric: str, method: str, cpu_time: books.CpuTime, transactions: int
) -> MetricValue:
    if cpu_time.cpu_time_ns is None:
        return MetricValue(metric, method, None, cpu_time.reason)
    if not transactions:
        return MetricValue(metric, method, None, "no transaction ended within the window")
    return MetricValue(metric, method, cpu_time.cpu_time_ns / 1000 / transactions)
