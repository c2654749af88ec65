"""What one host counts: little at each edge of a window, much at its two ends.

`CounterReader` keeps its files open.  At every edge it reads one row of
/proc/net/dev for each interface of the link, and on the agent that reads the
host also /proc/net/softnet_stat.  What is long or asks the kernel to work
(interrupts by kind, protocol counters, qdiscs, offloads, hardware counters) is
in `details`, which is read at the ends of the window only.

Numbers are cumulative, as the kernel has them; `runner.counters` takes the
differences.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from zcdb.errors import HostError
from zcdb.host import interrupts, perf
from zcdb.host.cpufacts import throttles
from zcdb.host.ethtool import EthtoolReader, offloads
from zcdb.host.netcounters import (
    InterfaceCounters,
    Softnet,
    parse_net_dev,
    parse_schedstat,
    parse_snmp,
    parse_sockstat,
    parse_softnet,
)
from zcdb.host.nicfacts import irq_numbers
from zcdb.host.procstat import OpenFile
from zcdb.host.qdiscs import Qdisc, QdiscReader
from zcdb.host.sysfiles import read_kib, read_pairs, read_text
from zcdb.ids import Json

MEMORY_LINES = {
    "free_bytes": "MemFree",
    "available_bytes": "MemAvailable",
    "cached_bytes": "Cached",
    "slab_bytes": "Slab",
    "slab_unreclaimable_bytes": "SUnreclaim",
    "dirty_bytes": "Dirty",
}
"""Our name -> the line of /proc/meminfo."""


class CounterReader:
    """The counters of a host, or of one network namespace of it; a context manager.

    Args:
        interfaces: those that carry the data.
        is_host_read: read what belongs to the machine too, not only to the namespace.
        soakers: CPU -> soaker process, whose part hardware counters leave out.
        root: where /proc and /sys hang; another folder in tests.
    """

    def __init__(
        self,
        interfaces: Sequence[str],
        *,
        is_host_read: bool = True,
        soakers: Mapping[int, int] | None = None,
        root: Path = Path("/"),
    ) -> None:
        self._interfaces = tuple(interfaces)
        self._root = root
        self._is_host_read = is_host_read
        self._files: list[OpenFile] = []
        self._perf: perf.PerfCounters | None = None
        self.perf_reason: str | None = None
        self._ethtool = EthtoolReader()
        self._qdiscs = QdiscReader()
        try:
            # /proc/net is the namespace of the thread; /proc/self/net that of the process.
            self._net_dev = self._open("self/net/dev")
            self._softnet = self._open("net/softnet_stat") if is_host_read else None
            if is_host_read:
                self._open_perf(soakers or {})
        except HostError:
            self.close()
            raise

    def _open(self, name: str) -> OpenFile:
        file = OpenFile(self._root / "proc" / name)
        self._files.append(file)
        return file

    def _open_perf(self, soakers: Mapping[int, int]) -> None:
        self.perf_reason = perf.unsupported_reason()
        if self.perf_reason is None:
            cpus = sorted(soakers) or sorted(os.sched_getaffinity(0))
            self._perf = perf.PerfCounters(cpus, soakers)

    def interfaces(self) -> dict[str, InterfaceCounters]:
        """Return the counters of the interfaces that carry the data, now."""
        return parse_net_dev(self._net_dev.read_records(), self._interfaces)

    def softnet(self) -> dict[int, Softnet]:
        """Return each CPU's softnet counters, now; empty if another agent reads the host."""
        return parse_softnet(self._softnet.read_records()) if self._softnet is not None else {}

    def details(self) -> dict[str, Json]:
        """Return all the rest, now; takes up to some milliseconds on a large machine.

        Keys: at_ns; protocols ("Tcp.RetransSegs" -> count; zeros are left out), sockets
        ("TCP.mem" -> pages), qdiscs, offloads and link_speed_bps by interface; if the host is
        read also interrupts and softirqs by kind, interface_interrupts, memory (bytes),
        run_delay_ns by CPU, throttles, perf or perf_reason.
        """
        proc = self._root / "proc"
        found: dict[str, Json] = {
            "at_ns": time.monotonic_ns(),
            "protocols": _protocols(proc),
            "sockets": {**parse_sockstat(read_text(proc / "self/net/sockstat") or "")},
            "qdiscs": {
                name: [_qdisc_json(qdisc) for qdisc in self._qdiscs.read(name)]
                for name in self._interfaces
            },
            "offloads": {name: self._offloads(name) for name in self._interfaces},
            "link_speed_bps": {name: self._link_speed_bps(name) for name in self._interfaces},
        }
        return found | self._host_details(proc) if self._is_host_read else found

    def _offloads(self, interface: str) -> Json:
        features = self._ethtool.features(interface)
        return {**offloads(features)} if features is not None else None

    def _link_speed_bps(self, interface: str) -> Json:
        """Return the speed of a link that has one: veth states a speed that nothing keeps to."""
        driver = self._ethtool.driver(interface)
        if driver is None or driver["bus"] is None:
            return None
        return (self._ethtool.link(interface) or {}).get("speed_bps")

    def _host_details(self, proc: Path) -> dict[str, Json]:
        rows = interrupts.parse_interrupts(read_text(proc / "interrupts") or "CPU0\n")
        memory = read_pairs(proc / "meminfo")
        own = {number for name in self._interfaces for number in irq_numbers(self._root, name)}
        found: dict[str, Json] = {
            "interrupts": {
                interrupts.kind_of(name, row): row.count for name, row in rows.items() if row.count
            },
            # None, not 0: loopback and veth have no interrupts to count.
            "interface_interrupts": sum(
                row.count for name, row in rows.items() if name.isdecimal() and int(name) in own
            )
            if own
            else None,
            "softirqs": {
                **interrupts.parse_softirq_totals(read_text(proc / "softirqs") or ""),
            },
            "memory": {name: read_kib(memory, line) for name, line in MEMORY_LINES.items()},
            "run_delay_ns": {
                str(cpu): wait_ns
                for cpu, wait_ns in parse_schedstat(read_text(proc / "schedstat") or "").items()
            },
            "throttles": throttles(self._root),
        }
        if self._perf is None:
            return found | {"perf_reason": self.perf_reason}
        return found | {"perf": self._perf.read().to_json()}

    def close(self) -> None:
        """Close all files.  Idempotent."""
        for file in self._files:
            file.close()
        self._ethtool.close()
        self._qdiscs.close()
        if self._perf is not None:
            self._perf.close()

    def __enter__(self) -> CounterReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _protocols(proc: Path) -> dict[str, Json]:
    counts: dict[str, Json] = {}
    for name in ("snmp", "netstat"):
        text = read_text(proc / "self/net" / name)
        parsed = parse_snmp(text) if text is not None else {}
        counts |= {key: count for key, count in parsed.items() if count}
    return counts


def _qdisc_json(qdisc: Qdisc) -> dict[str, Json]:
    return {
        "kind": qdisc.kind,
        "is_root": qdisc.is_root,
        "handle": qdisc.handle,
        "drops": qdisc.drops,
        "requeues": qdisc.requeues,
        "overlimits": qdisc.overlimits,
        "backlog_bytes": qdisc.backlog_bytes,
    }
