"""The measurements of a bundle: values of new runs, and values that join those of known ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from zcdb.store import values as blobs
from zcdb.store.bundle_checks import Conflict
from zcdb.store.models import CaseRow, ErratumRow, MeasurementRow, RunRow, TrialRow
from zcdb.store.statistics import excluded_repetitions
from zcdb.store.upsert import insert_new, upsert

Measured = Sequence[tuple[str, str, Sequence[float | None], str | None]]
"""(metric, method, values by repetition, reason) of a case in a run."""


def add_measurements(
    session: Session,
    run: int,
    cases: Mapping[int, Measured],
    excluded: Mapping[int, Collection[int]],
) -> None:
    """Write the measurements of a run that the database did not have.

    Args:
        session: where to write.
        run: the run's key.
        cases: key of a case -> what was measured.
        excluded: key of a case -> repetitions that are left out of the statistics.
    """
    rows = [
        _row(run, case, metric, method, values, reason, excluded[case])
        for case, measured in cases.items()
        for metric, method, values, reason in measured
    ]
    insert_new(session, MeasurementRow, rows)


def merge_measurements(session: Session, run: int, cases: Mapping[int, Measured]) -> set[int]:
    """Let measurements join those of a known run; return the cases in which something is new.

    A repetition that one side has not measured takes the other's value.

    Raises:
        Conflict: if both have one, they differ, and no correction says why.
    """
    stored = {
        (row.case_id, row.metric, row.method): row
        for row in session.execute(
            select(
                MeasurementRow.case_id,
                MeasurementRow.metric,
                MeasurementRow.method,
                MeasurementRow.values_f64,
                MeasurementRow.reason,
            ).where(MeasurementRow.run_id == run, MeasurementRow.case_id.in_(cases))
        )
    }
    rows, changed = [], set()
    for case, measured in cases.items():
        excluded: Collection[int] | None = None
        for metric, method, values, reason in measured:
            row = stored.get((case, metric, method))
            old = blobs.decode(row.values_f64) if row else ()
            merged = _merged(session, (run, case, metric, method), old, values)
            if row and merged == old:
                continue
            if excluded is None:
                left_out = excluded_repetitions(session, case, run_id=run)
                excluded = {repetition for _, repetition in left_out}
            reason = reason or (row.reason if row else None)
            rows.append(_row(run, case, metric, method, merged, reason, excluded))
            changed.add(case)
    upsert(session, MeasurementRow, rows)
    return changed


def _row(
    run: int,
    case: int,
    metric: str,
    method: str,
    values: Sequence[float | None],
    reason: str | None,
    excluded: Collection[int],
) -> dict[str, Any]:
    kept = [value for place, value in enumerate(values) if place not in excluded]
    return {
        "run_id": run,
        "case_id": case,
        "metric": metric,
        "method": method,
        "values_f64": blobs.encode(values),
        "reason": reason,
        **blobs.statistics(kept),
    }


def _merged(
    session: Session,
    place: tuple[int, int, str, str],
    old: Sequence[float | None],
    new: Sequence[float | None],
) -> blobs.Values:
    merged: list[float | None] = []
    for repetition in range(max(len(old), len(new))):
        before = old[repetition] if repetition < len(old) else None
        after = new[repetition] if repetition < len(new) else None
        if before is None or after is None or before == after:
            merged.append(after if before is None else before)
        else:
            merged.append(_corrected(session, place, repetition, before, after))
    return tuple(merged)


def _corrected(
    session: Session,
    place: tuple[int, int, str, str],
    repetition: int,
    before: float,
    after: float,
) -> float:
    """Return the later one of two values of a figure that was corrected.

    Raises:
        Conflict: if no correction made one of the other.
    """
    run, case, metric, method = place
    replaced = set(
        session.scalars(
            select(ErratumRow.old_value)
            .join(TrialRow, TrialRow.public_id == ErratumRow.object_id)
            .where(
                TrialRow.run_id == run,
                TrialRow.case_id == case,
                TrialRow.repetition == repetition,
                ErratumRow.kind == "corrected",
                ErratumRow.metric == metric,
                ErratumRow.method == method,
            )
        )
    )
    if after in replaced:
        return before
    if before in replaced:
        return after
    run_id = session.scalars(select(RunRow.public_id).where(RunRow.id == run)).one()
    case_id = session.scalars(select(CaseRow.public_id).where(CaseRow.id == case)).one()
    raise Conflict(
        f"run {run_id}: {metric} {method}".rstrip()
        + f" of case {case_id}, repetition {repetition}, which"
    )
