"""What the method of a run needs beside its values: order, times, signs of each case, readings.

Everything here is about one run; nothing reads rows in proportion to the database.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from zcdb.ids import Json
from zcdb.records import MetricValue
from zcdb.store.models import (
    CaseRow,
    MeasurementRow,
    RunRow,
    TrialDetailRow,
    TrialRow,
)
from zcdb.store.queries.common import NotFound
from zcdb.store.session import Database
from zcdb.store.values import decode

TRIALS_WITH_SIGNS = 5
"""Trials of each case whose raw counts are read for what limited them and what was copied."""

SIGNS = ("limiter", "zero_copy")


@dataclass(frozen=True, slots=True)
class Place:
    """Where and when a repetition of a case was measured in a run.

    Attributes:
        started_at: of the attempt that measured it.
    """

    position: int
    block: int
    started_at: datetime


@dataclass(frozen=True, slots=True)
class RunMethod:
    """How a run was measured.

    Attributes:
        places: (plan key, repetition) -> where it was measured; trials that are ok only.
        signs: plan key -> "limiter" and "zero_copy" -> what trials of the case say of it, the
            newest first.
        readings: of the machine, one for each time the run was worked on.
    """

    places: Mapping[tuple[str, int], Place]
    signs: Mapping[str, Mapping[str, tuple[Json, ...]]]
    readings: tuple[Mapping[str, Json], ...]


def run_method(db: Database, run_id: str) -> RunMethod:
    """Return how a run was measured; three statements.

    Raises:
        NotFound: if there is no such run.
    """
    with db.reading() as session:
        run = session.execute(
            select(RunRow.id, RunRow.readings_json).where(RunRow.public_id == run_id)
        ).one_or_none()
        if run is None:
            raise NotFound("run", run_id, db.name)
        places = session.execute(
            select(
                TrialRow.plan_key,
                TrialRow.repetition,
                TrialRow.position,
                TrialRow.block,
                TrialRow.started_at,
            ).where(TrialRow.run_id == run.id, TrialRow.status == "ok")
        )
        return RunMethod(
            {
                (row.plan_key, row.repetition): Place(row.position, row.block, row.started_at)
                for row in places
            },
            _signs(session, run.id),
            tuple(json.loads(run.readings_json)),
        )


def _signs(session: Session, run_id: int) -> dict[str, dict[str, tuple[Json, ...]]]:
    newest = func.row_number().over(
        partition_by=TrialRow.plan_key, order_by=TrialRow.position.desc()
    )
    ranked = (
        select(TrialRow.id, TrialRow.plan_key, newest.label("place"))
        .where(TrialRow.run_id == run_id, TrialRow.status == "ok")
        .subquery()
    )
    found: dict[str, dict[str, list[Json]]] = defaultdict(lambda: defaultdict(list))
    for plan_key, counts_json in session.execute(
        select(ranked.c.plan_key, TrialDetailRow.counts_json)
        .join(TrialDetailRow, TrialDetailRow.trial_id == ranked.c.id)
        .where(ranked.c.place <= TRIALS_WITH_SIGNS)
        .order_by(ranked.c.plan_key, ranked.c.place)
    ):
        counts = json.loads(counts_json)
        for sign in SIGNS:
            if counts.get(sign):
                found[plan_key][sign].append(counts[sign])
    return {
        plan_key: {sign: tuple(values) for sign, values in signs.items()}
        for plan_key, signs in found.items()
    }


def measured_values(
    db: Database, run_id: str, metric: str
) -> dict[tuple[str, int], list[MetricValue]]:
    """Return what the trials of a run measured of one metric, by plan key and repetition.

    Raises:
        NotFound: if there is no such run.
    """
    with db.reading() as session:
        run_row = session.scalar(select(RunRow.id).where(RunRow.public_id == run_id))
        if run_row is None:
            raise NotFound("run", run_id, db.name)
        keys: dict[int, set[str]] = defaultdict(set)
        for case_id, plan_key in session.execute(
            select(TrialRow.case_id, TrialRow.plan_key).where(TrialRow.run_id == run_row).distinct()
        ):
            keys[case_id].add(plan_key)
        rows = session.execute(
            select(MeasurementRow.case_id, MeasurementRow.method, MeasurementRow.values_f64).where(
                MeasurementRow.run_id == run_row, MeasurementRow.metric == metric
            )
        ).all()
    found: dict[tuple[str, int], list[MetricValue]] = defaultdict(list)
    for row in rows:
        for repetition, value in enumerate(decode(row.values_f64)):
            if value is not None:
                for plan_key in keys[row.case_id]:
                    found[plan_key, repetition].append(MetricValue(metric, row.method, value))
    return dict(found)


def run_of_case(db: Database, case_id: str) -> str | None:
    """Return the newest run that measured a case, None if none did."""
    with db.reading() as session:
        return session.scalar(
            select(RunRow.public_id)
            .join(TrialRow, TrialRow.run_id == RunRow.id)
            .join(CaseRow, CaseRow.id == TrialRow.case_id)
            .where(CaseRow.public_id == case_id)
            .order_by(TrialRow.started_at.desc(), TrialRow.id.desc())
            .limit(1)
        )
