"""The tables.

Inside, rows refer to each other by integer keys; the `public_id` of a row is
what the world sees: a content hash (32 hex digits) or, for runs, a UUIDv7.
JSON is kept as canonical text and never filtered on: what is filtered on has
columns or rows of its own.  `docs/schema.md` is generated from this module.

Originals: experiments, runs, the plan, environments, cases, trials with their
details, flags and samples, the values of measurements, exclusions and notes;
sources with their texts, entries and published figures; errata, reports, links
and claims.  Everything else can be rebuilt from them (`zcdb.store.rebuild`).
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
        # All that a page about many cases asks of their trials, without reading the trials.
        Index(
            "ix_trials_of_case",
            *("case_id", "started_at", "status", "run_id"),
            *("sender_environment_id", "receiver_environment_id"),
        ),
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
    sender_environment_id: Mapped[int | None] = mapped_column(ForeignKey("environments.id"))
    receiver_environment_id: Mapped[int | None] = mapped_column(ForeignKey("environments.id"))


class EnvironmentUseRow(Base):
    """How often a run measured in an environment; a trial with both ends there counts once.

    Rebuildable.  Pages about hosts read it instead of all trials.
    """

    __tablename__ = "environment_uses"
    __table_args__ = (Index(None, "environment_id", "last_at"),)
    environment_id: Mapped[int] = mapped_column(ForeignKey("environments.id"), primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"), primary_key=True, index=True)
    trials: Mapped[int]
    first_at: Mapped[datetime]
    last_at: Mapped[datetime]
    """When the first and the last of these trials started."""


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
    """A metric of a case over all runs and sources.  Rebuildable.

    Brought along with every trial in constant time, so it has no median: that one
    would have to look at every value again.  A published figure counts as one
    value, or as the n that is stated beside its spread.
    """

    __tablename__ = "summaries"
    __table_args__ = (Index(None, "metric", "method", "case_id"),)
    case_id: Mapped[int] = mapped_column(ForeignKey("cases.id"), primary_key=True)
    metric: Mapped[str] = mapped_column(ForeignKey("metrics.name"), primary_key=True)
    method: Mapped[str] = mapped_column(primary_key=True)
    runs: Mapped[int]
    """Runs that measured it at least once."""
    entries: Mapped[int]
    """Published figures that are in it."""
    n: Mapped[int]
    mean: Mapped[float | None]
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


class TextRow(Base):
    """A text that results were read from, as it came: zlib-compressed bytes by their SHA-256."""

    __tablename__ = "texts"
    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    bytes_zlib: Mapped[bytes] = mapped_column(LargeBinary)


class SourceRow(Base):
    """Where results that zcdb did not measure come from: a founding table, or an imported file."""

    __tablename__ = "sources"
    __table_args__ = (
        CheckConstraint("kind IN ('historic', 'import', 'bundle')", name="kind_known"),
        Index(None, "kind", "name"),
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    public_id: Mapped[str] = mapped_column(String(32), unique=True)
    kind: Mapped[str]
    name: Mapped[str]
    """The founding table's word, or the name of the imported file."""
    title: Mapped[str]
    document: Mapped[str]
    author: Mapped[str | None]
    dated: Mapped[str | None]
    """The date as the document states it: a day or a moment, in ISO 8601."""
    first_line: Mapped[int | None]
    last_line: Mapped[int | None]
    sha256: Mapped[str] = mapped_column(ForeignKey("texts.sha256"), index=True)
    form: Mapped[str]
    """What read the text: a changed one reads the founding tables again."""
    details_json: Mapped[str]
    recorded_at: Mapped[datetime]


