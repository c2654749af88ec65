"""How Alembic reaches the database: `zcdb.store.migrate` hands over an open connection.

The connection is inside a transaction already, so that a step that fails
rolls back whole, and on SQLite its foreign keys are off: batch mode re-creates
tables, and with them on the DROP TABLE would cascade through the rows.
"""

from typing import Any, Literal

from alembic import context
from sqlalchemy.types import TypeDecorator


def render_plain_type(kind: str, item: Any, _context: object) -> str | Literal[False]:
    """Write the plain type below a type of ours: a migration imports nothing of zcdb."""
    if kind == "type" and isinstance(item, TypeDecorator):
        return f"sa.{item.impl_instance!r}"
    return False


attributes = context.config.attributes
context.configure(
    connection=attributes["connection"],
    target_metadata=attributes.get("metadata"),
    render_as_batch=attributes["connection"].dialect.name == "sqlite",
    render_item=render_plain_type,
)
context.run_migrations()
