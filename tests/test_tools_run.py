"""Real trials with real tools, from the experiment file to the stored record."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_support import Zcdb
from tools_support import needs, needs_root, wait_until

EXPERIMENT = """
name = "tools"
question = "Does it run?"

[fixed]
{fixed}

[link]
kind = "{link}"

[measure]
repetitions = 1
duration = "{duration}"
discard = "200ms"
sample = "50ms"
bracket = "100ms"
"""

SENDER = (
    "import socket, sys; s = socket.create_connection((sys.argv[1], int(sys.argv[2])));"
    " b = bytes(65536)\n"
    "while True: s.sendall(b)"
)


@pytest.fixture
def zcdb(tmp_path: Path) -> Iterator[Zcdb]:
    made = Zcdb(tmp_path)
    yield made
    made.close()


class Trial:
    """The one trial of a run, as it was stored."""

    def __init__(self, zcdb: Zcdb) -> None:
        ((self.status, self.reason, counts),) = zcdb.query(
            "SELECT t.status, t.reason, d.counts_json"
            " FROM trials t LEFT JOIN trial_details d ON d.trial_id = t.id"
        )
        self.counts = json.loads(counts) if counts else {}
        self.values = {
            (metric, method): mean
            for metric, method, mean in zcdb.query("SELECT metric, method, mean FROM measurements")
        }
        self.flags = {code for (code,) in zcdb.query("SELECT code FROM flags")}


def run(
    zcdb: Zcdb, fixed: str, *, link: str = "loopback", duration: str = "500ms", code: int = 0
) -> Trial:
    path = zcdb.folder / "tools.toml"
    path.write_text(EXPERIMENT.format(fixed=fixed, link=link, duration=duration))

    result = zcdb.run("run", path, "--wait", timeout_s=280)

    assert result.returncode == code, result.stdout + result.stderr
    return Trial(zcdb)


def assert_measured(trial: Trial) -> None:
    """Bytes arrived, and both ends' CPU time was seen by the soakers and by the clocks."""
    assert (trial.status, trial.reason) == ("ok", None)
    assert trial.values["throughput", ""] > 1e6
    for end in ("sender", "receiver"):
        assert trial.values[f"service_demand_{end}", "rusage"] > 0
        assert trial.values[f"service_demand_{end}", "soak"] is not None
    assert trial.values["call_rate", ""] is None


@pytest.mark.net
@needs("iperf3")
@pytest.mark.parametrize(
    ("link", "api", "streams"), [("loopback", "write", 2), ("veth", "sendfile", 1)]
)
def test_iperf3_runs_a_case_under_our_window(zcdb, link, api, streams):
    trial = run(zcdb, f'tool = "iperf3"\napi = "{api}"\nstreams = {streams}', link=link)

    assert_measured(trial)
    tool = trial.counts["tool"]
    assert tool["report"]["tool"] == "iperf3"
    # All that it says it moved went through its sockets: the two counts are independent.
    assert tool["comparison"]["ratio"] == pytest.approx(1, abs=0.1)
    assert ("-Z" in tool["ends"]["sender"]["command"]) == (api == "sendfile")
    assert trial.counts["effective"]["receiver"]["receive_size"] == 65536
    assert "effective-differs" in trial.flags
    assert trial.counts["window"]["sender"]["tcp_segs_out"] > 0


@pytest.mark.net
@needs("netperf", "netserver")
@pytest.mark.parametrize("api", ["send", "sendfile"])
def test_netperf_runs_a_stream(zcdb, api):
    trial = run(zcdb, f'tool = "netperf"\napi = "{api}"')

    assert_measured(trial)
    assert trial.counts["tool"]["comparison"]["ratio"] == pytest.approx(1, abs=0.1)


@pytest.mark.net
@needs("netperf", "netserver")
def test_netperf_runs_an_exchange(zcdb):
    trial = run(zcdb, 'tool = "netperf"\napi = "send"\ntest = "rr"\nrequest_size = 100')

    assert trial.status == "ok"
    assert trial.values["transaction_rate", ""] > 100
    assert trial.values["transaction_demand_client", "rusage"] > 0
    assert trial.values["throughput", ""] is None
    assert trial.counts["tool"]["comparison"]["ratio"] == pytest.approx(1, abs=0.1)
    assert trial.counts["tool"]["report"]["metrics"]["latency_p50"] > 0


