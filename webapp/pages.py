"""A page and its twins: one content, served as HTML, JSON, CSV and chart descriptions.

A view builds a `Page`; everything that all pages share happens here: which
query parameters are known, the ETag and cache headers, compression, and the
addresses of the twins.  What a page says is not decided here.
"""

from __future__ import annotations

import csv
import dataclasses
import gzip
import hashlib
import io
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import urlencode

from flask import Blueprint, Response, render_template, request
from werkzeug.exceptions import BadRequest
from werkzeug.wrappers import Response as Redirect

from zcdb.webapp.charts.figure import Figure, Numbers, numbers
from zcdb.webapp.charts.plotly_json import plotly_figure
from zcdb.webapp.charts.svg import document
from zcdb.webapp.errors import Missing
from zcdb.webapp.kept import kept

Form = Literal["html", "json", "csv", "chart", "chart_svg", "chart_csv"]
Cell = str | int | float | bool | None

CHART_FORMS = {"plotly.json": "chart", "svg": "chart_svg", "csv": "chart_csv"}
"""Ending of a chart's address -> form."""

CHART_CSV_ROWS = 100_000

CHARTS_DRAWN = 2
POINTS_DRAWN = 300
NUMBERS_SHOWN = 80
"""What a page holds of its charts: a drawing of forty cases weighs as much as a whole page."""

PACK_FROM_BYTES = 1024
"""Answers shorter than this are not worth compressing."""


@dataclass(frozen=True, slots=True)
class Table:
    """The CSV twin of a page: numbers in base units, which the column names carry.

    Attributes:
        rows: read once, and only where CSV is asked for: a generator costs the other forms nothing.
    """

    columns: Sequence[str]
    rows: Iterable[Sequence[Cell]]


@dataclass(frozen=True, slots=True)
class Page:
    """What a view hands over.

    Attributes:
        path: the canonical address, without its query.
        content: a frozen dataclass: the whole JSON twin, and all that the template shows.
        figures: the charts, in the order shown; each has an address of its own.
        parameters: the query parameters that this page knows.
    """

    template: str
    title: str
    description: str
    path: str
    content: Any
    figures: tuple[Figure, ...] = ()
    table: Table | None = None
    parameters: tuple[str, ...] = ()
    query: str = ""

    def figure(self, key: str) -> Figure | None:
        """Return the chart of this key, or None."""
        return next((figure for figure in self.figures if figure.key == key), None)

    @property
    def drawn(self) -> tuple[Figure, ...]:
        """The charts that the page holds: the first ones, up to `POINTS_DRAWN` points in all."""
        points = itertools.accumulate(figure.points for figure in self.figures)
        return tuple(
            figure
            for place, (figure, so_far) in enumerate(zip(self.figures, points, strict=True))
            if place < CHARTS_DRAWN or so_far <= POINTS_DRAWN
        )

    @property
    def listed(self) -> tuple[Figure, ...]:
        """The other charts: they are a link away, so that a large run's page stays light."""
        return self.figures[len(self.drawn) :]

    def numbers(self, figure: Figure) -> Numbers | None:
        """Return the table twin of a chart; None where only its CSV has so many rows."""
        found = numbers(figure)
        return found if len(found.rows) <= NUMBERS_SHOWN else None

    def twin(self, ending: str) -> str:
        """Return the address of the twin with this ending ("json", "csv")."""
        return f"{'/index' if self.path == '/' else self.path}.{ending}{self.query}"

    def chart_address(self, figure: Figure, ending: str = "plotly.json") -> str:
        """Return the address of a chart: its description for Plotly, "svg" or "csv"."""
        return f"{self.path.rstrip('/')}/charts/{figure.key}.{ending}{self.query}"


def query_text(**parameters: str | int | None) -> str:
    """Return "?name=value" of the parameters that have a value; "" if none has."""
    stated = {name: value for name, value in parameters.items() if value}
    return f"?{urlencode(stated)}" if stated else ""


