"""Exploring: facets with counts, a pivot of any two factors, and the cases themselves.

Facets are counted in the index of all cases: any of the values within a facet,
all facets together.  The figures of the cases shown come from `summaries`; a
pivot over more than a few thousand cases reads one metric of all cases, and
keeps it until something was added.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from zcdb.factors import FACTORS, FactorValue
from zcdb.store.cases import factors_from_json
from zcdb.store.models import CaseRow, SummaryRow
from zcdb.store.queries.common import NotFound
from zcdb.store.queries.index import CaseIndex, Mask, case_index
from zcdb.store.queries.lines import statistics_of_cases
from zcdb.store.results import CaseFactors, Statistic
from zcdb.store.session import Database

Floats = NDArray[np.float64]

FEW_CASES = 5000
"""Up to so many cases their figures are asked for by key; above, for all cases at once."""

TWIN = "twin"
"""Factor of the cases that repeat another one under another name; left out unless asked for."""

PIVOT_LEVELS = 40
"""Rows and columns of a pivot at most; the most frequent values."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is explored.

    Attributes:
        filters: factor -> values, one of which a case must have.
        words: each must occur in some factor's value.
        rows, columns: factors of the pivot; "" for none.
        metric, method: what the pivot shows.
        after: list the cases after this one; None from the newest on.
    """

    filters: Mapping[str, tuple[FactorValue, ...]]
    words: tuple[str, ...]
    rows: str
    columns: str
    metric: str
    method: str
    after: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A value of a facet, with the cases that would be left if it were chosen."""

    value: FactorValue
    cases: int
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Facet:
    """A factor with its values, the most frequent first; sizes and numbers by size."""

    factor: str
    values: tuple[FacetValue, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """One place of a pivot.

    Attributes:
        cases: cases there.
        measured: those that have a figure.
        mean: geometric mean of the cases' means; of positive figures.
        low, high: the smallest and the largest of them.
    """

    cases: int
    measured: int
    mean: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Pivot:
    """Cells by the values of two factors; a place without a cell is a hole in the coverage."""

    rows: tuple[FactorValue, ...]
    columns: tuple[FactorValue, ...]
    cells: Mapping[tuple[FactorValue, FactorValue], Cell]
    hidden_levels: int


@dataclass(frozen=True, slots=True)
class ExploredCase:
    """A case in the list."""

    case_id: str
    factors: CaseFactors
    statistics: tuple[Statistic, ...]


@dataclass(frozen=True, slots=True)
class Exploration:
    """What there is.

    Attributes:
        total, matching: cases in the database, and those that fit.
        varying: factors in which the matching cases differ.
        constant: factors that they share, where they are not at their default.
        without_figure: matching cases that have no figure of the metric: no place in the pivot
            shows a number for them.
        twins: cases left out because they are another's twin: they test the method.
    """

    total: int
    matching: int
    facets: tuple[Facet, ...]
    varying: tuple[str, ...]
    constant: Mapping[str, FactorValue]
    cases: tuple[ExploredCase, ...]
    next_after: str | None
    pivot: Pivot | None
    without_figure: int
    twins: int = 0


def explore(db: Database, asked: Asked) -> Exploration:
    """Return what fits.

    Raises:
        NotFound: if there is no case `after`.
    """
    # Before anything is read: what is committed meanwhile makes a kept column an old one.
    revision = db.revision()
    with db.reading() as session:
        index = case_index(db, session)
        found = index.mask(asked.filters) & index.containing(asked.words)
        mask = found & _without_twins(index, asked)
        places = np.flatnonzero(mask)[::-1]
        start = _start(session, db, index, places, asked.after)
        shown = places[start : start + asked.limit]
        varying = index.varying(mask) if len(places) else []
        values = None
        if asked.rows and asked.columns and len(places):
            wanted = (asked.metric, asked.method)
            values = metric_values(db, session, revision, index, mask, wanted)
        cases = _cases(session, index, shown)
        return Exploration(
            total=index.size,
            matching=len(places),
            facets=tuple(_facets(index, asked)),
            varying=tuple(varying),
            constant=_constant(index, places, varying),
            cases=cases,
            next_after=cases[-1].case_id if start + asked.limit < len(places) and cases else None,
            pivot=None if values is None else _pivot(index, mask, values, asked),
            without_figure=0 if values is None else int(np.isnan(values[mask]).sum()),
            twins=int(np.count_nonzero(found & ~mask)),
        )


def _without_twins(index: CaseIndex, asked: Asked) -> Mask:
    """Return the cases that are nobody's twin; all of them if twins were asked for."""
    return index.mask({} if TWIN in asked.filters else {TWIN: (0,)})


def _start(
    session: Session, db: Database, index: CaseIndex, places: NDArray[np.int64], after: str | None
) -> int:
    if after is None:
        return 0
    key = session.scalar(select(CaseRow.id).where(CaseRow.public_id == after))
    if key is None:
        raise NotFound("case", after, db.name)
    # Places descend; the first one whose key is below follows.
    return int(np.count_nonzero(index.keys[places] >= key))


def _constant(
    index: CaseIndex, places: NDArray[np.int64], varying: Sequence[str]
) -> dict[str, FactorValue]:
    if not len(places):
        return {}
    found = {}
    for name, column in index.columns.items():
        code = int(column.codes[places[0]])
        if name not in varying and code >= 0:
            value = column.values[code]
            if name not in FACTORS or value != FACTORS[name].default:
                found[name] = value
    return found


def _facets(index: CaseIndex, asked: Asked) -> list[Facet]:
    """Return every factor that tells cases apart, with what choosing each value would leave."""
    words = index.containing(asked.words)
    fits = {name: index.fitting(name, values) for name, values in asked.filters.items()}
    if TWIN not in fits and TWIN in index.columns:
        fits[TWIN] = index.fitting(TWIN, (0,))
    whole = words.copy()
    for mask in fits.values():
        whole &= mask
    facets = []
    for name in dict.fromkeys([*index.varying(), *(n for n in fits if n in index.columns)]):
        mask = whole
        if name in fits:
            mask = words.copy()
            for other, fit in fits.items():
                if other != name:
                    mask &= fit
        counts = index.counts(name, mask)
        chosen = asked.filters.get(name, ())
        for value in chosen:
            counts.setdefault(value, 0)
        if len(counts) > 1 or chosen:
            facets.append(Facet(name, facet_values(counts, chosen)))
    return facets


def facet_values(
    counts: Mapping[FactorValue, int], chosen: Collection[FactorValue]
) -> tuple[FacetValue, ...]:
    """Return the values of a facet in their order."""
    values = [FacetValue(value, cases, value in chosen) for value, cases in counts.items()]
    return tuple(sorted(values, key=lambda one: _by_size(one.value, one.cases)))


def _by_size(value: FactorValue, cases: int) -> tuple[int, float, str]:
    """Return what orders values: numbers by size, then words by how frequent they are."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (0, float(value), "")
    return (1, -float(cases), str(value))


def _cases(
    session: Session, index: CaseIndex, places: NDArray[np.int64]
) -> tuple[ExploredCase, ...]:
    keys = [int(key) for key in index.keys[places]]
    rows = {row.id: row for row in session.scalars(select(CaseRow).where(CaseRow.id.in_(keys)))}
    statistics = statistics_of_cases(session, keys)
    return tuple(
        ExploredCase(
            rows[key].public_id, factors_from_json(rows[key].factors_json), statistics[key]
        )
        for key in keys
    )


# -- the pivot ----------------------------------------------------------------------------------


def _pivot(index: CaseIndex, mask: Mask, values: Floats, asked: Asked) -> Pivot:
    cells: dict[tuple[FactorValue, FactorValue], Cell] = {}
    rows, hidden_rows = _levels(index, asked.rows, mask)
    columns, hidden_columns = _levels(index, asked.columns, mask)
    for row, in_row in rows:
        for column, in_column in columns:
            here = in_row & in_column
            cases = int(np.count_nonzero(here))
            if cases:
                cells[row, column] = _cell(cases, values[here])
    return Pivot(
        tuple(row for row, _ in rows),
        tuple(column for column, _ in columns),
        cells,
        hidden_rows + hidden_columns,
    )


def _levels(index: CaseIndex, name: str, mask: Mask) -> tuple[list[tuple[FactorValue, Mask]], int]:
    """Return the levels of a factor in order, each with its cases, and how many are left out."""
    if name not in index.columns:
        return ([], 0)
    found = list(index.groups(name, mask))
    counts = {value: int(np.count_nonzero(here)) for value, here in found}
    kept = sorted(counts, key=lambda value: -counts[value])[:PIVOT_LEVELS]
    shown = [(value, here) for value, here in found if value in kept]
    shown.sort(key=lambda one: _by_size(one[0], counts[one[0]]))
    return shown, len(found) - len(shown)


def _cell(cases: int, values: Floats) -> Cell:
    known = values[~np.isnan(values)]
    if not len(known):
        return Cell(cases, 0, None, None, None)
    positive = known[known > 0]
    is_positive = len(positive) == len(known)
    mean = float(np.exp(np.log(positive).mean())) if is_positive else float(known.mean())
    return Cell(cases, len(known), mean, float(known.min()), float(known.max()))


@dataclass(slots=True)
class _Kept:
    """One metric of all cases, and the state of the database it was read in."""

    state: tuple[int, str]
    values: Floats


_KEPT: WeakKeyDictionary[Engine, dict[tuple[str, str], _Kept]] = WeakKeyDictionary()
_KEEPING = threading.Lock()
KEPT_METRICS = 16


def metric_values(
    db: Database,
    session: Session,
    revision: str,
    index: CaseIndex,
    mask: Mask,
    key: tuple[str, str],
) -> Floats:
    """Return a metric's mean for each case of the index, NaN where there is none.

    Of cases outside the mask it may say NaN though they have one.
    """
    wanted = np.flatnonzero(mask)
    columns = select(SummaryRow.case_id, SummaryRow.mean).where(
        SummaryRow.metric == key[0], SummaryRow.method == key[1], SummaryRow.mean.is_not(None)
    )
    if len(wanted) <= FEW_CASES:
        keys = [int(key) for key in index.keys[wanted]]
        return _placed(index, session.execute(columns.where(SummaryRow.case_id.in_(keys))).all())
    state = (index.size, revision)
    with _KEEPING:
        kept = _KEPT.setdefault(db.engine, {})
        known = kept.get(key)
    if known is None or known.state != state:
        known = _Kept(state, _placed(index, session.execute(columns).all()))
        with _KEEPING:
            kept[key] = known
            while len(kept) > KEPT_METRICS:
                kept.pop(next(iter(kept)))
    return known.values


def _placed(index: CaseIndex, rows: Sequence[Any]) -> Floats:
    """Return the values of (key, mean) rows at the places of their cases."""
    values = np.full(index.size, np.nan)
    if not rows:
        return values
    found = np.array([tuple(row) for row in rows], dtype=[("key", np.int64), ("mean", np.float64)])
    order = np.argsort(index.keys, kind="stable")
    at = np.searchsorted(index.keys, found["key"], sorter=order)
    inside = at < index.size
    places = order[at[inside]]
    is_same = index.keys[places] == found["key"][inside]
    values[places[is_same]] = found["mean"][inside][is_same]
    return values


def axes(db: Database) -> tuple[Facet, ...]:
    """Return every factor along which cases differ, with its values; one statement."""
    with db.reading() as session:
        index = case_index(db, session)
        everything = index.mask({})
        return tuple(
            Facet(name, facet_values(index.counts(name, everything), ()))
            for name in index.varying()
        )
