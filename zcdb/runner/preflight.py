"""What to know about a machine before measuring on it: pure checks over its facts and readings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zcdb import units
from zcdb.records import ENDS, End

MEMORY_RESERVE_BYTES = 256 * 1024 * 1024
TRUSTED_CLOCKS = ("tsc", "arch_sys_counter")
LOAD_LIMIT = 0.5
OPTMEM_MINIMUM_BYTES = 20480
"""Below this the kernel's default of many years, MSG_ZEROCOPY sends run into ENOBUFS."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the machine that bears on what will be measured.

    Attributes:
        check: short name of the check.
        sentence: what was found and what to do.
        is_fatal: True if nothing should be measured like this.
    """

    check: str
    sentence: str
    is_fatal: bool = False


def check_host(
    facts: Mapping[str, Any], readings: Mapping[str, Any], needed_bytes: int, apis: frozenset[str]
) -> list[Finding]:
    """Return what should be known about one host before measuring there.

    Args:
        facts, readings: of `zcdb.host.facts`.
        needed_bytes: memory that the largest case's files and buffers take.
        apis: names of the sender APIs of the plan.
    """
    findings = [
        _memory(readings.get("available_memory_bytes"), needed_bytes),
        _clock(facts.get("clock_source")),
        _load(readings.get("load_average_1min")),
        _irqbalance(readings.get("irqbalance_runs")),
        _optmem((facts.get("sysctls") or {}).get("net.core.optmem_max"), apis),
    ]
    return [finding for finding in findings if finding is not None]


def check_link(interfaces: Mapping[End, Any]) -> list[Finding]:
    """Return what should be known about the interfaces of two hosts before measuring over them.

    Args:
        interfaces: each end's `interface` in the facts; what it does not say is not judged.
    """
    known = {end: interface or {} for end, interface in interfaces.items()}
    findings = [_differing(known, "mtu", "MTU"), _differing(known, "link_speed_bps", "speed")]
    findings += [_half_duplex(end, interface) for end, interface in known.items()]
    return [finding for finding in findings if finding is not None]


def _differing(known: Mapping[End, Mapping[str, Any]], key: str, name: str) -> Finding | None:
    sender, receiver = (known[end].get(key) for end in ENDS)
    if sender is None or receiver is None or sender == receiver:
        return None
    show = units.format_bps if key.endswith("_bps") else str
    return Finding(
        "link",
        f"the {name} of the sender's interface is {show(sender)}, of the receiver's"
        f" {show(receiver)}: packets may be split, dropped or queued on the way",
    )


def _half_duplex(end: End, interface: Mapping[str, Any]) -> Finding | None:
    if interface.get("duplex") != "half":
        return None
    return Finding("link", f"the {end}'s interface is at half duplex: a cable or switch is wrong")


def _memory(available: int | None, needed_bytes: int) -> Finding | None:
    if available is None or available >= needed_bytes + MEMORY_RESERVE_BYTES:
        return None
    return Finding(
        "memory",
        f"{units.format_size(available)} of memory is free, the plan needs"
        f" {units.format_size(needed_bytes)} and some reserve:"
        " use a smaller working_set or message_size",
        is_fatal=True,
    )


def _clock(source: str | None) -> Finding | None:
    if source is None or source in TRUSTED_CLOCKS:
        return None
    return Finding(
        "clock",
        f"the clock source is {source}: reading the time is slow and may be coarse;"
        " small differences may drown",
    )


def _load(load: float | None) -> Finding | None:
    if load is None or load < LOAD_LIMIT:
        return None
    return Finding(
        "load",
        f"other work runs here (load average {load:.2f} over the last minute):"
        " samples that it disturbs will be flagged",
    )


def _irqbalance(is_running: bool | None) -> Finding | None:
    if not is_running:
        return None
    return Finding(
        "irqbalance", "irqbalance runs and may move interrupts while measuring; stop it if you can"
    )


def _optmem(optmem_max: str | None, apis: frozenset[str]) -> Finding | None:
    if optmem_max is None or not apis & {"msg_zerocopy", "io_uring_send_zc"}:
        return None
    if int(optmem_max) >= OPTMEM_MINIMUM_BYTES:
        return None
    return Finding(
        "optmem",
        f"net.core.optmem_max is {optmem_max} bytes: zero-copy sends will wait for completions;"
        " raise it, for example to 131072",
    )
