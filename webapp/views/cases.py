"""/cases/<id>: one combination of factors, on any host."""

from __future__ import annotations

from flask import Blueprint, request

from zcdb.store import queries
from zcdb.webapp.charts.case import Observation, strip
from zcdb.webapp.charts.curves import Distribution, latency_distribution
from zcdb.webapp.charts.figure import Figure
from zcdb.webapp.data import database
from zcdb.webapp.errors import check_id
from zcdb.webapp.pages import Page, Table, add_page, query_text
from zcdb.webapp.present.case import BESIDE, CaseContent, case_content
from zcdb.webapp.present.run_charts import PERCENTILES_FROM, percentile_points

TRIALS_SHOWN = 200

blueprint = Blueprint("cases", __name__)


def case(case_id: str) -> Page:
    """Return the page of a case."""
    after = request.args.get("after")
    found = queries.case_page(
        database(),
        check_id("case", case_id),
        after=check_id("trial", after) if after else None,
        limit=TRIALS_SHOWN,
        beside=BESIDE,
    )
    content = case_content(found)
    return Page(
        template="case.html",
        title=content.name,
        description=f"All trials of the case {content.name}, on any host.",
        path=f"/cases/{case_id}",
        content=content,
        figures=(*_strips(content), *_latency(content)),
        table=_trials(content),
        parameters=("after",),
        query=query_text(after=after),
    )


def _strips(content: CaseContent) -> tuple[Figure, ...]:
    """Return a chart of each headline metric that any trial measured."""
    names: dict[str, str] = {}
    for row in content.trials:
        started_on = f"{row.trial.started_at:%Y-%m-%d}"
        names.setdefault(row.trial.run_id, f"{row.experiment_name}, {started_on}")
    figures = []
    for column, shown in enumerate(content.headline):
        observations = [
            Observation(
                value,
                names[row.trial.run_id],
                f"repetition {row.trial.repetition + 1}",
            )
            for row in content.trials
            if (value := row.headline[column]) is not None and row.trial.excluded is None
        ]
        if observations:
            figures.append(
                strip(shown.metric, shown.method, observations, shown.mean, shown.low, shown.high)
            )
    return tuple(figures)


def _latency(content: CaseContent) -> tuple[Figure, ...]:
    """Return the distribution of a case's latency if its percentiles were measured."""
    means = {one.metric: one.mean for one in content.metrics if one.mean is not None}
    points = percentile_points(means)
    if len(points) < PERCENTILES_FROM:
        return ()
    return (latency_distribution("latency", [Distribution(content.name, points)]),)


def _trials(content: CaseContent) -> Table:
    return Table(
        (
            *("trial_id", "run_id", "started_at", "repetition", "attempt", "status", "reason"),
            *("metric", "method", "value"),
        ),
        [
            (
                row.trial.id,
                row.trial.run_id,
                row.trial.started_at.isoformat(),
                row.trial.repetition,
                row.trial.attempt,
                row.trial.status,
                row.trial.reason,
                value.metric,
                value.method,
                value.value,
            )
            for row in content.trials
            for value in row.values
        ],
    )


add_page(blueprint, "/cases/<case_id>", case)
