"""One CPU's account: its samples, which of them count, its calibration, its load.

Pure.  `books` adds the accounts up; the formulas are explained there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from zcdb.engine.window import CpuEdge, Edge
from zcdb.host.procstat import CpuTicks
from zcdb.records import End

STEAL_LIMIT = 0.01
"""A sample with more hidden steal than this share is left out."""
FOREIGN_LIMIT = 0.05
"""A sample in which other work had more than this share of the CPU is left out."""

NO_BRACKET = "there is no idle bracket in which the soaker worked"


@dataclass(frozen=True, slots=True)
class IdleCpu:
    """What one CPU's soaker did while nothing was measured.

    Attributes:
        gap_share: share of time in tasks and interrupts all the same (b).
        units_per_tick: work per tick of the cycle counter.
        is_contaminated: fewer than half of the samples were undisturbed, so all were used.
    """

    gap_share: float
    units_per_tick: float
    units_per_s: float
    is_contaminated: bool


@dataclass(frozen=True, slots=True)
class Sample:
    """What one soaker saw between two edges.

    Attributes:
        ticks: length of the sample in ticks of the cycle counter.
        task_ticks, interrupt_ticks, steal_ticks: gaps in it, by kind.
        foreign_share: share of time that other work's tasks had; None where not measured.
    """

    ticks: int
    units: int
    task_ticks: int
    interrupt_ticks: int
    steal_ticks: int
    foreign_share: float | None

    @property
    def gap_ticks(self) -> int:
        """Time in which a task or an interrupt had the CPU (G)."""
        return self.task_ticks + self.interrupt_ticks

    @property
    def is_stolen(self) -> bool:
        """True if the hypervisor took too much of it."""
        return self.steal_ticks > STEAL_LIMIT * self.ticks

    @property
    def is_foreign(self) -> bool:
        """True if other work took too much of it."""
        return self.foreign_share is not None and self.foreign_share > FOREIGN_LIMIT


@dataclass(frozen=True, slots=True)
class Kept:
    """The samples of one CPU that count, and how many do not.

    Attributes:
        stolen, foreign: disturbed samples, by what disturbed them.
        is_contaminated: fewer than half were undisturbed, so `samples` are all of them.
    """

    samples: Sequence[Sample]
    stolen: int
    foreign: int
    is_contaminated: bool

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Kept:
        """Leave out disturbed samples, unless too few would remain."""
        good = [sample for sample in samples if not (sample.is_stolen or sample.is_foreign)]
        is_contaminated = 2 * len(good) < len(samples)
        return cls(
            samples if is_contaminated else good,
            sum(sample.is_stolen for sample in samples),
            sum(sample.is_foreign for sample in samples),
            is_contaminated,
        )

    def share(self, part: Callable[[Sample], int]) -> float:
        """Return the mean over time of a part of the samples' ticks."""
        return sum(map(part, self.samples)) / sum(sample.ticks for sample in self.samples)

    @property
    def gap_share(self) -> float:
        """Share of time in gaps."""
        return self.share(lambda sample: sample.gap_ticks)

    @property
    def units_per_tick(self) -> float:
        """Work rate of the soaker."""
        return self.share(lambda sample: sample.units)


def rows_by_cpu(edges: Sequence[Edge]) -> dict[int, list[CpuEdge | None]]:
    """Return each CPU's row at each edge; None where it has none (offline)."""
    cpus = sorted({row.cpu for edge in edges for row in edge.cpus})
    rows: dict[int, list[CpuEdge | None]] = {cpu: [None] * len(edges) for cpu in cpus}
    for place, edge in enumerate(edges):
        for row in edge.cpus:
            rows[row.cpu][place] = row
    return rows


def ticks_per_s(edges: Sequence[Edge]) -> float:
    """Return the cycle counter's frequency as the edges show it; 0 if they carry no counter."""
    elapsed_ns = edges[-1].at_ns - edges[0].at_ns
    return (edges[-1].tsc - edges[0].tsc) * 1e9 / elapsed_ns if elapsed_ns > 0 else 0.0


def samples_of(rows: Sequence[CpuEdge | None], edges: Sequence[Edge]) -> list[Sample | None]:
    """Return what a CPU's soaker saw in each sample; None where it was not read at both edges."""
    return [
        _sample(row, next_row, edge.host, next_edge.host)
        for (row, next_row), (edge, next_edge) in zip(pairwise(rows), pairwise(edges), strict=True)
    ]


