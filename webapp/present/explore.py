"""The explore page: facets as links, a pivot with shading, the cases with what differs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from zcdb import factors
from zcdb.factors import FACTORS, FactorValue
from zcdb.metrics import METRICS
from zcdb.store.cases import value_text
from zcdb.store.queries.explore import Asked, Cell, Exploration, ExploredCase, Facet, Pivot
from zcdb.webapp.labels import case_label, factor_label, metric_label
from zcdb.webapp.present.measured import Estimate, estimate, find
from zcdb.webapp.quantities import quantity

FACET_VALUES_SHOWN = 8
FIRST_FACETS = 6
"""Facets that stand open; the others unfold."""

LIST_COLUMNS = 7
NAMING = ("api", "message_size")
"""Factors that name a case in the list; they need no column."""

SHADES = 5
BESIDE = (
    ("throughput", ""),
    ("service_demand_sender", "soak"),
    ("service_demand_receiver", "soak"),
)


@dataclass(frozen=True, slots=True)
class FacetLink:
    """A value that can be chosen, or taken back."""

    shown: str
    cases: int
    is_chosen: bool
    address: str


@dataclass(frozen=True, slots=True)
class FacetBox:
    """A factor with its values; `rest` unfolds."""

    name: str
    label: str
    is_open: bool
    values: tuple[FacetLink, ...]
    rest: tuple[FacetLink, ...]


@dataclass(frozen=True, slots=True)
class PivotCell:
    """A place of the pivot; `shade` is 0 without a figure, else 1 (least) to 5 (most)."""

    text: str
    detail: str
    shade: int
    address: str


@dataclass(frozen=True, slots=True)
class PivotRow:
    """A row of the pivot; None is a hole: no case there."""

    shown: str
    cells: tuple[PivotCell | None, ...]


@dataclass(frozen=True, slots=True)
class PivotTable:
    """The pivot as it is shown."""

    row_label: str
    column_label: str
    unit: str
    columns: tuple[str, ...]
    rows: tuple[PivotRow, ...]
    holes: int
    hidden_levels: int


@dataclass(frozen=True, slots=True)
class ListedCase:
    """A case of the list: its name, what differs, and its figures."""

    case_id: str
    name: str
    values: tuple[str, ...]
    estimates: tuple[Estimate, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """An option of a select."""

    value: str
    shown: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class ExploreContent:
    """All that the explore page says.

    Attributes:
        kept: name and value of what the form has to carry along.
        chosen: filters in force, each with the address without it.
        hidden_columns: factors that differ but have no column in the list.
    """

    total: int
    matching: int
    metric: str
    method: str
    words: str
    kept: tuple[tuple[str, str], ...]
    chosen: tuple[FacetLink, ...]
    facets: tuple[FacetBox, ...]
    columns: tuple[str, ...]
    hidden_columns: int
    cases: tuple[ListedCase, ...]
    next_address: str | None
    pivot: PivotTable | None
    without_figure: int
    twins: int
    constant: tuple[tuple[str, str], ...]
    axis_choices: tuple[Choice, ...]
    column_choices: tuple[Choice, ...]
    metric_choices: tuple[Choice, ...]
    compare_address: str
    revision: int


def query_of(asked: Asked, *, is_paged: bool = True) -> str:
    """Return the canonical query text of a state."""
    parts: list[tuple[str, str]] = [
        (name, value_text(value))
        for name in sorted(asked.filters)
        for value in sorted(asked.filters[name], key=value_text)
    ]
    if asked.words:
        parts.append(("q", " ".join(asked.words)))
    parts += [("rows", asked.rows)] if asked.rows else []
    parts += [("cols", asked.columns)] if asked.columns else []
    if (asked.metric, asked.method) != ("service_demand_sender", "soak"):
        parts.append(("m", metric_text(asked.metric, asked.method)))
    if is_paged and asked.after:
        parts.append(("after", asked.after))
    return urlencode(parts)


def metric_text(metric: str, method: str) -> str:
    """Return a metric as the address spells it: "throughput", "utilisation_sender:soak"."""
    return f"{metric}:{method}" if method else metric


def address(asked: Asked) -> str:
    """Return the address of a state, from its first page on."""
    query = query_of(replace(asked, after=None))
    return f"/explore?{query}" if query else "/explore"


def _toggled(asked: Asked, name: str, value: FactorValue) -> Asked:
    values = list(asked.filters.get(name, ()))
    if value in values:
        values.remove(value)
    else:
        values.append(value)
    filters = {**asked.filters, name: tuple(values)}
    return replace(asked, filters={key: kept for key, kept in filters.items() if kept})


def explore_content(asked: Asked, found: Exploration, revision: int) -> ExploreContent:
    """Return the content of the page."""
    columns = _list_columns(found.varying)
    return ExploreContent(
        total=found.total,
        matching=found.matching,
        metric=asked.metric,
        method=asked.method,
        words=" ".join(asked.words),
        kept=tuple(
            (name, value_text(value)) for name, values in asked.filters.items() for value in values
        ),
        chosen=tuple(
            FacetLink(
                f"{factor_label(name)}: {factors.display(name, value)}",
                0,
                True,
                address(_toggled(asked, name, value)),
            )
            for name, values in asked.filters.items()
            for value in values
        ),
        facets=_facets(asked, found),
        columns=tuple(factor_label(name) for name in columns),
        hidden_columns=len(set(found.varying) - {*columns, *NAMING}),
        cases=tuple(_listed(case, columns, asked) for case in found.cases),
        next_address=_next(asked, found),
        pivot=None if found.pivot is None else _pivot_table(asked, found.pivot),
        without_figure=found.without_figure,
        twins=found.twins,
        constant=tuple(
            (factor_label(name), factors.display(name, value))
            for name, value in found.constant.items()
        ),
        axis_choices=_axis_choices(found, asked.rows),
        column_choices=_axis_choices(found, asked.columns),
        metric_choices=_metric_choices(asked),
        compare_address=_compare_address(asked),
        revision=revision,
    )


def _list_columns(varying: Sequence[str]) -> list[str]:
    """Return the factors that get a column: those that differ, the workload's first."""
    order = {"workload": 0, "tuning": 1, "protocol": 2, "environment": 3}
    ranked = sorted(
        varying,
        key=lambda name: (
            name not in _FIRST,
            _FIRST.index(name) if name in _FIRST else 0,
            order[FACTORS[name].kind] if name in FACTORS else 4,
        ),
    )
    return [name for name in ranked if name not in NAMING][:LIST_COLUMNS]


