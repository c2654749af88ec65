"""/break-even: from which message size on each API pays."""

from __future__ import annotations

from flask import Blueprint, request
from werkzeug.exceptions import BadRequest

from zcdb.metrics import CPU_METHODS, HEADLINE_CPU_METHOD
from zcdb.report.compare import Question, make_report
from zcdb.store.cases import value_text
from zcdb.store.queries import feed
from zcdb.store.queries import questions as queries
from zcdb.store.queries.compare import EXACT_LIMIT
from zcdb.webapp.addresses import filter_query
from zcdb.webapp.asked import filter_names, read_filters
from zcdb.webapp.charts.curves import ratio_curves
from zcdb.webapp.charts.figure import SLOTS, Figure
from zcdb.webapp.data import database
from zcdb.webapp.labels import metric_label
from zcdb.webapp.pages import Page, Table, add_page
from zcdb.webapp.present.break_even import (
    CONTEXT,
    METRIC_CHOICES,
    MOVING,
    BreakEvenContent,
    break_even_rows,
    context_form,
    is_kept,
    metric_choices,
    size_pairs,
)
from zcdb.webapp.present.question_answers import COPIED, PROOF

GROUPS_READ = 200
"""Machines that are looked at; the ones with the newest cases."""

blueprint = Blueprint("breakeven", __name__)


def break_even() -> Page:
    """Return the page."""
    filters = read_filters()
    metric, method = _metric()
    groups = queries.groups(database(), MOVING, where=filters, context=CONTEXT, limit=GROUPS_READ)
    pairs = [pair for group in groups.groups for pair in size_pairs(group)]
    chosen = [(a.key, b.key) for a, b in pairs[:EXACT_LIMIT]]
    wanted = [(metric, method), ("throughput", ""), PROOF, COPIED]
    question = Question("factor", "api", "", (), metrics=(metric,), method=method)
    judged = question.measured()[:1]
    found = queries.chosen_pairs(database(), chosen, wanted, len(pairs), lambda _: judged)
    rows = break_even_rows(make_report(question, found))
    curves = [curve for _, curve in rows]
    figures: tuple[Figure, ...] = ()
    if curves:
        figures = (ratio_curves("ratios", metric, curves[:SLOTS]),)
    content = BreakEvenContent(
        metric=metric,
        method=method,
        label=metric_label(metric),
        metric_choices=metric_choices(metric),
        form=context_form(groups.facets),
        kept=tuple(
            (name, value_text(value))
            for name, values in filters.items()
            if is_kept(name)
            for value in values
        ),
        rows=tuple(row for row, _ in rows),
        hidden=len(pairs) - len(chosen) + groups.hidden,
        figures=tuple(figure.key for figure in figures),
        revision=feed.data_revision(database()),
    )
    return Page(
        template="break_even.html",
        title="Break-even",
        description="The message size from which on each API costs less than copying.",
        path="/break-even",
        content=content,
        figures=figures,
        table=_table(content),
        parameters=("m", "method", *filter_names()),
        query=filter_query(
            filters,
            m=None if metric == METRIC_CHOICES[0] else metric,
            method=None if method == HEADLINE_CPU_METHOD else method,
        ),
    )


def _metric() -> tuple[str, str]:
    metric = request.args.get("m") or METRIC_CHOICES[0]
    if metric not in METRIC_CHOICES:
        raise BadRequest(f"m={metric!r} is not one of {', '.join(METRIC_CHOICES)}.")
    method = request.args.get("method") or HEADLINE_CPU_METHOD
    if method not in CPU_METHODS:
        raise BadRequest(f"There is no CPU method {method!r}; there is {', '.join(CPU_METHODS)}.")
    return metric, method


def _table(content: BreakEvenContent) -> Table:
    return Table(
        (
            *("api", "baseline", "where", "metric", "method", "smallest_bytes", "largest_bytes"),
            *("sizes", "word", "pays_from_bytes", "low_bytes", "high_bytes", "n", "origin"),
            "proof",
        ),
        [
            (
                *(row.api, row.baseline, row.where, content.metric, content.method),
                *(row.sizes[0], row.sizes[-1], len(row.sizes), row.word),
                *(row.size_bytes, row.low_bytes, row.high_bytes, row.least_n, row.origin),
                row.proof,
            )
            for row in content.rows
        ],
    )


add_page(blueprint, "/break-even", break_even)
