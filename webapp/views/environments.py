"""/environments/<id>: the facts of one host."""

from __future__ import annotations

from flask import Blueprint

from zcdb.store import queries
from zcdb.webapp.data import database
from zcdb.webapp.errors import check_id
from zcdb.webapp.pages import Page, Table, add_page
from zcdb.webapp.present.environment import EnvironmentContent, environment_content

blueprint = Blueprint("environments", __name__)


def environment(environment_id: str) -> Page:
    """Return the page of an environment."""
    found = queries.environment_page(database(), check_id("environment", environment_id))
    content = environment_content(found)
    return Page(
        template="environment.html",
        title=content.summary,
        description=f"The facts of a host that measured: {content.summary}.",
        path=f"/environments/{environment_id}",
        content=content,
        table=_facts(content),
    )


def _facts(content: EnvironmentContent) -> Table:
    return Table(
        ("group", "fact", "value"),
        [(group.title, name, value) for group in content.groups for name, value in group.facts],
    )


add_page(blueprint, "/environments/<environment_id>", environment)
