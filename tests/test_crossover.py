"""Where one API begins to be better: the search, its plan that grows, and how often it is right."""

from __future__ import annotations

import math
import random

import pytest
from runner_support import FakeBench, SilentProgress, make_measured
from store_support import make_run
from web_support import Element, client_of, get_page

from zcdb.cli.run import StoreRecorder
from zcdb.errors import StoreError
from zcdb.experiment import spec
from zcdb.experiment.plan import make_plan
from zcdb.factors import Factors
from zcdb.records import MetricValue, PlannedCase, PlannedTrial
from zcdb.report.render import render_markdown, render_text
from zcdb.report.table import VerdictTable
from zcdb.report.verdicts import to_json, verdict_table
from zcdb.runner.execute import Execution, Measured, Resume, Timing, execute
from zcdb.runner.interrupt import Interruption
from zcdb.runner.steering import steering_of
from zcdb.stats.compare import compare_paired
from zcdb.stats.crossover import Crossover, LevelPoint, rounded, search
from zcdb.store import queries, write
from zcdb.store.queries.method import measured_values
from zcdb.store.session import Database

pytest_plugins = ["store_fixtures"]

FILE = """
name = "crossover"
question = "From which size on is sendfile cheaper than write?"
[factors]
api = ["write", "sendfile"]
message_size = ["1K", "1M"]
[measure]
repetitions = 5
aa = false
[compare]
baseline = { api = "write" }
metrics = ["service_demand_sender"]
crossover = { between = ["write", "sendfile"], within = "10%", at_most = 10 }
"""
TRUE_SIZE = 12_000


def cost(api: object, size: float) -> float:
    """Return us/KB: sendfile has a dearer call, write a dearer byte; equal at `TRUE_SIZE`."""
    per_call, per_kb = (12.0, 0.10) if api == "sendfile" else (6.0, 0.10 + 6 * 1024 / TRUE_SIZE)
    return per_call * 1024 / size + per_kb


def script_of(cv: float = 0.01, seed: int = 1):
    generator = random.Random(seed)

    def script(factors: Factors, call: int) -> Measured:
        value = cost(factors["api"], int(factors["message_size"])) * generator.gauss(1, cv)
        demand = MetricValue("service_demand_sender", "soak", value)
        return make_measured(measurements=[demand, MetricValue("throughput", "", 8e9)])

    return script


def execution_of(text: str = FILE, resume: Resume | None = None, **plan: object) -> Execution:
    experiment = spec.parse(text, "crossover.toml")
    made = make_plan(experiment)
    cases = plan.get("cases", made.all_cases)
    return Execution(
        experiment=experiment.record(),
        cases=cases,
        plan=plan.get("trials", made.trials),
        seed=1,
        timing=Timing(10**9, 0, 10**8, 0),
        resume=resume,
        steering=steering_of(experiment, cases),
    )


def run(db: Database, text: str = FILE, cv: float = 0.01, **bench: object) -> VerdictTable:
    result = execute(
        execution_of(text), FakeBench(script_of(cv), **bench), StoreRecorder(db), SilentProgress()
    )
    assert result.outcome == "finished"
    return verdict_table(db, result.run_id)


def test_the_search_encloses_the_true_size_between_two_that_are_close(sqlite_db: Database) -> None:
    answer = run(sqlite_db).crossover

    assert answer is not None
    found = answer.found
    assert found is not None
    assert (found.word, found.before) == ("found", "first")
    assert found.low <= TRUE_SIZE <= found.high
    assert found.high / found.low <= 1.5
    assert found.estimate == pytest.approx(TRUE_SIZE, rel=0.05)
    assert found.levels <= 10


def test_every_level_is_in_the_plan_and_recorded_like_any_other(sqlite_db: Database) -> None:
    table = run(sqlite_db)

    counts = table.run.counts
    levels = len(table.crossover.levels)
    assert counts.planned == counts.ok == levels * 2 * 5
    page = queries.run_page(sqlite_db, table.run.id)
    assert [place.position for place in page.plan] == list(range(counts.planned))
    assert len(page.cases) == 2 * levels
    blocks = {}
    for place in page.plan:
        blocks.setdefault(place.block, []).append(place.plan_key)
    assert [len(set(keys)) for keys in blocks.values()] == [4] * 5 + [2] * 5 * (levels - 2)


