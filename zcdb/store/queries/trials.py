"""A trial's page: every number or the reason why it is missing."""

from __future__ import annotations

import json
import zlib
from typing import cast

from sqlalchemy import select
from sqlalchemy.orm import Session

from zcdb.flags import FLAGS
from zcdb.records import ENDS, End, SampleSeries
from zcdb.store import values as blobs
from zcdb.store.cases import factors_from_json
from zcdb.store.models import (
    CaseRow,
    EnvironmentRow,
    ExperimentRow,
    FlagRow,
    MeasurementRow,
    RunRow,
    SampleRow,
    TrialDetailRow,
    TrialRow,
)
from zcdb.store.queries.common import NotFound
from zcdb.store.queries.errata import standing
from zcdb.store.queries.lines import experiment_text, registry_order, run_lines, trial_lines
from zcdb.store.results import EnvironmentLine, FlagLine, TrialPage, TrialValue
from zcdb.store.session import Database


def trial_page(db: Database, trial_id: str) -> TrialPage:
    """Return a trial.

    Raises:
        NotFound: if there is no such trial.
        Retracted: if it was taken back.
    """
    with db.reading() as session:
        found = session.execute(
            select(TrialRow, RunRow.experiment_id, CaseRow.factors_json, TrialDetailRow, SampleRow)
            .join(RunRow, RunRow.id == TrialRow.run_id)
            .join(CaseRow, CaseRow.id == TrialRow.case_id)
            .outerjoin(TrialDetailRow, TrialDetailRow.trial_id == TrialRow.id)
            .outerjoin(SampleRow, SampleRow.trial_id == TrialRow.id)
            .where(TrialRow.public_id == trial_id)
        ).one_or_none()
        if found is None:
            raise NotFound("trial", trial_id, db.name)
        trial, experiment_id, factors_json, details, samples = found
        errata = standing(session, "trial", trial_id)
        attempts = trial_lines(
            session,
            TrialRow.run_id == trial.run_id,
            TrialRow.plan_key == trial.plan_key,
            TrialRow.repetition == trial.repetition,
            order=(TrialRow.attempt,),
        )
        before, behind = _neighbours(session, trial)
        return TrialPage(
            trial=attempts[trial.id],
            run=run_lines(session, select(RunRow.id).where(RunRow.id == trial.run_id))[0],
            experiment=experiment_text(session.get_one(ExperimentRow, experiment_id)),
            factors=factors_from_json(factors_json),
            values=_values(session, trial, details),
            flags=_flags(session, trial.id),
            counts=json.loads(details.counts_json) if details else {},
            samples=_samples(samples) if samples else None,
            environments=_environments(session, trial),
            attempts=tuple(attempts.values()),
            previous_id=before,
            next_id=behind,
            errata=errata,
        )


def _values(
    session: Session, trial: TrialRow, details: TrialDetailRow | None
) -> tuple[TrialValue, ...]:
    rows = session.scalars(
        select(MeasurementRow).where(
            MeasurementRow.run_id == trial.run_id, MeasurementRow.case_id == trial.case_id
        )
    ).all()
    reasons = json.loads(details.reasons_json) if details else []
    found = [TrialValue(metric, method, None, reason) for metric, method, reason in reasons]
    if trial.status == "ok":
        for row in rows:
            # A metric that later repetitions measured may be shorter or empty here.
            values = blobs.decode(row.values_f64)
            value = values[trial.repetition] if trial.repetition < len(values) else None
            if value is not None:
                found.append(TrialValue(row.metric, row.method, value, None))
    return tuple(sorted(found, key=lambda value: registry_order(value.metric, value.method)))


def _flags(session: Session, trial_id: int) -> tuple[FlagLine, ...]:
    rows = session.scalars(
        select(FlagRow).where(FlagRow.trial_id == trial_id).order_by(FlagRow.position)
    )
    # A newer zcdb may have raised a flag that this one has no sentence for.
    return tuple(FlagLine(row.code, FLAGS.get(row.code, row.code), row.detail) for row in rows)


def _samples(row: SampleRow) -> SampleSeries:
    return SampleSeries(columns=json.loads(zlib.decompress(row.columns_zlib)))


def _environments(session: Session, trial: TrialRow) -> dict[End, EnvironmentLine]:
    keys = {"sender": trial.sender_environment_id, "receiver": trial.receiver_environment_id}
    rows = {
        row.id: row
        for row in session.scalars(
            select(EnvironmentRow).where(EnvironmentRow.id.in_(set(keys.values()) - {None}))
        )
    }
    found: dict[End, EnvironmentLine] = {}
    for end in ENDS:
        row = rows.get(cast(int, keys[end]))
        if row is not None:
            ends = tuple(other for other in ENDS if keys[other] == row.id)
            found[end] = EnvironmentLine(row.public_id, json.loads(row.facts_json), ends)
    return found


def _neighbours(session: Session, trial: TrialRow) -> tuple[str | None, str | None]:
    """Return the trials measured just before and just after in the same run; two statements."""
    of_run = select(TrialRow.public_id).where(TrialRow.run_id == trial.run_id).limit(1)
    before = session.scalar(of_run.where(TrialRow.id < trial.id).order_by(TrialRow.id.desc()))
    behind = session.scalar(of_run.where(TrialRow.id > trial.id).order_by(TrialRow.id))
    return before, behind
