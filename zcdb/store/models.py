"""The tables.

Inside, rows refer to each other by integer keys; the `public_id` of a row is
what the world sees: a content hash (32 hex digits) or, for runs, a UUIDv7.
JSON is kept as canonical text and never filtered on: what is filtered on has
columns or rows of its own.  `docs/schema.md` is generated from this module.

Originals: experiments, runs, the plan, environments, cases, trials with their
details, flags and samples, the values of measurements, exclusions and notes.
Everything else can be rebuilt from them (`zcdb.store.rebuild`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    MetaData,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
"""Every constraint has a name that a migration can drop."""


class UtcDateTime(TypeDecorator[datetime]):
    """A moment in UTC: aware on both databases (SQLite gives naive ones back)."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse a naive time: which zone it meant cannot be known later."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value.isoformat()} has no time zone; store aware times only")
        return value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Return the moment as an aware UTC time."""
        if value is None:
            return None
        assert isinstance(value, datetime)  # noqa: S101
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """The base of all tables."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {datetime: UtcDateTime(), float: Double(), str: Text()}  # noqa: RUF012


class FactorRow(Base):
    """What can vary between cases; written from the code's registry."""

    __tablename__ = "factors"
    name: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]
    kind: Mapped[str]
    type: Mapped[str]
    label: Mapped[str]
    help: Mapped[str]
    default_json: Mapped[str]
    """JSON null where a case must state a value."""
    follows: Mapped[str | None]
    aliases_json: Mapped[str]


class MetricRow(Base):
    """What is measured; written from the code's registry."""

    __tablename__ = "metrics"
    name: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]
    label: Mapped[str]
    unit: Mapped[str]
    better: Mapped[str]
    has_method: Mapped[bool]
    end: Mapped[str | None]
    help: Mapped[str]
    formula: Mapped[str]


class CaseRow(Base):
    """One combination of factor values; `factors_json` is what its id hashes (no defaults)."""

    __tablename__ = "cases"
    id: Mapped[int] = mapped_column(primary_key=True)
    public_id: Mapped[str] = mapped_column(String(32), unique=True)
    factors_json: Mapped[str]


class CaseFactorRow(Base):
    """A factor's value in a case, defaults filled in; for filters and facets.  Rebuildable."""

    __tablename__ = "case_factors"
    factor: Mapped[str] = mapped_column(ForeignKey("factors.name"), primary_key=True)
    value: Mapped[str] = mapped_column(primary_key=True)
    case_id: Mapped[int] = mapped_column(ForeignKey("cases.id"), primary_key=True, index=True)
    number: Mapped[float | None]
    """The value as a number where it is one: sizes and rates sort by it."""


class PairingRow(Base):
    """Cases with equal `rest_hash` differ in `factor` alone (and what follows it).  Rebuildable."""

    __tablename__ = "pairings"
    factor: Mapped[str] = mapped_column(ForeignKey("factors.name"), primary_key=True)
    rest_hash: Mapped[str] = mapped_column(String(32), primary_key=True)
    value: Mapped[str] = mapped_column(primary_key=True)
    case_id: Mapped[int] = mapped_column(ForeignKey("cases.id"), primary_key=True, index=True)


class EnvironmentRow(Base):
    """The immutable facts of one host."""

    __tablename__ = "environments"
    id: Mapped[int] = mapped_column(primary_key=True)
    public_id: Mapped[str] = mapped_column(String(32), unique=True)
    facts_json: Mapped[str]


class ExperimentRow(Base):
    """An experiment file as written and as understood; a changed file is a new row."""

    __tablename__ = "experiments"
    id: Mapped[int] = mapped_column(primary_key=True)
    public_id: Mapped[str] = mapped_column(String(32), unique=True)
    name: Mapped[str] = mapped_column(index=True)
    question: Mapped[str]
    text: Mapped[str]
    resolved_json: Mapped[str]


