"""Addresses that only machines ask, and old addresses that lead on for ever."""

from __future__ import annotations

from flask import Blueprint, Response, redirect, request
from werkzeug.wrappers import Response as Redirect

from zcdb.store import queries
from zcdb.webapp.data import database

REDIRECTS = {
    "/index": "/",
    "/zero-copy": "/questions/zero-copy",
    "/breakeven": "/break-even",
    "/environments": "/hosts",
    "/factors": "/methods/factors",
    "/metrics": "/methods/metrics",
    "/buying": "/buy",
    "/feed": "/feed.atom",
    "/openapi.json": "/api/v1/openapi.json",
}
"""Address that was given once, or that people guess -> where it is; entries are never removed."""

blueprint = Blueprint("meta", __name__)


def _register_redirects() -> None:
    for place, (old, new) in enumerate(REDIRECTS.items()):

        def lead(new: str = new) -> Redirect:
            query = request.query_string.decode("ascii", "replace")
            return redirect(f"{new}?{query}" if query else new, 301)

        blueprint.add_url_rule(old, f"redirect_{place}", lead)


_register_redirects()


@blueprint.before_app_request
def lower_case() -> Redirect | None:
    """Lead from "/Questions/…" to the address in lower case; names further on may have capitals."""
    _, first, *rest = request.path.split("/", 2)
    if request.method not in ("GET", "HEAD") or first == first.lower():
        return None
    query = request.query_string.decode("ascii", "replace")
    path = "/".join(["", first.lower(), *rest])
    return redirect(f"{path}?{query}" if query else path, 301)


@blueprint.get("/healthz")
def healthz() -> Response:
    """Answer that the process serves; asks nothing of the database."""
    return Response("ok\n", mimetype="text/plain", headers={"Cache-Control": "no-store"})


@blueprint.get("/readyz")
def readyz() -> Response:
    """Answer that the database can be read; 503 by the error page where it cannot."""
    queries.home(database(), limit=1)
    return Response("ready\n", mimetype="text/plain", headers={"Cache-Control": "no-store"})
