"""`zcdb run` as a person uses it: real bytes over loopback and veth, killed, resumed, refused."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from run_support import EXPERIMENT, Zcdb
from runner_support import FakeBench, SilentProgress, make_execution, make_measured

from zcdb.cli.run import StoreRecorder
from zcdb.runner.execute import execute
from zcdb.store.session import opened

pytestmark = pytest.mark.measures

KILLS = int(os.environ.get("ZCDB_TEST_KILLS", "4"))
"""How often the run is killed; twenty is the full test."""


@pytest.fixture
def zcdb(tmp_path):
    command = Zcdb(tmp_path)
    yield command
    command.close()


def finals(zcdb):
    """Final attempts by planned repetition, and how many attempts were interrupted."""
    rows = zcdb.query("SELECT plan_key, repetition, status, reason FROM trials")
    final = {}
    for plan_key, repetition, status, reason in rows:
        if reason != "interrupted":
            final.setdefault((plan_key, repetition), []).append(status)
    return final, sum(reason == "interrupted" for *_, reason in rows)


def test_a_run_measures_records_and_answers(zcdb):
    result = zcdb.run("run", "--wait", zcdb.write())

    assert result.returncode == 0, result.stderr
    assert "Service demand, sender" in result.stdout
    assert "[4/4]" in result.stderr
    final, _ = finals(zcdb)
    assert list(final.values()) == [["ok"]] * 4
    assert zcdb.wait_until_gone() == []


def test_every_metric_has_a_value_or_a_reason(zcdb):
    zcdb.run("run", "--wait", zcdb.write(repetitions=1))

    rows = zcdb.query("SELECT metric, method, n FROM measurements")

    measured = {(metric, method) for metric, method, n in rows if n}
    for end in ("sender", "receiver"):
        for method in ("soak", "soak_work", "procstat", "rusage"):
            assert (f"service_demand_{end}", method) in measured
            assert (f"utilisation_{end}", method) in measured
    assert ("throughput", "") in measured
    reasons = zcdb.json("show", zcdb.query("SELECT public_id FROM trials LIMIT 1")[0][0])
    assert "gives no notice of completion" in str(reasons)


@pytest.mark.net
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_veth_link_needs_nothing_prepared_and_leaves_nothing(zcdb):
    before = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True)

    result = zcdb.run("run", "--wait", zcdb.write(link="veth", repetitions=1))

    after = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True)
    assert result.returncode == 0, result.stderr
    assert finals(zcdb)[0].values()
    nics = zcdb.query(
        "SELECT DISTINCT value FROM case_factors JOIN trials USING (case_id)"
        " WHERE factor = 'sender_nic'"
    )
    assert [value for (value,) in nics] == ["veth"]
    probed = zcdb.query(
        "SELECT DISTINCT value, state FROM claims WHERE subject = 'veth' AND capability = 'sg'"
        " AND source_kind = 'probed'"
    )
    assert probed == [("yes", "on")]
    assert after.stdout == before.stdout
    assert zcdb.wait_until_gone() == []


def test_kill_9_at_random_moments_and_resume_ends_with_one_final_attempt_each(zcdb):
    repetitions = 3 * KILLS
    path = zcdb.write(repetitions=repetitions)
    rng = random.Random(20010127)
    # The first kill may come before the run is recorded; then there is nothing to resume.
    arguments = ["run", "--wait", path]
    for _ in range(KILLS):
        process = zcdb.start(*arguments)
        time.sleep(rng.uniform(0.3, 8.0))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert zcdb.wait_until_gone() == []
        if zcdb.database.exists() and zcdb.query("SELECT 1 FROM sqlite_master WHERE name='runs'"):
            recorded = zcdb.query("SELECT outcome FROM runs")
            arguments = ["run", "--wait", path, *(["--resume"] if recorded else [])]
            assert recorded in ([], [("running",)]), "the plan is too short for this machine"

    result = zcdb.run(*arguments, timeout_s=280)

    assert result.returncode == 0, result.stderr
    final, interrupted = finals(zcdb)
    assert list(final.values()) == [["ok"]] * 2 * repetitions
    assert interrupted <= KILLS
    assert zcdb.query("SELECT count(*) FROM runs") == [(1,)]
    assert zcdb.query("SELECT outcome FROM runs") == [("finished",)]
    assert zcdb.wait_until_gone() == []
    # Shown with -rP: how often a trial was really cut short.
    print(f"{KILLS} kills, {interrupted} trials interrupted, {len(final)} repetitions final")


def test_ctrl_c_ends_in_order_and_says_how_to_go_on(zcdb):
    path = zcdb.write(repetitions=6)
    process = zcdb.start("run", "--wait", path)
    after_the_first_trial(process)

    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)

    assert process.returncode == 1
    assert "--resume" in errors
    assert "Traceback" not in errors
    assert zcdb.query("SELECT outcome FROM runs") == [("interrupted",)]
    assert zcdb.query("SELECT count(*) FROM trials WHERE status = 'running'") == [(0,)]
    assert zcdb.wait_until_gone() == []


def test_resume_without_an_unfinished_run_is_refused(zcdb):
    result = zcdb.run("run", "--wait", zcdb.write(), "--resume")

    assert result.returncode == 2
    assert "no unfinished run" in result.stderr


def after_the_first_trial(process):
    """Wait until a run has recorded one trial."""
    for line in process.stderr:
        if line.startswith("[1/"):
            return


def signal_endpoint(zcdb, names, number):
    """Wait for an endpoint process of one of these names, and send it a signal."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for pid in zcdb.processes():
            try:
                name = Path(f"/proc/{pid}/comm").read_text().strip()
            except OSError:
                continue
            if name in names:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
                    return name
    raise AssertionError(f"no process called {names} was seen")


