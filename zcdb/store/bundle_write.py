"""Writing what a bundle holds into a database, under the same ids.

    writer = BundleWriter(session)
    writer.add("trials.ndjson", lines)      in the order of `bundle_read.members`
    writer.finish()                         what is derived of what came in; counts

What is there already is compared: the same changes nothing, a run that has grown since is
continued, and the same id with other content is refused by its name.  Every id that is the hash
of its content is checked.  The transaction is the caller's, so that a refusal leaves nothing.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from sqlalchemy import exc, select, update
from sqlalchemy.orm import Session

from zcdb.errors import StoreError
from zcdb.factors import FACTORS, case_id
from zcdb.ids import Json, canonical_json, content_id
from zcdb.metrics import METRICS
from zcdb.records import trial_id
from zcdb.store.bundle_checks import (
    Conflict,
    Line,
    check_flags,
    check_id,
    flag_rows,
    keys_of,
    moment,
)
from zcdb.store.bundle_read import TRIAL_FIELDS, Names, public_ids, run_line, trial_lines
from zcdb.store.bundle_values import add_measurements, merge_measurements
from zcdb.store.bundle_words import WordWriter
from zcdb.store.cases import ensure_cases
from zcdb.store.models import (
    CaseRow,
    EnvironmentRow,
    ExclusionRow,
    ExperimentRow,
    FlagRow,
    NoteRow,
    PlannedCaseRow,
    PlannedTrialRow,
    RunRow,
    SampleRow,
    TrialDetailRow,
    TrialRow,
)
from zcdb.store.statistics import refresh_measurements, refresh_summaries
from zcdb.store.upsert import insert_new
from zcdb.store.uses import refresh_uses

_LINES_AT_ONCE = 500


class BundleWriter:
    """Writes the members of one bundle in their order.

    Attributes:
        new: kind of thing -> how many the database did not have.
        known: kind of thing -> how many it had.
    """

    def __init__(self, session: Session) -> None:
        self.new: Counter[str] = Counter()
        self.known: Counter[str] = Counter()
        self._session = session
        self._experiments: dict[str, int] = {}
        self._environments: dict[str, int] = {}
        self._cases: dict[str, int] = {}
        self._runs: dict[str, int] = {}
        self._new_runs: set[int] = set()
        self._touched: set[int] = set()
        """Cases whose summaries have to be made anew."""
        self._excluded: dict[tuple[int, int], set[int]] = defaultdict(set)
        """(run, case) -> repetitions that this bundle brings as excluded."""
        self._excluded_later: set[int] = set()
        """Cases of stored trials that this bundle excludes."""
        self._words = WordWriter(session, self.new, self.known)
        self._writers: dict[str, Callable[[Sequence[Line]], None]] = {
            "errata": self._words.errata,
            "experiments": self._add_experiments,
            "environments": self._add_environments,
            "cases": self._add_cases,
            "runs": self._add_runs,
            "trials": self._add_trials,
            "measurements": self._add_measurements,
            "sources": self._words.sources,
            "entries": lambda lines: self._words.entries(lines, self._cases),
            "reports": self._words.reports,
            "links": self._words.links,
            "claims": lambda lines: self._words.claims(lines, self._environments),
        }

    def add(self, member: str, lines: Iterable[bytes]) -> None:
        """Write one member.

        Args:
            member: its name, as `bundle_read.members` gives it, but no text.
            lines: its lines.

        Raises:
            StoreError: if it is not what its ids say, or contradicts what is stored.
            KeyError, TypeError, ValueError: if a line is not what a bundle holds.
        """
        write = self._writers[member.removesuffix(".ndjson")]
        try:
            for some in _pieces(lines):
                write([json.loads(line) for line in some])
        except exc.IntegrityError as error:
            raise StoreError(f"{member} contradicts itself: {error.orig}") from error

    def add_text(self, digest: str, text: bytes) -> None:
        """Write a text that results were read from; its hash was checked."""
        self._words.text(digest, text)

    def finish(self) -> None:
        """Make what is derived of what came in, and of nothing else."""
        for key in sorted(self._excluded_later):
            refresh_measurements(self._session, key)
        self._touched |= self._words.apply_errata()
        refresh_summaries(self._session, *self._touched)
        refresh_uses(self._session, self._runs.values())

    def _count(self, kind: str, total: int, new: int) -> None:
        self.new[kind] += new
        self.known[kind] += total - new

    # -- what runs refer to ----------------------------------------------------------------------

    def _add_experiments(self, lines: Sequence[Line]) -> None:
        for line in lines:
            hashed: Json = {"name": line["name"], "resolved": line["resolved"]}
            check_id("experiment", line["id"], content_id("experiment", hashed))
        known = keys_of(self._session, ExperimentRow, (line["id"] for line in lines))
        rows = [
            {
                "public_id": line["id"],
                **{name: line[name] for name in ("name", "question", "text")},
                "resolved_json": canonical_json(line["resolved"]),
            }
            for line in lines
            if line["id"] not in known
        ]
        insert_new(self._session, ExperimentRow, rows)
        self._count("experiments", len(lines), len(rows))
        self._experiments |= keys_of(self._session, ExperimentRow, (line["id"] for line in lines))

    def _add_environments(self, lines: Sequence[Line]) -> None:
        for line in lines:
            check_id("environment", line["id"], content_id("environment", line["facts"]))
        ids = [line["id"] for line in lines]
        known = keys_of(self._session, EnvironmentRow, ids)
        rows = [
            {"public_id": line["id"], "facts_json": canonical_json(line["facts"])}
            for line in lines
            if line["id"] not in known
        ]
        insert_new(self._session, EnvironmentRow, rows)
        self._count("environments", len(lines), len(rows))
        self._environments |= keys_of(self._session, EnvironmentRow, ids)

    def _add_cases(self, lines: Sequence[Line]) -> None:
        for line in lines:
            unknown = sorted(name for name in line["factors"] if name not in FACTORS)
            if unknown:
                raise StoreError(
                    f"case {line['id']} has the factor {unknown[0]!r}, which this zcdb does not"
                    " know",
                    hint="Upgrade zcdb.",
                )
            check_id("case", line["id"], case_id(line["factors"]))
        ids = [line["id"] for line in lines]
        known = keys_of(self._session, CaseRow, ids)
        keys = ensure_cases(self._session, [line["factors"] for line in lines])
        self._cases |= dict(zip(ids, keys, strict=True))
        self._count("cases", len(lines), len(lines) - len(known))

    # -- runs ------------------------------------------------------------------------------------

    def _add_runs(self, lines: Sequence[Line]) -> None:
        known = keys_of(self._session, RunRow, (line["id"] for line in lines))
        for line in lines:
            key = known.get(line["id"])
            if key is None:
                self._new_run(line)
            else:
                self._runs[line["id"]] = key
                self._known_run(key, line)
        self._count("runs", len(lines), len(lines) - len(known))

    def _new_run(self, line: Line) -> None:
        row = RunRow(
            public_id=line["id"],
            experiment_id=self._experiments[line["experiment"]],
            started_at=moment(line["started_at"]),
            zcdb_version=line["zcdb_version"],
            seed=line["seed"],
            **_progress(line),
        )
        self._session.add(row)
        self._session.flush()
        key = row.id
        self._session.expunge(row)
        self._runs[line["id"]] = key
        self._new_runs.add(key)
        self._add_plan(key, line["planned_cases"], line["planned_trials"])
        self._add_notes(key, line["notes"])

    def _known_run(self, key: int, line: Line) -> None:
        """Compare a run with the stored one, and continue the one of them that is shorter."""
        row = self._session.get_one(RunRow, key, with_for_update=True)
        (experiment,) = public_ids(self._session, ExperimentRow, [row.experiment_id]).values()
        stored = json.loads(run_line(self._session, row, experiment))
        same = ("experiment", "started_at", "zcdb_version", "seed")
        differs = [name for name in same if stored[name] != line[name]]
        growing = ("planned_cases", "planned_trials", "readings")
        differs += [name for name in growing if not _is_continued(stored[name], line[name])]
        ended = ("outcome", "ended_at")
        stops = len(line["readings"]) - len(stored["readings"])
        # Each time work on a run stops it gets a reading; resumed, it reads as running again.
        if not stops and "running" not in (stored["outcome"], line["outcome"]):
            differs += [name for name in ended if stored[name] != line[name]]
        if differs:
            raise Conflict(f"run {line['id']}", differs)
        if stops > 0:
            changes = update(RunRow).where(RunRow.id == key).values(_progress(line))
            self._session.execute(changes)
        self._add_plan(
            key,
            line["planned_cases"][len(stored["planned_cases"]) :],
            line["planned_trials"][len(stored["planned_trials"]) :],
        )
        self._add_notes(key, [note for note in line["notes"] if note not in stored["notes"]])
        self._session.expunge_all()

    def _add_plan(self, run: int, cases: Sequence[Any], places: Sequence[Any]) -> None:
        planned = [
            {
                "run_id": run,
                "position": position,
                "plan_key": plan_key,
                "factors_json": canonical_json(factors),
            }
            for position, plan_key, factors in cases
        ]
        names = ("position", "plan_key", "block", "repetition")
        trials = [{"run_id": run, **dict(zip(names, place, strict=True))} for place in places]
        insert_new(self._session, PlannedCaseRow, planned)
        insert_new(self._session, PlannedTrialRow, trials)

    def _add_notes(self, run: int, notes: Sequence[Any]) -> None:
        rows = [{"run_id": run, "text": text, "written_at": moment(at)} for at, text in notes]
        insert_new(self._session, NoteRow, rows)

    # -- trials ----------------------------------------------------------------------------------

    def _add_trials(self, lines: Sequence[Line]) -> None:
        for line in lines:
            named = (line["run"], line["plan_key"], line["repetition"], line["attempt"])
            check_id("trial", line["id"], trial_id(*named))
            check_flags(f"trial {line['id']}", line["flags"])
        ids = [line["id"] for line in lines]
        known = keys_of(self._session, TrialRow, ids)
        new = [line for line in lines if line["id"] not in known]
        insert_new(self._session, TrialRow, [self._trial_row(line) for line in new])
        keys = keys_of(self._session, TrialRow, (line["id"] for line in new))
        self._add_details(new, keys)
        if known:
            self._known_trials([line for line in lines if line["id"] in known], known)
        self._count("trials", len(lines), len(new))

    def _trial_row(self, line: Line) -> Line:
        ends = {
            f"{end}_environment_id": None
            if line[f"{end}_environment"] is None
            else self._environments[line[f"{end}_environment"]]
            for end in ("sender", "receiver")
        }
        return {
            "public_id": line["id"],
            "run_id": self._runs[line["run"]],
            "case_id": self._cases[line["case"]],
            "started_at": moment(line["started_at"]),
            "ended_at": moment(line["ended_at"]),
            **{name: line[name] for name in TRIAL_FIELDS},
            **ends,
        }

    def _add_details(self, lines: Sequence[Line], keys: dict[str, int]) -> None:
        details = [
            {
                "trial_id": keys[line["id"]],
                "counts_json": canonical_json(line["counts"]),
                "reasons_json": canonical_json(line["reasons"]),
            }
            for line in lines
            if line["counts"] is not None
        ]
        samples = [_sample_row(keys[line["id"]], line["samples"]) for line in lines]
        insert_new(self._session, TrialDetailRow, details)
        insert_new(self._session, SampleRow, [row for row in samples if row])
        insert_new(self._session, FlagRow, list(flag_rows("trial_id", lines, keys)))
        self._exclude(lines, keys)

    def _exclude(self, lines: Sequence[Line], keys: dict[str, int]) -> None:
        rows = []
        for line in lines:
            if (excluded := line["excluded"]) is None:
                continue
            rows.append(
                {
                    "trial_id": keys[line["id"]],
                    "reason": excluded["reason"],
                    "excluded_by": excluded["by"],
                    "excluded_at": moment(excluded["at"]),
                }
            )
            if line["status"] == "ok":
                place = (self._runs[line["run"]], self._cases[line["case"]])
                self._excluded[place].add(line["repetition"])
        insert_new(self._session, ExclusionRow, rows)

    def _known_trials(self, lines: Sequence[Line], keys: dict[str, int]) -> None:
        """Compare trials with the stored ones; one that ran then may have ended since."""
        stored = self._stored_trials([keys[line["id"]] for line in lines])
        ended, excluded = [], []
        for line in lines:
            before = stored[line["id"]]
            if before["status"] == "running":
                ended.append(line)
                continue
            if line["excluded"] is not None and before["excluded"] is None:
                excluded.append(line)
            differs = [name for name in line if name != "excluded" and line[name] != before[name]]
            if differs:
                raise Conflict(f"trial {line['id']}", differs)
        for line in ended:
            values = self._trial_row(line)
            self._session.execute(
                update(TrialRow).where(TrialRow.id == keys[line["id"]]).values(values)
            )
        self._add_details(ended, keys)
        self._exclude(excluded, keys)
        again = {self._cases[line["case"]] for line in excluded}
        self._excluded_later |= again
        self._touched |= again

    def _stored_trials(self, keys: Sequence[int]) -> dict[str, Line]:
        columns = (
            *(TrialRow.run_id, TrialRow.case_id),
            *(TrialRow.sender_environment_id, TrialRow.receiver_environment_id),
        )
        used = self._session.execute(select(*columns).where(TrialRow.id.in_(keys))).all()
        ends = {end for row in used for end in row[2:] if end is not None}
        names = Names(
            public_ids(self._session, RunRow, {row.run_id for row in used}),
            public_ids(self._session, CaseRow, {row.case_id for row in used}),
            public_ids(self._session, EnvironmentRow, ends),
        )
        lines = trial_lines(self._session, [TrialRow.id.in_(keys)], names)
        return {public_id: json.loads(line) for _, public_id, line in lines}

    # -- measurements ----------------------------------------------------------------------------

    def _add_measurements(self, lines: Sequence[Line]) -> None:
        for line in lines:
            for metric, *_ in line["measured"]:
                if metric not in METRICS:
                    raise StoreError(
                        f"run {line['run']} measured {metric!r}, which this zcdb does not know",
                        hint="Upgrade zcdb.",
                    )
        by_run: dict[int, dict[int, Any]] = defaultdict(dict)
        for line in lines:
            by_run[self._runs[line["run"]]][self._cases[line["case"]]] = line["measured"]
        for run, cases in by_run.items():
            if run in self._new_runs:
                excluded = {case: self._excluded.get((run, case), set()) for case in cases}
                add_measurements(self._session, run, cases, excluded)
                self._touched |= cases.keys()
            else:
                self._touched |= merge_measurements(self._session, run, cases)


def _pieces(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    rest = iter(lines)
    while piece := list(islice(rest, _LINES_AT_ONCE)):
        yield piece


def _progress(line: Line) -> Line:
    """Return how far a run has come, as columns of its row."""
    return {
        "ended_at": moment(line["ended_at"]),
        "outcome": line["outcome"],
        "readings_json": canonical_json(line["readings"]),
    }


def _is_continued(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Tell whether one of two lists begins with the other."""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def _sample_row(key: int, columns: dict[str, list[Any]] | None) -> Line | None:
    if not columns:
        return None
    packed = zlib.compress(canonical_json(columns).encode(), level=6)
    return {"trial_id": key, "samples": len(next(iter(columns.values()))), "columns_zlib": packed}
