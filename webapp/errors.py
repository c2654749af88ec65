"""Error pages: they say what was looked for, and where to go on."""

from __future__ import annotations

import json
import re

from flask import Flask, Response, render_template, request
from werkzeug.exceptions import BadRequest, HTTPException, NotFound

from zcdb.errors import ZcdbError
from zcdb.store.queries import NotFound as NotInStore
from zcdb.store.queries import Retracted

TITLES = {
    400: "This address does not make sense",
    404: "Nothing here",
    405: "This address is only for reading",
    410: "This was taken back",
    500: "A fault in zcdb",
    503: "The database cannot be read",
}

_CONTENT_ID = re.compile(r"[0-9a-f]{32}")
_RUN_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Missing(NotFound):
    """Something that the database does not hold.

    Args:
        sentence: what was looked for.
        back: address of the place to go on from, and how to call it.
    """

    def __init__(self, sentence: str, *, back: str = "/", back_label: str = "Home") -> None:
        super().__init__(sentence)
        self.back = back
        self.back_label = back_label


def check_id(kind: str, text: str) -> str:
    """Return `text` if it has the form of an id of this kind ("run", "case", "trial", ...).

    Raises:
        BadRequest: with a sentence that says which form it has.
    """
    pattern, form = (
        (_RUN_ID, "a UUID in lower case")
        if kind == "run"
        else (_CONTENT_ID, "32 hexadecimal digits in lower case")
    )
    if pattern.fullmatch(text) is None:
        raise BadRequest(f"{text!r} is not the id of a {kind}, which is {form}.")
    return text


def _wants_json() -> bool:
    return request.path.endswith(".json") or request.path.startswith("/api/")


def _error_response(status: int, sentence: str, back: str, back_label: str) -> Response:
    if _wants_json():
        body = json.dumps({"error": sentence, "status": status}, ensure_ascii=False)
        response = Response(body + "\n", status, content_type="application/json")
    else:
        html = render_template(
            "error.html",
            title=TITLES.get(status, "This did not work"),
            status=status,
            sentence=sentence,
            back=back,
            back_label=back_label,
        )
        response = Response(html, status, content_type="text/html; charset=utf-8")
    response.headers["Cache-Control"] = "no-store"
    return response


def _http_error(error: HTTPException) -> Response:
    status = error.code or 500
    sentence = error.description or TITLES.get(status, "")
    if sentence == NotFound.description:
        sentence = f"There is no page at {request.path}."
    if status == 500:
        sentence = "The server's log has the details; the fault is zcdb's, not yours."
    back = getattr(error, "back", "/")
    response = _error_response(status, sentence, back, getattr(error, "back_label", "Home"))
    for name, value in error.get_headers(request.environ):
        if name in ("Allow", "Retry-After"):
            response.headers[name] = value
    return response


def _not_found(error: NotInStore) -> Response:
    sentence = f"There is no {error.kind} {error.wanted} in this database."
    is_experiment = error.kind == "experiment"
    back, label = ("/experiments", "All experiments") if is_experiment else ("/runs", "All runs")
    return _error_response(404, sentence, back, label)


_PLACES = {
    "run": "runs",
    "trial": "trials",
    "source": "sources",
    "entry": "entries",
    "report": "reports",
}
"""Kind of thing -> the folder of its address."""


def _retracted(error: Retracted) -> Response:
    """Answer for what was retracted: why, since when, and what stands in its place."""
    erratum, folder = error.erratum, _PLACES.get(error.kind)
    sentence = (
        f"The {error.kind} {error.wanted} was retracted on {erratum.at:%Y-%m-%d} by"
        f" {erratum.by}: {erratum.reason}"
    )
    if erratum.successor and folder:
        return _error_response(
            410, sentence, f"/{folder}/{erratum.successor}", "What stands in its place"
        )
    return _error_response(410, sentence, "/", "Home")


def _store_error(error: ZcdbError) -> Response:
    sentence = f"{error.message} {error.hint or ''}".strip()
    return _error_response(503, sentence, request.path, "Try again")


def init_app(app: Flask) -> None:
    """Hook the error pages into an application."""
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(NotInStore, _not_found)
    app.register_error_handler(Retracted, _retracted)
    app.register_error_handler(ZcdbError, _store_error)
