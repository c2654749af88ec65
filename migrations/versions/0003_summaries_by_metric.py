"""Find the summaries of one metric over all cases without reading those of all others.

Pages that show one metric of many cases read a tenth of the rows.  The downgrade takes the
index away again; nothing is lost.
"""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        op.f("ix_summaries_metric_method_case_id"), "summaries", ["metric", "method", "case_id"]
    )


def downgrade() -> None:
    op.drop_index(op.f("ix_summaries_metric_method_case_id"), table_name="summaries")
