"""From edges to CPU time, by every method, with the reason where there is none.

Pure: no clock, no process, no file.  All figures come from one set of edges, so
a stored set gives the same books for ever, and a better formula better ones.

The soaker of a CPU has all the time that nothing else wants.  Two estimators
read the load from it:

    gap:   (G - b) / (1 - b)   G: share of time in which a task or an interrupt had
                               the CPU; b: the same in the idle brackets around
    work:  1 - rate / idle rate   2001's formula; it also feels cache and memory

Time that the hypervisor took is in neither G nor b.  Shares may come out slightly
below 0: that is the noise, and cutting it off would hide it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from zcdb.engine.account import Account, IdleCpu, Kept, rows_by_cpu, samples_of, ticks_per_s
from zcdb.engine.book_columns import columns_of
from zcdb.engine.book_flags import (
    account_flags,
    disagreement_flag,
    sharing_flag,
    unmeasured_foreign_flag,
)
from zcdb.engine.window import CpuEdge, Edge
from zcdb.host.procstat import CpuTicks
from zcdb.records import End, Flag

USUAL_HZ = 100
NOT_SOAKED = "no soaker ran on these CPUs"


@dataclass(frozen=True, slots=True)
class Idle:
    """An idle bracket: the calibration of every soaked CPU."""

    cpus: Mapping[int, IdleCpu]


@dataclass(frozen=True, slots=True)
class CpuTime:
    """CPU time by one method, or the reason why there is none.

    Attributes:
        cpu_time_ns: in the window, mean of the kept samples for the soaking methods.
        cpu_count: CPUs that it is the sum of; 0 for `rusage`, which follows processes.
        median_cpu_time_ns: the same from the median of the kept samples.
    """

    cpu_time_ns: int | None
    cpu_count: int
    reason: str | None = None
    median_cpu_time_ns: int | None = None


@dataclass(frozen=True, slots=True)
class CpuBook:
    """One CPU in the window.  Shares are of the window's time, 0 to 1.

    Attributes:
        end: whose CPU it is, where the ends' CPUs are told apart.
        soak_share, soak_work_share: load by the two estimators; None without a soaker
            or a bracket.
        gap_share, task_share, interrupt_share, steal_share: what the soaker saw, nothing
            subtracted; all samples for steal, the kept ones for the others.
        foreign_share: CPU time of other tasks; None where not measured.
        soaker_share: CPU time that the soaker itself was booked.
        gap_drift, work_drift: after minus before, and after over before minus 1.
        ticks: /proc/stat's columns in the window; None if the CPU was not always online.
        procstat_ns: CPU time by /proc/stat.
    """

    cpu: int
    end: End | None
    soak_share: float | None = None
    soak_median_share: float | None = None
    soak_work_share: float | None = None
    gap_share: float | None = None
    task_share: float | None = None
    interrupt_share: float | None = None
    steal_share: float | None = None
    foreign_share: float | None = None
    idle_gap_share: float | None = None
    units_per_s: float | None = None
    idle_units_per_s: float | None = None
    gap_drift: float | None = None
    work_drift: float | None = None
    samples: int = 0
    kept_samples: int = 0
    is_contaminated: bool = False
    soaker_share: float | None = None
    ticks: CpuTicks | None = None
    procstat_ns: int | None = None
    net_tx: int | None = None
    net_rx: int | None = None


@dataclass(frozen=True, slots=True)
class Books:
    """Where the CPU time of a window went.

    Attributes:
        cpu_count: CPUs of the host.
        ends: end -> CPU method (`zcdb.metrics`) -> CPU time.  No entry for an end elsewhere.
        host: the same for the whole host; `rusage` is the sum over its ends.
        contention: end -> `soak_work` minus `soak`.
        host_contention: the same for the host.
        tick_resolution_ns: what `procstat` cannot tell apart.
        columns: per-sample values for storage, all of one length: start_ns and end_ns from
            the first edge; for each end and "host" its CPU time by method as
            `sender_soak_ns`, ..., what others took as `sender_steal_ns` and
            `sender_foreign_ns`, and `sender_undisturbed` (1 if every CPU kept the sample);
            and for at most `book_columns.MOST_CPUS` CPUs `cpu0_task_ns`, `cpu0_interrupt_ns` and
            `cpu0_steal_ns`, by the soaker or, without one, by /proc/stat.
    """

    window_ns: int
    cpu_count: int
    ends: Mapping[End, Mapping[str, CpuTime]]
    host: Mapping[str, CpuTime]
    contention: Mapping[End, CpuTime]
    host_contention: CpuTime
    tick_resolution_ns: int
    flags: tuple[Flag, ...]
    columns: Mapping[str, Sequence[int | None]]
    cpus: tuple[CpuBook, ...]


def calibrate(edges: Sequence[Edge]) -> Idle:
    """Return what an idle bracket says about every CPU whose soaker worked in it."""
    frequency = ticks_per_s(edges)
    cpus = {}
    for cpu, rows in rows_by_cpu(edges).items():
        samples = [sample for sample in samples_of(rows, edges) if sample is not None]
        if any(sample.units for sample in samples):
            kept = Kept.of(samples)
            cpus[cpu] = IdleCpu(
                gap_share=kept.gap_share,
                units_per_tick=kept.units_per_tick,
                units_per_s=kept.units_per_tick * frequency,
                is_contaminated=kept.is_contaminated,
            )
    return Idle(cpus)


def cpu_books(
    edges: Sequence[Edge],
    before: Idle | None,
    after: Idle | None,
    cpus_of_end: Mapping[End, Collection[int] | None],
    not_soaked: str = NOT_SOAKED,
) -> Books:
    """Return the books of a window.

    Args:
        edges: at least two.
        before, after: the idle brackets around it; None where there is none.
        cpus_of_end: the ends on this host.  One alone owns all of the host's CPUs.  Two
            own what they are pinned to, None being "not pinned".
        not_soaked: the reason to give where no soaker was read.

    Raises:
        ValueError: if there are fewer than two edges, or no time passed between them.
    """
    if len(edges) < 2 or edges[-1].at_ns <= edges[0].at_ns:
        raise ValueError("books need two edges with time between them")
    window_ns = edges[-1].at_ns - edges[0].at_ns
    rows = rows_by_cpu(edges)
    owned, unowned_reason = _owned(cpus_of_end, list(rows))
    accounts = _accounts(rows, edges, owned, [idle for idle in (before, after) if idle])
    ends = {
        end: _methods(owned.get(end, []), accounts, window_ns, unowned_reason or not_soaked)
        | {"rusage": _rusage(edges, [end])}
        for end in cpus_of_end
    }
    if unowned_reason is not None:
        for methods in ends.values():
            methods["procstat"] = CpuTime(None, 0, unowned_reason)
    host = _methods(list(rows), accounts, window_ns, not_soaked)
    host["rusage"] = _rusage(edges, list(cpus_of_end))
    tick_ns = 10**9 // edges[0].host.get("user_hz", USUAL_HZ)
    return Books(
        window_ns=window_ns,
        cpu_count=len(rows),
        ends=ends,
        host=host,
        contention={end: _contention(methods) for end, methods in ends.items()},
        host_contention=_contention(host),
        tick_resolution_ns=tick_ns,
        flags=_flags(owned, accounts, ends, host, window_ns, tick_ns),
        columns=columns_of(edges, owned, accounts),
        cpus=tuple(_book(account, edges, window_ns) for account in accounts.values()),
    )


def _accounts(
    rows: Mapping[int, Sequence[CpuEdge | None]],
    edges: Sequence[Edge],
    owned: Mapping[End, Sequence[int]],
    brackets: Sequence[Idle],
) -> dict[int, Account]:
    end_of_cpu = {cpu: end for end, cpus in owned.items() for cpu in cpus}
    return {
        cpu: Account(
            cpu,
            end_of_cpu.get(cpu),
            cpu_rows,
            edges,
            [bracket.cpus[cpu] for bracket in brackets if cpu in bracket.cpus],
        )
        for cpu, cpu_rows in rows.items()
    }


def _owned(
    cpus_of_end: Mapping[End, Collection[int] | None], host_cpus: Sequence[int]
) -> tuple[dict[End, list[int]], str | None]:
    """Return each end's CPUs, or the reason why they cannot be told apart."""
    if len(cpus_of_end) < 2:
        return {end: list(host_cpus) for end in cpus_of_end}, None
    pinned = {end: sorted(cpus) for end, cpus in cpus_of_end.items() if cpus}
    if len(pinned) < 2:
        return {}, "both ends share this host and are not pinned: no CPU belongs to one of them"
    common = set.intersection(*(set(cpus) for cpus in pinned.values()))
    if common:
        names = ", ".join(map(str, sorted(common)))
        return {}, f"both ends are pinned to CPU {names}: its time cannot be told apart"
    return pinned, None


