"""An end that is a foreign process: counted from outside, ended with everything it forked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tools_support import make_job, make_options, needs_root, read_when_over, wait_until

from zcdb.errors import EngineError
from zcdb.tools import processes
from zcdb.tools.end import AbsentEnd, ToolEnd
from zcdb.tools.supervisor import PRIVATE_FOLDER

SPIN = "while True: pass"


def start(job, **options) -> ToolEnd:
    return ToolEnd(make_options(**options), job)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_a_job_does_not_run_before_it_is_told(tmp_path):
    mark = tmp_path / "ran"
    end = start(make_job("touch", str(mark), meter="whole", run_bytes=1))

    time.sleep(0.1)
    was_there = mark.exists()
    end.go()
    read_when_over(end)
    end.stop()

    assert not was_there
    assert mark.exists()


def test_a_whole_job_starts_only_after_the_ramp_and_counts_when_it_has_ended():
    end = start(make_job("true", meter="whole", run_bytes=4096), discard_ns=150_000_000)
    end.go()
    first = end.reading()
    began_ns = time.monotonic_ns()

    over = read_when_over(end)
    ending = end.stop()

    assert first["payload_bytes"] == 0
    assert over["payload_bytes"] == 4096
    assert ending.errors == []
    assert ending.report["started_ns"] - began_ns >= 140_000_000


def test_bytes_that_a_command_prints_are_found():
    def find(text: str) -> int | None:
        return int(text.split("moved ")[1]) if "moved " in text else None

    end = start(make_job("echo", "moved 1234567", meter="whole", printed_bytes=find))
    end.go()

    assert read_when_over(end)["payload_bytes"] == 1234567
    end.stop()


def test_a_command_that_prints_no_bytes_fails_with_its_last_words():
    end = start(make_job("echo", "nothing here", meter="whole", printed_bytes=lambda _: None))
    end.go()

    with pytest.raises(EngineError, match=r"command_bytes finds: nothing here"):
        wait_until(lambda: end.reading()["payload_bytes"] > 0, 5)
    end.kill()


def test_a_repeated_job_adds_up_what_its_runs_write():
    end = start(
        make_job("dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=3", meter="written",
                 is_repeated=True)
    )  # fmt: skip
    end.go()

    assert wait_until(lambda: end.reading()["payload_bytes"] > 10 << 20)
    ending = end.stop()

    assert ending.errors == []
    assert ending.report["runs"] >= 3
    # dd also reports on stderr, which is written too.
    assert ending.totals["payload_bytes"] >= ending.report["runs"] * (3 << 20)


def test_cpu_time_of_a_job_and_what_it_forks_is_counted():
    spin = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{SPIN}'])"
    end = start(make_job(sys.executable, "-c", spin))
    end.go()

    assert wait_until(lambda: end.reading()["cpu_time_ns"] > 100_000_000)
    end.kill()


def test_a_job_runs_on_its_cpus_only():
    cpu = min(os.sched_getaffinity(0))
    end = start(make_job("sleep", "60"), cpus=(cpu,))
    end.go()
    wait_until(lambda: end.reading()["streams_running"] == 1)
    running = next(pid for pid in processes.tree(end.pid) if pid != end.pid)

    assert os.sched_getaffinity(running) == {cpu}
    assert end.effective["cpus"] == [cpu]
    end.kill()


def test_a_failing_job_is_told_with_its_exit_code_and_last_line_of_stderr():
    end = start(make_job("sh", "-c", "echo a; echo first >&2; echo second >&2; exit 3"))
    end.go()

    with pytest.raises(
        EngineError, match=r"^command at the receiver ended with exit code 3: second$"
    ):
        wait_until(lambda: end.reading()["streams_running"] < 0, 5)
    end.kill()


def test_a_program_that_cannot_be_run_is_told():
    end = start(make_job("/nonexistent/program"))
    end.go()

    with pytest.raises(EngineError, match=r"exit code 127: /nonexistent/program: No such file"):
        wait_until(lambda: end.reading()["streams_running"] < 0, 5)
    end.kill()


def test_a_job_that_ends_before_the_window_is_an_error():
    end = start(make_job("true"))
    end.go()

    with pytest.raises(EngineError, match="ended by itself before the window did"):
        wait_until(lambda: end.reading()["streams_running"] < 0, 5)
    end.kill()


def test_a_whole_job_that_outlasts_the_window_is_an_error():
    end = start(make_job("sleep", "60", meter="whole", run_bytes=1))
    end.go()
    end.reading()
    wait_until(lambda: end.reading()["streams_running"] == 1)

    ending = end.stop()

    assert ending.errors == [
        "command at the receiver had not ended when the window did; make its duration longer"
    ]


def test_a_client_is_waited_for_and_its_output_kept():
    end = start(make_job("sh", "-c", "sleep 0.3; echo the result", run_s=1.0))
    end.go()

    ending = end.stop()

    assert ending.errors == []
    assert ending.report["output"] == "the result\n"
    assert ending.report["runs"] == 1


def test_a_server_that_does_not_listen_is_told_with_its_words(monkeypatch):
    monkeypatch.setattr("zcdb.tools.end.START_TIMEOUT_S", 3.0)

    with pytest.raises(EngineError, match=r"did not listen on port 9 within 3 s: sorry$"):
        start(make_job("sh", "-c", "echo sorry >&2; sleep 60", is_server=True, port=9))


def test_stopping_ends_what_the_job_forked():
    end = start(make_job("sh", "-c", "sleep 61 & sleep 62", is_repeated=True, meter="written"))
    end.go()
    wait_until(lambda: len(processes.tree(end.pid)) == 4)
    pids = processes.tree(end.pid)

    end.stop()

    assert len(pids) == 4
    assert wait_until(lambda: not any(map(is_running, pids)))


def test_the_file_placeholder_is_a_file_of_that_size(tmp_path):
    out = tmp_path / "size"
    end = start(
        make_job("sh", "-c", f"wc -c < $0 > {out}", "{file}", meter="whole", run_bytes=1,
                 file_bytes=70001)
    )  # fmt: skip
    end.go()
    read_when_over(end)
    end.stop()

    assert out.read_text().strip() == "70001"


def test_an_interface_counts_what_came_in():
    script = (
        "import socket, time\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "for _ in range(100): s.sendto(bytes(1000), ('127.0.0.1', 9)); time.sleep(.001)\n"
        "time.sleep(60)"
    )
    end = start(make_job(sys.executable, "-c", script, meter="interface"))
    before = end.reading()["payload_bytes"]
    end.go()

    assert before == 0
    assert wait_until(lambda: end.reading()["payload_bytes"] >= 100 * 1000)
    end.kill()


def test_an_interface_that_is_not_there_is_told():
    end = start(make_job("sleep", "60", meter="interface"), interface="nowhere0")

    with pytest.raises(EngineError, match="no interface 'nowhere0' at this end"):
        end.reading()
    end.kill()


@needs_root
def test_a_private_folder_is_the_jobs_alone_and_goes_with_it():
    look = f"cat {PRIVATE_FOLDER}/a/b; stat -c %s {PRIVATE_FOLDER}/c; ls -d {PRIVATE_FOLDER}/d"
    end = start(
        make_job(
            "sh",
            "-c",
            look,
            meter="whole",
            run_bytes=1,
            needs_private_folder=True,
            files={"a/b": "content\n", "c": 5003, "d/": ""},
        )
    )
    end.go()
    read_when_over(end)

    ending = end.stop()

    assert ending.report["output"] == f"content\n5003\n{PRIVATE_FOLDER}/d\n"
    assert not Path(PRIVATE_FOLDER, "a").exists()


PARENT = """
import sys
sys.path.insert(0, {tests!r})
from tools_support import make_job, make_options, wait_until
from zcdb.tools import processes
from zcdb.tools.end import ToolEnd
job = make_job("sh", "-c", "sleep 63; true", needs_private_folder={private})
end = ToolEnd(make_options(), job)
end.go()
wait_until(lambda: len(processes.tree(end.pid)) == 3 + {private})
print(*processes.tree(end.pid), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("private", [False, pytest.param(True, marks=needs_root)])
def test_a_job_dies_with_the_process_that_started_it(private):
    script = PARENT.format(tests=str(Path(__file__).parent), private=private)
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]
    assert len(pids) == 3 + private

    parent.send_signal(signal.SIGKILL)
    parent.communicate()

    # In a namespace of its own what the job forked ends too; elsewhere it dies with its pipe.
    expected = pids if private else pids[:2]
    assert wait_until(lambda: not any(map(is_running, expected)))
    for pid in pids:
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)


@needs_root
def test_a_private_job_that_is_killed_by_a_signal_is_told():
    end = start(make_job("sh", "-c", "kill -SEGV $$", needs_private_folder=True))
    end.go()

    with pytest.raises(EngineError, match=r"ended with exit code 128: killed by SIGSEGV$"):
        wait_until(lambda: end.reading()["streams_running"] < 0, 5)
    end.kill()


@needs_root
def test_a_private_job_is_not_the_process_that_inherits_orphans():
    # vsftpd, for one, breaks down when a process ends that it did not start.
    end = start(
        make_job("sh", "-c", "echo $$", meter="whole", run_bytes=1, needs_private_folder=True)
    )
    end.go()
    read_when_over(end)

    assert end.stop().report["output"] == "2\n"


def test_an_absent_end_counts_nothing():
    end = AbsentEnd()
    end.go()

    assert set(end.reading().values()) == {0}
    assert end.stop().errors == []
