"""Pairs of cases that differ in one factor alone, with what each measured.

The pairs along a factor come from one indexed join of `pairings` with itself:
cases with the same rest hash.  Three ways to ask: two levels of a factor, two
cases by their ids, two runs by theirs.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, and_, exists, false, func, or_, select
from sqlalchemy.orm import Session, aliased

from zcdb import factors as registry
from zcdb.factors import FactorValue
from zcdb.lazy import Lazy
from zcdb.store import values as blobs
from zcdb.store.cases import factors_from_json, value_text
from zcdb.store.models import (
    CaseFactorRow,
    CaseRow,
    EnvironmentRow,
    ExclusionRow,
    MeasurementRow,
    PairingRow,
    RunRow,
    SummaryRow,
    TrialRow,
)
from zcdb.store.queries.common import NotFound, among, collecting_later
from zcdb.store.queries.lines import series_by_case
from zcdb.store.results import CaseFactors, Facts, Statistic
from zcdb.store.session import Database

PAIR_LIMIT = 10_000
"""Pairs that one comparison holds at most."""

EXACT_LIMIT = 200
"""Up to so many pairs are compared by their single values, block by block where a run has both."""

Key = tuple[str, str]
"""Metric and method."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Side:
    """One case of a pair.

    Attributes:
        factors_json: its factors as stored; read only for the pairs that are shown.
        statistics: (metric, method) -> what it measured over all runs and sources.
    """

    case_id: str
    factors_json: str
    statistics: Mapping[Key, Statistic]

    @property
    def factors(self) -> CaseFactors:
        """The case's factors, defaults filled in."""
        return _factors(self.factors_json)


@lru_cache(maxsize=4096)
def _factors(factors_json: str) -> CaseFactors:
    """Return factors that nobody changes: a page asks for those of a case again and again."""
    return factors_from_json(factors_json)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two cases.

    Attributes:
        blocks: (metric, method) -> values that both measured in one block of one run, as
            (baseline, candidate); empty where they share no run, or where too many pairs were
            asked for to look.
    """

    baseline: Side
    candidate: Side
    blocks: Mapping[Key, tuple[tuple[float, float], ...]]


@dataclass(frozen=True, slots=True)
class Figures:
    """What one side of many pairs measured by one metric, one entry a pair.

    Attributes:
        n, mean, sd: NaN where there is no figure; one without a spread has n = 1 and sd = 0.
        link_rate: of the path of its case, in bit/s; 0 where it is not known.
    """

    n: Floats
    mean: Floats
    sd: Floats
    link_rate: Floats


@dataclass(frozen=True, slots=True)
class Pairs:
    """What can be compared.

    Attributes:
        found: pairs there are in all; above `PAIR_LIMIT` only the first ones are in `pairs`.
        unpaired: cases of a level that have no partner: (level, cases).
        failed: trials that failed in the cases compared.
        environments: "baseline" and "candidate" -> the facts of the hosts they were measured on.
        figures: (metric, method) -> of the baselines and of the candidates, where there are so
            many pairs that they are made one by one; see `figures_of`.
    """

    pairs: Sequence[Pair]
    found: int
    unpaired: tuple[tuple[str, int], ...]
    failed: int
    environments: Mapping[str, tuple[Facts, ...]]
    figures: Mapping[Key, tuple[Figures, Figures]] = field(default_factory=dict)

    def figures_of(self, key: Key) -> tuple[Figures, Figures]:
        """Return what the pairs measured by one metric, as arrays."""
        found = self.figures.get(key)
        if found is not None:
            return found
        return (
            _figures(
                [(p.baseline.statistics.get(key), p.baseline.factors_json) for p in self.pairs]
            ),
            _figures(
                [(p.candidate.statistics.get(key), p.candidate.factors_json) for p in self.pairs]
            ),
        )


def _figures(sides: Sequence[tuple[Statistic | None, str]]) -> Figures:
    """Return the figures of some sides: statistic and factors of each."""
    rows = [(*_numbers(statistic), link_rate(text)) for statistic, text in sides]
    return Figures(*np.array(rows, np.float64).reshape(-1, 4).T)


def _numbers(statistic: Statistic | None) -> tuple[float, float, float]:
    if statistic is None or statistic.mean is None:
        return _NO_NUMBERS
    if statistic.sd is None:
        return (1.0, statistic.mean, 0.0)
    return (float(statistic.n), statistic.mean, statistic.sd)


_NO_NUMBERS = (math.nan, math.nan, math.nan)

# Of thousands of cases only these two are read: all factors of each would take a second.
_RATES = re.compile(r'"link_rate":(\d+)[,}]|"sender_link_speed":"?(\d+)"?[,}]')


def link_rate(factors_json: str) -> float:
    """Return the rate of a case's path in bit/s, 0 where it is not known."""
    found = _RATES.search(factors_json)
    return float(found[1] or found[2]) if found else 0.0


