"""Verifying a whole database, rebuilding what is derived, and copying it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import delete, insert, select, text, update
from store_support import demo_database, write_demo

from zcdb.errors import StoreError, UsageError
from zcdb.store import queries
from zcdb.store.models import (
    CaseFactorRow,
    CaseRow,
    EnvironmentRow,
    EnvironmentUseRow,
    MeasurementRow,
    PairingRow,
    SummaryRow,
)
from zcdb.store.rebuild import backup, raise_for_problems, rebuild, verify
from zcdb.store.results import CasePage
from zcdb.store.session import Database, open_database, opened

pytest_plugins = ["store_fixtures"]


def _lose_what_is_derived(db: Database) -> None:
    with db.writing() as session:
        for row_class in (CaseFactorRow, EnvironmentUseRow, PairingRow, SummaryRow):
            session.execute(delete(row_class))
        nothing = dict.fromkeys(("mean", "median", "sd", "low", "high"))
        session.execute(update(MeasurementRow).values(n=0, **nothing))


def _statistics(page: CasePage) -> dict[tuple[str, ...], float]:
    """Return every number that a case and its siblings have."""
    of_case = {"": page.statistics} | {
        sibling.case_id: sibling.statistics for line in page.siblings.values() for sibling in line
    }
    return {
        (case, one.metric, one.method, name): getattr(one, name)
        for case, statistics in of_case.items()
        for one in statistics
        for name in ("n", "runs", "entries", "mean", "sd", "low", "high")
        if getattr(one, name) is not None
    }


def test_a_sound_database_has_no_problem(db: Database) -> None:
    write_demo(db)

    found = verify(db)

    assert found.problems == ()
    assert (found.cases, found.environments, found.measurements) == (9, 1, 432)
    raise_for_problems(db, found)


def test_rebuilding_restores_everything_that_is_derived(db: Database) -> None:
    ids = write_demo(db)
    before = queries.case_page(db, ids.baseline_case_id)
    outcome = queries.run_outcome(db, ids.run_id)
    _lose_what_is_derived(db)
    assert verify(db).problems

    rebuilt = rebuild(db)

    assert rebuilt == 9
    assert verify(db).problems == ()
    # Sums that were carried on from trial to trial differ in their last bits from new ones.
    after = _statistics(queries.case_page(db, ids.baseline_case_id))
    assert after == pytest.approx(_statistics(before), rel=1e-9)
    assert queries.run_outcome(db, ids.run_id) == outcome


def test_rebuilding_drops_a_summary_that_nothing_was_measured_for(db: Database) -> None:
    write_demo(db)
    with db.writing() as session:
        case_id = session.scalars(select(SummaryRow.case_id)).first()
        row = {"case_id": case_id, "metric": "throughput", "method": "soak", "runs": 1, "n": 1}
        row["entries"] = 0
        session.execute(insert(SummaryRow), [row])

    problems = verify(db).problems
    rebuild(db)

    assert any("the summary of throughput soak is out of date" in said for said in problems)
    assert verify(db).problems == ()


def test_what_was_measured_where_is_verified_and_made_anew(db: Database) -> None:
    ids = write_demo(db)
    before = queries.environment_page(db, ids.environment_id)
    with db.writing() as session:
        session.execute(update(EnvironmentUseRow).values(trials=EnvironmentUseRow.trials + 1))

    problems = verify(db).problems
    rebuild(db)

    assert f"run {ids.run_id}: table environment_uses is out of date" in problems
    assert verify(db).problems == ()
    assert queries.environment_page(db, ids.environment_id) == before


def test_verifying_names_what_is_wrong(sqlite_db: Database) -> None:
    ids = write_demo(sqlite_db)
    with sqlite_db.writing() as session:
        session.execute(update(EnvironmentRow).values(facts_json='{"cpus":3}'))
        session.execute(
            update(CaseRow)
            .where(CaseRow.public_id == ids.baseline_case_id)
            .values(factors_json='{"api":"write","from_a_newer_zcdb":1}')
        )
        session.execute(
            update(CaseRow)
            .where(CaseRow.public_id == ids.case_ids["sendfile", 4096])
            .values(factors_json='{"api":"splice"}')
        )

    found = verify(sqlite_db)

    case = f"case {ids.baseline_case_id}: this zcdb knows no factor from_a_newer_zcdb"
    assert case in found.problems
    hashes = f"case {ids.case_ids['sendfile', 4096]}: its factors hash to another id"
    assert hashes in found.problems
    assert f"environment {ids.environment_id}: its facts hash to another id" in found.problems
    with pytest.raises(StoreError, match=f"has {len(found.problems)} problems"):
        raise_for_problems(sqlite_db, found)


def test_verifying_finds_a_reference_to_nothing(tmp_path: Path) -> None:
    demo_database(tmp_path / "lab.sqlite")
    with closing(sqlite3.connect(tmp_path / "lab.sqlite")) as connection:
        connection.execute("DELETE FROM environments")  # foreign keys are off by default
        connection.commit()

    with opened(tmp_path / "lab.sqlite") as db:
        problems = verify(db).problems

    assert problems
    assert all("what it refers to in environments is missing" in said for said in problems)


def test_a_copy_holds_everything_and_keeps_the_ids(sqlite_db: Database, tmp_path: Path) -> None:
    ids = write_demo(sqlite_db)

    backup(sqlite_db, tmp_path / "copy.sqlite")

    with opened(tmp_path / "copy.sqlite") as copy:
        assert queries.run_page(copy, ids.run_id) == queries.run_page(sqlite_db, ids.run_id)
        assert verify(copy).problems == ()


def test_a_copy_replaces_no_file(sqlite_db: Database, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")

    with pytest.raises(UsageError, match="precious exists already"):
        backup(sqlite_db, tmp_path / "precious")

    assert (tmp_path / "precious").read_text() == "mine"


def test_a_copy_into_nowhere_gives_one_sentence(sqlite_db: Database, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"could not be copied to .*: unable to open database"):
        backup(sqlite_db, tmp_path / "no" / "where.sqlite")


@pytest.mark.postgres
def test_a_server_is_copied_by_its_own_tool(postgres_url: str) -> None:
    db = open_database(postgres_url)
    try:
        with pytest.raises(UsageError, match="is on a server") as caught:
            backup(db, Path("copy.sqlite"))
    finally:
        db.dispose()

    assert caught.value.hint == "Use pg_dump."


def test_a_copy_can_be_made_while_another_writes(sqlite_db: Database, tmp_path: Path) -> None:
    ids = write_demo(sqlite_db)
    with sqlite_db.writing() as session:
        session.execute(text("DELETE FROM notes"))

        backup(sqlite_db, tmp_path / "copy.sqlite")

    with opened(tmp_path / "copy.sqlite") as copy:
        assert queries.run_page(copy, ids.run_id).run.note == "after the firmware update"
