"""/api/v1: the JSON of every page at an address that stays, and its OpenAPI description.

An answer is the JSON twin of a page: the same view makes both, so the numbers
are the same.  What the description says of each page stands in `api_pages`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from flask import Flask, Response, current_app
from werkzeug.routing import Rule

from zcdb import __version__
from zcdb.factors import FACTORS
from zcdb.webapp.api_pages import PAGES, Described
from zcdb.webapp.pages import json_text, respond
from zcdb.webapp.schemas import Schema, Schemas

PREFIX = "/api/v1"

ID = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
VARIABLES: dict[str, Schema] = {
    "case_id": ID,
    "trial_id": ID,
    "environment_id": ID,
    "source_id": ID,
    "report_id": ID,
    "run_id": {"type": "string", "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
    "host_id": {"type": "string", "pattern": "^[0-9a-f]{8,64}$"},
    "device_id": {"type": "string", "pattern": "^[0-9a-f]{4}:[0-9a-f]{4}$"},
}
"""Variable of a path -> its form; any other is a name."""

REPEATED = ("b", "m", "d", "bus", "must")
"""Parameters that may stand several times."""

ABOUT = {
    "after": "Go on after this entry, as `next_after` of the list before says.",
    "from": "Position in the plan to go on from.",
    "version": "Id of a version of the experiment; the newest without it.",
    "q": "Words that all must occur.",
    "rows": "Factor of the pivot's rows.",
    "cols": "Factor of the pivot's columns.",
    "m": "Metric, with a CPU method after a colon where it has one.",
    "method": "CPU method of metrics that have one.",
    "matters": "Ratio below which a difference is called equivalent: 2% or 0.02.",
    "axis": "Factor along which cases are compared.",
    "of": "Compare cases or runs by their ids instead.",
    "a": "Baseline: a level of the axis, or an id.",
    "b": "What is held against the baseline; may be repeated.",
    "case": "Id of the case whose cost is used.",
    "rate": "Rate, as 100gbit.",
    "cpus": "CPUs of the machine.",
    "write_off": "Id of a case: a copying API without the zero-copy path.",
    "write_on": "Id of a case: the same with it.",
    "file_off": "Id of a case: sendfile without the path.",
    "file_on": "Id of a case: sendfile with it.",
    "kernel": "Kernel or distribution that drivers are of.",
    "bus": "How a card is attached; any of these.",
    "speed": "Slowest speed that a card must have, as 10g.",
    "upto": "Fastest speed that a card may have.",
    "medium": "Medium of the port, where it is known.",
    "must": "Capability that a card must have; all of these.",
    "evidence": "Least evidence that counts.",
    "tree": "in: only drivers that come with the kernel.",
    "show": "Group of columns.",
    "d": "Driver or device to set beside others; may be repeated.",
}

ERRORS = {
    "400": "A parameter or an id does not make sense; the sentence says which.",
    "404": "There is no such thing in this database.",
    "410": "It was retracted; the sentence says why and what stands in its place.",
    "503": "The database cannot be read, or the question took too long.",
}


def register(app: Flask) -> None:
    """Add the API to an application whose pages are registered."""
    for rule in list(app.url_map.iter_rules()):
        if _is_json_page(rule):
            app.add_url_rule(
                api_path(rule),
                f"api.{rule.endpoint}",
                app.view_functions[rule.endpoint],
                defaults=rule.defaults,
            )
    app.add_url_rule(
        f"{PREFIX}/reports/<report_id>",
        "api.reports.report",
        app.view_functions["reports.report_twin"],
        defaults={"ending": "json"},
    )
    app.add_url_rule(f"{PREFIX}/openapi.json", "api.openapi", openapi)


def _is_json_page(rule: Rule) -> bool:
    return (rule.defaults or {}).get("form") == "json"


def api_path(rule: Rule) -> str:
    """Return the rule of the API for the rule of a JSON twin."""
    return PREFIX + rule.rule.removesuffix(".json")


def openapi() -> Response:
    """Serve the OpenAPI description."""
    rules = [rule for rule in current_app.url_map.iter_rules() if _is_json_page(rule)]
    paths = tuple(
        sorted(
            (rule.rule, rule.endpoint.removeprefix("api.").removesuffix("_json"))
            for rule in rules
            if rule.rule.startswith(f"{PREFIX}/")
        )
    )
    return respond(_description(paths), "application/json")


@cache
def _description(paths: tuple[tuple[str, str], ...]) -> str:
    schemas = Schemas()
    described = {
        re.sub(r"<(\w+)>", r"{\1}", path): {"get": _operation(path, endpoint, schemas)}
        for path, endpoint in paths
    }
    described[f"{PREFIX}/reports/{{report_id}}"] = {"get": _report_operation()}
    return json_text(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "zcdb",
                "version": __version__,
                "description": "Every page of the site as JSON, in base units: bit/s, us/KB"
                " (1024 bytes), CPUs, s. Reading only.",
            },
            "servers": [{"url": "/"}],
            "paths": dict(sorted(described.items())),
            "components": {
                "schemas": {
                    **schemas.named,
                    "Error": {
                        "type": "object",
                        "properties": {
                            "error": {"type": "string"},
                            "status": {"type": "integer"},
                        },
                        "required": ["error", "status"],
                    },
                }
            },
        }
    )


def _operation(path: str, endpoint: str, schemas: Schemas) -> dict[str, Any]:
    page = PAGES[endpoint]
    envelope = {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "addresses": {"type": "object", "additionalProperties": {"type": "string"}},
            "charts": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["title", "addresses", "charts"],
    }
    content = {"allOf": [envelope, schemas.of(page.content)]}
    return {
        "operationId": endpoint.replace(".", "_"),
        "summary": page.summary,
        "parameters": [*_path_parameters(path), *_query_parameters(page)],
        "responses": _responses(content),
    }


def _responses(content: Schema) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "200": {
            "description": "The content of the page.",
            "content": {"application/json": {"schema": content}},
        },
        **{status: {"description": says, "content": error} for status, says in ERRORS.items()},
    }


def _path_parameters(path: str) -> Iterator[dict[str, Any]]:
    for name in re.findall(r"<(\w+)>", path):
        schema = VARIABLES.get(name, {"type": "string", "minLength": 1, "pattern": "^[^/]+$"})
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(page: Described) -> Iterator[dict[str, Any]]:
    for name in page.parameters:
        schema: Schema = {"type": "string"}
        if name in REPEATED:
            schema = {"type": "array", "items": schema}
        yield {"name": name, "in": "query", "schema": schema, "description": ABOUT.get(name, "")}
    if page.takes_filters:
        for name, factor in FACTORS.items():
            yield {
                "name": name,
                "in": "query",
                "schema": {"type": "array", "items": {"type": "string"}},
                "description": f"{factor.label}: any of these values.",
            }


def _report_operation() -> dict[str, Any]:
    return {
        "operationId": "reports_report",
        "summary": "The frozen bytes of a report",
        "parameters": list(_path_parameters("<report_id>")),
        "responses": _responses({"type": "object"}),
    }
