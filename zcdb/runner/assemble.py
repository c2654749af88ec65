"""From what the ends read to a trial's record: values or reasons, flags, raw counts, samples.

Pure: the same edges give the same record for ever.  Every metric comes from the
same two edges: the first one after the discarded ramp and the last one.  What the
counters say is in `counters`, what limited the trial in `limiter`, whether bytes
were copied in `proof`; here they are brought together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from zcdb import units
from zcdb.engine import books, workloads
from zcdb.engine.window import Edge
from zcdb.factors import Factors, file_set
from zcdb.ids import Json
from zcdb.records import ENDS, End, Flag, MetricValue, SampleSeries
from zcdb.runner import limiter, proof
from zcdb.runner.counter_metrics import PER_PAYLOAD, end_metrics, path_metrics
from zcdb.runner.counters import EndCounters, end_counts, growth, host_counts, sample_columns
from zcdb.runner.cpu_metrics import cpu_values, exchange_values
from zcdb.runner.execute import Measured
from zcdb.runner.memory import Memory
from zcdb.runner.rhythm import sampling_alias
from zcdb.runner.signals import signals

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
        memory: bandwidth of the sender's host; None where it was not measured.
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
    memory: Memory | None = None


@dataclass(frozen=True, slots=True)
class _Window:
    """The window of a trial, all differences taken.

    Attributes:
        edges: of each end, from the first after the ramp on.
        accounts: the CPU books of each end's host; the same ones where both share it.
    """

    edges: Mapping[End, Sequence[Edge]]
    counters: Mapping[End, EndCounters]
    accounts: Mapping[End, books.Books]

    @property
    def payload_bytes(self) -> int:
        """What the receiving application read."""
        return self.counters["receiver"].own["payload_bytes"]


def measured(observed: Observed) -> Measured:
    """Return the record of a trial."""
    edges = _aligned(observed.edges)
    window = _window(observed, edges)
    proven = _proof(observed, window)
    limited = limiter.identify(
        signals(
            observed.factors,
            window.counters,
            window.accounts,
            observed.memory,
            is_copied=proven.label == "copied",
        )
    )
    return Measured(
        window_ns=window.counters["receiver"].window_ns,
        counts={
            **_counts(observed, window),
            "limiter": limited.to_json(),
            "zero_copy": {
                **proven.to_json(),
                "receiver_mapped_bytes": window.counters["receiver"].own.get("mapped_bytes"),
            },
        },
        measurements=_values(observed, window, proven),
        flags=[*_flags(observed, window, proven, limited), *_unique(window.accounts)],
        samples=_samples(observed, edges, len(window.edges["receiver"])),
        failure=_failure(observed, window.payload_bytes),
    )


def _window(observed: Observed, edges: Mapping[End, Sequence[Edge]]) -> _Window:
    kept = {end: after(edges[end], observed.discard_ns) for end in ENDS}
    counters = {
        # Where both ends share a host, the first end's agent reads it.
        end: EndCounters.of(end, kept[end], kept["sender" if observed.shares_host else end])
        for end in ENDS
    }
    return _Window(kept, counters, _books(observed, kept))


def _proof(observed: Observed, window: _Window) -> proof.Proof:
    sender = window.counters["sender"]
    details = sender.details
    path = proof.Path(
        sg=details.offload("sg") if details is not None else None,
        tx_checksum=details.offload("tx_checksum") if details is not None else None,
    )
    return proof.prove(str(observed.factors["api"]), sender.own, path)


def _values(observed: Observed, window: _Window, proven: proof.Proof) -> list[MetricValue]:
    """Return every metric, or the reason why it has no value."""
    payload_bytes, factors = window.payload_bytes, observed.factors
    is_exchange = factors["test"] != "stream"
    values = [
        *_traffic_values(window.counters, proven),
        *path_metrics(window.counters["sender"], payload_bytes),
    ]
    for end in ENDS:
        account = window.accounts[end]
        values += cpu_values(end, account, payload_bytes)
        values += end_metrics(window.counters[end], account, payload_bytes)
        if is_exchange:
            values += exchange_values(end, account, window.counters["sender"].own["transactions"])
    reasons = workloads.inapplicable(factors)
    if is_exchange:
        reasons |= dict.fromkeys(PER_PAYLOAD, reasons["throughput"])
    return _merged(values, workloads.metrics_of(factors, window.edges), reasons)


def _merged(
    values: Sequence[MetricValue], special: Sequence[MetricValue], reasons: Mapping[str, str]
) -> list[MetricValue]:
    """Return the values, a test's own in place of the common ones, and none that cannot be."""
    own = {(value.metric, value.method) for value in special}
    common = [value for value in values if (value.metric, value.method) not in own]
    return [
        MetricValue(value.metric, value.method, None, reasons[value.metric])
        if value.metric in reasons
        else value
        for value in [*common, *special]
    ]


