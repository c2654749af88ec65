"""Count what was measured where beside the trials, and answer for many cases from one index.

Pages about hosts summed up all trials; `environment_uses` has a row for each environment and
run.  The index of a case's trials now also holds what comparisons ask of them, and the two
indexes by environment go: nothing looks for them any more.  The downgrade puts the indexes
back and drops the table; nothing is lost.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

COUNTED = """
    INSERT INTO environment_uses (environment_id, run_id, trials, first_at, last_at)
    SELECT environment_id, run_id, count(*), min(started_at), max(started_at)
    FROM (
        SELECT sender_environment_id AS environment_id, run_id, started_at
        FROM trials WHERE sender_environment_id IS NOT NULL
        UNION ALL
        SELECT receiver_environment_id, run_id, started_at
        FROM trials
        WHERE receiver_environment_id IS NOT NULL
        AND (sender_environment_id IS NULL OR receiver_environment_id <> sender_environment_id)
    ) AS used
    GROUP BY environment_id, run_id
"""


def upgrade() -> None:
    op.create_table(
        "environment_uses",
        sa.Column("environment_id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("trials", sa.Integer(), nullable=False),
        sa.Column("first_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["environment_id"],
            ["environments.id"],
            name=op.f("fk_environment_uses_environment_id_environments"),
        ),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name=op.f("fk_environment_uses_run_id_runs")
        ),
        sa.PrimaryKeyConstraint("environment_id", "run_id", name=op.f("pk_environment_uses")),
    )
    op.create_index(op.f("ix_environment_uses_run_id"), "environment_uses", ["run_id"])
    op.create_index(
        op.f("ix_environment_uses_environment_id_last_at"),
        "environment_uses",
        ["environment_id", "last_at"],
    )
    op.execute(COUNTED)
    op.create_index(
        "ix_trials_of_case",
        "trials",
        [
            *("case_id", "started_at", "status", "run_id"),
            *("sender_environment_id", "receiver_environment_id"),
        ],
    )
    op.drop_index(op.f("ix_trials_case_id_started_at"), table_name="trials")
    for end in ("sender", "receiver"):
        op.drop_index(op.f(f"ix_trials_{end}_environment_id"), table_name="trials")


def downgrade() -> None:
    for end in ("sender", "receiver"):
        op.create_index(
            op.f(f"ix_trials_{end}_environment_id"), "trials", [f"{end}_environment_id"]
        )
    op.create_index(op.f("ix_trials_case_id_started_at"), "trials", ["case_id", "started_at"])
    op.drop_index("ix_trials_of_case", table_name="trials")
    op.drop_table("environment_uses")
