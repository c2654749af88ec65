"""The processors: model, topology, caches, frequency policy, mitigations, NUMA nodes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from zcdb.host.sysfiles import read_int, read_pairs, read_text
from zcdb.ids import Json

_CPUS = Path("sys/devices/system/cpu")


def cpu_model(root: Path = Path("/")) -> str:
    """Return the CPU's model name, with family and model number where the name is a vague one."""
    info = read_pairs(root / "proc/cpuinfo")
    name = info.get("model name") or info.get("Model") or info.get("Processor") or "unknown"
    if "cpu family" in info and not any(character.isdigit() for character in name):
        return f"{name} (family {info['cpu family']}, model {info.get('model', '?')})"
    return " ".join(name.split())


def cpu_facts(root: Path) -> dict[str, Json]:
    """Return what stays the same of the processors between two runs."""
    info = read_pairs(root / "proc/cpuinfo")
    return {
        "model": cpu_model(root),
        "vendor": info.get("vendor_id") or info.get("CPU implementer"),
        "stepping": info.get("stepping") or info.get("CPU revision"),
        "microcode": info.get("microcode"),
        "topology": _topology(root),
        "caches": _caches(root),
        "governor": _governors(root),
        "frequency": _frequency(root),
        "idle_driver": read_text(root / _CPUS / "cpuidle/current_driver"),
        "mitigations": _mitigations(root),
    }


def _topology(root: Path) -> dict[str, Json]:
    cpus = root / _CPUS
    packages, cores, threads = set(), set(), 0
    for folder in cpus.glob("cpu[0-9]*/topology"):
        package = read_text(folder / "physical_package_id")
        packages.add(package)
        cores.add((package, read_text(folder / "core_id")))
        threads += 1
    return {
        "online": read_text(cpus / "online"),
        "packages": len(packages) or None,
        "cores": len(cores) or None,
        "threads": threads or None,
        "smt": read_text(cpus / "smt/control"),
        "smt_active": read_int(cpus / "smt/active"),
        "numa_nodes": read_text(root / "sys/devices/system/node/online"),
        "nohz_full": read_text(cpus / "nohz_full") or None,
        "isolated": read_text(cpus / "isolated") or None,
    }


def _caches(root: Path) -> dict[str, Json]:
    """Return the size of each cache as CPU 0 sees it: {"L1 data": "32K", ...}."""
    found: dict[str, Json] = {}
    for folder in sorted((root / _CPUS / "cpu0/cache").glob("index[0-9]*")):
        kind = (read_text(folder / "type") or "").lower()
        level = read_text(folder / "level")
        name = f"L{level}" if kind == "unified" else f"L{level} {kind}"
        found[name] = read_text(folder / "size")
    return found


def largest_cache_bytes(root: Path = Path("/")) -> int | None:
    """Return the size of the largest cache of CPU 0, or None if the kernel does not say."""
    sizes = []
    for path in (root / _CPUS / "cpu0/cache").glob("index[0-9]*/size"):
        text = read_text(path) or ""
        if text[:-1].isdecimal() and text[-1:] in "KM":
            sizes.append(int(text[:-1]) << (10 if text[-1] == "K" else 20))
    return max(sizes, default=None)


def _same(paths: Sequence[Path]) -> str | None:
    """Return what all these files say; all that they say where they differ; None without any."""
    found = sorted({text for path in paths if (text := read_text(path)) is not None})
    return ", ".join(found) or None


def _per_cpu(root: Path, name: str) -> list[Path]:
    return sorted((root / _CPUS).glob(f"cpu[0-9]*/cpufreq/{name}"))


def _governors(root: Path) -> str | None:
    return _same(_per_cpu(root, "scaling_governor"))


def _frequency(root: Path) -> dict[str, Json]:
    no_turbo = read_int(root / _CPUS / "intel_pstate/no_turbo")
    boost = read_int(root / _CPUS / "cpufreq/boost")
    is_turbo = not no_turbo if no_turbo is not None else boost
    return {
        "driver": _same(_per_cpu(root, "scaling_driver")),
        "lowest_khz": _same(_per_cpu(root, "cpuinfo_min_freq")),
        "highest_khz": _same(_per_cpu(root, "cpuinfo_max_freq")),
        "limit_low_khz": _same(_per_cpu(root, "scaling_min_freq")),
        "limit_high_khz": _same(_per_cpu(root, "scaling_max_freq")),
        "preference": _same(_per_cpu(root, "energy_performance_preference")),
        "turbo": None if is_turbo is None else "on" if is_turbo else "off",
    }


def _mitigations(root: Path) -> dict[str, Json]:
    return {
        path.name: read_text(path) for path in sorted((root / _CPUS / "vulnerabilities").glob("*"))
    }


def numa_facts(root: Path) -> list[Json]:
    """Return each NUMA node with its CPUs and its distance to all nodes.

    How much memory a node has is no fact: in a virtual machine it grows with use.
    """
    folders = sorted(
        (root / "sys/devices/system/node").glob("node[0-9]*"), key=lambda path: int(path.name[4:])
    )
    return [
        {
            "node": int(folder.name[4:]),
            "cpus": read_text(folder / "cpulist"),
            "distance": read_text(folder / "distance"),
        }
        for folder in folders
    ]


def whole_mib(size_bytes: int | None) -> int | None:
    """Return a size cut to MiB: kernels differ by some pages in what they reserve at boot."""
    return None if size_bytes is None else size_bytes >> 20 << 20


def frequencies_hz(root: Path) -> list[Json]:
    """Return each CPU's present frequency: cpufreq's where it has one, else /proc/cpuinfo's."""
    from_policy = [read_int(path) for path in _per_cpu(root, "scaling_cur_freq")]
    if from_policy:
        return [None if khz is None else khz * 1000 for khz in from_policy]
    lines = (read_text(root / "proc/cpuinfo") or "").splitlines()
    values = [line.partition(":")[2].strip() for line in lines if line.startswith("cpu MHz")]
    return [round(float(value) * 1e6) for value in values]


def throttles(root: Path) -> int | None:
    """Return how often some core was throttled for its heat since boot; None if not counted."""
    paths = (root / _CPUS).glob("cpu[0-9]*/thermal_throttle/core_throttle_count")
    counts = [count for path in paths if (count := read_int(path)) is not None]
    return sum(counts) if counts else None


def cpus_by_core(root: Path = Path("/")) -> list[list[int]]:
    """Return the CPUs this process may use, one list per physical core, in CPU order."""
    allowed = sorted(os.sched_getaffinity(0))
    cores: dict[tuple[str | None, str | None], list[int]] = {}
    for cpu in allowed:
        folder = root / _CPUS / f"cpu{cpu}/topology"
        key = (read_text(folder / "physical_package_id"), read_text(folder / "core_id") or str(cpu))
        cores.setdefault(key, []).append(cpu)
    return list(cores.values())
