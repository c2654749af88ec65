"""How often the method is wrong: null comparisons, simulated and real, and a real difference.

    python benchmarks/method.py simulated              10,000 null comparisons on a scripted bench
    python benchmarks/method.py null                   200 real ones, about 14 minutes
    python benchmarks/method.py difference             a load of 5 % more CPU time, about 2 minutes

*simulated* walks real plans with the real runner and the real statistics over
values that have noise, a drift and a share in common within each block.
*null* runs `zcdb run` on loopback: eight twins of one case in every block,
windows of 0.3 s; four disjoint pairs of every five blocks are compared by each
of two metrics, and the alarms are reported as they came.  *difference* lets
the sender burn 5 % of its CPU time more before each call, for half of the
cases, and looks whether at most 15 repetitions find it.

`null` and `difference` want a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from zcdb.experiment import spec
from zcdb.experiment.plan import make_plan
from zcdb.factors import Factors, FactorValue
from zcdb.ids import Json
from zcdb.metrics import format_value
from zcdb.records import (
    End,
    Environment,
    MetricValue,
    Outcome,
    PlannedCase,
    PlannedTrial,
    Run,
    SampleSeries,
    TrialEnd,
    TrialStart,
)
from zcdb.runner.execute import Execution, Measured, Timing, execute
from zcdb.stats.aa import FalseAlarms, false_alarms
from zcdb.stats.compare import Comparison, compare_paired
from zcdb.store import queries
from zcdb.store.results import RunCase
from zcdb.store.session import open_database

SIMULATED = 10_000
BLOCKS = 5
"""Blocks of one group of comparisons, simulated and real."""

TWINS = 8
GROUPS = 25
METRICS = (("service_demand_sender", "soak"), ("throughput", ""))

NULL_FILE = f"""
name = "null-comparisons"
question = "How often are equal cases found to differ on this machine?"

[fixed]
api = "write"
message_size = "64K"

[factors]
twin = {list(range(TWINS))}

[measure]
repetitions = {BLOCKS * GROUPS}
duration = "300ms"
discard = "100ms"
sample = "50ms"
bracket = "100ms"
seed = 2001
"""
DIFFERENCE_FILE = """
name = "five-per-cent-more"
question = "Is a load of 5 % more CPU time of the sender found?"

[fixed]
api = "write"
message_size = "64K"

[factors]
call_work = [0, {work_ns}]

[measure]
repetitions = 15
duration = "1s"
discard = "200ms"
bracket = "300ms"
seed = 2001
aa = {aa}

[compare]
baseline = {{ call_work = 0 }}
metrics = ["service_demand_sender"]
"""
DIFFERENCE = 0.05


class SimulatedBench:
    """A bench whose values have noise, a drift over the run, and a part that a block shares."""

    def __init__(self, cases: int, seed: int) -> None:
        self._cases = cases
        self._generator = random.Random(seed)
        self._trials = 0
        self._of_block = 1.0

    def open(self) -> None:
        """Nothing to make ready."""

    def close(self) -> None:
        """Nothing to give back."""

    def recover(self) -> None:
        """Nothing ever fails."""

    def environments(self) -> Mapping[End, Environment]:
        """Return a machine without facts."""
        return {"sender": Environment({}), "receiver": Environment({})}

    def context(self) -> Mapping[str, FactorValue]:
        """Return no context."""
        return {}

    def unsupported(self, factors: Factors) -> str | None:
        """Everything can run."""
        return None

    def readings(self, cases: Sequence[Factors], timing: Timing) -> Mapping[str, Json]:
        """Return no readings."""
        return {}

    def final_readings(self) -> Mapping[str, Json]:
        """Say nothing more: nothing here changes by itself."""
        return {}

    def measure(self, factors: Factors, timing: Timing) -> Measured:
        """Return the next value."""
        if self._trials % self._cases == 0:
            self._of_block = self._generator.gauss(1, 0.03)
        self._trials += 1
        drift = 1 + 0.0005 * self._trials
        value = self._of_block * drift * self._generator.gauss(1, 0.01)
        samples = SampleSeries({"start_ns": [0], "end_ns": [1], "kept": [1], "payload_bytes": [1]})
        return Measured(1, {}, [MetricValue("throughput", "", value)], [], samples)


class ValueRecorder:
    """Keeps the values of a run by case, in the order of repetitions."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {}
        self._keys: dict[str, str] = {}

    def run_started(self, run: Run) -> None:
        """A run is not kept."""

    def plan_extended(
        self, run_id: str, cases: Sequence[PlannedCase], trials: Sequence[PlannedTrial]
    ) -> None:
        """No plan grows here."""

    def environment_seen(self, environment: Environment) -> None:
        """Facts are not kept."""

    def trial_started(self, trial: TrialStart) -> None:
        """Keep whose trial it is."""
        self._keys[trial.id] = trial.plan_key

    def trial_ended(self, end: TrialEnd) -> None:
        """Keep its value."""
        of_case = self.values.setdefault(self._keys[end.trial_id], [])
        of_case += [one.value for one in end.measurements if one.value is not None]

    def run_ended(self, run_id: str, outcome: Outcome, readings: Mapping[str, Json]) -> None:
        """Nothing to do."""


