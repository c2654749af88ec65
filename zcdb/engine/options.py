"""What an endpoint is asked to do: plain frozen values that pass through JSON.

Whether this machine can do it is `apis`' question; here only what no kernel
could do is refused.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

from zcdb.engine import files
from zcdb.engine.apis import (
    LARGEST_DATAGRAM_BYTES,
    RECEIVER_APIS,
    SENDER_APIS,
    unsupported_combination,
)
from zcdb.errors import EngineError
from zcdb.factors import ABSENT, FACTORS, Factors, FactorValue, with_defaults

LONGEST_RUN_NS = 3600 * 10**9
"""Bound of last resort: a loop that nobody stops ends by itself after so long."""

LARGEST_TOKEN = 64

MOST_SEGMENTS = 64
"""UDP_MAX_SEGMENTS of kernels before 6.9; later ones take twice as many."""

Test = Literal["stream", "rr", "crr"]
TESTS: tuple[Test, ...] = ("stream", "rr", "crr")
Protocol = Literal["tcp", "udp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """What both ends share.

    Attributes:
        test: move bytes one way (stream), or exchange requests and responses over one
            connection (rr) or over one connection each (crr).
        address: IPv4 or IPv6 address; the receiver binds to it, the sender connects to it.
        addresses: several of them, in place of `address`; streams are spread over them.
        streams: connections (udp: pairs of sockets), each with a thread of its own.
        processes: processes that the streams are spread over.
        request_size_bytes, response_size_bytes: of an exchange.
        sndbuf_bytes, rcvbuf_bytes: SO_SNDBUF and SO_RCVBUF asked for; 0 leaves them alone.
        congestion_control: TCP_CONGESTION; None leaves the kernel's default.
        tcp_nodelay: of the sender's sockets, and in an exchange of the server's too.
        mss_bytes: TCP_MAXSEG; 0 leaves it to the path.
        verify: fill messages with, or compare them to, the position-dependent pattern.
        token: first bytes of every connection, known to both ends of one run alone; "": none.
        cpus: CPUs that the process may use, set before its sockets are made; () is no pinning.
        cgroup_paths: `cgroup.procs` or `tasks` files that the process writes itself into.
        longest_run_ns: the loops end by themselves so long after they started.
    """

    test: Test = "stream"
    protocol: Protocol = "tcp"
    address: str = "127.0.0.1"
    addresses: tuple[str, ...] = ()
    streams: int = 1
    processes: int = 1
    request_size_bytes: int = 1
    response_size_bytes: int = 1
    sndbuf_bytes: int = 0
    rcvbuf_bytes: int = 0
    congestion_control: str | None = None
    tcp_nodelay: bool = False
    mss_bytes: int = 0
    verify: bool = False
    token: str = ""
    cpus: tuple[int, ...] = ()
    cgroup_paths: tuple[str, ...] = ()
    longest_run_ns: int = LONGEST_RUN_NS

    @property
    def is_exchange(self) -> bool:
        """Whether requests and responses are exchanged."""
        return self.test != "stream"

    @property
    def all_addresses(self) -> tuple[str, ...]:
        """The addresses in use, one at least."""
        return self.addresses or (self.address,)

    def _check_common(self) -> None:
        for name, value in (
            ("streams", self.streams),
            ("processes", self.processes),
            ("request_size", self.request_size_bytes),
            ("response_size", self.response_size_bytes),
            ("sndbuf", self.sndbuf_bytes),
            ("rcvbuf", self.rcvbuf_bytes),
        ):
            _check_factor(name, value)
        if self.test not in TESTS:
            raise EngineError(f"{self.test!r} is not one of {', '.join(TESTS)}")
        if self.protocol not in ("tcp", "udp"):
            raise EngineError(f"{self.protocol!r} is not one of tcp, udp")
        if len(self.token) > LARGEST_TOKEN or not self.token.isascii():
            raise EngineError(f"a token has at most {LARGEST_TOKEN} ASCII characters")
        for address in self.all_addresses:
            _check_address(address)

    def _common_factors(self) -> dict[str, FactorValue]:
        """Return the factors that both ends' options state, to judge their combination."""
        return {
            "test": self.test,
            "protocol": self.protocol,
            "streams": self.streams,
            "processes": self.processes,
            "mss": self.mss_bytes,
            "congestion_control": self.congestion_control or "default",
            "verify": self.verify,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the options that `dataclasses.asdict` turned into JSON.

        Raises:
            EngineError: for a name that is not an option, or a value out of its limits.
        """
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise EngineError(
                f"{cls.__name__} has no option {unknown[0]!r}",
                hint="both ends of a run need the same version of zcdb",
            )
        arguments: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
        }
        return cls(**arguments)


def _check_factor(name: str, value: int) -> None:
    factor = FACTORS[name]
    if value < factor.minimum or (factor.maximum is not None and value > factor.maximum):
        limits = f"at least {factor.minimum}"
        if factor.maximum is not None:
            limits += f" and at most {factor.maximum}"
        raise EngineError(f"{name} must be {limits}, got {value}")


def _check_address(address: str) -> None:
    try:
        # A link-local address names its interface after a "%".
        ipaddress.ip_address(address)
    except ValueError:
        raise EngineError(f"{address!r} is not an IPv4 or IPv6 address") from None


def _refuse(factors: Factors) -> None:
    reason = unsupported_combination(factors)
    if reason is not None:
        raise EngineError(reason)


def _common(factors: Factors) -> dict[str, Any]:
    congestion_control = factors["congestion_control"]
    sizes = {
        f"{name}_bytes": int(factors[name])
        for name in ("request_size", "response_size")
        if factors.get(name, ABSENT) != ABSENT
    }
    return {
        "test": factors["test"],
        "protocol": factors["protocol"],
        "streams": factors["streams"],
        "processes": factors["processes"],
        "sndbuf_bytes": factors["sndbuf"],
        "rcvbuf_bytes": factors["rcvbuf"],
        "congestion_control": None if congestion_control == "default" else congestion_control,
        "tcp_nodelay": bool(factors["tcp_nodelay"]),
        "mss_bytes": int(factors["mss"]),
        "verify": factors["verify"],
        **sizes,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderOptions(_Options):
    """A sender, or the client of an exchange.

    Attributes:
        ports: the receiver's, in order.  Stream n goes to the n-th of them and to the n-th of
            `addresses`, where given, each again from the first after the last.
        bind_address: source address; None leaves it to the route.
        bind_addresses: several of them, in place of `bind_address`, taken in turns too.
        api_mix: shares of the streams by API where `api` is "mixed".
        burst: requests in flight beyond the first.
        working_set: as `zcdb.factors` spells it.
        page_cache: "warm", or "cold" to drop the files from the cache before each pass.
        fragments: pieces that one sendmsg call gathers.
        udp_segment: hand over many datagrams in one call.
        call_work_ns: CPU time burned before each call.
        pacing_bps: SO_MAX_PACING_RATE of each stream; 0 is no limit.
        target_bps: of all streams together, kept by sleeping before calls; 0 is no limit.
        total_bytes: a stream's connections each end by themselves after so many; None: when
            they are stopped.
        file_folder: where source files are made; None: the system's temporary folder.
    """

    ports: tuple[int, ...]
    api: str = "send"
    api_mix: str = ABSENT
    message_size_bytes: int = 65536
    burst: int = 0
    bind_address: str | None = None
    bind_addresses: tuple[str, ...] = ()
    working_set: FactorValue = "hot"
    page_cache: str = "warm"
    fragments: int = 1
    udp_segment: bool = False
    call_work_ns: int = 0
    tcp_cork: bool = False
    pacing_bps: int = 0
    target_bps: int = 0
    total_bytes: int | None = None
    file_folder: str | None = None

    def __post_init__(self) -> None:
        self._check_common()
        _check_factor("message_size", self.message_size_bytes)
        _check_factor("fragments", self.fragments)
        _check_factor("burst", self.burst)
        _check_factor("call_work", self.call_work_ns)
        if self.api not in SENDER_APIS:
            raise EngineError(f"{self.api!r} is not one of {', '.join(SENDER_APIS)}")
        if not self.ports:
            raise EngineError("a sender needs at least one port to connect to")
        if self.total_bytes is not None and self.total_bytes < 1:
            raise EngineError(f"total_bytes must be at least 1, got {self.total_bytes}")
        _refuse(
            {
                **self._common_factors(),
                "api": self.api,
                "api_mix": self.api_mix,
                "message_size": self.message_size_bytes,
                "burst": self.burst,
                "working_set": self.working_set,
                "page_cache": self.page_cache,
                "fragments": self.fragments,
                "udp_segment": self.udp_segment,
                "tcp_nodelay": self.tcp_nodelay,
                "tcp_cork": self.tcp_cork,
                "pacing_rate": self.pacing_bps,
                "target_rate": self.target_bps,
            }
        )

    def destination(self, stream: int) -> tuple[str, int]:
        """Return the address and port that a stream goes to."""
        addresses = self.all_addresses
        return addresses[stream % len(addresses)], self.ports[stream % len(self.ports)]

    def source(self, stream: int) -> str | None:
        """Return the address that a stream comes from, or None where the route decides."""
        if self.bind_addresses:
            return self.bind_addresses[stream % len(self.bind_addresses)]
        return self.bind_address

    @classmethod
    def from_factors(
        cls, factors: Factors, *, address: str, ports: Sequence[int], **others: Any
    ) -> SenderOptions:
        """Return the options of a case; `others` are options that no factor states."""
        factors = with_defaults(factors)
        return cls(
            address=address,
            ports=tuple(ports),
            api=str(factors.get("api", "send")),
            api_mix=str(factors.get("api_mix", ABSENT)),
            message_size_bytes=int(factors["message_size"]),
            burst=int(factors["burst"]),
            working_set=factors["working_set"],
            page_cache=str(factors["page_cache"]),
            fragments=int(factors["fragments"]),
            udp_segment=bool(factors["udp_segment"]),
            call_work_ns=int(factors["call_work"]),
            tcp_cork=bool(factors["tcp_cork"]),
            pacing_bps=int(factors["pacing_rate"]),
            target_bps=int(factors["target_rate"]),
            **_common(factors),
            **others,
        )

    def differences(self, effective: Mapping[str, Any]) -> list[str]:
        """Return a sentence for each value that the kernel changed; see `Endpoint.effective`."""
        found = _common_differences(self, effective)
        pacing_bps = effective.get("pacing_rate")
        if self.pacing_bps and pacing_bps is not None and pacing_bps != self.pacing_bps // 8 * 8:
            found.append(f"pacing rate: {self.pacing_bps} asked for, {pacing_bps} bit/s in effect")
        mss_bytes = effective.get("mss")
        # TCP's own options in each segment come out of what was asked for.
        if self.mss_bytes and mss_bytes is not None and mss_bytes > self.mss_bytes:
            found.append(f"MSS: {self.mss_bytes} asked for, {mss_bytes} bytes in effect")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverOptions(_Options):
    """A receiver, or the server of an exchange.

    Attributes:
        port: to listen on; 0 lets the kernel choose.
        port_range: lowest and highest port to choose from, both included, in place of `port`.
        pattern_period_bytes: verified streams: the pattern starts again after so many; 0: never.
    """

    port: int = 0
    port_range: tuple[int, int] | None = None
    rx_api: str = "recv"
    receive_size_bytes: int = 262144
    pattern_period_bytes: int = 0

    def __post_init__(self) -> None:
        self._check_common()
        _check_factor("receive_size", self.receive_size_bytes)
        if self.rx_api not in RECEIVER_APIS:
            raise EngineError(f"{self.rx_api!r} is not one of {', '.join(RECEIVER_APIS)}")
        if self.port_range is not None:
            low, high = self.port_range
            if not 1 <= low <= high <= 65535:
                raise EngineError(f"the port range {low}-{high} is none within 1-65535")
        _refuse(
            {
                **self._common_factors(),
                "message_size": 1,
                # Neither the link nor the sender's API is known here.
                "link": "hosts",
                "rx_api": self.rx_api,
                "receive_size": self.receive_size_bytes,
            }
        )

    @classmethod
    def from_factors(cls, factors: Factors, *, address: str, **others: Any) -> ReceiverOptions:
        """Return the options of a case; `others` are options that no factor states."""
        factors = with_defaults(factors)
        return cls(
            address=address,
            rx_api=str(factors["rx_api"]),
            receive_size_bytes=int(factors["receive_size"]),
            pattern_period_bytes=pattern_period_bytes(
                str(factors.get("api", "send")),
                int(factors["message_size"]),
                factors["working_set"],
            ),
            **_common(factors),
            **others,
        )

    def differences(self, effective: Mapping[str, Any]) -> list[str]:
        """Return a sentence for each value that the kernel changed; see `Endpoint.effective`."""
        return _common_differences(self, effective)


def pattern_period_bytes(api: str, message_size_bytes: int, working_set: FactorValue) -> int:
    """Return after how many bytes a verified sender's pattern starts again; 0 is never.

    Memory is filled anew for each message; a file's content comes round with
    every pass.
    """
    if not SENDER_APIS[api].takes_file:
        return 0
    return sum(files.extent_sizes(working_set, message_size_bytes))


def datagrams_of_a_call(options: SenderOptions) -> int:
    """Return how many datagrams one call hands over: 1 without UDP_SEGMENT."""
    if not options.udp_segment:
        return 1
    return max(1, min(MOST_SEGMENTS, LARGEST_DATAGRAM_BYTES // options.message_size_bytes))


def _common_differences(options: _Options, effective: Mapping[str, Any]) -> list[str]:
    found = []
    for name, asked in (("sndbuf", options.sndbuf_bytes), ("rcvbuf", options.rcvbuf_bytes)):
        # The kernel doubles what is asked for, to have room for its own book-keeping.
        if asked and effective.get(name) not in (None, 2 * asked):
            found.append(
                f"SO_{name.upper()}: {asked} bytes asked for, which the kernel doubles to"
                f" {2 * asked}; {effective[name]} in effect"
            )
    congestion_control = effective.get("congestion_control")
    if options.congestion_control and congestion_control not in (None, options.congestion_control):
        found.append(
            f"congestion control: {options.congestion_control} asked for,"
            f" {congestion_control} in effect"
        )
    if options.cpus and effective.get("cpus") not in (None, list(options.cpus)):
        found.append(f"CPUs: {list(options.cpus)} asked for, {effective['cpus']} in effect")
    return found
