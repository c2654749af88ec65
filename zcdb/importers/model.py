"""What an importer hands over: results, refusals, and how each number was had.

A result keeps the figures that have a metric (`measurements`, base units),
the conditions they belong to (`factors`) and everything else the text says
(`details`, units in the names).  A number that is not simply printed in the
text, scaled to its base unit, carries a `Derivation`: a rule of `RULES` and
the printed numbers it was made from.  So every number can be checked against
the text.  Nothing here reads text.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from zcdb.factors import FactorValue
from zcdb.ids import Json
from zcdb.importers.vocabulary import COUNTS
from zcdb.records import Flag, MetricValue

RULES: dict[str, Callable[..., float]] = {
    "bits over time": lambda size_bytes, seconds: size_bytes * 8 / seconds,
    "summed bits over a difference of times": lambda *x: math.fsum(x[:-2]) * 8 / (x[-1] - x[-2]),
    "grown bits over a difference of times": lambda b0, b1, t0, t1: (b1 - b0) * 8 / (t1 - t0),
    "grown count over a difference of times": lambda n0, n1, t0, t1: (n1 - n0) / (t1 - t0),
    "summed bits over summed times": lambda *x: (
        math.fsum(x[: len(x) // 2]) * 8 / math.fsum(x[len(x) // 2 :])
    ),
    "difference": lambda start, end: end - start,
    "sum": lambda *parts: math.fsum(parts),
    "mean": lambda *values: math.fsum(values) / len(values),
    "share": lambda part, whole: part / whole,
    "service demand times rate": lambda us_per_kb, bps: us_per_kb * bps / 8 / 1024 / 1e6,
    "transaction demand times rate": lambda us, rate: us * rate / 1e6,
    "share of the CPUs": lambda percent, cpus: percent / 100 * cpus,
    "cpus": lambda us_per_kb, bps, percent: round(us_per_kb * bps / 8 / 1024 / percent / 1e4),
    "cpus of transactions": lambda us, rate, percent: round(us * rate / percent / 1e4),
    "cpu seconds over time": lambda u0, u1, s0, s1, t0, t1: (u1 - u0 + s1 - s0) / (t1 - t0),
}
"""Rule name -> how a number follows from printed numbers (in base units unless named)."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """How a number that the text does not print follows from numbers that it does.

    Attributes:
        rule: key of `RULES`.
        inputs: arguments of the rule, printed numbers scaled to base units.
    """

    rule: str
    inputs: tuple[float, ...]

    def value(self) -> float | None:
        """Return what the rule gives, or None where it is undefined."""
        try:
            value = float(RULES[self.rule](*self.inputs))
        except (ZeroDivisionError, OverflowError):
            return None
        return value if math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class Span:
    """Where something stands: lines count from 1 and include the last, bytes exclude the end."""

    first_line: int
    last_line: int
    first_byte: int
    end_byte: int


@dataclass(frozen=True, slots=True)
class Result:
    """One result of one tool.

    Attributes:
        tool, format: which tool printed it, in which of its forms ("classic", "json", ...).
        version: as the tool prints it; None if the text does not say.
        test: the tool's own name of the test ("TCP_STREAM", "UDP", "ping-pong").
        factors: what the text states, in the registry's names and spelling.
        measurements: also what was not measured, with the reason.
        derivations: metric or detail name -> how it was made; only for numbers not printed.
        details: everything else the text says, units in the names; JSON.
    """

    tool: str
    format: str
    version: str | None
    test: str
    factors: Mapping[str, FactorValue]
    measurements: Sequence[MetricValue]
    derivations: Mapping[str, Derivation]
    details: Mapping[str, Json]
    flags: Sequence[Flag]
    span: Span

    @property
    def metrics(self) -> dict[str, float]:
        """The figures that were measured, by metric, in base units."""
        return {m.metric: m.value for m in self.measurements if m.value is not None}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that looks like a tool's output and cannot be recorded, and why."""

    tool: str
    reason: str
    span: Span


@dataclass(frozen=True, slots=True)
class Reading:
    """What one file gives, in the order of the text."""

    file_name: str
    sha256: str
    results: Sequence[Result]
    refused: Sequence[Refusal]


def plain_text(text: str) -> str:
    """Return the text without the lone surrogates that bad bytes are read as."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _plain(value: Json) -> Json:
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, dict):
        return {plain_text(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of the raw file, by which a result finds its text again."""
    return hashlib.sha256(data).hexdigest()


@dataclass(slots=True)
class Draft:
    """A result in the making; a parser fills it and calls `done`."""

    tool: str
    format: str
    test: str
    version: str | None = None
    factors: dict[str, FactorValue] = field(default_factory=dict)
    details: dict[str, Json] = field(default_factory=dict)
    _measurements: dict[str, MetricValue] = field(default_factory=dict)
    _derivations: dict[str, Derivation] = field(default_factory=dict)
    _flags: dict[str, list[str]] = field(default_factory=dict)

    def measure(
        self, metric: str, value: float | None, reason: str = "not in the text", method: str = ""
    ) -> None:
        """Take a printed figure in the metric's base unit; None is kept with its reason."""
        self._derivations.pop(metric, None)
        self._measurements[metric] = MetricValue(
            metric, method, value, reason if value is None else None
        )

    def derive(
        self, metric: str, rule: str, *inputs: float | None, method: str = ""
    ) -> float | None:
        """Take a figure made from printed ones; if one is missing, so is the figure."""
        known = [x for x in inputs if x is not None]
        derivation = Derivation(rule, tuple(known))
        value = derivation.value() if len(known) == len(inputs) and known else None
        self.measure(metric, value, "what it is made from is not in the text", method)
        if value is not None:
            self._derivations[metric] = derivation
        return value

    def detail(self, name: str, value: Json) -> None:
        """Keep something else the text says; None is left out."""
        if value is not None:
            self.details[name] = value

    def derive_detail(self, name: str, rule: str, *inputs: float | None) -> float | None:
        """Keep a number made from printed ones as a detail."""
        known = [x for x in inputs if x is not None]
        derivation = Derivation(rule, tuple(known))
        value = derivation.value() if len(known) == len(inputs) and known else None
        if value is not None:
            self.details[name] = value
            self._derivations[name] = derivation
        return value

    def count(self, name: str, number: int) -> None:
        """Keep a number of rows; `vocabulary.COUNTS` lists the names."""
        if name not in COUNTS:
            raise KeyError(name)
        self.details[name] = number

    def flag(self, code: str, detail: str = "") -> None:
        """Warn beside the result; the same code may come with several details."""
        details = self._flags.setdefault(code, [])
        if detail and detail not in details:
            details.append(detail)

    def has_flag(self, code: str) -> bool:
        """Tell whether the flag was raised."""
        return code in self._flags

    def value(self, metric: str) -> float | None:
        """Return a figure taken so far."""
        taken = self._measurements.get(metric)
        return taken.value if taken else None

    def done(self, span: Span) -> Result:
        """Return the finished result."""
        return Result(
            tool=self.tool,
            format=self.format,
            version=plain_text(self.version) if self.version else None,
            test=plain_text(self.test),
            factors={
                name: plain_text(value) if isinstance(value, str) else value
                for name, value in self.factors.items()
            },
            measurements=tuple(self._measurements.values()),
            derivations=dict(self._derivations),
            details={name: _plain(value) for name, value in self.details.items()},
            flags=tuple(
                Flag(code, plain_text("; ".join(details))) for code, details in self._flags.items()
            ),
            span=span,
        )
