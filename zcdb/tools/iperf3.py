"""iperf3: a client that writes, or sends a file with -Z, to a server that reads.

Its data connections and its control connection use one port; what the control
connection carries before the end is some hundred bytes.
"""

from __future__ import annotations

from zcdb.factors import Factors
from zcdb.tools.model import Job, Program, Tool, ToolOptions

PROGRAM = Program("iperf3", "Debian's package iperf3", ("--version",))
LARGEST_MESSAGE_BYTES = 1 << 20
MOST_STREAMS = 128
CONTROL_CONNECTIONS = 1


def _server(options: ToolOptions, port: int) -> Job:
    # One test, then it ends: a client that comes late cannot disturb the next trial.
    argv = ("iperf3", "-s", "-1", f"-{options.ip_version}", "-B", options.own_address)
    size, asked = int(options.factors["message_size"]), int(options.factors["receive_size"])
    differences = []
    if size != asked:
        differences.append(f"receive size: {asked} asked for, iperf3 reads as it writes: {size}")
    return Job(
        (*argv, "-p", str(port)),
        "sockets-at",
        port=port,
        sockets=int(options.factors["streams"]) + CONTROL_CONNECTIONS,
        is_server=True,
        effective={"receive_size": size},
        differences=tuple(differences),
    )


def _client(options: ToolOptions, port: int) -> Job:
    factors = options.factors
    argv = ["iperf3", "-c", options.address, f"-{options.ip_version}", "-p", str(port), "-J"]
    argv += ["-t", str(options.run_s), "-l", str(factors["message_size"])]
    argv += ["-P", str(factors["streams"])]
    if factors["api"] == "sendfile":
        argv.append("-Z")
    if factors["tcp_nodelay"]:
        argv.append("-N")
    if factors["sndbuf"]:
        argv += ["-w", str(factors["sndbuf"])]
    if factors.get("mss"):
        argv += ["-M", str(factors["mss"])]
    if factors["congestion_control"] != "default":
        argv += ["-C", str(factors["congestion_control"])]
    return Job(
        tuple(argv),
        "sockets-to",
        port=port,
        sockets=int(factors["streams"]) + CONTROL_CONNECTIONS,
        run_s=float(options.run_s),
    )


def _refuses(factors: Factors) -> str | None:
    if int(factors["message_size"]) > LARGEST_MESSAGE_BYTES:
        return f"iperf3 writes at most 1 MiB at once, not {factors['message_size']} bytes"
    if int(factors["streams"]) > MOST_STREAMS:
        return f"iperf3 has at most {MOST_STREAMS} streams, not {factors['streams']}"
    if factors["sndbuf"] != factors["rcvbuf"]:
        return "iperf3 sets both ends' buffers to one size; state sndbuf and rcvbuf alike"
    return None


TOOL = Tool(
    "iperf3",
    server_end="receiver",
    apis=("write", "sendfile"),
    heeds=frozenset(
        {
            "message_size",
            "streams",
            "receive_size",
            "tcp_nodelay",
            "sndbuf",
            "rcvbuf",
            "mss",
            "congestion_control",
            "address_family",
        }
    ),
    programs={"sender": (PROGRAM,), "receiver": (PROGRAM,)},
    server=_server,
    client=_client,
    refuses=_refuses,
)
