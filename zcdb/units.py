"""Sizes, rates, times and ratios: the only place that scales.

Inside zcdb sizes are integer bytes, times integer nanoseconds, rates bit/s
and ratios 0 to 1.  Sizes take binary prefixes (4K is 4096 bytes), rates take
decimal ones (1gbit is 10^9 bit/s).  Parsers refuse what they do not know.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation

KB_BYTES = 1024
"""Bytes of the KB in us/KB, the field's unit of service demand."""

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_SIZE = re.compile(_NUMBER + r"\s*(b|k|kb|kib|m|mb|mib|g|gb|gib|t|tb|tib)?", re.IGNORECASE)
_SIZE_SHIFT = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_RATE = re.compile(_NUMBER + r"\s*(|k|m|g|t)(bit|bps|bit/s|b/s)?", re.IGNORECASE)
_RATE_POWER = {"": 0, "k": 3, "m": 6, "g": 9, "t": 12}
_DURATION = re.compile(_NUMBER + r"\s*(ns|us|µs|ms|s|m|min|h)")
_DURATION_NS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}


def _whole(value: Decimal, what: str, text: object) -> int:
    if value != value.to_integral_value():
        raise ValueError(f"{text!r} is not a whole number of {what}")
    return int(value)


def parse_size(text: str | int) -> int:
    """Return a size in bytes; `"64K"`, `"64KiB"` and `65536` are the same.

    Raises:
        ValueError: if it is not a size of at least 0 whole bytes.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        if text < 0:
            raise ValueError(f"a size cannot be negative, got {text}")
        return text
    match = _SIZE.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{text!r} is not a size; write bytes, or a number with K, M or G")
    shift = _SIZE_SHIFT[(match[2] or "").lower()[:1]]
    return _whole(Decimal(match[1]) * (1 << shift), "bytes", text)


def parse_rate(text: str | int) -> int:
    """Return a rate in bit/s; `"1gbit"`, `"1G"` and `1000000000` are the same.

    Raises:
        ValueError: if it is not a rate of whole bit/s.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        if text < 0:
            raise ValueError(f"a rate cannot be negative, got {text}")
        return text
    match = _RATE.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{text!r} is not a rate; write bit/s, or a number with kbit, mbit, gbit")
    return _whole(Decimal(match[1]) * 10 ** _RATE_POWER[match[2].lower()], "bit/s", text)


def parse_duration(text: str) -> int:
    """Return a duration in nanoseconds; `"500ms"`, `"2s"`, `"1m"`.

    Raises:
        ValueError: if there is no unit, or less than a nanosecond.
    """
    match = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{text!r} is not a duration; write a number with ms, s, m or h")
    return _whole(Decimal(match[1]) * _DURATION_NS[match[2]], "nanoseconds", text)


def parse_ratio(text: str | float | int) -> float:
    """Return a ratio; `"2%"` and `0.02` are the same.

    Raises:
        ValueError: if it is not between 0 and 1.
    """
    if isinstance(text, str):
        percent = text.strip().endswith("%")
        try:
            value = float(Decimal(text.strip().rstrip("%").strip()) / (100 if percent else 1))
        except InvalidOperation:
            raise ValueError(f"{text!r} is not a ratio; write 0.02 or '2%'") from None
    elif isinstance(text, bool):
        raise ValueError(f"{text!r} is not a ratio; write 0.02 or '2%'")
    else:
        value = float(text)
    if not 0 <= value <= 1:
        raise ValueError(f"{text!r} is not between 0 and 1 (or 0% and 100%)")
    return value


def _significant(value: float, digits: int = 3) -> str:
    """Write `value` with `digits` significant digits, never in exponent form."""
    if value == 0:
        return "0"
    # Rounded first: 0.9997 is "1.00", not "1.000".
    value = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{decimals}f}"


def format_size(size_bytes: int) -> str:
    """Return a size for people: `"64 KiB"`, `"1 B"`, `"1000 B"` where no prefix fits evenly."""
    for shift, prefix in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size_bytes >= 1 << shift and size_bytes % (1 << shift) == 0:
            return f"{size_bytes >> shift} {prefix}"
    if size_bytes >= 10 * KB_BYTES:
        for shift, prefix in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
            if size_bytes >= 1 << shift:
                return f"{_significant(size_bytes / (1 << shift))} {prefix}"
    return f"{size_bytes} B"


def format_bps(rate_bps: float) -> str:
    """Return a rate for people, decimal: `"11.5 Gbit/s"`."""
    for power, prefix in ((12, "Tbit/s"), (9, "Gbit/s"), (6, "Mbit/s"), (3, "kbit/s")):
        if abs(rate_bps) >= 10**power * 0.9995:
            return f"{_significant(rate_bps / 10**power)} {prefix}"
    return f"{_significant(rate_bps)} bit/s"


def format_duration(duration_ns: int | float) -> str:
    """Return a duration for people: `"2 s"`, `"500 ms"`, `"1 min 30 s"`, `"2 h 5 min"`."""
    seconds = duration_ns / 10**9
    if seconds >= 3600:
        return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"
    if seconds >= 60:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    for unit_ns, name in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if abs(duration_ns) >= unit_ns * 0.9995:
            text = _significant(duration_ns / unit_ns)
            return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {name}"
    return f"{round(duration_ns)} ns"


def format_ratio(ratio: float, digits: int = 3) -> str:
    """Return a ratio as a percentage: 0.0486 is `"4.86 %"`."""
    return f"{_significant(ratio * 100, digits)} %"


def format_number(value: float, digits: int = 3) -> str:
    """Return a plain number with `digits` significant digits."""
    return _significant(value, digits)


def service_demand_us_per_kb(cpu_time_ns: float, payload_bytes: int) -> float:
    """Return the CPU time spent per KB (1024 bytes) of payload.

    Args:
        cpu_time_ns: CPU time of one end in the window.
        payload_bytes: bytes the receiving application read in the same window.

    Returns:
        us/KB, netperf's unit; lower is better.

    Raises:
        ValueError: if no payload was delivered, where the ratio is undefined.
    """
    if payload_bytes <= 0:
        raise ValueError("no payload was delivered: service demand is undefined")
    return cpu_time_ns / 1000 / (payload_bytes / KB_BYTES)


def throughput_bps(payload_bytes: int, elapsed_ns: int) -> float:
    """Return payload bits per second.

    Raises:
        ValueError: if no time has passed.
    """
    if elapsed_ns <= 0:
        raise ValueError(f"no time has passed ({elapsed_ns} ns): throughput is undefined")
    return payload_bytes * 8 * 10**9 / elapsed_ns
