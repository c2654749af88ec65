"""Values of factors: the one spelling of each, and how it is shown to people."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from zcdb import units
from zcdb.factors.model import ABSENT, UNSTATED, Factor, FactorValue, Type
from zcdb.factors.registry import FACTORS, find

_CPU_LIST = r"[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*"
_PINNING = re.compile(rf"none|same|separate|sender={_CPU_LIST};receiver={_CPU_LIST}")
_MIX = re.compile(r"[a-z_]+=[1-9][0-9]{0,3}(?:;[a-z_]+=[1-9][0-9]{0,3})+")
_FILE_SET = re.compile(r"files=([1-9][0-9]*);mean_size=([1-9][0-9]*);passes=([1-9][0-9]*)")
_FILE_RANGE = re.compile(r"file=([1-9][0-9]*);offset=([0-9]+);length=([1-9][0-9]*)")


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
        value = _spell_range(value) if "file" in value else _spell_set(value)
    if value == "hot":
        return "hot"
    if isinstance(value, str) and _FILE_SET.fullmatch(value):
        return value
    if isinstance(value, str) and file_range(value) is not None:
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
        ' { files = 63, mean_size = "350K", passes = 10 }'
        ' or { file = "1G", offset = "64M", length = "128K" }'
    )


def _spell_set(value: Mapping[str, object]) -> str:
    unknown = set(value) - {"files", "mean_size", "passes"}
    if unknown or not {"files", "mean_size"} <= set(value):
        raise ValueError(f"{dict(value)!r} needs files, mean_size and, if wanted, passes")
    mean = units.parse_size(value["mean_size"])  # type: ignore[arg-type]  # it refuses the rest
    return f"files={value['files']};mean_size={mean};passes={value.get('passes', 1)}"


def _spell_range(value: Mapping[str, object]) -> str:
    if set(value) - {"offset"} != {"file", "length"}:
        raise ValueError(f"{dict(value)!r} needs file, length and, if wanted, offset")
    whole = {"offset": 0, **value}
    file, offset, length = (
        units.parse_size(whole[name])  # type: ignore[arg-type]  # it refuses the rest
        for name in ("file", "offset", "length")
    )
    if not length or not file:
        raise ValueError(f"{dict(value)!r} has no bytes: file and length must be above 0")
    if offset + length > file:
        raise ValueError(
            f"{dict(value)!r} ends {offset + length - file} bytes after the end of its file"
        )
    return f"file={file};offset={offset};length={length}"


def _normalise_mix(value: object) -> FactorValue:
    if isinstance(value, Mapping):
        value = ";".join(f"{api}={share}" for api, share in sorted(value.items()))
    if isinstance(value, str) and _MIX.fullmatch(value):
        names = [part.partition("=")[0] for part in value.split(";")]
        if len(set(names)) == len(names) and set(names) <= set(FACTORS["api"].choices):
            return ";".join(sorted(value.split(";")))
    raise ValueError(
        f"{value!r} is not a mix of APIs; write {{ sendfile = 3, write = 1 }} with the share of"
        " each in whole numbers"
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


@dataclass(frozen=True, slots=True)
class FileRange:
    """A part of one file in the page cache that the sender walks through again and again."""

    file_bytes: int
    offset_bytes: int
    length_bytes: int


def file_range(working_set: FactorValue) -> FileRange | None:
    """Return the part of a file that a working set names, or None for all others."""
    match = _FILE_RANGE.fullmatch(working_set) if isinstance(working_set, str) else None
    if match is None:
        return None
    part = FileRange(int(match[1]), int(match[2]), int(match[3]))
    return part if part.offset_bytes + part.length_bytes <= part.file_bytes else None


def _within(factor: Factor, number: int, value: object) -> int:
    if number < factor.minimum or (factor.maximum is not None and number > factor.maximum):
        above = f" and at most {factor.maximum}" if factor.maximum is not None else ""
        raise ValueError(f"{value!r} must be at least {factor.minimum}{above}")
    return number


def _boolean(_factor: Factor, value: object) -> FactorValue:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise ValueError(f"{value!r} is not true or false")


def _switch(_factor: Factor, value: object) -> FactorValue:
    if isinstance(value, bool):
        return value
    if value in ("true", "on", "false", "off"):
        return value in ("true", "on")
    raise ValueError(f"{value!r} is not on or off (true or false)")


def _choice(factor: Factor, value: object) -> FactorValue:
    if isinstance(value, str) and value in factor.choices:
        return value
    raise ValueError(f"{value!r} is not one of {', '.join(factor.choices)}")


def _integer(factor: Factor, value: object) -> FactorValue:
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is not a whole number")
    return _within(factor, value, value)


def _size(factor: Factor, value: object) -> FactorValue:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{value!r} is not a size")
    return _within(factor, units.parse_size(value), value)


def _rate(factor: Factor, value: object) -> FactorValue:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{value!r} is not a rate")
    return _within(factor, units.parse_rate(value), value)


def _text(factor: Factor, value: object) -> FactorValue:
    if isinstance(value, list | tuple) and factor.is_setting:
        value = " ".join(str(part) for part in value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{value!r} is not a text")
    return " ".join(str(value).split()) if factor.is_setting else str(value)


_READERS: dict[Type, Callable[[Factor, object], FactorValue]] = {
    "boolean": _boolean,
    "switch": _switch,
    "choice": _choice,
    "integer": _integer,
    "size": _size,
    "rate": _rate,
    "text": _text,
}
_READERS_BY_NAME: dict[str, Callable[[object], FactorValue]] = {
    "pinning": _normalise_cpus,
    "working_set": _normalise_working_set,
    "api_mix": _normalise_mix,
}


def normalise(name: str, value: object) -> FactorValue:
    """Return the one spelling of a factor's value.

    Args:
        name: a key of `FACTORS`, or the dotted name of a setting.
        value: what an experiment file, a tool's output or a URL says.

    Raises:
        KeyError: if there is no such factor.
        ValueError: if the factor does not take this value; the message says what it takes.
    """
    factor = FACTORS[name]
    if name in _READERS_BY_NAME:
        return _READERS_BY_NAME[name](value)
    return _READERS[factor.type](factor, value)


def normalise_published(name: str, value: object) -> FactorValue:
    """Return the one spelling of a value that a published source states, or is silent about.

    Raises:
        KeyError, ValueError: as `normalise`.
    """
    return UNSTATED if value == UNSTATED else normalise(name, value)


def display(name: str, value: FactorValue) -> str:
    """Return a factor's value for people: `"64 KiB"`, `"yes"`, `"on"`, `"sendfile"`."""
    factor = find(name)
    if value == ABSENT and factor is not None:
        return "as found" if factor.is_setting else "none"
    if isinstance(value, bool):
        is_switch = factor is not None and factor.type == "switch"
        words = ("on", "off") if is_switch else ("yes", "no")
        return words[0] if value else words[1]
    if factor is None or isinstance(value, str):
        files = file_set(value) if name == "working_set" else None
        if files is not None:
            mean = units.format_size(files.mean_size_bytes)
            return f"{files.files} files of {mean} on average, {files.passes} passes"
        part = file_range(value) if name == "working_set" else None
        if part is not None:
            length, offset, whole = (
                units.format_size(size)
                for size in (part.length_bytes, part.offset_bytes, part.file_bytes)
            )
            return f"{length} from {offset} of a file of {whole}"
        return str(value)
    if name in ("sndbuf", "rcvbuf") and value == 0:
        return "autotuned"
    if factor.type == "rate":
        return "none" if value == 0 else units.format_bps(value)
    if name == "mss" and value == 0:
        return "of the path"
    if factor.type == "size" or name == "working_set":
        return units.format_size(value)
    return str(value)
