"""The statistics kept beside the values: written with every trial, and rebuildable.

Excluded trials and what was not measured are left out of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from zcdb.store import values as blobs
from zcdb.store.models import ExclusionRow, MeasurementRow, SummaryRow, TrialRow
from zcdb.store.upsert import upsert

Excluded = set[tuple[int, int]]
"""(run, repetition) of trials that are left out."""


def excluded_repetitions(session: Session, case_id: int) -> Excluded:
    """Return the excluded trials of a case among those that are ok."""
    rows = session.execute(
        select(TrialRow.run_id, TrialRow.repetition)
        .join(ExclusionRow, ExclusionRow.trial_id == TrialRow.id)
        .where(TrialRow.case_id == case_id, TrialRow.status == "ok")
    )
    return {(row.run_id, row.repetition) for row in rows}


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


def refresh_summaries(session: Session, case_id: int) -> None:
    """Compute what a case's measurements say over all runs, and drop what has none."""
    summaries = _summaries(session, case_id)
    upsert(session, SummaryRow, list(summaries.values()))
    for row in session.scalars(select(SummaryRow).where(SummaryRow.case_id == case_id)):
        if (row.metric, row.method) not in summaries:
            session.delete(row)


def outdated(session: Session, case_id: int) -> list[str]:
    """Return what of a case's statistics differs from what its values say."""
    excluded = excluded_repetitions(session, case_id)
    found = [
        f"the statistic of {row.metric} {row.method} in run {row.run_id}"
        for row in _measurements(session, case_id)
        if _differs(row, _own_statistics(row, excluded))
    ]
    expected = _summaries(session, case_id)
    stored = {
        (row.metric, row.method): row
        for row in session.scalars(select(SummaryRow).where(SummaryRow.case_id == case_id))
    }
    for key in sorted(expected.keys() | stored.keys()):
        if key not in expected or key not in stored or _differs(stored[key], expected[key]):
            found.append(f"the summary of {' '.join(key).strip()}")
    return found


def _differs(row: MeasurementRow | SummaryRow, expected: Mapping[str, Any]) -> bool:
    """Compare numbers closely: another machine may round the last bit of a sum differently."""
    for name, number in expected.items():
        stored = getattr(row, name)
        if isinstance(number, float) and isinstance(stored, float):
            if not math.isclose(stored, number, rel_tol=1e-9, abs_tol=1e-12):
                return True
        elif stored != number:
            return True
    return False


def _own_statistics(row: MeasurementRow, excluded: Excluded) -> dict[str, Any]:
    return blobs.statistics(kept(blobs.decode(row.values_f64), row.run_id, excluded))


def _summaries(session: Session, case_id: int) -> dict[tuple[str, str], dict[str, Any]]:
    """Return (metric, method) -> the row that `summaries` should hold.

    Reads plain columns: with every trial it goes through all runs of the case.
    """
    excluded = excluded_repetitions(session, case_id)
    groups: dict[tuple[str, str], list[_Part]] = defaultdict(list)
    for metric, method, run_id, values_f64, n, reason in session.execute(
        select(
            MeasurementRow.metric,
            MeasurementRow.method,
            MeasurementRow.run_id,
            MeasurementRow.values_f64,
            MeasurementRow.n,
            MeasurementRow.reason,
        )
        .where(MeasurementRow.case_id == case_id)
        .order_by(MeasurementRow.run_id)
    ):
        groups[metric, method].append(_Part(run_id, values_f64, n, reason))
    return {
        (metric, method): {
            "case_id": case_id,
            "metric": metric,
            "method": method,
            **_summary(parts, excluded),
        }
        for (metric, method), parts in groups.items()
    }


class _Part(NamedTuple):
    """What one run says about a metric of a case."""

    run_id: int
    values_f64: bytes
    n: int
    reason: str | None


def _summary(parts: Sequence[_Part], excluded: Excluded) -> dict[str, Any]:
    if excluded:
        values = [
            value
            for part in parts
            for value in kept(blobs.decode(part.values_f64), part.run_id, excluded)
        ]
    else:
        # The usual case, at one go: it is paid with every trial.
        values = list(blobs.decode(b"".join(part.values_f64 for part in parts)))
    return {
        "runs": sum(part.n > 0 for part in parts),
        "reason": next((part.reason for part in reversed(parts) if part.reason), None),
        **blobs.statistics(values),
    }