def _methods(
    cpus: Sequence[int], accounts: Mapping[int, Account], window_ns: int, not_soaked: str
) -> dict[str, CpuTime]:
    """Return the CPU time of some CPUs by the methods that look at CPUs."""
    chosen = [accounts[cpu] for cpu in cpus if cpu in accounts]
    procstat = _procstat(cpus, accounts)
    reason = _missing(cpus, accounts, not_soaked)
    if reason is not None:
        missing = CpuTime(None, len(cpus), reason)
        return {"soak": missing, "soak_work": missing, "procstat": procstat}

    def total_ns(shares: Iterable[float | None]) -> int:
        return round(sum(share or 0 for share in shares) * window_ns)

    soak = CpuTime(
        total_ns(account.soak_share for account in chosen),
        len(cpus),
        median_cpu_time_ns=total_ns(account.soak_median_share for account in chosen),
    )
    work = CpuTime(total_ns(account.soak_work_share for account in chosen), len(cpus))
    return {"soak": soak, "soak_work": work, "procstat": procstat}


def _missing(cpus: Sequence[int], accounts: Mapping[int, Account], not_soaked: str) -> str | None:
    if not cpus:
        return not_soaked
    reasons = (
        accounts[cpu].missing(not_soaked) if cpu in accounts else f"CPU {cpu} was not read"
        for cpu in cpus
    )
    return next((reason for reason in reasons if reason is not None), None)


