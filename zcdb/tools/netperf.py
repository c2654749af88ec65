"""netperf: TCP_STREAM, TCP_SENDFILE and TCP_RR against its own netserver.

The control connection has a port of its own, and netserver chooses none for
the data: the client names it, so that the data connection can be found.
"""

from __future__ import annotations

from zcdb.factors import Factors
from zcdb.tools.model import Job, Program, Tool, ToolOptions
from zcdb.tools.ports import free_port

_PACKAGE = "Debian's package netperf (in non-free: add that component to the sources of apt)"
CLIENT = Program("netperf", _PACKAGE, ("-V",))
SERVER = Program("netserver", _PACKAGE, ("-V",))

_STREAM_VALUES = (
    "THROUGHPUT,THROUGHPUT_UNITS,ELAPSED_TIME,LOCAL_SEND_SIZE,REMOTE_RECV_SIZE,"
    "LOCAL_BYTES_SENT,REMOTE_BYTES_RECVD,PROTOCOL"
)
_EXCHANGE_VALUES = (
    "THROUGHPUT,THROUGHPUT_UNITS,ELAPSED_TIME,REQUEST_SIZE,RESPONSE_SIZE,BURST_SIZE,"
    "MIN_LATENCY,MEAN_LATENCY,P50_LATENCY,P90_LATENCY,P99_LATENCY,MAX_LATENCY,STDDEV_LATENCY"
)


def _server(options: ToolOptions, port: int) -> Job:
    # Two ports: where netserver is spoken to, and where the client shall make it listen for data.
    data_port = free_port(options.own_address, options.port_range, besides=port)
    where = ("-L", options.own_address, "-p", str(port))
    return Job(
        ("netserver", "-D", f"-{options.ip_version}", *where),
        "sockets-at",
        port=port,
        data_port=data_port,
        is_server=True,
    )


def _client(options: ToolOptions, port: int) -> Job:
    factors = options.factors
    data_port = options.ports[1]
    test = _test(factors)
    argv = ["netperf", f"-{options.ip_version}", "-H", options.address, "-p", str(port)]
    argv += ["-l", str(options.run_s), "-t", test]
    if test == "TCP_SENDFILE":
        # One buffer's worth of the file, again and again.
        argv += ["-F", "{file}", "-W", "1,1"]
    argv += ["--", "-P", f"0,{data_port}"]
    argv += _sizes(factors) if test != "TCP_RR" else _exchange_sizes(factors)
    for option, name in (("-s", "sndbuf"), ("-S", "rcvbuf")):
        if factors[name]:
            argv += [option, str(factors[name])]
    if factors["tcp_nodelay"]:
        argv.append("-D")
    if factors["congestion_control"] != "default":
        argv += ["-K", str(factors["congestion_control"])]
    if test == "TCP_STREAM":
        argv += ["-k", _STREAM_VALUES]
    elif test == "TCP_RR":
        argv += ["-k", _EXCHANGE_VALUES]
    return Job(
        tuple(argv),
        "sockets-to",
        port=port,
        data_port=data_port,
        run_s=float(options.run_s),
        # netperf wants a file that is longer than what it sends of it at once.
        file_bytes=2 * int(factors["message_size"]) if test == "TCP_SENDFILE" else 0,
    )


def _test(factors: Factors) -> str:
    if factors["test"] == "rr":
        return "TCP_RR"
    return "TCP_SENDFILE" if factors["api"] == "sendfile" else "TCP_STREAM"


def _sizes(factors: Factors) -> list[str]:
    return ["-m", str(factors["message_size"]), "-M", str(factors["receive_size"])]


def _exchange_sizes(factors: Factors) -> list[str]:
    request, response = factors.get("request_size") or 1, factors.get("response_size") or 1
    sizes = ["-r", f"{request},{response}"]
    return [*sizes, "-b", str(factors["burst"])] if factors["burst"] else sizes


def _refuses(factors: Factors) -> str | None:
    if factors["test"] == "rr" and factors["api"] == "sendfile":
        return "netperf's TCP_RR sends with send; state api = 'send'"
    return None


TOOL = Tool(
    "netperf",
    server_end="receiver",
    apis=("send", "sendfile"),
    heeds=frozenset(
        {
            "test",
            "message_size",
            "receive_size",
            "request_size",
            "response_size",
            "burst",
            "tcp_nodelay",
            "sndbuf",
            "rcvbuf",
            "congestion_control",
            "address_family",
            "latency_kind",
        }
    ),
    programs={"sender": (CLIENT,), "receiver": (SERVER,)},
    server=_server,
    client=_client,
    tests=("stream", "rr"),
    refuses=_refuses,
)
