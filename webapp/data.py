"""The open database of the application that serves the current request."""

from __future__ import annotations

from flask import current_app

from zcdb.store.session import Database


def database() -> Database:
    """Return the database that `create_app` opened."""
    opened: Database = current_app.extensions["zcdb"]
    return opened
