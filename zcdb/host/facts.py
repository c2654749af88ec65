"""What this machine is: the stable facts of an environment, and the readings that move.

Facts are content-addressed, so only what stays the same between two runs is
here: names that would tell who runs the machine are replaced by a salted hash,
and values that move by themselves (frequency, load, steal) are `readings`.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import platform
import secrets
from pathlib import Path

from zcdb.ids import Json

KERNEL_OPTIONS = (
    "CONFIG_HZ",
    "CONFIG_IRQ_TIME_ACCOUNTING",
    "CONFIG_VIRT_CPU_ACCOUNTING_GEN",
    "CONFIG_TICK_CPU_ACCOUNTING",
    "CONFIG_PREEMPT_NONE",
    "CONFIG_PREEMPT_VOLUNTARY",
    "CONFIG_PREEMPT",
    "CONFIG_PREEMPT_DYNAMIC",
    "CONFIG_NO_HZ_FULL",
    "CONFIG_TLS",
)

COMMAND_LINE_PARAMETERS = (
    "mitigations",
    "isolcpus",
    "nohz",
    "nohz_full",
    "rcu_nocbs",
    "irqaffinity",
    "iommu",
    "intel_iommu",
    "amd_iommu",
    "idle",
    "cpuidle_haltpoll.force",
    "intel_idle.max_cstate",
    "processor.max_cstate",
    "intel_pstate",
    "amd_pstate",
    "preempt",
    "threadirqs",
    "transparent_hugepage",
    "default_hugepagesz",
    "hugepages",
    "clocksource",
    "tsc",
    "nosmt",
    "psi",
)
"""The boot parameters that change what is measured; the others may name hosts or disks."""

SYSCTLS = (
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.optmem_max",
    "net.core.netdev_budget",
    "net.core.default_qdisc",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_limit_output_bytes",
    "kernel.io_uring_disabled",
    "kernel.timer_migration",
    "kernel.numa_balancing",
)


def _text(path: Path) -> str | None:
    """Return a small file's text without its last newline, or None where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def state_folder() -> Path:
    """Return the folder where zcdb keeps this host's salt: `$ZCDB_STATE`, else XDG's place."""
    if "ZCDB_STATE" in os.environ:
        return Path(os.environ["ZCDB_STATE"])
    base = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    return Path(base) / "zcdb"


def _salt() -> str:
    path = state_folder() / "salt"
    stored = _text(path)
    if stored:
        return stored
    salt = secrets.token_hex(16)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(salt)
    except OSError:
        # A read-only home: the host then gets a new name each time, which is safe, only less handy.
        return salt
    return salt


def redact(name: str) -> str:
    """Return a stable stand-in for a name that would tell whose machine this is."""
    return hashlib.sha256(f"{_salt()}\n{name}".encode()).hexdigest()[:12]


def _kernel_options(root: Path, release: str) -> dict[str, Json] | None:
    packed = root / "proc/config.gz"
    try:
        text = gzip.decompress(packed.read_bytes()).decode(errors="replace")
    except OSError:
        plain = _text(root / f"boot/config-{release}")
        if plain is None:
            return None
        text = plain
    options = dict(line.split("=", 1) for line in text.splitlines() if line[:7] == "CONFIG_")
    return {name: options.get(name, "not set").strip('"') for name in KERNEL_OPTIONS}


def _cpuinfo(root: Path) -> dict[str, str]:
    first: dict[str, str] = {}
    for line in (_text(root / "proc/cpuinfo") or "").splitlines():
        key, colon, value = line.partition(":")
        if colon:
            first.setdefault(key.strip(), value.strip())
    return first


def cpu_model(root: Path = Path("/")) -> str:
    """Return the CPU's model name, with family and model number where the name is a vague one."""
    info = _cpuinfo(root)
    name = info.get("model name") or info.get("Model") or info.get("Processor") or "unknown"
    if "cpu family" in info and not any(character.isdigit() for character in name):
        return f"{name} (family {info['cpu family']}, model {info.get('model', '?')})"
    return " ".join(name.split())


def _command_line(root: Path) -> Json:
    text = _text(root / "proc/cmdline")
    if text is None:
        return None
    return [word for word in text.split() if word.split("=")[0] in COMMAND_LINE_PARAMETERS]