class RunRow(Base):
    """One execution of an experiment; it owns no factor."""

    __tablename__ = "runs"
    __table_args__ = (
        CheckConstraint(
            "outcome IN ('running', 'finished', 'interrupted', 'failed')", name="outcome_known"
        ),
        Index(None, "started_at", "id"),
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    public_id: Mapped[str] = mapped_column(String(36), unique=True)
    experiment_id: Mapped[int] = mapped_column(ForeignKey("experiments.id"), index=True)
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    zcdb_version: Mapped[str]
    seed: Mapped[int] = mapped_column(BigInteger)
    outcome: Mapped[str]
    readings_json: Mapped[str]
    """A JSON list: what was read of the machine, once for each time the run was worked on."""


class PlannedCaseRow(Base):
    """A combination of declared factor values in a run's plan."""

    __tablename__ = "planned_cases"
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    plan_key: Mapped[str] = mapped_column(String(32), primary_key=True)
    position: Mapped[int]
    factors_json: Mapped[str]


class PlannedTrialRow(Base):
    """A place in a run's plan, stored before anything is measured."""

    __tablename__ = "planned_trials"
    __table_args__ = (
        UniqueConstraint("run_id", "plan_key", "repetition"),
        ForeignKeyConstraint(
            ["run_id", "plan_key"], ["planned_cases.run_id", "planned_cases.plan_key"]
        ),
    )
    run_id: Mapped[int] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    plan_key: Mapped[str] = mapped_column(String(32))
    block: Mapped[int]
    repetition: Mapped[int]


class TrialRow(Base):
    """One attempt to measure a case; never edited once ended, never deleted."""

    __tablename__ = "trials"
    __table_args__ = (
        UniqueConstraint("run_id", "plan_key", "repetition", "attempt"),
        CheckConstraint(
            "status IN ('running', 'ok', 'failed', 'unsupported')", name="status_known"
        ),
        CheckConstraint("window_ns > 0", name="window_positive"),
        CheckConstraint("(status = 'running') = (ended_at IS NULL)", name="ended_if_not_running"),
        CheckConstraint(
            "(status IN ('running', 'ok')) = (reason IS NULL)", name="reason_if_not_ok"
        ),
        Index(None, "run_id", "position"),
        Index(None, "case_id", "started_at"),
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    public_id: Mapped[str] = mapped_column(String(32), unique=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"))
    case_id: Mapped[int] = mapped_column(ForeignKey("cases.id"))
    plan_key: Mapped[str] = mapped_column(String(32))
    repetition: Mapped[int]
    attempt: Mapped[int]
    block: Mapped[int]
    position: Mapped[int]
    status: Mapped[str]
    reason: Mapped[str | None]
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    window_ns: Mapped[int | None] = mapped_column(BigInteger)
    sender_environment_id: Mapped[int | None] = mapped_column(
        ForeignKey("environments.id"), index=True
    )
    receiver_environment_id: Mapped[int | None] = mapped_column(
        ForeignKey("environments.id"), index=True
    )


class TrialDetailRow(Base):
    """What only a trial's own page reads: raw counts, and why a number is missing."""

    __tablename__ = "trial_details"
    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.id"), primary_key=True)
    counts_json: Mapped[str]
    reasons_json: Mapped[str]
    """A JSON list of [metric, method, reason] for every metric that was not measured."""


class SampleRow(Base):
    """The samples of a trial: zlib-compressed JSON, column name -> list of values."""

    __tablename__ = "samples"
    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.id"), primary_key=True)
    samples: Mapped[int]
    columns_zlib: Mapped[bytes] = mapped_column(LargeBinary)


class FlagRow(Base):
    """A warning beside a trial's numbers."""

    __tablename__ = "flags"
    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    code: Mapped[str] = mapped_column(index=True)
    detail: Mapped[str]


class ExclusionRow(Base):
    """A trial left out of the statistics: who, when and why.  The trial itself stays."""

    __tablename__ = "exclusions"
    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.id"), primary_key=True)
    reason: Mapped[str]
    excluded_by: Mapped[str]
    excluded_at: Mapped[datetime]


class MeasurementRow(Base):
    """A metric of a case in one run.

    `values_f64` holds one little-endian float64 per repetition, in order; NaN
    where no trial measured it.  The statistics beside it leave out NaN and
    excluded trials and are rebuildable; `reason` is the newest reason for a NaN.
    """

    __tablename__ = "measurements"
    __table_args__ = (Index(None, "case_id", "metric", "method"),)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    case_id: Mapped[int] = mapped_column(ForeignKey("cases.id"), primary_key=True)
    metric: Mapped[str] = mapped_column(ForeignKey("metrics.name"), primary_key=True)
    method: Mapped[str] = mapped_column(primary_key=True)
    values_f64: Mapped[bytes] = mapped_column(LargeBinary)
    n: Mapped[int]
    mean: Mapped[float | None]
    median: Mapped[float | None]
    sd: Mapped[float | None]
    low: Mapped[float | None]
    high: Mapped[float | None]
    reason: Mapped[str | None]


class SummaryRow(Base):
    """A metric of a case over all runs.  Rebuildable."""

    __tablename__ = "summaries"
    case_id: Mapped[int] = mapped_column(ForeignKey("cases.id"), primary_key=True)
    metric: Mapped[str] = mapped_column(ForeignKey("metrics.name"), primary_key=True)
    method: Mapped[str] = mapped_column(primary_key=True)
    runs: Mapped[int]
    """Runs that measured it at least once."""
    n: Mapped[int]
    mean: Mapped[float | None]
    median: Mapped[float | None]
    sd: Mapped[float | None]
    low: Mapped[float | None]
    high: Mapped[float | None]
    reason: Mapped[str | None]


class NoteRow(Base):
    """A remark beside a run; a changed remark is a new row, and the newest counts."""

    __tablename__ = "notes"
    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"), index=True)
    text: Mapped[str]
    written_at: Mapped[datetime]