def test_text_markdown_and_json_tell_the_crossover(sqlite_db: Database) -> None:
    table = run(sqlite_db)

    text = render_text(table)
    assert "write is better up to a message size of " in text
    assert "sendfile from " in " ".join(text.split())
    assert max(len(line) for line in text.splitlines()) <= 78
    assert "write is better up to" in render_markdown(table)
    document = to_json(table)["crossover"]
    assert document["between"] == ["write", "sendfile"]
    assert document["found"]["low"] <= TRUE_SIZE <= document["found"]["high"]


def test_repetitions_that_decide_nothing_more_end_the_search(sqlite_db: Database) -> None:
    answer = run(sqlite_db, cv=0.08).crossover

    assert answer.found.word in ("found", "limit")
    assert answer.found.low <= TRUE_SIZE <= answer.found.high
    assert answer.found.high / answer.found.low > 1.1


def test_no_crossover_between_the_ends_is_said(sqlite_db: Database) -> None:
    table = run(sqlite_db, FILE.replace('"1K", "1M"', '"64K", "1M"'))

    assert table.run.counts.planned == 2 * 2 * 5
    assert "No crossover of write and sendfile" in render_text(table)
    assert "sendfile is better wherever a difference shows" in " ".join(render_text(table).split())


def test_a_level_that_cannot_be_measured_ends_the_search(sqlite_db: Database) -> None:
    def script(factors: Factors, call: int) -> Measured:
        good = script_of()(factors, call)
        return good if factors["message_size"] in (1024, 2**20) else make_measured(failure="no")

    result = execute(execution_of(), FakeBench(script), StoreRecorder(sqlite_db), SilentProgress())

    assert result.outcome == "finished"
    assert result.counts == {"ok": 20, "failed": 10}


def test_a_resumed_search_goes_on_where_it_stopped(sqlite_db: Database) -> None:
    interruption = Interruption()
    measure = script_of()

    def stopping(factors: Factors, call: int) -> Measured:
        if call == 33:
            interruption.request()
        return measure(factors, call)

    execution = execution_of()
    first = execute(
        execution, FakeBench(stopping), StoreRecorder(sqlite_db), SilentProgress(), interruption
    )
    state = queries.resumable_run(sqlite_db, execution.experiment.id)
    measured = measured_values(sqlite_db, state.run_id, "service_demand_sender")
    resume = Resume(state.run_id, frozenset(state.finished), state.attempts, measured)
    again = execution_of(resume=resume, cases=state.cases, trials=state.plan)
    second = execute(
        again, FakeBench(script_of(seed=2)), StoreRecorder(sqlite_db), SilentProgress()
    )

    assert (first.outcome, second.outcome) == ("interrupted", "finished")
    counts = queries.run_outcome(sqlite_db, state.run_id).run.counts
    assert counts.ok == counts.planned == first.counts["ok"] + second.counts["ok"]
    found = verdict_table(sqlite_db, state.run_id).crossover.found
    assert found.low <= TRUE_SIZE <= found.high


def simulated(generator: random.Random, cv: float, repetitions: int) -> Crossover:
    """Return the end of a search over simulated values."""
    levels = [1024, 2**20]
    points: list[LevelPoint] = []
    while True:
        for level in levels:
            pairs = [
                (
                    cost("write", level) * math.exp(generator.gauss(0, cv)),
                    cost("sendfile", level) * math.exp(generator.gauss(0, cv)),
                )
                for _ in range(repetitions)
            ]
            points.append(LevelPoint(level, compare_paired(*zip(*pairs, strict=True))))
        found = search(points, is_lower_better=True, within=0.1, at_most=10)
        if found.next_level is None:
            return found
        levels = [found.next_level]


@pytest.mark.parametrize("cv", [0.01, 0.05])
def test_the_true_crossover_lies_between_the_two_levels_in_95_of_100_searches(cv):
    generator = random.Random(3)

    found = [simulated(generator, cv, 6) for _ in range(400)]

    told = [one for one in found if one.low is not None and one.high is not None]
    inside = sum(one.low <= TRUE_SIZE <= one.high for one in told)
    assert len(told) >= 390
    assert inside / len(told) >= 0.95


def point(level: int, *ratios: float) -> LevelPoint:
    return LevelPoint(level, compare_paired([1.0] * len(ratios), ratios))


