"""What an endpoint is asked to do: plain frozen values that pass through JSON.

Whether this machine can do it is `apis`' question; here only what no kernel
could do is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from zcdb.engine import files
from zcdb.engine.apis import RECEIVER_APIS, SENDER_APIS, unsupported_combination
from zcdb.errors import EngineError
from zcdb.factors import FACTORS, Factors, FactorValue, with_defaults

LONGEST_RUN_NS = 3600 * 10**9
"""Bound of last resort: a loop that nobody stops ends by itself after so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """What both ends share.

    Attributes:
        address: IPv4 address; the receiver binds to it, the sender connects to it.
        streams: TCP connections, each with a thread of its own.
        sndbuf_bytes, rcvbuf_bytes: SO_SNDBUF and SO_RCVBUF asked for; 0 leaves them alone.
        congestion_control: TCP_CONGESTION; None leaves the kernel's default.
        verify: fill messages with, or compare them to, the position-dependent pattern.
        cpus: CPUs that the process may use, set before its sockets are made; () is no pinning.
        cgroup_paths: `cgroup.procs` or `tasks` files that the process writes itself into.
        longest_run_ns: the loops end by themselves so long after they started.
    """

    address: str = "127.0.0.1"
    streams: int = 1
    sndbuf_bytes: int = 0
    rcvbuf_bytes: int = 0
    congestion_control: str | None = None
    verify: bool = False
    cpus: tuple[int, ...] = ()
    cgroup_paths: tuple[str, ...] = ()
    longest_run_ns: int = LONGEST_RUN_NS

    def _check_common(self) -> None:
        _check_factor("streams", self.streams)
        for name, value in (("sndbuf", self.sndbuf_bytes), ("rcvbuf", self.rcvbuf_bytes)):
            _check_factor(name, value)

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


def _common(factors: Factors) -> dict[str, Any]:
    congestion_control = factors["congestion_control"]
    return {
        "streams": factors["streams"],
        "sndbuf_bytes": factors["sndbuf"],
        "rcvbuf_bytes": factors["rcvbuf"],
        "congestion_control": None if congestion_control == "default" else congestion_control,
        "verify": factors["verify"],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderOptions(_Options):
    """A sender.

    Attributes:
        ports: the receiver's, in order; streams are spread over them.
        bind_address: source address; None leaves it to the route.
        working_set: as `zcdb.factors` spells it.
        fragments: pieces that one sendmsg call gathers.
        pacing_bps: SO_MAX_PACING_RATE; 0 is no limit.
        total_bytes: each stream ends by itself after so many; None: until it is stopped.
        file_folder: where source files are made; None: the system's temporary folder.
    """

    ports: tuple[int, ...]
    api: str
    message_size_bytes: int = 65536
    bind_address: str | None = None
    working_set: FactorValue = "hot"
    fragments: int = 1
    tcp_cork: bool = False
    tcp_nodelay: bool = False
    pacing_bps: int = 0
    total_bytes: int | None = None
    file_folder: str | None = None

    def __post_init__(self) -> None:
        self._check_common()
        _check_factor("message_size", self.message_size_bytes)
        _check_factor("fragments", self.fragments)
        if self.api not in SENDER_APIS:
            raise EngineError(f"{self.api!r} is not one of {', '.join(SENDER_APIS)}")
        if not self.ports:
            raise EngineError("a sender needs at least one port to connect to")
        if self.total_bytes is not None and self.total_bytes < 1:
            raise EngineError(f"total_bytes must be at least 1, got {self.total_bytes}")
        reason = unsupported_combination(
            {
                "api": self.api,
                "message_size": self.message_size_bytes,
                "working_set": self.working_set,
                "fragments": self.fragments,
            }
        )
        if reason is not None:
            raise EngineError(reason)

    @classmethod
    def from_factors(
        cls, factors: Factors, *, address: str, ports: Sequence[int], **others: Any
    ) -> SenderOptions:
        """Return the options of a case; `others` are options that no factor states."""
        factors = with_defaults(factors)
        return cls(
            address=address,
            ports=tuple(ports),
            api=str(factors["api"]),
            message_size_bytes=int(factors["message_size"]),
            working_set=factors["working_set"],
            fragments=int(factors["fragments"]),
            tcp_cork=bool(factors["tcp_cork"]),
            tcp_nodelay=bool(factors["tcp_nodelay"]),
            pacing_bps=int(factors["pacing_rate"]),
            **_common(factors),
            **others,
        )

    def differences(self, effective: Mapping[str, Any]) -> list[str]:
        """Return a sentence for each value that the kernel changed; see `Endpoint.effective`."""
        found = _common_differences(self, effective)
        pacing_bps = effective.get("pacing_rate")
        if self.pacing_bps and pacing_bps is not None and pacing_bps != self.pacing_bps // 8 * 8:
            found.append(f"pacing rate: {self.pacing_bps} asked for, {pacing_bps} bit/s in effect")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverOptions(_Options):
    """A receiver.

    Attributes:
        port: to listen on; 0 lets the kernel choose.
        pattern_period_bytes: verified streams: the pattern starts again after so many; 0: never.
    """

    port: int = 0
    rx_api: str = "recv"
    receive_size_bytes: int = 262144
    pattern_period_bytes: int = 0

    def __post_init__(self) -> None:
        self._check_common()
        _check_factor("receive_size", self.receive_size_bytes)
        if self.rx_api not in RECEIVER_APIS:
            raise EngineError(f"{self.rx_api!r} is not one of {', '.join(RECEIVER_APIS)}")
        if self.verify and not RECEIVER_APIS[self.rx_api].sees_bytes:
            raise EngineError(
                f"the receive API {self.rx_api} never sees the bytes, so it cannot verify them",
                hint="verify with rx_api = 'recv'",
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
                str(factors["api"]), int(factors["message_size"]), factors["working_set"]
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
