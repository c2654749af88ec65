"""The registry of what can move bytes: what each API needs, and how it proves zero copy.

The names are those of the factors `api` and `rx_api`, and of the loops in
`hotloops_api.h`.  `unsupported_reason` asks this kernel, `unsupported_combination`
whether a case makes sense at all.
"""

from __future__ import annotations

import functools
import mmap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from zcdb.engine.native import native
from zcdb.engine.probes import PROBES, cold_cache_reason, udp_segment_reason
from zcdb.errors import EngineError
from zcdb.factors import ABSENT, FACTORS, Factors, file_set, with_defaults
from zcdb.factors.values import file_range

Proof = Literal["completions", "usage-report", "path", "parts", "none"]

MIXED = "mixed"
EXCHANGE_API = "send"
DATAGRAM_APIS = ("write", "send", "sendmsg")
LARGEST_DATAGRAM_BYTES = 65507
"""An IPv4 packet's 65535 without the headers of IP and UDP."""

MSS_LIMITS = (88, 32767)
"""What TCP_MAXSEG takes (include/net/tcp.h: TCP_MIN_MSS, MAX_TCP_WINDOW)."""

PAGE_BYTES = mmap.PAGESIZE
LOCAL_LINKS = ("loopback", "veth")
"""Links over which the receiver gets the very pages that the sender handed over."""


@dataclass(frozen=True, slots=True)
class Api:
    """A way to move bytes into a socket.

    Attributes:
        needs: what it needs, for people.
        takes_file: it sends from files in the page cache, not from memory.
        takes_pool: it sends from a pool whose buffers come back with a notification.
        proof: how one knows that the kernel did not copy: from the notifications on
            the error queue, from io_uring's usage report, from the offloads of the
            path, from each part of a mix, or not at all because the API always copies.
    """

    name: str
    needs: str
    takes_file: bool = False
    takes_pool: bool = False
    proof: Proof = "none"

    @property
    def loop(self) -> str:
        """Name of the loop in the C module."""
        return f"zc_send_{self.name}"


@dataclass(frozen=True, slots=True)
class ReceiverApi:
    """A way to take bytes out of a socket.

    Attributes:
        needs: what it needs, for people.
        sees_bytes: it copies them to where they can be verified.
    """

    name: str
    needs: str
    sees_bytes: bool = False

    @property
    def loop(self) -> str:
        """Name of the loop in the C module."""
        return f"zc_receive_{self.name}"


SENDER_APIS: dict[str, Api] = {
    api.name: api
    for api in [
        Api("write", "a socket"),
        Api("send", "a socket"),
        Api("sendmsg", "a socket"),
        Api("read_write", "a file, which it copies twice", takes_file=True),
        Api("sendfile", "a file in the page cache", takes_file=True, proof="path"),
        Api("splice", "a file in the page cache and a pipe", takes_file=True, proof="path"),
        Api(
            "msg_zerocopy",
            "SO_ZEROCOPY (Linux 4.14)",
            takes_pool=True,
            proof="completions",
        ),
        Api("io_uring_send", "io_uring with IORING_OP_SEND (Linux 5.6)"),
        Api(
            "io_uring_send_zc",
            "io_uring with IORING_OP_SEND_ZC and its usage report (Linux 6.2)",
            takes_pool=True,
            proof="usage-report",
        ),
        Api(MIXED, "what the APIs of its mix need", proof="parts"),
    ]
}

RECEIVER_APIS: dict[str, ReceiverApi] = {
    api.name: api
    for api in [
        ReceiverApi("recv", "a socket", sees_bytes=True),
        ReceiverApi("recv_trunc", "MSG_TRUNC on TCP, which drops the bytes (Linux 2.4)"),
        ReceiverApi("splice_null", "a pipe and /dev/null"),
        ReceiverApi("zerocopy_receive", "TCP_ZEROCOPY_RECEIVE (Linux 4.18)"),
        ReceiverApi("io_uring_recv", "io_uring with IORING_OP_RECV (Linux 5.6)", sees_bytes=True),
    ]
}


def shares(api: str, api_mix: str) -> dict[str, int]:
    """Return API -> share of the streams; a single one unless `api` is "mixed"."""
    if api != MIXED:
        return {api: 1}
    parts = (part.partition("=") for part in api_mix.split(";") if part)
    return {name: int(share) for name, _, share in parts}


