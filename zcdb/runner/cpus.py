"""Which CPUs each end gets: the meaning of the factor `pinning`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zcdb.records import End

Cores = Sequence[Sequence[int]]
"""The CPUs of a host that may be used, one list per physical core."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The CPUs of both ends; None where an end may run anywhere.

    Attributes:
        is_separate: the ends share no CPU, so CPU time can be told apart.
        shares_core: the ends run on two threads of one core.
    """

    cpus: Mapping[End, tuple[int, ...] | None]
    is_separate: bool
    shares_core: bool = False


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Return the CPUs of a list as the kernel writes them: "0,2-4" is (0, 2, 3, 4)."""
    cpus: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    return tuple(dict.fromkeys(cpus))


def place(pinning: str, cores: Mapping[End, Cores], shares_host: bool) -> Placement | str:
    """Return where the ends run, or why this machine has no such place.

    Args:
        pinning: a normalised value of the factor.
        cores: what each end's host offers; the same for both if they share a host.
        shares_host: whether both ends are on one host.
    """
    if pinning == "none":
        return Placement({"sender": None, "receiver": None}, is_separate=not shares_host)
    if pinning.startswith("sender="):
        return _explicit(pinning, cores, shares_host)
    first: dict[End, int] = {end: host[0][0] for end, host in cores.items()}
    if not shares_host or pinning == "same":
        cpus = {end: (cpu,) for end, cpu in first.items()}
        return Placement(cpus, is_separate=not shares_host)
    host = cores["sender"]
    if len(host) > 1:
        return Placement({"sender": (host[0][0],), "receiver": (host[1][0],)}, is_separate=True)
    if len(host[0]) > 1:
        return Placement(
            {"sender": (host[0][0],), "receiver": (host[0][1],)}, True, shares_core=True
        )
    return "pinning = separate needs two CPUs; this process may use one"


def _explicit(pinning: str, cores: Mapping[End, Cores], shares_host: bool) -> Placement | str:
    lists = dict(part.split("=") for part in pinning.split(";"))
    cpus: dict[End, tuple[int, ...]] = {}
    for end, host in cores.items():
        cpus[end] = parse_cpu_list(lists[end])
        known = {cpu for core in host for cpu in core}
        missing = [cpu for cpu in cpus[end] if cpu not in known]
        if missing:
            return f"pinning names CPU {missing[0]} for the {end}; its host has no such CPU to use"
    overlap = shares_host and bool(set(cpus["sender"]) & set(cpus["receiver"]))
    return Placement(dict(cpus), is_separate=not overlap)
