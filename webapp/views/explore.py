"""/explore: every case there is, by any factor."""

from __future__ import annotations

from flask import Blueprint, request

from zcdb.store.queries import explore as queries
from zcdb.store.queries import feed
from zcdb.webapp.asked import filter_names, read_factor, read_filters, read_metric
from zcdb.webapp.charts.comparison import CaseValues, comparison
from zcdb.webapp.charts.figure import Figure
from zcdb.webapp.data import database
from zcdb.webapp.errors import check_id
from zcdb.webapp.pages import Page, Table, add_page
from zcdb.webapp.present.explore import ExploreContent, explore_content, query_of

blueprint = Blueprint("explore", __name__)

OWN_PARAMETERS = ("q", "rows", "cols", "m", "after")
CHART_LIMIT = 60
"""Cases that a chart can still tell apart."""

WORDS_LIMIT = 8


def explore() -> Page:
    """Return the page of what the query asks for."""
    asked = read_asked()
    found = queries.explore(database(), asked)
    content = explore_content(asked, found, feed.data_revision(database()))
    query = query_of(asked)
    return Page(
        template="explore.html",
        title="Explore",
        description="Every case by any factor: facets, a pivot of two factors, and the figures.",
        path="/explore",
        content=content,
        figures=_figures(asked, found),
        table=_table(content),
        parameters=(*OWN_PARAMETERS, *filter_names()),
        query=f"?{query}" if query else "",
    )


def read_asked() -> queries.Asked:
    """Return the state that the request's query asks for.

    Raises:
        BadRequest: with the sentence that says what does not make sense.
    """
    metric, method = read_metric(request.args.get("m") or "service_demand_sender")
    after = request.args.get("after")
    return queries.Asked(
        filters=read_filters(),
        words=tuple((request.args.get("q") or "").split()[:WORDS_LIMIT]),
        rows=read_factor(request.args.get("rows") or ""),
        columns=read_factor(request.args.get("cols") or ""),
        metric=metric,
        method=method,
        after=check_id("case", after) if after else None,
    )


def _figures(asked: queries.Asked, found: queries.Exploration) -> tuple[Figure, ...]:
    if not 1 < found.matching <= CHART_LIMIT:
        return ()
    cases = [
        CaseValues(case.factors, (), one.mean, one.low, one.high)
        for case in found.cases
        for one in case.statistics
        if (one.metric, one.method) == (asked.metric, asked.method) and one.mean is not None
    ]
    return (comparison("figures", asked.metric, asked.method, cases),) if len(cases) > 1 else ()


def _table(content: ExploreContent) -> Table:
    return Table(
        (
            *("case_id", "case", *content.columns),
            *("metric", "method", "n", "mean", "sd", "low", "high"),
        ),
        [
            (
                *(case.case_id, case.name, *case.values),
                *(one.metric, one.method, one.n, one.mean, one.sd, one.low, one.high),
            )
            for case in content.cases
            for one in case.estimates
        ],
    )


add_page(blueprint, "/explore", explore)