def _facets(asked: Asked, found: Exploration) -> tuple[FacetBox, ...]:
    ranked = sorted(found.facets, key=lambda facet: _rank(facet, asked))
    return tuple(
        _facet_box(asked, facet, is_open=place < FIRST_FACETS or facet.factor in asked.filters)
        for place, facet in enumerate(ranked)
    )


_FIRST = (
    *("api", "message_size", "link", "sender_nic", "sender_kernel", "streams", "pinning"),
    *("sg", "tx_checksum", "tso", "tool", "test"),
)


def _rank(facet: Facet, asked: Asked) -> tuple[int, int]:
    """Return the order of facets: chosen ones, the usual questions, then the registry's order."""
    if facet.factor in asked.filters:
        return (0, 0)
    if facet.factor in _FIRST:
        return (1, _FIRST.index(facet.factor))
    return (2, list(FACTORS).index(facet.factor) if facet.factor in set(FACTORS) else 999)


def _facet_box(asked: Asked, facet: Facet, *, is_open: bool) -> FacetBox:
    links = [
        FacetLink(
            factors.display(facet.factor, one.value),
            one.cases,
            one.is_chosen,
            address(_toggled(asked, facet.factor, one.value)),
        )
        for one in facet.values
    ]
    return FacetBox(
        facet.factor,
        factor_label(facet.factor),
        is_open,
        tuple(links[:FACET_VALUES_SHOWN]),
        tuple(links[FACET_VALUES_SHOWN:]),
    )


