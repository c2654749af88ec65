"""The first page: what is new, and the latest findings as sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from zcdb.store.queries.feed import FeedEntry
from zcdb.store.results import Counts, Home, RunLine
from zcdb.webapp.present.answer import Answer, Line
from zcdb.webapp.present.question_list import QUESTIONS


@dataclass(frozen=True, slots=True)
class Finding:
    """What a run found, in its most remarkable line."""

    run: RunLine
    line: Line
    more: int


@dataclass(frozen=True, slots=True)
class Preset:
    """A question to begin with."""

    title: str
    address: str


@dataclass(frozen=True, slots=True)
class News:
    """A report or source that is new."""

    kind: str
    title: str
    address: str
    at: datetime


@dataclass(frozen=True, slots=True)
class HomeContent:
    """All that the first page says.

    Attributes:
        news: reports and sources; what is new in runs stands in `runs`.
    """

    counts: Counts
    findings: tuple[Finding, ...]
    presets: tuple[Preset, ...]
    runs: tuple[RunLine, ...]
    news: tuple[News, ...]


@dataclass(frozen=True, slots=True)
class RunsContent:
    """The list of runs."""

    runs: tuple[RunLine, ...]
    next_after: str | None


def address_of(entry: FeedEntry) -> str:
    """Return the page of something new."""
    if entry.kind == "run":
        return f"/runs/{entry.id}"
    if entry.kind == "report":
        return f"/reports/{entry.id}/{entry.name}"
    return f"/sources/{entry.id}"


def home_content(
    home: Home, answers: tuple[tuple[RunLine, Answer], ...], news: Sequence[FeedEntry]
) -> HomeContent:
    """Return the content of the first page.

    Args:
        home: what is new.
        answers: of some of its `answered` runs.
        news: the newest runs, reports and sources.
    """
    findings = [
        Finding(run, found.lines[0], len(found.lines) + found.hidden_lines - 1)
        for run, found in answers
        if found.lines
    ]
    return HomeContent(
        home.counts,
        tuple(findings),
        tuple(Preset(one.title, f"/questions/{one.name}") for one in QUESTIONS.values()),
        home.runs,
        tuple(
            News(entry.kind, entry.title, address_of(entry), entry.at)
            for entry in news
            if entry.kind != "run"
        ),
    )
