"""/buy and /buy/<use>: which network card to buy for what."""

from __future__ import annotations

from flask import Blueprint, Response, current_app, request
from werkzeug.exceptions import BadRequest

from zcdb.nics.advice import Filters, preset_filters
from zcdb.nics.advice_measured import Observations
from zcdb.nics.usecases import UseCase, load_use_cases
from zcdb.store.queries.nics import nic_cases, stored_claims
from zcdb.webapp.data import database
from zcdb.webapp.errors import Missing
from zcdb.webapp.pages import Page, Table, add_page, respond
from zcdb.webapp.present.buy import Probes, UseContent, buy_content, kernel_words, use_content
from zcdb.webapp.present.nic_asked import PARAMETERS, Asked, UnknownWord, asked, query_of
from zcdb.webapp.present.nic_cells import probes_of
from zcdb.webapp.present.nic_measured import observations_of

blueprint = Blueprint("buy", __name__)

_MEASURED = "zcdb_measured_over_cards"


def _what_was_asked(preset: Filters | None = None) -> Asked:
    try:
        return asked(request.args.to_dict(flat=False), preset)
    except UnknownWord as error:
        raise BadRequest(str(error)) from error


def _use(name: str) -> UseCase:
    uses = load_use_cases()
    if name not in uses:
        raise Missing(
            f"There is no advice for a use {name!r}; there is for {', '.join(uses)}.",
            back="/buy",
            back_label="All uses",
        )
    return uses[name]


def buy() -> Page:
    """Return the uses and what comes first for each."""
    state = _what_was_asked()
    pairs = [(name, value) for name, value in state.stated if name == "kernel"]
    content = buy_content(state, query_of(pairs), _observations(), _probes())
    return Page(
        template="buy.html",
        title="Which network card to buy",
        description="Advice from the kernel's source and from measurements, for nine uses.",
        path="/buy",
        content=content,
        table=Table(
            ("use", "verdict", "cards", "first"),
            [
                (line.use, word, count, "; ".join(line.first) if word == "recommended" else None)
                for line in content.uses
                for word, _, count in line.counts
            ],
        ),
        parameters=("kernel",),
        query=query_of(pairs),
    )


def use(use: str) -> Page:
    """Return the grouped verdicts for a use."""
    wanted = _use(use)
    state = _what_was_asked(preset_filters(wanted))
    content = use_content(wanted, state, _observations(), _probes())
    return Page(
        template="buy_use.html",
        title=f"Which network card for {content.title[:1].lower()}{content.title[1:]}",
        description=f"{content.question} Verdicts for {kernel_words(state)}.",
        path=f"/buy/{use}",
        content=content,
        table=_verdicts(content),
        parameters=PARAMETERS,
        query=query_of(state.stated),
    )


def _observations() -> Observations:
    """Return what was measured over cards; read once while nothing is committed."""
    revision = database().revision()
    known: tuple[str, Observations] | None = current_app.extensions.get(_MEASURED)
    if known is None or known[0] != revision:
        known = (revision, observations_of(nic_cases(database())))
        current_app.extensions[_MEASURED] = known
    return known[1]


def _probes() -> Probes:
    return probes_of(stored_claims(database()))


def _verdicts(content: UseContent) -> Table:
    return Table(
        (
            *("card", "driver", "verdict", "rule", "evidence", "speed", "tone", "about", "says"),
            *("places", "stated"),
        ),
        [
            (
                *(one.name, one.driver, group.word, one.rule, one.level, one.speed),
                *(reason.tone, reason.what, reason.text),
                " ".join(source.place for source in reason.sources),
                "; ".join(dict.fromkeys(source.stated for source in reason.sources)),
            )
            for group in content.groups
            for one in group.verdicts
            for reason in one.reasons
        ],
    )


def experiment_file(use: str) -> Response:
    """Return the experiment file that would settle what is open, fit for 'zcdb run'."""
    return respond(_use(use).experiment_file, "application/toml; charset=utf-8")


add_page(blueprint, "/buy", buy)
add_page(blueprint, "/buy/<use>", use)
blueprint.add_url_rule("/buy/<use>.toml", "experiment_file", experiment_file)
