"""Charts of one trial: what was read at each edge of its window, in time order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from zcdb.ids import Json
from zcdb.records import ENDS, SampleSeries
from zcdb.webapp.charts.figure import Axis, Band, Figure, Series
from zcdb.webapp.quantities import quantity

MOST_POINTS = 600
"""More samples than this are thinned: a screen has no more columns to show them in."""

DISTURBED_FROM_CPUS = 0.01
"""Below this in every sample, what others took is noise and gets no chart."""


def _thinned(count: int) -> range:
    return range(0, count, -(-count // MOST_POINTS))


def _bands(samples: SampleSeries, middles: Sequence[float]) -> tuple[Band, ...]:
    """Return the stretches of samples that were discarded."""
    kept = samples.columns["kept"]
    starts, ends = samples.columns["start_ns"], samples.columns["end_ns"]
    bands: list[Band] = []
    for index in range(len(middles)):
        if kept[index] != 0:
            continue
        low, high = (starts[index] or 0) / 1e9, (ends[index] or 0) / 1e9
        if bands and abs(bands[-1].high - low) < 1e-9:
            bands[-1] = Band("x", bands[-1].low, high, "discarded")
        else:
            bands.append(Band("x", low, high, "discarded"))
    return tuple(bands)


def _rate(
    samples: SampleSeries, column: str, factor: float, divisor: float
) -> tuple[float | None, ...]:
    """Return a counted column per second of each sample, times `factor` over `divisor`."""
    values = samples.columns[column]
    starts, ends = samples.columns["start_ns"], samples.columns["end_ns"]
    rates: list[float | None] = []
    for value, start, end in zip(values, starts, ends, strict=True):
        length_ns = (end or 0) - (start or 0)
        known = value is not None and length_ns > 0
        rates.append(value * factor * 1e9 / length_ns / divisor if known else None)  # type: ignore[operator]
    return tuple(rates)


def _middles(samples: SampleSeries) -> tuple[float, ...]:
    starts, ends = samples.columns["start_ns"], samples.columns["end_ns"]
    return tuple(((start or 0) + (end or 0)) / 2e9 for start, end in zip(starts, ends, strict=True))


def _line(name: str, slot: int, xs: Sequence[float], ys: Sequence[float | None]) -> Series:
    chosen = _thinned(len(xs)) if xs else range(0)
    x = tuple(xs[index] for index in chosen)
    return Series(name, slot, "line", x, tuple(ys[index] for index in chosen))


TIME = Axis("Time since the first edge (s)")


def throughput(samples: SampleSeries) -> Figure:
    """Return payload per second, sample by sample."""
    xs = _middles(samples)
    raw = _rate(samples, "payload_bytes", 8, 1)
    unit = quantity("throughput", raw)
    rates = [None if rate is None else rate / unit.divisor for rate in raw]
    known = [rate for rate in rates if rate is not None]
    described = (
        f"{len(known)} samples between {min(known):.3g} and {max(known):.3g} {unit.unit}."
        if known
        else "No sample has a value."
    )
    return Figure(
        "throughput",
        "Throughput over time",
        f"{described} Discarded samples are shaded.",
        TIME,
        Axis(f"Throughput ({unit.unit})", includes_zero=True),
        (_line("receiver", 0, xs, rates),),
        bands=_bands(samples, xs),
    )


CPU_LINES = (
    ("sender", "soak", "sender by soak", 0),
    ("receiver", "soak", "receiver by soak", 1),
    ("sender", "rusage", "sender by rusage", 2),
    ("receiver", "rusage", "receiver by rusage", 3),
)
"""Columns that the chart of CPU time shows: end, method, name, slot."""

HOST_LINES = (
    ("host", "soak", "host by soak", 0),
    ("sender", "rusage", "sender by rusage", 2),
    ("receiver", "rusage", "receiver by rusage", 3),
)
"""The same where the ends' CPUs cannot be told apart."""


def cpu(samples: SampleSeries) -> Figure | None:
    """Return the CPUs that each end used, sample by sample; None if no method has samples."""
    xs = _middles(samples)
    has_ends = any(f"{end}_soak_ns" in samples.columns for end in ENDS)
    series = []
    for scope, method, name, slot in CPU_LINES if has_ends else HOST_LINES:
        column = f"{scope}_{method}_ns"
        if column in samples.columns:
            rates = _rate(samples, column, 1e-9, 1)
            if any(rate is not None for rate in rates):
                series.append(_line(name, slot, xs, rates))
    if not series:
        return None
    return Figure(
        "cpu",
        "CPU use over time",
        "CPUs busy in each sample: by the soaker for the CPUs of an end, by rusage for its"
        " process alone. The gap between the two is work the kernel did outside the process.",
        TIME,
        Axis("CPU use (CPUs)", includes_zero=True),
        tuple(series),
        bands=_bands(samples, xs),
    )


def disturbance(samples: SampleSeries) -> Figure | None:
    """Return what the hypervisor and other work took, stacked; None if nothing was ever taken."""
    xs = _middles(samples)
    series = []
    for slot, (column, name) in enumerate(_taken(samples)):
        # Counted from outside, the share of other work can come out slightly below zero.
        rates = [max(0.0, rate or 0.0) for rate in _rate(samples, column, 1e-9, 1)]
        if any(rate > DISTURBED_FROM_CPUS for rate in rates):
            line = _line(name, slot + 4, xs, rates)
            series.append(Series(line.name, line.slot, "stack", line.x, line.y))
    if not series:
        return None
    return Figure(
        "disturbance",
        "CPU taken by others",
        "CPUs that the hypervisor and other work took in each sample; disturbed samples are left"
        " out of the CPU figures.",
        TIME,
        Axis("CPUs", includes_zero=True),
        tuple(series),
        bands=_bands(samples, xs),
    )