def apis_of_streams(api: str, api_mix: str, streams: int) -> list[str]:
    """Return the API of each stream: the shares of the mix, spread evenly.

    Each stream goes to the API that is furthest behind its share, the first of
    the mix where two are level.
    """
    parts = shares(api, api_mix)
    whole = sum(parts.values())
    given = dict.fromkeys(parts, 0)
    chosen: list[str] = []
    for number in range(1, streams + 1):
        name = max(parts, key=lambda part: parts[part] * number / whole - given[part])
        given[name] += 1
        chosen.append(name)
    return chosen


def unsupported_reason(api_name: str) -> str | None:
    """Return why this kernel cannot run a sender or receiver API, or None if it can.

    The reason says what to do about it.  Asked once per process, cheaply: no
    traffic is sent.

    Raises:
        KeyError: if there is no such API.
    """
    if api_name not in SENDER_APIS and api_name not in RECEIVER_APIS:
        if api_name not in FACTORS["api"].choices:
            raise KeyError(api_name)
        return f"zcdb has no loop for {api_name}; a foreign tool may have one (tool = ...)"
    return _unsupported_reason(api_name)


@functools.cache
def _unsupported_reason(api_name: str) -> str | None:
    try:
        native()
    except EngineError as error:
        return f"{error.message}; {error.hint}"
    probe = PROBES.get(api_name)
    return probe() if probe else None


# -- combinations ----------------------------------------------------------------------------


def unsupported_combination(factors: Factors) -> str | None:
    """Return why a combination of factors cannot be run, or None.

    Almost always because it makes no sense; for what only a combination needs
    (the APIs of a mix, a cold page cache, UDP_SEGMENT) this kernel is asked too.

    Args:
        factors: declared factors of a case; what is missing has its default.
    """
    case = {"api": EXCHANGE_API, **with_defaults(factors)}
    if case["tool"] != "zcdb":
        return None
    for rule in _RULES:
        reason = rule(case)
        if reason is not None:
            return reason
    return None


def _unknown(case: Factors) -> str | None:
    api, rx_api = str(case["api"]), str(case["rx_api"])
    if api not in SENDER_APIS:
        return unsupported_reason(api)
    if rx_api not in RECEIVER_APIS:
        return f"{rx_api!r} is not one of {', '.join(RECEIVER_APIS)}"
    if case["protocol"] == "sctp":
        return "zcdb's own loops speak tcp and udp; sctp needs a foreign tool"
    if case["bidirectional"]:
        return "zcdb's own loops move data one way; bidirectional needs a foreign tool"
    return None


def _exchange(case: Factors) -> str | None:
    test = case["test"]
    if test == "stream":
        if case["burst"]:
            return f"burst = {case['burst']} needs test = 'rr': a stream has no requests"
        return None
    needed = {
        "api": EXCHANGE_API,
        "rx_api": "recv",
        "protocol": "tcp",
        "verify": False,
        "fragments": 1,
        "target_rate": 0,
        "page_cache": "warm",
        **({"burst": 0, "pacing_rate": 0} if test == "crr" else {}),
    }
    for name, value in needed.items():
        if case[name] != value:
            return f"test = {test!r} runs with {name} = {value!r} only, not {case[name]!r}"
    if case.get("latency_kind", ABSENT) not in (ABSENT, "rtt"):
        return f"test = {test!r} measures the latency there and back (latency_kind = 'rtt')"
    return None


def _sizes(case: Factors) -> str | None:
    if case["test"] != "stream":
        return None
    api, working_set = str(case["api"]), case["working_set"]
    message_size, fragments = int(case["message_size"]), int(case["fragments"])
    if fragments > 1 and api != "sendmsg":
        return f"{api} takes a message in one piece; fragments = {fragments} needs sendmsg"
    if fragments > message_size:
        return f"a message of {message_size} bytes cannot be cut into {fragments} fragments"
    part = file_range(working_set)
    size = part.length_bytes if part is not None else working_set
    if isinstance(size, int) and size < message_size:
        return f"a working set of {size} bytes is smaller than one message of {message_size} bytes"
    return None


