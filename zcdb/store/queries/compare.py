"""Pairs of cases that differ in one factor alone, with what each measured.

The pairs along a factor come from one indexed join of `pairings` with itself:
cases with the same rest hash.  Three ways to ask: two levels of a factor, two
cases by their ids, two runs by theirs.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, exists, func, or_, select
from sqlalchemy.orm import Session, aliased

from zcdb import factors as registry
from zcdb.factors import FactorValue
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
from zcdb.store.queries.common import NotFound, among
from zcdb.store.queries.lines import statistic
from zcdb.store.results import CaseFactors, Facts, Statistic
from zcdb.store.session import Database

PAIR_LIMIT = 10_000
"""Pairs that one comparison holds at most."""

EXACT_LIMIT = 200
"""Up to so many pairs are compared by their single values, block by block where a run has both."""

Key = tuple[str, str]
"""Metric and method."""


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
        return factors_from_json(self.factors_json)


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
class Pairs:
    """What can be compared.

    Attributes:
        found: pairs there are in all; above `PAIR_LIMIT` only the first ones are in `pairs`.
        unpaired: cases of a level that have no partner: (level, cases).
        failed: trials that failed in the cases compared.
        environments: "baseline" and "candidate" -> the facts of the hosts they were measured on.
    """

    pairs: tuple[Pair, ...]
    found: int
    unpaired: tuple[tuple[str, int], ...]
    failed: int
    environments: Mapping[str, tuple[Facts, ...]]


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
    with db.reading() as session:
        keys = [(row[0], row[1]) for row in session.execute(joined.limit(PAIR_LIMIT))]
        found = len(keys)
        if found == PAIR_LIMIT:
            found = session.scalar(select(func.count()).select_from(joined.subquery())) or 0
        unpaired = _unpaired(session, factor, [value_text(baseline)], levels, where or {})
        unpaired += _unpaired(session, factor, levels, [value_text(baseline)], where or {})
        return _pairs(session, keys, metrics, found, unpaired)


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
        return _pairs(session, pairs, metrics, len(pairs), [])


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


def _pairs(
    session: Session,
    keys: Sequence[tuple[int, int]],
    metrics: Collection[Key],
    found: int,
    unpaired: Sequence[tuple[str, int]],
) -> Pairs:
    firsts, seconds = {key for key, _ in keys}, {key for _, key in keys}
    sides = _sides(session, firsts | seconds, metrics)
    blocks: Mapping[tuple[int, int], Mapping[Key, tuple[tuple[float, float], ...]]] = {}
    if len(keys) <= EXACT_LIMIT:
        blocks = _blocks(session, keys, metrics)
    is_few = len(keys) <= EXACT_LIMIT
    return Pairs(
        tuple(Pair(sides[a], sides[b], blocks.get((a, b), {})) for a, b in keys),
        found,
        tuple(unpaired),
        _failed(session, TrialRow.case_id.in_(firsts | seconds)) if is_few else 0,
        {
            "baseline": _environments(session, TrialRow.case_id.in_(firsts)),
            "candidate": _environments(session, TrialRow.case_id.in_(seconds)),
        }
        if is_few
        else {},
    )


def _sides(session: Session, keys: Collection[int], metrics: Collection[Key]) -> dict[int, Side]:
    """Return the cases with the statistics asked for; two statements."""
    statistics: dict[int, dict[Key, Statistic]] = defaultdict(dict)
    wanted = or_(
        *(and_(SummaryRow.metric == name, SummaryRow.method == method) for name, method in metrics)
    )
    ordered = sorted(keys)
    # Plain rows: an object each would cost more than all the rest of a long comparison.
    for case_id, metric, method, n, mean, sd, *rest in session.execute(
        select(*_SUMMARY_COLUMNS).where(among(session, SummaryRow.case_id, ordered), wanted)
    ):
        statistics[case_id][metric, method] = Statistic(metric, method, n, mean, None, sd, *rest)
    cases = session.execute(
        select(CaseRow.id, CaseRow.public_id, CaseRow.factors_json).where(
            among(session, CaseRow.id, ordered)
        )
    )
    return {key: Side(public_id, text, statistics[key]) for key, public_id, text in cases}


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
    wanted = {name for name, _ in metrics}
    for row in session.scalars(
        select(MeasurementRow).where(
            MeasurementRow.case_id.in_(cases), MeasurementRow.metric.in_(wanted)
        )
    ):
        key = (row.metric, row.method)
        if key in metrics:
            for repetition, value in enumerate(blobs.decode(row.values_f64)):
                if value is not None and (row.run_id, row.case_id, repetition) not in excluded:
                    values[row.case_id][key][row.run_id, repetition] = value
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
    statistics: dict[int, dict[Key, Statistic]] = defaultdict(dict)
    for row in session.scalars(select(MeasurementRow).where(MeasurementRow.run_id == run)):
        statistics[row.case_id][row.metric, row.method] = statistic(row)
    return {
        plan_key: Side(public_id, text, statistics[key])
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
