"""What a bundle holds, read out of a database: the originals as lines of canonical JSON.

    members(session, selection)      name of a member, and its lines one after the other

Rows that refer to each other do so by their public ids, and every order is made from content
(times, places, ids), so that the same content gives the same bytes out of any database.  What is
derived stays out: who reads a bundle makes it anew.  Trials that still run are no results yet
and stay out too.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from zcdb.ids import canonical_json
from zcdb.store import values as blobs
from zcdb.store.bundle_select import Selection
from zcdb.store.models import (
    CaseRow,
    ClaimRow,
    EntryFlagRow,
    EntryRow,
    EnvironmentRow,
    ErratumRow,
    ExclusionRow,
    ExperimentRow,
    FlagRow,
    LinkRow,
    MeasurementRow,
    NoteRow,
    PlannedCaseRow,
    PlannedTrialRow,
    PublishedRow,
    ReportRow,
    RunRow,
    SampleRow,
    SourceRow,
    TextRow,
    TrialDetailRow,
    TrialRow,
)
from zcdb.store.upsert import batched

TEXTS = "texts/"
"""Folder of the members that are texts as they came; each is named by its SHA-256."""

_ROWS_AT_ONCE = 500
_EARLIEST, _LATEST = (moment.replace(tzinfo=UTC) for moment in (datetime.min, datetime.max))
_LARGEST_IN = 10_000
"""Keys that both databases take in one IN (...)."""

Member = tuple[str, Iterator[bytes]]


def public_ids(session: Session, row_class: Any, keys: Collection[int]) -> dict[int, str]:
    """Return key -> public id of some rows, ordered by public id."""
    found: dict[int, str] = {}
    for some in batched(sorted(keys)):
        chosen = select(row_class.id, row_class.public_id).where(row_class.id.in_(some))
        found |= {row.id: row.public_id for row in session.execute(chosen)}
    # The database's own order of words depends on its collation.
    return dict(sorted(found.items(), key=lambda one: one[1]))


def members(session: Session, chosen: Selection) -> Iterator[Member]:
    """Yield the members of a bundle in the order in which they can be read back."""
    reader = _Reader(session, chosen)
    yield "errata.ndjson", reader.errata()
    yield "experiments.ndjson", reader.experiments()
    yield "environments.ndjson", reader.environments()
    yield "cases.ndjson", reader.cases()
    yield "runs.ndjson", reader.runs()
    yield "trials.ndjson", reader.trials()
    yield "measurements.ndjson", reader.measurements()
    yield from reader.texts()
    yield "sources.ndjson", reader.sources()
    yield "entries.ndjson", reader.entries()
    yield "reports.ndjson", reader.reports()
    yield "links.ndjson", reader.links()
    yield "claims.ndjson", reader.claims()


def utc_text(moment: datetime | None) -> str | None:
    """Return a moment as bundles write it."""
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def line_of(plain: Mapping[str, Any], **texts: str) -> bytes:
    """Return a line: an object of plain values, and of fields that are canonical JSON already.

    Splicing those in costs nothing; parsing and writing them again would take most of the time.
    """
    fields = {name: canonical_json(value) for name, value in plain.items()} | texts
    return ("{" + ",".join(f'"{name}":{fields[name]}' for name in sorted(fields)) + "}\n").encode()


class _Reader:
    """Makes the lines of one selection."""

    def __init__(self, session: Session, chosen: Selection) -> None:
        self._session = session
        self._chosen = chosen
        self._cases = public_ids(session, CaseRow, chosen.cases)
        self._environments = public_ids(session, EnvironmentRow, chosen.environments)
        self._sources = public_ids(session, SourceRow, chosen.sources)
        self._recorded = _by_key(
            session, SourceRow.id, self._sources, SourceRow.kind, SourceRow.recorded_at
        )
        runs = public_ids(session, RunRow, chosen.runs.keys())
        began = _by_key(session, RunRow.id, runs, RunRow.started_at)
        self._runs = dict(sorted(runs.items(), key=lambda one: (began[one[0]], one[1])))

    def _rows(self, row_class: Any, keys: Iterable[int]) -> Iterator[Any]:
        """Yield rows in the order of their keys given, some of them in memory at a time."""
        for some in batched(list(keys)):
            rows = self._session.scalars(select(row_class).where(row_class.id.in_(some)))
            by_key = {row.id: row for row in rows}
            yield from (by_key[key] for key in some)
            self._session.expunge_all()

    def experiments(self) -> Iterator[bytes]:
        keys = public_ids(self._session, ExperimentRow, self._chosen.experiments)
        for row in self._rows(ExperimentRow, keys):
            plain = {"name": row.name, "question": row.question, "text": row.text}
            yield line_of({"id": row.public_id, **plain}, resolved=row.resolved_json)

    def environments(self) -> Iterator[bytes]:
        for row in self._rows(EnvironmentRow, self._environments):
            yield line_of({"id": row.public_id}, facts=row.facts_json)

    def cases(self) -> Iterator[bytes]:
        for row in self._rows(CaseRow, self._cases_by_first_use()):
            yield line_of({"id": row.public_id}, factors=row.factors_json)

    def _cases_by_first_use(self) -> list[int]:
        """Return the cases as they came up in trials and sources; lists show the newest first."""
        never = (_LATEST, "", 0)
        first: dict[int | None, tuple[datetime, str, int]] = {}
        for some in batched(sorted(self._cases)):
            began = select(TrialRow.case_id, func.min(TrialRow.started_at))
            began = began.where(TrialRow.case_id.in_(some)).group_by(TrialRow.case_id)
            for key, started_at in self._session.execute(began):
                first[key] = (started_at, "", 0)
            told = select(EntryRow.case_id, EntryRow.source_id, EntryRow.position)
            for row in self._session.execute(told.where(EntryRow.case_id.in_(some))):
                if row.source_id in self._sources:
                    use = (*self._source_order(row.source_id), row.position)
                    first[row.case_id] = min(first.get(row.case_id, never), use)
        return sorted(self._cases, key=lambda key: (first.get(key, never), self._cases[key]))

    def runs(self) -> Iterator[bytes]:
        experiments = public_ids(self._session, ExperimentRow, self._chosen.experiments)
        for row in self._rows(RunRow, self._runs):
            yield run_line(self._session, row, experiments[row.experiment_id])

    def trials(self) -> Iterator[bytes]:
        for run, run_id in self._runs.items():
            chosen = self._chosen.runs[run]
            where = [TrialRow.run_id == run, TrialRow.status != "running"]
            if chosen is not None and len(chosen) <= _LARGEST_IN:
                where.append(TrialRow.case_id.in_(sorted(chosen)))
            names = Names({run: run_id}, self._cases, self._environments)
            for case, _, line in trial_lines(self._session, where, names):
                if chosen is None or case in chosen:
                    yield line

    def texts(self) -> Iterator[Member]:
        hashes = set(_by_key(self._session, SourceRow.id, self._sources, SourceRow.sha256).values())
        for digest in sorted(hashes):
            yield f"{TEXTS}{digest}", self._text(digest)

    def _text(self, digest: str) -> Iterator[bytes]:
        packed = self._session.scalars(
            select(TextRow.bytes_zlib).where(TextRow.sha256 == digest)
        ).one()
        yield zlib.decompress(packed)

    def sources(self) -> Iterator[bytes]:
        for row in self._rows(SourceRow, self._ordered_sources()):
            yield source_line(row)

    def _ordered_sources(self) -> list[int]:
        """Return the keys of the sources: founding tables first, imports as they were recorded."""
        return sorted(self._sources, key=self._source_order)

    def _source_order(self, key: int) -> tuple[datetime, str]:
        kind, recorded_at = self._recorded[key]
        return (_EARLIEST if kind == "historic" else recorded_at, self._sources[key])

    def entries(self) -> Iterator[bytes]:
        for source in self._ordered_sources():
            columns = (EntryRow.position, EntryRow.public_id, EntryRow.id)
            found = self._session.execute(select(*columns).where(EntryRow.source_id == source))
            keys = [row.id for row in sorted(found, key=lambda row: (row.position, row.public_id))]
            lines = entry_lines(self._session, keys, self._sources[source], self._cases)
            yield from (line for _, line in lines)

    def reports(self) -> Iterator[bytes]:
        keys = public_ids(self._session, ReportRow, self._chosen.reports)
        made = _by_key(self._session, ReportRow.id, keys, ReportRow.created_at)
        for row in self._rows(ReportRow, sorted(keys, key=lambda key: (made[key], keys[key]))):
            plain = {"title": row.title, "slug": row.slug, "query": row.query}
            yield line_of(
                {"id": row.public_id, "created_at": utc_text(row.created_at), **plain},
                content=row.content.decode(),
                inputs=zlib.decompress(row.inputs_zlib).decode(),
            )

    def errata(self) -> Iterator[bytes]:
        rows = self._session.scalars(select(ErratumRow)).all()
        told = [row for row in rows if self._holds(row.object_kind, row.object_id)]
        for row in sorted(told, key=lambda row: (row.written_at, row.public_id)):
            yield line_of(
                {
                    "id": row.public_id,
                    **{name: getattr(row, name) for name in ERRATUM_FIELDS},
                    "written_at": utc_text(row.written_at),
                }
            )

    def _holds(self, kind: str, public_id: str) -> bool:
        """Tell whether the bundle holds what an erratum is about; there are few errata."""

        def first(*columns: Any) -> Any:
            chosen = select(*columns).where(columns[-1] == public_id)
            row = self._session.execute(chosen).one_or_none()
            return (None,) * len(columns) if row is None else row

        if kind == "trial":
            run, case, _ = first(TrialRow.run_id, TrialRow.case_id, TrialRow.public_id)
            chosen = self._chosen.runs.get(run, frozenset())
            return chosen is None or case in chosen
        if kind == "entry":
            return first(EntryRow.source_id, EntryRow.public_id)[0] in self._chosen.sources
        if kind == "run":
            return public_id in self._runs.values()
        if kind == "source":
            return public_id in self._sources.values()
        return first(ReportRow.id, ReportRow.public_id)[0] in self._chosen.reports

    def measurements(self) -> Iterator[bytes]:
        for run, run_id in self._runs.items():
            chosen = self._chosen.runs[run]
            for case, line in measurement_lines(self._session, run, run_id, self._cases):
                if chosen is None or case in chosen:
                    yield line

    def links(self) -> Iterator[bytes]:
        if not self._chosen.is_all:
            return
        rows = self._session.scalars(select(LinkRow)).all()
        for row in sorted(rows, key=lambda row: (row.created_at, row.public_id)):
            plain = {"id": row.public_id, "path": row.path, "query": row.query}
            yield line_of({**plain, "created_at": utc_text(row.created_at)})

    def claims(self) -> Iterator[bytes]:
        names = self._environments
        rows = select(ClaimRow)
        if not self._chosen.is_all:
            rows = rows.where(ClaimRow.environment_id.in_(sorted(names)))
        for row in sorted(self._session.scalars(rows), key=lambda row: row.public_id):
            plain = {name: getattr(row, name) for name in CLAIM_FIELDS}
            environment = None if row.environment_id is None else names[row.environment_id]
            yield line_of(
                {"id": row.public_id, "environment": environment, **plain},
                details=row.details_json,
            )


def _by_key(session: Session, key: Any, keys: Iterable[int], *columns: Any) -> dict[int, Any]:
    """Return key -> the value of one column, or a tuple of several, of some rows."""
    found: dict[int, Any] = {}
    for some in batched(sorted(keys)):
        for first, *rest in session.execute(select(key, *columns).where(key.in_(some))):
            found[first] = rest[0] if len(rest) == 1 else tuple(rest)
    return found


ERRATUM_FIELDS = (
    *("kind", "object_kind", "object_id", "metric", "method"),
    *("old_value", "new_value", "reason", "written_by", "successor"),
)
CLAIM_FIELDS = (
    *("subject_kind", "subject", "capability", "value", "state", "kernel"),
    *("source_kind", "place", "dated"),
)
SOURCE_FIELDS = (
    *("kind", "name", "title", "document", "author", "dated"),
    *("first_line", "last_line", "sha256", "form"),
)
ENTRY_FIELDS = ("position", "name", "kind", "first_line", "last_line", "left_out")
FIGURE_FIELDS = (
    *("metric", "method", "value", "low", "high", "sd", "spread", "n", "unit", "stated"),
    *("other_low", "other_high", "is_inferred", "reason", "left_out"),
)
TRIAL_FIELDS = (
    *("plan_key", "repetition", "attempt", "block", "position"),
    *("status", "reason", "window_ns"),
)


def run_line(session: Session, row: RunRow, experiment_id: str) -> bytes:
    """Return the line of a run, with its remarks and its whole plan."""
    notes = session.execute(
        select(NoteRow.text, NoteRow.written_at).where(NoteRow.run_id == row.id)
    )
    cases = session.execute(
        select(PlannedCaseRow.position, PlannedCaseRow.plan_key, PlannedCaseRow.factors_json)
        .where(PlannedCaseRow.run_id == row.id)
        .order_by(PlannedCaseRow.position)
    )
    places = session.execute(
        select(
            PlannedTrialRow.position,
            PlannedTrialRow.plan_key,
            PlannedTrialRow.block,
            PlannedTrialRow.repetition,
        )
        .where(PlannedTrialRow.run_id == row.id)
        .order_by(PlannedTrialRow.position)
    )
    planned = [f'[{one.position},"{one.plan_key}",{one.factors_json}]' for one in cases]
    return line_of(
        {
            "id": row.public_id,
            "experiment": experiment_id,
            "started_at": utc_text(row.started_at),
            "ended_at": utc_text(row.ended_at),
            "zcdb_version": row.zcdb_version,
            "seed": row.seed,
            "outcome": row.outcome,
            "notes": sorted([utc_text(note.written_at), note.text] for note in notes),
            "planned_trials": [list(place) for place in places],
        },
        planned_cases=f"[{','.join(planned)}]",
        readings=row.readings_json,
    )


@dataclass(frozen=True, slots=True)
class Names:
    """Key -> public id of what trials refer to."""

    runs: Mapping[int, str]
    cases: Mapping[int, str]
    environments: Mapping[int, str]


def trial_lines(
    session: Session, where: Collection[Any], names: Names
) -> Iterator[tuple[int, str, bytes]]:
    """Yield (key of its case, id, line) of each trial that fits, in the order of the plan."""
    table = (
        select(
            *(TrialRow.id, TrialRow.public_id, TrialRow.run_id, TrialRow.case_id),
            *(TrialRow.started_at, TrialRow.ended_at),
            *(TrialRow.sender_environment_id, TrialRow.receiver_environment_id),
            *(getattr(TrialRow, name) for name in TRIAL_FIELDS),
            *(TrialDetailRow.counts_json, TrialDetailRow.reasons_json, SampleRow.columns_zlib),
            ExclusionRow.reason.label("excluded_reason"),
            *(ExclusionRow.excluded_by, ExclusionRow.excluded_at),
        )
        .outerjoin(TrialDetailRow, TrialDetailRow.trial_id == TrialRow.id)
        .outerjoin(SampleRow, SampleRow.trial_id == TrialRow.id)
        .outerjoin(ExclusionRow, ExclusionRow.trial_id == TrialRow.id)
        .where(*where)
        .order_by(TrialRow.position, TrialRow.attempt)
        .execution_options(yield_per=_ROWS_AT_ONCE)
    )
    for rows in session.execute(table).partitions():
        flags = _flags(session, FlagRow, FlagRow.trial_id, [row.id for row in rows])
        for row in rows:
            # A trial of a case that was not chosen has no name, and its line is not wanted.
            if row.case_id in names.cases:
                line = _trial_line(row, flags.get(row.id, []), names)
                yield row.case_id, row.public_id, line


def _flags(
    session: Session, row_class: Any, owner: Any, keys: Collection[int]
) -> dict[int, list[list[str]]]:
    """Return key -> [code, detail] of each of its flags, in their order."""
    found: dict[int, list[list[str]]] = defaultdict(list)
    asked = select(owner, row_class.code, row_class.detail).where(owner.in_(keys))
    for key, code, detail in session.execute(asked.order_by(owner, row_class.position)):
        found[key].append([code, detail])
    return found


def _trial_line(row: Any, flags: list[list[str]], names: Names) -> bytes:
    excluded = None
    if row.excluded_at is not None:
        at = utc_text(row.excluded_at)
        excluded = {"reason": row.excluded_reason, "by": row.excluded_by, "at": at}
    ends = {
        "sender_environment": row.sender_environment_id,
        "receiver_environment": row.receiver_environment_id,
    }
    return line_of(
        {
            "id": row.public_id,
            "run": names.runs[row.run_id],
            "case": names.cases[row.case_id],
            "started_at": utc_text(row.started_at),
            "ended_at": utc_text(row.ended_at),
            "excluded": excluded,
            "flags": flags,
            **{end: key and names.environments[key] for end, key in ends.items()},
            **{name: getattr(row, name) for name in TRIAL_FIELDS},
        },
        counts=row.counts_json or "null",
        reasons=row.reasons_json or "null",
        samples=zlib.decompress(row.columns_zlib).decode() if row.columns_zlib else "null",
    )


def source_line(row: SourceRow) -> bytes:
    """Return the line of a source.

    Every database records the founding tables by itself, so when it did is no content.
    """
    recorded_at = None if row.kind == "historic" else utc_text(row.recorded_at)
    plain = {name: getattr(row, name) for name in SOURCE_FIELDS}
    return line_of(
        {"id": row.public_id, "recorded_at": recorded_at, **plain}, details=row.details_json
    )


def entry_lines(
    session: Session, keys: Collection[int], source_id: str, cases: Mapping[int, str]
) -> Iterator[tuple[str, bytes]]:
    """Yield (id, line) of entries of one source, in the order of their keys given."""
    for some in batched(list(keys)):
        flags = _flags(session, EntryFlagRow, EntryFlagRow.entry_id, some)
        figures: dict[int, list[str]] = defaultdict(list)
        columns = [getattr(PublishedRow, name) for name in FIGURE_FIELDS]
        asked = select(PublishedRow.entry_id, PublishedRow.details_json, *columns)
        asked = asked.where(PublishedRow.entry_id.in_(some))
        for row in session.execute(asked.order_by(PublishedRow.entry_id, PublishedRow.position)):
            plain = {name: getattr(row, name) for name in FIGURE_FIELDS}
            line = line_of(plain, details=row.details_json)
            figures[row.entry_id].append(line.decode().rstrip("\n"))
        found = session.scalars(select(EntryRow).where(EntryRow.id.in_(some)))
        entries = {row.id: row for row in found}
        for key in some:
            entry = entries[key]
            case = None if entry.case_id is None else cases[entry.case_id]
            plain = {name: getattr(entry, name) for name in ENTRY_FIELDS}
            yield (
                entry.public_id,
                line_of(
                    {
                        "id": entry.public_id,
                        "source": source_id,
                        "case": case,
                        "flags": flags.get(key, []),
                        **plain,
                    },
                    details=entry.details_json,
                    figures=f"[{','.join(figures[key])}]",
                ),
            )
        session.expunge_all()


def measurement_lines(
    session: Session, run: int, run_id: str, cases: Mapping[int, str]
) -> Iterator[tuple[int, bytes]]:
    """Yield (key of the case, line) for each case that a run measured, ordered by the case's id.

    A line holds every metric of the case: [metric, method, values by repetition, reason].
    """
    columns = (
        *(MeasurementRow.case_id, MeasurementRow.metric, MeasurementRow.method),
        *(MeasurementRow.values_f64, MeasurementRow.reason),
    )
    asked = select(MeasurementRow.case_id).where(MeasurementRow.run_id == run).distinct()
    measured = [key for key in session.scalars(asked) if key in cases]
    for some in batched(sorted(measured, key=lambda key: cases[key])):
        found: dict[int, list[Any]] = defaultdict(list)
        rows = select(*columns).where(
            MeasurementRow.run_id == run, MeasurementRow.case_id.in_(some)
        )
        for row in session.execute(rows):
            values = blobs.decode(row.values_f64)
            found[row.case_id].append([row.metric, row.method, values, row.reason])
        for key in some:
            measurements = sorted(found[key], key=lambda one: (one[0], one[1]))
            yield key, line_of({"run": run_id, "case": cases[key], "measured": measurements})
