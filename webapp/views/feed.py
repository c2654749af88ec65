"""/feed.atom: the newest runs, reports and sources."""

from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree

from flask import Blueprint, Response, request

from zcdb.store.queries import feed as queries
from zcdb.webapp.data import database
from zcdb.webapp.pages import respond
from zcdb.webapp.present.home import address_of

ATOM = "http://www.w3.org/2005/Atom"
NOTHING_YET = datetime(2001, 1, 1, tzinfo=UTC)
"""When an empty feed was updated: a feed must say it, and nothing has happened."""

blueprint = Blueprint("feed", __name__)


@blueprint.get("/feed.atom")
def feed() -> Response:
    """Serve the feed."""
    ElementTree.register_namespace("", ATOM)
    entries = queries.feed(database())
    root = request.url_root.rstrip("/")
    made = ElementTree.Element(f"{{{ATOM}}}feed")
    _add(made, "id", f"{root}/feed.atom")
    _add(made, "title", "zcdb: new runs, reports and sources")
    _add(made, "updated", _moment(entries[0].at if entries else NOTHING_YET))
    _add(made, "link", rel="self", type="application/atom+xml", href=f"{root}/feed.atom")
    _add(made, "link", rel="alternate", type="text/html", href=f"{root}/")
    for entry in entries:
        made.append(_entry(entry, root))
    text = ElementTree.tostring(made, encoding="unicode")
    return respond(f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n', "application/atom+xml")


def _entry(entry: queries.FeedEntry, root: str) -> ElementTree.Element:
    made = ElementTree.Element(f"{{{ATOM}}}entry")
    # The same result has the same id in any database, wherever that is served.
    _add(made, "id", f"urn:zcdb:{entry.kind}:{entry.id}")
    _add(made, "title", entry.title)
    _add(made, "updated", _moment(entry.at))
    _add(made, "link", rel="alternate", type="text/html", href=f"{root}{address_of(entry)}")
    _add(made, "category", term=entry.kind)
    author = ElementTree.SubElement(made, f"{{{ATOM}}}author")
    _add(author, "name", entry.author or "zcdb")
    _add(made, "summary", entry.about)
    return made


def _add(parent: ElementTree.Element, tag: str, text: str = "", **attributes: str) -> None:
    made = ElementTree.SubElement(parent, f"{{{ATOM}}}{tag}", attributes)
    if text:
        made.text = _without_controls(text)


def _without_controls(text: str) -> str:
    """Return a text without the control characters that XML cannot hold."""
    return "".join(letter for letter in text if letter >= " " or letter in "\t\n")


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
