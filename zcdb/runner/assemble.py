"""From what the ends read to a trial's record: values or reasons, flags, raw counts, samples.

Pure: the same edges give the same record for ever.  Every metric comes from the
same two edges: the first one after the discarded ramp and the last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from zcdb import units
from zcdb.engine import books
from zcdb.engine.apis import SENDER_APIS
from zcdb.engine.window import Edge
from zcdb.factors import Factors, file_set
from zcdb.ids import Json
from zcdb.records import ENDS, End, Flag, MetricValue, SampleSeries
from zcdb.runner.execute import Measured

PERTURBATION_LIMIT = 0.02


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that one trial gave.

    Attributes:
        factors: all declared factors, defaults filled in.
        edges: each end's edges, the discarded ones included.
        before, after: the idle brackets of each end's host.
        cpus: each end's CPUs; None where it was not pinned.
        started: each end's effective values and how they differ from what was asked for.
        ended: each end's totals, errors and verification.
    """

    factors: Factors
    edges: Mapping[End, Sequence[Edge]]
    discard_ns: int
    before: Mapping[End, books.Idle]
    after: Mapping[End, books.Idle]
    cpus: Mapping[End, tuple[int, ...] | None]
    shares_host: bool
    shares_core: bool
    started: Mapping[End, Mapping[str, Any]]
    ended: Mapping[End, Mapping[str, Any]]


def measured(observed: Observed) -> Measured:
    """Return the record of a trial."""
    edges = _aligned(observed.edges)
    window = {end: after(edges[end], observed.discard_ns) for end in ENDS}
    grown = {end: _grown(window[end], end) for end in ENDS}
    accounts = _books(observed, window)
    payload_bytes = grown["receiver"]["payload_bytes"]
    window_ns = grown["receiver"]["at_ns"]
    values = [
        *_traffic_values(observed.factors, grown),
        *(value for end in ENDS for value in _cpu_values(end, accounts[end], payload_bytes)),
    ]
    return Measured(
        window_ns=window_ns,
        counts=_counts(observed, grown, accounts),
        measurements=values,
        flags=[*_flags(observed, grown), *_unique(accounts)],
        samples=_samples(observed, edges, len(window["receiver"])),
        failure=_failure(observed, payload_bytes),
    )


def after(edges: Sequence[Edge], discard_ns: int) -> Sequence[Edge]:
    """Return the edges of the window: those after the discarded ramp, at least two."""
    # An edge is never early, but the ramp need not be a multiple of the sample.
    start_ns = edges[0].at_ns + discard_ns
    kept = [edge for edge in edges if edge.at_ns >= start_ns]
    return kept if len(kept) > 1 else edges[-2:]


def throughput_bps(edges: Sequence[Edge]) -> float:
    """Return the receiver's payload rate between the first and the last of its edges."""
    grown = _grown(edges, "receiver")
    return units.throughput_bps(grown["payload_bytes"], grown["at_ns"])


def _aligned(edges: Mapping[End, Sequence[Edge]]) -> dict[End, Sequence[Edge]]:
    """Return both ends' edges, one of the receiver's for each of the sender's.

    Two agents step on grids of their own that began together; one of them may
    have missed an edge.
    """
    if edges["sender"] is edges["receiver"]:
        return dict(edges)
    sender, receiver = edges["sender"], edges["receiver"]
    nearest = [
        min(
            receiver,
            key=lambda other: abs(
                (other.at_ns - receiver[0].at_ns) - (edge.at_ns - sender[0].at_ns)
            ),
        )
        for edge in sender
    ]
    return {"sender": sender, "receiver": nearest}


def _grown(edges: Sequence[Edge], end: End) -> dict[str, int]:
    """Return by how much an end's counters, and its clock, grew between first and last edge."""
    first, last = edges[0].ends[end], edges[-1].ends[end]
    return {name: last[name] - first[name] for name in first}


def _books(observed: Observed, window: Mapping[End, Sequence[Edge]]) -> dict[End, books.Books]:
    """Return the books of each end's host; the same ones where both share it."""
    if not observed.shares_host:
        return {
            end: books.cpu_books(
                window[end], observed.before[end], observed.after[end], {end: observed.cpus[end]}
            )
            for end in ENDS
        }
    merged = [
        replace(edge, ends={**other.ends, **edge.ends})
        for edge, other in zip(window["sender"], window["receiver"], strict=True)
    ]
    shared = books.cpu_books(
        merged, observed.before["sender"], observed.after["sender"], observed.cpus
    )
    return {"sender": shared, "receiver": shared}


def _traffic_values(factors: Factors, grown: Mapping[End, Mapping[str, int]]) -> list[MetricValue]:
    sender, receiver = grown["sender"], grown["receiver"]
    return [
        MetricValue(
            "throughput", "", units.throughput_bps(receiver["payload_bytes"], receiver["at_ns"])
        ),
        MetricValue(
            "sent_throughput", "", units.throughput_bps(sender["payload_bytes"], sender["at_ns"])
        ),
        MetricValue("call_rate", "", sender["calls"] * 10**9 / sender["at_ns"]),
        MetricValue("retransmits", "", float(sender["retransmits"])),
        _copied_share(str(factors["api"]), sender),
    ]


