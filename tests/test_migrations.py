"""Migrations: up and down with rows on both engines, and the traps of SQLite's batch mode."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect
from store_support import demo_database

from zcdb.errors import StoreError
from zcdb.factors import FACTORS
from zcdb.store import migrate, queries
from zcdb.store.models import Base
from zcdb.store.rebuild import verify
from zcdb.store.session import SCHEMA_REVISION, migration_engine, opened, resolve_url, upgrade

pytest_plugins = ["store_fixtures"]


def _row_counts(connection: Connection) -> dict[str, int]:
    return {
        table.name: connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0
        for table in Base.metadata.sorted_tables
    }


def test_the_code_expects_the_newest_migration(tmp_path: Any) -> None:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        scripts = ScriptDirectory.from_config(migrate.config_for(connection))
    engine.dispose()

    assert scripts.get_heads() == [SCHEMA_REVISION]


def test_models_and_migrations_agree_at_the_head(database_url: str) -> None:
    url = resolve_url(database_url)
    upgrade(url)

    with migration_engine(url) as engine:
        migrate.check(engine)  # raises if autogenerate would write anything


def test_every_migration_imports_nothing_of_zcdb() -> None:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        scripts = ScriptDirectory.from_config(migrate.config_for(connection))
        sources = [script.module.__file__ for script in scripts.walk_revisions()]
    engine.dispose()

    for source in sources:
        assert source is not None
        with open(source, encoding="utf-8") as file:  # noqa: PTH123
            assert not re.search(r"^\s*(from|import) zcdb", file.read(), re.MULTILINE)


def test_the_history_goes_up_and_down_with_rows(database_url: str) -> None:
    ids = demo_database(database_url)
    url = resolve_url(database_url)

    with migration_engine(url) as engine:
        with engine.connect() as connection:
            before = _row_counts(connection)
        migrate.downgrade(engine, "base")
        with engine.connect() as connection:
            left = set(inspect(connection).get_table_names())
        migrate.upgrade(engine)
        with engine.connect() as connection:
            after = _row_counts(connection)

    assert before["trials"] == 86
    assert left == {"alembic_version"}
    assert set(after.values()) == {0}
    assert demo_database(database_url) == ids


def _summary(connection: Connection, *columns: str) -> list[tuple[Any, ...]]:
    chosen = ", ".join(("case_id", "metric", "method", *columns))
    rows = connection.execute(sa.text(f"SELECT {chosen} FROM summaries ORDER BY 1, 2, 3"))  # noqa: S608
    return [tuple(row) for row in rows]


def test_sources_keep_the_summaries_of_runs_on_the_way_up_and_down(database_url: str) -> None:
    demo_database(database_url)
    kept = ("runs", "n", "mean", "sd", "low", "high", "reason")
    with opened(database_url) as db, db.engine.connect() as connection:
        whole = _summary(connection, "runs", "entries")
        trials = _row_counts(connection)["trials"]
    assert {row[4] for row in whole if row[3]} == {0}
    assert {row[4] for row in whole} == {0, 1}

    with migration_engine(resolve_url(database_url)) as engine:
        with engine.connect() as connection:
            rows = _summary(connection, *kept, "entries")
            before = [row[:-1] for row in rows if not row[-1]]
        migrate.downgrade(engine, "0001")
        with engine.connect() as connection:
            down = _summary(connection, *kept)
            medians = {row[3] for row in _summary(connection, "median")}
            tables = inspect(connection).get_table_names()
        migrate.upgrade(engine)
        with engine.connect() as connection:
            up = _summary(connection, *kept)
            entries = {row[3] for row in _summary(connection, "entries")}
            counts = _row_counts(connection)

    assert down == up == before
    assert (medians, entries) == ({None}, {0})
    assert "published" not in tables
    assert counts["trials"] == trials == 86
    assert counts["sources"] == counts["entries"] == 0
    with opened(database_url) as db:
        assert verify(db).problems == ()
        assert sum(len(page.entries) for page in queries.history_pages(db)) == 167


def test_the_index_of_summaries_comes_and_goes_with_its_rows_in_place(database_url: str) -> None:
    demo_database(database_url)

    def state(connection: Connection) -> tuple[list[list[str | None]], list[tuple[Any, ...]]]:
        indexes = inspect(connection).get_indexes("summaries")
        return [index["column_names"] for index in indexes], _summary(connection, "n", "mean")

    with migration_engine(resolve_url(database_url)) as engine:
        steps = (
            lambda: None,
            lambda: migrate.downgrade(engine, "0002"),
            lambda: migrate.upgrade(engine),
        )
        seen = []
        for step in steps:
            step()
            with engine.connect() as connection:
                seen.append(state(connection))

    assert [indexes for indexes, _ in seen] == [
        [["metric", "method", "case_id"]],
        [],
        [["metric", "method", "case_id"]],
    ]
    assert len(seen[0][1]) > 100
    assert seen[0][1] == seen[1][1] == seen[2][1]


def test_opening_upgrades_a_database_that_is_behind(database_url: str) -> None:
    url = resolve_url(database_url)
    upgrade(url)
    with migration_engine(url) as engine:
        migrate.downgrade(engine, "base")

    with opened(database_url) as db, db.engine.connect() as connection:
        counts = _row_counts(connection)

    assert counts["trials"] == 0
    assert counts["factors"] >= len(FACTORS)


def test_a_step_that_fails_half_way_leaves_nothing(database_url: str) -> None:
    demo_database(database_url)

    def make_a_table_and_fail(config: Config) -> None:
        connection: Connection = config.attributes["connection"]
        connection.execute(sa.text("CREATE TABLE half (id INTEGER)"))
        connection.execute(sa.text("DELETE FROM notes"))
        raise RuntimeError("a bug in a migration")

    with migration_engine(resolve_url(database_url)) as engine:
        with pytest.raises(RuntimeError):
            migrate.in_one_transaction(engine, make_a_table_and_fail)
        with engine.connect() as connection:
            tables = inspect(connection).get_table_names()
            notes = _row_counts(connection)["notes"]

    assert "half" not in tables
    assert notes == 2


def _batch(config: Config) -> Operations:
    return Operations(MigrationContext.configure(config.attributes["connection"]))


def test_recreating_a_table_keeps_the_rows_that_refer_to_it(database_url: str) -> None:
    demo_database(database_url)

    def add_a_rule(config: Config) -> None:
        with _batch(config).batch_alter_table("runs") as runs:
            runs.create_check_constraint("seed_positive", "seed >= 0")

    with migration_engine(resolve_url(database_url)) as engine:
        with engine.connect() as connection:
            before = _row_counts(connection)
        migrate.in_one_transaction(engine, add_a_rule)
        with engine.connect() as connection:
            after = _row_counts(connection)

    assert after == before


def test_a_migration_that_would_leave_dangling_rows_is_rolled_back(tmp_path: Any) -> None:
    path = tmp_path / "lab.sqlite"
    demo_database(path)

    def lose_the_runs(config: Config) -> None:
        config.attributes["connection"].execute(sa.text("DELETE FROM runs"))

    with migration_engine(resolve_url(path)) as engine:
        with pytest.raises(StoreError, match="without the rows they refer to; nothing was changed"):
            migrate.in_one_transaction(engine, lose_the_runs)
        with engine.connect() as connection:
            counts = _row_counts(connection)

    assert counts["runs"] == 2


def test_every_constraint_has_a_name_that_a_migration_can_drop(database_url: str) -> None:
    with opened(database_url) as db, db.engine.connect() as connection:
        inspector = inspect(connection)
        names: list[Mapping[str, Any]] = []
        for table in Base.metadata.tables:
            names += inspector.get_foreign_keys(table)
            names += inspector.get_unique_constraints(table)
            names += inspector.get_check_constraints(table)

    assert names
    assert all(re.match(r"(fk|uq|ck)_", constraint["name"] or "") for constraint in names)


def _uses(connection: Connection) -> list[tuple[Any, ...]]:
    rows = connection.execute(sa.text("SELECT * FROM environment_uses ORDER BY 1, 2"))
    return [tuple(row) for row in rows]


def test_what_was_measured_where_is_counted_from_the_trials_on_the_way_up(
    database_url: str,
) -> None:
    demo_database(database_url)
    with migration_engine(resolve_url(database_url)) as engine:
        with engine.connect() as connection:
            before = _uses(connection)
        migrate.downgrade(engine, "0003")
        with engine.connect() as connection:
            tables = inspect(connection).get_table_names()
            trials = connection.scalar(sa.text("SELECT count(*) FROM trials"))
        migrate.upgrade(engine)
        with engine.connect() as connection:
            after = _uses(connection)

    assert before
    assert after == before
    assert "environment_uses" not in tables
    assert trials == 86
    with opened(database_url) as db:
        assert verify(db).problems == ()
