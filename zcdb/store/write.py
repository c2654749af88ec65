"""Writing records, each in a transaction of its own, as soon as it exists.

    add_run(db, run)
    add_environment(db, environment)
    start_trial(db, start)        before anything is measured
    end_trial(db, end)            exactly once
    finish_run(db, run.id, "finished", readings)

A trial that has ended is never edited.  Values of a trial that is not ok stay
out of the measurements: what it read is in its raw counts and samples.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from sqlalchemy import Row, func, select, update
from sqlalchemy import insert as plain_insert
from sqlalchemy.orm import Session

from zcdb.errors import StoreError
from zcdb.flags import FLAGS
from zcdb.ids import Json, canonical_json
from zcdb.metrics import CPU_METHODS, METRICS
from zcdb.records import (
    ENDS,
    End,
    Environment,
    ExperimentText,
    MetricValue,
    Outcome,
    PlannedCase,
    PlannedTrial,
    Run,
    SampleSeries,
    TrialEnd,
    TrialStart,
)
from zcdb.store import values as blobs
from zcdb.store.cases import ensure_case, factors_json
from zcdb.store.models import (
    CaseRow,
    EnvironmentRow,
    ExclusionRow,
    ExperimentRow,
    FlagRow,
    MeasurementRow,
    NoteRow,
    PlannedCaseRow,
    PlannedTrialRow,
    RunRow,
    SampleRow,
    TrialDetailRow,
    TrialRow,
)
from zcdb.store.session import Database
from zcdb.store.statistics import (
    excluded_repetitions,
    grow_summaries,
    kept,
    refresh_measurements,
    refresh_summaries,
)
from zcdb.store.upsert import insert_new, upsert
from zcdb.store.uses import count_use

INTERRUPTED = "interrupted"
"""Reason of a trial that ended because its run was stopped: its repetition gets a new attempt."""


def _now() -> datetime:
    return datetime.now(UTC)


def _add_experiment(session: Session, experiment: ExperimentText) -> int:
    """Return the key of an experiment's row; makes it where it is not there yet."""
    row = {
        "public_id": experiment.id,
        "name": experiment.name,
        "question": experiment.question,
        "text": experiment.text,
        "resolved_json": canonical_json(experiment.resolved),
    }
    insert_new(session, ExperimentRow, [row])
    find = select(ExperimentRow.id).where(ExperimentRow.public_id == experiment.id)
    return session.scalars(find).one()


def add_run(db: Database, run: Run) -> None:
    """Store a run with its experiment and its whole plan, before anything is measured.

    Raises:
        StoreError: if the run is there already.
    """
    with db.writing() as session:
        if session.scalar(select(RunRow.id).where(RunRow.public_id == run.id)) is not None:
            raise StoreError(f"run {run.id} is in {db.name} already")
        row = RunRow(
            public_id=run.id,
            experiment_id=_add_experiment(session, run.experiment),
            started_at=run.started_at,
            zcdb_version=run.zcdb_version,
            seed=run.seed,
            outcome="running",
            readings_json="[]",
        )
        session.add(row)
        session.flush()
        _add_places(session, row.id, run.cases, run.plan)
        if run.note:
            session.add(NoteRow(run_id=row.id, text=run.note, written_at=run.started_at))


def _add_places(
    session: Session,
    run_id: int,
    planned: Sequence[PlannedCase],
    places: Sequence[PlannedTrial],
    *,
    first_case: int = 0,
) -> None:
    cases = [
        {
            "run_id": run_id,
            "plan_key": case.plan_key,
            "position": position,
            "factors_json": factors_json(case.factors),
        }
        for position, case in enumerate(planned, first_case)
    ]
    trials = [
        {
            "run_id": run_id,
            "position": place.position,
            "plan_key": place.plan_key,
            "block": place.block,
            "repetition": place.repetition,
        }
        for place in places
    ]
    for row_class, rows in ((PlannedCaseRow, cases), (PlannedTrialRow, trials)):
        if rows:
            session.execute(plain_insert(row_class), rows)


def add_environment(db: Database, environment: Environment) -> None:
    """Store the facts of a host; nothing happens if they are there already."""
    row = {"public_id": environment.id, "facts_json": canonical_json(environment.facts)}
    with db.writing() as session:
        insert_new(session, EnvironmentRow, [row])


