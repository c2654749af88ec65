"""Keep what others published: sources, their entries and figures, errata, reports, links, claims.

Summaries count published figures beside runs; their median goes, because it would have to
look at every value again with every trial.  The downgrade removes the new tables with all
that was imported, corrected, frozen or claimed; 'zcdb db rebuild' of the older zcdb brings
the medians back.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_sources()
    _create_the_rest()
    with op.batch_alter_table("summaries") as summaries:
        summaries.drop_column("median")
        summaries.add_column(sa.Column("entries", sa.Integer(), nullable=False, server_default="0"))
    with op.batch_alter_table("summaries") as summaries:
        summaries.alter_column("entries", existing_type=sa.Integer(), server_default=None)


def downgrade() -> None:
    op.execute("DELETE FROM summaries WHERE runs = 0 AND entries > 0")
    with op.batch_alter_table("summaries") as summaries:
        summaries.drop_column("entries")
        summaries.add_column(sa.Column("median", sa.Double(), nullable=True))
    for table in (
        *("published", "entry_flags", "entries", "sources", "texts"),
        *("claims", "links", "reports", "errata"),
    ):
        op.drop_table(table)


def _create_sources() -> None:
    op.create_table(
        "texts",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("bytes_zlib", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_texts")),
    )

    op.create_table(
        "sources",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=True),
        sa.Column("dated", sa.Text(), nullable=True),
        sa.Column("first_line", sa.Integer(), nullable=True),
        sa.Column("last_line", sa.Integer(), nullable=True),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("form", sa.Text(), nullable=False),
        sa.Column("details_json", sa.Text(), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "kind IN ('historic', 'import', 'bundle')", name=op.f("ck_sources_kind_known")
        ),
        sa.ForeignKeyConstraint(["sha256"], ["texts.sha256"], name=op.f("fk_sources_sha256_texts")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sources")),
        sa.UniqueConstraint("public_id", name=op.f("uq_sources_public_id")),
    )
    op.create_index(op.f("ix_sources_kind_name"), "sources", ["kind", "name"])
    op.create_index(op.f("ix_sources_sha256"), "sources", ["sha256"])

    op.create_table(
        "entries",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(length=32), nullable=False),
        sa.Column("source_id", sa.Integer(), nullable=False),
        sa.Column("case_id", sa.Integer(), nullable=True),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("first_line", sa.Integer(), nullable=False),
        sa.Column("last_line", sa.Integer(), nullable=False),
        sa.Column("left_out", sa.Text(), nullable=True),
        sa.Column("details_json", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["case_id"], ["cases.id"], name=op.f("fk_entries_case_id_cases")),
        sa.ForeignKeyConstraint(
            ["source_id"], ["sources.id"], name=op.f("fk_entries_source_id_sources")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_entries")),
        sa.UniqueConstraint("public_id", name=op.f("uq_entries_public_id")),
    )
    op.create_index(op.f("ix_entries_case_id"), "entries", ["case_id"])
    op.create_index(op.f("ix_entries_source_id_position"), "entries", ["source_id", "position"])

    op.create_table(
        "entry_flags",
        sa.Column("entry_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["entry_id"], ["entries.id"], name=op.f("fk_entry_flags_entry_id_entries")
        ),
        sa.PrimaryKeyConstraint("entry_id", "position", name=op.f("pk_entry_flags")),
    )
    op.create_index(op.f("ix_entry_flags_code"), "entry_flags", ["code"])

    op.create_table(
        "published",
        sa.Column("entry_id", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("case_id", sa.Integer(), nullable=True),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("low", sa.Double(), nullable=True),
        sa.Column("high", sa.Double(), nullable=True),
        sa.Column("sd", sa.Double(), nullable=True),
        sa.Column("spread", sa.Text(), nullable=True),
        sa.Column("n", sa.Integer(), nullable=True),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("stated", sa.Text(), nullable=False),
        sa.Column("other_low", sa.Double(), nullable=True),
        sa.Column("other_high", sa.Double(), nullable=True),
        sa.Column("is_inferred", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("left_out", sa.Text(), nullable=True),
        sa.Column("details_json", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "spread IN ('sd', 'se', 'ci95')", name=op.f("ck_published_spread_known")
        ),
        sa.CheckConstraint(
            "(low IS NULL) = (high IS NULL) AND (low IS NULL) = (reason IS NOT NULL)",
            name=op.f("ck_published_figure_or_reason"),
        ),
        sa.CheckConstraint(
            "(sd IS NULL) = (spread IS NULL)", name=op.f("ck_published_spread_with_sd")
        ),
        sa.ForeignKeyConstraint(["case_id"], ["cases.id"], name=op.f("fk_published_case_id_cases")),
        sa.ForeignKeyConstraint(
            ["entry_id"], ["entries.id"], name=op.f("fk_published_entry_id_entries")
        ),
        sa.PrimaryKeyConstraint("entry_id", "metric", "method", name=op.f("pk_published")),
    )
    op.create_index(
        op.f("ix_published_case_id_metric_method"), "published", ["case_id", "metric", "method"]
    )


def _create_the_rest() -> None:
    op.create_table(
        "errata",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("object_kind", sa.Text(), nullable=False),
        sa.Column("object_id", sa.String(length=36), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("old_value", sa.Double(), nullable=True),
        sa.Column("new_value", sa.Double(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("written_by", sa.Text(), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("successor", sa.String(length=36), nullable=True),
        sa.CheckConstraint(
            "kind IN ('corrected', 'contested', 'retracted')", name=op.f("ck_errata_kind_known")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_errata")),
        sa.UniqueConstraint("public_id", name=op.f("uq_errata_public_id")),
    )
    op.create_index(op.f("ix_errata_object_id"), "errata", ["object_id"])

    op.create_table(
        "reports",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(length=32), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("inputs_zlib", sa.LargeBinary(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reports")),
        sa.UniqueConstraint("public_id", name=op.f("uq_reports_public_id")),
    )
    op.create_index(op.f("ix_reports_created_at_id"), "reports", ["created_at", "id"])

    op.create_table(
        "links",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(length=32), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_links")),
        sa.UniqueConstraint("public_id", name=op.f("uq_links_public_id")),
    )

    op.create_table(
        "claims",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(length=32), nullable=False),
        sa.Column("subject_kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("capability", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("kernel", sa.Text(), nullable=False),
        sa.Column("source_kind", sa.Text(), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("dated", sa.Text(), nullable=False),
        sa.Column("environment_id", sa.Integer(), nullable=True),
        sa.Column("details_json", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["environment_id"],
            ["environments.id"],
            name=op.f("fk_claims_environment_id_environments"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_claims")),
        sa.UniqueConstraint("public_id", name=op.f("uq_claims_public_id")),
    )
    op.create_index(op.f("ix_claims_environment_id"), "claims", ["environment_id"])
    op.create_index(
        op.f("ix_claims_subject_kind_subject_capability"),
        "claims",
        ["subject_kind", "subject", "capability"],
    )
