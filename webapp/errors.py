"""Error pages: they say what was looked for, and where to go on."""

from __future__ import annotations

import json
import re
from urllib.parse import urlencode

from flask import Flask, Response, current_app, render_template, request
from werkzeug.exceptions import BadRequest, HTTPException, NotFound

from zcdb.errors import ZcdbError
from zcdb.store.limits import QueryTooSlow
from zcdb.store.queries import NotFound as NotInStore
from zcdb.store.queries import Retracted

TITLES = {
    400: "This address does not make sense",
    403: "This is not for everybody",
    404: "Nothing here",
    405: "This address is only for reading",
    409: "There is no room for this",
    410: "This was taken back",
    413: "This is too long",
    500: "A fault in zcdb",
    503: "The database cannot be read",
}

SENTENCE_LIMIT = 2000
"""Characters of a sentence at most: what it quotes may be as long as an address."""

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


def _error_response(
    status: int, sentence: str, back: str, back_label: str, title: str | None = None
) -> Response:
    if len(sentence) > SENTENCE_LIMIT:
        sentence = f"{sentence[:SENTENCE_LIMIT]} … (cut)"
    if _wants_json():
        body = json.dumps({"error": sentence, "status": status}, ensure_ascii=False)
        response = Response(body + "\n", status, content_type="application/json")
    else:
        html = render_template(
            "error.html",
            title=title or TITLES.get(status, "This did not work"),
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


_NARROWING = (("message_size", "65536"), ("api", "msg_zerocopy"), ("protocol", "tcp"))
"""Filters to propose, the first that a question does not have."""


def _narrower() -> tuple[str, str]:
    """Return (address, label) of less than what the request asks for."""
    path = re.sub(r"\.(json|csv)$|/charts/.*$", "", request.path)
    if path in ("/explore", "/compare", "/break-even", "/flags"):
        asked = list(request.args.items(multi=True))
        taken = {name for name, _ in asked} | set(request.args.getlist("axis"))
        for name, value in _NARROWING:
            if name not in taken:
                query = urlencode([*asked, (name, value)])
                return f"{path}?{query}", f"The same with {name}={value}"
    if path.startswith("/questions/"):
        query = urlencode([_NARROWING[0]])
        return f"{path}?{query}", "The same for messages of 64 KiB"
    if path.startswith(("/buy", "/nics")):
        return "/nics", "One driver or card"
    if path.startswith(("/hosts", "/kernels", "/experiments", "/runs")):
        return "/runs", "One of the newest runs"
    return "/explore?message_size=65536", "Cases with messages of 64 KiB"


def _too_slow(error: QueryTooSlow) -> Response:
    """Answer for a query that was stopped: that it was, and what to ask instead."""
    address, label = _narrower()
    limit = current_app.config["QUERY_LIMIT_S"]
    sentence = (
        f"A query of this page took longer than {limit:g} s and was stopped, so that other"
        f" readers need not wait. Ask for less: {label[0].lower()}{label[1:]}, at {address}."
    )
    title = "This would take too long"
    return _error_response(503, sentence, address, label, title)


def init_app(app: Flask) -> None:
    """Hook the error pages into an application."""
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(NotInStore, _not_found)
    app.register_error_handler(Retracted, _retracted)
    app.register_error_handler(QueryTooSlow, _too_slow)
    app.register_error_handler(ZcdbError, _store_error)