def after(edges: Sequence[Edge], discard_ns: int) -> Sequence[Edge]:
    """Return the edges of the window: those after the discarded ramp, at least two."""
    # An edge is never early, but the ramp need not be a multiple of the sample.
    start_ns = edges[0].at_ns + discard_ns
    kept = [edge for edge in edges if edge.at_ns >= start_ns]
    return kept if len(kept) > 1 else edges[-2:]


def throughput_bps(edges: Sequence[Edge]) -> float:
    """Return the receiver's payload rate between the first and the last of its edges."""
    grown = growth(edges, "receiver")
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


def _traffic_values(counters: Mapping[End, EndCounters], proven: proof.Proof) -> list[MetricValue]:
    sender, receiver = counters["sender"].own, counters["receiver"].own
    return [
        MetricValue(
            "throughput", "", units.throughput_bps(receiver["payload_bytes"], receiver["at_ns"])
        ),
        MetricValue(
            "sent_throughput", "", units.throughput_bps(sender["payload_bytes"], sender["at_ns"])
        ),
        MetricValue("call_rate", "", sender["calls"] * 10**9 / sender["at_ns"]),
        MetricValue("retransmits", "", float(sender["retransmits"])),
        _copied_share(sender, proven),
        MetricValue(
            "proven_zero_copy_share",
            "",
            proven.proven_share,
            None if proven.proven_share is not None else proven.sentence,
        ),
    ]


def _copied_share(sender: Mapping[str, int], proven: proof.Proof) -> MetricValue:
    if proven.method not in proof.REPORTS:
        return MetricValue("copied_share", "", None, "this API gives no notice of completion")
    if not sender["completions"]:
        return MetricValue("copied_share", "", None, "no completion arrived within the window")
    return MetricValue("copied_share", "", sender["copied"] / sender["completions"])


def _flags(
    observed: Observed, window: _Window, proven: proof.Proof, limited: limiter.Limiter
) -> list[Flag]:
    sender = window.counters["sender"].own
    flags = []
    if observed.shares_core:
        flags.append(Flag("ends-share-core"))
    if proven.is_asked and proven.label == "copied":
        flags.append(Flag("copied", proven.sentence))
    if proven.label == "unknown":
        flags.append(Flag("proof-unknown", proven.sentence))
    if limited.name == "link rate":
        flags.append(Flag("link-limited", limited.rule))
    flags += _throttled(window)
    flags += _aliased(observed, window)
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


def _throttled(window: _Window) -> list[Flag]:
    details = [window.counters[end].host_details for end in ENDS]
    counts = [found.throttles() or 0 for found in details if found is not None]
    return [Flag("throttled", f"{max(counts)} times")] if any(counts) else []


def _aliased(observed: Observed, window: _Window) -> list[Flag]:
    edges, sender = window.edges["sender"], window.counters["sender"].own
    sample_ns = (edges[-1].at_ns - edges[0].at_ns) / (len(edges) - 1)
    rate_bps = units.throughput_bps(sender["payload_bytes"], sender["at_ns"])
    risk = sampling_alias(observed.factors, rate_bps, sample_ns)
    return [Flag("sampling-alias", risk)] if risk else []


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


def _counts(observed: Observed, window: _Window) -> dict[str, Json]:
    accounts = window.accounts
    hosts: dict[str, End] = (
        {"host": "sender"} if observed.shares_host else {str(end): end for end in ENDS}
    )
    return {
        "window": {end: dict(window.counters[end].own) for end in ENDS},
        "totals": {end: dict(observed.ended[end]["totals"]) for end in ENDS},
        "effective": {end: dict(observed.started[end]["effective"]) for end in ENDS},
        "cpu_time": {
            end: {method: asdict(time) for method, time in accounts[end].ends[end].items()}
            for end in ENDS
        },
        "network": {end: end_counts(window.counters[end]) for end in ENDS},
        "kernel": {
            name: host_counts(window.edges[end], accounts[end]) for name, end in hosts.items()
        },
        "hosts": {name: _account_json(accounts[end]) for name, end in hosts.items()},
    }


def _account_json(account: books.Books) -> dict[str, Json]:
    return {
        "window_ns": account.window_ns,
        "cpu_count": account.cpu_count,
        "tick_resolution_ns": account.tick_resolution_ns,
        "cpu_time": {method: asdict(time) for method, time in account.host.items()},
        "cpus": [_cpu_json(book) for book in account.cpus],
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
    for end, account in _books(observed, edges).items():
        for name, column in account.columns.items():
            # Two hosts both have a CPU 0 and a total.
            is_of_host = name.startswith(("cpu", "host_")) and not observed.shares_host
            columns[f"{end}_{name}" if is_of_host else name] = column
    columns |= sample_columns(edges)
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