def start_trial(db: Database, start: TrialStart) -> None:
    """Store a trial as running, and its case where it is new.

    Raises:
        StoreError: if the run is unknown or finished, the plan has no such place, an
            environment is unknown, or the attempt is not the next one of its repetition.
    """
    with db.writing() as session:
        run = _run(session, start.run_id, db)
        if run.outcome == "finished":
            raise StoreError(f"run {start.run_id} is finished: no trial can start in it")
        _check_place(session, run.id, start)
        _check_attempt(session, run.id, start)
        ends = {end: _environment(session, start, end) for end in ENDS}
        session.add(
            TrialRow(
                public_id=start.id,
                run_id=run.id,
                case_id=ensure_case(session, start.case_factors),
                plan_key=start.plan_key,
                repetition=start.repetition,
                attempt=start.attempt,
                block=start.block,
                position=start.position,
                status="running",
                started_at=start.started_at,
                sender_environment_id=ends["sender"],
                receiver_environment_id=ends["receiver"],
            )
        )
        count_use(session, run.id, ends.values(), start.started_at)
        if run.outcome != "running":
            resumed = {"outcome": "running", "ended_at": None}
            session.execute(update(RunRow).where(RunRow.id == run.id).values(resumed))


def _run(session: Session, run_id: str, db: Database) -> Row[int, str, str]:
    """Return key, outcome and readings of a run, its row locked until the transaction ends."""
    row = session.execute(
        select(RunRow.id, RunRow.outcome, RunRow.readings_json)
        .where(RunRow.public_id == run_id)
        .with_for_update()
    ).one_or_none()
    if row is None:
        raise StoreError(f"there is no run {run_id} in {db.name}", hint="'zcdb list' names them.")
    return row


def _check_place(session: Session, run_id: int, start: TrialStart) -> None:
    place = session.execute(
        select(PlannedTrialRow.position, PlannedTrialRow.block).where(
            PlannedTrialRow.run_id == run_id,
            PlannedTrialRow.plan_key == start.plan_key,
            PlannedTrialRow.repetition == start.repetition,
        )
    ).one_or_none()
    if place is None or (place.position, place.block) != (start.position, start.block):
        raise StoreError(
            f"the plan of run {start.run_id} has no trial of case {start.plan_key} with"
            f" repetition {start.repetition} at place {start.position} of block {start.block}"
        )


def _check_attempt(session: Session, run_id: int, start: TrialStart) -> None:
    last = session.execute(
        select(TrialRow.attempt, TrialRow.status, TrialRow.reason)
        .where(
            TrialRow.run_id == run_id,
            TrialRow.plan_key == start.plan_key,
            TrialRow.repetition == start.repetition,
        )
        .order_by(TrialRow.attempt.desc())
        .limit(1)
    ).one_or_none()
    what = f"repetition {start.repetition} of case {start.plan_key} in run {start.run_id}"
    if last is None:
        return
    if last.attempt >= start.attempt:
        raise StoreError(f"attempt {start.attempt} at {what} is there already")
    if not is_retried(last.status, last.reason):
        raise StoreError(f"{what} needs no new attempt: its last one is {last.status}")


def is_retried(status: str, reason: str | None) -> bool:
    """Return whether a repetition whose last attempt ended so gets a new one."""
    return status == "failed" and reason == INTERRUPTED


def _environment(session: Session, start: TrialStart, end: End) -> int | None:
    public_id = start.environment_ids.get(end)
    if public_id is None:
        return None
    row_id = session.scalar(select(EnvironmentRow.id).where(EnvironmentRow.public_id == public_id))
    if row_id is None:
        raise StoreError(f"environment {public_id} of the {end} is not stored yet")
    return row_id


def end_trial(db: Database, end: TrialEnd) -> None:
    """Store how a trial ended, with everything it read, in one transaction.

    Raises:
        StoreError: if the trial is unknown or has ended already.
        ValueError: if the record contradicts itself.
    """
    _check_end(end)
    with db.writing() as session:
        trial = _running_trial(session, end.trial_id, db)
        session.execute(
            update(TrialRow)
            .where(TrialRow.id == trial.id)
            .values(
                status=end.status,
                reason=end.reason,
                ended_at=end.ended_at,
                window_ns=end.window_ns,
            )
        )
        _add_details(session, trial.id, end)
        if end.status == "ok":
            _add_values(session, trial, end.measurements)