class EntryRow(Base):
    """One result of a source: a cell of a founding table, one result in an imported file.

    `left_out` says why it takes part in no comparison; NULL if it does.  An entry
    that describes no case (a machine, a sum, a conclusion) has none.
    """

    __tablename__ = "entries"
    __table_args__ = (Index(None, "source_id", "position"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    public_id: Mapped[str] = mapped_column(String(32), unique=True)
    source_id: Mapped[int] = mapped_column(ForeignKey("sources.id"))
    case_id: Mapped[int | None] = mapped_column(ForeignKey("cases.id"), index=True)
    position: Mapped[int]
    name: Mapped[str]
    kind: Mapped[str]
    first_line: Mapped[int]
    last_line: Mapped[int]
    left_out: Mapped[str | None]
    details_json: Mapped[str]
    """Context as stated, what was deduced, notes, relations; tool, version, test."""


class EntryFlagRow(Base):
    """A warning beside an entry's figures."""

    __tablename__ = "entry_flags"
    entry_id: Mapped[int] = mapped_column(ForeignKey("entries.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    code: Mapped[str] = mapped_column(index=True)
    detail: Mapped[str]


class PublishedRow(Base):
    """A figure of an entry: as stated, and in the metric's base unit.

    `value` is the single figure; a range has only `low` and `high`; with neither
    there is a `reason`.  `spread` says what `sd` is: 'sd', 'se' (of the mean) or
    'ci95' (half its width).  `metric` is a word of the registry, or one that only
    documents use.  `left_out`: why it takes part in no comparison.
    """

    __tablename__ = "published"
    __table_args__ = (
        CheckConstraint("spread IN ('sd', 'se', 'ci95')", name="spread_known"),
        CheckConstraint("(sd IS NULL) = (spread IS NULL)", name="spread_with_sd"),
        CheckConstraint(
            "(low IS NULL) = (high IS NULL) AND (low IS NULL) = (reason IS NOT NULL)",
            name="figure_or_reason",
        ),
        Index(None, "case_id", "metric", "method"),
    )
    entry_id: Mapped[int] = mapped_column(ForeignKey("entries.id"), primary_key=True)
    metric: Mapped[str] = mapped_column(primary_key=True)
    method: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]
    case_id: Mapped[int | None] = mapped_column(ForeignKey("cases.id"))
    value: Mapped[float | None]
    low: Mapped[float | None]
    high: Mapped[float | None]
    sd: Mapped[float | None]
    spread: Mapped[str | None]
    n: Mapped[int | None]
    """Repetitions behind the figure, where the source says how many."""
    unit: Mapped[str]
    """Base unit of the numbers here."""
    stated: Mapped[str]
    """The figure with its unit, as the source has it."""
    other_low: Mapped[float | None]
    other_high: Mapped[float | None]
    """The other reading of an ambiguous prefix."""
    is_inferred: Mapped[bool]
    """True for what was deduced and not stated."""
    reason: Mapped[str | None]
    left_out: Mapped[str | None]
    details_json: Mapped[str]
    """How it was read and why; how an importer made it from printed numbers."""


class ErratumRow(Base):
    """A correction, a doubt or a retraction of something that has an id.  Never edited."""

    __tablename__ = "errata"
    __table_args__ = (
        CheckConstraint("kind IN ('corrected', 'contested', 'retracted')", name="kind_known"),
        Index(None, "object_id"),
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    public_id: Mapped[str] = mapped_column(String(32), unique=True)
    kind: Mapped[str]
    object_kind: Mapped[str]
    object_id: Mapped[str] = mapped_column(String(36))
    metric: Mapped[str]
    """With `method`, the figure that was corrected; '' where the whole thing is meant."""
    method: Mapped[str]
    old_value: Mapped[float | None]
    new_value: Mapped[float | None]
    reason: Mapped[str]
    written_by: Mapped[str]
    written_at: Mapped[datetime]
    successor: Mapped[str | None] = mapped_column(String(36))
    """Id of what stands in its place now."""


class ReportRow(Base):
    """A frozen comparison: what it was made from, and its bytes, which never change."""

    __tablename__ = "reports"
    __table_args__ = (Index(None, "created_at", "id"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    public_id: Mapped[str] = mapped_column(String(32), unique=True)
    title: Mapped[str]
    slug: Mapped[str]
    query: Mapped[str]
    """Canonical query that it freezes."""
    created_at: Mapped[datetime]
    inputs_zlib: Mapped[bytes] = mapped_column(LargeBinary)
    """Canonical JSON of every stored value that it was computed from."""
    content: Mapped[bytes] = mapped_column(LargeBinary)
    """Canonical JSON of its figures, verdicts and text: what its id hashes."""


class LinkRow(Base):
    """A short address of a page's state: the path and its canonical query."""

    __tablename__ = "links"
    id: Mapped[int] = mapped_column(primary_key=True)
    public_id: Mapped[str] = mapped_column(String(32), unique=True)
    path: Mapped[str]
    query: Mapped[str]
    created_at: Mapped[datetime]


class ClaimRow(Base):
    """A statement that a network card or driver can or cannot do something; append-only.

    The catalogue's own claims ship with zcdb; here stand those that this database
    gathered: probes of the machines that ran, and what was imported.
    """

    __tablename__ = "claims"
    __table_args__ = (Index(None, "subject_kind", "subject", "capability"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    public_id: Mapped[str] = mapped_column(String(32), unique=True)
    subject_kind: Mapped[str]
    """driver or device."""
    subject: Mapped[str]
    """The driver's name, or a device's ids as `pci:VVVV:DDDD`."""
    capability: Mapped[str]
    value: Mapped[str]
    """yes, some, no or unknown."""
    state: Mapped[str]
    """How it was set when it was looked at: on, off, fixed; '' where that means nothing."""
    kernel: Mapped[str]
    """Kernel release or range that it holds for."""
    source_kind: Mapped[str]
    """probed, published or source."""
    place: Mapped[str]
    """Where it stands: the command or interface that told, a document and line."""
    dated: Mapped[str]
    environment_id: Mapped[int | None] = mapped_column(ForeignKey("environments.id"), index=True)
    details_json: Mapped[str]
