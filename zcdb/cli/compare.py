"""`zcdb compare`: two levels of a factor, two cases or two runs, judged."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from zcdb.report.compare import ComparisonReport, Question
    from zcdb.store.session import Database

EXIT_GATE = 1
FORMATS = ("text", "markdown", "csv", "json", "latex")


@click.command("compare")
@click.argument("baseline", metavar="A")
@click.argument("candidates", metavar="B...", nargs=-1, required=True)
@click.option("--where", multiple=True, metavar="FACTOR=VALUE", help="Only cases with this value.")
@click.option(
    "--metric", "metrics", multiple=True, metavar="NAME", help="What to judge; may repeat."
)
@click.option("--method", default="soak", show_default=True, help="CPU method of CPU metrics.")
@click.option("--matters", default="2%", show_default=True, help="Smaller differences are equal.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option(
    "--fail-if",
    "gate",
    type=click.Choice(["worse", "different", "undecided"]),
    help="Exit 1 if any pair is so: a regression gate.",
)
@click.option("--database", metavar="PATH|URL", help="Where to read; default: the user's own.")
def compare_command(
    baseline: str,
    candidates: tuple[str, ...],
    where: tuple[str, ...],
    metrics: tuple[str, ...],
    method: str,
    matters: str,
    form: str,
    as_json: bool,
    gate: str | None,
    database: str | None,
) -> None:
    """Compare A with B, everything else equal.

    A and B are levels of one factor (api=write sendfile), ids of cases, or ids
    of runs.  Every pair of cases that differs in this alone is compared, block
    by block where one run measured both; all pairs are judged together.

    \b
    Examples:
        zcdb compare api=write sendfile msg_zerocopy --where message_size=64K
        zcdb compare sender_kernel=6.1.0 6.12.0 --metric service_demand_sender
        zcdb compare 0193f5c2 0193f611 --fail-if worse

    \b
    Exit codes: 0 done; 1 the --fail-if condition holds; 2 wrong usage.
    """
    from zcdb.report import compare as comparing
    from zcdb.store.session import open_database

    store = open_database(database)
    try:
        question = _question(store, baseline, candidates, where, metrics, method, matters)
        report = comparing.compare(store, question)
    finally:
        store.dispose()
    click.echo(_rendered(report, "json" if as_json else form), nl=False)
    if gate and _holds(report, gate):
        click.echo(f"A pair is {gate}.", err=True)
        sys.exit(EXIT_GATE)


def _question(
    store: Database,
    baseline: str,
    candidates: tuple[str, ...],
    where: tuple[str, ...],
    metrics: tuple[str, ...],
    method: str,
    matters: str,
) -> Question:
    from zcdb.errors import UsageError
    from zcdb.report.asking import ask_factor, margin
    from zcdb.report.compare import DEFAULT_METRICS

    others: dict[str, Any] = {
        "metrics": metrics or DEFAULT_METRICS,
        "method": method,
        "matters": margin(matters, "--matters"),
    }
    if "=" in baseline:
        factor, _, first = baseline.partition("=")
        levels = [value.removeprefix(f"{factor}=") for value in candidates]
        return ask_factor(factor, first, levels, _filters(where), **others)
    if where:
        raise UsageError("--where filters cases along a factor; two ids name their cases")
    return _about_ids(store, (baseline, *candidates), **others)


def _filters(where: tuple[str, ...]) -> dict[str, list[str]]:
    from zcdb.errors import UsageError

    filters: dict[str, list[str]] = {}
    for text in where:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--where {text!r} is not FACTOR=VALUE")
        filters.setdefault(name, []).append(value)
    return filters


def _about_ids(store: Database, ids: tuple[str, ...], **others: Any) -> Question:
    from zcdb.errors import UsageError
    from zcdb.report.asking import ask_ids
    from zcdb.store import queries

    found = [queries.find(store, prefix) for prefix in ids]
    kinds = {thing.kind for thing in found}
    if len(kinds) != 1 or kinds & {"trial", "environment", "experiment"}:
        raise UsageError(
            f"{', '.join(f'{thing.id[:13]} is a {thing.kind}' for thing in found)};"
            " compare cases with cases or runs with runs",
            hint="levels of a factor are written api=write sendfile",
        )
    ids_found = [thing.id for thing in found]
    return ask_ids(f"{kinds.pop()}s", ids_found[0], ids_found[1:], **others)


def _rendered(report: ComparisonReport, form: str) -> str:
    import json

    from zcdb.report import compare_render as render

    if form == "json":
        return json.dumps(render.to_json(report), indent=2, ensure_ascii=False) + "\n"
    writers = {
        "text": render.render_text,
        "markdown": render.render_markdown,
        "csv": render.render_csv,
        "latex": render.render_latex,
    }
    return writers[form](report)


def _holds(report: ComparisonReport, gate: str) -> bool:
    words = {word for metric in report.metrics for word in metric.words}
    return bool(words & ({"better", "worse"} if gate == "different" else {gate}))
