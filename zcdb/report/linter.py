"""What is wrong with a comparison before anybody believes it: one rule a function.

The rules are those that published tables of the field break: a ratio without
its base, fewer than three repetitions, failures that nobody mentions, one end
only, throughput at the link's rate read as a cost, tools with different
defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from zcdb.factors import UNSTATED, display
from zcdb.metrics import METRICS

if TYPE_CHECKING:
    from zcdb.report.compare import ComparisonReport

AT_LINK_RATE = 0.93
"""Payload throughput above this share of the link's rate is the link's, not the host's."""

Rule = Callable[["ComparisonReport"], Iterator[str]]


def warnings_of(report: ComparisonReport) -> tuple[str, ...]:
    """Return a sentence for each thing to know."""
    return tuple(sentence for rule in _RULES for sentence in rule(report))


def _count(number: int, singular: str) -> str:
    return f"{number} {singular}" if number == 1 else f"{number} {singular}s"


def _few_repetitions(report: ComparisonReport) -> Iterator[str]:
    few = sum(metric.tally.without_interval for metric in report.metrics if metric.is_judged)
    if few:
        yield (
            f"{_count(few, 'comparison')} with fewer than three repetitions on one side, or without"
            " a stated spread: a ratio without an interval decides nothing."
        )


def _missing(report: ComparisonReport) -> Iterator[str]:
    for metric in report.metrics:
        if metric.is_judged and metric.tally.missing:
            label = METRICS[metric.metric].label
            yield f"{label}: {_count(metric.tally.missing, 'pair')} without a value on both sides."


def _failures(report: ComparisonReport) -> Iterator[str]:
    if report.failed:
        yield (
            f"{_count(report.failed, 'trial')} of these cases failed; they are in no figure here,"
            " and a failure may depend on what is compared."
        )


def _one_end_only(report: ComparisonReport) -> Iterator[str]:
    for metric in report.metrics:
        if not metric.is_judged or METRICS[metric.metric].end is None:
            continue
        name, _, end = metric.metric.rpartition("_")
        other = f"{name}_{'receiver' if end == 'sender' else 'sender'}"
        if other in METRICS and other not in {m.metric for m in report.metrics}:
            yield (
                f"{METRICS[metric.metric].label} is one end only: what it saves, the other end"
                f" may pay (add {other})."
            )


def _link_rate(report: ComparisonReport) -> Iterator[str]:
    judged = next((m for m in report.metrics if m.metric == "throughput" and m.is_judged), None)
    if judged is None:
        return
    full = judged.tally.at_link_rate
    if full:
        yield (
            f"{_count(full, 'pair')} with throughput at the link's rate: there it says nothing"
            " about the host; look at the service demand."
        )


def _tools(report: ComparisonReport) -> Iterator[str]:
    if report.question.factor == "tool" or "tool" in report.followers:
        yield (
            "Different tools are compared: their defaults (message and receive size, socket"
            " options, who is counted as busy) differ too."
        )


def _unstated(report: ComparisonReport) -> Iterator[str]:
    silent = sorted(
        {
            name
            for metric in report.metrics[:1]
            for row in metric.rows[:200]
            for side in (row.baseline, row.candidate)
            for name, value in side.factors.items()
            if value == UNSTATED
        }
    )
    if silent:
        shown = ", ".join(silent[:5]) + (f" and {len(silent) - 5} more" if len(silent) > 5 else "")
        yield f"The source does not state {shown}: they may differ between the sides."


def _confounded(report: ComparisonReport) -> Iterator[str]:
    for name, (first, second) in report.followers.items():
        yield f"{name} differs too: {first} against {second}."
    if report.question.kind == "factor" and report.changed_facts:
        names = ", ".join(name for name, _, _ in report.changed_facts[:6])
        more = len(report.changed_facts) - 6
        yield f"The machines differ in {names}" + (f" and {more} more facts." if more > 0 else ".")


def _cut(report: ComparisonReport) -> Iterator[str]:
    if report.found > report.pair_count:
        yield (
            f"Only {report.pair_count} of {report.found} pairs are compared: add a filter to see"
            " the others."
        )


def _unpaired(report: ComparisonReport) -> Iterator[str]:
    for value, count in report.unpaired:
        have = "has" if count == 1 else "have"
        yield f"{_count(count, 'case')} with {_level(report, value)} {have} no partner."


def _level(report: ComparisonReport, value: str) -> str:
    """Return a level, as the tables spell it, in the words of the factor."""
    question = report.question
    for level in (question.baseline, *question.candidates):
        if question.kind == "factor" and str(level).lower() == value.lower():
            return f"{question.factor} {display(question.factor, level)}"
    return value


_RULES: tuple[Rule, ...] = (
    _confounded,
    _few_repetitions,
    _missing,
    _failures,
    _unpaired,
    _one_end_only,
    _link_rate,
    _tools,
    _unstated,
    _cut,
)