class NoProgress:
    """Nobody watches."""

    def started(self, total: int, done: int) -> None:
        """Say nothing."""

    def trial_begins(self, planned: PlannedTrial, factors: Factors) -> None:
        """Say nothing."""

    def trial_done(self, planned: PlannedTrial, factors: Factors, end: TrialEnd) -> None:
        """Say nothing."""

    def message(self, text: str) -> None:
        """Say nothing."""


def simulated(comparisons: int = SIMULATED) -> FalseAlarms:
    """Return the false alarms of simulated comparisons: real plans, runner and statistics."""
    text = NULL_FILE.replace(f"repetitions = {BLOCKS * GROUPS}", f"repetitions = {BLOCKS}")
    found: list[Comparison] = []
    seed = 0
    while len(found) < comparisons:
        experiment = spec.parse(text.replace("seed = 2001", f"seed = {seed}"), "null.toml")
        plan = make_plan(experiment)
        recorder = ValueRecorder()
        timing = Timing(1, 0, 1, 0)
        execution = Execution(experiment.record(), plan.cases, plan.trials, seed, timing)
        execute(execution, SimulatedBench(len(plan.cases), seed), recorder, NoProgress())
        values = [recorder.values[case.plan_key] for case in plan.cases]
        found += [compare_paired(a, b) for a, b in zip(values[::2], values[1::2], strict=True)]
        seed += 1
    return false_alarms(found[:comparisons])


def null_comparisons(cases: Sequence[RunCase], metric: str, method: str) -> list[Comparison]:
    """Return the comparisons of disjoint pairs of twins, group of blocks by group of blocks."""
    twins = sorted(cases, key=lambda case: int(case.factors["twin"]))
    compared = []
    for one, other in zip(twins[::2], twins[1::2], strict=True):
        first, second = one.find(metric, method), other.find(metric, method)
        if first is None or second is None:
            continue
        pairs = list(zip(first.kept, second.kept, strict=False))
        for start in range(0, len(pairs), BLOCKS):
            whole = [
                (a, b) for a, b in pairs[start : start + BLOCKS] if a is not None and b is not None
            ]
            if len(whole) >= 3:
                compared.append(compare_paired([a for a, _ in whole], [b for _, b in whole]))
    return compared


def run_zcdb(text: str, folder: Path, *options: str) -> tuple[str, int]:
    """Run an experiment in a database of its own; return its run and exit code."""
    path, database = folder / "experiment.toml", folder / "method.sqlite"
    path.write_text(text)
    command = [sys.executable, "-m", "zcdb", "run", str(path), "--wait", "--json", *options]
    done = subprocess.run(
        [*command, "--database", str(database)], stdout=subprocess.PIPE, text=True, check=False
    )
    if not done.stdout:
        raise SystemExit(f"zcdb run ended with {done.returncode}")
    return str(json.loads(done.stdout)["run"]["id"]), done.returncode


def outcome(folder: Path, run_id: str) -> tuple[RunCase, ...]:
    """Return the cases of a run in the database of a folder."""
    db = open_database(folder / "method.sqlite")
    try:
        return queries.run_outcome(db, run_id).cases
    finally:
        db.dispose()