def _check_end(end: TrialEnd) -> None:
    if end.status not in ("ok", "failed", "unsupported"):
        raise ValueError(f"a trial cannot end as {end.status}")
    if (end.status == "ok") != (end.reason is None):
        raise ValueError(f"a trial that is {end.status} with reason {end.reason!r}")
    for flag in end.flags:
        if flag.code not in FLAGS:
            raise ValueError(f"no flag is called {flag.code!r}")
    seen = set()
    for value in end.measurements:
        _check_value(value)
        seen.add((value.metric, value.method))
    if len(seen) != len(end.measurements):
        raise ValueError(f"trial {end.trial_id} measured a metric twice by the same method")


def _check_value(value: MetricValue) -> None:
    metric = METRICS.get(value.metric)
    if metric is None:
        raise ValueError(f"no metric is called {value.metric!r}")
    if value.method not in (CPU_METHODS if metric.has_method else ("",)):
        raise ValueError(f"{value.metric} has no method {value.method!r}")
    if (value.value is None) != bool(value.reason):
        raise ValueError(f"{value.metric}: either a value or a reason why there is none")


def _running_trial(session: Session, trial_id: str, db: Database) -> Row[int, int, int, int, str]:
    """Return a running trial, the row of its case locked until the transaction ends."""
    trial = session.execute(
        select(TrialRow.id, TrialRow.run_id, TrialRow.case_id, TrialRow.repetition, TrialRow.status)
        .join(CaseRow, CaseRow.id == TrialRow.case_id)
        .where(TrialRow.public_id == trial_id)
        .with_for_update()
    ).one_or_none()
    if trial is None:
        raise StoreError(f"there is no trial {trial_id} in {db.name}")
    if trial.status != "running":
        raise StoreError(f"trial {trial_id} has ended already: it is {trial.status}")
    return trial


def _add_details(session: Session, trial_id: int, end: TrialEnd) -> None:
    reasons = [[v.metric, v.method, v.reason] for v in end.measurements if v.value is None]
    session.add(
        TrialDetailRow(
            trial_id=trial_id,
            counts_json=canonical_json(end.counts),
            reasons_json=canonical_json(reasons),
        )
    )
    if end.samples is not None:
        session.add(_sample_row(trial_id, end.samples))
    session.add_all(
        FlagRow(trial_id=trial_id, position=position, code=flag.code, detail=flag.detail)
        for position, flag in enumerate(end.flags)
    )


def _sample_row(trial_id: int, series: SampleSeries) -> SampleRow:
    lengths = {len(column) for column in series.columns.values()}
    if len(lengths) != 1:
        raise ValueError(f"samples of unequal length: {sorted(lengths)}")
    columns = {name: list(column) for name, column in series.columns.items()}
    packed = zlib.compress(canonical_json(columns).encode(), level=6)
    return SampleRow(trial_id=trial_id, samples=lengths.pop(), columns_zlib=packed)


def _add_values(
    session: Session, trial: Row[int, int, int, int, str], measured: Sequence[MetricValue]
) -> None:
    """Put a trial's values at their place in the measurements and bring the statistics along."""
    stored = {
        (row.metric, row.method): row
        for row in session.execute(
            select(
                MeasurementRow.metric,
                MeasurementRow.method,
                MeasurementRow.values_f64,
                MeasurementRow.n,
                MeasurementRow.reason,
            ).where(MeasurementRow.run_id == trial.run_id, MeasurementRow.case_id == trial.case_id)
        )
    }
    excluded = excluded_repetitions(session, trial.case_id, run_id=trial.run_id)
    rows = []
    for value in measured:
        old = stored.get((value.metric, value.method))
        values = blobs.with_value(
            blobs.decode(old.values_f64) if old else (), trial.repetition, value.value
        )
        row = {
            "run_id": trial.run_id,
            "case_id": trial.case_id,
            "metric": value.metric,
            "method": value.method,
            "values_f64": blobs.encode(values),
            "reason": value.reason or (old.reason if old else None),
            **blobs.statistics(kept(values, trial.run_id, excluded)),
        }
        rows.append(row)
    upsert(session, MeasurementRow, rows)
    # The first value of a run is the one that makes its statistic's n go from 0 to 1.
    firsts = [
        row["n"] > 0 and not (key in stored and stored[key].n)
        for row, key in ((row, (row["metric"], row["method"])) for row in rows)
    ]
    grow_summaries(session, trial.case_id, zip(measured, firsts, strict=True))


