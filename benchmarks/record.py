"""How fast the record takes results in, gives them out and compares them.

    python benchmarks/record.py import [--results 10000]
    python benchmarks/record.py bundle [--trials 100000]
    python benchmarks/record.py compare [--trials 1000000]

`import` reads the texts that `importers.py` makes, and records them.  `bundle` generates trials
with all metrics and samples, imports them, exports them and imports that into another database;
each step in a process of its own, with its peak memory.  `compare` compares along the api in a
database that `generate.py` makes: 10,000 pairs of cases at a million trials.  All is seeded.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import store_support as support
from generate import generate
from importers import iperf3_document, netperf_tables

from zcdb.factors import Factors, case_id
from zcdb.importers import read
from zcdb.importers.record import source_of
from zcdb.records import Run
from zcdb.report import asking, bundles, compare
from zcdb.store.bundle_read import Member, line_of, utc_text
from zcdb.store.session import Database, opened
from zcdb.store.sources import add_source

SEED = 20260110
REPETITIONS = 25
CASES_A_RUN = len(support.APIS) * len(support.SIZES)


# -- a bundle of generated trials ---------------------------------------------------------------


def generated(trials: int) -> Iterator[Member]:
    """Yield the members of a bundle of about so many trials.

    Every run measures the same cases in another context.
    """
    count = max(1, trials // (CASES_A_RUN * REPETITIONS))
    runs = [support.make_run(1 + number, repetitions=REPETITIONS) for number in range(count)]
    yield "experiments.ndjson", _experiment_lines(runs[0])
    environment = support.make_environment()
    facts = {"id": environment.id, "facts": environment.facts}
    yield "environments.ndjson", iter([line_of(facts)])
    yield "cases.ndjson", _case_lines(runs)
    yield "runs.ndjson", map(_run_line, runs)
    measured: dict[tuple[str, str], dict[tuple[str, str], list[float | None]]] = {}
    yield "trials.ndjson", _trial_lines(runs, environment.id, measured)
    yield "measurements.ndjson", _measurement_lines(measured)


def observed(run: Run) -> Factors:
    """Return the context of a run: another kernel in each."""
    kernel = f"6.{int(run.id[4:8], 16)}.0"
    return {**support.OBSERVED, "sender_kernel": kernel, "receiver_kernel": kernel}


def _experiment_lines(run: Run) -> Iterator[bytes]:
    one = run.experiment
    yield line_of(
        {
            "id": one.id,
            "name": one.name,
            "question": one.question,
            "text": one.text,
            "resolved": one.resolved,
        }
    )


def _case_lines(runs: list[Run]) -> Iterator[bytes]:
    for run in runs:
        for case in run.cases:
            factors = {**case.factors, **observed(run)}
            yield line_of({"id": case_id(factors), "factors": factors})


def _run_line(run: Run) -> bytes:
    return line_of(
        {
            "id": run.id,
            "experiment": run.experiment.id,
            "started_at": utc_text(run.started_at),
            "ended_at": utc_text(run.started_at + timedelta(hours=1)),
            "zcdb_version": run.zcdb_version,
            "seed": run.seed,
            "outcome": "finished",
            "notes": [],
            "readings": [{"steal_ratio": 0.0}],
            "planned_cases": [
                [place, case.plan_key, case.factors] for place, case in enumerate(run.cases)
            ],
            "planned_trials": [
                [one.position, one.plan_key, one.block, one.repetition] for one in run.plan
            ],
        }
    )


def _trial_lines(
    runs: list[Run],
    environment_id: str,
    measured: dict[tuple[str, str], dict[tuple[str, str], list[float | None]]],
) -> Iterator[bytes]:
    noise = random.Random(SEED)
    for run in runs:
        context = observed(run)
        for place in run.plan:
            start = support.make_start(run, place, observed=context)
            end = support.demo_end(start, noise)
            case = case_id(start.case_factors)
            values = measured.setdefault((run.id, case), {})
            for one in end.measurements:
                values.setdefault((one.metric, one.method), []).append(one.value)
            plain = {
                "id": start.id,
                "run": run.id,
                "case": case,
                "plan_key": start.plan_key,
                "repetition": start.repetition,
                "attempt": 0,
                "block": start.block,
                "position": start.position,
                "status": end.status,
                "reason": end.reason,
                "window_ns": end.window_ns,
                "started_at": utc_text(start.started_at),
                "ended_at": utc_text(end.ended_at),
                "sender_environment": environment_id,
                "receiver_environment": environment_id,
                "excluded": None,
                "counts": end.counts,
                "reasons": [],
                "flags": [[flag.code, flag.detail] for flag in end.flags],
                "samples": end.samples and end.samples.columns,
            }
            yield line_of(plain)


def _measurement_lines(
    measured: dict[tuple[str, str], dict[tuple[str, str], list[float | None]]],
) -> Iterator[bytes]:
    for (run, case), values in measured.items():
        rows = [
            [metric, method, numbers, support.NO_PERF if numbers[0] is None else None]
            for (metric, method), numbers in sorted(values.items())
        ]
        yield line_of({"run": run, "case": case, "measured": rows})


# -- measuring -----------------------------------------------------------------------------------


def peak_mb() -> float:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_process(step: str, *arguments: str) -> None:
    """Run one step in a process of its own and print what it says."""
    done = subprocess.run(
        [sys.executable, __file__, step, *arguments], check=True, capture_output=True, text=True
    )
    said = json.loads(done.stdout)
    print(
        f"{said['what']:<32} {said['seconds']:7.1f} s wall {said['cpu']:7.1f} s CPU"
        f" {said['peak_mb']:7.0f} MB peak",
        flush=True,
    )


def step(what: str, work: Callable[[], object]) -> None:
    """Do one step and print what it took as JSON."""
    began, began_cpu = time.perf_counter(), time.process_time()
    work()
    took = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - began_cpu}
    print(json.dumps({"what": what, **took, "peak_mb": peak_mb()}))


def do_generate(path: str, trials: str) -> None:
    step("generating", lambda: bundles.write_bundle(Path(path), generated(int(trials))))


def do_take(path: str, database: str) -> None:
    with opened(database, with_history=False) as db:
        step("importing the bundle", lambda: bundles.import_bundle(db, Path(path)))


def do_give(path: str, database: str) -> None:
    with opened(database, with_history=False) as db:
        step("exporting everything", lambda: bundles.export(db, "all", Path(path)))


def bundle(trials: int, first: str | None, second: str | None) -> None:
    """Print what generating, importing, exporting and importing again take."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        one, two = first or str(folder / "one.db"), second or str(folder / "two.db")
        made, given = folder / "made.zip", folder / "given.zip"
        in_process("do-generate", str(made), str(trials))
        in_process("do-take", str(made), one)
        in_process("do-give", str(given), one)
        in_process("do-take", str(given), two)
        again = folder / "again.zip"
        in_process("do-give", str(again), two)
        same = "identical" if again.read_bytes() == given.read_bytes() else "DIFFERENT"
        print(f"{given.stat().st_size / 1e6:.1f} MB; out of the other database: {same}")