def _procstat(cpus: Sequence[int], accounts: Mapping[int, Account]) -> CpuTime:
    total_ns = 0
    for cpu in cpus:
        time_ns = accounts[cpu].procstat_ns() if cpu in accounts else None
        if time_ns is None:
            reason = f"/proc/stat had no line for CPU {cpu} at some edge, or was not read"
            return CpuTime(None, len(cpus), reason)
        total_ns += time_ns
    return CpuTime(total_ns, len(cpus)) if cpus else CpuTime(None, 0, "/proc/stat was not read")


def _rusage(edges: Sequence[Edge], ends: Sequence[End]) -> CpuTime:
    """Return the CPU time of the ends' own processes."""
    total_ns = 0
    for end in ends:
        start, last = (edge.ends.get(end, {}).get("cpu_time_ns") for edge in (edges[0], edges[-1]))
        if start is None or last is None:
            return CpuTime(None, 0, f"the CPU clock of the {end} was not read at these edges")
        total_ns += last - start
    return CpuTime(total_ns, 0) if ends else CpuTime(None, 0, "no endpoint ran on this host")


def _contention(methods: Mapping[str, CpuTime]) -> CpuTime:
    soak, work = methods["soak"], methods["soak_work"]
    if soak.cpu_time_ns is None or work.cpu_time_ns is None:
        return CpuTime(None, soak.cpu_count, soak.reason)
    return CpuTime(work.cpu_time_ns - soak.cpu_time_ns, soak.cpu_count)


def _flags(
    owned: Mapping[End, Sequence[int]],
    accounts: Mapping[int, Account],
    ends: Mapping[End, Mapping[str, CpuTime]],
    host: Mapping[str, CpuTime],
    window_ns: int,
    tick_ns: int,
) -> tuple[Flag, ...]:
    """Return the flags of the CPUs that count: the ends' where they own some, else all."""
    watched = [cpu for cpus in owned.values() for cpu in cpus] or list(accounts)
    scopes: dict[str, Mapping[str, CpuTime]] = {"host": host}
    if owned:
        scopes = {str(end): methods for end, methods in ends.items()}
    figures = {
        name: (methods["soak"].cpu_time_ns, methods["procstat"].cpu_time_ns)
        for name, methods in scopes.items()
    }
    clocks = {
        str(end): (
            [accounts[cpu] for cpu in cpus if cpu in accounts],
            ends[end]["rusage"].cpu_time_ns,
        )
        for end, cpus in owned.items()
    }
    return (
        *sharing_flag(owned),
        *account_flags([accounts[cpu] for cpu in watched if cpu in accounts]),
        *unmeasured_foreign_flag(clocks, window_ns, tick_ns),
        *disagreement_flag(figures, window_ns, tick_ns),
    )


def _book(account: Account, edges: Sequence[Edge], window_ns: int) -> CpuBook:
    """Return all that is known about one CPU."""
    kept, idles = account.kept, account.idles
    soaker_ns = account.grown("soaker_cpu_time_ns")
    return CpuBook(
        cpu=account.cpu,
        end=account.end,
        soak_share=account.soak_share,
        soak_median_share=account.soak_median_share,
        soak_work_share=account.soak_work_share,
        gap_share=kept.gap_share if kept else None,
        task_share=kept.share(lambda sample: sample.task_ticks) if kept else None,
        interrupt_share=kept.share(lambda sample: sample.interrupt_ticks) if kept else None,
        steal_share=account.steal_share,
        foreign_share=account.foreign_share,
        idle_gap_share=fmean(idle.gap_share for idle in idles) if idles else None,
        units_per_s=kept.units_per_tick * ticks_per_s(edges) if kept else None,
        idle_units_per_s=fmean(idle.units_per_s for idle in idles) if idles else None,
        gap_drift=account.gap_drift,
        work_drift=account.work_drift,
        samples=len(account.samples),
        kept_samples=len(kept.samples) if kept else 0,
        is_contaminated=kept.is_contaminated if kept else False,
        soaker_share=soaker_ns / window_ns if soaker_ns is not None else None,
        ticks=account.ticks(),
        procstat_ns=account.procstat_ns(),
        net_tx=account.grown("net_tx"),
        net_rx=account.grown("net_rx"),
    )
