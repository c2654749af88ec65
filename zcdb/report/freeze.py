"""Frozen comparisons: the answer of today at an address made from its bytes.

A report holds what the comparison said, in numbers and in text; beside it stand
its inputs, every stored value that went in.  `verify` computes all of it again
from the inputs, `today` asks the database anew and says what has moved.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from zcdb import __version__
from zcdb.errors import UsageError, ZcdbError
from zcdb.ids import Json, canonical_json
from zcdb.report import compare as comparing
from zcdb.report import compare_render as render
from zcdb.report.asking import ask, words_of
from zcdb.report.compare import ComparisonReport, Question
from zcdb.report.plain import plain
from zcdb.store import reports
from zcdb.store.queries.compare import Key, Pair, Pairs, Side
from zcdb.store.reports import StoredReport
from zcdb.store.results import Statistic
from zcdb.store.session import Database

SCHEMA_VERSION = 1
TITLE_LIMIT = 200
CLOSE = 1e-9
"""Relative difference up to which a number is the same: another machine's last digit."""


class ReportError(ZcdbError):
    """A report that cannot be made or read, in one sentence."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A figure that is not what the report says.

    Attributes:
        place: where in the report: "throughput, message size 4 KiB: ratio".
    """

    place: str
    frozen: Json
    now: Json


def freeze(db: Database, query: str, title: str, at: datetime | None = None) -> StoredReport:
    """Answer a question now, store the answer for ever and return it.

    Args:
        query: as in the address of /compare: "axis=api&a=write&b=sendfile".

    Raises:
        UsageError: for a query that asks nothing, or a title that is none.
        ReportError: if there is nothing to compare.
    """
    if not title.strip() or len(title) > TITLE_LIMIT:
        raise UsageError(f"a title has 1 to {TITLE_LIMIT} characters, got {len(title)}")
    question = ask(words_of(query))
    pairs = comparing.find_pairs(db, question)
    report = comparing.make_report(question, pairs)
    if not report.found:
        raise ReportError(
            "no two cases differ in this alone, so there is nothing to freeze",
            hint="'zcdb compare' and the page /compare show what there is.",
        )
    moment = (at or datetime.now(UTC)).astimezone(UTC).replace(microsecond=0)
    made = _stored(question, pairs, report, title.strip(), moment)
    reports.add_report(db, made)
    return made


def _stored(
    question: Question, pairs: Pairs, report: ComparisonReport, title: str, moment: datetime
) -> StoredReport:
    content = canonical_json(
        {
            "schema_version": SCHEMA_VERSION,
            "title": title,
            "frozen_at": moment.isoformat().replace("+00:00", "Z"),
            "zcdb_version": __version__,
            "query": question.query(),
            "comparison": render.to_json(report),
            "text": render.render_text(report),
        }
    ).encode()
    inputs = canonical_json(inputs_of(pairs)).encode()
    return StoredReport(
        reports.report_id(content), title, slug_of(title), question.query(), moment, content, inputs
    )


