"""How fast the engine moves bytes, against other tools on the same machine.

    python benchmarks/engine.py [--rounds 9] [--seconds 1] [--links lo,veth,veth-off] [--cells ...]

Every round runs zcdb and each peer once, the next round in the opposite order;
a ratio is made within a round and the median of the rounds is what counts,
because a virtual machine's speed wanders by a third within minutes.  Sender on
the first CPU, receiver on the second, receive size = message size, a hot
source, the same congestion control for all.  Needs root or user namespaces;
what it makes are namespaces of its own that end with it.  See README.md here.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zcdb.engine.apis import unsupported_reason
from zcdb.engine.endpoint import ReceiverOptions, SenderOptions, start_receiver, start_sender
from zcdb.errors import ZcdbError
from zcdb.factors import FactorValue
from zcdb.host.links import enter_new_namespace, make_veth
from zcdb.units import format_size

CLONE_NEWNET = 0x40000000
VETH_ADDRESSES = ("10.77.0.1", "10.77.0.2")
TOLERANCE = 0.05
"""A ratio this much below its target still counts as reached: the noise of nine pairs."""

ATTEMPTS = 3

SIZES = {"1": 1, "256": 256, "8K": 8192, "64K": 65536, "1M": 1 << 20}


@dataclass(frozen=True)
class Cell:
    """One thing to compare: an API at a message size, and the tools that do the same.

    The API "rr" is the exchange of requests and responses of that size, one at a time; its
    rates are transactions per second.
    """

    api: str
    size_name: str
    peers: tuple[str, ...]

    @property
    def unit_size(self) -> int:
        """What a rate is divided by to be shown: 10^6 bytes, or a transaction."""
        return 1 if self.api == EXCHANGE else 10**6

    @property
    def name(self) -> str:
        return f"{self.api}-{self.size_name}"

    @property
    def size_bytes(self) -> int:
        return SIZES[self.size_name]


EXCHANGE = "rr"
STREAM_PEERS = ("iperf3", "nuttcp", "netperf")
SENDFILE_PEERS = ("iperf3", "netperf")

CELLS = [
    Cell("send", "256", STREAM_PEERS),
    Cell("send", "8K", STREAM_PEERS),
    # "unsampled" is zcdb with nobody reading its counters: what live readings cost.
    Cell("send", "64K", (*STREAM_PEERS, "unsampled")),
    Cell("send", "1M", STREAM_PEERS),
    Cell("write", "64K", STREAM_PEERS),
    *(Cell("sendfile", size, SENDFILE_PEERS) for size in ("256", "8K", "64K", "1M")),
    # No packaged peer sends with MSG_ZEROCOPY: these rows show zcdb's own figures.
    *(Cell("msg_zerocopy", size, ()) for size in ("8K", "64K", "1M")),
    Cell(EXCHANGE, "1", ("netperf",)),
]

TARGETS: dict[tuple[str, str, str], dict[str, float]] = {
    ("send", "256", "lo"): {"netperf": 1.10, "nuttcp": 1.10, "iperf3": 3.00},
    ("send", "256", "veth"): {"netperf": 1.10, "nuttcp": 1.10},
    ("send", "8K", "lo"): {"netperf": 1.00, "nuttcp": 1.00, "iperf3": 1.00},
    ("send", "8K", "veth"): {"netperf": 1.00, "nuttcp": 1.00, "iperf3": 1.00},
    ("send", "64K", "lo"): {"netperf": 1.00, "iperf3": 1.05, "unsampled": 0.99},
    ("send", "64K", "veth"): {"netperf": 1.00, "iperf3": 1.05, "unsampled": 0.99},
    ("write", "64K", "lo"): {"netperf": 1.00, "iperf3": 1.05},
    ("write", "64K", "veth"): {"netperf": 1.00, "iperf3": 1.05},
    ("send", "1M", "lo"): {"iperf3": 1.00},
    ("send", "1M", "veth"): {"iperf3": 1.00},
    ("sendfile", "256", "lo"): {"netperf": 1.20},
    ("sendfile", "256", "veth"): {"netperf": 1.05},
    ("sendfile", "8K", "lo"): {"netperf": 1.10},
    ("sendfile", "8K", "veth"): {"iperf3": 1.00},
    ("sendfile", "64K", "lo"): {"iperf3": 1.20},
    ("sendfile", "64K", "veth"): {"iperf3": 1.05},
    ("sendfile", "1M", "lo"): {"netperf": 1.00},
    ("sendfile", "1M", "veth"): {"iperf3": 1.00},
    (EXCHANGE, "1", "lo"): {"netperf": 1.00},
    (EXCHANGE, "1", "veth"): {"netperf": 1.00},
}

OFFLOADS_OFF_TARGET = 0.97
"""Of every peer, on a veth pair without scatter-gather, checksum and segmentation offload."""

LINKS = ("lo", "veth", "veth-off")


# -- two namespaces ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Bench:
    """This process is in the sender's namespace; the other one belongs to a child."""

    cpus: tuple[int, int]
    seconds: float
    own_namespace: int
    other_namespace: int

    @contextlib.contextmanager
    def receiving_side(self, link: str) -> Iterator[None]:
        """Start processes where the receiver is: for lo that is here."""
        if link == "lo":
            yield
            return
        _enter(self.other_namespace)
        try:
            yield
        finally:
            _enter(self.own_namespace)

    def turn_offloads_off(self) -> None:
        """Make the veth pair copy and checksum in software from now on; it is ours and goes."""
        for side, name in (("lo", "zcb0"), ("veth", "zcb1")):
            with self.receiving_side(side):
                subprocess.run(
                    ["ethtool", "-K", name, "tx", "off", "sg", "off", "tso", "off"],
                    check=True,
                    stdout=subprocess.DEVNULL,
                )


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _hold_namespace(partner_pid: int) -> int:
    """Fork a child that sits in a namespace of its own and return its pid."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            enter_new_namespace(partner_pid)
            os.write(write_end, b"ready")
            signal.pause()
        finally:
            os._exit(1)
    os.close(write_end)
    ready = os.read(read_end, 5)
    os.close(read_end)
    if ready != b"ready":
        os.waitpid(pid, 0)
        raise SystemExit("the receiver's namespace could not be made; its reason is above")
    return pid


def _tune_namespace() -> str:
    """Give the peers the congestion control that zcdb's sockets ask for; return what they have."""
    control = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    # The kernel lets a namespace have only what the machine allows everybody.
    with contextlib.suppress(OSError):
        control.write_text("cubic")
    with contextlib.suppress(OSError):
        Path("/proc/sys/net/ipv4/tcp_no_metrics_save").write_text("1")
    return control.read_text().strip()


