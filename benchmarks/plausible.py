"""Machines that might be, what was run on them, and what it might have measured.

Nothing here is a claim about a real card or CPU: the figures have the shape of real ones, a cost
per byte and one per call, offloads that help some APIs, a receiver that pays for copies, and noise
within and between boots.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from zcdb import units
from zcdb.factors import Factors
from zcdb.records import Environment, ExperimentText

SEED = 2001
WINDOW_NS = 2_000_000_000
REPETITIONS = 5

APIS = ("write", "read_write", "sendfile", "msg_zerocopy")
SIZES = (256, 4096, 16384, 65536, 1_048_576)
PINNINGS = ("separate", "same")
OFFLOADS: tuple[tuple[str, Factors], ...] = (
    ("apis-as-found", {}),
    ("apis-without-tso", {"tso": False}),
    ("apis-without-gro", {"gro": False}),
    ("apis-without-offloads", {"sg": False, "tx_checksum": False, "tso": False}),
    ("apis-nocache-copy", {"tx_nocache_copy": True}),
)
"""Each state of the offloads is an experiment."""

KERNELS = tuple(
    f"{major}.{minor}.0" for major, minors in ((5, 20), (6, 20)) for minor in range(minors)
)
NICS = (
    ("I210", "igb", 1.05),
    ("82599ES", "ixgbe", 1.0),
    ("X710", "i40e", 0.97),
    ("E810-C", "ice", 0.93),
    ("MT27800", "mlx5_core", 0.9),
    ("BCM57414", "bnxt_en", 0.98),
    ("T6225-CR", "cxgb4", 0.96),
    ("RTL8125", "r8169", 1.2),
    ("SFC9250", "sfc", 0.97),
    ("Virtio", "virtio_net", 1.35),
)
"""Name, driver, and what a byte costs over it beside the second one."""

CPUS = ("Example CPU 1000", "Example CPU 2000", "Example CPU 3000")
CASES_OF_A_RUN = len(APIS) * len(SIZES) * len(PINNINGS)
CASES_OF_A_CONTEXT = CASES_OF_A_RUN * len(OFFLOADS)

# API -> us/KB for the sender's bytes, us a call, us/KB for the receiver.
COSTS = {
    "write": (0.150, 0.45, 0.200),
    "read_write": (0.230, 0.90, 0.202),
    "sendfile": (0.070, 0.60, 0.201),
    "msg_zerocopy": (0.080, 1.60, 0.203),
}
NO_COMPLETIONS = "this API reports no completions"


@dataclass(frozen=True, slots=True)
class Context:
    """A sender and a receiver that experiments were run on: one kernel, one card, one CPU."""

    number: int
    observed: Factors
    cost: float
    environment: Environment
    lacks_zero_copy: bool


def contexts(count: int) -> Iterator[Context]:
    """Yield machines with one kernel and card each; the same ones for every `count`."""
    every = itertools.product(CPUS, KERNELS, NICS)
    for number, (cpu, kernel, (nic, driver, cost)) in enumerate(itertools.islice(every, count)):
        observed: dict[str, str | int | bool] = {}
        for end in ("sender", "receiver"):
            observed |= {
                f"{end}_kernel": kernel,
                f"{end}_cpu": cpu,
                f"{end}_nic": nic,
                f"{end}_driver": driver,
                f"{end}_link_speed": "25000",
            }
        facts = {
            "kernel_release": kernel,
            "machine": "x86_64",
            "cpu_model": cpu,
            "cpus": 8,
            "memory_bytes": 64 * 2**30,
            "distribution": "Debian GNU/Linux 13",
            "clock_source": "tsc",
            "hostname_hash": f"{CPUS.index(cpu):08x}{NICS.index((nic, driver, cost)):08x}",
        }
        newer = 1 - 0.004 * KERNELS.index(kernel)
        slower = 1 + 0.15 * (len(CPUS) - 1 - CPUS.index(cpu))
        yield Context(
            number,
            observed,
            cost * newer * slower,
            Environment(facts),
            lacks_zero_copy=driver == "r8169" and KERNELS.index(kernel) < 4,
        )


def declared_cases(offloads: Factors) -> list[Factors]:
    """Return the matrix that the runs of one experiment measure."""
    return [
        {"api": api, "message_size": size, "pinning": pinning, "link": "hosts", **offloads}
        for api, size, pinning in itertools.product(APIS, SIZES, PINNINGS)
    ]


def experiment(name: str, offloads: Factors) -> ExperimentText:
    """Return the experiment over one state of the offloads."""
    resolved = {
        "name": name,
        "factors": {"api": list(APIS), "message_size": list(SIZES), "pinning": list(PINNINGS)},
        "fixed": dict(offloads),
        "link": {"kind": "hosts"},
        "exclude": [],
        "measure": {
            "repetitions": REPETITIONS,
            "duration_ns": WINDOW_NS,
            "discard_ns": 500_000_000,
            "sample_ns": 100_000_000,
            "bracket_ns": 500_000_000,
            "seed": SEED,
        },
        "compare": {
            "baseline": {"api": "write"},
            "metrics": ["service_demand_sender", "throughput", "service_demand_receiver"],
            "matters": 0.02,
        },
    }
    return ExperimentText(
        name=name,
        question=f"What does each API cost by size and pinning ({name})?",
        text=f'name = "{name}"\n',
        resolved=resolved,
    )


Series = dict[tuple[str, str], list[float | None]]
"""(metric, method) -> a value for each repetition."""


def measured(
    case: Factors, context: Context, boot: float, noise: random.Random
) -> tuple[list[int], Series]:
    """Return the payload bytes of each repetition and every metric.

    Args:
        boot: what this run costs beside others of the same case.
    """
    per_kb, per_call, receiving = COSTS[str(case["api"])]
    size = int(case["message_size"])
    if case.get("tso") is False:
        per_kb *= 1.35
    if case.get("sg") is False:
        per_kb = COSTS["read_write"][0] * 1.6
    if case.get("tx_nocache_copy"):
        per_kb *= 1.05
    if case.get("gro") is False:
        receiving *= 1.8
    sending = (per_kb + per_call / (size / units.KB_BYTES)) * context.cost * boot
    receiving *= context.cost * boot
    crowded = 1.0 if case["pinning"] == "separate" else 0.55
    payloads: list[int] = []
    series: Series = defaultdict(list)
    for _ in range(REPETITIONS):
        demands = {"sender": sending * noise.gauss(1, 0.02),
                   "receiver": receiving * noise.gauss(1, 0.015)}  # fmt: skip
        busy_us = WINDOW_NS / 1000 * crowded
        payload = int(min(busy_us / max(demands.values()) * units.KB_BYTES, 3.125e9 * 2))
        payloads.append(payload)
        series["throughput", ""].append(units.throughput_bps(payload, WINDOW_NS))
        series["call_rate", ""].append(payload / size / (WINDOW_NS / 1e9))
        series["retransmits", ""].append(float(max(0, round(noise.gauss(0.2, 1)))))
        copied = 0.0 if case.get("sg") is not False else 1.0
        series["copied_share", ""].append(copied if case["api"] == "msg_zerocopy" else None)
        for end, demand in demands.items():
            for method, bias in (("soak", 1.0), ("procstat", 0.98)):
                shown = demand * bias * noise.gauss(1, 0.005)
                cpu_us = shown * payload / units.KB_BYTES
                series[f"service_demand_{end}", method].append(shown)
                series[f"utilisation_{end}", method].append(cpu_us * 1000 / WINDOW_NS)
    return payloads, series