def compare_pairs(trials: int) -> None:
    """Print what comparing all pairs takes, first and repeated."""
    with (
        tempfile.TemporaryDirectory() as folder,
        opened(Path(folder) / "one.db", with_history=False) as db,
    ):
        generate(db, trials)
        took = [_compared_s(db) for _ in range(8)]
    rest = statistics.median(took[1:])
    print(f"comparing: first {took[0] * 1000:.0f} ms, then {rest * 1000:.0f} ms (median of 7)")


def _compared_s(db: Database) -> float:
    question = asking.ask_factor("api", "write", ["sendfile"], {})
    began = time.perf_counter()
    report = compare.compare(db, question)
    took = time.perf_counter() - began
    print(f"{report.found} pairs in {took * 1000:.0f} ms", flush=True)
    return took


def best_s(work: Callable[[], object], times: int = 3) -> float:
    """Return the seconds that the fastest of some goes took."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return min(took)


def importing(results: int) -> None:
    """Print MB/s of iperf 3 JSON and results/s of netperf, read alone and recorded."""
    for intervals, times in ((3600, 1), (10, 100)):
        text = iperf3_document(intervals, 1)

        def read_all(text: bytes = text, times: int = times) -> None:
            for _ in range(times):
                read(text, "iperf3.json")

        rate = times * len(text) / best_s(read_all) / 1e6
        print(f"iperf 3 JSON of {len(text) / 1000:.0f} KB: {rate:.1f} MB/s read")
    table = netperf_tables(results)
    took = best_s(lambda: read(table, "netperf.txt"))
    print(f"netperf: {results / took:.0f} results/s read")
    took = min(_recorded_s(table) for _ in range(3))
    print(f"netperf: {results / took:.0f} results/s read and recorded")


def _recorded_s(table: bytes) -> float:
    """Return the seconds of reading a text and recording it in a new database, made before."""
    with (
        tempfile.TemporaryDirectory() as folder,
        opened(Path(folder) / "lab.db", with_history=False) as db,
    ):
        return best_s(lambda: add_source(db, source_of(read(table, "netperf.txt"), table)), times=1)


STEPS = {"do-generate": do_generate, "do-take": do_take, "do-give": do_give}


def main() -> None:
    """Measure what the command line names."""
    if len(sys.argv) > 1 and sys.argv[1] in STEPS:
        STEPS[sys.argv[1]](*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="what", required=True)
    one = commands.add_parser("import")
    one.add_argument("--results", type=int, default=10_000)
    two = commands.add_parser("bundle")
    two.add_argument("--trials", type=int, default=100_000)
    two.add_argument("--database", help="file or URL of the first database")
    two.add_argument("--other", help="file or URL of the other database")
    three = commands.add_parser("compare")
    three.add_argument("--trials", type=int, default=1_000_000)
    asked = parser.parse_args()
    if asked.what == "import":
        importing(asked.results)
    elif asked.what == "bundle":
        bundle(asked.trials, asked.database, asked.other)
    else:
        compare_pairs(asked.trials)


if __name__ == "__main__":
    main()
