"""What the pages of standing questions ask: cases that differ in a few factors alone, and evidence.

A comparison along one factor (`queries.compare`) finds its partners by the
pairing of that factor.  The questions here move several factors together (the
kernel of both ends, an API and the message size), so the cases are grouped in
the index of all cases: those of a group share every other factor.  Twins take
part in nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select, union_all

from zcdb.factors import FACTORS, FactorValue
from zcdb.store import values as blobs
from zcdb.store.cases import factors_from_json
from zcdb.store.models import (
    CaseRow,
    EntryRow,
    EnvironmentRow,
    FlagRow,
    MeasurementRow,
    SourceRow,
    TrialRow,
)
from zcdb.store.queries.common import NotFound
from zcdb.store.queries.compare import Judged, Key, Pairs, read_pairs
from zcdb.store.queries.explore import Facet, facet_values
from zcdb.store.queries.index import CaseIndex, case_index
from zcdb.store.queries.lines import statistics_of_cases
from zcdb.store.results import CaseFactors, Facts, RunCase, Series, Statistic
from zcdb.store.session import Database

GROUPS_LIMIT = 400
"""Groups of cases that a question looks at: the ones with the newest cases."""

FLAGGED_CASES_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Member:
    """A case of a group.

    Attributes:
        key: of its row; means nothing outside this database.
        values: of the factors that move within the group.
    """

    key: int
    values: Mapping[str, FactorValue]


@dataclass(frozen=True, slots=True)
class Groups:
    """Cases that differ in some factors alone, group by group.

    Attributes:
        hidden: groups beyond the limit.
        facets: of the context factors, over the cases of all groups.
    """

    groups: tuple[tuple[Member, ...], ...]
    hidden: int
    facets: tuple[Facet, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What stands behind some cases.

    Attributes:
        trials: that were ok.
        environments: facts of the hosts, each state of a host once.
        flags: code -> trials that raised it.
        entries, documents: published figures, and the documents they come from.
    """

    trials: int
    runs: int
    environments: tuple[Facts, ...]
    first_at: datetime | None
    last_at: datetime | None
    flags: Mapping[str, int]
    entries: int
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CaseFigures:
    """A case with what it measured over all runs and sources."""

    case_id: str
    factors: CaseFactors
    statistics: tuple[Statistic, ...]

    def find(self, metric: str, method: str = "") -> Statistic | None:
        """Return a statistic that has a mean, None if there is none."""
        for one in self.statistics:
            if (one.metric, one.method) == (metric, method) and one.mean is not None:
                return one
        return None


def groups(
    db: Database,
    moving: Collection[str],
    *,
    where: Mapping[str, Collection[FactorValue]] | None = None,
    context: Collection[str] = (),
    limit: int = GROUPS_LIMIT,
) -> Groups:
    """Return groups of two or more cases that differ in `moving` factors alone; one statement.

    What follows a moving factor (a driver its card) may differ too.

    Args:
        where: factor -> values, one of which every case must have.
        context: factors that are counted as facets.
    """
    with db.reading() as session:
        index = case_index(db, session)
    wanted = index.mask({"twin": (0,), **(where or {})})
    places = np.flatnonzero(wanted)
    left_out = set(moving) | {name for name, one in FACTORS.items() if one.follows in moving}
    ranges, hidden = _ranges(_rest(index, places, left_out), places, limit)
    found = tuple(
        tuple(Member(int(index.keys[place]), _values(index, place, moving)) for place in group)
        for group in ranges
    )
    everything = np.full(index.size, False)
    everything[[place for group in ranges for place in group]] = True
    facets = tuple(
        Facet(name, facet_values(index.counts(name, everything), (where or {}).get(name, ())))
        for name in context
        if name in index.columns
    )
    return Groups(found, hidden, facets)


def _rest(index: CaseIndex, places: NDArray[np.int64], left_out: set[str]) -> NDArray[np.uint64]:
    """Return a number for each case that is the same for those with the same other factors."""
    rest = np.zeros(len(places), np.uint64)
    for name, column in index.columns.items():
        if name not in left_out:
            digest = hashlib.sha256(name.encode()).digest()
            odd = np.uint64(int.from_bytes(digest[:8], "little") | 1)
            rest += (column.codes[places].astype(np.int64) + 2).astype(np.uint64) * odd
    return rest


def _ranges(
    rest: NDArray[np.uint64], places: NDArray[np.int64], limit: int
) -> tuple[list[list[int]], int]:
    """Return the places of each group of two or more, the groups with the newest cases first."""
    if len(places) < 2:
        return [], 0
    order = np.argsort(rest, kind="stable")
    edges = np.flatnonzero(np.diff(rest[order])) + 1
    starts = np.concatenate([[0], edges])
    ends = np.concatenate([edges, [len(order)]])
    large = np.flatnonzero(ends - starts >= 2)
    newest = places[order[ends[large] - 1]]
    chosen = large[np.argsort(-newest, kind="stable")]
    return (
        [[int(place) for place in places[order[starts[g] : ends[g]]]] for g in chosen[:limit]],
        max(0, len(chosen) - limit),
    )