def _topology(root: Path) -> dict[str, Json]:
    cpus = root / "sys/devices/system/cpu"
    packages, cores = set(), set()
    for folder in cpus.glob("cpu[0-9]*/topology"):
        package = _text(folder / "physical_package_id")
        packages.add(package)
        cores.add((package, _text(folder / "core_id")))
    return {
        "online": _text(cpus / "online"),
        "packages": len(packages) or None,
        "cores": len(cores) or None,
        "smt": _text(cpus / "smt/control"),
        "numa_nodes": _text(root / "sys/devices/system/node/online"),
        "nohz_full": _text(cpus / "nohz_full") or None,
        "isolated": _text(cpus / "isolated") or None,
    }


def _memory_total_bytes(root: Path) -> int | None:
    for line in (_text(root / "proc/meminfo") or "").splitlines():
        if line.startswith("MemTotal:"):
            # Kernels differ by some pages in what they reserve: whole MiB keep the fact stable.
            return int(line.split()[1]) // 1024 * 1024 * 1024
    return None


def _mitigations(root: Path) -> dict[str, Json]:
    folder = root / "sys/devices/system/cpu/vulnerabilities"
    return {path.name: _text(path) for path in sorted(folder.glob("*"))}


def _virtualisation(root: Path) -> dict[str, Json]:
    return {
        "hypervisor_flag": "hypervisor" in _cpuinfo(root).get("flags", "").split(),
        "product": _text(root / "sys/class/dmi/id/product_name"),
        "vendor": _text(root / "sys/class/dmi/id/sys_vendor"),
    }


def _interface(root: Path, name: str) -> dict[str, Json]:
    folder = root / "sys/class/net" / name
    driver = folder / "device/driver"
    return {
        "driver": driver.resolve().name if driver.exists() else None,
        "mtu": _text(folder / "mtu"),
        "type": _text(folder / "type"),
    }


def collect(interface: str | None = None, root: Path = Path("/")) -> dict[str, Json]:
    """Return the stable facts of this host.

    Args:
        interface: the network interface that carries the data, if there is one.
        root: where /proc and /sys hang; another folder in tests.

    Returns:
        JSON with normalised keys; None where the machine does not say.
    """
    release = platform.release()
    clock = root / "sys/devices/system/clocksource/clocksource0/current_clocksource"
    governor = root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    info = _cpuinfo(root)
    return {
        "host": redact(platform.node()),
        "kernel": {
            "system": platform.system(),
            "release": release,
            "version": platform.version(),
            "machine": platform.machine(),
            "command_line": _command_line(root),
            "options": _kernel_options(root, release),
        },
        "cpu": {
            "model": cpu_model(root),
            "microcode": info.get("microcode"),
            "topology": _topology(root),
            "governor": _text(governor),
            "mitigations": _mitigations(root),
        },
        "memory_bytes": _memory_total_bytes(root),
        "page_size_bytes": os.sysconf("SC_PAGE_SIZE"),
        "clock_source": _text(clock),
        "virtualisation": _virtualisation(root),
        "interface": _interface(root, interface) if interface else None,
        "sysctls": {
            name: " ".join((_text(root / "proc/sys" / name.replace(".", "/")) or "").split())
            or None
            for name in SYSCTLS
        },
    }


def readings(root: Path = Path("/")) -> dict[str, Json]:
    """Return what moves by itself: load, free memory, ticks of steal, frequency."""
    memory = dict(line.split(":", 1) for line in (_text(root / "proc/meminfo") or "").splitlines())
    frequency = _text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")
    first = (_text(root / "proc/stat") or "cpu").splitlines()[0].split()
    load = (_text(root / "proc/loadavg") or "").split()
    available = memory.get("MemAvailable")
    return {
        "boot_id": boot_id(root),
        "load_average_1min": float(load[0]) if load else None,
        "available_memory_bytes": int(available.split()[0]) * 1024 if available else None,
        "steal_ticks": int(first[8]) if len(first) > 8 else None,
        "cpu0_frequency_hz": int(frequency) * 1000 if frequency else None,
        "irqbalance_runs": _is_running(root, "irqbalance"),
    }


def boot_id(root: Path = Path("/")) -> str | None:
    """Return the kernel's random name for this boot, or None."""
    return _text(root / "proc/sys/kernel/random/boot_id")


def _is_running(root: Path, name: str) -> bool:
    return any(_text(path) == name for path in (root / "proc").glob("[0-9]*/comm"))


def cpus_by_core(root: Path = Path("/")) -> list[list[int]]:
    """Return the CPUs this process may use, one list per physical core, in CPU order."""
    allowed = sorted(os.sched_getaffinity(0))
    cores: dict[tuple[str | None, str | None], list[int]] = {}
    for cpu in allowed:
        folder = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        key = (_text(folder / "physical_package_id"), _text(folder / "core_id") or str(cpu))
        cores.setdefault(key, []).append(cpu)
    return list(cores.values())