def fail_interrupted_trials(db: Database, run_id: str, *, ended_at: datetime | None = None) -> int:
    """End what still runs in a run as *failed: interrupted*; returns how many there were.

    For a run that nobody works on any more: after kill -9, and on Ctrl-C.

    Args:
        ended_at: when it was noticed; now unless said otherwise.
    """
    with db.writing() as session:
        run = _run(session, run_id, db)
        ended = session.scalars(
            update(TrialRow)
            .where(TrialRow.run_id == run.id, TrialRow.status == "running")
            .values(status="failed", reason=INTERRUPTED, ended_at=ended_at or _now())
            .returning(TrialRow.id)
        ).all()
        return len(ended)


def finish_run(
    db: Database,
    run_id: str,
    outcome: Outcome,
    readings: Mapping[str, Json],
    *,
    ended_at: datetime | None = None,
) -> None:
    """Store that work on a run has stopped.

    Args:
        outcome: "finished" if every repetition of the plan is final, else how it stopped.
        readings: what was read of the machine meanwhile; a resumed run keeps the earlier ones.
        ended_at: now unless said otherwise.

    Raises:
        StoreError: if the run is unknown or finished already.
    """
    with db.writing() as session:
        run = _run(session, run_id, db)
        if run.outcome == "finished":
            raise StoreError(f"run {run_id} is finished already")
        readings_json = canonical_json([*json.loads(run.readings_json), readings])
        ended = {"outcome": outcome, "ended_at": ended_at or _now(), "readings_json": readings_json}
        session.execute(update(RunRow).where(RunRow.id == run.id).values(ended))


def set_note(db: Database, run_id: str, text: str) -> None:
    """Write the remark beside a run; the earlier ones stay stored, the newest is shown."""
    with db.writing() as session:
        run = _run(session, run_id, db)
        session.add(NoteRow(run_id=run.id, text=text, written_at=_now()))


def exclude_trial(db: Database, trial_id: str, *, reason: str, excluded_by: str) -> None:
    """Leave a trial out of the statistics; the trial itself stays as it is.

    Raises:
        StoreError: if the trial is unknown, still runs or is excluded already.
    """
    with db.writing() as session:
        trial = session.execute(
            select(TrialRow.id, TrialRow.run_id, TrialRow.case_id, TrialRow.status).where(
                TrialRow.public_id == trial_id
            )
        ).one_or_none()
        if trial is None:
            raise StoreError(f"there is no trial {trial_id} in {db.name}")
        if trial.status == "running":
            raise StoreError(f"trial {trial_id} is still running")
        if session.get(ExclusionRow, trial.id) is not None:
            raise StoreError(f"trial {trial_id} is excluded already")
        session.add(
            ExclusionRow(
                trial_id=trial.id, reason=reason, excluded_by=excluded_by, excluded_at=_now()
            )
        )
        session.flush()
        refresh_measurements(session, trial.case_id)
        refresh_summaries(session, trial.case_id)


def extend_plan(
    db: Database, run_id: str, cases: Sequence[PlannedCase], trials: Sequence[PlannedTrial]
) -> None:
    """Let cases and places join the plan of a run, before they are measured.

    Args:
        cases: new to the run.
        trials: places that follow the last one of the plan.

    Raises:
        StoreError: if the run is unknown or finished, or the places do not follow its plan.
    """
    with db.writing() as session:
        run = _run(session, run_id, db)
        if run.outcome == "finished":
            raise StoreError(f"run {run_id} is finished: its plan cannot grow")
        of_run = PlannedTrialRow.run_id == run.id
        places = session.scalar(select(func.count()).select_from(PlannedTrialRow).where(of_run))
        known = session.scalar(
            select(func.count()).select_from(PlannedCaseRow).where(PlannedCaseRow.run_id == run.id)
        )
        first = int(places or 0)
        if [place.position for place in trials] != list(range(first, first + len(trials))):
            raise StoreError(f"the new places do not follow the {first} of run {run_id}")
        _add_places(session, run.id, cases, trials, first_case=int(known or 0))
