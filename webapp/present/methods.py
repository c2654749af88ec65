"""The pages of methods: what the registries say, and what docs/method.md tells, a topic each.

`/methods` has every word in one place, and the anchors that other pages lead
to; `/methods/<topic>` says more about one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from zcdb import factors
from zcdb.factors import FACTORS, Factor
from zcdb.flags import FLAGS
from zcdb.metrics import CPU_METHODS, METRICS, Metric
from zcdb.webapp.present.prose import Section, read, sections

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
class Topic:
    """A topic: its address, what it is about, and what its page has.

    Attributes:
        headings: parts of docs/method.md.
        registry: "metrics", "cpu-methods", "verdicts", "flags", "factors" or "".
    """

    name: str
    title: str
    says: str
    headings: tuple[str, ...] = ()
    registry: str = ""


TOPICS: dict[str, Topic] = {
    topic.name: topic
    for topic in (
        Topic("metrics", "Metrics", "What is measured, in which unit and how it is got.",
              registry="metrics"),
        Topic("window", "The window", "One stretch of time in which everything is read.",
              ("The window", "What an end is")),
        Topic("cpu-methods", "CPU methods", "Why CPU time is measured by subtraction, and the"
              " other ways beside it.", ("Why by subtraction", "The methods", "Limits", "By hand"),
              registry="cpu-methods"),
        Topic("verdicts", "Verdicts and statistics", "Better, worse, equivalent or undecided, and"
              " with which intervals.", ("Statistics",), registry="verdicts"),
        Topic("flags", "Flags", "What warns beside a number.",
              ("Steal, and other work", "Flags"), registry="flags"),
        Topic("proof", "Proof of zero copy", "How it is known that bytes were not copied.",
              ("Proof of zero copy",)),
        Topic("limiter", "What limited a trial", "From which signals a limiter is named.",
              ("What limited a trial",)),
        Topic("counters", "Counters", "What hosts, interfaces and TCP count in the window.",
              ("Counters",)),
        Topic("environment", "The environment", "What is recorded of a host.",
              ("The environment",)),
        Topic("factors", "Factors", "What can vary between cases.", registry="factors"),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MethodsContent:
    """All that the page of all words says."""

    topics: tuple[Topic, ...]
    metrics: tuple[Metric, ...]
    cpu_methods: tuple[Word, ...]
    verdicts: tuple[Word, ...]
    flags: tuple[Word, ...]
    factors: tuple[FactorRow, ...]


@dataclass(frozen=True, slots=True)
class ProsePart:
    """A part of docs/method.md."""

    title: str
    id: str
    html: Markup


@dataclass(frozen=True, slots=True)
class TopicContent:
    """All that a topic's page says; only its own registry is filled."""

    topic: Topic
    parts: tuple[ProsePart, ...]
    metrics: tuple[Metric, ...]
    words: tuple[Word, ...]
    factors: tuple[FactorRow, ...]
    topics: tuple[Topic, ...]


def _words(registry: dict[str, str]) -> tuple[Word, ...]:
    return tuple(Word(name, says) for name, says in registry.items())


def _default(factor: Factor) -> str:
    if factor.default is None:
        return "must be stated"
    return factors.display(factor.name, factor.default) or "read from the machine"


def _factor_rows() -> tuple[FactorRow, ...]:
    return tuple(FactorRow(factor, _default(factor)) for factor in FACTORS.values())


def methods_content() -> MethodsContent:
    """Return what the registries say."""
    return MethodsContent(
        topics=tuple(TOPICS.values()),
        metrics=tuple(METRICS.values()),
        cpu_methods=_words(CPU_METHODS),
        verdicts=_words(VERDICT_WORDS),
        flags=_words(FLAGS),
        factors=_factor_rows(),
    )


def prose() -> dict[str, Section]:
    """Return heading -> part of docs/method.md."""
    return {section.title: section for section in sections(read("method.md"))}


def topic_content(topic: Topic) -> TopicContent:
    """Return the content of a topic's page."""
    found = prose()
    registries = {"cpu-methods": CPU_METHODS, "verdicts": VERDICT_WORDS, "flags": FLAGS}
    parts = [found[heading] for heading in topic.headings]
    return TopicContent(
        topic=topic,
        parts=tuple(ProsePart(part.title, f"about-{part.slug}", part.html) for part in parts),
        metrics=tuple(METRICS.values()) if topic.registry == "metrics" else (),
        words=_words(registries.get(topic.registry, {})),
        factors=_factor_rows() if topic.registry == "factors" else (),
        topics=tuple(one for one in TOPICS.values() if one is not topic),
    )
