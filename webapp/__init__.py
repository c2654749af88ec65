"""The site: pages over stored results.

A view asks `store.queries` (and `report` for verdicts), hands the answer to a
function of `present`, which decides what the page says, and to `charts`, which
describe what it draws; `pages` serves the result as HTML, JSON and CSV.
Templates format and compute nothing.

This room knows no SQL and no engine.  It never measures and never writes a
result: what it stores are short addresses and frozen reports (`views.keep`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Flask

from zcdb import __version__
from zcdb.store.session import Database, open_database
from zcdb.webapp import asked, assets, errors, filters, headers
from zcdb.webapp.kept import KeptAnswers
from zcdb.webapp.present.cite import cite
from zcdb.webapp.views import (
    api,
    breakeven,
    buy,
    calculator,
    cases,
    compare,
    data,
    diff,
    environments,
    experiments,
    explore,
    feed,
    flags_page,
    glossary,
    history,
    home,
    hosts,
    keep,
    meta,
    methods,
    nics,
    questions,
    reports,
    runs,
    trials,
)

FORM_LIMIT_BYTES = 16 * 1024

QUERY_LIMIT_S = 1.0
"""A statement that takes longer is stopped, and the page says what to ask instead."""

NAVIGATION = (
    {"address": "/questions", "label": "Questions"},
    {"address": "/explore", "label": "Explore"},
    {"address": "/compare", "label": "Compare"},
    {"address": "/experiments", "label": "Experiments"},
    {"address": "/history", "label": "History"},
    {"address": "/nics", "label": "NICs"},
    {"address": "/buy", "label": "Which NIC"},
    {"address": "/methods", "label": "Methods"},
)
"""What the head of every page has; the foot has all of `SITE_MAP`."""

SITE_MAP = (
    (
        "Ask",
        (
            ("/questions", "Questions"),
            ("/break-even", "Break-even"),
            ("/flags", "On/off settings"),
            ("/calculator", "Calculator"),
            ("/buy", "Which NIC"),
        ),
    ),
    (
        "Find",
        (
            ("/explore", "Explore"),
            ("/compare", "Compare"),
            ("/reports", "Reports"),
            ("/diff", "Environments compared"),
        ),
    ),
    (
        "Record",
        (
            ("/experiments", "Experiments"),
            ("/runs", "Runs"),
            ("/hosts", "Hosts"),
            ("/kernels", "Kernels"),
            ("/nics", "Network cards"),
        ),
    ),
    (
        "Published",
        (("/history", "Founding tables"), ("/sources", "Sources"), ("/feed.atom", "Feed")),
    ),
    (
        "Reference",
        (
            ("/methods", "Methods"),
            ("/glossary", "Glossary"),
            ("/data", "Data dictionary"),
            ("/api/v1/openapi.json", "API"),
        ),
    ),
)


def create_app(config: Mapping[str, Any] | None = None) -> Flask:
    """Return the site as a WSGI application.

    Args:
        config: `DATABASE`: an open `Database`, a file or a URL (None: the default one);
            `ALLOWED_HOSTS`: names, besides addresses and localhost, that requests may be for;
            `MAY_FREEZE`: whether readers may freeze comparisons as reports;
            `QUERY_LIMIT_S`: seconds that one statement may take.

    Raises:
        StoreError: if the database cannot be opened.
    """
    app = Flask(__name__, static_folder=None)
    app.config["ALLOWED_HOSTS"] = ()
    app.config["MAY_FREEZE"] = True
    app.config["QUERY_LIMIT_S"] = QUERY_LIMIT_S
    app.config["MAX_CONTENT_LENGTH"] = FORM_LIMIT_BYTES
    app.config.update(config or {})
    where = app.config.get("DATABASE")
    opened = where if isinstance(where, Database) else open_database(where)
    app.extensions["zcdb"] = opened.limited(app.config["QUERY_LIMIT_S"])
    app.extensions["zcdb_kept"] = KeptAnswers()
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    app.jinja_env.globals.update(
        asset=assets.address,
        navigation=NAVIGATION,
        site_map=SITE_MAP,
        cite=cite,
        version=__version__,
    )
    asked.init_app(app)
    filters.init_app(app)
    headers.init_app(app)
    errors.init_app(app)
    for room in (
        assets,
        home,
        experiments,
        runs,
        cases,
        trials,
        explore,
        compare,
        reports,
        keep,
        history,
        environments,
        meta,
        nics,
        buy,
        questions,
        breakeven,
        flags_page,
        calculator,
        diff,
        hosts,
        methods,
        glossary,
        data,
        feed,
    ):
        app.register_blueprint(room.blueprint)
    api.register(app)
    return app
