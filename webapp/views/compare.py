"""/compare: two or more levels of one factor, two cases, or two runs."""

from __future__ import annotations

from flask import Blueprint, request
from werkzeug.exceptions import BadRequest

from zcdb.errors import UsageError
from zcdb.report import compare as comparing
from zcdb.report import compare_render
from zcdb.report.asking import ask
from zcdb.report.compare import Question
from zcdb.store.cases import value_text
from zcdb.store.queries import explore as queries
from zcdb.store.queries import feed
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
    revision = feed.data_revision(database())
    if question is None:
        return _page(no_question(form, revision), "Compare", f"axis={axis}" if request.args else "")
    report = comparing.compare(database(), question)
    return Page(
        template="compare.html",
        title=compare_render.heading(report),
        description=f"{compare_render.heading(report)}. {compare_render.summary(report)}",
        path="/compare",
        content=compare_content(form, report, revision),
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
    words = {name: [text for text in request.args.getlist(name) if text] for name in OWN_PARAMETERS}
    for name, values in read_filters().items():
        words[name] = [value_text(value) for value in values]
    if not words["a"] or not words["b"]:
        return None
    for name in words["axis"]:
        # The form keeps what it was reached with; along its own axis nothing is filtered.
        words[name] = []
        words["b"] = [text for text in dict.fromkeys(words["b"]) if text not in words["a"]]
    for name in words["of"]:
        if name in KINDS:
            for text in (*words["a"], *words["b"]):
                check_id(KINDS[name], text)
    try:
        return ask(words)
    except UsageError as error:
        raise BadRequest(f"{error.message[:1].upper()}{error.message[1:]}.") from None


add_page(blueprint, "/compare", compare)
