"""What to call a case, a factor and a metric on a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from zcdb import factors, metrics
from zcdb.factors import UNSTATED, FactorValue
from zcdb.report.naming import SPEAKING, in_sentence, level_words


def factor_label(name: str) -> str:
    """Return a factor's label; its name where a newer zcdb wrote one that this one lacks."""
    known = factors.find(name)
    return known.label if known else name


def level(name: str, filled: Mapping[str, FactorValue]) -> str:
    """Return a case's value of one factor for people; "default" where it states none."""
    return factors.display(name, filled[name]) if name in filled else "default"


def case_label(case: Mapping[str, FactorValue], names: Sequence[str]) -> str:
    """Return a case's name among others that differ in `names`: "sendfile · 64 KiB"."""
    filled = factors.with_defaults(case)
    return " · ".join(
        level_words(name, filled[name], speaking=(*SPEAKING, "message_size"))
        if name in filled
        else f"{in_sentence(factor_label(name))} default"
        for name in names
    )


def naming_factors(cases: Iterable[Mapping[str, FactorValue]]) -> list[str]:
    """Return the factors that tell these cases apart, always with the API."""
    varying = factors.varying(cases)
    return varying if "api" in varying else ["api", *varying]


def metric_label(name: str) -> str:
    """Return a metric's label; its name where this zcdb does not know it."""
    known = metrics.METRICS.get(name)
    return known.label if known else name


def metric_phrase(name: str, method: str = "") -> str:
    """Return a metric inside a sentence: "service demand of the sender by soak"."""
    known = metrics.METRICS.get(name)
    label = metric_label(name)
    if known and known.end:
        # Of an exchange the ends are called client and server.
        label, _, end = label.rpartition(", ")
        label = f"{label} of the {end}"
    if not label[1:2].isupper():
        label = label[:1].lower() + label[1:]
    return f"{label} by {method}" if method else label


def method_suffix(method: str) -> str:
    """Return ", by soak" or nothing."""
    return f", by {method}" if method else ""


def case_name(case: Mapping[str, FactorValue]) -> str:
    """Return what to call a case that stands alone: API, message size, and what is not default."""
    filled = factors.with_defaults(case)
    special = [
        name
        for name, value in filled.items()
        if name in factors.FACTORS
        and factors.FACTORS[name].is_declared
        and name not in ("api", "message_size")
        and value not in (factors.FACTORS[name].default, UNSTATED)
    ]
    first = [n for n in ("api", "message_size") if filled.get(n, UNSTATED) != UNSTATED]
    return case_label(filled, [*first, *special])


def sentence_start(text: str) -> str:
    """Return a text as it stands at the start of a sentence."""
    return text[:1].upper() + text[1:]
