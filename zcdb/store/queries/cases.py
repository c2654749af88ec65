"""A case's page: its trials on any host, and the cases beside it along each factor."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from statistics import median

from sqlalchemy import exists, func, select, tuple_
from sqlalchemy.orm import Session, aliased

from zcdb.factors import FACTORS, FactorValue
from zcdb.store import values as blobs
from zcdb.store.cases import factors_from_json
from zcdb.store.models import (
    CaseFactorRow,
    CaseRow,
    EntryRow,
    ExperimentRow,
    MeasurementRow,
    PairingRow,
    RunRow,
    SummaryRow,
    TrialRow,
)
from zcdb.store.queries.common import NotFound
from zcdb.store.queries.lines import statistics_of_cases, trial_lines
from zcdb.store.queries.sources import entry_lines
from zcdb.store.results import (
    CaseLine,
    CaseList,
    CasePage,
    CaseTrial,
    Sibling,
    Statistic,
    TrialLine,
)
from zcdb.store.session import Database


def case_list(
    db: Database,
    *,
    after: str | None = None,
    limit: int = 50,
    with_published: bool = False,
    with_twins: bool = False,
) -> CaseList:
    """Return cases, the ones met last first, from the one after case `after` on.

    Args:
        db: where to read.
        with_published: also those that nobody measured with zcdb: of the founding tables and
            of imported files.
        with_twins: also those that repeat another case under another name, to test the method.

    Raises:
        NotFound: if there is no case `after`.
    """
    with db.reading() as session:
        trials = (
            select(func.count())
            .where(TrialRow.case_id == CaseRow.id, TrialRow.status == "ok")
            .correlate(CaseRow)
            .scalar_subquery()
        )
        entries = (
            select(func.count())
            .where(EntryRow.case_id == CaseRow.id)
            .correlate(CaseRow)
            .scalar_subquery()
        )
        chosen = select(CaseRow, trials, entries).order_by(CaseRow.id.desc()).limit(limit + 1)
        if not with_published:
            chosen = chosen.where(exists().where(TrialRow.case_id == CaseRow.id))
        if not with_twins:
            is_twin = exists().where(
                CaseFactorRow.factor == "twin",
                CaseFactorRow.case_id == CaseRow.id,
                CaseFactorRow.number > 0,
            )
            chosen = chosen.where(~is_twin)
        if after is not None:
            key = session.scalar(select(CaseRow.id).where(CaseRow.public_id == after))
            if key is None:
                raise NotFound("case", after, db.name)
            chosen = chosen.where(CaseRow.id < key)
        lines = [
            CaseLine(row.public_id, factors_from_json(row.factors_json), count, published)
            for row, count, published in session.execute(chosen)
        ]
        next_after = lines[limit - 1].id if len(lines) > limit else None
        return CaseList(tuple(lines[:limit]), next_after)


def case_page(
    db: Database,
    case_id: str,
    *,
    after: str | None = None,
    limit: int = 500,
    beside: Collection[str] | None = None,
) -> CasePage:
    """Return a case with `limit` of its trials, oldest first, from the one after `after` on.

    Args:
        beside: metrics to bring along of the cases beside it; None is all.

    Raises:
        NotFound: if there is no such case, or no such trial `after`.
    """
    with db.reading() as session:
        case = session.scalars(select(CaseRow).where(CaseRow.public_id == case_id)).one_or_none()
        if case is None:
            raise NotFound("case", case_id, db.name)
        where = [TrialRow.case_id == case.id]
        if after is not None:
            key = session.execute(
                select(TrialRow.started_at, TrialRow.id).where(TrialRow.public_id == after)
            ).one_or_none()
            if key is None:
                raise NotFound("trial", after, db.name)
            where.append(tuple_(TrialRow.started_at, TrialRow.id) > tuple(key))
        lines = trial_lines(
            session, *where, order=(TrialRow.started_at, TrialRow.id), limit=limit + 1
        )
        trials = _with_values(session, case.id, list(lines.values()))
        statistics = statistics_of_cases(session, [case.id])[case.id]
        if after is None and len(trials) <= limit:
            statistics = _with_medians(statistics, trials)
        return CasePage(
            id=case.public_id,
            factors=factors_from_json(case.factors_json),
            statistics=statistics,
            trials=tuple(trials[:limit]),
            next_after=trials[limit - 1].trial.id if len(trials) > limit else None,
            siblings=_siblings(session, case.id, beside),
            entries=tuple(entry_lines(session, EntryRow.case_id == case.id)),
        )


def _with_medians(
    statistics: Sequence[Statistic], trials: Sequence[CaseTrial]
) -> tuple[Statistic, ...]:
    """Return statistics with the median, which no table keeps: all of the values are at hand."""
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for trial in trials:
        if trial.trial.excluded is None:
            for key, value in trial.values.items():
                values[key].append(value)
    return tuple(
        replace(one, median=median(values[one.metric, one.method]))
        if not one.entries and values[one.metric, one.method]
        else one
        for one in statistics
    )


def _with_values(session: Session, case_id: int, lines: list[TrialLine]) -> list[CaseTrial]:
    """Return the trials with the values that each of them measured; two statements."""
    runs = {
        public_id: (run_id, name)
        for run_id, public_id, name in session.execute(
            select(RunRow.id, RunRow.public_id, ExperimentRow.name)
            .join(ExperimentRow, ExperimentRow.id == RunRow.experiment_id)
            .where(RunRow.public_id.in_({line.run_id for line in lines}))
        )
    }
    values: dict[tuple[int, int], dict[tuple[str, str], float]] = defaultdict(dict)
    row = MeasurementRow
    for run, metric, method, values_f64 in session.execute(
        select(row.run_id, row.metric, row.method, row.values_f64).where(
            row.case_id == case_id, row.run_id.in_([run_id for run_id, _ in runs.values()])
        )
    ):
        for repetition, value in enumerate(blobs.decode(values_f64)):
            if value is not None:
                values[run, repetition][metric, method] = value
    return [
        CaseTrial(
            trial=line,
            experiment_name=runs[line.run_id][1],
            values=values[runs[line.run_id][0], line.repetition] if line.status == "ok" else {},
        )
        for line in lines
    ]


def _siblings(
    session: Session, case_id: int, metrics: Collection[str] | None
) -> dict[str, tuple[Sibling, ...]]:
    """Return factor -> the cases that differ in it alone, registry order; two statements."""
    own, other = aliased(PairingRow), aliased(PairingRow)
    rows = session.execute(
        select(other.factor, other.value, other.case_id, CaseRow.public_id, CaseRow.factors_json)
        .join(own, (own.factor == other.factor) & (own.rest_hash == other.rest_hash))
        .join(CaseRow, CaseRow.id == other.case_id)
        .where(own.case_id == case_id, other.case_id != case_id, other.value != own.value)
    ).all()
    statistics = statistics_of_cases(
        session,
        {row.case_id for row in rows},
        *(() if metrics is None else (SummaryRow.metric.in_(metrics),)),
    )
    found: dict[str, list[tuple[tuple[int, str], Sibling]]] = defaultdict(list)
    for row in rows:
        stated: dict[str, FactorValue] = json.loads(row.factors_json)
        value = stated.get(row.factor, FACTORS[row.factor].default if row.factor in FACTORS else "")
        assert value is not None  # noqa: S101  # a factor without a default is always stated
        place = (value, "") if isinstance(value, int) else (0, str(value))
        sibling = Sibling(row.public_id, value, statistics[row.case_id])
        found[row.factor].append((place, sibling))
    # Settings with a dotted name are not listed in the registry: they come last.
    order = [*FACTORS, *sorted(set(found) - set(FACTORS))]
    return {
        factor: tuple(sibling for _, sibling in sorted(found[factor], key=lambda pair: pair[0]))
        for factor in order
        if factor in found
    }
