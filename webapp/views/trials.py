"""/trials/<id>: one attempt to measure a case."""

from __future__ import annotations

from flask import Blueprint

from zcdb.store import queries
from zcdb.webapp.charts import trial as charts
from zcdb.webapp.data import database
from zcdb.webapp.errors import check_id
from zcdb.webapp.pages import Page, Table, add_page
from zcdb.webapp.present.trial import TrialContent, trial_content

blueprint = Blueprint("trials", __name__)


def trial(trial_id: str) -> Page:
    """Return the page of a trial."""
    found = queries.trial_page(database(), check_id("trial", trial_id))
    content = trial_content(found)
    return Page(
        template="trial.html",
        title=f"{content.case_name}, repetition {content.repetition + 1}",
        description=f"One trial of {content.experiment_name}: {content.case_name}.",
        path=f"/trials/{trial_id}",
        content=content,
        figures=charts.figures(found.samples, found.counts),
        table=_values(content),
    )


def _values(content: TrialContent) -> Table:
    estimates = [cell for row in content.cpu for cell in row.cells] + list(content.metrics)
    return Table(
        ("metric", "method", "value", "unit", "reason"),
        [(entry.metric, entry.method, entry.mean, entry.unit, entry.reason) for entry in estimates],
    )


add_page(blueprint, "/trials/<trial_id>", trial)