def test_a_killed_endpoint_fails_its_trial_and_the_next_one_runs(zcdb):
    process = zcdb.start("run", "--wait", zcdb.write(repetitions=3))
    after_the_first_trial(process)

    signal_endpoint(zcdb, ("zcdb-sender",), signal.SIGKILL)
    _, errors = process.communicate(timeout=120)

    assert process.returncode == 3, errors
    reasons = zcdb.query("SELECT reason FROM trials WHERE status = 'failed'")
    assert len(reasons) == 1
    assert "the sender" in reasons[0][0]
    assert "killed by SIGKILL" in reasons[0][0]
    assert zcdb.query("SELECT count(*) FROM trials WHERE status = 'ok'") == [(5,)]


def test_a_hung_peer_fails_its_trial_and_the_next_one_runs(zcdb):
    # A window that is long beside the start: the receiver is stopped inside it, not at its end.
    text = EXPERIMENT.replace('"200ms"', '"2s"')
    process = zcdb.start("run", "--wait", zcdb.write(text, repetitions=2))
    after_the_first_trial(process)

    signal_endpoint(zcdb, ("zcdb-receiver",), signal.SIGSTOP)
    _, errors = process.communicate(timeout=240)

    assert process.returncode == 3, errors
    reasons = zcdb.query("SELECT reason FROM trials WHERE status = 'failed'")
    assert len(reasons) == 1
    assert zcdb.query("SELECT count(*) FROM trials WHERE status = 'ok'") == [(3,)]
    assert zcdb.wait_until_gone() == []


def test_two_runs_on_one_host_do_not_measure_at_once(zcdb):
    # Long enough: on a busy machine the first run's isolated load leaves the second little time.
    path = zcdb.write(repetitions=100)
    first = zcdb.start("run", "--wait", path)
    after_the_first_trial(first)

    second = zcdb.run("run", path)

    assert second.returncode == 4
    assert "another run measures on this machine" in second.stderr
    assert "tiny" in second.stderr
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=60)


def test_a_second_run_can_wait_for_the_first(zcdb):
    first = zcdb.start("run", "--wait", zcdb.write(repetitions=1))
    after_the_first_trial(first)

    second = zcdb.run("run", "--wait", zcdb.write(repetitions=1))

    assert second.returncode == 0, second.stderr
    first.communicate(timeout=60)
    assert zcdb.query("SELECT outcome FROM runs") == [("finished",), ("finished",)]


def test_verify_compares_every_byte(zcdb):
    text = EXPERIMENT.replace("[measure]", "[fixed]\nverify = true\n\n[measure]")

    result = zcdb.run("run", "--wait", zcdb.write(text, repetitions=1))

    assert result.returncode == 0, result.stderr
    assert list(finals(zcdb)[0].values()) == [["ok"], ["ok"]]


def test_a_case_that_cannot_run_is_recorded_with_the_reason_and_the_rest_runs(zcdb):
    text = EXPERIMENT.replace(
        'api = ["write", "sendfile"]', 'api = ["write", "sendmsg"]\nfragments = [1, 4]'
    )

    result = zcdb.run("run", "--wait", zcdb.write(text, repetitions=1))

    assert result.returncode == 0, result.stderr
    reasons = zcdb.query("SELECT reason FROM trials WHERE status = 'unsupported'")
    assert len(reasons) == 1
    assert "needs sendmsg" in reasons[0][0]


