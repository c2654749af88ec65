"""/methods and /methods/<topic>: how every figure is got."""

from __future__ import annotations

from flask import Blueprint

from zcdb.webapp.errors import Missing
from zcdb.webapp.pages import Page, Table, add_page
from zcdb.webapp.present.methods import TOPICS, TopicContent, methods_content, topic_content

METRIC_COLUMNS = ("metric", "label", "unit", "better", "formula")

blueprint = Blueprint("methods", __name__)


def methods() -> Page:
    """Return the page of all words, written from the registries."""
    content = methods_content()
    return Page(
        template="methods.html",
        title="How every figure is got",
        description="Metrics with their formula and unit, CPU methods, verdicts, flags, factors.",
        path="/methods",
        content=content,
        table=Table(
            METRIC_COLUMNS,
            [
                (metric.name, metric.label, metric.unit, metric.better, metric.formula)
                for metric in content.metrics
            ],
        ),
    )


def topic(topic: str) -> Page:
    """Return the page of a topic."""
    known = TOPICS.get(topic)
    if known is None:
        raise Missing(
            f"There is no topic {topic!r}; there is {', '.join(TOPICS)}.",
            back="/methods",
            back_label="All methods",
        )
    content = topic_content(known)
    return Page(
        template="methods_topic.html",
        title=known.title,
        description=known.says,
        path=f"/methods/{topic}",
        content=content,
        table=_table(content),
    )


def _table(content: TopicContent) -> Table | None:
    if content.metrics:
        return Table(
            METRIC_COLUMNS,
            [(one.name, one.label, one.unit, one.better, one.formula) for one in content.metrics],
        )
    if content.words:
        return Table(("word", "says"), [(word.name, word.says) for word in content.words])
    if content.factors:
        return Table(
            ("factor", "kind", "type", "default", "help"),
            [
                (row.factor.name, row.factor.kind, row.factor.type, row.default, row.factor.help)
                for row in content.factors
            ],
        )
    return None


add_page(blueprint, "/methods", methods)
add_page(blueprint, "/methods/<topic>", topic)