@contextlib.contextmanager
def open_bench(seconds: float) -> Iterator[tuple[Bench, str]]:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise SystemExit("this benchmark needs two CPUs: one for each end")
    enter_new_namespace()
    congestion_control = _tune_namespace()
    holder = _hold_namespace(os.getpid())
    try:
        here, there = ([f"{address}/24"] for address in VETH_ADDRESSES)
        make_veth("zcb0", here, "zcb1", there, holder)
        own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        other = os.open(f"/proc/{holder}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        bench = Bench((cpus[0], cpus[1]), seconds, own, other)
        with bench.receiving_side("veth"):
            _tune_namespace()
        yield bench, congestion_control
    finally:
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)


# -- one run of each tool: payload bytes per second at the receiver, or transactions ----------


def address(link: str) -> str:
    return "127.0.0.1" if link == "lo" else VETH_ADDRESSES[1]


def run_zcdb(
    bench: Bench, link: str, cell: Cell, congestion_control: str, reads_live: bool = True
) -> float:
    factors: dict[str, FactorValue] = {"congestion_control": congestion_control}
    if cell.api == EXCHANGE:
        counter = "transactions"
        factors |= {"test": "rr", "request_size": cell.size_bytes}
        factors["response_size"] = cell.size_bytes
    else:
        counter = "payload_bytes"
        factors |= {"api": cell.api, "message_size": cell.size_bytes}
        factors["receive_size"] = cell.size_bytes
    with bench.receiving_side(link):
        options = ReceiverOptions.from_factors(
            factors, address=address(link), cpus=(bench.cpus[1],)
        )
        receiver = start_receiver(options)
    try:
        sender = start_sender(
            SenderOptions.from_factors(
                factors, address=address(link), ports=receiver.ports, cpus=(bench.cpus[0],)
            )
        )
        try:
            start_ns, start_bytes = time.monotonic_ns(), receiver.reading()[counter]
            sender.go()
            _wait(bench.seconds, [sender.reading, receiver.reading] if reads_live else [])
            end_ns, end_bytes = time.monotonic_ns(), receiver.reading()[counter]
            sender.stop()
        finally:
            sender.kill()
        receiver.stop()
    finally:
        receiver.kill()
    return (end_bytes - start_bytes) * 1e9 / (end_ns - start_ns)


def _wait(seconds: float, reads: Sequence[Callable[[], object]]) -> None:
    """Sleep, reading all counters every 100 ms as a measuring window does."""
    end_s = time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0:
        time.sleep(min(left_s, 0.1) if reads else left_s)
        for read in reads:
            read()


def _start(command: Sequence[str], cpu: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, [cpu]),
    )


