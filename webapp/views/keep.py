"""Keeping what a page shows: short addresses of live states, and comparisons frozen as reports.

Both are forms whose address is the state itself, so that it is read exactly as a page
reads it.  What is stored is named by its content: pressing twice makes nothing new.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from flask import Blueprint, Response, current_app, redirect, render_template, request
from werkzeug.exceptions import BadRequest, Conflict, Forbidden
from werkzeug.wrappers import Response as Redirect

from zcdb.errors import UsageError
from zcdb.report import freeze
from zcdb.store import reports
from zcdb.webapp.data import database
from zcdb.webapp.errors import check_id
from zcdb.webapp.origin import require_own_page
from zcdb.webapp.pages import respond
from zcdb.webapp.present.explore import query_of
from zcdb.webapp.views import compare, explore

QUERY_LIMIT = 2000
"""Characters of a state that is kept; browsers and servers pass at least that many on."""

LINKS_LIMIT = 100_000
REPORTS_LIMIT = 10_000
"""What forms may store; the command line has no such limit."""

blueprint = Blueprint("keep", __name__)


@dataclass(frozen=True, slots=True)
class ShortAddress:
    """A short address, and the state that it leads to."""

    id: str
    address: str
    target: str


@blueprint.post("/explore")
def keep_exploration() -> Redirect:
    """Keep a state of /explore under a short address."""
    require_own_page()
    return _keep("/explore", query_of(explore.read_asked()))


@blueprint.post("/compare")
def keep_comparison() -> Redirect:
    """Keep a comparison, as a question, under a short address."""
    require_own_page()
    return _keep("/compare", _comparison())


@blueprint.post("/reports")
def freeze_comparison() -> Redirect:
    """Freeze the answer to a comparison under the title of the form."""
    require_own_page()
    if not current_app.config["MAY_FREEZE"]:
        raise Forbidden(
            "Readers of this site cannot freeze reports; 'zcdb report create' beside it can."
        )
    query = _comparison()
    if reports.count_reports(database(), REPORTS_LIMIT) >= REPORTS_LIMIT:
        raise Conflict(_full("reports", REPORTS_LIMIT, "'zcdb report create' still makes more"))
    try:
        made = freeze.freeze(database(), query, request.form.get("title", ""))
    except (UsageError, freeze.ReportError) as error:
        raise BadRequest(f"{error.message[:1].upper()}{error.message[1:]}.") from None
    return redirect(f"/reports/{made.id}/{made.slug}", 303)


def _comparison() -> str:
    question = compare.read_question()
    if question is None:
        raise BadRequest("Only a comparison can be kept: /compare?axis=api&a=write&b=sendfile.")
    return question.query()


def _keep(path: str, query: str) -> Redirect:
    if len(query) > QUERY_LIMIT:
        raise BadRequest(
            f"This state has {len(query)} characters; short addresses hold {QUERY_LIMIT}."
        )
    link_id = reports.link_id(path, query)
    if not reports.has_link(database(), link_id):
        if reports.count_links(database(), LINKS_LIMIT) >= LINKS_LIMIT:
            remedy = "the long address works as before"
            raise Conflict(_full("short addresses", LINKS_LIMIT, remedy))
        reports.add_link(database(), path, query, datetime.now(UTC))
    return redirect(f"/q/{link_id}/address", 303)


def _full(what: str, limit: int, remedy: str) -> str:
    return f"This database holds {limit} {what} and takes no more; {remedy}."


@blueprint.get("/q/<link_id>/address")
def short_address(link_id: str) -> Response:
    """Show a short address to copy."""
    path, query = reports.link(database(), check_id("short address", link_id))
    content = ShortAddress(
        link_id,
        f"{request.url_root}q/{link_id}",
        f"{path}?{query}" if query else path,
    )
    return respond(
        render_template("short_address.html", content=content), "text/html; charset=utf-8"
    )