def _mix(case: Factors) -> str | None:
    mix = str(case.get("api_mix", ABSENT))
    if case["api"] != MIXED:
        return f"api_mix needs api = 'mixed', not {case['api']!r}" if mix else None
    if not mix:
        return "api = 'mixed' needs api_mix, such as { sendfile = 3, write = 1 }"
    parts = shares(MIXED, mix)
    for name in parts:
        if name not in SENDER_APIS or name == MIXED:
            return f"{name} cannot be part of a mix"
        reason = unsupported_reason(name)
        if reason is not None:
            return f"{name}: {reason}"
    missing = set(parts) - set(apis_of_streams(MIXED, mix, int(case["streams"])))
    if missing:
        return (
            f"{case['streams']} streams are too few for the mix {mix}: none would be left for"
            f" {', '.join(sorted(missing))}"
        )
    if case["verify"]:
        return "the receiver of a mix cannot tell what to compare with; verify one API at a time"
    return None


def _files(case: Factors) -> str | None:
    api, working_set = str(case["api"]), case["working_set"]
    from_memory = [
        name
        for name in shares(api, str(case.get("api_mix", ABSENT)))
        if not SENDER_APIS[name].takes_file
    ]
    is_cold = case["page_cache"] == "cold"
    needs = None
    if file_set(working_set) is not None:
        needs = "a file set"
    elif file_range(working_set) is not None:
        needs = "a part of a file"
    elif is_cold:
        needs = "page_cache = 'cold'"
    if needs is not None and from_memory:
        return f"{from_memory[0]} sends from memory; {needs} needs read_write, sendfile or splice"
    if is_cold:
        if working_set == "hot":
            return "page_cache = 'cold' needs a working_set: a size, a file set or a part of a file"
        return cold_cache_reason()
    return None


def _datagrams(case: Factors) -> str | None:
    if case["protocol"] != "udp":
        return "udp_segment needs protocol = 'udp'" if case["udp_segment"] else None
    message_size = int(case["message_size"])
    if case["api"] not in DATAGRAM_APIS:
        return f"{case['api']} does not send datagrams here; udp takes {', '.join(DATAGRAM_APIS)}"
    if message_size > LARGEST_DATAGRAM_BYTES:
        return f"a datagram holds {LARGEST_DATAGRAM_BYTES} bytes at most, not {message_size}"
    if int(case["receive_size"]) < message_size:
        return (
            f"receive_size = {case['receive_size']} would cut off datagrams of {message_size} bytes"
        )
    needed = {
        "rx_api": "recv",
        "verify": False,
        "tcp_cork": False,
        "tcp_nodelay": False,
        "mss": 0,
        "congestion_control": "default",
    }
    for name, value in needed.items():
        if case[name] != value:
            return f"udp runs with {name} = {value!r} only, not {case[name]!r}"
    if case["pacing_rate"]:
        return "pacing_rate holds udp back only under the fq qdisc; use target_rate"
    return udp_segment_reason() if case["udp_segment"] else None


def _receiver(case: Factors) -> str | None:
    rx_api, receive_size = str(case["rx_api"]), int(case["receive_size"])
    if case["verify"] and not RECEIVER_APIS[rx_api].sees_bytes:
        return f"{rx_api} never sees the bytes, so it cannot verify them; that needs recv"
    if rx_api != "zerocopy_receive":
        return None
    if receive_size % PAGE_BYTES:
        return (
            f"zerocopy_receive maps whole pages of {PAGE_BYTES} bytes;"
            f" receive_size = {receive_size} is no multiple of that"
        )
    names = shares(str(case["api"]), str(case.get("api_mix", ABSENT)))
    if case["link"] in LOCAL_LINKS and not any(SENDER_APIS[name].takes_pool for name in names):
        # tcp_zerocopy_receive() takes single pages that belong to nothing else: neither the
        # kernel's own large buffers for what is sent by copy nor the page cache are such.
        return (
            f"over {case['link']} the payload of {case['api']} does not lie in pages that can be"
            " mapped: zerocopy_receive would copy every byte; send with msg_zerocopy, or use a"
            " network card that splits headers from payload"
        )
    return None


def _rest(case: Factors) -> str | None:
    processes, streams, mss = int(case["processes"]), int(case["streams"]), int(case["mss"])
    lowest, highest = MSS_LIMITS
    if processes > streams:
        return f"{processes} processes need as many streams at least, not {streams}"
    if mss and not lowest <= mss <= highest:
        return f"mss = {mss} is not between {lowest} and {highest}, what TCP_MAXSEG takes"
    return None


_RULES: tuple[Callable[[Factors], str | None], ...] = (
    _unknown,
    _exchange,
    _sizes,
    _mix,
    _files,
    _datagrams,
    _receiver,
    _rest,
)
