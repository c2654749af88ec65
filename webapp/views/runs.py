"""/runs and /runs/<id>: executions of experiments."""

from __future__ import annotations

from flask import Blueprint, request
from werkzeug.exceptions import BadRequest

from zcdb.report.verdicts import make_table
from zcdb.store import queries
from zcdb.store.queries.method import run_method
from zcdb.webapp.data import database
from zcdb.webapp.errors import check_id
from zcdb.webapp.pages import Cell, Page, Table, add_page, query_text
from zcdb.webapp.present.answer import answer, ratio_figures
from zcdb.webapp.present.home import RunsContent
from zcdb.webapp.present.run import CaseRow, figures, run_content, side_by_side
from zcdb.webapp.present.run_charts import extra_figures

PLACES_SHOWN = 200
RUNS_SHOWN = 50

blueprint = Blueprint("runs", __name__)


def runs() -> Page:
    """Return the list of runs, newest first."""
    after = request.args.get("after")
    found = queries.run_list(
        database(), after=check_id("run", after) if after else None, limit=RUNS_SHOWN
    )
    return Page(
        template="runs.html",
        title="Runs",
        description="Every execution of an experiment in this database, newest first.",
        path="/runs",
        content=RunsContent(found.runs, found.next_after),
        table=Table(
            (
                *("run_id", "experiment", "started_at", "outcome"),
                *("planned", "ok", "failed", "unsupported", "note"),
            ),
            [
                (
                    run.id,
                    run.experiment_name,
                    run.started_at.isoformat(),
                    run.outcome,
                    run.counts.planned,
                    run.counts.ok,
                    run.counts.failed,
                    run.counts.unsupported,
                    run.note,
                )
                for run in found.runs
            ],
        ),
        parameters=("after",),
        query=query_text(after=after),
    )


def run(run_id: str) -> Page:
    """Return the page of a run."""
    position = _position(request.args.get("from"))
    found = queries.run_page(
        database(), check_id("run", run_id), from_position=position, limit=PLACES_SHOWN
    )
    table = make_table(found.run, found.experiment, found.cases, how=run_method(database(), run_id))
    content = run_content(found, answer(table, found.cases))
    metrics = [(metric.metric, metric.method) for metric in table.metrics]
    return Page(
        template="run.html",
        title=f"{found.run.experiment_name}, run of {found.run.started_at:%Y-%m-%d %H:%M} UTC",
        description=f"One run of {found.run.experiment_name}: {found.run.question}",
        path=f"/runs/{run_id}",
        content=content,
        figures=(
            *side_by_side(ratio_figures(content.answer), figures(found.cases, metrics)),
            *extra_figures(found.cases),
        ),
        table=case_table(content.cases),
        parameters=("from",),
        query=query_text(**{"from": position}),
    )


def _position(text: str | None) -> int:
    if text is None:
        return 0
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise BadRequest(f"from={text!r} is not a place in a plan, which is a number from 0 on.")
    return int(text)


def case_table(cases: tuple[CaseRow, ...]) -> Table:
    """Return every figure of every case of a run."""
    rows: list[tuple[Cell, ...]] = []
    for case in cases:
        estimates = [cell for row in case.cpu for cell in row.cells] + list(case.metrics)
        rows += [
            (
                case.case_id,
                case.name,
                entry.metric,
                entry.method,
                entry.unit,
                entry.n,
                entry.mean,
                entry.low,
                entry.high,
                entry.median,
                entry.sd,
                entry.reason,
            )
            for entry in estimates
        ]
    return Table(
        (
            *("case_id", "case", "metric", "method", "unit"),
            *("n", "mean", "low", "high", "median", "sd", "reason"),
        ),
        rows,
    )


add_page(blueprint, "/runs", runs)
add_page(blueprint, "/runs/<run_id>", run)