A_WINS, B_WINS, NOBODY = (1.2, 1.21, 1.19), (0.8, 0.81, 0.79), (0.9, 1.1, 1.0)


def test_the_next_level_halves_the_wider_gap_between_decided_and_undecided():
    points = [point(1000, *A_WINS), point(4000, *NOBODY), point(64000, *B_WINS)]

    found = search(points, is_lower_better=True, within=0.1, at_most=9)

    assert (found.word, found.low, found.high) == ("search", 1000, 64000)
    assert found.next_level == 15872  # √(4000 × 64000), rounded


@pytest.mark.parametrize(
    ("points", "reason"),
    [
        ([(1, A_WINS), (2, B_WINS), (3, A_WINS)], "the two change places more than once"),
        ([(1, NOBODY), (2, NOBODY)], "no level shows a difference"),
        ([(1, NOBODY), (2, B_WINS)], "the second is better wherever a difference shows"),
    ],
)
def test_no_single_crossover_has_a_reason(points, reason):
    made = [point(level, *ratios) for level, ratios in points]

    found = search(made, is_lower_better=True, within=0.1, at_most=9)

    assert (found.word, found.reason) == ("none", reason)


def test_a_metric_of_which_more_is_better_turns_the_winner_round():
    points = [point(1000, *A_WINS), point(64000, *B_WINS)]

    assert search(points, is_lower_better=False, within=0.1, at_most=2).before == "second"


def test_levels_are_rounded_to_sixteen_an_octave():
    assert [rounded(level) for level in (3, 100, 1000, 12345, 181_019)] == [
        *(3, 100, 1024 - 32, 12288, 180_224),
    ]


def test_a_plan_grows_only_where_it_ends_and_only_until_the_run_is_finished(
    sqlite_db: Database,
) -> None:
    table = run(sqlite_db, FILE.replace('"1K", "1M"', '"64K", "1M"'))
    case = PlannedCase("0" * 32, {"api": "write"})

    with pytest.raises(StoreError, match="is finished: its plan cannot grow"):
        write.extend_plan(sqlite_db, table.run.id, [case], [])


def test_places_that_do_not_follow_the_plan_are_refused(sqlite_db: Database) -> None:
    growing = make_run(1)
    write.add_run(sqlite_db, growing)
    case = PlannedCase("0" * 32, {"api": "splice", "message_size": 65536})
    wrong, right = (PlannedTrial(case.plan_key, 5, position, 0) for position in (7, 40))

    with pytest.raises(StoreError, match=f"do not follow the 40 of run {growing.id}"):
        write.extend_plan(sqlite_db, growing.id, [case], [wrong])
    write.extend_plan(sqlite_db, growing.id, [case], [right])

    page = queries.run_page(sqlite_db, growing.id)
    assert (page.plan[-1].position, page.plan[-1].plan_key) == (40, case.plan_key)
    assert page.cases[-1].plan_key == case.plan_key


def page_of(db: Database, run_id: str) -> Element:
    return get_page(client_of(db), f"/runs/{run_id}")


def test_the_page_of_a_run_shows_the_crossover_and_its_levels(sqlite_db: Database) -> None:
    table = run(sqlite_db)

    page = page_of(sqlite_db, table.run.id)

    (section,) = page.all("section", **{"aria-labelledby": "crossover"})
    assert "write is better up to a message size of" in section.text
    rows = section.first("tbody").all("tr")
    assert [row.first("th").text for row in rows][:: len(rows) - 1] == ["1 KiB", "1 MiB"]


def test_the_page_of_a_run_says_how_sure_it_is_and_what_was_not_needed(
    sqlite_db: Database,
) -> None:
    text = FILE.replace("aa = false", "").replace(
        "repetitions = 5", 'until = { half_width = "5%", at_most = 12 }'
    )
    text = "\n".join(line for line in text.splitlines() if not line.startswith("crossover"))
    table = run(sqlite_db, text)

    page = page_of(sqlite_db, table.run.id)

    (section,) = page.all("section", **{"aria-labelledby": "method"})
    assert "Declared before the run: repeat until service demand" in section.text
    assert "A/A: " in section.text
    plan = page.first("section", **{"aria-labelledby": "plan"}).text
    assert "not needed" in plan
    assert "planned" not in plan.partition("Attempts")[2]
    assert "· twin" in plan
    assert "· twin" not in page.first("section", **{"aria-labelledby": "cost"}).text
