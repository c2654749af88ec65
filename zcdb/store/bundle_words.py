"""What others published and what was said about results, from a bundle into a database.

Sources with their texts, entries and figures; errata, reports, short addresses, claims.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from zcdb.ids import canonical_json, content_id
from zcdb.store.bundle_checks import (
    Conflict,
    Line,
    check_flags,
    check_id,
    flag_rows,
    keys_of,
    moment,
)
from zcdb.store.bundle_read import (
    CLAIM_FIELDS,
    ENTRY_FIELDS,
    ERRATUM_FIELDS,
    FIGURE_FIELDS,
    SOURCE_FIELDS,
    entry_lines,
    public_ids,
)
from zcdb.store.claims import Claim
from zcdb.store.errata import apply_again
from zcdb.store.models import (
    CaseRow,
    ClaimRow,
    EntryFlagRow,
    EntryRow,
    ErratumRow,
    LinkRow,
    PublishedRow,
    ReportRow,
    SourceRow,
    TextRow,
)
from zcdb.store.reports import link_id, report_id
from zcdb.store.upsert import batched, insert_new


class WordWriter:
    """Writes the members that are not about runs.

    Args:
        session: where to write.
        new, known: counts of things by kind, which it adds to.
    """

    def __init__(self, session: Session, new: Counter[str], known: Counter[str]) -> None:
        self._session = session
        self._new = new
        self._known = known
        self._sources: dict[str, int] = {}
        self._read_otherwise: set[str] = set()
        """Sources that the database has read in another way: it keeps its own entries."""
        self._new_errata: list[Line] = []
        self._touched: set[int] = set()

    def _missing(self, row_class: Any, kind: str, lines: Sequence[Line]) -> list[Line]:
        """Return the lines of what the database has not, and count both sorts."""
        known = keys_of(self._session, row_class, (line["id"] for line in lines))
        missing = [line for line in lines if line["id"] not in known]
        self._new[kind] += len(missing)
        self._known[kind] += len(lines) - len(missing)
        return missing

    # -- errata ----------------------------------------------------------------------------------

    def errata(self, lines: Sequence[Line]) -> None:
        """Write errata; `apply_errata` does what they say once everything else is there."""
        rows = []
        for line in lines:
            plain = {name: line[name] for name in ERRATUM_FIELDS}
            written_at = datetime.fromisoformat(line["written_at"])
            hashed = {**plain, "written_at": written_at.isoformat()}
            check_id("erratum", line["id"], content_id("erratum", hashed))
            rows.append({"id": line["id"], **plain, "written_at": written_at})
        new = self._missing(ErratumRow, "errata", rows)
        self._new_errata += new
        insert_new(self._session, ErratumRow, [_with_public_id(row) for row in new])

    def apply_errata(self) -> set[int]:
        """Do what new errata say of sources and entries; return the cases that this is about."""
        about = {one["object_id"] for one in self._new_errata}
        for object_id in sorted(about):
            apply_again(self._session, object_id, [])
        for column, row_class in ((EntryRow.id, EntryRow), (EntryRow.source_id, SourceRow)):
            keys = keys_of(self._session, row_class, about).values()
            for some in batched(sorted(keys)):
                cases = self._session.scalars(select(EntryRow.case_id).where(column.in_(some)))
                self._touched |= {case for case in cases if case is not None}
        return self._touched

    # -- sources ---------------------------------------------------------------------------------

    def text(self, digest: str, text: bytes) -> None:
        """Write a text by its SHA-256."""
        packed = zlib.compress(text, level=6)
        row = {"sha256": digest, "size_bytes": len(text), "bytes_zlib": packed}
        insert_new(self._session, TextRow, [row])

    def sources(self, lines: Sequence[Line]) -> None:
        """Write sources; of a known one that was read in another way the stored reading stays."""
        for row in self._stored_sources(line["id"] for line in lines):
            line = next(line for line in lines if line["id"] == row.public_id)
            if row.sha256 != line["sha256"] and row.kind != "historic":
                raise Conflict(f"source {row.public_id}", ["sha256"])
            if (row.sha256, row.form) != (line["sha256"], line["form"]):
                self._read_otherwise.add(row.public_id)
        now = datetime.now(UTC)
        rows = [
            {
                "public_id": line["id"],
                "recorded_at": moment(line["recorded_at"]) or now,
                "details_json": canonical_json(line["details"]),
                **{name: line[name] for name in SOURCE_FIELDS},
            }
            for line in self._missing(SourceRow, "sources", lines)
        ]
        insert_new(self._session, SourceRow, rows)
        self._sources |= keys_of(self._session, SourceRow, (line["id"] for line in lines))

    def _stored_sources(self, ids: Iterable[str]) -> Sequence[Any]:
        columns = (SourceRow.public_id, SourceRow.kind, SourceRow.sha256, SourceRow.form)
        return self._session.execute(
            select(*columns).where(SourceRow.public_id.in_(list(ids)))
        ).all()

    def entries(self, lines: Sequence[Line], cases: Mapping[str, int]) -> None:
        """Write entries with their flags and figures."""
        lines = [line for line in lines if line["source"] not in self._read_otherwise]
        for line in lines:
            check_flags(f"entry {line['id']}", line["flags"])
        missing = self._missing(EntryRow, "entries", lines)
        new = {line["id"] for line in missing}
        self._compare_entries([line for line in lines if line["id"] not in new])
        rows = [
            {
                "public_id": line["id"],
                "source_id": self._sources[line["source"]],
                "case_id": None if line["case"] is None else cases[line["case"]],
                "details_json": canonical_json(line["details"]),
                **{name: line[name] for name in ENTRY_FIELDS},
            }
            for line in missing
        ]
        insert_new(self._session, EntryRow, rows)
        keys = keys_of(self._session, EntryRow, new)
        insert_new(self._session, EntryFlagRow, list(flag_rows("entry_id", missing, keys)))
        case_of = {row["public_id"]: row["case_id"] for row in rows}
        figures = [
            {
                "entry_id": keys[line["id"]],
                "position": place,
                "case_id": case_of[line["id"]],
                "details_json": canonical_json(figure["details"]),
                **{name: figure[name] for name in FIGURE_FIELDS},
            }
            for line in missing
            for place, figure in enumerate(line["figures"])
        ]
        insert_new(self._session, PublishedRow, figures)
        self._touched |= {case for case in case_of.values() if case is not None}

    def _compare_entries(self, lines: Sequence[Line]) -> None:
        """Refuse an entry that differs from the stored one, unless errata say why."""
        stored = self._stored_entries(lines)
        differing = [line for line in lines if line != stored[line["id"]]]
        if not differing:
            return
        ids = {line[name] for line in differing for name in ("id", "source")}
        about = select(ErratumRow.object_id).where(ErratumRow.object_id.in_(ids))
        explained = set(self._session.scalars(about))
        for line in differing:
            if not explained & {line["id"], line["source"]}:
                before = stored[line["id"]]
                differs = [name for name in line if line[name] != before[name]]
                raise Conflict(f"entry {line['id']}", differs)

    def _stored_entries(self, lines: Sequence[Line]) -> dict[str, Line]:
        by_source: dict[str, list[str]] = defaultdict(list)
        for line in lines:
            by_source[line["source"]].append(line["id"])
        found: dict[str, Line] = {}
        for source, ids in by_source.items():
            keys = list(keys_of(self._session, EntryRow, ids).values())
            used = self._session.scalars(select(EntryRow.case_id).where(EntryRow.id.in_(keys)))
            names = public_ids(self._session, CaseRow, {case for case in used if case is not None})
            for public_id, text in entry_lines(self._session, keys, source, names):
                found[public_id] = json.loads(text)
        return found

    # -- reports, short addresses, claims --------------------------------------------------------

    def reports(self, lines: Sequence[Line]) -> None:
        """Write frozen reports: their bytes come back from the JSON, and their id proves it."""
        rows = []
        for line in self._missing(ReportRow, "reports", lines):
            content = canonical_json(line["content"]).encode()
            check_id("report", line["id"], report_id(content))
            rows.append(
                {
                    "public_id": line["id"],
                    **{name: line[name] for name in ("title", "slug", "query")},
                    "created_at": moment(line["created_at"]),
                    "inputs_zlib": zlib.compress(canonical_json(line["inputs"]).encode(), 9),
                    "content": content,
                }
            )
        insert_new(self._session, ReportRow, rows)

    def links(self, lines: Sequence[Line]) -> None:
        """Write short addresses."""
        rows = []
        for line in self._missing(LinkRow, "links", lines):
            check_id("short address", line["id"], link_id(line["path"], line["query"]))
            plain = {name: line[name] for name in ("path", "query")}
            at = moment(line["created_at"])
            rows.append({"public_id": line["id"], **plain, "created_at": at})
        insert_new(self._session, LinkRow, rows)

    def claims(self, lines: Sequence[Line], environments: Mapping[str, int]) -> None:
        """Write claims about network cards and drivers."""
        rows = []
        for line in self._missing(ClaimRow, "claims", lines):
            plain = {name: line[name] for name in CLAIM_FIELDS}
            check_id("claim", line["id"], Claim(**plain).id)
            machine = None if line["environment"] is None else environments[line["environment"]]
            rows.append(
                {
                    "public_id": line["id"],
                    "environment_id": machine,
                    "details_json": canonical_json(line["details"]),
                    **plain,
                }
            )
        insert_new(self._session, ClaimRow, rows)


def _with_public_id(row: Line) -> Line:
    return {"public_id" if name == "id" else name: value for name, value in row.items()}
