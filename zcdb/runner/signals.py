"""From counters and CPU books to the signals that tell what limited a trial.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from zcdb.engine.books import Books, CpuBook
from zcdb.engine.window import Edge
from zcdb.factors import Factors
from zcdb.records import End
from zcdb.runner.counters import EndCounters
from zcdb.runner.limiter import Signals, link_share
from zcdb.runner.memory import Memory, read_share

MS_NS = 10**6


def signals(
    factors: Factors,
    counters: Mapping[End, EndCounters],
    accounts: Mapping[End, Books],
    memory: Memory | None = None,
    *,
    is_copied: bool = False,
) -> Signals:
    """Return for which share of the window each possible limiter was at work.

    Args:
        memory: of the sender's host; None where its bandwidth was not measured.
        is_copied: the sender's CPUs copied the payload, as its proof says.
    """
    sender = counters["sender"]
    rate_bps = rate_limit_bps(factors, sender)
    rates = _rates_bps(counters["receiver"].edges, sender.edges)
    return Signals(
        link_share=link_share(
            [rate for rate, _ in rates], [length for _, length in rates], rate_bps
        ),
        link_rate_bps=rate_bps,
        sender_cpu_share=cpu_share("sender", sender, accounts["sender"], factors),
        receiver_cpu_share=cpu_share(
            "receiver", counters["receiver"], accounts["receiver"], factors
        ),
        rwnd_share=sender.share_of_window("tcp_rwnd_limited_us"),
        sndbuf_share=sender.share_of_window("tcp_sndbuf_limited_us"),
        memory_share=_memory_share(counters.values()),
        memory_read_share=read_share(
            memory,
            factors,
            sender.own["payload_bytes"] if is_copied else 0,
            sender.own["at_ns"],
            sum(book.end == "sender" for book in accounts["sender"].cpus)
            or accounts["sender"].cpu_count
            or 0,
        ),
    )


def rate_limit_bps(factors: Factors, sender: EndCounters) -> int | None:
    """Return the smallest rate that holds the sender back: declared, or the link's speed."""
    rates = []
    for name in ("link_rate", "target_rate"):
        if factors.get(name):
            rates.append(int(factors[name]))
    if factors.get("pacing_rate"):
        rates.append(int(factors["pacing_rate"]) * int(factors["streams"]))
    if sender.details is not None:
        speeds = (sender.details.after.get("link_speed_bps") or {}).values()
        if speeds and None not in speeds:
            rates.append(sum(speeds))
    return min(rates, default=None)


def _rates_bps(receiver: Sequence[Edge], sender: Sequence[Edge]) -> list[tuple[float, int]]:
    """Return (bit/s, ns) of each sample: on the interface where it was counted, else the payload.

    With small messages the headers are most of what the link carries.
    """
    payload = [
        (later.ends["receiver"]["payload_bytes"] - earlier.ends["receiver"]["payload_bytes"])
        * 8e9
        / max(1, later.ends["receiver"]["at_ns"] - earlier.ends["receiver"]["at_ns"])
        for earlier, later in pairwise(receiver)
    ]
    rates = []
    for place, (earlier, later) in enumerate(pairwise(sender)):
        length_ns = later.at_ns - earlier.at_ns
        sent = sum(
            counts.tx_bytes - earlier.interfaces[name].tx_bytes
            for name, counts in later.interfaces.items()
            if name in earlier.interfaces
        )
        on_wire = sent * 8e9 / length_ns if length_ns > 0 else 0.0
        rates.append((max(on_wire, payload[place]), length_ns))
    return rates


def cpu_share(end: End, counters: EndCounters, account: Books, factors: Factors) -> float | None:
    """Return how busy the busiest CPU of an end was, or its process where that says more.

    Where the ends' CPUs cannot be told apart only the process counts: a CPU may be
    busy with the other end.
    """
    shares = [
        share
        for book in account.cpus
        if book.end == end and (share := _busy_share(book, account.window_ns)) is not None
    ]
    cpu_time = account.ends[end]["rusage"].cpu_time_ns
    if cpu_time is not None:
        # A stream is one thread, and a thread fills one CPU at most.
        threads = max(1, min(int(factors["streams"]), account.cpu_count or 1))
        shares.append(cpu_time / (counters.window_ns * threads))
    return min(1.0, max(shares)) if shares else None


def _busy_share(book: CpuBook, window_ns: int) -> float | None:
    if book.soak_share is not None:
        return book.soak_share
    return None if book.procstat_ns is None else book.procstat_ns / window_ns


def _memory_share(ends: Iterable[EndCounters]) -> float | None:
    """Return for which share of the time TCP was short of memory, at the worse end."""
    shares = []
    for end in ends:
        if end.details is not None and end.details.span_ns > 0:
            pressed_ms = end.details.growth("protocols").get("TcpExt.TCPMemoryPressuresChrono", 0)
            shares.append(min(1.0, pressed_ms * MS_NS / end.details.span_ns))
    return max(shares, default=None)
