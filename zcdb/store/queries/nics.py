"""What was measured over network cards and their drivers, and what machines reported about them.

Which card or driver a value of a factor means is not decided here: values come
back as they were recorded, and `nics` knows which driver they name.  Every
function reads a bounded number of rows, however large the database is: the
newest cases of each card or driver.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session, aliased

from zcdb.metrics import HEADLINE_CPU_METHOD
from zcdb.store.cases import factors_from_json
from zcdb.store.models import (
    CaseFactorRow,
    CaseRow,
    ClaimRow,
    EntryRow,
    EnvironmentRow,
    SourceRow,
    SummaryRow,
    TrialRow,
)
from zcdb.store.queries.common import among
from zcdb.store.queries.lines import statistics_of_cases
from zcdb.store.results import CaseFactors, Statistic
from zcdb.store.session import Database

NIC_FACTORS = ("sender_nic", "receiver_nic", "sender_driver", "receiver_driver")
"""Factors whose values name a card or a driver."""

NO_CARD = frozenset(("", "unstated", "loopback", "lo", "veth"))
"""Values of those factors that mean no card."""

CASES_OF_A_VALUE = 200
"""The newest cases of each card or driver that are read."""

METRICS = (
    "throughput",
    "service_demand_sender",
    "service_demand_receiver",
    "utilisation_sender",
    "utilisation_receiver",
    "packet_rate",
    "latency_p50",
    "latency_p99",
)
"""What a verdict or a column of the NIC pages may need."""

METHODS = ("", HEADLINE_CPU_METHOD, "soak_work", "procstat", "rusage", "perf")

PROBES_READ = 5_000
"""The newest claims of this database that are read."""


@dataclass(frozen=True, slots=True)
class NicCase:
    """A case that was measured over some card.

    Attributes:
        trials: that were ok; 0 for what was only published.
        hosts: different environments at the end that has the card.
        newest: of the trials; None without any.
        published: entries of documents and imports.
        dated: newest date of those documents, as stated; "" without any.
    """

    id: str
    factors: CaseFactors
    statistics: tuple[Statistic, ...]
    trials: int
    hosts: int
    newest: datetime | None
    published: int
    dated: str


@dataclass(frozen=True, slots=True)
class StoredClaim:
    """A claim that this database gathered.

    Attributes:
        subject_kind: driver or device.
        state: on, off, fixed, or "" where that means nothing.
        environment_id: of the machine that was probed; None for others.
    """

    id: str
    subject_kind: str
    subject: str
    capability: str
    value: str
    state: str
    kernel: str
    source_kind: str
    place: str
    dated: str
    environment_id: str | None


def nic_cases(db: Database, values: Collection[str] | None = None) -> tuple[NicCase, ...]:
    """Return the newest cases measured over cards; eight statements, or five if `values` is given.

    Args:
        values: names of cards and drivers, as recorded; None is every one but `NO_CARD`.
    """
    with db.reading() as session:
        keys: set[int] = set()
        if values is not None:
            keys.update(session.scalars(_newest_of(sorted(set(values) - NO_CARD))))
        else:
            for factor in NIC_FACTORS:
                keys.update(session.scalars(_newest_of_each(factor)))
        return _cases(session, sorted(keys))


def _newest_of(values: Sequence[str]) -> Select[int]:
    """Return the keys of the newest cases that name one of these."""
    return (
        select(CaseFactorRow.case_id)
        .where(CaseFactorRow.factor.in_(NIC_FACTORS), CaseFactorRow.value.in_(values))
        .order_by(CaseFactorRow.case_id.desc())
        .limit(CASES_OF_A_VALUE * len(NIC_FACTORS))
    )


@lru_cache(maxsize=len(NIC_FACTORS))
def _newest_of_each(factor: str) -> Select[int]:
    """Return the statement for the keys of the newest cases of each value of a factor, made once.

    The values are found by stepping from one to the next in the primary key, so that a value with a
    million cases costs one step.
    """
    row = aliased(CaseFactorRow)
    first = select(func.min(row.value).label("value")).where(row.factor == factor)
    found = first.cte("found", recursive=True)
    after = aliased(CaseFactorRow)
    next_value = (
        select(func.min(after.value))
        .where(after.factor == factor, after.value > found.c.value)
        .correlate(found)
        .scalar_subquery()
    )
    found = found.union_all(select(next_value).where(found.c.value.is_not(None)))
    limit = aliased(CaseFactorRow)
    oldest = (
        select(limit.case_id)
        .where(limit.factor == factor, limit.value == found.c.value)
        .order_by(limit.case_id.desc())
        .offset(CASES_OF_A_VALUE - 1)
        .limit(1)
        .correlate(found)
        .scalar_subquery()
    )
    shown = aliased(CaseFactorRow)
    return (
        select(shown.case_id)
        .join(found, found.c.value == shown.value)
        .where(
            shown.factor == factor,
            found.c.value.not_in(NO_CARD),
            shown.case_id >= func.coalesce(oldest, 0),
        )
    )


def _cases(session: Session, keys: Sequence[int]) -> tuple[NicCase, ...]:
    """Return the cases with their statistics and what stands behind them; four statements."""
    rows = session.execute(
        select(CaseRow.id, CaseRow.public_id, CaseRow.factors_json)
        .where(among(session, CaseRow.id, keys))
        .order_by(CaseRow.id.desc())
    ).all()
    statistics = statistics_of_cases(
        session,
        keys,
        SummaryRow.metric.in_(METRICS),
        SummaryRow.method.in_(METHODS),
        SummaryRow.mean.is_not(None),
    )
    trials = {
        case_id: (count, hosts, newest)
        for case_id, count, hosts, newest in session.execute(
            select(
                TrialRow.case_id,
                func.count(),
                func.count(func.distinct(TrialRow.sender_environment_id)),
                func.max(TrialRow.started_at),
            )
            .where(among(session, TrialRow.case_id, keys), TrialRow.status == "ok")
            .group_by(TrialRow.case_id)
        )
    }
    published = {
        case_id: (count, dated or "")
        for case_id, count, dated in session.execute(
            select(EntryRow.case_id, func.count(), func.max(SourceRow.dated))
            .join(SourceRow, SourceRow.id == EntryRow.source_id)
            .where(among(session, EntryRow.case_id, keys), EntryRow.left_out.is_(None))
            .group_by(EntryRow.case_id)
        )
    }
    found = []
    for case in rows:
        count, hosts, newest = trials.get(case.id, (0, 0, None))
        entries, dated = published.get(case.id, (0, ""))
        factors = factors_from_json(case.factors_json)
        measured = statistics[case.id]
        found.append(
            NicCase(case.public_id, factors, measured, count, hosts, newest, entries, dated)
        )
    return tuple(found)


def stored_claims(db: Database, subjects: Collection[str] | None = None) -> tuple[StoredClaim, ...]:
    """Return the newest claims that this database gathered, newest first; one statement.

    Args:
        subjects: drivers and devices; None is all.
    """
    chosen = (
        select(ClaimRow, EnvironmentRow.public_id)
        .outerjoin(EnvironmentRow, EnvironmentRow.id == ClaimRow.environment_id)
        .order_by(ClaimRow.id.desc())
        .limit(PROBES_READ)
    )
    if subjects is not None:
        chosen = chosen.where(ClaimRow.subject.in_(subjects))
    with db.reading() as session:
        return tuple(
            StoredClaim(
                id=row.public_id,
                subject_kind=row.subject_kind,
                subject=row.subject,
                capability=row.capability,
                value=row.value,
                state=row.state,
                kernel=row.kernel,
                source_kind=row.source_kind,
                place=row.place,
                dated=row.dated,
                environment_id=environment_id,
            )
            for row, environment_id in session.execute(chosen)
        )
