"""A database of many trials for measuring the site: seeded, plausible, bulk-loaded.

    python benchmarks/generate.py 1000000 site.db [--seed 2001]
    python benchmarks/generate.py 10000000 large.db

Writes the rows that zcdb's own writer would have written, many at a time: the
ids, the derived rows of cases, the values as arrays and every statistic come
from the store's own functions, and `zcdb db verify` finds nothing to say about
the result.  The machines and the figures (`plausible.py`) are made up; now and then
a trial failed, and some kernels lack an API.

Cases grow more slowly than trials, as they do where people repeat themselves:
2,000 at 10^4 trials, 40,000 at 10^6, 100,000 at 10^7.  There are no samples.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from plausible import (
    CASES_OF_A_CONTEXT,
    CASES_OF_A_RUN,
    NO_COMPLETIONS,
    OFFLOADS,
    REPETITIONS,
    SEED,
    WINDOW_NS,
    Context,
    contexts,
    declared_cases,
    experiment,
    measured,
)
from sqlalchemy import func, insert, select, text
from sqlalchemy.orm import DeclarativeBase, Session

from zcdb.factors import Factors, case_id, plan_key
from zcdb.ids import canonical_json
from zcdb.records import ExperimentText, trial_id
from zcdb.store import values as blobs
from zcdb.store.cases import derived_rows, factors_json
from zcdb.store.models import (
    CaseFactorRow,
    CaseRow,
    EnvironmentRow,
    EnvironmentUseRow,
    ExperimentRow,
    FlagRow,
    MeasurementRow,
    PairingRow,
    PlannedCaseRow,
    PlannedTrialRow,
    RunRow,
    SummaryRow,
    TrialDetailRow,
    TrialRow,
)
from zcdb.store.moments import Moments
from zcdb.store.session import Database, opened

T = TypeVar("T")

STARTED_AT = datetime(2024, 1, 1, 6, 0, tzinfo=UTC)
TRIAL_SECONDS = 4
BATCH = 20_000
"""Rows of one table in one statement."""

FAILED = "the receiver stopped reading: no byte for 5 s"
UNSUPPORTED = "the kernel has no MSG_ZEROCOPY on this socket"


@dataclass(slots=True)
class Tables:
    """Rows on their way into the database, a batch of each table at a time."""

    waiting: dict[type[DeclarativeBase], list[dict[str, Any]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    keys: dict[type[DeclarativeBase], int] = field(default_factory=lambda: defaultdict(int))

    def key(self, row_class: type[DeclarativeBase]) -> int:
        """Return the next key of a table."""
        self.keys[row_class] += 1
        return self.keys[row_class]

    def add(self, row_class: type[DeclarativeBase], row: dict[str, Any]) -> None:
        """Take a row; every statement names the same columns, so rows of a table are alike."""
        self.waiting[row_class].append(row)

    def flush(self, session: Session, more_than: int = 0) -> None:
        """Write the tables that have more rows waiting; in the order of the references."""
        if all(len(rows) <= more_than for rows in self.waiting.values()):
            return
        for row_class in ORDER:
            for rows in pieces(self.waiting.pop(row_class, []), BATCH):
                session.execute(insert(row_class), rows)


ORDER: tuple[type[DeclarativeBase], ...] = (
    EnvironmentRow,
    ExperimentRow,
    CaseRow,
    CaseFactorRow,
    PairingRow,
    RunRow,
    EnvironmentUseRow,
    PlannedCaseRow,
    PlannedTrialRow,
    TrialRow,
    TrialDetailRow,
    FlagRow,
    MeasurementRow,
    SummaryRow,
)


def pieces(rows: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the rows in pieces of at most `size`."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def cases_wanted(trials: int) -> int:
    """Return how many cases a database of so many trials has."""
    return max(1, min(trials // REPETITIONS, round(40_000 * (trials / 1e6) ** 0.4)))


@dataclass(slots=True)
class Known:
    """A case in the database, and what its runs said so far."""

    key: int
    moments: dict[tuple[str, str], Moments] = field(default_factory=dict)
    runs: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))


def generate(db: Database, trials: int, seed: int = SEED) -> dict[str, int]:
    """Fill an empty database and return how many rows of each table it has.

    Raises:
        ValueError: if there is something in it: the founding tables come afterwards.
    """
    with db.reading() as session:
        if session.scalar(select(func.count()).select_from(CaseRow)):
            raise ValueError(f"{db.name} is not empty")
    noise = random.Random(seed)
    machines = list(contexts(max(1, round(cases_wanted(trials) / CASES_OF_A_CONTEXT))))
    runs = max(1, trials // (CASES_OF_A_RUN * REPETITIONS))
    tables = Tables()
    for name, offloads in OFFLOADS:
        tables.add(ExperimentRow, _experiment_row(tables, experiment(name, offloads)))
    # The runs of a machine follow each other, so that its summaries are held only meanwhile and
    # a transaction stays small; their dates are spread all the same.
    for context in machines:
        count = runs // len(machines) + (context.number < runs % len(machines))
        with db.writing() as session:
            _fill_context(tables, session, context, count, noise)
    if db.engine.dialect.name == "postgresql":
        _go_on_counting(db, tables)
    return {row.__tablename__: count for row, count in tables.keys.items()}


def _go_on_counting(db: Database, tables: Tables) -> None:
    """Let PostgreSQL give out keys after the ones that were written here."""
    with db.writing() as session:
        for row_class, last in tables.keys.items():
            table = row_class.__tablename__
            session.execute(
                text("SELECT setval(pg_get_serial_sequence(:name, 'id'), :last)"),
                {"name": table, "last": last},
            )


def _fill_context(
    tables: Tables, session: Session, context: Context, runs: int, noise: random.Random
) -> None:
    environment = tables.key(EnvironmentRow)
    facts = canonical_json(context.environment.facts)
    tables.add(
        EnvironmentRow,
        {"id": environment, "public_id": context.environment.id, "facts_json": facts},
    )
    matrices: dict[int, list[tuple[Factors, str, Known]]] = {}
    for number in range(runs):
        state = (context.number + number) % len(OFFLOADS)
        if state not in matrices:
            matrices[state] = [
                (case, plan_key(case), _add_case(tables, {**case, **context.observed}))
                for case in declared_cases(OFFLOADS[state][1])
            ]
        started_at = STARTED_AT + timedelta(minutes=17 * (context.number + number * 331))
        run = _Run(tables, context, started_at, environment, noise)
        run.fill(state + 1, matrices[state])
        tables.flush(session, more_than=BATCH)
    for known in (known for cases in matrices.values() for _, _, known in cases):
        for (metric, method), moments in known.moments.items():
            tables.add(
                SummaryRow,
                {
                    "case_id": known.key,
                    "metric": metric,
                    "method": method,
                    "runs": known.runs[metric, method],
                    "entries": 0,
                    "reason": None if moments.n else NO_COMPLETIONS,
                    **moments.columns(),
                },
            )
    tables.flush(session)


class _Run:
    """One run on its way into the tables."""

    def __init__(
        self,
        tables: Tables,
        context: Context,
        started_at: datetime,
        environment: int,
        noise: random.Random,
    ) -> None:
        self.tables = tables
        self.context = context
        self.environment = environment
        self.noise = noise
        self.started_at = started_at
        self.key = tables.key(RunRow)
        milliseconds = int(started_at.timestamp() * 1000)
        stamp = f"{milliseconds:012x}"
        self.public_id = f"{stamp[:8]}-{stamp[8:]}-7000-8000-{self.key:012x}"

    def fill(self, experiment: int, cases: Sequence[tuple[Factors, str, Known]]) -> None:
        """Write the run, its plan and its trials, all of whose blocks are in an order of their own.

        Args:
            experiment: its key.
            cases: factors, plan key and row of each.
        """
        tables, places = self.tables, len(cases) * REPETITIONS
        tables.add(
            RunRow,
            {
                "id": self.key,
                "public_id": self.public_id,
                "experiment_id": experiment,
                "started_at": self.started_at,
                "ended_at": self.started_at + timedelta(seconds=TRIAL_SECONDS * places),
                "zcdb_version": "0.1.0",
                "seed": SEED,
                "outcome": "finished",
                "readings_json": canonical_json([{"steal_ratio": 0.0}]),
            },
        )
        tables.add(
            EnvironmentUseRow,
            {
                "environment_id": self.environment,
                "run_id": self.key,
                "trials": places,
                "first_at": self.started_at,
                "last_at": self.started_at + timedelta(seconds=TRIAL_SECONDS * (places - 1)),
            },
        )
        for position, (factors, key, _) in enumerate(cases):
            tables.add(
                PlannedCaseRow,
                {
                    "run_id": self.key,
                    "plan_key": key,
                    "position": position,
                    "factors_json": factors_json(factors),
                },
            )
        order = [self.noise.sample(range(len(cases)), len(cases)) for _ in range(REPETITIONS)]
        position_of = {
            (case, block): block * len(cases) + place
            for block, shuffled in enumerate(order)
            for place, case in enumerate(shuffled)
        }
        boot = self.noise.gauss(1, 0.01)
        for number, (factors, key, known) in enumerate(cases):
            positions = [position_of[number, block] for block in range(REPETITIONS)]
            self._fill_case(factors, key, known, positions, boot)

    def _fill_case(
        self, factors: Factors, key: str, known: Known, positions: Sequence[int], boot: float
    ) -> None:
        unsupported = factors["api"] == "msg_zerocopy" and self.context.lacks_zero_copy
        payloads, series = measured(factors, self.context, boot, self.noise)
        kept = [not unsupported and self.noise.random() >= 0.002 for _ in positions]
        for repetition, position in enumerate(positions):
            status, reason = "ok", None
            if not kept[repetition]:
                status = "unsupported" if unsupported else "failed"
                reason = UNSUPPORTED if unsupported else FAILED
            self._add_trial(key, known.key, repetition, position, status, reason)
            self._add_details(payloads[repetition], factors, status)
        if any(kept):
            for name, values in series.items():
                self._add_measurement(
                    known,
                    name,
                    [
                        value if is_kept else None
                        for value, is_kept in zip(values, kept, strict=True)
                    ],
                )

    def _add_trial(
        self, key: str, case: int, repetition: int, position: int, status: str, reason: str | None
    ) -> None:
        started_at = self.started_at + timedelta(seconds=TRIAL_SECONDS * position)
        place = {"run_id": self.key, "plan_key": key, "position": position,
                 "block": repetition, "repetition": repetition}  # fmt: skip
        self.tables.add(PlannedTrialRow, place)
        self.tables.add(
            TrialRow,
            place
            | {
                "id": self.tables.key(TrialRow),
                "public_id": trial_id(self.public_id, key, repetition, 0),
                "case_id": case,
                "attempt": 0,
                "status": status,
                "reason": reason,
                "started_at": started_at,
                "ended_at": started_at + timedelta(seconds=TRIAL_SECONDS - 1),
                "window_ns": WINDOW_NS if status == "ok" else None,
                "sender_environment_id": self.environment,
                "receiver_environment_id": self.environment,
            },
        )

    def _add_details(self, payload: int, factors: Factors, status: str) -> None:
        trial = self.tables.keys[TrialRow]
        counts, reasons = {}, []
        if status == "ok":
            calls = payload // int(factors["message_size"])
            counts = {"payload_bytes": payload, "sender_calls": calls}
            if factors["api"] != "msg_zerocopy":
                reasons = [["copied_share", "", NO_COMPLETIONS]]
        self.tables.add(
            TrialDetailRow,
            {
                "trial_id": trial,
                "counts_json": canonical_json(counts),
                "reasons_json": canonical_json(reasons),
            },
        )
        if status == "ok" and self.noise.random() < 0.2:
            detail = "1.4 % of CPU 0 in 2 of 20 samples"
            self.tables.add(
                FlagRow, {"trial_id": trial, "position": 0, "code": "steal", "detail": detail}
            )

    def _add_measurement(
        self, known: Known, name: tuple[str, str], values: Sequence[float | None]
    ) -> None:
        metric, method = name
        statistics = blobs.statistics(values)
        # Values end with the last trial that was ok, as they do when they come one by one.
        last = max((at for at, value in enumerate(values) if value is not None), default=-1)
        of_run = Moments.of(statistics["n"], statistics["mean"], statistics["sd"])
        known.moments[name] = known.moments.get(name, Moments()).merged(of_run)
        known.runs[name] += statistics["n"] > 0
        self.tables.add(
            MeasurementRow,
            {
                "run_id": self.key,
                "case_id": known.key,
                "metric": metric,
                "method": method,
                "values_f64": blobs.encode(values[: last + 1] if last >= 0 else values),
                "reason": None if statistics["n"] else NO_COMPLETIONS,
                **statistics,
            },
        )


def _experiment_row(tables: Tables, experiment: ExperimentText) -> dict[str, Any]:
    return {
        "id": tables.key(ExperimentRow),
        "public_id": experiment.id,
        "name": experiment.name,
        "question": experiment.question,
        "text": experiment.text,
        "resolved_json": canonical_json(experiment.resolved),
    }


def _add_case(tables: Tables, factors: Factors) -> Known:
    key = tables.key(CaseRow)
    tables.add(
        CaseRow,
        {"id": key, "public_id": case_id(factors), "factors_json": factors_json(factors)},
    )
    facets, pairings = derived_rows(key, factors)
    for row_class, rows in ((CaseFactorRow, facets), (PairingRow, pairings)):
        for row in rows:
            tables.add(row_class, row)
    return Known(key)


def main() -> None:
    """Generate what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trials", type=int)
    parser.add_argument("database", help="a new file, or the URL of an empty database")
    parser.add_argument("--seed", type=int, default=SEED)
    asked = parser.parse_args()
    if "://" not in asked.database and Path(asked.database).exists():
        parser.error(f"{asked.database} exists already; name a new file")
    began = time.perf_counter()
    with opened(asked.database, with_history=False) as db:
        rows = generate(db, asked.trials, asked.seed)
    with opened(asked.database):
        pass  # the founding tables, as every database has them
    counts = ", ".join(f"{count} {name}" for name, count in sorted(rows.items()))
    print(f"{counts}; {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
