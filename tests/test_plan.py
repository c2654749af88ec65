"""Plans: which cases, in which order, always the same."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zcdb import factors
from zcdb.cli.plan import detection_of
from zcdb.experiment import outline, spec
from zcdb.experiment.plan import Pair, Plan, further_blocks, make_plan, pairs
from zcdb.factors import FACTORS
from zcdb.stats.compare import compare_paired
from zcdb.stats.verdict import judge

APIS = FACTORS["api"].choices


def experiment(body: str) -> spec.Experiment:
    return spec.parse(f'name = "plan"\nquestion = "?"\n{body}', "some.toml")


def plan_of(body: str) -> Plan:
    return make_plan(experiment(body))


@st.composite
def bodies(draw: st.DrawFn) -> str:
    """Draw the factors, repetitions, twins and seed of an experiment."""
    apis = draw(st.lists(st.sampled_from(APIS), min_size=1, max_size=4, unique=True))
    sizes = draw(st.lists(st.integers(1, 2**24), min_size=1, max_size=4, unique=True))
    streams = draw(st.lists(st.integers(1, 256), min_size=1, max_size=3, unique=True))
    repetitions = draw(st.integers(1, 6))
    seed = draw(st.integers(0, 2**31 - 1))
    twins = draw(st.integers(0, min(2, len(apis) * len(sizes))))
    return (
        f"[factors]\napi = {json.dumps(apis)}\nmessage_size = {sizes}\nstreams = {streams}\n"
        f"[measure]\nrepetitions = {repetitions}\nseed = {seed}\naa = {twins}\n"
    )


@settings(deadline=None, max_examples=60)
@given(bodies())
def test_each_block_is_a_permutation_of_all_cases(body):
    plan = plan_of(body)

    keys = {case.plan_key for case in plan.all_cases}
    assert len(keys) == len(plan.all_cases)
    for block, trials in itertools.groupby(plan.trials, key=lambda trial: trial.block):
        trials = list(trials)
        assert Counter(trial.plan_key for trial in trials) == Counter(keys)
        assert {trial.repetition for trial in trials} == {block}
    assert [trial.position for trial in plan.trials] == list(range(len(plan.trials)))


@settings(deadline=None, max_examples=30)
@given(bodies())
def test_the_same_file_and_seed_make_the_same_plan(body):
    assert plan_of(body) == plan_of(body)


@settings(deadline=None, max_examples=30)
@given(bodies(), st.randoms(use_true_random=False))
def test_the_order_of_keys_and_levels_changes_neither_ids_nor_order(body, shuffler):
    head, *rest = body.split("\n")
    lines = rest[:3]
    shuffler.shuffle(lines)
    name, _, levels = lines[0].partition(" = ")
    shuffled = json.loads(levels)
    shuffler.shuffle(shuffled)
    lines[0] = f"{name} = {json.dumps(shuffled)}"
    permuted = "\n".join([head, *lines, *rest[3:]])

    plan, other = plan_of(body), plan_of(permuted)

    assert plan.trials == other.trials
    assert {c.plan_key: c.factors for c in plan.cases} == {
        c.plan_key: c.factors for c in other.cases
    }


def test_the_order_of_a_seed_never_changes():
    body = (
        '[factors]\napi = ["write", "sendfile", "splice"]\n[measure]\nrepetitions = 3\nseed = 2001'
    )

    plan = plan_of(body)

    (twin,) = plan.twins
    apis = {case.plan_key: case.factors["api"] for case in plan.cases}
    assert list(apis) == [
        "c628ad20767931c1ba9ed055ed856aee",
        "283b27f451f91001b69f4f4330f0d441",
        "d7c211fd1da27d974bf9d3ea66a1ea91",
    ]
    assert twin.plan_key == "16c0d0ae050ebe527761835bd848477f"
    apis[twin.plan_key] = "twin"
    order = [apis[trial.plan_key] for trial in plan.trials]
    assert order == [
        *("splice", "twin", "sendfile", "write"),
        *("splice", "write", "sendfile", "twin"),
        *("sendfile", "write", "splice", "twin"),
    ]
    assert [api for api in order if api != "twin"] == [
        "splice",
        "sendfile",
        "write",
        "splice",
        "write",
        "sendfile",
        "sendfile",
        "write",
        "splice",
    ]


def test_every_order_of_a_block_is_equally_likely():
    counts: Counter[tuple[str, ...]] = Counter()
    body = '[factors]\napi = ["write", "sendfile"]\n[measure]\nrepetitions = 3000\n'

    trials = plan_of(body).trials
    for start in range(0, len(trials), 3):
        counts[tuple(trial.plan_key for trial in trials[start : start + 3])] += 1

    # Two cases and a twin: 500 are expected of each order; the seed is fixed, four standard
    # deviations are 82.
    assert len(counts) == 6
    assert all(abs(count - 500) < 82 for count in counts.values())


def test_the_baseline_gets_the_twin_and_more_twins_go_to_other_cases():
    body = (
        '[factors]\napi = ["sendfile", "write"]\n[compare]\nbaseline = { api = "write" }\n'
        "[measure]\n"
    )

    (one,) = plan_of(body).twins
    both = plan_of(f"{body}aa = 2\n").twins

    assert (one.factors["api"], one.factors["twin"]) == ("write", 1)
    assert [twin.factors["api"] for twin in both] == ["write", "sendfile"]
    assert plan_of(f"{body}aa = false\n").twins == ()


def test_twins_come_only_where_they_can_be_compared_and_the_file_has_none_of_its_own():
    few = '[factors]\napi = "write"\n[measure]\nrepetitions = 2\n'
    own = '[factors]\napi = "write"\ntwin = [0, 1, 2, 3]\n'

    assert plan_of(few).twins == ()
    assert plan_of(own).twins == ()
    assert len(plan_of(own).cases) == 4


def test_twins_do_not_change_the_order_of_the_other_cases():
    body = '[factors]\napi = ["write", "sendfile", "splice"]\n[measure]\nseed = 7\naa = '

    with_twins, without = plan_of(f"{body}3"), plan_of(f"{body}false")

    twins = {twin.plan_key for twin in with_twins.twins}
    assert [t.plan_key for t in with_twins.trials if t.plan_key not in twins] == [
        trial.plan_key for trial in without.trials
    ]


def test_further_blocks_follow_the_plan_and_hold_every_new_case_once():
    plan = plan_of('[factors]\napi = ["write", "sendfile"]\n')

    more = further_blocks(["b", "a"], 3, seed=5, block=5, position=len(plan.trials))

    assert [trial.position for trial in more] == list(range(15, 21))
    assert [(trial.block, trial.repetition) for trial in more[::2]] == [(5, 0), (6, 1), (7, 2)]
    blocks = [
        {one.plan_key, other.plan_key} for one, other in zip(more[::2], more[1::2], strict=True)
    ]
    assert blocks == [{"a", "b"}] * 3
    assert more == further_blocks(["a", "b"], 3, seed=5, block=5, position=15)


def test_a_plan_until_narrow_enough_holds_the_most_repetitions():
    plan = plan_of(
        '[factors]\napi = ["write"]\n[measure]\nuntil = { half_width = 0.02, at_most = 12 }\n'
    )

    assert len(plan.trials) == 2 * 12


def test_cases_hold_every_declared_factor_and_the_link():
    plan = plan_of('[factors]\napi = ["write"]\n[link]\nkind = "veth"\n')

    (case,) = plan.cases
    assert case.factors["link"] == "veth"
    assert case.factors["receive_size"] == 262144
    assert all(FACTORS[name].is_declared for name in case.factors)
    assert case.plan_key == factors.plan_key({"api": "write", "link": "veth"})


def test_a_factor_stated_at_its_default_changes_no_plan_key():
    plain = plan_of('[factors]\napi = ["write"]\n')
    stated = plan_of('[factors]\napi = ["write"]\nstreams = 1\n[fixed]\nmessage_size = "64K"\n')

    assert plain == stated


def test_groups_vary_as_a_whole():
    plan = plan_of(
        '[factors]\napi = ["write", "send"]\n'
        'buffers = [ { sndbuf = "1M", rcvbuf = "2M" }, { tcp_nodelay = true } ]\n'
    )

    assert [
        (c.factors["api"], c.factors["sndbuf"], c.factors["rcvbuf"], c.factors["tcp_nodelay"])
        for c in plan.cases
    ] == [
        ("write", 2**20, 2**21, False),
        ("write", 0, 0, True),
        ("send", 2**20, 2**21, False),
        ("send", 0, 0, True),
    ]


def test_exclusions_leave_out_what_matches_all_their_values():
    plan = plan_of(
        '[factors]\napi = ["write", "sendfile"]\nmessage_size = ["64", "4K", "64K"]\n'
        '[[exclude]]\napi = "sendfile"\nmessage_size = ["64", "4K"]\n'
    )

    assert [(c.factors["api"], c.factors["message_size"]) for c in plan.cases] == [
        ("write", 64),
        ("write", 4096),
        ("write", 65536),
        ("sendfile", 65536),
    ]


def test_the_time_counts_windows_ramps_starts_and_one_bracket_between_trials():
    plan = plan_of(
        '[factors]\napi = ["write", "send"]\n'
        '[measure]\nrepetitions = 3\nduration = "1s"\ndiscard = "300ms"\nbracket = "500ms"\n'
        'rest = "100ms"\naa = false\n'
    )

    assert plan.estimated_ns == 6 * (100 + 200 + 300 + 1000 + 500) * 10**6 + 500 * 10**6


def test_each_case_is_paired_with_the_one_that_differs_in_the_baseline_only():
    body = '[factors]\napi = ["write", "sendfile"]\nmessage_size = ["4K", "64K"]\n'
    cases = plan_of(body).cases

    key = {(c.factors["api"], c.factors["message_size"]): c.plan_key for c in cases}
    assert pairs(cases, {"api": "write"}) == [
        Pair(key["sendfile", 4096], key["write", 4096]),
        Pair(key["sendfile", 65536], key["write", 65536]),
    ]
    assert pairs(cases, {"api": "write", "message_size": 4096}) == [
        Pair(key["write", 65536], key["write", 4096]),
        Pair(key["sendfile", 4096], key["write", 4096]),
        Pair(key["sendfile", 65536], key["write", 4096]),
    ]
    assert pairs(cases, {}) == []
    assert pairs(cases[1:], {"api": "write"}) == [Pair(key["sendfile", 65536], key["write", 65536])]


def test_the_quickstart_measures_for_about_a_minute_and_a_half():
    quickstart = spec.load(spec.find_shipped("quickstart"))

    plan = make_plan(quickstart)

    assert len(plan.cases) == 8
    assert plan.estimated_ns <= 95 * 10**9
    assert quickstart.compare.baseline == {"api": "write"}
    assert {case.factors["link"] for case in plan.cases} == {"loopback"}


BODY = (
    '[factors]\napi = ["write", "sendfile"]\nmessage_size = ["4K", "64K"]\n'
    '[measure]\nrepetitions = 10\nseed = 1\n[compare]\nbaseline = { api = "write" }\n'
)


def text_of(declared: spec.Experiment, cv: float | None = None) -> str:
    plan = make_plan(declared)
    return outline.render_text(declared, plan, detection_of(declared, plan, cv))


def test_the_outline_tells_cases_constants_order_time_and_what_can_be_detected():
    declared = experiment(BODY)

    text = text_of(declared)

    assert "(4 cases + 1 twin) × 10 repetitions = 50 trials over loopback, about 2 min" in text
    assert "  1': the same case again under another name" in text
    assert "1'" in text.partition("block  1: ")[2].partition("\n")[0]
    assert "no between-boot estimate" in " ".join(text.split())
    assert "26 repetitions detect a difference of 2.0 % as often" in " ".join(text.split())
    assert "     4  sendfile  64 KiB        " in text
    assert "rx_api recv (default)" in text
    assert "Order: randomised complete blocks, seed 1\n  block  1: " in text
    assert "4 comparisons, judged together at 95 %." in text
    assert "If repetitions vary by 2.0 % (an assumption; --cv sets another)" in text
    assert "a difference of 3.7 % is detected in 8 of 10 runs" in " ".join(text.split())
    assert max(len(line) for line in text.split("\n")) <= 78


def test_the_outline_says_whose_the_variation_is_and_when_there_is_no_verdict():
    declared = experiment(BODY)
    few = experiment(BODY.replace("= 10", "= 2"))
    nothing = experiment(BODY.partition("[compare]")[0])

    assert "by 1.0 % (as --cv says)" in text_of(declared, 0.01)
    assert "no interval and no verdict" in text_of(few)
    assert "[compare] names no baseline" in text_of(nothing)


def test_the_outline_says_how_a_run_stops_or_grows_by_itself():
    until = BODY.replace("repetitions = 10", "until = { half_width = 0.02, at_most = 20 }")
    search = BODY.replace(
        "[compare]", '[compare]\ncrossover = { between = ["write", "sendfile"], at_most = 6 }'
    )

    stops, grows = (" ".join(text_of(experiment(body)).split()) for body in (until, search))

    assert "× 6 to 20 repetitions = at most 100 trials" in stops
    assert "every comparison is at most ± 2.0 % wide" in stops
    assert "at most 4 more levels of two cases each" in grows


def test_the_json_plan_says_the_same():
    declared = experiment(BODY)
    plan = make_plan(declared)

    document = json.loads(
        json.dumps(outline.to_json(declared, plan, detection_of(declared, plan, None)))
    )

    assert document["estimated_ns"] == plan.estimated_ns
    assert [trial["plan_key"] for trial in document["trials"]] == [
        trial.plan_key for trial in plan.trials
    ]
    assert document["experiment_id"] == declared.record().id
    assert document["detectable"]["source"] == "an assumption; --cv sets another"
    assert [twin["factors"]["twin"] for twin in document["twins"]] == [1]
    assert document["detectable"]["smallest_difference"] == pytest.approx(0.037, abs=0.0005)


@pytest.mark.parametrize(("is_blocked", "low", "high"), [(True, 0.03, 0.07), (False, 0.9, 1.0)])
def test_blocks_defeat_a_linear_drift_that_a_sequential_order_takes_for_an_effect(
    is_blocked, low, high
):
    """Rule A3: two identical cases, every trial 1 % above the one before, noise of 1 %."""
    generator = random.Random(3)
    alarms = 0
    for seed in range(1000):
        plan = plan_of(
            f'[factors]\napi = ["write", "send"]\n[measure]\nrepetitions = 10\n'
            f"seed = {seed}\naa = false\n"
        )
        order = [trial.plan_key for trial in plan.trials]
        values: dict[str, list[float]] = {case.plan_key: [] for case in plan.cases}
        for position, key in enumerate(order if is_blocked else sorted(order)):
            values[key].append(100 * (1 + 0.01 * position) * generator.gauss(1, 0.01))
        comparison = compare_paired(*values.values())
        (verdict,) = judge([comparison], ["higher"], matters=0.001)
        alarms += verdict.is_detectable

    assert low <= alarms / 1000 <= high
