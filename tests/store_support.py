"""Records with sound defaults for tests, and a whole database of them.

`demo_database(path)` writes two runs of the quickstart's shape through
`zcdb.store.write`: the older one finished, the newer one with every kind of
ending in it (ok, failed, unsupported, interrupted and tried again).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import event

from zcdb import units
from zcdb.factors import Factors, case_id, plan_key
from zcdb.ids import Json
from zcdb.metrics import CPU_METHODS
from zcdb.records import (
    ENDS,
    Environment,
    ExperimentText,
    Flag,
    MetricValue,
    PlannedCase,
    PlannedTrial,
    Run,
    SampleSeries,
    TrialEnd,
    TrialStart,
)
from zcdb.store import write
from zcdb.store.session import Database, open_database

DEMO_STARTED_AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
REPETITIONS = 5
WINDOW_NS = 1_000_000_000
APIS = ("write", "read_write", "sendfile", "msg_zerocopy")
SIZES = (4096, 65536)
COSTS = {
    # api -> (sender us/KB, receiver us/KB, Gbit/s) at 64 KiB; the shape of a loopback, not a claim
    "write": (0.181, 0.212, 21.0),
    "read_write": (0.262, 0.214, 17.5),
    "sendfile": (0.094, 0.213, 24.5),
    "msg_zerocopy": (0.205, 0.215, 19.0),
}
UNSUPPORTED = {"api": "io_uring_send_zc", "message_size": 65536}
UNSUPPORTED_REASON = "io_uring is switched off on this kernel (kernel.io_uring_disabled = 2)"
OBSERVED = {
    "sender_kernel": "6.12.0",
    "receiver_kernel": "6.12.0",
    "sender_cpu": "Example CPU 3000",
    "receiver_cpu": "Example CPU 3000",
    "sender_nic": "loopback",
    "receiver_nic": "loopback",
}
NO_PERF = "this machine offers no hardware counters"


@dataclass(frozen=True)
class DemoIds:
    """Ids of what `demo_database` wrote."""

    experiment_name: str
    experiment_id: str
    run_id: str
    older_run_id: str
    case_ids: Mapping[tuple[str, int], str]
    baseline_case_id: str
    environment_id: str
    ok_trial_id: str
    copied_trial_id: str
    failed_trial_id: str
    unsupported_trial_id: str
    interrupted_trial_id: str
    retried_trial_id: str


def make_resolved(**changes: Json) -> dict[str, Json]:
    """Return an experiment's resolved form, of the quickstart's shape."""
    resolved: dict[str, Json] = {
        "name": "quickstart",
        "question": "Does sendfile cost less CPU than write here?",
        "factors": {"api": list(APIS), "message_size": list(SIZES)},
        "fixed": {"pinning": "separate"},
        "link": {"kind": "loopback"},
        "exclude": [],
        "measure": {
            "repetitions": REPETITIONS,
            "duration_ns": WINDOW_NS,
            "discard_ns": 300_000_000,
            "sample_ns": 100_000_000,
            "bracket_ns": 500_000_000,
            "seed": 2001,
        },
        "compare": {
            "baseline": {"api": "write"},
            "metrics": ["service_demand_sender", "throughput", "service_demand_receiver"],
            "matters": 0.02,
        },
    }
    return resolved | changes


def make_experiment(**changes: Json) -> ExperimentText:
    """Return an experiment; `changes` go into its resolved form."""
    resolved = make_resolved(**changes)
    return ExperimentText(
        name=str(resolved["name"]),
        question=str(resolved["question"]),
        text=f'name = "{resolved["name"]}"\nquestion = "{resolved["question"]}"\n',
        resolved=resolved,
    )


def make_case(**factors: str | int | bool) -> PlannedCase:
    """Return a planned case; write at 64 KiB unless said otherwise."""
    declared = {"api": "write", "message_size": 65536, **factors}
    return PlannedCase(plan_key(declared), declared)


def make_run(
    number: int = 1,
    *,
    cases: tuple[PlannedCase, ...] | None = None,
    repetitions: int = REPETITIONS,
    seed: int = 2001,
    note: str = "",
    **resolved: Json,
) -> Run:
    """Return a run with its plan in randomised complete blocks; `number` makes its id and day."""
    if cases is None:
        cases = tuple(make_case(api=api, message_size=size) for size in SIZES for api in APIS)
    shuffle = random.Random(seed).shuffle
    plan = []
    for block in range(repetitions):
        order = list(cases)
        shuffle(order)
        plan += [
            PlannedTrial(case.plan_key, block, len(plan) + place, repetition=block)
            for place, case in enumerate(order)
        ]
    return Run(
        id=f"0195{number:04x}-0000-7000-8000-{number:012x}",
        experiment=make_experiment(**resolved),
        started_at=DEMO_STARTED_AT + timedelta(days=number),
        zcdb_version="0.1.0",
        seed=seed,
        cases=cases,
        plan=plan,
        note=note,
    )


def make_environment(**facts: Json) -> Environment:
    """Return the facts of a host."""
    plain: dict[str, Json] = {
        "kernel_release": "6.12.0",
        "machine": "x86_64",
        "cpu_model": "Example CPU 3000",
        "cpus": 2,
        "memory_bytes": 8 * 2**30,
        "distribution": "Debian GNU/Linux 13",
        "clock_source": "tsc",
        "hostname_hash": "6f1ed002ab559585",
    }
    return Environment(plain | facts)


def make_start(
    run: Run,
    place: PlannedTrial,
    *,
    attempt: int = 0,
    environment: Environment | None = None,
    observed: Factors = OBSERVED,
) -> TrialStart:
    """Return the start of a trial at a place of a run's plan."""
    factors = {case.plan_key: case.factors for case in run.cases}[place.plan_key]
    return TrialStart(
        run_id=run.id,
        plan_key=place.plan_key,
        repetition=place.repetition,
        attempt=attempt,
        block=place.block,
        position=place.position,
        case_factors={**factors, **observed},
        started_at=run.started_at + timedelta(seconds=4 * place.position + 2 * attempt),
        environment_ids=dict.fromkeys(ENDS, environment.id) if environment else {},
    )


