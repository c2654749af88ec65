"""/flags: main effects and interactions of on/off settings."""

from __future__ import annotations

from flask import Blueprint

from zcdb.store.queries import feed
from zcdb.store.queries import questions as queries
from zcdb.webapp.addresses import filter_query
from zcdb.webapp.asked import filter_names, read_filters
from zcdb.webapp.data import database
from zcdb.webapp.pages import Page, Table, add_page
from zcdb.webapp.present.flags_page import (
    METRIC_KEYS,
    MOVING,
    FlagsContent,
    candidate_designs,
    designs_of,
    flags_content,
)

DESIGNS_READ = 24
"""Groups of cases whose values are read; the ones with the newest cases."""

DESIGNS_SHOWN = 12

blueprint = Blueprint("flags_page", __name__)


def flags() -> Page:
    """Return the page."""
    filters = read_filters()
    groups = queries.groups(database(), MOVING, where=filters)
    candidates = [keys for group in groups.groups for keys in candidate_designs(group)]
    read = queries.cases_by_block(database(), candidates[:DESIGNS_READ], METRIC_KEYS)
    found = [design for cases in read for design in designs_of(cases)]
    # A link that is full has the same throughput whatever is switched on: costs first.
    found.sort(key=lambda design: design.metric == "throughput")
    content = flags_content(
        found[:DESIGNS_SHOWN],
        max(0, len(found) - DESIGNS_SHOWN) + max(0, len(candidates) - DESIGNS_READ),
        feed.data_revision(database()),
    )
    return Page(
        template="flags.html",
        title="On/off settings",
        description="What on/off settings do alone and together, from full factorials.",
        path="/flags",
        content=content,
        table=_table(content),
        parameters=filter_names(),
        query=filter_query(filters),
    )


def _table(content: FlagsContent) -> Table:
    return Table(
        (
            *("where", "metric", "method", "unit", "kind", "effect", "estimate", "low", "high"),
            *("level", "p_value", "blocks"),
        ),
        [
            (
                *(design.where, design.metric, design.method, design.unit, row.kind, row.name),
                *(row.estimate, row.low, row.high, design.level, row.p_value, design.blocks),
            )
            for design in content.designs
            for row in design.rows
        ],
    )


add_page(blueprint, "/flags", flags)
