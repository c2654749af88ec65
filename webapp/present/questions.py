"""A standing question answered, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zcdb.store.queries.hosts import host_id
from zcdb.store.queries.questions import Evidence
from zcdb.webapp.present.question_answers import Answer
from zcdb.webapp.present.question_list import QUESTIONS, StandingQuestion


@dataclass(frozen=True, slots=True)
class Sureness:
    """How sure the answer is: what stands behind it, and what is missing."""

    trials: int
    runs: int
    hosts: int
    entries: int
    documents: tuple[str, ...]
    flags: tuple[tuple[str, int], ...]
    least_n: int
    most_n: int
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuestionContent:
    """All that a question's page says."""

    name: str
    title: str
    lead: str
    answers: tuple[Answer, ...]
    sure: Sureness
    experiment: str
    settle: str
    deeper: tuple[tuple[str, str], ...]
    others: tuple[tuple[str, str], ...]
    revision: int


@dataclass(frozen=True, slots=True)
class QuestionLine:
    """A question in the list."""

    name: str
    title: str
    lead: str


@dataclass(frozen=True, slots=True)
class QuestionsContent:
    """The list of questions, and the pages that compute."""

    questions: tuple[QuestionLine, ...]


def questions_content() -> QuestionsContent:
    """Return the list."""
    return QuestionsContent(
        tuple(QuestionLine(one.name, one.title, one.lead) for one in QUESTIONS.values())
    )


def sureness(question: StandingQuestion, answers: Sequence[Answer], evidence: Evidence) -> Sureness:
    """Return how sure the answers are."""
    counted = [row.n for one in answers for m in one.metrics for row in m.rows if row.n]
    hosts = {host_id(facts) for facts in evidence.environments} - {None}
    return Sureness(
        trials=evidence.trials,
        runs=evidence.runs,
        hosts=len(hosts) or min(1, len(evidence.environments)),
        entries=evidence.entries,
        documents=evidence.documents,
        flags=tuple(evidence.flags.items()),
        least_n=min(counted, default=0),
        most_n=max(counted, default=0),
        missing=tuple(_missing(question, answers, len(hosts))),
    )


def _missing(question: StandingQuestion, answers: Sequence[Answer], hosts: int) -> Iterator[str]:
    measured = [one for one in answers if one.origin == "measured"]
    if not measured:
        yield "Nobody measured this with zcdb in this database."
    elif question.parts[0].needs_proof and not any("proven" in _first_proof(m) for m in measured):
        yield "No case here has a proof that bytes were not copied."
    if measured and hosts < 2:
        yield "One host only: what is its own and what is general cannot be told apart."
    undecided = sum(
        row.word == "undecided" and row.low is not None
        for one in measured
        for metric in one.metrics
        for row in metric.rows
    )
    if undecided:
        yield f"Undecided comparisons: {undecided}; the table says how many repetitions decide."
    if any(one.origin == "published" for one in answers):
        yield "Published figures mostly come without a spread: a ratio, no interval."


def _first_proof(answer: Answer) -> str:
    proofs = {row.proof for metric in answer.metrics for row in metric.rows}
    return "proven" if "proven" in proofs else ""


def question_content(
    question: StandingQuestion,
    answers: Sequence[Answer],
    evidence: Evidence,
    revision: int,
) -> QuestionContent:
    """Return the content of a question's page."""
    return QuestionContent(
        name=question.name,
        title=question.title,
        lead=question.lead,
        answers=tuple(answers),
        sure=sureness(question, answers, evidence),
        experiment=question.experiment,
        settle=question.settle,
        deeper=question.deeper,
        others=tuple((one.name, one.short) for one in QUESTIONS.values() if one is not question),
        revision=revision,
    )