def _sample(
    start: CpuEdge | None,
    end: CpuEdge | None,
    start_host: Mapping[str, int],
    end_host: Mapping[str, int],
) -> Sample | None:
    if start is None or end is None or start.soak is None or end.soak is None:
        return None
    ticks = end.soak.at_ticks - start.soak.at_ticks
    if ticks <= 0:
        return None
    # A gap that is still open counts as a task's: nearly always it is the load.
    task_ticks = end.soak.task_gap_ticks - start.soak.task_gap_ticks
    open_ticks = end.soak.open_gap_ticks - start.soak.open_gap_ticks
    return Sample(
        ticks=ticks,
        units=end.soak.units - start.soak.units,
        task_ticks=task_ticks + open_ticks,
        interrupt_ticks=end.soak.interrupt_gap_ticks - start.soak.interrupt_gap_ticks,
        steal_ticks=end.soak.steal_gap_ticks - start.soak.steal_gap_ticks,
        foreign_share=_foreign_share(start, end, start_host, end_host),
    )


def _foreign_share(
    start: CpuEdge, end: CpuEdge, start_host: Mapping[str, int], end_host: Mapping[str, int]
) -> float | None:
    """Return the share of time that tasks other than ours had.

    Ours are the tasks in our groups (load and soakers) and the sampler, which has a
    real-time priority and so may not be in a group.
    """
    elapsed_ns = end_host.get("usage_at_ns", 0) - start_host.get("usage_at_ns", 0)
    used = (start.usage_ns, end.usage_ns, start.own_usage_ns, end.own_usage_ns)
    if None in used or elapsed_ns <= 0:
        return None
    before, after, own_before, own_after = (time_ns or 0 for time_ns in used)
    own_ns = own_after - own_before + _sampler_ns(start.cpu, start_host, end_host)
    return (after - before - own_ns) / elapsed_ns


def _sampler_ns(cpu: int, start_host: Mapping[str, int], end_host: Mapping[str, int]) -> int:
    """Return the CPU time of the process that reads the edges on this CPU."""
    if not start_host.get("sampler_cpu") == end_host.get("sampler_cpu") == cpu:
        return 0
    return end_host["sampler_cpu_time_ns"] - start_host["sampler_cpu_time_ns"]


