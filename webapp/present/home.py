"""The first page: what is new, and the latest findings as sentences."""

from __future__ import annotations

from dataclasses import dataclass

from zcdb.store.results import Counts, Home, RunLine
from zcdb.webapp.present.answer import Answer, Line


@dataclass(frozen=True, slots=True)
class Finding:
    """What a run found, in its most remarkable line."""

    run: RunLine
    line: Line
    more: int


@dataclass(frozen=True, slots=True)
class HomeContent:
    """All that the first page says."""

    counts: Counts
    findings: tuple[Finding, ...]
    runs: tuple[RunLine, ...]


@dataclass(frozen=True, slots=True)
class RunsContent:
    """The list of runs."""

    runs: tuple[RunLine, ...]
    next_after: str | None


def home_content(home: Home, answers: tuple[tuple[RunLine, Answer], ...]) -> HomeContent:
    """Return the content of the first page.

    Args:
        home: what is new.
        answers: of some of its `answered` runs.
    """
    findings = [
        Finding(run, found.lines[0], len(found.lines) + found.hidden_lines - 1)
        for run, found in answers
        if found.lines
    ]
    return HomeContent(home.counts, tuple(findings), home.runs)