@pytest.mark.net
@needs_root
@needs("ganesha.nfsd", "nfs-cat")
@pytest.mark.parametrize(("link", "rsize"), [("loopback", ""), ("veth", "rsize = '32K'")])
def test_a_file_is_read_over_nfs(zcdb, link, rsize):
    fixed = f'tool = "nfs"\napi = "nfs_read"\nworking_set = "4M"\n{rsize}'

    # A lost segment at the end of a reply stalls the exchange for up to a second.
    trial = run(zcdb, fixed, link=link, duration="2s")

    assert_measured(trial)
    assert trial.counts["effective"]["receiver"]["rsize"] == (32768 if rsize else 1 << 20)
    runs = trial.counts["tool"]["ends"]["receiver"]["runs"]
    assert runs > 0
    # What the client wrote is what is in the file, and not a byte of the protocol.
    assert trial.counts["totals"]["receiver"]["payload_bytes"] // (4 << 20) in (runs, runs + 1)
    assert trial.values["sent_throughput", ""] is None
    assert trial.values["proven_zero_copy_share", ""] is None
    assert "proof-unknown" in trial.flags


@pytest.mark.net
@needs_root
@needs("vsftpd", "curl")
@pytest.mark.parametrize(("link", "api"), [("loopback", "sendfile"), ("veth", "read_write")])
def test_a_file_is_fetched_over_ftp(zcdb, link, api):
    fixed = f'tool = "vsftpd"\napi = "{api}"\nworking_set = "8M"'

    trial = run(zcdb, fixed, link=link, duration="2s")

    assert_measured(trial)
    assert "8388608 bytes" in trial.counts["tool"]["ends"]["receiver"]["errors"]


@pytest.mark.net
def test_any_command_sends_to_our_own_receiver(zcdb):
    command = json.dumps(f'{sys.executable} -c "{SENDER}" {{address}} {{port}}')

    trial = run(zcdb, f'tool = "command"\napi = "send"\ncommand = {command}')

    assert trial.status == "ok"
    assert trial.values["throughput", ""] > 1e6
    # Our receiver counts its calls; the sender's cannot be seen.
    assert trial.counts["window"]["receiver"]["calls"] > 0
    assert "calls" not in trial.counts["window"]["sender"]


@pytest.mark.net
def test_a_command_with_declared_bytes_is_measured_whole(zcdb):
    command = "dd if=/dev/zero of=/dev/null bs=64K count=1000"

    trial = run(
        zcdb,
        f'tool = "command"\napi = "read_write"\nreceiver_command = "{command}"\n'
        'command_bytes = "62.5M"',
        duration="2s",
    )

    assert trial.status == "ok"
    report = trial.counts["tool"]["ends"]["receiver"]
    run_ns = report["ended_ns"] - report["started_ns"]
    assert trial.values["throughput", ""] == pytest.approx(65536000 * 8e9 / run_ns)
    assert trial.counts["window"]["receiver"]["payload_bytes"] == 65536000
    assert trial.values["service_demand_sender", "rusage"] is None


@pytest.mark.net
def test_a_command_that_fails_fails_its_trial_with_its_last_words(zcdb):
    command = "sh -c 'echo no such thing >&2; exit 2'"

    trial = run(zcdb, f'tool = "command"\napi = "send"\ncommand = "{command}"', code=3)

    assert trial.status == "failed"
    assert trial.reason == "command at the sender ended with exit code 2: no such thing"


@pytest.mark.net
def test_a_command_that_is_not_there_makes_the_case_unsupported(zcdb):
    trial = run(zcdb, 'tool = "command"\napi = "send"\ncommand = "no-such-program"', code=4)

    assert trial.status == "unsupported"
    assert trial.reason == (
        "the program no-such-program of the sender's command is not installed here"
    )


@pytest.mark.net
@needs_root
@needs("ganesha.nfsd", "nfs-cat")
def test_killing_the_run_leaves_no_server_behind(zcdb):
    path = zcdb.folder / "tools.toml"
    fixed = 'tool = "nfs"\napi = "nfs_read"'
    path.write_text(EXPERIMENT.format(fixed=fixed, link="veth", duration="20s"))
    process = zcdb.start("run", path, "--wait")

    def is_serving() -> bool:
        return any(_name(pid) == "ganesha.nfsd" for pid in zcdb.processes())

    assert wait_until(is_serving, 60)
    time.sleep(0.5)

    os.kill(process.pid, signal.SIGKILL)
    process.communicate()

    assert zcdb.wait_until_gone() == []


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""
