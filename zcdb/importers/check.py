"""Whether every number of a result is in the text it was read from.

A number is founded if the text prints it (in any country's spelling, scaled
to our base unit by one of `SCALES`), or if it carries a derivation whose
inputs are founded and whose rule gives it.  Counts of rows are founded if the
text can have so many rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from zcdb.ids import Json
from zcdb.importers.model import Result
from zcdb.importers.text import clean_lines, decode, unpack
from zcdb.importers.vocabulary import COUNTS

SCALES: tuple[float, ...] = tuple(
    dict.fromkeys(
        [
            *(10.0**n for n in range(-9, 13)),
            *(8 * 10.0**n for n in range(-3, 13)),
            *(1024.0**n * bits for n in range(1, 5) for bits in (1, 8)),
            8 * 1000 * 2.0**20,
        ]
    )
)
"""Factors between a printed number and the base unit: prefixes, bits of a byte, per cent."""

_PLAIN = re.compile(r"[0-9]{1,25}(?:\.[0-9]{1,25})?(?:[eE] ?[+-]?[0-9]{1,3})?")
_SHORT = re.compile(r"[0-9]{1,25}(?:\.[0-9]{1,25})?")
_SEPARATED = re.compile(r"[0-9]{1,25}(?:[.,'\u202f\u2019][0-9]{1,25}){1,12}")


class PrintedNumbers:
    """The numbers that a file prints."""

    def __init__(self, data: bytes, command: str | None = None) -> None:
        text, encoding = decode(unpack(data)[0])
        clean = "\n".join(line.text for line in clean_lines(text, encoding))
        everything = f"{text}\n{clean}\n{command or ''}"
        self.rows = everything.count("\n") + everything.count("{") + 1
        self._keys = {_key(value) for value in _numbers(everything)}

    def has(self, value: float) -> bool:
        """Tell whether the text prints this number, in some unit."""
        if value == 0:
            return _key(0.0) in self._keys
        for scale in SCALES:
            plain = abs(value) / scale
            if _key(plain * (1 - 1e-11)) in self._keys or _key(plain * (1 + 1e-11)) in self._keys:
                return True
        return False


def _key(value: float) -> str:
    return f"{value:.9e}"


def _numbers(text: str) -> Iterator[float]:
    for match in _PLAIN.finditer(text):
        yield float(match[0].replace(" ", ""))
    for match in _SHORT.finditer(text):
        yield float(match[0])
    for match in _SEPARATED.finditer(text):
        # "4.654,91", "4,654.91" and "4'654" in their countries: all groups joined, or the
        # last one behind the decimal point.
        *groups, last = re.split(r"[^0-9]", match[0])
        yield float("".join(groups) + last)
        yield float("".join(groups) + "." + last)


def unfounded(result: Result, printed: PrintedNumbers) -> list[str]:
    """Return what in a result the text does not say; empty if all is founded."""
    problems = [
        f"{name}: {rule.rule} of {rule.inputs}"
        for name, rule in result.derivations.items()
        if not all(printed.has(number) for number in rule.inputs)
    ]
    derived = set(result.derivations)
    for name, value in result.metrics.items():
        if name in derived:
            made = result.derivations[name].value()
            if made is None or abs(made - value) > 1e-9 * abs(value):
                problems.append(f"{name}: {value} is not what its rule gives")
        elif not printed.has(value):
            problems.append(f"{name}: {value}")
    for name, found in result.details.items():
        if name in derived:
            continue
        for number in _walk(found):
            if name in COUNTS and number <= printed.rows:
                continue
            if not printed.has(number) and not (name == "series" and number <= printed.rows):
                problems.append(f"details.{name}: {number}")
    for name, given in result.factors.items():
        if isinstance(given, bool | str) or (name == "streams" and given <= printed.rows):
            continue
        if not printed.has(given):
            problems.append(f"factors.{name}: {given}")
    return problems


def _walk(value: Json) -> Iterator[float]:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return
    if isinstance(value, int | float):
        yield float(value)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _walk(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _walk(item)