def _values(index: CaseIndex, place: int, names: Iterable[str]) -> dict[str, FactorValue]:
    found = {name: index.value(name, place) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def chosen_pairs(
    db: Database,
    keys: Sequence[tuple[int, int]],
    metrics: Collection[Key],
    found: int,
    judged: Judged | None = None,
) -> Pairs:
    """Return pairs of cases with what they measured, see `read_pairs`.

    Args:
        keys: of baseline and candidate, as `groups` gives them.
    """
    with db.reading() as session:
        return read_pairs(session, list(keys), metrics, found, judged=judged)


def evidence(db: Database, keys: Collection[int]) -> Evidence:
    """Return what stands behind some cases; four statements."""
    some = sorted(keys)[-FLAGGED_CASES_LIMIT:]
    of_cases = TrialRow.case_id.in_(some)
    with db.reading() as session:
        trials, runs, first_at, last_at = session.execute(
            select(
                func.count(),
                func.count(TrialRow.run_id.distinct()),
                func.min(TrialRow.started_at),
                func.max(TrialRow.started_at),
            ).where(of_cases, TrialRow.status == "ok")
        ).one()
        ends = union_all(
            select(TrialRow.sender_environment_id.label("id")).where(of_cases).distinct(),
            select(TrialRow.receiver_environment_id.label("id")).where(of_cases).distinct(),
        ).subquery()
        environments = session.scalars(
            select(EnvironmentRow.facts_json)
            .where(EnvironmentRow.id.in_(select(ends.c.id)))
            .order_by(EnvironmentRow.public_id)
        ).all()
        flags = session.execute(
            select(FlagRow.code, func.count(FlagRow.trial_id.distinct()))
            .join(TrialRow, TrialRow.id == FlagRow.trial_id)
            .where(of_cases, TrialRow.status == "ok")
            .group_by(FlagRow.code)
            .order_by(func.count(FlagRow.trial_id.distinct()).desc(), FlagRow.code)
        ).all()
        entries = session.execute(
            select(SourceRow.title, func.count())
            .join(EntryRow, EntryRow.source_id == SourceRow.id)
            .where(EntryRow.case_id.in_(some), EntryRow.left_out.is_(None))
            .group_by(SourceRow.title)
            .order_by(SourceRow.title)
        ).all()
    return Evidence(
        trials,
        runs,
        tuple(json.loads(facts) for facts in environments),
        first_at,
        last_at,
        {row.code: row[1] for row in flags},
        sum(count for _, count in entries),
        tuple(title for title, _ in entries),
    )


def figures(db: Database, case_ids: Sequence[str]) -> tuple[CaseFigures, ...]:
    """Return cases with their figures, in the order asked for; two statements.

    Raises:
        NotFound: if one is not there.
    """
    with db.reading() as session:
        rows = {
            row.public_id: row
            for row in session.scalars(select(CaseRow).where(CaseRow.public_id.in_(case_ids)))
        }
        for case_id in case_ids:
            if case_id not in rows:
                raise NotFound("case", case_id, db.name)
        found = statistics_of_cases(session, {row.id for row in rows.values()})
        return tuple(
            CaseFigures(
                case_id, factors_from_json(rows[case_id].factors_json), found[rows[case_id].id]
            )
            for case_id in case_ids
        )


def figures_of(db: Database, keys: Collection[int]) -> dict[int, CaseFigures]:
    """Return key -> case with its figures, as `groups` gives keys; two statements."""
    with db.reading() as session:
        rows = session.scalars(select(CaseRow).where(CaseRow.id.in_(keys))).all()
        found = statistics_of_cases(session, {row.id for row in rows})
        return {
            row.id: CaseFigures(row.public_id, factors_from_json(row.factors_json), found[row.id])
            for row in rows
        }


def cases_by_block(
    db: Database, designs: Sequence[Sequence[int]], metrics: Collection[Key]
) -> tuple[tuple[RunCase, ...], ...]:
    """Return the cases of each design with their values block by block; three statements.

    A block is a repetition of a run; the values of all cases of a design stand in
    the order of the same blocks.  A case that was only published has its mean as the
    one value, which no block of a run shares: such a design has estimates and no
    intervals.
    """
    keys = {key for design in designs for key in design}
    cases = figures_of(db, keys)
    names = {name for name, _ in metrics}
    values: dict[int, dict[Key, dict[tuple[int, int], float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    with db.reading() as session:
        rows = session.execute(
            select(
                MeasurementRow.run_id,
                MeasurementRow.case_id,
                MeasurementRow.metric,
                MeasurementRow.method,
                MeasurementRow.values_f64,
            ).where(MeasurementRow.case_id.in_(keys), MeasurementRow.metric.in_(names))
        )
        for row in rows:
            for repetition, value in enumerate(blobs.decode(row.values_f64)):
                if value is not None:
                    key = (row.metric, row.method)
                    values[row.case_id][key][row.run_id, repetition] = value
    return tuple(_aligned(design, cases, values, metrics) for design in designs)


def _aligned(
    design: Sequence[int],
    cases: Mapping[int, CaseFigures],
    values: Mapping[int, Mapping[Key, Mapping[tuple[int, int], float]]],
    metrics: Collection[Key],
) -> tuple[RunCase, ...]:
    blocks = sorted({block for key in design for found in values[key].values() for block in found})
    made = []
    for key in design:
        case = cases[key]
        series = []
        for metric in metrics:
            one = case.find(*metric)
            if one is None:
                continue
            own = values[key][metric]
            kept = tuple(own.get(block) for block in blocks) if blocks else (one.mean,)
            series.append(Series(kept, frozenset(), one))
        made.append(RunCase("", case.factors, case.case_id, {}, 0, 0, 0, (), {}, tuple(series)))
    return tuple(made)