def make_end(start: TrialStart, **changes: object) -> TrialEnd:
    """Return a trial that is ok, with one throughput unless `measurements` says otherwise."""
    plain = TrialEnd(
        trial_id=start.id,
        status="ok",
        ended_at=start.started_at + timedelta(seconds=1.8),
        window_ns=WINDOW_NS,
        counts={"receiver": {"payload_bytes": 2_500_000_000}},
        measurements=(MetricValue("throughput", "", 20e9),),
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def make_samples(payload_bytes: int, noise: random.Random, discarded: int = 3) -> SampleSeries:
    """Return samples of 100 ms, the first ones discarded."""
    samples = discarded + 10
    starts = [place * 100_000_000 for place in range(samples)]
    return SampleSeries(
        {
            "start_ns": starts,
            "end_ns": [start + 100_000_000 for start in starts],
            "kept": [int(place >= discarded) for place in range(samples)],
            "payload_bytes": [int(payload_bytes / 10 * noise.gauss(1, 0.02)) for _ in starts],
            "cpu0_utilisation": [min(1.0, noise.gauss(0.93, 0.02)) for _ in starts],
            "cpu1_utilisation": [min(1.0, noise.gauss(0.97, 0.01)) for _ in starts],
        }
    )


def _measured(
    api: str, size: int, noise: random.Random
) -> tuple[dict[str, int], list[MetricValue]]:
    """Return raw counts and every metric by every method for a trial of the demo."""
    sender_cost, receiver_cost, gbit = COSTS[api]
    small = 2.1 if size < 65536 else 1.0
    rate = gbit * 1e9 / small * noise.gauss(1, 0.012)
    payload_bytes = int(rate / 8 * WINDOW_NS / 1e9)
    cpu_ns = {}
    for end, cost in (("sender", sender_cost), ("receiver", receiver_cost)):
        exact = cost * small * 1000 * payload_bytes / units.KB_BYTES
        for method, factor in (
            ("soak", 1.0),
            ("soak_work", 1.04),
            ("procstat", 0.98),
            ("rusage", 0.86),
        ):
            cpu_ns[f"{end}_{method}"] = int(exact * factor * noise.gauss(1, 0.01))
    values = [
        MetricValue("throughput", "", units.throughput_bps(payload_bytes, WINDOW_NS)),
        MetricValue("call_rate", "", payload_bytes / size),
        MetricValue("sent_throughput", "", rate * 1.001),
        MetricValue("retransmits", "", 0.0),
    ]
    if api == "msg_zerocopy":
        values.append(MetricValue("copied_share", "", 1.0))
    else:
        values.append(MetricValue("copied_share", "", None, f"{api} has no completions"))
    for end in ENDS:
        values += _cpu_values(end, cpu_ns, payload_bytes)
    counts = {"payload_bytes": payload_bytes, "sender_calls": payload_bytes // size, **cpu_ns}
    return counts, values


def _cpu_values(end: str, cpu_ns: Mapping[str, int], payload_bytes: int) -> list[MetricValue]:
    values = []
    for method in CPU_METHODS:
        cpu = cpu_ns.get(f"{end}_{method}")
        for name, value in (
            (
                "service_demand",
                None if cpu is None else units.service_demand_us_per_kb(cpu, payload_bytes),
            ),
            ("utilisation", None if cpu is None else cpu / WINDOW_NS),
        ):
            reason = NO_PERF if value is None else None
            values.append(MetricValue(f"{name}_{end}", method, value, reason))
    gap = cpu_ns[f"{end}_soak_work"] - cpu_ns[f"{end}_soak"]
    values.append(MetricValue(f"contention_{end}", "soak_work", gap / WINDOW_NS))
    return values


def demo_end(start: TrialStart, noise: random.Random) -> TrialEnd:
    """Return how a trial of the demo ends, by its factors."""
    api, size = str(start.case_factors["api"]), int(start.case_factors["message_size"])
    if api == UNSUPPORTED["api"]:
        return make_end(
            start,
            status="unsupported",
            reason=UNSUPPORTED_REASON,
            window_ns=None,
            counts={},
            measurements=(),
        )
    counts, values = _measured(api, size, noise)
    flags = [Flag("ends-share-host", "sender on CPU 0, receiver on CPU 1")]
    if api == "msg_zerocopy":
        flags.append(Flag("copied", "31250 of 31250 completions say so"))
    if api == "read_write" and start.repetition == 1:
        flags.append(Flag("steal", "1.4 % of CPU 0 in 2 of 10 samples"))
    return make_end(
        start,
        counts=counts,
        measurements=tuple(values),
        flags=tuple(flags),
        samples=make_samples(counts["payload_bytes"], noise),
    )


def run_trials(db: Database, run: Run, environment: Environment, *, seed: int = 1) -> None:
    """Write every trial of a run as it would end on a quiet machine."""
    noise = random.Random(seed)
    for place in run.plan:
        start = make_start(run, place, environment=environment)
        write.start_trial(db, start)
        write.end_trial(db, demo_end(start, noise))


def demo_database(path: Path | str) -> DemoIds:
    """Write the demo into a new database at `path` (or a URL) and return its ids."""
    db = open_database(path, with_history=False)
    try:
        return write_demo(db)
    finally:
        db.dispose()


def write_demo(db: Database) -> DemoIds:
    """Write the demo into an open, empty database."""
    environment = make_environment()
    write.add_environment(db, environment)
    older = make_run(1, note="on the old firmware")
    write.add_run(db, older)
    run_trials(db, older, environment, seed=1)
    took = timedelta(minutes=3)
    readings = {"soaker_effect_ratio": 0.006, "steal_ratio": 0.0, "load_before_cpus": 0.02}
    write.finish_run(db, older.id, "finished", readings, ended_at=older.started_at + took)

    cases = (*older.cases, make_case(**UNSUPPORTED))
    newer = make_run(2, cases=cases, factors={"api": [*APIS, "io_uring_send_zc"]})
    write.add_run(db, newer)
    special = _newer_trials(db, newer, environment)
    readings = {"soaker_effect_ratio": 0.004, "steal_ratio": 0.001, "load_before_cpus": 0.03}
    write.finish_run(db, newer.id, "finished", readings, ended_at=newer.started_at + took)
    write.set_note(db, newer.id, "after the firmware update")
    case_ids = {
        (str(case.factors["api"]), int(case.factors["message_size"])): case_id(
            {**case.factors, **OBSERVED}
        )
        for case in cases
    }
    return DemoIds(
        experiment_name=newer.experiment.name,
        experiment_id=newer.experiment.id,
        run_id=newer.id,
        older_run_id=older.id,
        case_ids=case_ids,
        baseline_case_id=case_ids["write", 65536],
        environment_id=environment.id,
        **special,
    )


def _newer_trials(db: Database, run: Run, environment: Environment) -> dict[str, str]:
    """Write the newer run's trials, with one failed and one interrupted, and return their ids."""
    noise = random.Random(2)
    ids: dict[str, str] = {}
    for place in run.plan:
        start = make_start(run, place, environment=environment)
        api, size = start.case_factors["api"], start.case_factors["message_size"]
        write.start_trial(db, start)
        end = demo_end(start, noise)
        if (api, size, place.repetition) == ("sendfile", 4096, 2):
            ended_at = start.started_at + timedelta(seconds=1)
            write.fail_interrupted_trials(db, run.id, ended_at=ended_at)
            ids["interrupted_trial_id"] = start.id
            start = make_start(run, place, attempt=1, environment=environment)
            write.start_trial(db, start)
            end = replace(end, trial_id=start.id)
            ids["retried_trial_id"] = start.id
        if (api, size, place.repetition) == ("read_write", 4096, 3):
            reason = "the receiver stopped reading: no byte for 5 s"
            end = replace(end, status="failed", reason=reason, measurements=(), window_ns=None)
            ids["failed_trial_id"] = start.id
        write.end_trial(db, end)
        if place.repetition == 0:
            if (api, size) == ("write", 65536):
                ids["ok_trial_id"] = start.id
            elif (api, size) == ("msg_zerocopy", 65536):
                ids["copied_trial_id"] = start.id
            elif end.status == "unsupported":
                ids["unsupported_trial_id"] = start.id
    return ids


class StatementCount:
    """Counts the SQL statements that a database executes inside a `with`."""

    def __init__(self, db: Database) -> None:
        self._engine = db.engine
        self.statements: list[str] = []

    def __enter__(self) -> StatementCount:
        event.listen(self._engine, "before_cursor_execute", self._count)
        return self

    def __exit__(self, *exception: object) -> None:
        event.remove(self._engine, "before_cursor_execute", self._count)

    def _count(self, _connection: object, _cursor: object, statement: str, *_: object) -> None:
        # Transaction control and settings are no statements of a page.
        if not statement.startswith(("BEGIN", "PRAGMA", "SET", "SELECT pg_current_snapshot")):
            self.statements.append(statement)

    def __len__(self) -> int:
        return len(self.statements)
