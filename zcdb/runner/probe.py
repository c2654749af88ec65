"""What this machine is, and what it can run and what not, each with the reason.

Everything is tried rather than concluded: a namespace is made, a veth pair put
into it, a control group made and removed, a priority taken in a child process.
What was made goes with that child.  No traffic is sent, no setting changed.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from zcdb.engine import apis, soak
from zcdb.engine.window import sampling_priority
from zcdb.errors import ZcdbError
from zcdb.factors import FACTORS
from zcdb.host import facts, links, perf
from zcdb.host.cgroups import CpuGroups
from zcdb.host.procstat import usable_cpus
from zcdb.host.settings import SettingsError, probe_settings
from zcdb.host.settings.backend import SystemBackend
from zcdb.host.settings.model import BackendError
from zcdb.host.sysfiles import read_text
from zcdb.ids import Json
from zcdb.tools.registry import TOOLS

KINDS = {
    "send": "Ways to send",
    "receive": "Ways to receive",
    "link": "Links",
    "cpu": "Measuring CPU time",
    "counter": "Counters",
    "setting": "Settings",
    "tool": "Foreign tools",
    "limit": "Limits",
}
"""Kind of ability -> heading, in the order in which they are printed."""

IFF_UP = 1
VETH_PAIR = ("zcdb-probe0", "zcdb-probe1")


@dataclass(frozen=True, slots=True)
class Ability:
    """Something a measurement may need.

    Attributes:
        kind: key of `KINDS`.
        reason: why it is not there; None if it is.
        note: what else to know; "" for nothing.
    """

    kind: str
    name: str
    reason: str | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """What a machine is and can do.

    Attributes:
        interfaces: those that were looked at.
        facts, readings: see `zcdb.host.facts`; facts are what an environment records.
    """

    interfaces: Sequence[str]
    facts: Mapping[str, Json]
    readings: Mapping[str, Json]
    abilities: Sequence[Ability]

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "interfaces": list(self.interfaces),
            "facts": dict(self.facts),
            "readings": dict(self.readings),
            "abilities": [
                {**asdict(ability), "is_there": ability.reason is None}
                for ability in self.abilities
            ],
        }


def interfaces_up(root: Path = Path("/")) -> list[str]:
    """Return the interfaces that are up, the loopback only if there is no other."""
    names = [name for _, name in socket.if_nameindex() if name != "lo"]
    flags = {name: read_text(root / f"sys/class/net/{name}/flags") or "0x0" for name in names}
    return [name for name in names if int(flags[name], 16) & IFF_UP] or ["lo"]


def probe(interfaces: Sequence[str]) -> Probe:
    """Look at this machine.

    Args:
        interfaces: what to say about the network; the first one is the environment's.
    """
    abilities = [
        *_apis(),
        *_links(),
        *_cpu_methods(),
        *_counters(),
        *(ability for name in interfaces for ability in _settings(name)),
        *_tools(),
        *_limits(),
    ]
    return Probe(
        interfaces=interfaces,
        facts=facts.collect(interfaces),
        readings=facts.readings(interface=interfaces, is_bandwidth_measured=True),
        abilities=abilities,
    )


def _apis() -> list[Ability]:
    return [
        Ability(kind, name, apis.unsupported_reason(name), registered.needs)
        for kind, registry in (("send", apis.SENDER_APIS), ("receive", apis.RECEIVER_APIS))
        for name, registered in registry.items()
        if name in FACTORS["api" if kind == "send" else "rx_api"].choices
    ]


# -- links -----------------------------------------------------------------------------------


def _links() -> list[Ability]:
    ssh = None if shutil.which("ssh") else "ssh is not on the PATH (Debian: openssh-client)"
    return [
        Ability("link", "loopback", None),
        Ability("link", "veth", in_child(_try_veth)),
        Ability("link", "veth with a rate", _tbf_reason(), "token bucket; else the sender paces"),
        Ability("link", "hosts", ssh, "the other machine needs zcdb on its PATH"),
        Ability("link", "IPv6", None if links.has_ipv6() else "this kernel has no IPv6 here"),
    ]


def in_child(attempt: Callable[[], None]) -> str | None:
    """Try something in a forked child, which takes what it made with it; return why it failed.

    Raises:
        OSError: if no child can be made.
    """
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        reason: str | None = "the child that tried it broke down"
        try:
            os.close(receive)
            attempt()
            reason = None
        except ZcdbError as error:
            reason = error.message
        except OSError as error:
            reason = error.strerror or str(error)
        finally:
            os.write(send, json.dumps(reason).encode())
            os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        answer: str | None = json.loads(pipe.read() or b'"the child that tried it died"')
    os.waitpid(pid, 0)
    return answer


def _try_veth() -> None:
    links.enter_new_namespace()
    one, other = VETH_PAIR
    links.make_veth(one, ["10.77.0.1/24"], other, ["10.77.0.2/24"], os.getpid())


def _tbf_reason() -> str | None:
    try:
        with SystemBackend() as backend:
            return None if backend.has_tbf() else "this kernel has no tbf (CONFIG_NET_SCH_TBF)"
    except (BackendError, SettingsError) as error:
        return f"it could not be tried: {error}"


# -- CPU time and counters -------------------------------------------------------------------


def _cpu_methods() -> list[Ability]:
    soaking = soak.unsupported_reason() or in_child(_take_idle_priority)
    return [
        Ability("cpu", "soak", soaking, "subtractive, the headline method"),
        Ability("cpu", "procstat", None, "ticks of /proc/stat"),
        Ability("cpu", "rusage", None, "CPU clocks of the endpoint processes"),
        Ability("cpu", "perf", perf.unsupported_reason(), "cycles per byte"),
        Ability("cpu", "sampler before the load", _sampler_reason(), "SCHED_FIFO"),
        Ability("cpu", "isolation from other work", _groups(is_isolated=True)),
        Ability("cpu", "other work's CPU time", _groups(is_isolated=False), "per sample"),
    ]


def _take_idle_priority() -> None:
    os.setpriority(os.PRIO_PROCESS, 0, soak.NICE_LOWEST)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _sampler_reason() -> str | None:
    cpus = usable_cpus()
    with sampling_priority(cpus[-1]) as sampler:
        return sampler.reason


def _groups(*, is_isolated: bool) -> str | None:
    made = CpuGroups.create(usable_cpus(), is_isolated=is_isolated)
    if isinstance(made, str):
        return made
    reason = None if is_isolated else made.usage_reason
    made.close()
    return reason


def _counters() -> list[Ability]:
    hardware = [
        Ability("counter", f"perf {event.name}", perf.unsupported_reason(event))
        for event in perf.HARDWARE_EVENTS
    ]
    software = perf.unsupported_reason(perf.SOFTWARE_EVENTS[0])
    schedstat = Path("/proc/schedstat").exists()
    return [
        *hardware,
        Ability("counter", "perf software events", software),
        Ability(
            "counter",
            "time that tasks wait for a CPU",
            None if schedstat else "this kernel has no /proc/schedstat (CONFIG_SCHEDSTATS)",
        ),
    ]


# -- settings, tools, limits -----------------------------------------------------------------


def _settings(interface: str) -> list[Ability]:
    try:
        found = probe_settings(interface)
    except SettingsError as error:
        return [Ability("setting", interface, error.message)]
    return [
        Ability(
            "setting",
            " ".join(part for part in (entry.kind, entry.target, entry.key) if part),
            entry.reason,
            "" if entry.current is None else f"now {json.dumps(entry.current)}",
        )
        for entry in found
    ]


def _tools() -> list[Ability]:
    abilities = []
    for name, tool in TOOLS.items():
        programs = [program for needed in tool.programs.values() for program in needed]
        reasons = [reason for program in programs if (reason := program.missing()) is not None]
        abilities.append(Ability("tool", name, "; ".join(dict.fromkeys(reasons)) or None))
    return abilities


def _limits() -> list[Ability]:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    locked = "unlimited" if soft == resource.RLIM_INFINITY else f"{soft} bytes"
    return [
        Ability("limit", "locked memory", None, locked),
        Ability("limit", "open files", None, str(files)),
        Ability("limit", "CPUs", None, ",".join(map(str, usable_cpus()))),
    ]
