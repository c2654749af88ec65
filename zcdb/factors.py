"""The registry of factors: what can vary between cases, and the spelling of each value.

A case is named by the hash of its factors.  A factor at its default does not
enter the hash, so a factor added later never changes the id of an old case;
therefore a default here is for ever, and a rename is an alias.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from zcdb import units
from zcdb.ids import content_id

FactorValue = str | int | bool
Factors = Mapping[str, FactorValue]

Kind = Literal["workload", "tuning", "protocol", "environment"]
Type = Literal["choice", "size", "rate", "integer", "boolean", "text"]

MESSAGE_SIZE_LIMIT_BYTES = 16 * 1024 * 1024

_CPU_LIST = r"[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*"
_PINNING = re.compile(rf"none|same|separate|sender={_CPU_LIST};receiver={_CPU_LIST}")
_FILE_SET = re.compile(r"files=([1-9][0-9]*);mean_size=([1-9][0-9]*);passes=([1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class Factor:
    """One thing that can vary.

    Attributes:
        kind: workload, tuning, protocol (all three are declared) or environment (observed).
        type: decides how a value is read and shown.
        default: the value that stays out of the hash; None where a case must state one.
        follows: the factor this one comes along with (a driver follows its NIC): a
            comparison along that factor leaves this one out of what must be equal.
        choices: the words a "choice" takes.
        minimum, maximum: limits of sizes, rates and integers, both included.
    """

    name: str
    kind: Kind
    type: Type
    label: str
    help: str
    default: FactorValue | None = None
    choices: tuple[str, ...] = ()
    minimum: int = 0
    maximum: int | None = None
    follows: str | None = None
    aliases: tuple[str, ...] = ()

    @property
    def is_declared(self) -> bool:
        """True if an experiment file states it; False if it is read from the machine."""
        return self.kind != "environment"


def _observed(name: str, label: str, help: str, follows: str | None = None) -> list[Factor]:
    return [
        Factor(
            f"{end}_{name}",
            "environment",
            "text",
            f"{label} ({end})",
            help,
            default="",
            follows=f"{end}_{follows}" if follows else None,
        )
        for end in ("sender", "receiver")
    ]


FACTORS: dict[str, Factor] = {
    factor.name: factor
    for factor in [
        Factor(
            "api",
            "workload",
            "choice",
            "API",
            "How the sender moves bytes into the socket.",
            choices=(
                "write",
                "send",
                "sendmsg",
                "read_write",
                "sendfile",
                "splice",
                "msg_zerocopy",
                "io_uring_send",
                "io_uring_send_zc",
            ),
        ),
        Factor(
            "message_size",
            "workload",
            "size",
            "Message size",
            "Bytes the sender hands over in one call.",
            default=65536,
            minimum=1,
            maximum=MESSAGE_SIZE_LIMIT_BYTES,
        ),
        Factor(
            "rx_api",
            "workload",
            "choice",
            "Receive API",
            "How the receiver takes bytes from the socket.",
            default="recv",
            choices=("recv", "recv_trunc", "splice_null"),
        ),
        Factor(
            "receive_size",
            "workload",
            "size",
            "Receive size",
            "Bytes the receiver asks for in one call.",
            default=262144,
            minimum=1,
            maximum=MESSAGE_SIZE_LIMIT_BYTES,
        ),
        Factor(
            "working_set",
            "workload",
            "text",
            "Working set",
            "What the sender sends: 'hot' (one buffer, or the same file pages again),"
            " a size in bytes that it walks through, or a set of files in the page cache.",
            default="hot",
        ),
        Factor(
            "fragments",
            "workload",
            "integer",
            "Fragments",
            "Pieces that one sendmsg call gathers a message from.",
            default=1,
            minimum=1,
            maximum=1024,
        ),
        Factor(
            "streams",
            "workload",
            "integer",
            "Streams",
            "TCP connections that move bytes at once.",
            default=1,
            minimum=1,
            maximum=256,
        ),
        Factor(
            "tcp_cork",
            "tuning",
            "boolean",
            "TCP_CORK",
            "Whether the sender's socket sends full segments only.",
            default=False,
        ),
        Factor(
            "tcp_nodelay",
            "tuning",
            "boolean",
            "TCP_NODELAY",
            "Whether the sender's socket sends small segments at once.",
            default=False,
        ),
        Factor(
            "sndbuf",
            "tuning",
            "size",
            "SO_SNDBUF",
            "Send buffer asked for, in bytes; 0 leaves it to the kernel's autotuning.",
            default=0,
            maximum=2**31 - 1,
        ),
        Factor(
            "rcvbuf",
            "tuning",
            "size",
            "SO_RCVBUF",
            "Receive buffer asked for, in bytes; 0 leaves it to the kernel's autotuning.",
            default=0,
            maximum=2**31 - 1,
        ),
        Factor(
            "pinning",
            "tuning",
            "text",
            "Pinning",
            "CPUs of the two ends: 'none', 'same' CPU, 'separate' CPUs,"
            ' or { sender = "0", receiver = "1-3" }.',
            default="separate",
        ),
        Factor(
            "congestion_control",
            "tuning",
            "text",
            "Congestion control",
            "TCP_CONGESTION of both ends' sockets; 'default' leaves the kernel's.",
            default="default",
        ),
        Factor(
            "pacing_rate",
            "tuning",
            "rate",
            "Pacing rate",
            "SO_MAX_PACING_RATE of the sender's socket in bit/s; 0 is no limit.",
            default=0,
        ),
        Factor(
            "verify",
            "workload",
            "boolean",
            "Verify payload",
            "Whether the receiver compares every byte with a position-dependent pattern.",
            default=False,
        ),
        Factor(
            "link",
            "protocol",
            "choice",
            "Link",
            "What is between the two ends.",
            choices=("loopback", "veth"),
            default="loopback",
        ),
        *_observed("kernel", "Kernel", "Kernel release, as uname says."),
        *_observed("cpu", "CPU", "CPU model name."),
        *_observed("nic", "NIC", "Network interface: chip name, or the kind of a virtual one."),
        *_observed("driver", "Driver", "Kernel driver of the interface.", follows="nic"),
    ]
}

_BY_ALIAS = {alias: factor for factor in FACTORS.values() for alias in factor.aliases}


def find(name: str) -> Factor | None:
    """Return the factor of this name or alias, or None."""
    return FACTORS.get(name) or _BY_ALIAS.get(name)


def _normalise_cpus(value: object) -> FactorValue:
    if isinstance(value, Mapping):
        if set(value) != {"sender", "receiver"}:
            raise ValueError(f"{dict(value)!r} needs the keys sender and receiver, and no other")
        value = f"sender={value['sender']};receiver={value['receiver']}".replace(" ", "")
    if isinstance(value, str) and _PINNING.fullmatch(value):
        return value
    raise ValueError(
        f"{value!r} is not a pinning; write none, same, separate"
        ' or { sender = "0", receiver = "1-3" }'
    )


def _normalise_working_set(value: object) -> FactorValue:
    if isinstance(value, Mapping):
        unknown = set(value) - {"files", "mean_size", "passes"}
        if unknown or not {"files", "mean_size"} <= set(value):
            raise ValueError(f"{dict(value)!r} needs files, mean_size and, if wanted, passes")
        mean = units.parse_size(value["mean_size"])
        value = f"files={value['files']};mean_size={mean};passes={value.get('passes', 1)}"
    if value == "hot":
        return "hot"
    if isinstance(value, str) and _FILE_SET.fullmatch(value):
        return value
    if isinstance(value, str | int) and not isinstance(value, bool):
        try:
            size = units.parse_size(value)
        except ValueError:
            size = 0
        if size > 0:
            return size
    raise ValueError(
        f"{value!r} is not a working set; write hot, a size above 0,"
        ' or { files = 63, mean_size = "350K", passes = 10 }'
    )


@dataclass(frozen=True, slots=True)
class FileSet:
    """A set of files in the page cache that the sender walks through again and again."""

    files: int
    mean_size_bytes: int
    passes: int


def file_set(working_set: FactorValue) -> FileSet | None:
    """Return the file set that a working set names, or None for 'hot' and plain sizes."""
    match = _FILE_SET.fullmatch(working_set) if isinstance(working_set, str) else None
    return FileSet(int(match[1]), int(match[2]), int(match[3])) if match else None


def _within(factor: Factor, number: int, value: object) -> int:
    if number < factor.minimum or (factor.maximum is not None and number > factor.maximum):
        above = f" and at most {factor.maximum}" if factor.maximum is not None else ""
        raise ValueError(f"{value!r} must be at least {factor.minimum}{above}")
    return number


def normalise(name: str, value: object) -> FactorValue:
    """Return the one spelling of a factor's value.

    Args:
        name: a key of `FACTORS`.
        value: what an experiment file, a tool's output or a URL says.

    Raises:
        KeyError: if there is no such factor.
        ValueError: if the factor does not take this value; the message says what it takes.
    """
    factor = FACTORS[name]
    if name == "pinning":
        return _normalise_cpus(value)
    if name == "working_set":
        return _normalise_working_set(value)
    if factor.type == "boolean":
        if isinstance(value, bool):
            return value
        if value in ("true", "false"):
            return value == "true"
        raise ValueError(f"{value!r} is not true or false")
    if factor.type == "choice":
        if isinstance(value, str) and value in factor.choices:
            return value
        raise ValueError(f"{value!r} is not one of {', '.join(factor.choices)}")
    if factor.type == "integer":
        if isinstance(value, str) and value.isdecimal():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{value!r} is not a whole number")
        return _within(factor, value, value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{value!r} is not a {factor.type}")
    if factor.type == "size":
        return _within(factor, units.parse_size(value), value)
    if factor.type == "rate":
        return _within(factor, units.parse_rate(value), value)
    return str(value)


def display(name: str, value: FactorValue) -> str:
    """Return a factor's value for people: `"64 KiB"`, `"yes"`, `"sendfile"`."""
    factor = FACTORS.get(name)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if factor is None or isinstance(value, str):
        files = file_set(value) if name == "working_set" else None
        if files is not None:
            mean = units.format_size(files.mean_size_bytes)
            return f"{files.files} files of {mean} on average, {files.passes} passes"
        return str(value)
    if name in ("sndbuf", "rcvbuf") and value == 0:
        return "autotuned"
    if name == "pacing_rate":
        return "none" if value == 0 else units.format_bps(value)
    if factor.type == "size" or name == "working_set":
        return units.format_size(value)
    return str(value)