def _listed(case: ExploredCase, columns: Sequence[str], asked: Asked) -> ListedCase:
    estimates = [estimate(statistic) for statistic in case.statistics]
    wanted = dict.fromkeys([(asked.metric, asked.method), *BESIDE])
    filled = factors.with_defaults(case.factors)
    return ListedCase(
        case.case_id,
        case_label(filled, [name for name in NAMING if filled.get(name) != factors.UNSTATED]),
        tuple(factors.display(name, filled[name]) if name in filled else "–" for name in columns),
        tuple(find(estimates, metric, method) for metric, method in wanted),
    )


def _next(asked: Asked, found: Exploration) -> str | None:
    if found.next_after is None:
        return None
    return f"/explore?{query_of(replace(asked, after=found.next_after))}"


def _pivot_table(asked: Asked, pivot: Pivot) -> PivotTable:
    means = [cell.mean for cell in pivot.cells.values() if cell.mean is not None]
    unit = quantity(asked.metric, means)
    rows = []
    holes = 0
    for row in pivot.rows:
        cells: list[PivotCell | None] = []
        for column in pivot.columns:
            cell = pivot.cells.get((row, column))
            if cell is None:
                holes += 1
                cells.append(None)
                continue
            narrowed = replace(
                asked,
                filters={**asked.filters, asked.rows: (row,), asked.columns: (column,)},
                rows="",
                columns="",
            )
            cells.append(
                PivotCell(
                    unit.number(cell.mean) if cell.mean is not None else "–",
                    _detail(cell),
                    _shade(cell.mean, means),
                    address(narrowed),
                )
            )
        rows.append(PivotRow(factors.display(asked.rows, row), tuple(cells)))
    return PivotTable(
        factor_label(asked.rows),
        factor_label(asked.columns),
        unit.unit,
        tuple(factors.display(asked.columns, column) for column in pivot.columns),
        tuple(rows),
        holes,
        pivot.hidden_levels,
    )


def _detail(cell: Cell) -> str:
    cases = f"{cell.cases} case" + ("" if cell.cases == 1 else "s")
    if cell.measured == 0:
        return f"{cases}, no figure"
    return cases if cell.measured == cell.cases else f"{cases}, {cell.measured} with a figure"


def _shade(mean: float | None, means: Sequence[float]) -> int:
    """Return how dark a cell is: by its place between the least and the most, on a log scale."""
    if mean is None or not means:
        return 0
    low, high = min(means), max(means)
    if low <= 0 or high <= low:
        return 1
    place = math.log(mean / low) / math.log(high / low)
    return 1 + min(SHADES - 1, int(place * SHADES))


def _axis_choices(found: Exploration, chosen: str) -> tuple[Choice, ...]:
    names = [facet.factor for facet in found.facets]
    if chosen and chosen not in names:
        names.insert(0, chosen)
    ordered = sorted(names, key=lambda name: (name not in _FIRST, factor_label(name)))
    none = Choice("", "nothing", not chosen)
    return (none, *(Choice(name, factor_label(name), name == chosen) for name in ordered))


def _metric_choices(asked: Asked) -> tuple[Choice, ...]:
    choices = []
    for name, metric in METRICS.items():
        methods: Mapping[str, None] = dict.fromkeys(("soak", "procstat", "rusage"))
        for method in methods if metric.has_method else ("",):
            text = metric_text(name, method)
            shown = metric_label(name) + (f", by {method}" if method else "")
            choices.append(Choice(text, shown, (name, method) == (asked.metric, asked.method)))
    return tuple(choices)


def _compare_address(asked: Asked) -> str:
    """Return where the same cases can be compared along the rows of the pivot."""
    axis = asked.rows or "api"
    parts = [("axis", axis)]
    parts += [
        (name, value_text(value))
        for name, values in sorted(asked.filters.items())
        if name != axis
        for value in values
    ]
    return f"/compare?{urlencode(parts)}"
