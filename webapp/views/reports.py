"""/reports: frozen comparisons, whose bytes never change; /q: short addresses of live ones."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flask import Blueprint, Response, redirect, render_template, request
from werkzeug.wrappers import Response as Redirect

from zcdb.report import freeze
from zcdb.store import reports
from zcdb.store.reports import StoredReport
from zcdb.webapp.charts.comparison import RatioRow, ratios
from zcdb.webapp.charts.figure import Figure
from zcdb.webapp.charts.svg import document
from zcdb.webapp.data import database
from zcdb.webapp.errors import Missing, check_id
from zcdb.webapp.kept import kept
from zcdb.webapp.pages import Page, Table, add_page, query_text, respond, whole_response

FOREST_ROWS = 40
FOR_EVER = "public, max-age=31536000, immutable"

blueprint = Blueprint("reports", __name__)


@dataclass(frozen=True, slots=True)
class ReportRow:
    """A report in the list."""

    id: str
    address: str
    title: str
    question: str
    frozen_at: datetime


@dataclass(frozen=True, slots=True)
class ReportsContent:
    """All that the list says."""

    reports: tuple[ReportRow, ...]
    next_after: str | None


@dataclass(frozen=True, slots=True)
class ReportContent:
    """A frozen report as its page shows it: its content, and what stands around it."""

    id: str
    address: str
    title: str
    frozen_at: str
    zcdb_version: str
    live_address: str
    comparison: dict[str, Any]
    text: str
    cite_text: str
    cite_bibtex: str


@dataclass(frozen=True, slots=True)
class MovedRow:
    """A figure that newer data, or a new computation, say differently."""

    place: str
    frozen: str
    now: str


@dataclass(frozen=True, slots=True)
class VerifyContent:
    """What verification found."""

    id: str
    address: str
    title: str
    recomputed: tuple[MovedRow, ...]
    moved: tuple[MovedRow, ...]
    moved_count: int


def address_of(report_id: str, slug: str) -> str:
    """Return the address of a report's page."""
    return f"/reports/{report_id}/{slug}"


def reports_list() -> Page:
    """Return the list of frozen reports, newest first."""
    after = request.args.get("after")
    lines, next_after = reports.report_list(
        database(), after=check_id("report", after) if after else None
    )
    rows = tuple(
        ReportRow(line.id, address_of(line.id, line.slug), line.title, line.query, line.created_at)
        for line in lines
    )
    return Page(
        template="reports.html",
        title="Reports",
        description="Comparisons frozen at addresses that never change.",
        path="/reports",
        content=ReportsContent(rows, next_after),
        table=Table(
            ("id", "title", "frozen_at", "query"),
            [(row.id, row.title, row.frozen_at.isoformat(), row.question) for row in rows],
        ),
        parameters=("after",),
        query=query_text(after=after),
    )


def _stored(report_id: str) -> StoredReport:
    return reports.report(database(), check_id("report", report_id))


def _content(stored: StoredReport) -> ReportContent:
    content = json.loads(stored.content)
    return ReportContent(
        id=stored.id,
        address=address_of(stored.id, stored.slug),
        title=stored.title,
        frozen_at=content["frozen_at"],
        zcdb_version=content["zcdb_version"],
        live_address=f"/compare?{stored.query}",
        comparison=content["comparison"],
        text=content["text"],
        cite_text=(f"{stored.title}. zcdb report {stored.id}, frozen {content['frozen_at'][:10]}."),
        cite_bibtex=(
            f"@misc{{zcdb-{stored.id[:8]},\n  title = {{{stored.title}}},\n"
            f"  howpublished = {{zcdb report}},\n  year = {{{content['frozen_at'][:4]}}},\n"
            f"  note = {{report {stored.id}, frozen {content['frozen_at']}}}\n}}"
        ),
    )


@blueprint.get("/reports/<report_id>")
@blueprint.get("/reports/<report_id>/<slug>")
def report(report_id: str, slug: str = "") -> Response | Redirect:
    """Serve a report's page; another or no slug leads to its own."""
    return kept(lambda: _report(report_id, slug))


def _report(report_id: str, slug: str) -> Response | Redirect:
    stored = _stored(report_id)
    content = _content(stored)
    if slug != stored.slug:
        return redirect(content.address, 301)
    page = Page(
        template="report.html",
        title=stored.title,
        description=f"{stored.title}: a comparison frozen on {content.frozen_at[:10]}.",
        path=f"/reports/{stored.id}",
        content=content,
    )
    return whole_response(
        render_template("report.html", page=page, content=content, figures=_figures(content)),
        "text/html; charset=utf-8",
    )