def _copied_share(api: str, sender: Mapping[str, int]) -> MetricValue:
    if SENDER_APIS[api].proof not in ("completions", "usage-report"):
        return MetricValue("copied_share", "", None, f"{api} gives no notice of completion")
    if not sender["completions"]:
        return MetricValue("copied_share", "", None, "no completion arrived within the window")
    return MetricValue("copied_share", "", sender["copied"] / sender["completions"])


def _cpu_values(end: End, account: books.Books, payload_bytes: int) -> list[MetricValue]:
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


def _flags(observed: Observed, grown: Mapping[End, Mapping[str, int]]) -> list[Flag]:
    sender = grown["sender"]
    flags = []
    if observed.shares_core:
        flags.append(Flag("ends-share-core"))
    if sender["copied"]:
        flags.append(Flag("copied", f"{sender['copied']} of {sender['completions']} completions"))
    if SENDER_APIS[str(observed.factors["api"])].proof == "path":
        flags.append(Flag("proof-unknown", "the offloads of the path were not looked at"))
    if sender["retransmits"]:
        flags.append(Flag("retransmits", f"{sender['retransmits']} segments"))
    differences = [text for end in ENDS for text in observed.started[end]["differences"]]
    if differences:
        flags.append(Flag("effective-differs", "; ".join(differences)))
    files = file_set(observed.factors["working_set"])
    if files is not None and sender["passes"] < files.passes:
        flags.append(
            Flag("fewer-passes-than-declared", f"{sender['passes']} of {files.passes} passes")
        )
    if observed.ended["receiver"]["verify_mismatch"]:
        flags.append(Flag("verify-failed"))
    return flags


def _unique(accounts: Mapping[End, books.Books]) -> list[Flag]:
    return list(dict.fromkeys(flag for account in accounts.values() for flag in account.flags))


def _failure(observed: Observed, payload_bytes: int) -> str | None:
    for end in ENDS:
        errors: Sequence[str] = observed.ended[end]["errors"]
        if errors:
            return f"the {end}: {errors[0]}"
    mismatch = observed.ended["receiver"]["verify_mismatch"]
    if mismatch:
        first = observed.ended["receiver"]["first_bad_offset"]
        return f"{mismatch} bytes differ from what was sent, the first at stream offset {first}"
    return None if payload_bytes else "no payload arrived within the window"


def _counts(
    observed: Observed,
    grown: Mapping[End, Mapping[str, int]],
    accounts: Mapping[End, books.Books],
) -> dict[str, Json]:
    hosts = {"host": accounts["sender"]} if observed.shares_host else dict(accounts)
    return {
        "window": {end: dict(grown[end]) for end in ENDS},
        "totals": {end: dict(observed.ended[end]["totals"]) for end in ENDS},
        "effective": {end: dict(observed.started[end]["effective"]) for end in ENDS},
        "cpu_time": {
            end: {method: asdict(time) for method, time in accounts[end].ends[end].items()}
            for end in ENDS
        },
        "hosts": {
            name: {
                "window_ns": account.window_ns,
                "cpu_count": account.cpu_count,
                "tick_resolution_ns": account.tick_resolution_ns,
                "cpu_time": {method: asdict(time) for method, time in account.host.items()},
                "cpus": [_cpu_json(book) for book in account.cpus],
            }
            for name, account in hosts.items()
        },
    }


def _cpu_json(book: books.CpuBook) -> dict[str, Json]:
    values = asdict(book)
    ticks = book.ticks
    values["ticks"] = ticks._asdict() if ticks is not None else None
    return values


def _samples(
    observed: Observed, edges: Mapping[End, Sequence[Edge]], kept_edges: int
) -> SampleSeries:
    """Return every sample, the discarded ones included and marked."""
    columns: dict[str, Sequence[int | float | None]] = {}
    accounts = _books(observed, edges)
    for account in accounts.values():
        columns.update(account.columns)
    samples = len(edges["receiver"]) - 1
    kept = kept_edges - 1
    columns["kept"] = [0] * (samples - kept) + [1] * kept
    columns["payload_bytes"] = _steps(edges["receiver"], "receiver", "payload_bytes")
    columns["sent_bytes"] = _steps(edges["sender"], "sender", "payload_bytes")
    for name in ("calls", "completions", "copied", "retransmits"):
        columns[name] = _steps(edges["sender"], "sender", name)
    return SampleSeries(columns)


def _steps(edges: Sequence[Edge], end: End, name: str) -> list[int | float | None]:
    return [later.ends[end][name] - earlier.ends[end][name] for earlier, later in pairwise(edges)]