def pairs_along(
    db: Database,
    factor: str,
    baseline: FactorValue,
    candidates: Sequence[FactorValue],
    metrics: Collection[Key],
    where: Mapping[str, Collection[FactorValue]] | None = None,
) -> Pairs:
    """Return the cases with `baseline`, each beside its partners with one of `candidates`.

    Args:
        metrics: what to bring along of each case.
        where: factor -> values that both cases of a pair must have (one of).
    """
    first, second = aliased(PairingRow), aliased(PairingRow)
    levels = [value_text(value) for value in candidates]
    joined = (
        select(first.case_id, second.case_id, second.value)
        .join(second, and_(second.factor == first.factor, second.rest_hash == first.rest_hash))
        .where(
            first.factor == factor,
            first.value == value_text(baseline),
            second.value.in_(levels),
            *_fitting(first, where or {}),
        )
        .order_by(first.case_id, second.value, second.case_id)
    )
    with db.reading() as session, collecting_later():
        pairs = session.connection().execute(joined.limit(PAIR_LIMIT))
        keys = [(row[0], row[1]) for row in pairs]
        found = len(keys)
        if found == PAIR_LIMIT:
            found = session.scalar(select(func.count()).select_from(joined.subquery())) or 0
        unpaired = _unpaired(session, factor, [value_text(baseline)], levels, where or {})
        unpaired += _unpaired(session, factor, levels, [value_text(baseline)], where or {})
        return read_pairs(session, keys, metrics, found, unpaired)


def pair_of_cases(
    db: Database, baseline_id: str, candidate_ids: Sequence[str], metrics: Collection[Key]
) -> Pairs:
    """Return one case beside others, whatever they differ in.

    Raises:
        NotFound: if one is not there.
    """
    with db.reading() as session:
        keys = [_case_key(session, db, case_id) for case_id in (baseline_id, *candidate_ids)]
        pairs = [(keys[0], key) for key in keys[1:]]
        return read_pairs(session, pairs, metrics, len(pairs))


def pairs_of_runs(db: Database, baseline_id: str, candidate_id: str) -> Pairs:
    """Return the cases of two runs that state the same factors; statistics are of those runs alone.

    What the machine adds (kernel, CPU, NIC) may differ: that is what two runs are compared for.

    Raises:
        NotFound: if one of the runs is not there.
    """
    with db.reading() as session:
        runs = [_run_key(session, db, run_id) for run_id in (baseline_id, candidate_id)]
        cases = [_cases_of_run(session, run) for run in runs]
        both = [key for key in cases[0] if key in cases[1]]
        first, second = (
            _sides_of_run(session, run, {key: cases[side][key] for key in both})
            for side, run in enumerate(runs)
        )
        pairs = tuple(Pair(first[key], second[key], {}) for key in both)
        alone = [(name, len(cases[side]) - len(both)) for side, name in enumerate(_SIDES)]
        return Pairs(
            pairs,
            len(pairs),
            tuple((name, count) for name, count in alone if count),
            _failed(session, TrialRow.run_id.in_(runs)),
            {
                name: _environments(session, TrialRow.run_id == run)
                for name, run in zip(_SIDES, runs, strict=True)
            },
        )


_SIDES = ("baseline", "candidate")


def _fitting(
    row: type[PairingRow], where: Mapping[str, Collection[FactorValue]]
) -> list[ColumnElement[bool]]:
    """Return conditions: the case of `row` has one of the values of each factor."""
    return [
        exists().where(
            CaseFactorRow.factor == name,
            CaseFactorRow.value.in_([value_text(value) for value in values]),
            CaseFactorRow.case_id == row.case_id,
        )
        for name, values in where.items()
    ]


def _unpaired(
    session: Session,
    factor: str,
    levels: Sequence[str],
    others: Sequence[str],
    where: Mapping[str, Collection[FactorValue]],
) -> list[tuple[str, int]]:
    """Return level -> cases with it that have no partner among the `others`; one statement."""
    own, other = aliased(PairingRow), aliased(PairingRow)
    partner = exists().where(
        other.factor == own.factor, other.rest_hash == own.rest_hash, other.value.in_(others)
    )
    counted = (
        select(own.value, func.count())
        .where(own.factor == factor, own.value.in_(levels), ~partner, *_fitting(own, where))
        .group_by(own.value)
        .order_by(own.value)
    )
    return [(row[0], row[1]) for row in session.execute(counted)]


Judged = Callable[[Sequence[Pair]], Collection[Key]]
"""Chooses, from what pairs say over all runs, the metrics whose single values are compared."""


