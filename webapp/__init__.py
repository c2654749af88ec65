"""The site: pages over stored results.

A view asks `store.queries` (and `report` for verdicts), hands the answer to a
function of `present`, which decides what the page says, and to `charts`, which
describe what it draws; `pages` serves the result as HTML, JSON and CSV.
Templates format and compute nothing.

This room knows no SQL and no engine: it never measures, and it never writes
to the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Flask

from zcdb import __version__
from zcdb.store.session import Database, open_database
from zcdb.webapp import assets, errors, filters, headers
from zcdb.webapp.views import cases, environments, experiments, home, meta, runs, trials

NAVIGATION = (
    {"address": "/", "label": "Latest"},
    {"address": "/experiments", "label": "Experiments"},
    {"address": "/methods", "label": "Methods"},
)


def create_app(config: Mapping[str, Any] | None = None) -> Flask:
    """Return the site as a WSGI application.

    Args:
        config: `DATABASE`: an open `Database`, a file or a URL (None: the default one);
            `ALLOWED_HOSTS`: names, besides addresses and localhost, that requests may be for.

    Raises:
        StoreError: if the database cannot be opened.
    """
    app = Flask(__name__, static_folder=None)
    app.config["ALLOWED_HOSTS"] = ()
    app.config.update(config or {})
    where = app.config.get("DATABASE")
    app.extensions["zcdb"] = where if isinstance(where, Database) else open_database(where)
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    app.jinja_env.globals.update(
        asset=assets.address,
        navigation=NAVIGATION,
        version=__version__,
    )
    filters.init_app(app)
    headers.init_app(app)
    errors.init_app(app)
    for room in (assets, home, experiments, runs, cases, trials, environments, meta):
        app.register_blueprint(room.blueprint)
    return app
