"""The kernel: release, how it was built, how it was booted, how it is tuned.

Only what bears on measurements: the whole configuration has ten thousand lines,
and other boot parameters may name hosts or disks.
"""

from __future__ import annotations

import gzip
import platform
from pathlib import Path

from zcdb.host.sysfiles import read_int, read_text
from zcdb.ids import Json

KERNEL_OPTIONS = (
    "CONFIG_HZ",
    "CONFIG_IRQ_TIME_ACCOUNTING",
    "CONFIG_VIRT_CPU_ACCOUNTING_GEN",
    "CONFIG_TICK_CPU_ACCOUNTING",
    "CONFIG_PARAVIRT_TIME_ACCOUNTING",
    "CONFIG_PREEMPT_NONE",
    "CONFIG_PREEMPT_VOLUNTARY",
    "CONFIG_PREEMPT",
    "CONFIG_PREEMPT_LAZY",
    "CONFIG_PREEMPT_RT",
    "CONFIG_PREEMPT_DYNAMIC",
    "CONFIG_HIGH_RES_TIMERS",
    "CONFIG_NO_HZ_IDLE",
    "CONFIG_NO_HZ_FULL",
    "CONFIG_NUMA",
    "CONFIG_SMP",
    "CONFIG_CPU_ISOLATION",
    "CONFIG_MITIGATION_PAGE_TABLE_ISOLATION",
    "CONFIG_MITIGATION_RETPOLINE",
    "CONFIG_TRANSPARENT_HUGEPAGE",
    "CONFIG_BPF_JIT",
    "CONFIG_HARDENED_USERCOPY",
    "CONFIG_INIT_ON_ALLOC_DEFAULT_ON",
    "CONFIG_IO_URING",
    "CONFIG_PERF_EVENTS",
    "CONFIG_NETFILTER",
    "CONFIG_RPS",
    "CONFIG_XPS",
    "CONFIG_NET_SCH_TBF",
    "CONFIG_VETH",
    "CONFIG_TLS",
    "CONFIG_KASAN",
    "CONFIG_PROVE_LOCKING",
)
"""Tick accounting, preemption, HZ, what makes copying or small packets dear, what cases need."""

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
    "init_on_alloc",
    "init_on_free",
    "clocksource",
    "tsc",
    "nosmt",
    "psi",
)
"""The boot parameters that change what is measured; the others may name hosts or disks."""

SYSCTLS = (
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.rmem_default",
    "net.core.wmem_default",
    "net.core.optmem_max",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.dev_weight",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.rps_sock_flow_entries",
    "net.core.somaxconn",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_adv_win_scale",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_min_tso_segs",
    "net.ipv4.tcp_tso_win_divisor",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.udp_mem",
    "kernel.io_uring_disabled",
    "kernel.perf_event_paranoid",
    "kernel.timer_migration",
    "kernel.numa_balancing",
    "kernel.sched_rt_runtime_us",
    "kernel.nmi_watchdog",
    "vm.swappiness",
    "vm.zone_reclaim_mode",
)
"""The sysctls that an environment records."""


def kernel_facts(root: Path) -> dict[str, Json]:
    """Return the facts of the running kernel."""
    release = platform.release()
    huge_pages = read_text(root / "sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "system": platform.system(),
        "release": release,
        "version": platform.version(),
        "machine": platform.machine(),
        "command_line": _command_line(root),
        "options": kernel_options(root, release),
        "taint": read_int(root / "proc/sys/kernel/tainted"),
        "transparent_hugepages": _chosen(huge_pages),
    }


def _chosen(text: str | None) -> str | None:
    """Return the word in brackets of a file like "always [madvise] never"."""
    if text is None or "[" not in text:
        return text
    return text.partition("[")[2].partition("]")[0]


def kernel_options(root: Path, release: str) -> dict[str, Json] | None:
    """Return the options that matter, "not set" where they are; None if there is no config file."""
    try:
        text = gzip.decompress((root / "proc/config.gz").read_bytes()).decode(errors="replace")
    except OSError:
        plain = read_text(root / f"boot/config-{release}")
        if plain is None:
            return None
        text = plain
    options = dict(line.split("=", 1) for line in text.splitlines() if line[:7] == "CONFIG_")
    return {name: options.get(name, "not set").strip('"') for name in KERNEL_OPTIONS}


def _command_line(root: Path) -> Json:
    text = read_text(root / "proc/cmdline")
    if text is None:
        return None
    return [word for word in text.split() if word.split("=")[0] in COMMAND_LINE_PARAMETERS]


def sysctl_facts(root: Path) -> dict[str, Json]:
    """Return every sysctl of `SYSCTLS`; None where this kernel or namespace has none."""
    found: dict[str, Json] = {}
    for name in SYSCTLS:
        text = read_text(root / "proc/sys" / name.replace(".", "/"))
        found[name] = " ".join(text.split()) or None if text is not None else None
    return found
