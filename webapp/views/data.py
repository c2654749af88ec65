"""/data: the data dictionary, and what can be downloaded."""

from __future__ import annotations

from flask import Blueprint

from zcdb.store.queries.dictionary import schema
from zcdb.webapp.pages import Page, Table, add_page
from zcdb.webapp.present.data import data_content

blueprint = Blueprint("data", __name__)


def data() -> Page:
    """Return the data dictionary."""
    content = data_content(schema())
    return Page(
        template="data.html",
        title="Data",
        description="Every table, column, metric and factor, and how to take the data along.",
        path="/data",
        content=content,
        table=Table(
            ("table", "column", "type", "is_key", "may_be_null", "refers_to"),
            [
                (
                    *(table.name, column.name, column.type, column.is_key),
                    *(column.may_be_null, column.refers_to),
                )
                for table in content.tables
                for column in table.columns
            ],
        ),
    )


add_page(blueprint, "/data", data)