def show_alarms(name: str, alarms: FalseAlarms) -> str:
    """Return false alarms as a row of the table."""
    if alarms.rate is None or alarms.low is None or alarms.high is None:
        return f"{name:<28} nothing could be compared"
    return (
        f"{name:<28} {alarms.alarms:>5} of {alarms.comparisons:>6}  {alarms.rate:6.2%}"
        f"  [{alarms.low:.2%}, {alarms.high:.2%}]"
    )


def report_null(folder: Path) -> bool:
    """Make and print the real null comparisons; return whether as few alarm as should."""
    run_id, _ = run_zcdb(NULL_FILE, folder)
    cases = outcome(folder, run_id)
    print(f"run {run_id}: {sum(case.ok for case in cases)} trials ok")
    total: list[Comparison] = []
    for metric, method in METRICS:
        compared = null_comparisons(cases, metric, method)
        total += compared
        print(show_alarms(f"{metric} {method}".strip(), false_alarms(compared)))
    alarms = false_alarms(total)
    print(show_alarms("both", alarms))
    print("5 % are right; a correct test exceeds 8 % of 200 in one attempt of forty.")
    return alarms.rate is not None and alarms.rate <= 0.08


def report_difference(folder: Path) -> bool:
    """Make a real difference of 5 % and print whether it was found; return that."""
    pilot_text = DIFFERENCE_FILE.format(work_ns=1, aa="false").replace("= 15", "= 3")
    pilot_id, _ = run_zcdb(pilot_text, folder)
    demand = next(
        series.statistic.mean
        for case in outcome(folder, pilot_id)
        if case.factors["call_work"] == 0
        and (series := case.find("service_demand_sender", "soak")) is not None
    )
    if demand is None:
        raise SystemExit("the pilot run measured no service demand")
    work_ns = round(DIFFERENCE * demand * 64 * 1000)
    print(f"pilot: {format_value('service_demand_sender', demand)}; {work_ns} ns more a call")
    run_id, _ = run_zcdb(DIFFERENCE_FILE.format(work_ns=work_ns, aa="true"), folder)
    base, more = (
        case.find("service_demand_sender", "soak")
        for case in sorted(
            (case for case in outcome(folder, run_id) if not case.factors.get("twin")),
            key=lambda case: int(case.factors["call_work"]),
        )
    )
    if base is None or more is None:
        raise SystemExit(f"run {run_id} measured no service demand")
    pairs = [
        (a, b)
        for a, b in zip(base.kept, more.kept, strict=False)
        if a is not None and b is not None
    ]
    by_n = [
        compare_paired([a for a, _ in pairs[:n]], [b for _, b in pairs[:n]])
        for n in range(3, len(pairs) + 1)
    ]
    alarms = [found.n_candidate for found in by_n if (found.p_value or 1) <= 0.05]
    print(f"run {run_id}: {len(pairs)} pairs")
    for found in by_n:
        print(f"  n = {found.n_candidate:2d}: {found.log_ratio or 0:+.2%}, p {found.p_value:.2g}")
    is_found = len(pairs) in alarms and (by_n[-1].log_ratio or 0) > 0
    print(f"the verdict, on all {len(pairs)} pairs: {'found' if is_found else 'not found'}")
    return is_found


def main() -> None:
    """Print one of the three tables; exit with 1 where it is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=["simulated", "null", "difference"])
    parser.add_argument("--comparisons", type=int, default=SIMULATED, help="simulated ones")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="keep the database here")
    options = parser.parse_args()
    if options.what == "simulated":
        alarms = simulated(options.comparisons)
        print(show_alarms("simulated", alarms))
        is_right = alarms.rate is not None and abs(alarms.rate - 0.05) <= 0.01
        sys.exit(0 if is_right else 1)
    report = report_null if options.what == "null" else report_difference
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
        sys.exit(0 if report(options.keep) else 1)
    with tempfile.TemporaryDirectory(prefix="zcdb-method-") as folder:
        sys.exit(0 if report(Path(folder)) else 1)


if __name__ == "__main__":
    main()