class Account:
    """One CPU in a window.

    Attributes:
        end: whose CPU it is; None where the ends cannot be told apart.
        samples: one for each pair of edges; None where there is no reading of a soaker.
        kept: those that count; None without a soaker.
        idles: its calibrations, the one before the window first.
        soak_share, soak_median_share, soak_work_share: the load by gaps (mean and median of
            the kept samples) and by work; None without a soaker or without a calibration.
    """

    def __init__(
        self,
        cpu: int,
        end: End | None,
        rows: Sequence[CpuEdge | None],
        edges: Sequence[Edge],
        idles: Sequence[IdleCpu],
    ) -> None:
        self.cpu = cpu
        self.end = end
        self.idles = idles
        self._rows = rows
        self._edges = edges
        self.samples = samples_of(rows, edges)
        self._seen = [sample for sample in self.samples if sample is not None]
        self.kept = Kept.of(self._seen) if self._seen else None
        self.soak_share: float | None = None
        self.soak_median_share: float | None = None
        self.soak_work_share: float | None = None
        if self.kept is not None and idles:
            self.soak_share = self.load(self.kept.gap_share)
            shares = (sample.gap_ticks / sample.ticks for sample in self.kept.samples)
            self.soak_median_share = self.load(median(shares))
            self.soak_work_share = self.work_load(self.kept.units_per_tick)

    def missing(self, not_soaked: str) -> str | None:
        """Return why the soaking methods have no figure for this CPU, or None."""
        if self.kept is None:
            return not_soaked
        return None if self.idles else NO_BRACKET

    def load(self, gap_share: float) -> float:
        """Return the load that shows as this share of gaps."""
        idle_share = fmean(idle.gap_share for idle in self.idles)
        return (gap_share - idle_share) / (1 - idle_share)

    def work_load(self, units_per_tick: float) -> float:
        """Return the load that leaves this much work, by 2001's formula."""
        idle_rate = fmean(idle.units_per_tick for idle in self.idles)
        return 1 - units_per_tick / idle_rate

    @property
    def steal_share(self) -> float | None:
        """Hidden steal in the whole window."""
        if not self._seen:
            return None
        ticks = sum(sample.ticks for sample in self._seen)
        return sum(sample.steal_ticks for sample in self._seen) / ticks

    @property
    def foreign_share(self) -> float | None:
        """Other work's share of the whole window."""
        shares = [sample.foreign_share for sample in self._seen]
        known = [share for share in shares if share is not None]
        return fmean(known) if known else None

    @property
    def gap_drift(self) -> float | None:
        """Gap share of the second idle bracket minus that of the first."""
        if len(self.idles) < 2:
            return None
        return self.idles[1].gap_share - self.idles[0].gap_share

    @property
    def work_drift(self) -> float | None:
        """Work rate of the second idle bracket over that of the first, minus 1."""
        if len(self.idles) < 2:
            return None
        return self.idles[1].units_per_tick / self.idles[0].units_per_tick - 1

    def ticks(self, first: int = 0, last: int = -1) -> CpuTicks | None:
        """Return /proc/stat's columns between two edges; None if it was offline at one."""
        rows = self._rows[first : len(self._rows) if last == -1 else last + 1]
        seen = [row.ticks for row in rows if row is not None and row.ticks is not None]
        return seen[-1].since(seen[0]) if len(seen) == len(rows) else None

    def procstat_ns(self, first: int = 0, last: int = -1) -> int | None:
        """Return CPU time by /proc/stat, scaled from its own time stamps to the edges'.

        While a soaker runs, the nice column is the soaker's.
        """
        ticks = self.ticks(first, last)
        start, end = self._edges[first], self._edges[last]
        elapsed_ns = end.host.get("stat_at_ns", 0) - start.host.get("stat_at_ns", 0)
        if ticks is None or elapsed_ns <= 0:
            return None
        seconds = ticks.busy(is_nice_busy=self.kept is None) / end.host["user_hz"]
        return round(seconds * 10**9 * (end.at_ns - start.at_ns) / elapsed_ns)

    def not_ours_ns(self) -> int | None:
        """Return the time that neither soaker, sampler, interrupts nor steal had.

        A soaked CPU is never idle, so this is the CPU time of the load and of other
        work.  Interrupts are taken off by the kernel's ticks, although many kernels
        book them to the task they interrupt: so it is rather too little.
        """
        soaker_ns, ticks = self.grown("soaker_cpu_time_ns"), self.ticks()
        first, last = self._edges[0], self._edges[-1]
        if soaker_ns is None or ticks is None:
            return None
        sampler_ns = _sampler_ns(self.cpu, first.host, last.host)
        kernel_ns = (ticks.irq + ticks.softirq + ticks.steal) * 10**9 // last.host["user_hz"]
        return last.at_ns - first.at_ns - soaker_ns - sampler_ns - kernel_ns

    def grown(self, name: str) -> int | None:
        """Return by how much a counter of the CPU's rows grew over the window."""
        first, last = self._rows[0], self._rows[-1]
        start = getattr(first, name) if first is not None else None
        end = getattr(last, name) if last is not None else None
        return end - start if start is not None and end is not None else None

    def sample_shares(self, place: int) -> dict[str, float | None]:
        """Return one sample's shares for storage, disturbed or not."""
        sample = self.samples[place]
        if sample is None:
            return dict.fromkeys(("soak", "soak_work", "steal", "foreign"))
        is_calibrated = bool(self.idles)
        return {
            "soak": self.load(sample.gap_ticks / sample.ticks) if is_calibrated else None,
            "soak_work": self.work_load(sample.units / sample.ticks) if is_calibrated else None,
            "steal": sample.steal_ticks / sample.ticks,
            "foreign": sample.foreign_share,
        }

    def used_ns(self, place: int, length_ns: int) -> dict[str, int] | None:
        """Return what a sample went to: task, interrupt and steal time, by soaker or ticks."""
        sample = self.samples[place]
        if sample is not None:
            scale = length_ns / sample.ticks
            return {
                "task": round(sample.task_ticks * scale),
                "interrupt": round(sample.interrupt_ticks * scale),
                "steal": round(sample.steal_ticks * scale),
            }
        ticks = self.ticks(place, place + 1)
        if ticks is None or self.kept is not None:
            return None
        tick_ns = 10**9 // self._edges[place].host["user_hz"]
        return {
            "task": (ticks.user + ticks.nice + ticks.system) * tick_ns,
            "interrupt": (ticks.irq + ticks.softirq) * tick_ns,
            "steal": ticks.steal * tick_ns,
        }

    def is_undisturbed(self, place: int) -> bool:
        """Return True if nothing but the load disturbed the soaker in this sample."""
        sample = self.samples[place]
        return sample is not None and not (sample.is_stolen or sample.is_foreign)
