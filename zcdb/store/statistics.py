"""The statistics kept beside the values: written with every trial, and rebuildable.

Excluded trials, what was not measured and published figures that may not be compared are left
out of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from zcdb.metrics import METRICS
from zcdb.records import MetricValue
from zcdb.store import values as blobs
from zcdb.store.models import ExclusionRow, MeasurementRow, PublishedRow, SummaryRow, TrialRow
from zcdb.store.moments import Moments, published
from zcdb.store.upsert import batched, upsert

Excluded = set[tuple[int, int]]
"""(run, repetition) of trials that are left out."""


def excluded_repetitions(session: Session, case_id: int, *, run_id: int | None = None) -> Excluded:
    """Return the excluded trials of a case (in one run, if it is named) among those that are ok."""
    rows = (
        select(TrialRow.run_id, TrialRow.repetition)
        .join(ExclusionRow, ExclusionRow.trial_id == TrialRow.id)
        .where(TrialRow.case_id == case_id, TrialRow.status == "ok")
    )
    if run_id is not None:
        rows = rows.where(TrialRow.run_id == run_id)
    return {(row.run_id, row.repetition) for row in session.execute(rows)}


def kept(values: Sequence[float | None], run_id: int, excluded: Excluded) -> blobs.Values:
    """Return the values of a run with those of excluded trials as None."""
    return tuple(
        None if (run_id, repetition) in excluded else value
        for repetition, value in enumerate(values)
    )


def _measurements(session: Session, case_id: int) -> list[MeasurementRow]:
    return list(
        session.scalars(
            select(MeasurementRow)
            .where(MeasurementRow.case_id == case_id)
            .order_by(MeasurementRow.metric, MeasurementRow.method, MeasurementRow.run_id)
        )
    )


def refresh_measurements(session: Session, case_id: int) -> None:
    """Compute the statistics of every measurement of a case anew."""
    excluded = excluded_repetitions(session, case_id)
    for row in _measurements(session, case_id):
        for name, number in _own_statistics(row, excluded).items():
            setattr(row, name, number)
    session.flush()


def refresh_summaries(session: Session, *case_ids: int) -> None:
    """Compute what cases' measurements and figures say together, and drop what has none."""
    for some in batched(sorted(set(case_ids))):
        summaries = _summaries(session, some)
        upsert(session, SummaryRow, list(summaries.values()))
        for row in session.scalars(select(SummaryRow).where(SummaryRow.case_id.in_(some))):
            if (row.case_id, row.metric, row.method) not in summaries:
                session.delete(row)


def grow_summaries(
    session: Session, case_id: int, measured: Iterable[tuple[MetricValue, bool]]
) -> None:
    """Bring the summaries of a case along with the values of one more trial.

    Costs the same after one run and after a thousand: the sums are carried on, not made anew.

    Args:
        session: where to write.
        case_id: the case's key.
        measured: each value, and whether it is the first of its run.
    """
    stored = {
        (row.metric, row.method): row
        for row in session.execute(
            select(SummaryRow.__table__).where(SummaryRow.case_id == case_id)
        )
    }
    rows = []
    for value, is_first in measured:
        row = stored.get((value.metric, value.method))
        moments = Moments.of(row.n, row.mean, row.sd) if row else Moments()
        if value.value is not None:
            moments = moments.with_value(value.value)
        rows.append(
            {
                "case_id": case_id,
                "metric": value.metric,
                "method": value.method,
                "runs": (row.runs if row else 0) + is_first,
                "entries": row.entries if row else 0,
                "reason": value.reason or (row.reason if row else None),
                **moments.columns(),
            }
        )
    upsert(session, SummaryRow, rows)


