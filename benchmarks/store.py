"""How long it takes to store a trial, and to read each page of a database.

Writes runs of the quickstart's size with all metrics, methods and samples into
a new SQLite file and prints the time of each trial's two transactions, of the
first run and of the last one: the summaries grow with the runs.

    python benchmarks/store.py [--runs 20] [--database FILE|URL]
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import store_support as support

from zcdb.records import Run
from zcdb.report.verdicts import verdict_table
from zcdb.store import queries, write
from zcdb.store.session import Database, open_database


def stored_ms(db: Database, run: Run) -> tuple[list[float], list[float]]:
    """Write a run and return what storing each of its trials took: wall and CPU milliseconds."""
    environment = support.make_environment()
    write.add_environment(db, environment)
    write.add_run(db, run)
    noise = random.Random(run.id)
    wall, cpu = [], []
    for place in run.plan:
        start = support.make_start(run, place, environment=environment)
        end = support.demo_end(start, noise)
        began, began_cpu = time.perf_counter(), time.process_time()
        write.start_trial(db, start)
        write.end_trial(db, end)
        wall.append((time.perf_counter() - began) * 1000)
        cpu.append((time.process_time() - began_cpu) * 1000)
    write.finish_run(db, run.id, "finished", {})
    return wall, cpu


def read_ms(read: Callable[[], object], times: int = 20) -> list[float]:
    """Return the milliseconds of each of `times` reads, after one that warms up."""
    read()
    took = []
    for _ in range(times):
        began = time.perf_counter()
        read()
        took.append((time.perf_counter() - began) * 1000)
    return took


def row(name: str, took: Sequence[float]) -> str:
    """Return a line: median, 95th percentile, largest."""
    p95 = statistics.quantiles(took, n=20)[-1]
    return f"{name:<34} {statistics.median(took):8.2f} {p95:8.2f} {max(took):8.2f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--database")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        db = open_database(arguments.database or Path(folder) / "benchmark.sqlite")
        took = [stored_ms(db, support.make_run(number)) for number in range(1, arguments.runs + 1)]
        print(f"{'milliseconds':<34} {'median':>8} {'p95':>8} {'max':>8}")
        for number, (wall, cpu) in ((1, took[0]), (len(took), took[-1])):
            print(row(f"storing a trial, run {number}", wall))
            print(row(f"storing a trial, run {number}, CPU", cpu))
        last = queries.run_list(db, limit=1).runs[0]
        page = queries.run_page(db, last.id)
        trial = page.plan[0].attempts[0]
        for name, read in {
            "home": lambda: queries.home(db),
            "experiment": lambda: queries.experiment_page(db, last.experiment_name),
            "run": lambda: queries.run_page(db, last.id),
            "case": lambda: queries.case_page(db, trial.case_id),
            "trial": lambda: queries.trial_page(db, trial.id),
            "verdict table": lambda: verdict_table(db, last.id),
        }.items():
            print(row(f"reading: {name}", read_ms(read)))
        db.dispose()


if __name__ == "__main__":
    main()
