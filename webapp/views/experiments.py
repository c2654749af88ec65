"""/experiments and /experiments/<name>: questions and their latest answers."""

from __future__ import annotations

from flask import Blueprint, Response, request

from zcdb.report.verdicts import make_table
from zcdb.store import queries
from zcdb.store.queries.method import run_method
from zcdb.store.results import ExperimentPage
from zcdb.webapp.charts.figure import Figure
from zcdb.webapp.data import database
from zcdb.webapp.errors import check_id
from zcdb.webapp.pages import Page, Table, add_page, query_text, respond
from zcdb.webapp.present.answer import answer, ratio_figures
from zcdb.webapp.present.experiment import (
    ExperimentContent,
    ExperimentsContent,
    experiment_content,
)
from zcdb.webapp.present.run import baseline_of, case_rows, figures, side_by_side
from zcdb.webapp.views.runs import case_table

EXPERIMENTS_SHOWN = 50

blueprint = Blueprint("experiments", __name__)


def experiments() -> Page:
    """Return the list of experiments."""
    after = request.args.get("after")
    found = queries.experiment_list(database(), after=after, limit=EXPERIMENTS_SHOWN)
    return Page(
        template="experiments.html",
        title="Experiments",
        description="Every question asked in this database, with its newest run.",
        path="/experiments",
        content=ExperimentsContent(found.experiments, found.next_after),
        table=Table(
            ("name", "experiment_id", "question", "versions", "runs"),
            [
                (line.name, line.id, line.question, line.versions, line.runs)
                for line in found.experiments
            ],
        ),
        parameters=("after",),
        query=query_text(after=after),
    )


def experiment(name: str) -> Page:
    """Return the page of an experiment, with the answer of its newest finished run."""
    version = _version()
    found = queries.experiment_page(database(), name, version=version)
    content, charts = _answered(found)
    return Page(
        template="experiment.html",
        title=name,
        description=content.question,
        path=f"/experiments/{name}",
        content=content,
        figures=charts,
        table=case_table(content.cases),
        parameters=("version",),
        query=query_text(version=version),
    )


def _version() -> str | None:
    version = request.args.get("version")
    return check_id("version", version) if version else None


def _answered(found: ExperimentPage) -> tuple[ExperimentContent, tuple[Figure, ...]]:
    """Return the content with the answering run's figures, if there is such a run."""
    if found.answer_run_id is None:
        return experiment_content(found, None, None, ()), ()
    outcome = queries.run_outcome(database(), found.answer_run_id)
    table = make_table(
        outcome.run,
        outcome.experiment,
        outcome.cases,
        how=run_method(database(), outcome.run.id),
    )
    words = answer(table, outcome.cases)
    cases = case_rows(outcome.cases, baseline_of(outcome.experiment.resolved))
    metrics = [(metric.metric, metric.method) for metric in table.metrics]
    charts = side_by_side(ratio_figures(words), figures(outcome.cases, metrics))
    return experiment_content(found, outcome.run, words, cases), charts


def text(name: str) -> Response:
    """Return the experiment file as written, fit for 'zcdb run'."""
    found = queries.experiment_page(database(), name, version=_version())
    return respond(found.experiment.text, "application/toml; charset=utf-8")


add_page(blueprint, "/experiments", experiments)
add_page(blueprint, "/experiments/<name>", experiment)
blueprint.add_url_rule("/experiments/<name>.toml", "text", text)