def read_pairs(
    session: Session,
    keys: Sequence[tuple[int, int]],
    metrics: Collection[Key],
    found: int,
    unpaired: Sequence[tuple[str, int]] = (),
    judged: Judged | None = None,
) -> Pairs:
    """Return pairs of cases with what they measured; at most seven statements.

    Args:
        keys: of the cases of each pair.
        metrics: what to bring along of each case.
        found: pairs there are, where more were found than are asked for.
        unpaired: cases without a partner, by level.
        judged: whose single values to bring along as well; None is all metrics.
    """
    firsts, seconds = {key for key, _ in keys}, {key for _, key in keys}
    sides = _Sides(session, firsts | seconds, metrics)

    def pair(place: int) -> Pair:
        return Pair(sides.side(keys[place][0]), sides.side(keys[place][1]), {})

    if len(keys) > EXACT_LIMIT:
        return Pairs(
            Lazy(len(keys), pair),
            found,
            tuple(unpaired),
            0,
            {},
            {
                key: (
                    sides.figures(key, [first for first, _ in keys]),
                    sides.figures(key, [second for _, second in keys]),
                )
                for key in metrics
            },
        )
    pairs = [pair(place) for place in range(len(keys))]
    blocks = _blocks(session, keys, judged(pairs) if judged else metrics)
    return Pairs(
        tuple(replace(pair, blocks=blocks[key]) for pair, key in zip(pairs, keys, strict=True)),
        found,
        tuple(unpaired),
        _failed(session, TrialRow.case_id.in_(firsts | seconds)),
        {
            "baseline": _environments(session, TrialRow.case_id.in_(firsts)),
            "candidate": _environments(session, TrialRow.case_id.in_(seconds)),
        },
    )


class _Sides:
    """Cases with the statistics asked for, as the rows that were read; two statements."""

    def __init__(self, session: Session, keys: Collection[int], metrics: Collection[Key]) -> None:
        ordered = sorted(keys)
        self._rows: dict[Key, dict[int, Any]] = {key: {} for key in metrics}
        # Plain rows: an object each would cost more than all the rest of a long comparison.
        connection = session.connection()
        for row in connection.execute(
            select(*_SUMMARY_COLUMNS).where(
                among(session, SummaryRow.case_id, ordered), _is_any(SummaryRow, metrics)
            )
        ):
            self._rows[row[1], row[2]][row[0]] = row
        self._cases = {
            key: (public_id, text)
            for key, public_id, text in connection.execute(
                select(CaseRow.id, CaseRow.public_id, CaseRow.factors_json).where(
                    among(session, CaseRow.id, ordered)
                )
            )
        }
        self._made: dict[int, Side] = {}
        self._link_rates: dict[int, float] = {}

    def side(self, key: int) -> Side:
        """Return a case with its statistics; the same object each time."""
        if key not in self._made:
            statistics = {
                metric: _statistic(row)
                for metric, rows in self._rows.items()
                if (row := rows.get(key)) is not None
            }
            self._made[key] = Side(*self._cases[key], statistics)
        return self._made[key]

    def figures(self, metric: Key, keys: Sequence[int]) -> Figures:
        """Return what cases measured by one metric, one entry a key."""
        if not self._link_rates:
            self._link_rates = {key: link_rate(text) for key, (_, text) in self._cases.items()}
        rates, rows = self._link_rates, self._rows[metric]
        none = (*_NO_NUMBERS, 0.0)
        numbers = {
            key: (1.0, mean, 0.0, rates[key]) if sd is None else (n, mean, sd, rates[key])
            for key, (_, _, _, n, mean, sd, *_) in rows.items()
            if mean is not None
        }
        table = np.array([numbers.get(key, none) for key in keys], np.float64)
        return Figures(*table.reshape(-1, 4).T)


def _statistic(row: Any) -> Statistic:
    _, metric, method, n, mean, sd, *rest = row
    return Statistic(metric, method, n, mean, None, sd, *rest)


def _is_any(
    row: type[MeasurementRow] | type[SummaryRow], metrics: Collection[Key]
) -> ColumnElement[bool]:
    """Return the condition that a row is of one of these metrics by its method."""
    return or_(
        false(), *(and_(row.metric == name, row.method == method) for name, method in metrics)
    )


_SUMMARY_COLUMNS = (
    *(SummaryRow.case_id, SummaryRow.metric, SummaryRow.method, SummaryRow.n, SummaryRow.mean),
    *(SummaryRow.sd, SummaryRow.low, SummaryRow.high, SummaryRow.reason),
    *(SummaryRow.runs, SummaryRow.entries),
)


