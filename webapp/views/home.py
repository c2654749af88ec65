"""/: what is new, the latest findings, and the ways in."""

from __future__ import annotations

from flask import Blueprint

from zcdb.report.verdicts import make_table
from zcdb.store import queries
from zcdb.store.queries import feed
from zcdb.store.queries.method import run_method
from zcdb.store.results import RunLine
from zcdb.webapp.data import database
from zcdb.webapp.pages import Page, Table, add_page
from zcdb.webapp.present.answer import Answer, answer
from zcdb.webapp.present.home import HomeContent, home_content

FINDINGS_SHOWN = 3
RUNS_SHOWN = 10
NEWS_SHOWN = 8

blueprint = Blueprint("home", __name__)


def home() -> Page:
    """Return the first page."""
    found = queries.home(database(), limit=RUNS_SHOWN)
    content = home_content(
        found,
        tuple(_answer(run) for run in found.answered[:FINDINGS_SHOWN]),
        feed.feed(database(), limit=NEWS_SHOWN),
    )
    return Page(
        template="home.html",
        title="Latest",
        description="What was measured last in this database, and what it says.",
        path="/",
        content=content,
        table=_findings(content),
    )


def _answer(run: RunLine) -> tuple[RunLine, Answer]:
    outcome = queries.run_outcome(database(), run.id)
    table = make_table(
        outcome.run,
        outcome.experiment,
        outcome.cases,
        how=run_method(database(), outcome.run.id),
    )
    return run, answer(table, outcome.cases)


def _findings(content: HomeContent) -> Table:
    return Table(
        ("run_id", "experiment", "finding", "verdict", "ratio", "low", "high", "n"),
        [
            (
                finding.run.id,
                finding.run.experiment_name,
                finding.line.text,
                finding.line.judged.word,
                finding.line.judged.ratio,
                finding.line.judged.low,
                finding.line.judged.high,
                finding.line.judged.n,
            )
            for finding in content.findings
        ],
    )


add_page(blueprint, "/", home)
