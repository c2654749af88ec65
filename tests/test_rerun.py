"""`zcdb rerun`: what is planned, that it asks, and then and here side by side."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from runner_support import FakeBench, make_measured
from store_support import DemoIds, demo_database, make_case, make_run, make_start

from zcdb.cli.rerun import rerun_command
from zcdb.errors import UsageError
from zcdb.experiment import spec
from zcdb.experiment.plan import make_plan
from zcdb.factors import UNSTATED, plan_key
from zcdb.records import Environment, MetricValue
from zcdb.report.rerun import case_file, recorded
from zcdb.store import queries, write
from zcdb.store.session import open_database


class HereBench(FakeBench):
    """A bench on another machine than the demo's, with sendfile a little dearer."""

    def __init__(self, *arguments: object, **options: object) -> None:
        del arguments, options
        super().__init__(
            lambda factors, call: make_measured(
                24e9 + call * 1e7,
                measurements=[
                    MetricValue("throughput", "", 24e9 + call * 1e7),
                    MetricValue("service_demand_sender", "soak", 0.12 + call / 1000),
                ],
            )
        )

    def environments(self):
        environment = Environment({"kernel_release": "6.18.0", "cpus": 2})
        return {"sender": environment, "receiver": environment}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DemoIds]:
    path = tmp_path_factory.mktemp("rerun") / "demo.sqlite"
    return path, demo_database(path)


@pytest.fixture
def demo(
    original: tuple[Path, DemoIds], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, DemoIds]:
    monkeypatch.setattr("zcdb.runner.bench.LinkBench", HereBench)
    path, ids = original
    shutil.copytree(path.parent, tmp_path, dirs_exist_ok=True)
    return str(tmp_path / path.name), ids


def rerun(database: str, *arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(rerun_command, [*arguments, "--database", database], input=answer)


def runs_in(database: str) -> int:
    db = open_database(database)
    try:
        return len(queries.run_list(db).runs)
    finally:
        db.dispose()


def test_nothing_is_measured_before_you_agree(demo):
    database, ids = demo

    result = rerun(database, ids.ok_trial_id, answer="n\n")

    assert result.exit_code == 1
    assert f"Does trial {ids.ok_trial_id} measure the same here?" in result.stderr
    assert "1 cases × 5 repetitions = 5 trials over loopback" in result.stderr
    assert runs_in(database) == 2


def test_a_case_is_measured_again_and_shown_beside_what_it_was(demo):
    database, ids = demo
    case_id = ids.case_ids["sendfile", 65536]

    result = rerun(database, case_id, "--yes")

    assert result.exit_code == 0, result.stderr
    assert runs_in(database) == 3
    lines = {line[2:32].strip(): line[32:].split() for line in result.stdout.splitlines()}
    demand = lines["Service demand, sender soak"]
    assert demand[1:3] == ["us/KB", "10"]
    assert demand[-1] == "worse"
    assert "  kernel_release: 6.12.0 -> 6.18.0" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()) <= 78


def test_the_repetition_is_a_run_of_the_same_plan_key(demo):
    database, ids = demo
    case_id = ids.case_ids["sendfile", 4096]

    rerun(database, f"http://somewhere/cases/{case_id}", "--yes")

    db = open_database(database)
    newest = queries.run_list(db).runs[0]
    (case,) = queries.run_outcome(db, newest.id).cases
    db.dispose()
    assert case.plan_key == plan_key({"api": "sendfile", "message_size": 4096})
    assert newest.note == f"rerun of case {case_id}"


def test_a_run_is_repeated_whole_with_its_verdicts(demo):
    database, _ = demo
    db = open_database(database)
    text = (
        'name = "whole"\nquestion = "?"\n[factors]\napi = ["write", "sendfile"]\n[measure]\n'
        'repetitions = 3\naa = false\n[compare]\nbaseline = { api = "write" }\n'
    )
    experiment = spec.parse(text, "whole.toml")
    plan = make_plan(experiment)
    run = make_run(7, cases=plan.cases, repetitions=1)
    write.add_run(db, dataclasses.replace(run, experiment=experiment.record()))
    db.dispose()

    result = rerun(database, f"/runs/{run.id}", "--yes")

    assert result.exit_code == 0, result.stderr
    assert "service demand" in result.stdout.lower()
    assert "2 comparisons, judged together" in " ".join(result.stdout.split())
    assert "The machine of that time is not recorded." in result.stdout


