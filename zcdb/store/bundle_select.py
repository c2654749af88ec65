"""What belongs into a bundle: everything, one thing with all that it refers to, or some cases."""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from zcdb.errors import UsageError
from zcdb.factors import FactorValue
from zcdb.store.models import (
    CaseRow,
    EntryRow,
    EnvironmentRow,
    ExperimentRow,
    ReportRow,
    RunRow,
    SourceRow,
    TrialRow,
)
from zcdb.store.queries.index import case_index
from zcdb.store.session import Database
from zcdb.store.upsert import batched


@dataclass(frozen=True, slots=True)
class Selection:
    """Keys of the rows that a bundle holds.

    Attributes:
        runs: key of a run -> keys of the cases whose trials come along; None for all of them.
        is_all: short addresses and all claims come along.
    """

    experiments: frozenset[int]
    runs: Mapping[int, frozenset[int] | None]
    cases: frozenset[int]
    environments: frozenset[int]
    sources: frozenset[int]
    reports: frozenset[int]
    is_all: bool = False


def select_all(session: Session) -> Selection:
    """Return everything."""

    def keys(row_class: Any) -> frozenset[int]:
        return frozenset(session.scalars(select(row_class.id)))

    return Selection(
        experiments=keys(ExperimentRow),
        runs=dict.fromkeys(sorted(keys(RunRow))),
        cases=keys(CaseRow),
        environments=keys(EnvironmentRow),
        sources=keys(SourceRow),
        reports=keys(ReportRow),
        is_all=True,
    )


def select_thing(session: Session, kind: str, public_id: str) -> Selection:
    """Return what belongs to one thing that has an id.

    A run and an experiment bring all of their trials; a case its trials in every run and the
    sources that published figures of it; a trial the repetitions beside it, because values are
    kept by case; an entry its source; a report the cases that it compares.

    Args:
        session: where to read.
        kind: run, case, trial, source, entry, report or experiment.
        public_id: an id that is there.

    Raises:
        UsageError: for another kind.
    """
    if kind == "run":
        return _closed(session, runs={_key(session, RunRow, public_id): None})
    if kind == "experiment":
        key = _key(session, ExperimentRow, public_id)
        runs = session.scalars(select(RunRow.id).where(RunRow.experiment_id == key)).all()
        return _closed(session, experiments=[key], runs=dict.fromkeys(runs))
    if kind == "case":
        return _of_cases(session, _keys(session, CaseRow, [public_id]))
    if kind == "trial":
        found = select(TrialRow.run_id, TrialRow.case_id).where(TrialRow.public_id == public_id)
        trial = session.execute(found).one()
        return _closed(session, runs={trial.run_id: frozenset([trial.case_id])})
    if kind == "source":
        return _closed(session, sources=[_key(session, SourceRow, public_id)])
    if kind == "entry":
        entry = select(EntryRow.source_id).where(EntryRow.public_id == public_id)
        return _closed(session, sources=[session.scalars(entry).one()])
    if kind == "report":
        return _of_report(session, public_id)
    raise UsageError(
        f"{kind} {public_id} is no result of its own",
        hint="Export a run, case, trial, source, entry, report or experiment.",
    )


def select_matching(
    db: Database,
    session: Session,
    filters: Mapping[str, Collection[FactorValue]],
    words: Collection[str],
) -> Selection:
    """Return the cases that /explore shows for these filters and words, as for a single case."""
    index = case_index(db, session)
    mask = index.mask(filters) & index.containing(words)
    return _of_cases(session, [int(key) for key in index.keys[mask]])


def ids_of(db: Database, kind: str) -> list[str]:
    """Return the ids of every case, entry or report of a database, in their own order."""
    ids = {"case": CaseRow.public_id, "entry": EntryRow.public_id, "report": ReportRow.public_id}
    with db.reading() as session:
        return sorted(session.scalars(select(ids[kind])))


def _of_cases(session: Session, keys: Collection[int], reports: Collection[int] = ()) -> Selection:
    runs: dict[int, set[int]] = defaultdict(set)
    sources: set[int] = set()
    for some in batched(sorted(keys)):
        measured = select(TrialRow.run_id, TrialRow.case_id).distinct()
        for row in session.execute(measured.where(TrialRow.case_id.in_(some))):
            runs[row.run_id].add(row.case_id)
        told = select(EntryRow.source_id).distinct().where(EntryRow.case_id.in_(some))
        sources.update(session.scalars(told))
    return _closed(
        session,
        runs={run: frozenset(cases) for run, cases in runs.items()},
        cases=keys,
        sources=sources,
        reports=reports,
    )


def _of_report(session: Session, public_id: str) -> Selection:
    row = session.scalars(select(ReportRow).where(ReportRow.public_id == public_id)).one()
    inputs = json.loads(zlib.decompress(row.inputs_zlib))
    ids = set(inputs["cases"])
    for baseline, candidate, _ in inputs["pairs"]:
        ids |= {side["case_id"] for side in (baseline, candidate) if not isinstance(side, str)}
    return _of_cases(session, _keys(session, CaseRow, ids), [row.id])


def _closed(
    session: Session,
    *,
    experiments: Iterable[int] = (),
    runs: Mapping[int, frozenset[int] | None] | None = None,
    cases: Iterable[int] = (),
    sources: Iterable[int] = (),
    reports: Iterable[int] = (),
) -> Selection:
    """Return a selection with everything that its parts refer to."""
    runs, all_cases, environments = runs or {}, set(cases), set[int]()
    columns = (TrialRow.sender_environment_id, TrialRow.receiver_environment_id)
    for run, chosen in runs.items():
        used = select(TrialRow.case_id, *columns).where(TrialRow.run_id == run).distinct()
        for case, *ends in session.execute(used):
            if chosen is None or case in chosen:
                all_cases.add(case)
                environments.update(end for end in ends if end is not None)
    for some in batched(sorted(sources)):
        told = select(EntryRow.case_id).where(EntryRow.source_id.in_(some)).distinct()
        all_cases.update(key for key in session.scalars(told) if key is not None)
    all_experiments = set(experiments)
    for some in batched(sorted(runs)):
        asked = select(RunRow.experiment_id).where(RunRow.id.in_(some))
        all_experiments.update(session.scalars(asked))
    return Selection(
        frozenset(all_experiments),
        runs,
        frozenset(all_cases),
        frozenset(environments),
        frozenset(sources),
        frozenset(reports),
    )


def _key(session: Session, row_class: Any, public_id: str) -> int:
    return next(iter(_keys(session, row_class, [public_id])))


def _keys(session: Session, row_class: Any, public_ids: Iterable[str]) -> set[int]:
    found: set[int] = set()
    for some in batched(sorted(set(public_ids))):
        found.update(session.scalars(select(row_class.id).where(row_class.public_id.in_(some))))
    return found