def to_json(value: Any) -> Any:
    """Return plain JSON data for frozen dataclasses, mappings, sequences and times."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {str(key): to_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(entry) for entry in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value


def json_text(value: Any) -> str:
    """Return JSON as it is served; NaN is a bug and raises ValueError."""
    return json.dumps(to_json(value), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _csv_text(table: Table) -> str:
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(["" if cell is None else cell for cell in row] for row in table.rows)
    return written.getvalue()


def _unknown_parameters(page: Page) -> list[str]:
    return sorted(set(request.args) - set(page.parameters))


def _body(page: Page, form: Form, chart: str) -> tuple[str, str]:
    """Return (text, content type) of one form of the page."""
    if form == "html":
        return render_template(
            page.template, page=page, content=page.content, unknown=_unknown_parameters(page)
        ), "text/html; charset=utf-8"
    if unknown := _unknown_parameters(page):
        raise BadRequest(
            f"This address does not know the parameter {', '.join(map(repr, unknown))}; "
            f"it knows {', '.join(page.parameters) or 'none'}."
        )
    if form == "json":
        twins = {"html": page.path + page.query, "json": page.twin("json")}
        if page.table:
            twins["csv"] = page.twin("csv")
        charts = {figure.key: page.chart_address(figure) for figure in page.figures}
        answer = {"title": page.title, "addresses": twins, "charts": charts}
        return json_text(answer | to_json(page.content)), "application/json"
    if form == "csv" and page.table is not None:
        return _csv_text(page.table), "text/csv; charset=utf-8"
    figure = page.figure(chart) if form.startswith("chart") else None
    if figure is None:
        raise Missing(
            f"The page {page.path} has no {'chart ' + repr(chart) if chart else 'CSV table'}.",
            back=page.path,
            back_label="The page",
        )
    if form == "chart_svg":
        return document(figure), "image/svg+xml"
    if form == "chart_csv":
        points = numbers(figure, limit=CHART_CSV_ROWS)
        return _csv_text(Table(points.columns, points.rows)), "text/csv; charset=utf-8"
    return json_text(plotly_figure(figure)), "application/json"


def respond(text: str, content_type: str, status: int = 200) -> Response:
    """Return a response as `whole_response` does; where the client has it already, that it has."""
    response = whole_response(text, content_type, status)
    if status == 200:
        response.make_conditional(request)
    return response


def whole_response(text: str, content_type: str, status: int = 200) -> Response:
    """Return a response with ETag, revalidation on every use, and gzip where it is accepted."""
    body = text.encode()
    etag = hashlib.sha256(body).hexdigest()[:24]
    is_packed = len(body) >= PACK_FROM_BYTES and "gzip" in request.headers.get(
        "Accept-Encoding", ""
    )
    if is_packed:
        body, etag = gzip.compress(body, compresslevel=6, mtime=0), f"{etag}-gzip"
    response = Response(body, status=status, content_type=content_type)
    response.headers["Vary"] = "Accept-Encoding"
    # Results are added at any time: keep a copy, but ask before showing it.
    response.headers["Cache-Control"] = "no-cache"
    if is_packed:
        response.headers["Content-Encoding"] = "gzip"
    if status == 200:
        response.set_etag(etag)
    return response


def add_page(blueprint: Blueprint, rule: str, build: Callable[..., Page]) -> None:
    """Register a page at `rule`, and its twins beside it.

    Args:
        build: takes the rule's variables and returns the page.
    """
    stem = "/index" if rule == "/" else rule
    below = rule.rstrip("/")

    def view(form: Form, chart: str = "", **variables: str) -> Response | Redirect:
        return kept(lambda: whole_response(*_body(build(**variables), form, chart)))

    name = build.__name__
    blueprint.add_url_rule(rule, name, view, defaults={"form": "html"})
    blueprint.add_url_rule(f"{stem}.json", f"{name}_json", view, defaults={"form": "json"})
    blueprint.add_url_rule(f"{stem}.csv", f"{name}_csv", view, defaults={"form": "csv"})
    for ending, form in CHART_FORMS.items():
        blueprint.add_url_rule(
            f"{below}/charts/<chart>.{ending}", f"{name}_{form}", view, defaults={"form": form}
        )
