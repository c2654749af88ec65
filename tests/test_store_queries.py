"""What pages ask: the answers, paging by key, and a fixed number of statements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from store_support import (
    APIS,
    DEMO_STARTED_AT,
    NO_PERF,
    OBSERVED,
    SIZES,
    UNSUPPORTED_REASON,
    DemoIds,
    StatementCount,
    make_case,
    make_end,
    make_environment,
    make_run,
    make_start,
    run_trials,
    write_demo,
)

from zcdb.errors import UsageError
from zcdb.metrics import CPU_METHODS, METRICS
from zcdb.records import MetricValue
from zcdb.store import queries, write
from zcdb.store.queries import NotFound
from zcdb.store.results import Counts, TrialCounts
from zcdb.store.session import Database, opened

pytest_plugins = ["store_fixtures"]

Demo = tuple[Database, DemoIds]

PAGES: dict[str, Callable[[Database, DemoIds], object]] = {
    "home": lambda db, ids: queries.home(db),
    "run list": lambda db, ids: queries.run_list(db),
    "next runs": lambda db, ids: queries.run_list(db, after=ids.run_id),
    "experiment list": lambda db, ids: queries.experiment_list(db),
    "experiment": lambda db, ids: queries.experiment_page(db, ids.experiment_name),
    "run": lambda db, ids: queries.run_page(db, ids.run_id),
    "run outcome": lambda db, ids: queries.run_outcome(db, ids.run_id),
    "case list": lambda db, ids: queries.case_list(db),
    "case": lambda db, ids: queries.case_page(db, ids.baseline_case_id),
    "trial": lambda db, ids: queries.trial_page(db, ids.ok_trial_id),
    "environment": lambda db, ids: queries.environment_page(db, ids.environment_id),
    "find": lambda db, ids: queries.find(db, ids.ok_trial_id),
}
STATEMENTS = {
    "home": 7,
    "run list": 3,
    "next runs": 4,
    "experiment list": 4,
    "experiment": 9,
    "run": 15,
    "run outcome": 10,
    "case list": 1,
    "case": 13,
    "trial": 13,
    "environment": 5,
    "find": 1,
}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> object:
    """The demo with five more runs in other contexts."""
    path = tmp_path_factory.mktemp("large") / "large.sqlite"
    with opened(path, with_history=False) as db:
        ids = write_demo(db)
        for number in range(3, 8):
            environment = make_environment(number=number)
            write.add_environment(db, environment)
            run = make_run(number, name=f"other {number}")
            write.add_run(db, run)
            run_trials(db, run, environment)
        yield db, ids


@pytest.mark.parametrize("page", PAGES)
def test_a_page_issues_the_same_statements_however_much_is_stored(
    demo: Demo, large: Demo, page: str
) -> None:
    counts = []
    for db, ids in (demo, large):
        with StatementCount(db) as statements:
            PAGES[page](db, ids)
        counts.append(len(statements))

    assert counts == [STATEMENTS[page]] * 2


def test_empty_lists_cost_as_many_statements(sqlite_db: Database) -> None:
    for page in ("home", "run list", "experiment list", "case list"):
        with StatementCount(sqlite_db) as statements:
            PAGES[page](sqlite_db, None)  # type: ignore[arg-type]

        assert len(statements) == STATEMENTS[page]


@pytest.mark.parametrize(
    ("kind", "ask"),
    [
        ("run", queries.run_page),
        ("run", queries.run_outcome),
        ("run", lambda db, id: queries.run_list(db, after=id)),
        ("case", queries.case_page),
        ("case", lambda db, id: queries.case_list(db, after=id)),
        ("trial", queries.trial_page),
        ("environment", queries.environment_page),
        ("experiment", queries.experiment_page),
        ("experiment", queries.experiment_of_version),
    ],
)
def test_what_is_not_there_says_what_was_looked_for(
    sqlite_db: Database, kind: str, ask: Callable[[Database, str], object]
) -> None:
    with pytest.raises(NotFound, match=f"there is no {kind} 0123abcd in") as caught:
        ask(sqlite_db, "0123abcd")

    assert (caught.value.kind, caught.value.wanted) == (kind, "0123abcd")


def test_home_shows_what_is_new(demo: Demo) -> None:
    db, ids = demo

    home = queries.home(db)

    assert home.counts == Counts(experiments=1, runs=2, cases=9, trials=86, environments=1)
    assert [run.id for run in home.runs] == [ids.run_id, ids.older_run_id]
    assert [run.id for run in home.answered] == [ids.run_id]
    assert home.runs[0].note == "after the firmware update"
    assert home.runs[0].counts == TrialCounts(
        planned=45, ok=39, failed=1, unsupported=5, running=0, interrupted=1, excluded=0
    )
    assert home.runs[0].counts.left == 0


def test_runs_page_by_key(sqlite_db: Database) -> None:
    for number in range(1, 6):
        write.add_run(sqlite_db, make_run(number))
    # Two runs that started at the same moment must both be listed.
    write.add_run(sqlite_db, replace(make_run(6), started_at=make_run(5).started_at))

    pages, after = [], None
    for _ in range(3):
        page = queries.run_list(sqlite_db, after=after, limit=2)
        pages.append([int(run.id[-1]) for run in page.runs])
        after = page.next_after

    assert pages == [[6, 5], [4, 3], [2, 1]]
    assert after is None


def test_experiments_are_listed_by_name_with_their_newest_version(sqlite_db: Database) -> None:
    for number, name, question in (
        (1, "b", "old?"),
        (2, "b", "new?"),
        (3, "a", "?"),
        (4, "c", "?"),
    ):
        write.add_run(sqlite_db, make_run(number, name=name, question=question))

    first = queries.experiment_list(sqlite_db, limit=2)
    second = queries.experiment_list(sqlite_db, after=first.next_after, limit=2)

    assert [(line.name, line.versions, line.runs) for line in first.experiments] == [
        ("a", 1, 1),
        ("b", 2, 2),
    ]
    assert first.experiments[1].question == "new?"
    assert first.experiments[1].newest_run is not None
    assert first.experiments[1].newest_run.id == make_run(2).id
    assert [line.name for line in second.experiments] == ["c"]
    assert second.next_after is None


def test_an_experiment_shows_declared_against_measured_coverage(demo: Demo) -> None:
    db, ids = demo

    page = queries.experiment_page(db, ids.experiment_name)

    assert page.experiment.id == ids.experiment_id
    assert page.experiment.resolved["compare"]["baseline"] == {"api": "write"}  # type: ignore
    assert [version.runs for version in page.versions] == [1, 1]
    assert page.answer_run_id == ids.run_id
    measured = {
        (line.factors["api"], line.factors["message_size"]): (
            line.planned,
            line.ok,
            line.failed,
            line.unsupported,
        )
        for line in page.coverage
    }
    assert len(measured) == 9
    assert measured["write", 4096] == (5, 5, 0, 0)
    assert measured["read_write", 4096] == (5, 4, 1, 0)
    assert measured["sendfile", 4096] == (5, 5, 0, 0)  # the interrupted attempt is not final
    assert measured["io_uring_send_zc", 65536] == (5, 0, 0, 5)


def test_an_older_version_of_an_experiment_can_be_asked_for(demo: Demo) -> None:
    db, ids = demo
    older = queries.experiment_page(db, ids.experiment_name).versions[1].id

    page = queries.experiment_page(db, ids.experiment_name, version=older)

    assert page.experiment.id == older
    assert page.answer_run_id == ids.older_run_id
    assert len(page.coverage) == 8
    assert len(page.runs) == 2
    assert queries.experiment_of_version(db, older) == page
    with pytest.raises(NotFound, match="quickstart with the id 0123"):
        queries.experiment_page(db, ids.experiment_name, version="0123")


def test_the_answer_of_an_experiment_is_its_newest_finished_run(sqlite_db: Database) -> None:
    for number in (1, 2, 3):
        write.add_run(sqlite_db, make_run(number))
    unfinished = queries.experiment_page(sqlite_db, "quickstart").answer_run_id
    write.finish_run(sqlite_db, make_run(2).id, "finished", {})

    assert unfinished == make_run(3).id
    assert queries.experiment_page(sqlite_db, "quickstart").answer_run_id == make_run(2).id


def test_a_run_shows_its_plan_in_order_with_every_attempt(demo: Demo) -> None:
    db, ids = demo

    page = queries.run_page(db, ids.run_id)

    assert [place.position for place in page.plan] == list(range(45))
    assert page.next_position is None
    attempts = [place.attempts for place in page.plan if len(place.attempts) != 1]
    assert [[(t.status, t.reason) for t in attempt] for attempt in attempts] == [
        [("failed", "interrupted"), ("ok", None)]
    ]
    assert attempts[0][0].id == ids.interrupted_trial_id
    assert attempts[0][1].id == ids.retried_trial_id
    assert page.seed == 2001
    assert page.readings[0]["soaker_effect_ratio"] == 0.004
    assert [(line.id, line.ends) for line in page.environments] == [
        (ids.environment_id, ("sender", "receiver"))
    ]


def test_a_plan_pages_by_position(demo: Demo) -> None:
    db, ids = demo
    first = queries.run_page(db, ids.run_id, limit=30)

    second = queries.run_page(db, ids.run_id, from_position=first.next_position or 0, limit=30)

    assert first.next_position == 30
    assert [place.position for place in first.plan + second.plan] == list(range(45))
    assert all(place.attempts for place in first.plan + second.plan)
    assert second.next_position is None


def test_a_run_that_has_not_begun_shows_its_plan(sqlite_db: Database) -> None:
    run = make_run(1)
    write.add_run(sqlite_db, run)

    page = queries.run_page(sqlite_db, run.id)

    assert len(page.plan) == len(run.plan)
    assert {place.attempts for place in page.plan} == {()}
    assert [(case.case_id, case.series) for case in page.cases] == [(None, ())] * 8


def test_a_runs_cases_come_with_every_value(demo: Demo) -> None:
    db, ids = demo

    cases = {
        (case.factors["api"], case.factors["message_size"]): case
        for case in queries.run_outcome(db, ids.run_id).cases
    }

    assert set(cases) == {(api, size) for api in APIS for size in SIZES} | {
        ("io_uring_send_zc", 65536)
    }
    write_case = cases["write", 65536]
    assert write_case.case_id == ids.baseline_case_id
    assert write_case.context == OBSERVED
    named = [(s.statistic.metric, s.statistic.method) for s in write_case.series]
    assert named == [
        (metric.name, method)
        for metric in METRICS.values()
        for method in (CPU_METHODS if metric.has_method else ("",))
        if ("contention" not in metric.name or method == "soak_work")
        and metric.name in {measured for measured, _ in named}
    ]
    perf = write_case.find("service_demand_sender", "perf")
    assert perf is not None
    assert (perf.values, perf.statistic.n, perf.statistic.reason) == ((None,) * 5, 0, NO_PERF)
    failed = cases["read_write", 4096]
    assert (failed.ok, failed.failed) == (4, 1)
    assert failed.reasons == ("the receiver stopped reading: no byte for 5 s",)
    throughput = failed.find("throughput")
    assert throughput is not None
    assert [value is None for value in throughput.values] == [False, False, False, True, False]
    assert failed.find("throughput", "soak") is None
    assert cases["io_uring_send_zc", 65536].reasons == (UNSUPPORTED_REASON,)
    assert cases["read_write", 65536].flags == {"ends-share-host": 5, "steal": 1}


def test_a_run_that_met_two_kernels_has_a_case_for_each(sqlite_db: Database) -> None:
    run = make_run(1, cases=(make_case(),), repetitions=2)
    write.add_run(sqlite_db, run)
    for place, kernel in zip(run.plan, ("6.12.0", "6.18.0"), strict=True):
        start = make_start(run, place, observed={"sender_kernel": kernel})
        write.start_trial(sqlite_db, start)
        write.end_trial(sqlite_db, make_end(start))

    cases = queries.run_outcome(sqlite_db, run.id).cases

    assert [case.context["sender_kernel"] for case in cases] == ["6.12.0", "6.18.0"]
    assert [case.ok for case in cases] == [1, 1]
    assert len({case.case_id for case in cases}) == 2


def test_a_case_shows_its_trials_over_all_runs_in_order(demo: Demo) -> None:
    db, ids = demo

    page = queries.case_page(db, ids.baseline_case_id)

    assert page.factors["api"] == "write"
    assert page.factors["sender_kernel"] == "6.12.0"
    assert [line.trial.run_id for line in page.trials] == [ids.older_run_id] * 5 + [ids.run_id] * 5
    times = [line.trial.started_at for line in page.trials]
    assert times == sorted(times)
    assert times[0] > DEMO_STARTED_AT
    throughput = page.statistics[0]
    assert (throughput.metric, throughput.n) == ("throughput", 10)
    values = [line.values["throughput", ""] for line in page.trials]
    assert sum(values) / 10 == pytest.approx(throughput.mean)
    assert ("service_demand_sender", "perf") not in page.trials[0].values


def test_a_cases_trials_page_by_key(demo: Demo) -> None:
    db, ids = demo
    case_id = ids.case_ids["sendfile", 4096]
    whole = queries.case_page(db, case_id)

    first = queries.case_page(db, case_id, limit=6)
    second = queries.case_page(db, case_id, after=first.next_after, limit=6)

    assert len(whole.trials) == 11
    assert first.trials + second.trials == whole.trials
    assert second.next_after is None


def test_an_interrupted_attempt_shows_no_value_of_the_later_one(demo: Demo) -> None:
    db, ids = demo

    page = queries.case_page(db, ids.case_ids["sendfile", 4096])

    values = {line.trial.id: line.values for line in page.trials}
    assert values[ids.interrupted_trial_id] == {}
    assert values[ids.retried_trial_id]["throughput", ""] > 0
    assert queries.trial_page(db, ids.interrupted_trial_id).values == ()


def test_siblings_differ_in_one_factor_alone(demo: Demo) -> None:
    db, ids = demo

    siblings = queries.case_page(db, ids.baseline_case_id).siblings

    assert list(siblings) == ["api", "message_size"]
    assert [(s.value, s.case_id) for s in siblings["api"]] == [
        (api, ids.case_ids[api, 65536])
        for api in ("io_uring_send_zc", "msg_zerocopy", "read_write", "sendfile")
    ]
    assert [(s.value, s.case_id) for s in siblings["message_size"]] == [
        (4096, ids.case_ids["write", 4096])
    ]
    sendfile = siblings["api"][3]
    assert [s.n for s in sendfile.statistics if s.metric == "throughput"] == [10]


def test_siblings_along_a_size_are_in_the_order_of_size(sqlite_db: Database) -> None:
    sizes = (1024, 65536, 4096)
    run = make_run(1, cases=tuple(make_case(message_size=size) for size in sizes), repetitions=1)
    write.add_run(sqlite_db, run)
    ids = {}
    for place in run.plan:
        start = make_start(run, place)
        ids[start.case_factors["message_size"]] = start
        write.start_trial(sqlite_db, start)
        write.end_trial(sqlite_db, make_end(start))
    case_id = queries.trial_page(sqlite_db, ids[65536].id).trial.case_id

    siblings = queries.case_page(sqlite_db, case_id).siblings["message_size"]

    assert [sibling.value for sibling in siblings] == [1024, 4096]


def test_a_trial_gives_every_number_or_the_reason(demo: Demo) -> None:
    db, ids = demo

    page = queries.trial_page(db, ids.ok_trial_id)

    assert page.factors["api"] == "write"
    values = {(value.metric, value.method): value for value in page.values}
    assert len(values) == len(page.values) == 27
    assert values["service_demand_sender", "soak"].value == pytest.approx(0.181, rel=0.1)
    assert values["service_demand_sender", "perf"].reason == NO_PERF
    assert values["copied_share", ""].reason == "write has no completions"
    assert page.samples is not None
    assert page.samples.columns["kept"] == [0, 0, 0] + [1] * 10
    assert page.counts["payload_bytes"] > 0  # type: ignore[operator]
    assert page.environments["sender"].id == ids.environment_id
    assert page.environments["sender"].ends == ("sender", "receiver")
    assert page.flags[0].code == "ends-share-host"
    assert page.flags[0].sentence.startswith("Sender and receiver share one host")
    assert (page.run.id, page.experiment.id) == (ids.run_id, ids.experiment_id)


def test_a_trial_knows_its_neighbours(demo: Demo) -> None:
    db, ids = demo
    plan = queries.run_page(db, ids.run_id).plan
    first, second, last = (plan[place].attempts[0].id for place in (0, 1, 44))

    assert queries.trial_page(db, first).previous_id is None
    assert queries.trial_page(db, first).next_id == second
    assert queries.trial_page(db, second).previous_id == first
    assert queries.trial_page(db, last).next_id is None


def test_a_failed_and_an_unsupported_trial_say_why(demo: Demo) -> None:
    db, ids = demo

    failed = queries.trial_page(db, ids.failed_trial_id)
    unsupported = queries.trial_page(db, ids.unsupported_trial_id)

    assert failed.trial.reason == "the receiver stopped reading: no byte for 5 s"
    assert failed.samples is not None
    assert (unsupported.trial.status, unsupported.trial.reason) == (
        "unsupported",
        UNSUPPORTED_REASON,
    )
    assert (unsupported.values, unsupported.samples, unsupported.flags) == ((), None, ())


def test_a_metric_that_only_later_trials_have_is_absent_from_the_earlier_one(
    sqlite_db: Database,
) -> None:
    run = make_run(1, cases=(make_case(),), repetitions=2)
    write.add_run(sqlite_db, run)
    more = (MetricValue("throughput", "", 2e9), MetricValue("call_rate", "", 7.0))
    starts = [make_start(run, place) for place in run.plan]
    for start, measured in zip(starts, (more[:1], more), strict=True):
        write.start_trial(sqlite_db, start)
        write.end_trial(sqlite_db, make_end(start, measurements=measured))

    values = [queries.trial_page(sqlite_db, start.id).values for start in starts]

    assert [[value.metric for value in of_trial] for of_trial in values] == [
        ["throughput"],
        ["throughput", "call_rate"],
    ]


def test_an_environment_shows_its_facts_and_where_it_was_met(demo: Demo) -> None:
    db, ids = demo

    page = queries.environment_page(db, ids.environment_id)

    assert page.facts == make_environment().facts
    assert page.trials == 86
    assert [run.id for run in page.runs] == [ids.run_id, ids.older_run_id]
    assert page.first_at is not None
    assert page.first_at > DEMO_STARTED_AT
    assert page.first_at.tzinfo is not None


@pytest.mark.parametrize("attribute", ["run_id", "baseline_case_id", "ok_trial_id"])
def test_the_beginning_of_an_id_is_enough(demo: Demo, attribute: str) -> None:
    db, ids = demo
    wanted: str = getattr(ids, attribute)
    beginning = wanted[:8]

    found = queries.find(db, beginning.upper())

    kind = {"run_id": "run", "baseline_case_id": "case", "ok_trial_id": "trial"}[attribute]
    assert (found.kind, found.id) == (kind, wanted)


@pytest.mark.parametrize("prefix", ["0195", "xyzxyz", "", "0195*000", "01_500"])
def test_what_cannot_be_an_id_is_wrong_usage(demo: Demo, prefix: str) -> None:
    with pytest.raises(UsageError, match="is not an id: write at least 6"):
        queries.find(demo[0], prefix)


def test_a_beginning_that_several_ids_share_names_them(demo: Demo) -> None:
    db, ids = demo

    with pytest.raises(UsageError, match="is the beginning of several ids") as caught:
        queries.find(db, "0195000")

    assert ids.run_id in caught.value.message
    assert ids.older_run_id in caught.value.message


def test_an_id_is_looked_for_among_one_kind_only(demo: Demo) -> None:
    db, ids = demo

    with pytest.raises(NotFound, match="there is no run"):
        queries.find(db, ids.ok_trial_id, kind="run")


def test_pages_are_the_same_on_both_engines(db: Database, demo: Demo) -> None:
    ids = write_demo(db)
    sqlite, _ = demo

    for ask, id in (
        (queries.run_page, ids.run_id),
        (queries.case_page, ids.baseline_case_id),
        (queries.trial_page, ids.copied_trial_id),
        (queries.environment_page, ids.environment_id),
        (queries.experiment_page, ids.experiment_name),
    ):
        page, same = ask(db, id), ask(sqlite, id)
        # The note's time is the moment of writing; it is on no page.
        assert page == same
    assert queries.find(db, ids.run_id[:8]).id == ids.run_id
    assert queries.case_list(db) == queries.case_list(sqlite)


def test_cases_are_listed_newest_first_by_key(demo: Demo, tmp_path: Path) -> None:
    db, ids = demo
    first = queries.case_list(db, limit=5)
    second = queries.case_list(db, after=first.next_after, limit=5)

    assert first.cases[0].id == ids.case_ids["io_uring_send_zc", 65536]
    assert first.cases[0].trials == 0
    assert len({line.id for line in first.cases + second.cases}) == 9
    assert second.next_after is None
