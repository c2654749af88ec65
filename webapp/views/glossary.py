"""/glossary: one word for one thing."""

from __future__ import annotations

from flask import Blueprint

from zcdb.webapp.pages import Page, Table, add_page
from zcdb.webapp.present.glossary import glossary_content

blueprint = Blueprint("glossary", __name__)


def glossary() -> Page:
    """Return the glossary."""
    content = glossary_content()
    return Page(
        template="glossary.html",
        title="Glossary",
        description="The words of zcdb: one word for one thing.",
        path="/glossary",
        content=content,
        table=Table(("term", "says"), [(term.term, term.says) for term in content.terms]),
    )


add_page(blueprint, "/glossary", glossary)
