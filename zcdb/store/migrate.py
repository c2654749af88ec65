"""Bring a database to the form that this version of zcdb uses.

`zcdb.store.session` imports this module, and with it Alembic, only when there is
something to do: most commands open a database that is up to date.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

from zcdb.errors import StoreError
from zcdb.store.models import Base

_POSTGRES_LOCK = 0x7A636462
"""Key of the advisory lock that one upgrade at a time holds ("zcdb" in ASCII)."""


def config_for(connection: Connection) -> Config:
    """Return Alembic's configuration for the migrations that came with this zcdb."""
    import zcdb.migrations

    folder = Path(next(iter(zcdb.migrations.__path__)))
    # Alembic prints some results; what a command prints is for the command line to decide.
    config = Config(stdout=io.StringIO())
    # ConfigParser reads a per cent sign as the start of a reference.
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.attributes["connection"] = connection
    config.attributes["metadata"] = Base.metadata
    return config


def known_revisions(connection: Connection) -> set[str]:
    """Return the revisions that this zcdb has a step for."""
    scripts = ScriptDirectory.from_config(config_for(connection))
    return {script.revision for script in scripts.walk_revisions()}


def in_one_transaction(engine: Engine, step: Callable[[Config], None]) -> None:
    """Run `step` on a connection of `engine`, and commit only if no reference dangles."""
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _POSTGRES_LOCK})
        step(config_for(connection))
        if connection.dialect.name == "sqlite":
            dangling = connection.execute(text("PRAGMA foreign_key_check")).all()
            if dangling:
                raise StoreError(
                    f"the upgrade would leave {len(dangling)} rows of table {dangling[0][0]}"
                    " without the rows they refer to; nothing was changed",
                    hint="'zcdb db verify' names them in the database as it is now.",
                )


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Upgrade to `revision`.

    Args:
        engine: as `zcdb.store.session` makes it for migrations, foreign keys off.
        revision: "head" for the form that the code uses.
    """
    in_one_transaction(engine, lambda config: command.upgrade(config, revision))


def downgrade(engine: Engine, revision: str) -> None:
    """Go back to an older form; each step's docstring says what it loses."""
    in_one_transaction(engine, lambda config: command.downgrade(config, revision))


def check(engine: Engine) -> None:
    """Raise `alembic.util.CommandError` if models and migrations differ."""
    in_one_transaction(engine, command.check)
