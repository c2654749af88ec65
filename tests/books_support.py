"""A scripted machine: edges whose loads, gaps and disturbances are known exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from zcdb.engine.soak import SoakReading
from zcdb.engine.window import CpuEdge, Edge
from zcdb.host.procstat import CpuTicks
from zcdb.records import End

TICKS_PER_NS = 2
SAMPLE_NS = 100_000_000
UNITS_PER_TICK = 0.0125
HZ = 100


@dataclass(frozen=True)
class Script:
    """What one CPU does in one sample.  Shares of time.

    Attributes:
        load: what is to be recovered.
        idle_gaps: interrupts that are there without any load.
        slowdown: work the soaker loses while it has the CPU.
        ticked: what the kernel's ticks say of the load; None: the same.
        open_gap: part of the load whose gap is still open at the sample's end.
    """

    load: float = 0.0
    idle_gaps: float = 0.02
    slowdown: float = 0.0
    steal: float = 0.0
    foreign: float = 0.0
    ticked: float | None = None
    open_gap: float = 0.0


def script_edges(
    samples: Sequence[Mapping[int, Script]],
    lengths_ns: Sequence[int] | None = None,
    ends: Mapping[End, Sequence[int]] | None = None,
) -> list[Edge]:
    """Return the edges of a window in which each sample goes as its script says.

    Args:
        samples: for each sample, CPU -> script.
        ends: end -> CPU time in ns of each sample.
    """
    lengths = lengths_ns or [SAMPLE_NS] * len(samples)
    rows = {cpu: _first_row(cpu) for cpu in samples[0]}
    opened = dict.fromkeys(rows, 0)
    edges = [_edge(5_000_000_000, rows, dict.fromkeys(ends or {}, 0))]
    used: dict[End, int] = dict.fromkeys(ends or {}, 0)
    for place, (scripts, length_ns) in enumerate(zip(samples, lengths, strict=True)):
        for cpu, script in scripts.items():
            rows[cpu], opened[cpu] = _after(rows[cpu], script, length_ns, opened[cpu])
        for end, times in (ends or {}).items():
            used[end] += times[place]
        edges.append(_edge(edges[-1].at_ns + length_ns, rows, used))
    return edges


def idle_edges(cpus: Sequence[int] = (0,), samples: int = 10, **script: float) -> list[Edge]:
    """Return an idle bracket."""
    return script_edges([dict.fromkeys(cpus, Script(**script))] * samples)


def without_groups(edges: Sequence[Edge]) -> list[Edge]:
    """Return the edges of a machine whose control groups count nothing."""
    return [
        replace(
            edge, cpus=tuple(replace(row, usage_ns=None, own_usage_ns=None) for row in edge.cpus)
        )
        for edge in edges
    ]


def without_soakers(edges: Sequence[Edge]) -> list[Edge]:
    """Return the edges of a machine on which no soaker ran."""
    return [
        replace(edge, cpus=tuple(replace(row, soak=None) for row in edge.cpus)) for edge in edges
    ]


def _first_row(cpu: int) -> CpuEdge:
    return CpuEdge(
        cpu,
        SoakReading(10_000_000_000 + cpu, 0, 0, 0, 0, 0, 0, 0, 0),
        0,
        CpuTicks(*[1000] * 10),
        10**12,
        10**11,
        0,
        0,
    )


def _after(row: CpuEdge, script: Script, length_ns: int, opened: int) -> tuple[CpuEdge, int]:
    """Return the CPU's row one sample later, and its gap that is still open then."""
    assert row.soak is not None
    assert row.ticks is not None
    ticks = length_ns * TICKS_PER_NS
    load = round(script.load * ticks)
    still_open = round(script.open_gap * ticks)
    interrupts = round(script.idle_gaps * (ticks - load))
    on_cpu = (1 - script.load) * (1 - script.slowdown)
    soak = row.soak._replace(
        at_ticks=row.soak.at_ticks + ticks,
        units=row.soak.units + round(UNITS_PER_TICK * ticks * on_cpu),
        task_gap_ticks=row.soak.task_gap_ticks + load + opened - still_open,
        interrupt_gap_ticks=row.soak.interrupt_gap_ticks + interrupts,
        steal_gap_ticks=row.soak.steal_gap_ticks + round(script.steal * ticks),
        open_gap_ticks=still_open,
        task_gaps=row.soak.task_gaps + 1,
    )
    busy = round((script.load if script.ticked is None else script.ticked) * length_ns * HZ / 1e9)
    all_ticks = round(length_ns * HZ / 1e9)
    kernel = row.ticks._replace(user=row.ticks.user + busy, nice=row.ticks.nice + all_ticks - busy)
    used = row.usage_ns or 0, row.own_usage_ns or 0
    after = replace(
        row,
        soak=soak,
        soaker_cpu_time_ns=(row.soaker_cpu_time_ns or 0) + round(length_ns * (1 - script.load)),
        ticks=kernel,
        usage_ns=used[0] + length_ns,
        own_usage_ns=used[1] + length_ns - round(script.foreign * length_ns),
    )
    return after, still_open


def _edge(at_ns: int, rows: Mapping[int, CpuEdge], used: Mapping[End, int]) -> Edge:
    ends: dict[End, Mapping[str, int]] = {
        end: {"at_ns": at_ns, "cpu_time_ns": time_ns} for end, time_ns in used.items()
    }
    host = {"stat_at_ns": at_ns + 50_000, "usage_at_ns": at_ns + 40_000, "user_hz": HZ}
    return Edge(at_ns, at_ns * TICKS_PER_NS, tuple(rows.values()), ends, host)