def _client(bench: Bench, command: Sequence[str]) -> str:
    """Run a tool's client and return its output; a server may need a moment to listen."""
    for _ in range(20):
        process = _start(command, bench.cpus[0])
        try:
            output, errors = process.communicate(timeout=bench.seconds + 30)
        finally:
            process.kill()
        if process.returncode == 0:
            return output
        time.sleep(0.05)
    raise SystemExit(f"{' '.join(command)} failed: {errors or output}")


@contextlib.contextmanager
def _server(bench: Bench, link: str, command: Sequence[str]) -> Iterator[None]:
    with bench.receiving_side(link):
        process = _start(command, bench.cpus[1])
    try:
        time.sleep(0.1)
        yield
    finally:
        process.kill()
        process.communicate()


def run_iperf3(bench: Bench, link: str, cell: Cell, port: int) -> float:
    server = ["iperf3", "-s", "-1", "-4", "-p", str(port), "-J"]
    client = ["iperf3", "-c", address(link), "-4", "-p", str(port), "-l", str(cell.size_bytes)]
    client += ["-t", f"{max(1, round(bench.seconds))}", "-J"]
    if cell.api == "sendfile":
        client.append("-Z")
    with _server(bench, link, server):
        result = json.loads(_client(bench, client))
    return float(result["end"]["sum_received"]["bits_per_second"]) / 8


def run_nuttcp(bench: Bench, link: str, cell: Cell, port: int) -> float:
    server = ["nuttcp", "-1", f"-P{port}", "--nofork"]
    client = ["nuttcp", "-t", f"-l{cell.size_bytes}", f"-T{bench.seconds:g}"]
    client += [f"-P{port}", f"-p{port + 1}", "-fparse", address(link)]
    with _server(bench, link, server):
        output = _client(bench, client)
    values = dict(pair.split("=", 1) for pair in output.split() if "=" in pair)
    return float(values["rate_Mbps"]) * 1e6 / 8


def run_netperf(bench: Bench, link: str, cell: Cell, port: int) -> float:
    server = ["netserver", "-D", "-4", "-p", str(port)]
    client = ["netperf", "-4", "-H", address(link), "-p", str(port), "-P", "0"]
    client += ["-l", f"{max(1, round(bench.seconds))}"]
    sizes = ["--", "-m", str(cell.size_bytes), "-M", str(cell.size_bytes)]
    with tempfile.NamedTemporaryFile() as source, _server(bench, link, server):
        if cell.api == "sendfile":
            # A ring of one buffer sends the file's first message again and again, as zcdb and
            # iperf3 do; the file must be larger than the ring.
            source.write(bytes(2 * cell.size_bytes))
            source.flush()
            client += ["-W", "1,1", "-t", "TCP_SENDFILE", "-F", source.name]
            output = _client(bench, [*client, *sizes])
        elif cell.api == EXCHANGE:
            sizes = ["--", "-r", f"{cell.size_bytes},{cell.size_bytes}"]
            output = _client(bench, [*client, "-t", "TCP_RR", *sizes])
            # Buffer sizes, sizes, seconds, and transactions per second in column 6.
            return float(output.split()[5])
        else:
            output = _client(bench, [*client, "-t", "TCP_STREAM", *sizes])
    # Without -k (which TCP_SENDFILE ignores): sizes, seconds, and 10^6 bit/s in column 5.
    return float(output.split()[4]) * 1e6 / 8


PEERS: dict[str, Callable[[Bench, str, Cell, int], float]] = {
    "iperf3": run_iperf3,
    "nuttcp": run_nuttcp,
    "netperf": run_netperf,
}


# -- pairs, medians, the table ----------------------------------------------------------------


@dataclass
class Row:
    """Bytes or transactions per second of each round, by tool; "zcdb" is always there."""

    link: str
    cell: Cell
    rates: dict[str, list[float]] = field(default_factory=dict)

    def ratios(self, peer: str) -> list[float]:
        return [
            ours / theirs for ours, theirs in zip(self.rates["zcdb"], self.rates[peer], strict=True)
        ]

    def target(self, peer: str) -> float | None:
        if self.link == "veth-off":
            return OFFLOADS_OFF_TARGET
        targets = TARGETS.get((self.cell.api, self.cell.size_name, self.link), {})
        return targets.get(peer)


def measure(
    bench: Bench, link: str, cell: Cell, congestion_control: str, rounds: int, missing: set[str]
) -> Row:
    tools = ["zcdb", *(peer for peer in cell.peers if peer not in missing)]
    row = Row(link, cell, {tool: [] for tool in tools})
    port = 15201
    for number in range(rounds):
        for tool in tools if number % 2 == 0 else reversed(tools):
            # A fresh pair of ports each time: the last ones may still be in TIME_WAIT.
            port = 15201 + (port - 15201 + 2) % 2000
            if tool in PEERS:
                rate = run_peer(tool, bench, link, cell, port)
            else:
                rate = run_zcdb(bench, link, cell, congestion_control, tool == "zcdb")
            row.rates[tool].append(rate)
    return row