def without_defaults(factors: Factors) -> dict[str, FactorValue]:
    """Return the factors that differ from their default: what enters a hash."""
    return {name: value for name, value in factors.items() if value != FACTORS[name].default}


def with_defaults(factors: Factors) -> dict[str, FactorValue]:
    """Return `factors` with every declared factor that has a default filled in, registry order."""
    filled: dict[str, FactorValue] = {}
    for name, factor in FACTORS.items():
        if name in factors:
            filled[name] = factors[name]
        elif factor.is_declared and factor.default is not None:
            filled[name] = factor.default
    return filled


def plan_key(declared: Factors) -> str:
    """Return the name of a case within a plan: the hash of its declared factors."""
    unknown = [name for name in declared if not FACTORS[name].is_declared]
    if unknown:
        raise ValueError(f"not declared factors: {', '.join(sorted(unknown))}")
    return content_id("plan", without_defaults(declared))


def case_id(factors: Factors) -> str:
    """Return the id of a case: the hash of its declared factors and its observed context."""
    return content_id("case", without_defaults(factors))


def pairing_hash(axis: str, factors: Factors) -> str:
    """Return the hash of everything that two cases must share to be compared along `axis`.

    The factors that follow `axis` are left out: they come along with it.
    """
    followers = {name for name, factor in FACTORS.items() if factor.follows == axis}
    rest = {
        name: value
        for name, value in without_defaults(factors).items()
        if name != axis and name not in followers
    }
    return content_id("pairing", {"axis": axis, "rest": rest})


def varying(cases: Iterable[Factors]) -> list[str]:
    """Return the names of the factors whose value is not the same in all cases, registry order."""
    filled = [with_defaults(case) for case in cases]
    return [name for name in FACTORS if len({case.get(name) for case in filled}) > 1]
