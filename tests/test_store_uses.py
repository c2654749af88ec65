"""What each run measured in each environment, counted trial by trial."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import func, or_, select
from store_support import write_demo

from zcdb.store import queries
from zcdb.store.models import EnvironmentRow, EnvironmentUseRow, RunRow, TrialRow
from zcdb.store.queries import hosts
from zcdb.store.session import Database
from zcdb.store.uses import count_use, outdated_uses, refresh_uses

pytest_plugins = ["store_fixtures"]


def _counted(db: Database) -> dict[tuple[int, int], tuple[object, ...]]:
    """Return (environment, run) -> trials, first and last start, from the trials themselves."""
    found = {}
    with db.reading() as session:
        runs = session.scalars(select(RunRow.id)).all()
        for environment in session.scalars(select(EnvironmentRow.id)):
            for run in runs:
                row = session.execute(
                    select(
                        func.count(), func.min(TrialRow.started_at), func.max(TrialRow.started_at)
                    ).where(
                        TrialRow.run_id == run,
                        or_(
                            TrialRow.sender_environment_id == environment,
                            TrialRow.receiver_environment_id == environment,
                        ),
                    )
                ).one()
                if row[0]:
                    found[environment, run] = tuple(row)
    return found


def _stored(db: Database) -> dict[tuple[int, int], tuple[object, ...]]:
    with db.reading() as session:
        return {
            (row.environment_id, row.run_id): (row.trials, row.first_at, row.last_at)
            for row in session.scalars(select(EnvironmentUseRow))
        }


def test_every_trial_is_counted_once_where_it_was_measured(db: Database) -> None:
    write_demo(db)

    assert _stored(db) == _counted(db) != {}


def test_counting_anew_gives_what_was_counted_trial_by_trial(db: Database) -> None:
    write_demo(db)
    before = _stored(db)
    runs = {run for _, run in before}
    with db.writing() as session:
        refresh_uses(session, runs)

    assert _stored(db) == before
    with db.reading() as session:
        assert outdated_uses(session, runs) == []


def test_ends_in_two_environments_count_in_both_and_an_earlier_start_moves_the_first(
    db: Database,
) -> None:
    write_demo(db)
    ((environment, run), (trials, first_at, last_at)) = next(iter(_stored(db).items()))
    with db.writing() as session:
        session.add(EnvironmentRow(public_id="f" * 32, facts_json="{}"))
        session.flush()
        other = session.scalars(
            select(EnvironmentRow.id).where(EnvironmentRow.public_id == "f" * 32)
        ).one()
        earlier = first_at - timedelta(hours=1)
        count_use(session, run, [environment, other, None], earlier)
        count_use(session, run, [environment, environment], last_at + timedelta(hours=1))

    stored = _stored(db)
    assert stored[environment, run] == (trials + 2, earlier, last_at + timedelta(hours=1))
    assert stored[other, run] == (1, earlier, earlier)
    with db.reading() as session:
        assert outdated_uses(session, [run]) == [run]


def test_hosts_and_environments_tell_the_trials_and_runs_there(db: Database) -> None:
    ids = write_demo(db)
    page = queries.environment_page(db, ids.environment_id)
    (state,) = hosts.environments(db)

    assert page.trials == state.trials == sum(count for count, _, _ in _counted(db).values())
    assert (page.first_at, page.last_at) == (state.first_at, state.last_at)
    assert ids.run_id in [run.id for run in page.runs]
    assert state.environment_id == ids.environment_id