def outdated(session: Session, case_id: int) -> list[str]:
    """Return what of a case's statistics differs from what its values say."""
    excluded = excluded_repetitions(session, case_id)
    found = [
        f"the statistic of {row.metric} {row.method} in run {row.run_id}"
        for row in _measurements(session, case_id)
        if _differs(row, _own_statistics(row, excluded))
    ]
    expected = _summaries(session, [case_id])
    stored = {
        (row.case_id, row.metric, row.method): row
        for row in session.scalars(select(SummaryRow).where(SummaryRow.case_id == case_id))
    }
    for key in sorted(expected.keys() | stored.keys()):
        if key not in expected or key not in stored or _differs(stored[key], expected[key]):
            found.append(f"the summary of {' '.join(key[1:]).strip()}")
    return found


def _differs(row: MeasurementRow | SummaryRow, expected: Mapping[str, Any]) -> bool:
    """Compare closely: sums that were carried on differ in the last bits from sums made anew.

    Of a reason it counts whether there is one: which run spoke last cannot be told afterwards.
    """
    scale = abs(expected["mean"] or 0.0)
    for name, number in expected.items():
        stored = getattr(row, name)
        if name == "reason":
            if (stored is None) != (number is None):
                return True
        elif isinstance(number, float) and isinstance(stored, float):
            if not math.isclose(stored, number, rel_tol=1e-9, abs_tol=1e-9 * scale):
                return True
        elif stored != number:
            return True
    return False


def _own_statistics(row: MeasurementRow, excluded: Excluded) -> dict[str, Any]:
    return blobs.statistics(kept(blobs.decode(row.values_f64), row.run_id, excluded))


@dataclass(slots=True)
class _Whole:
    """What all runs and sources together say about a metric of a case."""

    moments: Moments = Moments()  # noqa: RUF009  # frozen
    runs: int = 0
    entries: int = 0
    reason: str | None = None


def _summaries(
    session: Session, case_ids: Sequence[int]
) -> dict[tuple[int, str, str], dict[str, Any]]:
    """Return (case, metric, method) -> the row that `summaries` should hold."""
    wholes: dict[tuple[int, str, str], _Whole] = defaultdict(_Whole)
    for row in session.execute(
        select(
            MeasurementRow.case_id,
            MeasurementRow.metric,
            MeasurementRow.method,
            MeasurementRow.n,
            MeasurementRow.mean,
            MeasurementRow.sd,
            MeasurementRow.reason,
        )
        .where(MeasurementRow.case_id.in_(case_ids))
        .order_by(MeasurementRow.run_id)
    ):
        whole = wholes[row.case_id, row.metric, row.method]
        whole.moments = whole.moments.merged(Moments.of(row.n, row.mean, row.sd))
        whole.runs += row.n > 0
        whole.reason = row.reason or whole.reason
    for figure in _figures(session, case_ids):
        whole = wholes[figure.case_id, figure.metric, figure.method]
        if figure.value is None:
            whole.reason = figure.reason or f"published as a range: {figure.stated}"
            continue
        whole.entries += 1
        whole.moments = whole.moments.merged(
            published(figure.value, figure.sd, figure.spread, figure.n)
        )
    return {
        (case_id, metric, method): {
            "case_id": case_id,
            "metric": metric,
            "method": method,
            "runs": whole.runs,
            "entries": whole.entries,
            "reason": whole.reason,
            **whole.moments.columns(),
        }
        for (case_id, metric, method), whole in wholes.items()
    }


def _figures(session: Session, case_ids: Sequence[int]) -> list[Any]:
    """Return the published figures of cases that may be compared, in the registry's words."""
    rows = session.execute(
        select(
            PublishedRow.case_id,
            PublishedRow.metric,
            PublishedRow.method,
            PublishedRow.value,
            PublishedRow.sd,
            PublishedRow.spread,
            PublishedRow.n,
            PublishedRow.unit,
            PublishedRow.stated,
            PublishedRow.reason,
        )
        .where(PublishedRow.case_id.in_(case_ids), PublishedRow.left_out.is_(None))
        .order_by(PublishedRow.entry_id, PublishedRow.position)
    )
    return [row for row in rows if row.metric in METRICS and METRICS[row.metric].unit == row.unit]