def run_peer(tool: str, bench: Bench, link: str, cell: Cell, port: int) -> float:
    """Run a peer once; on a starved machine one of them now and then ends without a result."""
    for attempt in range(ATTEMPTS):
        try:
            return PEERS[tool](bench, link, cell, port + attempt * 2000)
        except (KeyError, IndexError, ValueError) as error:
            reason = error
    raise SystemExit(f"{tool} gave no result {ATTEMPTS} times ({reason!r}); is the machine busy?")


def lines(row: Row) -> Iterator[str]:
    ours = statistics.median(row.rates["zcdb"]) / row.cell.unit_size
    head = f"{row.link:8} {row.cell.api:13} {format_size(row.cell.size_bytes):>8}"
    if len(row.rates) == 1:
        yield f"{head} {ours:9.0f}"
    for peer in list(row.rates)[1:]:
        theirs = statistics.median(row.rates[peer]) / row.cell.unit_size
        ratios = row.ratios(peer)
        ratio, target = statistics.median(ratios), row.target(peer)
        verdict = ""
        if target is not None:
            verdict = f"{target:6.2f} {'ok' if ratio >= target - TOLERANCE else 'BELOW'}"
        spread = f"({min(ratios):.2f}-{max(ratios):.2f})"
        yield f"{head} {ours:9.0f} {peer:10}{theirs:9.0f} {ratio:6.2f} {spread:12}{verdict}"


def as_json(rows: Sequence[Row]) -> str:
    return json.dumps(
        [
            {
                "link": row.link,
                "api": row.cell.api,
                "message_size_bytes": row.cell.size_bytes,
                "per_second": row.rates,
                "median_ratio": {p: statistics.median(row.ratios(p)) for p in row.rates},
                "target": {peer: row.target(peer) for peer in row.rates if peer != "zcdb"},
            }
            for row in rows
        ],
        indent=1,
    )


def choose_cells(names: str | None) -> list[Cell]:
    wanted = names.split(",") if names else []
    for name in wanted:
        if name not in {cell.name for cell in CELLS}:
            raise SystemExit(f"no cell {name!r}; there are {', '.join(c.name for c in CELLS)}")
    return [
        cell
        for cell in CELLS
        if (not wanted or cell.name in wanted)
        and (cell.api == EXCHANGE or unsupported_reason(cell.api) is None)
    ]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=9, help="paired runs per cell")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of each run")
    parser.add_argument("--links", default=",".join(LINKS), help=f"some of {', '.join(LINKS)}")
    parser.add_argument("--cells", help="names like send-64K, joined by commas; default: all")
    parser.add_argument("--json", action="store_true", help="every round, for programs")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    cells = choose_cells(arguments.cells)
    missing = {peer for peer in PEERS if shutil.which(peer) is None}
    if shutil.which("netserver") is None:
        missing.add("netperf")
    links = arguments.links.split(",")
    if not set(links) <= set(LINKS):
        raise SystemExit(f"--links takes some of {', '.join(LINKS)}, got {arguments.links!r}")
    if "veth-off" in links and shutil.which("ethtool") is None:
        raise SystemExit("veth-off needs ethtool; install it, or choose --links lo,veth")
    # The offloads are not turned on again, so this link comes last.
    links.sort(key=LINKS.index)
    rows: list[Row] = []
    with open_bench(arguments.seconds) as (bench, congestion_control):
        print(
            f"{arguments.rounds} rounds of {arguments.seconds:g} s, CPUs {bench.cpus},"
            f" {congestion_control} for all; medians in MB/s (10^6 bytes), rr in 1/s",
            f"missing here: {', '.join(sorted(missing)) or 'nothing'}",
            f"{'link':8} {'api':13} {'message':>8} {'zcdb':>9} {'peer':10}{'rate':>9} {'ratio':>6}"
            f" {'(min-max)':12}target",
            sep="\n",
            file=sys.stderr if arguments.json else sys.stdout,
            flush=True,
        )
        for link in links:
            if link == "veth-off":
                bench.turn_offloads_off()
            for cell in cells:
                row = measure(bench, link, cell, congestion_control, arguments.rounds, missing)
                rows.append(row)
                if not arguments.json:
                    print(*lines(row), sep="\n", flush=True)
    if arguments.json:
        print(as_json(rows))


if __name__ == "__main__":
    try:
        main()
    except ZcdbError as error:
        sys.exit(f"Error: {error.message}\nHint: {error.hint}")
