"""The page of methods: what the registries of metrics, CPU methods, flags and factors say."""

from __future__ import annotations

from dataclasses import dataclass

from zcdb import factors
from zcdb.factors import FACTORS, Factor
from zcdb.flags import FLAGS
from zcdb.metrics import CPU_METHODS, METRICS, Metric

VERDICT_WORDS = {
    "better": "The interval excludes no difference, on the better side.",
    "worse": "The interval excludes no difference, on the worse side.",
    "equivalent": "The whole interval lies inside the range that does not matter"
    " (2 % unless the experiment says otherwise), whether or not it excludes no difference.",
    "undecided": "None of these; the repetitions that would probably decide are named.",
}


@dataclass(frozen=True, slots=True)
class Word:
    """A code or word with what it says."""

    name: str
    says: str


@dataclass(frozen=True, slots=True)
class FactorRow:
    """A factor with its default as people read it."""

    factor: Factor
    default: str


@dataclass(frozen=True, slots=True)
class MethodsContent:
    """All that the page says."""

    metrics: tuple[Metric, ...]
    cpu_methods: tuple[Word, ...]
    verdicts: tuple[Word, ...]
    flags: tuple[Word, ...]
    factors: tuple[FactorRow, ...]


def _words(registry: dict[str, str]) -> tuple[Word, ...]:
    return tuple(Word(name, says) for name, says in registry.items())


def _default(factor: Factor) -> str:
    if factor.default is None:
        return "must be stated"
    return factors.display(factor.name, factor.default) or "read from the machine"


def methods_content() -> MethodsContent:
    """Return what the registries say."""
    return MethodsContent(
        metrics=tuple(METRICS.values()),
        cpu_methods=_words(CPU_METHODS),
        verdicts=_words(VERDICT_WORDS),
        flags=_words(FLAGS),
        factors=tuple(FactorRow(factor, _default(factor)) for factor in FACTORS.values()),
    )
