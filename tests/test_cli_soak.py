"""zcdb soak: exit codes, the shape of its output, and whose output goes where."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from zcdb.engine.measure import take_lock
from zcdb.host.procstat import usable_cpus

ZCDB = [sys.executable, "-m", "zcdb"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ZCDB, "soak", "--wait", *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def test_while_another_measurement_runs_it_says_who_measures():
    lock = take_lock(is_waiting=True)
    try:
        result = subprocess.run([*ZCDB, "soak"], capture_output=True, text=True, check=False)
    finally:
        lock.release()

    assert result.returncode == 4
    assert result.stderr.splitlines()[0] == (
        f"Error: another measurement runs on this machine: zcdb soak, process {os.getpid()}"
    )


@pytest.mark.measures
def test_the_live_view_prints_a_line_for_each_second_and_ends():
    result = run("--seconds", "1.2")

    assert result.returncode == 0, result.stderr
    heading, first, last = result.stdout.splitlines()
    assert heading.split()[:2] == ["seconds", "free"]
    assert first.split()[0] == "1.0"
    assert f"of {len(usable_cpus())}" in last


@pytest.mark.measures
def test_the_live_view_as_json_is_one_object_a_line():
    result = run("--seconds", "0.3", "--json")

    (line,) = result.stdout.splitlines()
    view = json.loads(line)
    assert [cpu["cpu"] for cpu in view["cpus"]] == usable_cpus()
    for cpu in view["cpus"]:
        shares = (cpu[f"{name}_share"] for name in ("free", "task", "interrupt", "steal"))
        assert sum(shares) == pytest.approx(1.0)
    assert view["free_cpus"] == pytest.approx(sum(cpu["free_share"] for cpu in view["cpus"]))


@pytest.mark.measures
def test_ctrl_c_ends_the_live_view_and_its_soakers():
    with subprocess.Popen(
        [*ZCDB, "soak", "--wait"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as live:
        assert live.stdout is not None
        live.stdout.readline()
        live.stdout.readline()
        children = Path(f"/proc/{live.pid}/task/{live.pid}/children").read_text().split()

        live.send_signal(signal.SIGINT)
        code = live.wait(timeout=60)
        live.communicate()

    assert code == 0
    assert len(children) == len(usable_cpus())
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)


@pytest.mark.measures
def test_a_commands_output_and_exit_code_are_passed_on():
    result = run("--", "sh", "-c", "echo out; echo err >&2; exit 7")

    assert result.returncode == 7
    assert result.stdout.splitlines()[0] == "out"
    assert "err" in result.stderr
    for method in ("soak", "soak_work", "procstat", "rusage"):
        assert f"  {method} " in result.stdout


@pytest.mark.measures
def test_a_commands_options_are_its_own():
    result = run("sh", "-c", "exit $#", "name", "--json", "--help")

    assert result.returncode == 2


@pytest.mark.measures
def test_as_json_the_commands_own_output_goes_to_standard_error():
    result = run("--json", "--", "sh", "-c", "echo out; exit 3")

    assert result.returncode == 3
    assert "out" in result.stderr
    cost = json.loads(result.stdout)
    assert cost["command"] == ["sh", "-c", "echo out; exit 3"]
    assert cost["exit_code"] == 3
    assert cost["window_ns"] > 0
    assert cost["cpu_count"] == len(usable_cpus())
    assert list(cost["methods"]) == ["soak", "soak_work", "procstat", "rusage"]
    assert [cpu["cpu"] for cpu in cost["cpus"]] == usable_cpus()


@pytest.mark.measures
def test_a_busy_commands_cpu_time_is_in_every_method():
    burn = "import time\nwhile time.process_time() < 0.5: pass"

    cost = json.loads(run("--json", "--", sys.executable, "-c", burn).stdout)

    assert cost["methods"]["rusage"]["cpu_time_ns"] >= 500_000_000
    assert cost["window_ns"] >= 500_000_000
    # On a machine so busy that a soaker never runs in a bracket there is a reason instead.
    for method in cost["methods"].values():
        assert (method["cpu_time_ns"] is None) == (method["reason"] is not None)


@pytest.mark.measures
def test_a_command_that_a_signal_ends_gives_128_and_its_number():
    result = run("--", "sh", "-c", "kill -TERM $$")

    assert result.returncode == 128 + signal.SIGTERM


@pytest.mark.measures
def test_ctrl_c_reaches_the_command_and_its_figures_are_still_printed():
    with subprocess.Popen(
        [*ZCDB, "soak", "--wait", "--json", "--", "sh", "-c", "echo ready >&2; exec sleep 60"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as measuring:
        assert measuring.stderr is not None
        measuring.stderr.readline()

        os.killpg(measuring.pid, signal.SIGINT)
        out, _ = measuring.communicate(timeout=200)

    assert measuring.returncode == 128 + signal.SIGINT
    assert json.loads(out)["exit_code"] == 128 + signal.SIGINT


def test_an_unknown_command_gives_127_and_one_sentence():
    result = run("--", "no-such-command-here")

    assert result.returncode == 127
    assert result.stderr.splitlines()[0] == "Error: no-such-command-here: command not found"
    assert result.stdout == ""


def test_a_file_that_is_no_program_gives_126(tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("hello")

    result = run("--", str(plain))

    assert result.returncode == 126
    assert result.stderr.splitlines()[0] == f"Error: {plain}: not an executable file"


@pytest.mark.measures
def test_a_program_that_the_kernel_refuses_gives_126(tmp_path):
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x01\x02")
    broken.chmod(0o755)

    result = run("--", str(broken))

    assert result.returncode == 126
    assert result.stderr.splitlines()[0] == f"Error: {broken}: cannot be run: Exec format error"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--cpus", "x"], 2, "Error: --cpus: 'x' in 'x' is not a CPU or a range of CPUs"),
        (["--cpus", "9999"], 4, "Error: no soaker can run on CPU 9999: Invalid argument"),
        (["--self-test", "true"], 2, "Error: --self-test takes no command, --seconds or --cpus"),
        (
            ["--seconds", "1", "true"],
            2,
            "Error: --seconds is for the live view; a command ends by itself",
        ),
    ],
)
def test_wrong_usage_is_one_sentence(arguments, code, message):
    result = run(*arguments)

    assert result.returncode == code
    assert result.stderr.splitlines()[0] == message
    assert "Traceback" not in result.stderr


@pytest.mark.measures
def test_the_self_test_reports_the_errors_of_every_method_at_every_load():
    result = run("--self-test", "--json")

    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["cpu"] in usable_cpus()
    assert [load["duty"] for load in report["loads"]] == [0.0, 0.10, 0.25, 0.50, 0.90]
    for load in report["loads"]:
        assert set(load["error_points"]) == {"soak", "soak_work", "procstat", "rusage"}
        for method, error in load["error_points"].items():
            expected = 100 * (load["shares"][method] - load["true_share"])
            assert error == pytest.approx(expected)
        assert load["is_contaminated"] == ("contaminated" in load["flags"])
        assert load["is_disturbed"] >= load["is_contaminated"]