def slug_of(title: str) -> str:
    """Return a title as it stands in an address: lower case, words joined by '-'."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60].strip("-") or "report"


# -- inputs -------------------------------------------------------------------------------------


def inputs_of(pairs: Pairs) -> dict[str, Json]:
    """Return every stored value behind a comparison as plain JSON; each case once."""
    sides = {side.case_id: side for pair in pairs.pairs for side in (pair.baseline, pair.candidate)}
    is_of_runs = any(
        sides[side.case_id] != side
        for pair in pairs.pairs
        for side in (pair.baseline, pair.candidate)
    )
    if is_of_runs:
        # Two runs may have measured one case: each side keeps its own figures.
        cases: dict[str, Json] = {}
        listed: list[Json] = [
            [_side(pair.baseline), _side(pair.candidate), _blocks(pair)] for pair in pairs.pairs
        ]
    else:
        cases = {case_id: _side(side) for case_id, side in sides.items()}
        listed = [
            [pair.baseline.case_id, pair.candidate.case_id, _blocks(pair)] for pair in pairs.pairs
        ]
    return {
        "cases": cases,
        "pairs": listed,
        "found": pairs.found,
        "unpaired": [list(one) for one in pairs.unpaired],
        "failed": pairs.failed,
        "environments": {name: list(facts) for name, facts in pairs.environments.items()},
    }


def _side(side: Side) -> dict[str, Json]:
    return {
        "case_id": side.case_id,
        "factors_json": side.factors_json,
        "statistics": [plain(one) for _, one in sorted(side.statistics.items())],
    }


def _blocks(pair: Pair) -> list[Json]:
    return [
        [metric, method, [list(both) for both in values]]
        for (metric, method), values in sorted(pair.blocks.items())
    ]


def pairs_from(inputs: Mapping[str, Any]) -> Pairs:
    """Return the pairs that inputs hold.

    Raises:
        ReportError: if they are not the inputs of a report.
    """
    try:
        sides = {case_id: _side_from(data) for case_id, data in inputs["cases"].items()}

        def side(data: Any) -> Side:
            return sides[data] if isinstance(data, str) else _side_from(data)

        return Pairs(
            tuple(Pair(side(a), side(b), _blocks_from(blocks)) for a, b, blocks in inputs["pairs"]),
            inputs["found"],
            tuple((level, cases) for level, cases in inputs["unpaired"]),
            inputs["failed"],
            {name: tuple(facts) for name, facts in inputs["environments"].items()},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ReportError(f"these are not the inputs of a report ({error!r})") from None


def _side_from(data: Mapping[str, Any]) -> Side:
    statistics: dict[Key, Statistic] = {}
    for one in data["statistics"]:
        statistics[one["metric"], one["method"]] = Statistic(**one)
    return Side(data["case_id"], data["factors_json"], statistics)


def _blocks_from(blocks: list[Any]) -> dict[Key, tuple[tuple[float, float], ...]]:
    return {(metric, method): tuple((a, b) for a, b in values) for metric, method, values in blocks}


# -- checking -----------------------------------------------------------------------------------


def verify(stored: StoredReport) -> list[Moved]:
    """Compute every figure of a report again from its inputs; return what comes out differently.

    Raises:
        ReportError: if the id is not the hash of the content, or inputs do not belong to it.
    """
    if reports.report_id(stored.content) != stored.id:
        raise ReportError(
            f"report {stored.id} was changed: the hash of its content is"
            f" {reports.report_id(stored.content)}"
        )
    content = json.loads(stored.content)
    report = comparing.make_report(
        ask(words_of(content["query"])), pairs_from(json.loads(stored.inputs))
    )
    return list(_differences(content["comparison"], json.loads(_json(report)), ""))


def today(db: Database, stored: StoredReport) -> list[Moved]:
    """Ask a report's question again; return the figures that newer data have moved.

    Raises:
        zcdb.store.queries.NotFound: if a case or run of it is not in this database.
    """
    content = json.loads(stored.content)
    report = comparing.compare(db, ask(words_of(content["query"])))
    return list(_differences(content["comparison"], json.loads(_json(report)), ""))


def _json(report: ComparisonReport) -> str:
    return canonical_json(render.to_json(report))


def _differences(frozen: Any, now: Any, place: str) -> list[Moved]:
    """Return what differs between two JSON values, numbers beyond rounding."""
    if isinstance(frozen, dict) and isinstance(now, dict):
        return [
            moved
            for name in sorted(frozen.keys() | now.keys())
            for moved in _differences(
                frozen.get(name), now.get(name), f"{place}.{name}" if place else name
            )
        ]
    if isinstance(frozen, list) and isinstance(now, list) and len(frozen) == len(now):
        return [
            moved
            for index, (a, b) in enumerate(zip(frozen, now, strict=True))
            for moved in _differences(a, b, f"{place}[{index}]")
        ]
    if isinstance(frozen, int | float) and isinstance(now, int | float):
        is_same = abs(frozen - now) <= CLOSE * max(abs(frozen), abs(now))
        return [] if is_same else [Moved(place, frozen, now)]
    return [] if frozen == now else [Moved(place, frozen, now)]


# -- as a file ----------------------------------------------------------------------------------


def to_file(stored: StoredReport) -> bytes:
    """Return a report with its inputs as one JSON file, which `from_file` reads anywhere."""
    return (
        canonical_json(
            {
                "zcdb_report": SCHEMA_VERSION,
                "id": stored.id,
                "content": json.loads(stored.content),
                "inputs": json.loads(stored.inputs),
            }
        )
        + "\n"
    ).encode()


def from_file(data: bytes, name: str) -> StoredReport:
    """Read a report's file.

    Raises:
        ReportError: if it is none, or if its content is not what its id says.
    """
    try:
        file = json.loads(data)
        content = file["content"]
        stored = StoredReport(
            id=file["id"],
            title=content["title"],
            slug=slug_of(content["title"]),
            query=content["query"],
            created_at=datetime.fromisoformat(content["frozen_at"]),
            content=canonical_json(content).encode(),
            inputs=canonical_json(file["inputs"]).encode(),
        )
        is_whole = reports.report_id(stored.content) == stored.id
    except (KeyError, TypeError, ValueError) as error:
        raise ReportError(f"{name}: not the file of a report ({error!r})") from None
    if not is_whole:
        raise ReportError(f"{name}: was changed: its content is not what its id {stored.id} says")
    return stored