@blueprint.get("/reports/<report_id>.<ending>")
def report_twin(report_id: str, ending: str) -> Response:
    """Serve a report's frozen bytes, or its text, table or picture made from them."""
    stored = _stored(report_id)
    content = _content(stored)
    if ending == "json":
        response = respond(stored.content.decode(), "application/json")
    elif ending == "txt":
        response = respond(content.text, "text/plain; charset=utf-8")
    elif ending == "csv":
        response = respond(_csv(content), "text/csv; charset=utf-8")
    elif ending == "svg" and (figures := _figures(content)):
        response = respond(document(figures[0]), "image/svg+xml")
    else:
        raise Missing(
            f"Report {report_id} has no form {ending!r}; it has json, txt, csv and svg.",
            back=content.address,
            back_label="The report",
        )
    if ending in ("json", "txt"):
        response.headers["Cache-Control"] = FOR_EVER
    return response


@blueprint.get("/reports/<report_id>/inputs.json")
def inputs(report_id: str) -> Response:
    """Serve the report with its inputs: the file that 'zcdb report verify' reads."""
    response = respond(freeze.to_file(_stored(report_id)).decode(), "application/json")
    response.headers["Cache-Control"] = FOR_EVER
    return response


def verify(report_id: str) -> Page:
    """Return what comes out of computing a report again: from its inputs, and from today's data."""
    stored = _stored(report_id)
    recomputed = freeze.verify(stored)
    moved = freeze.today(database(), stored)
    return Page(
        template="report_verify.html",
        title=f"Verification of {stored.title}",
        description="Every figure computed again from the stored inputs, and from newer data.",
        path=f"/reports/{stored.id}/verify",
        content=VerifyContent(
            stored.id,
            address_of(stored.id, stored.slug),
            stored.title,
            tuple(_moved(one) for one in recomputed),
            tuple(_moved(one) for one in moved[:200]),
            len(moved),
        ),
    )


def _moved(one: freeze.Moved) -> MovedRow:
    return MovedRow(
        one.place,
        json.dumps(one.frozen, ensure_ascii=False)[:200],
        json.dumps(one.now, ensure_ascii=False)[:200],
    )


def _figures(content: ReportContent) -> tuple[Figure, ...]:
    figures = []
    for metric in content.comparison["metrics"]:
        rows = [
            RatioRow(
                pair["name"] or "",
                pair["verdict"]["word"],
                pair["verdict"]["ratio"],
                pair["verdict"]["low"],
                pair["verdict"]["high"],
            )
            for pair in metric["pairs"][:FOREST_ROWS]
            if pair["verdict"] and pair["verdict"]["ratio"] is not None
        ]
        if rows and metric["is_judged"]:
            key = f"forest-{metric['metric'].replace('_', '-')}"
            figures.append(ratios(key, metric["metric"], rows, content.comparison["matters"]))
    return tuple(figures)


def _csv(content: ReportContent) -> str:
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    verdict = ("ratio", "low", "high", "level", "p_adjusted", "word")
    writer.writerow(
        (
            *("metric", "method", "unit", "pair", "baseline_case", "candidate_case"),
            *("baseline_n", "baseline_mean", "candidate_n", "candidate_mean", *verdict),
        )
    )
    for metric in content.comparison["metrics"]:
        for pair in metric["pairs"]:
            sides = [pair[name]["statistic"] or {} for name in ("baseline", "candidate")]
            judged = pair["verdict"] or {}
            row = [
                *(metric["metric"], metric["method"], metric["unit"], pair["name"]),
                *(pair["baseline"]["case_id"], pair["candidate"]["case_id"]),
                *(sides[0].get("n"), sides[0].get("mean")),
                *(sides[1].get("n"), sides[1].get("mean")),
                *(judged.get(name) for name in verdict),
            ]
            writer.writerow(["" if cell is None else cell for cell in row])
    return written.getvalue()


@blueprint.get("/q/<link_id>")
def short(link_id: str) -> Redirect:
    """Lead from a short address to the state it stands for."""
    path, query = reports.link(database(), check_id("short address", link_id))
    return redirect(f"{path}?{query}" if query else path, 302)


add_page(blueprint, "/reports", reports_list)
add_page(blueprint, "/reports/<report_id>/verify", verify)
