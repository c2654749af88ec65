"""/diff: what differs between two environments."""

from __future__ import annotations

from flask import Blueprint, request

from zcdb.store import queries
from zcdb.store.queries.hosts import environments
from zcdb.store.results import EnvironmentPage
from zcdb.webapp.data import database
from zcdb.webapp.errors import check_id
from zcdb.webapp.pages import Page, Table, add_page, query_text
from zcdb.webapp.present.hosts import diff_content

blueprint = Blueprint("diff", __name__)


def diff() -> Page:
    """Return the page of a difference, or of the form to ask one."""
    a, b = _environment("a"), _environment("b")
    content = diff_content(a, b, environments(database()))
    return Page(
        template="diff.html",
        title="Environments compared",
        description="The facts in which two environments differ.",
        path="/diff",
        content=content,
        table=Table(
            ("fact", "a", "b"),
            [(change.name, change.first, change.second) for change in content.changes],
        ),
        parameters=("a", "b"),
        query=query_text(a=a.id if a else None, b=b.id if b else None),
    )


def _environment(name: str) -> EnvironmentPage | None:
    text = request.args.get(name)
    if not text:
        return None
    return queries.environment_page(database(), check_id("environment", text))


add_page(blueprint, "/diff", diff)
