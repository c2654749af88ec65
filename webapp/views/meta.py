"""/methods, and the addresses that only machines ask."""

from __future__ import annotations

from flask import Blueprint, Response

from zcdb.store import queries
from zcdb.webapp.data import database
from zcdb.webapp.pages import Page, Table, add_page
from zcdb.webapp.present.methods import methods_content

blueprint = Blueprint("meta", __name__)


def methods() -> Page:
    """Return the page that says how every figure is got, written from the registries."""
    content = methods_content()
    return Page(
        template="methods.html",
        title="How every figure is got",
        description="Metrics with their formula and unit, CPU methods, verdicts, flags, factors.",
        path="/methods",
        content=content,
        table=Table(
            ("metric", "label", "unit", "better", "formula"),
            [
                (metric.name, metric.label, metric.unit, metric.better, metric.formula)
                for metric in content.metrics
            ],
        ),
    )


add_page(blueprint, "/methods", methods)


@blueprint.get("/healthz")
def healthz() -> Response:
    """Answer that the process serves; asks nothing of the database."""
    return Response("ok\n", mimetype="text/plain", headers={"Cache-Control": "no-store"})


@blueprint.get("/readyz")
def readyz() -> Response:
    """Answer that the database can be read; 503 by the error page where it cannot."""
    queries.home(database(), limit=1)
    return Response("ready\n", mimetype="text/plain", headers={"Cache-Control": "no-store"})
