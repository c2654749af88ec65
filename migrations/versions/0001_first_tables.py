"""First tables: experiments, runs with their plan, trials, and the numbers they measured.

The downgrade removes every table and with them all that was recorded.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "cases",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(length=32), nullable=False),
        sa.Column("factors_json", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cases")),
        sa.UniqueConstraint("public_id", name=op.f("uq_cases_public_id")),
    )
    op.create_table(
        "environments",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(length=32), nullable=False),
        sa.Column("facts_json", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_environments")),
        sa.UniqueConstraint("public_id", name=op.f("uq_environments_public_id")),
    )
    op.create_table(
        "experiments",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("resolved_json", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_experiments")),
        sa.UniqueConstraint("public_id", name=op.f("uq_experiments_public_id")),
    )
    op.create_index(op.f("ix_experiments_name"), "experiments", ["name"])

    op.create_table(
        "factors",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("help", sa.Text(), nullable=False),
        sa.Column("default_json", sa.Text(), nullable=False),
        sa.Column("follows", sa.Text(), nullable=True),
        sa.Column("aliases_json", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_factors")),
    )
    op.create_table(
        "metrics",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("better", sa.Text(), nullable=False),
        sa.Column("has_method", sa.Boolean(), nullable=False),
        sa.Column("end", sa.Text(), nullable=True),
        sa.Column("help", sa.Text(), nullable=False),
        sa.Column("formula", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_metrics")),
    )
    op.create_table(
        "case_factors",
        sa.Column("factor", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("case_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["case_id"], ["cases.id"], name=op.f("fk_case_factors_case_id_cases")
        ),
        sa.ForeignKeyConstraint(
            ["factor"], ["factors.name"], name=op.f("fk_case_factors_factor_factors")
        ),
        sa.PrimaryKeyConstraint("factor", "value", "case_id", name=op.f("pk_case_factors")),
    )
    op.create_index(op.f("ix_case_factors_case_id"), "case_factors", ["case_id"])

    op.create_table(
        "pairings",
        sa.Column("factor", sa.Text(), nullable=False),
        sa.Column("rest_hash", sa.String(length=32), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("case_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["case_id"], ["cases.id"], name=op.f("fk_pairings_case_id_cases")),
        sa.ForeignKeyConstraint(
            ["factor"], ["factors.name"], name=op.f("fk_pairings_factor_factors")
        ),
        sa.PrimaryKeyConstraint(
            "factor", "rest_hash", "value", "case_id", name=op.f("pk_pairings")
        ),
    )
    op.create_index(op.f("ix_pairings_case_id"), "pairings", ["case_id"])

    op.create_table(
        "runs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(length=36), nullable=False),
        sa.Column("experiment_id", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("zcdb_version", sa.Text(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("readings_json", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "outcome IN ('running', 'finished', 'interrupted', 'failed')",
            name=op.f("ck_runs_outcome_known"),
        ),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiments.id"], name=op.f("fk_runs_experiment_id_experiments")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
        sa.UniqueConstraint("public_id", name=op.f("uq_runs_public_id")),
    )
    op.create_index(op.f("ix_runs_experiment_id"), "runs", ["experiment_id"])
    op.create_index(op.f("ix_runs_started_at_id"), "runs", ["started_at", "id"])

    op.create_table(
        "summaries",
        sa.Column("case_id", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("mean", sa.Double(), nullable=True),
        sa.Column("median", sa.Double(), nullable=True),
        sa.Column("sd", sa.Double(), nullable=True),
        sa.Column("low", sa.Double(), nullable=True),
        sa.Column("high", sa.Double(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["case_id"], ["cases.id"], name=op.f("fk_summaries_case_id_cases")),
        sa.ForeignKeyConstraint(
            ["metric"], ["metrics.name"], name=op.f("fk_summaries_metric_metrics")
        ),
        sa.PrimaryKeyConstraint("case_id", "metric", "method", name=op.f("pk_summaries")),
    )
    op.create_table(
        "measurements",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("case_id", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("values_f64", sa.LargeBinary(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("mean", sa.Double(), nullable=True),
        sa.Column("median", sa.Double(), nullable=True),
        sa.Column("sd", sa.Double(), nullable=True),
        sa.Column("low", sa.Double(), nullable=True),
        sa.Column("high", sa.Double(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["case_id"], ["cases.id"], name=op.f("fk_measurements_case_id_cases")
        ),
        sa.ForeignKeyConstraint(
            ["metric"], ["metrics.name"], name=op.f("fk_measurements_metric_metrics")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_measurements_run_id_runs")),
        sa.PrimaryKeyConstraint(
            "run_id", "case_id", "metric", "method", name=op.f("pk_measurements")
        ),
    )
    op.create_index(
        op.f("ix_measurements_case_id_metric_method"),
        "measurements",
        ["case_id", "metric", "method"],
    )

    op.create_table(
        "notes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_notes_run_id_runs")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notes")),
    )
    op.create_index(op.f("ix_notes_run_id"), "notes", ["run_id"])

    op.create_table(
        "planned_cases",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("plan_key", sa.String(length=32), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("factors_json", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_planned_cases_run_id_runs")),
        sa.PrimaryKeyConstraint("run_id", "plan_key", name=op.f("pk_planned_cases")),
    )
    op.create_table(
        "trials",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(length=32), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("case_id", sa.Integer(), nullable=False),
        sa.Column("plan_key", sa.String(length=32), nullable=False),
        sa.Column("repetition", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("window_ns", sa.BigInteger(), nullable=True),
        sa.Column("sender_environment_id", sa.Integer(), nullable=True),
        sa.Column("receiver_environment_id", sa.Integer(), nullable=True),
        sa.CheckConstraint(
            "(status = 'running') = (ended_at IS NULL)", name=op.f("ck_trials_ended_if_not_running")
        ),
        sa.CheckConstraint(
            "(status IN ('running', 'ok')) = (reason IS NULL)",
            name=op.f("ck_trials_reason_if_not_ok"),
        ),
        sa.CheckConstraint(
            "status IN ('running', 'ok', 'failed', 'unsupported')",
            name=op.f("ck_trials_status_known"),
        ),
        sa.CheckConstraint("window_ns > 0", name=op.f("ck_trials_window_positive")),
        sa.ForeignKeyConstraint(["case_id"], ["cases.id"], name=op.f("fk_trials_case_id_cases")),
        sa.ForeignKeyConstraint(
            ["receiver_environment_id"],
            ["environments.id"],
            name=op.f("fk_trials_receiver_environment_id_environments"),
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_trials_run_id_runs")),
        sa.ForeignKeyConstraint(
            ["sender_environment_id"],
            ["environments.id"],
            name=op.f("fk_trials_sender_environment_id_environments"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trials")),
        sa.UniqueConstraint("public_id", name=op.f("uq_trials_public_id")),
        sa.UniqueConstraint(
            "run_id",
            "plan_key",
            "repetition",
            "attempt",
            name=op.f("uq_trials_run_id_plan_key_repetition_attempt"),
        ),
    )
    op.create_index(op.f("ix_trials_case_id_started_at"), "trials", ["case_id", "started_at"])
    op.create_index(
        op.f("ix_trials_receiver_environment_id"), "trials", ["receiver_environment_id"]
    )
    op.create_index(op.f("ix_trials_run_id_position"), "trials", ["run_id", "position"])
    op.create_index(op.f("ix_trials_sender_environment_id"), "trials", ["sender_environment_id"])

    op.create_table(
        "exclusions",
        sa.Column("trial_id", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("excluded_by", sa.Text(), nullable=False),
        sa.Column("excluded_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["trial_id"], ["trials.id"], name=op.f("fk_exclusions_trial_id_trials")
        ),
        sa.PrimaryKeyConstraint("trial_id", name=op.f("pk_exclusions")),
    )
    op.create_table(
        "flags",
        sa.Column("trial_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name=op.f("fk_flags_trial_id_trials")),
        sa.PrimaryKeyConstraint("trial_id", "position", name=op.f("pk_flags")),
    )
    op.create_index(op.f("ix_flags_code"), "flags", ["code"])

    op.create_table(
        "planned_trials",
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("plan_key", sa.String(length=32), nullable=False),
        sa.Column("block", sa.Integer(), nullable=False),
        sa.Column("repetition", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "plan_key"],
            ["planned_cases.run_id", "planned_cases.plan_key"],
            name=op.f("fk_planned_trials_run_id_plan_key_planned_cases"),
        ),
        sa.PrimaryKeyConstraint("run_id", "position", name=op.f("pk_planned_trials")),
        sa.UniqueConstraint(
            "run_id",
            "plan_key",
            "repetition",
            name=op.f("uq_planned_trials_run_id_plan_key_repetition"),
        ),
    )
    op.create_table(
        "samples",
        sa.Column("trial_id", sa.Integer(), nullable=False),
        sa.Column("samples", sa.Integer(), nullable=False),
        sa.Column("columns_zlib", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["trial_id"], ["trials.id"], name=op.f("fk_samples_trial_id_trials")
        ),
        sa.PrimaryKeyConstraint("trial_id", name=op.f("pk_samples")),
    )
    op.create_table(
        "trial_details",
        sa.Column("trial_id", sa.Integer(), nullable=False),
        sa.Column("counts_json", sa.Text(), nullable=False),
        sa.Column("reasons_json", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["trial_id"], ["trials.id"], name=op.f("fk_trial_details_trial_id_trials")
        ),
        sa.PrimaryKeyConstraint("trial_id", name=op.f("pk_trial_details")),
    )


def downgrade() -> None:
    op.drop_table("trial_details")
    op.drop_table("samples")
    op.drop_table("planned_trials")
    op.drop_table("flags")
    op.drop_table("exclusions")
    op.drop_table("trials")
    op.drop_table("planned_cases")
    op.drop_table("notes")
    op.drop_table("measurements")
    op.drop_table("summaries")
    op.drop_table("runs")
    op.drop_table("pairings")
    op.drop_table("case_factors")
    op.drop_table("metrics")
    op.drop_table("factors")
    op.drop_table("experiments")
    op.drop_table("environments")
    op.drop_table("cases")