def _taken(samples: SampleSeries) -> Iterator[tuple[str, str]]:
    """Yield (column, name) of what others took: of the one host, or of each end's."""
    for host in ("host", *(f"{end}_host" for end in ENDS)):
        whose = "" if host == "host" else f", {host.removesuffix('_host')}"
        for kind, name in (("steal", "steal (hypervisor)"), ("foreign", "other work")):
            if f"{host}_{kind}_ns" in samples.columns:
                yield f"{host}_{kind}_ns", f"{name}{whose}"


_CPU_COLUMN = re.compile(r"(?:(sender|receiver)_)?cpu([0-9]+)_task_ns")
MOST_CPU_CHARTS = 4
"""Each CPU has a chart of its own; with more CPUs only the busiest have."""

CPU_PARTS = (("task", "tasks"), ("interrupt", "interrupts"), ("steal", "stolen"))


def cpu_stacks(samples: SampleSeries) -> list[Figure]:
    """Return what each CPU's time went to, sample by sample, stacked; the busiest CPUs only."""
    found = [match for name in samples.columns if (match := _CPU_COLUMN.fullmatch(name))]
    busiest = sorted(found, key=lambda match: -_total(samples, match[0]))[:MOST_CPU_CHARTS]
    ordered = sorted(busiest, key=lambda match: (match[1] or "", int(match[2])))
    return [_cpu_stack(samples, match[1], int(match[2])) for match in ordered]


def _total(samples: SampleSeries, column: str) -> float:
    return sum(value or 0.0 for value in samples.columns[column])


def _cpu_stack(samples: SampleSeries, host: str | None, cpu: int) -> Figure:
    xs = _middles(samples)
    prefix = f"{host}_cpu{cpu}" if host else f"cpu{cpu}"
    series = []
    for slot, (kind, name) in enumerate(CPU_PARTS):
        column = f"{prefix}_{kind}_ns"
        if column in samples.columns:
            line = _line(name, slot, xs, _rate(samples, column, 1e-9, 1))
            series.append(Series(line.name, line.slot, "stack", line.x, line.y))
    whose = f" of the {host}" if host else ""
    return Figure(
        prefix.replace("_", "-"),
        f"CPU {cpu}{whose} over time",
        "Share of each sample that tasks, interrupts and the hypervisor had, the load and"
        " everything else together; the rest was idle, or the soaker's.",
        TIME,
        Axis("Busy (CPUs)", includes_zero=True),
        tuple(series),
        bands=_bands(samples, xs),
    )


SHARES = (("soak_share", "soak", 0), ("soak_work_share", "soak_work", 1))


def per_cpu(counts: Mapping[str, Json]) -> Figure | None:
    """Return how busy each CPU was in the window, by method; None where that was not counted."""
    rows = [
        (_cpu_name(host, cpu, len(hosts)), cpu, window_ns)
        for hosts in [counts.get("hosts")]
        if isinstance(hosts, Mapping)
        for host, account in hosts.items()
        if isinstance(account, Mapping) and isinstance(window_ns := account.get("window_ns"), int)
        for cpu in _mappings(account.get("cpus"))
    ]
    series = [
        _shares(name, slot, [cpu.get(column) for _, cpu, _ in rows])
        for column, name, slot in SHARES
    ]
    ticks = [
        time_ns / window_ns if isinstance(time_ns := cpu.get("procstat_ns"), int) else None
        for _, cpu, window_ns in rows
    ]
    series.append(_shares("procstat", 2, ticks))
    figure = Figure(
        "cpus",
        "Each CPU in the window",
        "Share of the window in which each CPU was busy, by method.",
        Axis("Busy (CPUs)", includes_zero=True),
        Axis("", "category", categories=tuple(name for name, _, _ in rows)),
        tuple(entry for entry in series if entry.y),
        value_axis="x",
    )
    return None if figure.is_empty else figure


def _mappings(value: Json) -> list[Mapping[str, Json]]:
    entries = value if isinstance(value, list | tuple) else ()
    return [entry for entry in entries if isinstance(entry, Mapping)]


def _cpu_name(host: str, cpu: Mapping[str, Json], hosts: int) -> str:
    name = f"CPU {cpu.get('cpu')}" if hosts == 1 else f"{host}, CPU {cpu.get('cpu')}"
    return f"{name} ({cpu['end']})" if cpu.get("end") else name


def _shares(name: str, slot: int, values: Sequence[Json]) -> Series:
    known = [
        (float(value), float(row))
        for row, value in enumerate(values)
        if isinstance(value, int | float)
    ]
    return Series(
        name,
        slot,
        "means",
        x=tuple(value for value, _ in known),
        y=tuple(row for _, row in known),
        notes=tuple(f"{name}: {value:.3f} CPUs" for value, _ in known),
    )


def figures(samples: SampleSeries | None, counts: Mapping[str, Json]) -> tuple[Figure, ...]:
    """Return all charts of a trial; those over time only if it has samples."""
    found: list[Figure | None] = []
    if samples is not None and samples.columns.get("start_ns"):
        found += [throughput(samples), cpu(samples), *cpu_stacks(samples), disturbance(samples)]
    found.append(per_cpu(counts))
    return tuple(figure for figure in found if figure is not None and not figure.is_empty)
