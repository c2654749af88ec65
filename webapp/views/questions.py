"""/questions and /questions/<name>: what people come to ask, answered from the data."""

from __future__ import annotations

from functools import partial

from flask import Blueprint

from zcdb.store.queries import feed
from zcdb.store.queries import questions as queries
from zcdb.webapp.addresses import filter_query
from zcdb.webapp.asked import filter_names, read_filters
from zcdb.webapp.charts.figure import Figure
from zcdb.webapp.data import database
from zcdb.webapp.errors import Missing
from zcdb.webapp.pages import Page, Table, add_page
from zcdb.webapp.present.question_answers import (
    Answer,
    Found,
    answers_of,
    judged_keys,
    wanted_keys,
)
from zcdb.webapp.present.question_list import QUESTIONS, Part, StandingQuestion
from zcdb.webapp.present.questions import (
    QuestionContent,
    question_content,
    questions_content,
)

PAIRS_LIMIT = 120
"""Pairs that a part of a question judges; the ones with the newest cases."""

blueprint = Blueprint("questions", __name__)


def questions() -> Page:
    """Return the list of questions."""
    content = questions_content()
    return Page(
        template="questions.html",
        title="Questions",
        description="What people ask about zero-copy networking, answered from the data.",
        path="/questions",
        content=content,
        table=Table(
            ("question", "title", "address"),
            [(one.name, one.title, f"/questions/{one.name}") for one in content.questions],
        ),
    )


def question(name: str) -> Page:
    """Return the page of a question."""
    asked = QUESTIONS.get(name)
    if asked is None:
        raise Missing(
            f"There is no question {name!r}; there is {', '.join(QUESTIONS)}.",
            back="/questions",
            back_label="All questions",
        )
    filters = read_filters()
    answers: list[Answer] = []
    figures: list[Figure] = []
    keys: set[int] = set()
    for part in asked.parts:
        found, used = _found(part, filters)
        keys |= used
        for answer, drawn in answers_of(found):
            answers.append(answer)
            figures += drawn
    content = question_content(
        asked, answers, queries.evidence(database(), keys), feed.data_revision(database())
    )
    return Page(
        template="question.html",
        title=asked.title,
        description=_description(asked, content),
        path=f"/questions/{name}",
        content=content,
        figures=tuple(figures),
        table=_table(content),
        parameters=filter_names(),
        query=filter_query(filters),
    )


def _found(part: Part, filters: dict[str, tuple[str | int | bool, ...]]) -> tuple[Found, set[int]]:
    groups = queries.groups(
        database(),
        part.moving,
        where={**filters, **(part.where or {})},
    )
    pairs = [pair for group in groups.groups for pair in part.pairing(group)]
    chosen = [(a.key, b.key) for a, b in pairs[:PAIRS_LIMIT]]
    found = queries.chosen_pairs(
        database(), chosen, wanted_keys(), len(pairs), partial(judged_keys, part)
    )
    hidden = len(pairs) - len(chosen) + groups.hidden
    return Found(part, found, hidden), {key for pair in chosen for key in pair}


def _description(asked: StandingQuestion, content: QuestionContent) -> str:
    findings = [finding.text for answer in content.answers for finding in answer.findings]
    return f"{asked.title} {findings[0] if findings else asked.lead}"


def _table(content: QuestionContent) -> Table:
    return Table(
        (
            *("part", "origin", "metric", "method", "pair", "sides"),
            *("baseline_case", "candidate_case", "baseline", "candidate"),
            *("verdict", "ratio", "low", "high", "n", "proof", "note"),
        ),
        [
            (
                *(answer.title, answer.origin, metric.metric, metric.method, row.name, row.sides),
                *(row.baseline_case, row.candidate_case, row.baseline.mean, row.candidate.mean),
                *(row.word, row.ratio, row.low, row.high, row.n, row.proof, row.note),
            )
            for answer in content.answers
            for metric in answer.metrics
            for row in metric.rows
        ],
    )


add_page(blueprint, "/questions", questions)
add_page(blueprint, "/questions/<name>", question)