def _blocks(
    session: Session, keys: Sequence[tuple[int, int]], metrics: Collection[Key]
) -> dict[tuple[int, int], dict[Key, tuple[tuple[float, float], ...]]]:
    """Return the values that both cases of a pair measured in one block; two statements."""
    cases = {key for pair in keys for key in pair}
    excluded = {
        tuple(row)
        for row in session.execute(
            select(TrialRow.run_id, TrialRow.case_id, TrialRow.repetition)
            .join(ExclusionRow, ExclusionRow.trial_id == TrialRow.id)
            .where(TrialRow.case_id.in_(cases), TrialRow.status == "ok")
        )
    }
    values: dict[int, dict[Key, dict[tuple[int, int], float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    # Plain rows, as in _sides.
    columns = (
        *(MeasurementRow.run_id, MeasurementRow.case_id, MeasurementRow.metric),
        *(MeasurementRow.method, MeasurementRow.values_f64),
    )
    for run_id, case_id, metric, method, values_f64 in session.execute(
        select(*columns).where(MeasurementRow.case_id.in_(cases), _is_any(MeasurementRow, metrics))
    ):
        measured = values[case_id][metric, method]
        for repetition, value in enumerate(blobs.decode(values_f64)):
            if value is not None and (run_id, case_id, repetition) not in excluded:
                measured[run_id, repetition] = value
    found: dict[tuple[int, int], dict[Key, tuple[tuple[float, float], ...]]] = {}
    for first, second in keys:
        found[first, second] = {
            key: tuple(
                (values[first][key][place], values[second][key][place])
                for place in sorted(values[first][key].keys() & values[second][key].keys())
            )
            for key in metrics
        }
    return found


def _failed(session: Session, where: ColumnElement[bool]) -> int:
    counted = select(func.count()).where(where, TrialRow.status == "failed")
    return session.scalar(counted) or 0


def _environments(session: Session, where: ColumnElement[bool]) -> tuple[Facts, ...]:
    """Return the facts of the hosts of some trials; one statement."""
    ends = [
        select(column).where(where, column.is_not(None)).distinct()
        for column in (TrialRow.sender_environment_id, TrialRow.receiver_environment_id)
    ]
    ids = ends[0].union(ends[1]).subquery()
    rows = session.scalars(
        select(EnvironmentRow)
        .where(EnvironmentRow.id.in_(select(ids.c[0])))
        .order_by(EnvironmentRow.public_id)
    )
    return tuple(json.loads(row.facts_json) for row in rows)


def _case_key(session: Session, db: Database, public_id: str) -> int:
    key = session.scalar(select(CaseRow.id).where(CaseRow.public_id == public_id))
    if key is None:
        raise NotFound("case", public_id, db.name)
    return key


def _run_key(session: Session, db: Database, public_id: str) -> int:
    key = session.scalar(select(RunRow.id).where(RunRow.public_id == public_id))
    if key is None:
        raise NotFound("run", public_id, db.name)
    return key


def _cases_of_run(session: Session, run: int) -> dict[str, tuple[int, str, str]]:
    """Return plan key -> case of a run: key, id and factors as stored, in the order of trials."""
    rows = session.execute(
        select(TrialRow.plan_key, CaseRow.id, CaseRow.public_id, CaseRow.factors_json)
        .join(CaseRow, CaseRow.id == TrialRow.case_id)
        .where(TrialRow.run_id == run)
        .order_by(TrialRow.position)
    )
    cases: dict[str, tuple[int, str, str]] = {}
    for plan_key, key, public_id, text in rows:
        cases.setdefault(plan_key, (key, public_id, text))
    return cases


def _sides_of_run(
    session: Session, run: int, cases: Mapping[str, tuple[int, str, str]]
) -> dict[str, Side]:
    series = series_by_case(session, run)
    statistics = {
        key: {(one.statistic.metric, one.statistic.method): one.statistic for one in some}
        for key, some in series.items()
    }
    return {
        plan_key: Side(public_id, text, statistics.get(key, {}))
        for plan_key, (key, public_id, text) in cases.items()
    }


def levels_of(db: Database, factor: str) -> tuple[tuple[str, int], ...]:
    """Return the values that cases have of a factor, with how many have each; one statement."""
    counted = (
        select(CaseFactorRow.value, func.count(), func.min(CaseFactorRow.number))
        .where(CaseFactorRow.factor == factor)
        .group_by(CaseFactorRow.value)
        .order_by(func.min(CaseFactorRow.number), CaseFactorRow.value)
    )
    with db.reading() as session:
        return tuple((value, count) for value, count, _ in session.execute(counted))


def differing(baseline: CaseFactors, candidate: CaseFactors) -> list[str]:
    """Return the factors in which two cases differ, registry order."""
    return registry.varying([baseline, candidate])
