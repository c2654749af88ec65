"""From which message size on an API pays: where its cost against copying passes 1.

Between two sizes that were measured the ratio is taken as straight on log
scales.  The interval of the size comes from the intervals of the ratios: where
their lower ends pass 1 is the earliest size that the data allow, where the
upper ends do is the size from which on it is beyond doubt.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from zcdb import units
from zcdb.factors import FACTORS, Factors, display, varying
from zcdb.metrics import METRICS
from zcdb.report.compare import ComparisonReport, Row
from zcdb.report.naming import distinguishing, told_text
from zcdb.store.cases import value_text
from zcdb.store.queries.explore import Facet
from zcdb.store.queries.questions import Member
from zcdb.webapp.charts.curves import Curve, CurvePoint
from zcdb.webapp.labels import factor_label, metric_label
from zcdb.webapp.present.explore import Choice
from zcdb.webapp.present.question_answers import PROOF, is_proven
from zcdb.webapp.present.question_list import BASELINE_APIS
from zcdb.webapp.quantities import significant_decimals

Word = Literal["from", "everywhere", "nowhere", "changing"]

MOVING = ("api", "message_size")
CONTEXT = ("sender_kernel", "sender_nic", "sender_cpu", "link")
METRIC_CHOICES = ("service_demand_sender", "service_demand_receiver", "utilisation_sender")


@dataclass(frozen=True, slots=True)
class Crossing:
    """Where a curve begins to pay.

    Attributes:
        word: "from": it pays from `size_bytes` on; "everywhere" or "nowhere" among the sizes
            measured; "changing": it begins or ends to pay more than once, or stops paying.
        size_bytes: None unless the word is "from".
    """

    word: Word
    size_bytes: float | None = None


def crossing(points: Sequence[tuple[int, float]]) -> Crossing:
    """Return where the ratio falls below 1 for good.

    Args:
        points: (size, ratio) by size, one or more; below 1 pays.

    Raises:
        ValueError: without a point.
    """
    if not points:
        raise ValueError("a curve needs a point")
    pays = [ratio < 1 for _, ratio in points]
    if all(pays):
        return Crossing("everywhere")
    if not any(pays):
        return Crossing("nowhere")
    changes = [place for place, (a, b) in enumerate(pairwise(pays)) if a != b]
    if len(changes) > 1 or pays[0]:
        return Crossing("changing")
    (low, first), (high, second) = points[changes[0]], points[changes[0] + 1]
    share = math.log(first) / (math.log(first) - math.log(second))
    return Crossing("from", math.exp(math.log(low) + share * math.log(high / low)))


@dataclass(frozen=True, slots=True)
class BreakEvenRow:
    """An API on one machine, everything but the message size equal.

    Attributes:
        size_bytes: from which on it pays; None unless it begins to within the sizes measured.
        low_bytes, high_bytes: interval of that size; None where the data do not bound it.
        proof: "proven" if all its cases are.
    """

    api: str
    baseline: str
    where: str
    sizes: tuple[int, ...]
    sizes_text: str
    word: Word
    says: str
    interval: str
    size_bytes: float | None
    low_bytes: float | None
    high_bytes: float | None
    least_n: int
    origin: str
    proof: str
    cases: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ContextForm:
    """A select of the form."""

    name: str
    label: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class BreakEvenContent:
    """All that the page says.

    Attributes:
        kept: filters that the form has no select for.
        hidden: groups of cases beyond the limit.
    """

    metric: str
    method: str
    label: str
    metric_choices: tuple[Choice, ...]
    form: tuple[ContextForm, ...]
    kept: tuple[tuple[str, str], ...]
    rows: tuple[BreakEvenRow, ...]
    hidden: int
    figures: tuple[str, ...]
    revision: int


def size_pairs(group: Sequence[Member]) -> list[tuple[Member, Member]]:
    """Return each case of a group with the copying one of the same size, from two sizes on."""
    by_api: dict[str, dict[int, Member]] = defaultdict(dict)
    for member in group:
        size, api = member.values.get("message_size"), member.values.get("api")
        if isinstance(size, int) and api is not None:
            by_api[str(api)][size] = member
    bases = [api for api in BASELINE_APIS if api in by_api]
    if not bases:
        return []
    # Of equal coverage the preferred baseline is the first.
    base = max(bases, key=lambda api: len(by_api[api]))
    pairs = []
    for name, members in by_api.items():
        common = sorted(members.keys() & by_api[base].keys())
        if name not in BASELINE_APIS and len(common) > 1:
            pairs += [(by_api[base][size], members[size]) for size in common]
    return pairs


def break_even_rows(report: ComparisonReport) -> tuple[tuple[BreakEvenRow, Curve], ...]:
    """Return a row and a curve for each API on each machine, by the first metric."""
    if not report.metrics:
        return ()
    first = report.metrics[0]
    grouped: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in first.rows:
        if row.verdict is not None and row.verdict.ratio is not None:
            rest = tuple(
                sorted((n, str(v)) for n, v in row.candidate.factors.items() if n not in MOVING)
            )
            grouped[row.candidate.factors["api"], row.baseline.factors["api"], rest].append(row)
    chosen = [rows for rows in grouped.values() if len(rows) > 1]
    names = _names([rows[0].baseline.factors for rows in chosen])
    return tuple(_row(rows, names, first.metric) for rows in chosen)


def _names(cases: Sequence[Factors]) -> list[str]:
    """Return few factors that tell the machines apart."""
    names = [name for name in varying(cases) if name not in MOVING]
    usual = [name for name in CONTEXT if name in names]
    needed = distinguishing(cases, [*usual, *names])
    return [name for name in names if name in usual or name in needed]


def _row(rows: Sequence[Row], names: Sequence[str], metric: str) -> tuple[BreakEvenRow, Curve]:
    points = sorted(
        _points(rows, is_lower_better=METRICS[metric].better == "lower"),
        key=lambda point: point.size_bytes,
    )
    sizes = tuple(point.size_bytes for point in points)
    found = crossing([(point.size_bytes, point.ratio) for point in points])
    low, high = _bounds(points)
    side = rows[0].candidate
    api = display("api", side.factors["api"])
    where = told_text(rows[0].baseline.factors, names)
    statistics = [row.candidate_statistic for row in rows]
    is_published = any(one is not None and not one.runs for one in statistics)
    proof = ""
    if PROOF in side.statistics:
        proof = "proven" if all(is_proven(row.candidate) for row in rows) else "not proven"
    row = BreakEvenRow(
        api=api,
        baseline=display("api", rows[0].baseline.factors["api"]),
        where=where or "all that was measured",
        sizes=sizes,
        sizes_text=(
            f"{units.format_size(sizes[0])} to {units.format_size(sizes[-1])}, {len(sizes)} sizes"
        ),
        word=found.word,
        says=_says(found, sizes),
        interval=_interval(low, high, sizes) if found.word == "from" else "",
        size_bytes=found.size_bytes,
        low_bytes=low,
        high_bytes=high,
        least_n=min(
            min(row.verdict.n_baseline, row.verdict.n_candidate) for row in rows if row.verdict
        ),
        origin="published" if is_published else "measured",
        proof=proof,
        cases=tuple(
            (units.format_size(_size(one)), one.candidate.case_id)
            for one in sorted(rows, key=_size)
        ),
    )
    name = f"{api}, {where}" if where else api
    return row, Curve(name, tuple(points))


def _size(row: Row) -> int:
    return int(str(row.candidate.factors["message_size"]))


def _points(rows: Sequence[Row], *, is_lower_better: bool) -> Iterator[CurvePoint]:
    """Yield the ratios by size so that below 1 pays."""
    for row in rows:
        verdict = row.verdict
        if verdict is None or verdict.ratio is None:
            continue
        size = _size(row)
        ends = (verdict.low, verdict.high)
        if is_lower_better:
            yield CurvePoint(size, verdict.ratio, *ends)
        else:
            low, high = (None if end is None else 1 / end for end in reversed(ends))
            yield CurvePoint(size, 1 / verdict.ratio, low, high)


def _bounds(points: Sequence[CurvePoint]) -> tuple[float | None, float | None]:
    """Return the earliest and the latest size at which it begins to pay; None where unbounded."""
    lows = [(p.size_bytes, p.low) for p in points if p.low is not None]
    highs = [(p.size_bytes, p.high) for p in points if p.high is not None]
    if len(lows) < len(points) or len(highs) < len(points):
        return None, None
    return crossing(lows).size_bytes, crossing(highs).size_bytes


def _says(found: Crossing, sizes: Sequence[int]) -> str:
    first, last = units.format_size(sizes[0]), units.format_size(sizes[-1])
    if found.word == "from" and found.size_bytes is not None:
        return f"from {about(found.size_bytes)} on"
    return {
        "everywhere": f"already at {first}, the smallest measured",
        "nowhere": f"not up to {last}, the largest measured",
        "changing": "not from one size on: it changes more than once, or stops paying",
        "from": "",
    }[found.word]


def _interval(low: float | None, high: float | None, sizes: Sequence[int]) -> str:
    if low is None and high is None:
        return "no bound from these repetitions"
    first = about(low) if low else f"below {units.format_size(sizes[0])}"
    last = about(high) if high else f"beyond {units.format_size(sizes[-1])}"
    return f"[{first}, {last}]"


def about(size_bytes: float) -> str:
    """Return a size that was computed, with three digits: "7.48 KiB"."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes >= unit:
            scaled = size_bytes / unit
            return f"{scaled:.{significant_decimals(scaled)}f} {name}"
    return f"{size_bytes:.0f} B"


def context_form(facets: Sequence[Facet]) -> tuple[ContextForm, ...]:
    """Return the selects by which the page can be narrowed."""
    return tuple(
        ContextForm(
            facet.factor,
            factor_label(facet.factor),
            (
                Choice("", "any", not any(one.is_chosen for one in facet.values)),
                *(
                    Choice(
                        value_text(one.value),
                        f"{display(facet.factor, one.value)} ({one.cases})",
                        one.is_chosen,
                    )
                    for one in facet.values
                ),
            ),
        )
        for facet in facets
    )


def metric_choices(chosen: str) -> tuple[Choice, ...]:
    """Return the costs that break-even can be about."""
    return tuple(Choice(name, metric_label(name), name == chosen) for name in METRIC_CHOICES)


def is_kept(name: str) -> bool:
    """Return whether a filter has no select of its own and must be carried along."""
    return name not in CONTEXT and name in FACTORS