def test_json_has_both_sides_and_what_differs(demo):
    database, ids = demo

    result = rerun(database, ids.case_ids["write", 65536], "--yes", "--json")

    document = json.loads(result.stdout)
    row = next(row for row in document["rows"] if row["metric"] == "throughput")
    assert (row["then"]["n"], row["here"]["n"]) == (10, 5)
    assert row["verdict"]["n_candidate"] == 5
    assert ["kernel_release", "6.12.0", "6.18.0"] in document["facts"]


def test_one_trial_has_no_verdict_but_a_ratio(demo):
    database, ids = demo

    result = rerun(database, ids.ok_trial_id, "--yes", "--json")

    rows = json.loads(result.stdout)["rows"]
    assert rows
    assert all(row["verdict"] is None and row["ratio"] > 0 for row in rows)


def test_a_foreign_command_is_shown_before_anything_else_happens(demo):
    database, _ = demo
    db = open_database(database)
    case = make_case(tool="command", command="dd if=/dev/zero", api="write")
    run = make_run(5, cases=(case,), repetitions=1)
    write.add_run(db, run)
    start = make_start(run, run.plan[0])
    write.start_trial(db, start)
    db.dispose()

    result = rerun(database, start.id, answer="\n")

    assert result.exit_code == 1
    assert "This runs a foreign command: dd if=/dev/zero" in result.stderr
    assert 'command = "dd if=/dev/zero"' not in result.stdout


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ("http://x/nics/e1000", "is not the address of a run, case, trial or experiment"),
        ("zz", "is not an id"),
        ("{environment}", "is nothing that can be measured again"),
    ],
)
def test_what_cannot_be_repeated_is_refused_in_a_sentence(demo, wanted, sentence):
    database, ids = demo
    db = open_database(database)

    with pytest.raises(UsageError, match=sentence):
        recorded(db, wanted.format(environment=ids.environment_id))
    db.dispose()


def test_every_factor_survives_the_way_into_a_file_and_back():
    declared = {
        "api": "sendfile",
        "link": "veth",
        "message_size": 4096,
        "working_set": "files=63;mean_size=358400;passes=10",
        "pinning": "sender=0;receiver=1-3",
        "tcp_cork": True,
        "ring.rx": 512,
        "sender.ring.tx": 256,
        "sender.sg": False,
        "sysctl.net.ipv4.tcp_rmem": "4096 16384 65536",
        "link_rate": 10**9,
    }
    factors = {**declared, "sender_kernel": "6.12", "receiver_nic": "veth"}

    text, notes = case_file(factors, "case 0123", {})

    (case,) = make_plan(spec.parse(text, "rerun.toml")).cases
    assert case.plan_key == plan_key(declared)
    assert notes == ()


def test_what_a_source_does_not_state_is_left_to_the_defaults_and_said():
    text, notes = case_file(
        {"api": "write", "streams": UNSTATED, "message_size": UNSTATED}, "case 01", {}
    )

    assert notes == ("The source does not state: Streams, Message size; zcdb's defaults are used.",)
    assert make_plan(spec.parse(text, "rerun.toml")).cases[0].factors["streams"] == 1


@pytest.mark.parametrize(
    ("factors", "sentence"),
    [
        ({"message_size": 1}, "does not say how the sender moves bytes"),
        ({"api": "write", "link": "hosts"}, "between two machines that its record does not name"),
    ],
)
def test_a_case_that_cannot_be_declared_is_refused(factors, sentence):
    with pytest.raises(UsageError, match=sentence):
        case_file(factors, "case 01", {})


def test_hosts_come_from_the_experiment_that_measured_them():
    link = {
        "kind": "hosts",
        "sender": {"ssh": "a", "interface": "eth1"},
        "receiver": {"ssh": "b", "interface": "eth2"},
    }

    text, _ = case_file({"api": "write", "link": "hosts"}, "case 01", {"link": link})

    parsed = spec.parse(text, "rerun.toml").link
    assert (parsed.sender.ssh, parsed.receiver.interface) == ("a", "eth2")
