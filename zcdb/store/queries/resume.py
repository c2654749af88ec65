"""Where a run that was not finished stands."""

from __future__ import annotations

from sqlalchemy import select

from zcdb.records import PlannedCase, PlannedTrial
from zcdb.store.cases import factors_from_json
from zcdb.store.models import ExperimentRow, PlannedCaseRow, PlannedTrialRow, RunRow, TrialRow
from zcdb.store.results import RunState
from zcdb.store.session import Database
from zcdb.store.write import is_retried


def resumable_run(db: Database, experiment_id: str) -> RunState | None:
    """Return the newest run of an experiment that is not finished, None if there is none.

    Trials that still stand as running are neither final nor counted out: end them with
    `fail_interrupted_trials` first.
    """
    with db.reading() as session:
        run = session.scalars(
            select(RunRow)
            .join(ExperimentRow, ExperimentRow.id == RunRow.experiment_id)
            .where(ExperimentRow.public_id == experiment_id, RunRow.outcome != "finished")
            .order_by(RunRow.started_at.desc(), RunRow.id.desc())
            .limit(1)
        ).one_or_none()
        if run is None:
            return None
        cases = session.scalars(
            select(PlannedCaseRow)
            .where(PlannedCaseRow.run_id == run.id)
            .order_by(PlannedCaseRow.position)
        )
        plan = session.scalars(
            select(PlannedTrialRow)
            .where(PlannedTrialRow.run_id == run.id)
            .order_by(PlannedTrialRow.position)
        )
        trials = session.execute(
            select(
                TrialRow.plan_key,
                TrialRow.repetition,
                TrialRow.attempt,
                TrialRow.status,
                TrialRow.reason,
            )
            .where(TrialRow.run_id == run.id)
            .order_by(TrialRow.attempt)
        ).all()
        attempts: dict[tuple[str, int], int] = {}
        finished: set[tuple[str, int]] = set()
        for trial in trials:
            place = (trial.plan_key, trial.repetition)
            attempts[place] = attempts.get(place, 0) + 1
            if trial.status != "running" and not is_retried(trial.status, trial.reason):
                finished.add(place)
        return RunState(
            run_id=run.public_id,
            seed=run.seed,
            cases=tuple(
                PlannedCase(case.plan_key, factors_from_json(case.factors_json)) for case in cases
            ),
            plan=tuple(
                PlannedTrial(place.plan_key, place.block, place.position, place.repetition)
                for place in plan
            ),
            finished=frozenset(finished),
            attempts=attempts,
        )
