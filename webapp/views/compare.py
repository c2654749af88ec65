"""/compare: two or more levels of one factor, two cases, or two runs."""

from __future__ import annotations

from flask import Blueprint, request
from werkzeug.exceptions import BadRequest

from zcdb import units
from zcdb.errors import UsageError
from zcdb.metrics import HEADLINE_CPU_METHOD
from zcdb.report import compare as comparing
from zcdb.report import compare_render
from zcdb.report.compare import Question
from zcdb.store.cases import value_text
from zcdb.store.queries import explore as queries
from zcdb.webapp.asked import filter_names, read_factor, read_filters
from zcdb.webapp.data import database
from zcdb.webapp.errors import check_id
from zcdb.webapp.pages import Page, Table, add_page
from zcdb.webapp.present.compare import (
    axis_or_default,
    compare_content,
    forests,
    make_form,
    no_question,
)

blueprint = Blueprint("compare", __name__)

OWN_PARAMETERS = ("axis", "of", "a", "b", "m", "method", "matters")
KINDS = {"cases": "case", "runs": "run"}


def compare() -> Page:
    """Return the page of a comparison, or of the form to ask one."""
    question = read_question()
    axes = queries.axes(database())
    axis = axis_or_default(axes, read_factor(request.args.get("axis") or ""))
    form = make_form(
        axes,
        axis,
        request.args.get("a") or "",
        request.args.getlist("b"),
        request.args.getlist("m") or comparing.DEFAULT_METRICS,
        [
            (name, value_text(value))
            for name, values in read_filters().items()
            if name != axis
            for value in values
        ],
    )
    if question is None:
        return _page(no_question(form), "Compare", f"axis={axis}" if request.args else "")
    report = comparing.compare(database(), question)
    return Page(
        template="compare.html",
        title=compare_render.heading(report),
        description=f"{compare_render.heading(report)}. {compare_render.summary(report)}",
        path="/compare",
        content=compare_content(form, report),
        figures=forests(report),
        table=Table(compare_render.CSV_COLUMNS, compare_render.csv_rows(report)),
        parameters=(*OWN_PARAMETERS, *filter_names()),
        query=f"?{question.query()}",
    )


def _page(content: object, title: str, query: str) -> Page:
    return Page(
        template="compare.html",
        title=title,
        description="Compare along any factor, everything else equal.",
        path="/compare",
        content=content,
        parameters=(*OWN_PARAMETERS, *filter_names()),
        query=f"?{query}" if query else "",
    )


def read_question() -> Question | None:
    """Return what the query asks; None if it asks nothing yet.

    Raises:
        BadRequest: with the sentence that says what does not make sense.
    """
    candidates = [text for text in request.args.getlist("b") if text]
    baseline = request.args.get("a") or ""
    if not baseline or not candidates:
        return None
    metrics = tuple(dict.fromkeys(request.args.getlist("m"))) or comparing.DEFAULT_METRICS
    method = request.args.get("method") or HEADLINE_CPU_METHOD
    kind = request.args.get("of") or ""
    try:
        matters = units.parse_ratio(request.args.get("matters") or comparing.DEFAULT_MATTERS)
        if kind:
            return _about_ids(kind, baseline, candidates, metrics, method, matters)
        axis = request.args.get("axis") or ""
        if not axis:
            raise BadRequest("A comparison names a factor: /compare?axis=api&a=write&b=sendfile.")
        candidates = [text for text in dict.fromkeys(candidates) if text != baseline]
        filters = {
            name: [value_text(value) for value in values]
            for name, values in read_filters().items()
            if name != axis
        }
        return comparing.ask_factor(
            axis, baseline, candidates, filters, metrics=metrics, method=method, matters=matters
        )
    except UsageError as error:
        raise BadRequest(f"{error.message}.") from None
    except ValueError as error:
        raise BadRequest(f"matters: {error}.") from None


def _about_ids(
    kind: str,
    baseline: str,
    candidates: list[str],
    metrics: tuple[str, ...],
    method: str,
    matters: float,
) -> Question:
    if kind not in KINDS:
        raise BadRequest(f"{kind!r} cannot be compared; of=cases and of=runs can.")
    if kind == "runs" and len(candidates) != 1:
        raise BadRequest("Runs are compared two at a time.")
    ids = [check_id(KINDS[kind], text) for text in (baseline, *candidates)]
    return comparing.checked(
        Question(
            "runs" if kind == "runs" else "cases",
            "",
            ids[0],
            tuple(ids[1:]),
            metrics=metrics,
            method=method,
            matters=matters,
        )
    )


add_page(blueprint, "/compare", compare)
