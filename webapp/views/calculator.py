"""/calculator: CPUs at a rate, what is left of a machine, and from which share sendfile gains."""

from __future__ import annotations

from flask import Blueprint, request
from werkzeug.exceptions import BadRequest

from zcdb import units
from zcdb.metrics import HEADLINE_CPU_METHOD
from zcdb.store.queries import explore as exploring
from zcdb.store.queries import feed
from zcdb.store.queries import questions as queries
from zcdb.webapp.data import database
from zcdb.webapp.errors import check_id
from zcdb.webapp.labels import case_name
from zcdb.webapp.pages import Page, Table, add_page, query_text
from zcdb.webapp.present import calculator as present
from zcdb.webapp.present.calculator import (
    DEFAULT_CPUS,
    DEFAULT_RATE_BPS,
    PLACES,
    CalculatorContent,
    Preset,
)

CASES_OFFERED = 40
SHARES_OFFERED = 12
GROUPS_READ = 40
"""Groups of cases in which quadruples are looked for; the ones with the newest cases."""

MOVING = ("api", "sender_kernel", "receiver_kernel", "sg", "tx_checksum")

blueprint = Blueprint("calculator", __name__)


def calculator() -> Page:
    """Return the page."""
    rate_bps, cpus = _rate(), _cpus()
    ids = {name: request.args.get(name) or "" for name in ("case", *PLACES)}
    asked = [check_id("case", ids[name]) for name in ("case", *PLACES) if ids[name]]
    cases = {case.case_id: case for case in queries.figures(database(), asked)}
    one = cases.get(ids["case"])
    four = [cases[ids[name]] for name in PLACES if ids[name]]
    is_whole = len(four) == len(PLACES)
    shares, says = present.share_figures(four) if is_whole else ((), "")
    content = CalculatorContent(
        case=present.chosen("case", one) if one else None,
        four=tuple(
            present.chosen(name, case, four) for name, case in zip(PLACES, four, strict=True)
        )
        if is_whole
        else (),
        rate_text=_rate_text(rate_bps),
        cpus=cpus,
        rate=present.rate_figures(one, rate_bps, cpus) if one else (),
        share=shares,
        share_says=says,
        case_presets=_case_presets(),
        share_presets=_share_presets(),
        problem=f"The share needs all of {', '.join(PLACES)}." if four and not is_whole else "",
        revision=feed.data_revision(database()),
    )
    return Page(
        template="calculator.html",
        title="Calculator",
        description="What a measured cost per byte means for a server.",
        path="/calculator",
        content=content,
        table=Table(
            ("figure", "value", "low", "high", "unit", "formula"),
            [
                (one.label, one.value, one.low, one.high, one.unit, one.formula)
                for one in (*content.rate, *content.share)
            ],
        ),
        parameters=("case", *PLACES, "rate", "cpus"),
        query=query_text(
            **ids,
            rate=None if rate_bps == DEFAULT_RATE_BPS else _rate_text(rate_bps),
            cpus=None if cpus == DEFAULT_CPUS else cpus,
        ),
    )


def _rate() -> int:
    text = request.args.get("rate") or ""
    if not text:
        return DEFAULT_RATE_BPS
    try:
        rate = units.parse_rate(text)
    except ValueError as error:
        raise BadRequest(f"rate: {error}; 100gbit is one.") from None
    if rate <= 0:
        raise BadRequest(f"rate={text!r} must be above 0; 100gbit is one.")
    return rate


def _rate_text(rate_bps: int) -> str:
    """Return a rate as its parameter spells it."""
    for size, unit in ((10**9, "gbit"), (10**6, "mbit"), (10**3, "kbit")):
        if rate_bps % size == 0:
            return f"{rate_bps // size}{unit}"
    return f"{rate_bps}bit"


def _cpus() -> int:
    text = request.args.get("cpus") or str(DEFAULT_CPUS)
    if not (text.isascii() and text.isdecimal() and len(text) < 6):
        raise BadRequest(f"cpus={text!r} is not a whole number of CPUs.")
    if not 1 <= int(text) <= present.CPUS_LIMIT:
        raise BadRequest(f"cpus={text} must be 1 to {present.CPUS_LIMIT}.")
    return int(text)


def _case_presets() -> tuple[Preset, ...]:
    """Return the newest cases that have a service demand."""
    asked = exploring.Asked(
        filters={}, words=(), rows="", columns="", metric="throughput", method="",
        limit=CASES_OFFERED,
    )  # fmt: skip
    found = exploring.explore(database(), asked).cases
    return tuple(
        Preset(case_name(case.factors), case.case_id)
        for case in found
        if any(
            one.metric == "service_demand_sender"
            and one.method == HEADLINE_CPU_METHOD
            and one.mean is not None
            for one in case.statistics
        )
    )


def _share_presets() -> tuple[Preset, ...]:
    """Return quadruples of cases that all have a service demand."""
    groups = queries.groups(database(), MOVING, limit=GROUPS_READ)
    quadruples = [four for group in groups.groups for four in present.fours(group)]
    keys = {key for _, four in quadruples[:SHARES_OFFERED] for key in four}
    cases = queries.figures_of(database(), keys)
    presets = []
    for switched, four in quadruples[:SHARES_OFFERED]:
        chosen = [cases[key] for key in four]
        if all(present.demand(case, "sender") for case in chosen):
            query = query_text(**dict(zip(PLACES, [case.case_id for case in chosen], strict=True)))
            name = present.preset_name(chosen, switched)
            presets.append(Preset(name, f"/calculator{query}"))
    return tuple(presets)


add_page(blueprint, "/calculator", calculator)