def test_require_all_stops_before_anything_is_recorded(zcdb):
    text = EXPERIMENT.replace(
        'api = ["write", "sendfile"]', 'api = ["write", "sendmsg"]\nfragments = [1, 4]'
    )

    result = zcdb.run("run", "--wait", zcdb.write(text, repetitions=1), "--require-all")

    assert result.returncode == 4
    assert "1 of 4 cases cannot run here" in result.stderr
    assert zcdb.query("SELECT count(*) FROM runs") == [(0,)]


def test_if_no_case_can_run_the_exit_code_says_so(zcdb):
    text = EXPERIMENT.replace("[measure]", '[fixed]\nrx_api = "zerocopy_receive"\n\n[measure]')

    result = zcdb.run("run", "--wait", zcdb.write(text, repetitions=1))

    assert result.returncode == 4
    assert "unsupported" in result.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('api = ["write"', 'api = [["write"'), "tiny.toml"),
        (("repetitions = ", "repetitons = "), "repetitions"),
        (('"sendfile"', '"sendfiel"'), "sendfile"),
        (('api = ["write", "sendfile"]', 'api = "write"\nmessage_size = "17M"'), "message_size"),
    ],
)
def test_a_bad_file_is_one_message_with_the_place_and_exit_code_2(zcdb, change, words):
    result = zcdb.run("run", "--wait", zcdb.write(EXPERIMENT.replace(*change)))

    assert result.returncode == 2
    assert "tiny.toml" in result.stderr
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_an_unknown_name_lists_what_is_near(zcdb):
    result = zcdb.run("run", "--wait", "quickstrat")

    assert result.returncode == 2
    assert "quickstart" in result.stderr


def test_a_dry_run_prints_the_plan_and_touches_nothing(zcdb):
    result = zcdb.run("run", "--wait", zcdb.write(), "--dry-run")

    assert result.returncode == 0
    assert "sendfile" in result.stdout
    assert not zcdb.database.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small file system")
def test_a_full_disk_stops_the_run_with_one_sentence_and_loses_nothing(zcdb, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    path = zcdb.write(repetitions=200)
    script = (
        f"mount -t tmpfs -o size=1000k small {small} || exit 99;"
        f"{sys.executable} -m zcdb run --wait {path} --database {small}/full.sqlite; code=$?;"
        f"cp {small}/full.sqlite* {tmp_path}; exit $code"
    )

    result = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=280,
        env=zcdb.environment,
        check=False,
    )

    if result.returncode == 99:
        pytest.skip("this machine may not mount a tmpfs")
    assert result.returncode == 1, result.stderr
    assert "Traceback" not in result.stderr
    assert "full" in result.stderr.splitlines()[-2] + result.stderr.splitlines()[-1]
    zcdb.database = tmp_path / "full.sqlite"
    done = result.stderr.count("us/KB")
    assert zcdb.query("PRAGMA integrity_check") == [("ok",)]
    assert zcdb.query("SELECT count(*) FROM trials WHERE status = 'ok'") == [(done,)]
    assert zcdb.wait_until_gone() == []


def test_two_runs_and_a_serving_site_use_one_database_at_once(zcdb):
    real = zcdb.start("run", "--wait", zcdb.write(repetitions=3))
    after_the_first_trial(real)
    site = zcdb.start("serve", "--port", "0")
    url = next(line for line in site.stdout if line.startswith("http")).strip()
    pages = []

    def script(factors, call):
        with urllib.request.urlopen(url, timeout=60) as page:  # noqa: S310 (our own server)
            pages.append(page.status)
        return make_measured()

    with opened(zcdb.database) as store:
        fake = execute(
            make_execution(repetitions=10),
            FakeBench(script),
            StoreRecorder(store),
            SilentProgress(),
        )
    _, errors = real.communicate(timeout=120)
    site.send_signal(signal.SIGINT)
    site.communicate(timeout=60)

    assert real.returncode == 0, errors
    assert fake.counts["ok"] == 20
    assert pages == [200] * 20
    assert zcdb.query("SELECT outcome, count(*) FROM runs GROUP BY 1") == [("finished", 2)]
    assert zcdb.query("SELECT count(*) FROM trials WHERE status = 'ok'") == [(26,)]
