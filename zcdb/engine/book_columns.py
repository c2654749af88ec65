"""What the CPU books say of each sample, for storage.  Pure.

The names of the columns are in `books.Books`.  Disturbed samples are included:
leaving them out is the business of whoever uses the columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from zcdb.engine.account import Account
from zcdb.engine.window import Edge
from zcdb.records import ENDS, End

MOST_CPUS = 16
"""With more CPUs only these, the ends' first, have their samples stored one by one."""


def columns_of(
    edges: Sequence[Edge], owned: Mapping[End, Sequence[int]], accounts: Mapping[int, Account]
) -> dict[str, list[int | None]]:
    """Return the values of each sample, disturbed ones included."""
    first_ns = edges[0].at_ns
    columns: dict[str, list[int | None]] = {
        "start_ns": [edge.at_ns - first_ns for edge in edges[:-1]],
        "end_ns": [edge.at_ns - first_ns for edge in edges[1:]],
    }
    lengths_ns = [following.at_ns - edge.at_ns for edge, following in pairwise(edges)]
    scopes: dict[str, Sequence[int]] = {str(end): cpus for end, cpus in owned.items()}
    for name, cpus in {**scopes, "host": list(accounts)}.items():
        chosen = [accounts[cpu] for cpu in cpus if cpu in accounts]
        if chosen:
            columns |= _scope_columns(name, chosen, lengths_ns)
    first = [cpu for cpus in owned.values() for cpu in cpus if cpu in accounts]
    shown = list(dict.fromkeys([*first, *accounts]))[:MOST_CPUS]
    for cpu in sorted(shown):
        columns |= _cpu_columns(accounts[cpu], edges)
    for end in ENDS:
        if any(end in edge.ends for edge in edges):
            clocks = [edge.ends.get(end, {}).get("cpu_time_ns") for edge in edges]
            columns[f"{end}_rusage_ns"] = [
                None if earlier is None or later is None else later - earlier
                for earlier, later in pairwise(clocks)
            ]
    return columns


def _scope_columns(
    name: str, accounts: Sequence[Account], lengths_ns: Sequence[int]
) -> dict[str, list[int | None]]:
    """Return the columns of one end, or of the host: sums over its CPUs."""
    columns: dict[str, list[int | None]] = {}
    for place, length_ns in enumerate(lengths_ns):
        shares = [account.sample_shares(place) for account in accounts]
        values = {
            f"{method}_ns": _sum_or_none(
                [None if row[method] is None else (row[method] or 0) * length_ns for row in shares]
            )
            for method in shares[0]
        }
        values["procstat_ns"] = _sum_or_none(
            [account.procstat_ns(place, place + 1) for account in accounts]
        )
        values["undisturbed"] = int(all(account.is_undisturbed(place) for account in accounts))
        for column, value in values.items():
            columns.setdefault(f"{name}_{column}", []).append(value)
    return columns


def _cpu_columns(account: Account, edges: Sequence[Edge]) -> dict[str, list[int | None]]:
    """Return what each sample of one CPU went to; nothing subtracted."""
    columns: dict[str, list[int | None]] = {}
    for place, (edge, following) in enumerate(pairwise(edges)):
        used = account.used_ns(place, following.at_ns - edge.at_ns)
        for kind in ("task", "interrupt", "steal"):
            value = used[kind] if used is not None else None
            columns.setdefault(f"cpu{account.cpu}_{kind}_ns", []).append(value)
    return columns


def _sum_or_none(values: Sequence[float | None]) -> int | None:
    known = [value for value in values if value is not None]
    return round(sum(known)) if len(known) == len(values) else None
