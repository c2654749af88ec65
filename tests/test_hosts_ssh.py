"""Ends on machines behind ssh: measured, refused, killed, and left as they were found."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path
from string import Template

import hosts_support
import pytest
from hosts_support import SshWorld, TwoNamespaces
from run_support import Zcdb

from zcdb.agent.client import AgentClient
from zcdb.errors import AgentError

MISSING = hosts_support.missing()
KILLS = int(os.environ.get("ZCDB_TEST_KILLS", "4"))
"""How often a run with changed settings is killed; fifty is the full test."""

pytestmark = [
    pytest.mark.measures,
    pytest.mark.skipif(MISSING is not None, reason=MISSING or ""),
]
needs_namespaces = [
    pytest.mark.net,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for named network namespaces"),
    pytest.mark.skipif(
        any(shutil.which(tool) is None for tool in ("ip", "ethtool", "tc", "sysctl")),
        reason="needs iproute2, ethtool and procps",
    ),
]

EXPERIMENT = Template("""
name = "distant"
question = "Does it run over ssh?"

[factors]
api = ["write", "sendfile"]
$factors

[link]
kind = "hosts"
sender = { ssh = "$sender", interface = "${interface}0" }
receiver = { ssh = "$receiver", interface = "${interface}1" }
$link

[measure]
repetitions = $repetitions
duration = "200ms"
discard = "100ms"
sample = "50ms"
bracket = "100ms"
aa = false

[compare]
baseline = { api = "write" }
""")


def write(zcdb, **changes):
    """Write an experiment between two machines behind ssh, and return its path."""
    values = {"sender": "alpha", "receiver": "beta", "interface": "lo", "link": "", "factors": ""}
    text = EXPERIMENT.substitute({**values, "repetitions": 2, **changes})
    path = zcdb.folder / "distant.toml"
    path.write_text(text.replace('"lo0"', '"lo"').replace('"lo1"', '"lo"'))
    return path


@pytest.fixture
def zcdb(tmp_path):
    command = Zcdb(tmp_path)
    yield command
    command.close()


@pytest.fixture
def world(zcdb, tmp_path):
    """Sshd on loopback, as the machines "alpha" and "beta"."""
    marked = {name: zcdb.environment[name] for name in ("ZCDB_STATE", "ZCDB_TEST_MARK")}
    world = SshWorld(tmp_path / "ssh", marked)
    zcdb.environment["ZCDB_SSH_CONFIG"] = str(world.config)
    world.add_loopback("alpha", "beta")
    yield world
    world.close()


@pytest.fixture
def lab(zcdb, world):
    """Two machines with a card each: named namespaces, and ssh to both."""
    lab = TwoNamespaces()
    world.add_namespace("left", lab.names["sender"])
    world.add_namespace("right", lab.names["receiver"])
    yield lab
    lab.close()


def write_for_lab(zcdb, **changes):
    return write(zcdb, sender="left", receiver="right", interface="lan", **changes)


SETTINGS = """offloads = [
    { sg = false, tx_checksum = false, mtu = 9000 },
    { tcp_wmem = "4096 16384 65536" },
]"""


def statuses(zcdb):
    return sorted(status for (status,) in zcdb.query("SELECT status FROM trials"))


def after_the_first_trial(process):
    seen = []
    for line in process.stderr:
        if line.startswith("[1/"):
            return
        seen.append(line)
    raise AssertionError("the run ended before its first trial: " + "".join(seen))


# -- measuring --------------------------------------------------------------------------------


def test_two_ends_behind_ssh_are_measured_like_any_others(zcdb, world):
    result = zcdb.run("run", "--wait", write(zcdb))

    assert result.returncode == 0, result.stderr
    assert statuses(zcdb) == ["ok"] * 4
    links = zcdb.query(
        "SELECT DISTINCT value FROM case_factors JOIN trials USING (case_id) WHERE factor = 'link'"
    )
    assert links == [("hosts",)]
    # Both are on this one machine, and that is seen, not assumed.
    assert ("ends-share-host",) in zcdb.query("SELECT DISTINCT code FROM flags")
    assert zcdb.wait_until_gone() == []


def test_one_end_here_and_one_behind_ssh(zcdb, world):
    result = zcdb.run("run", "--wait", write(zcdb, sender=".", repetitions=1))

    assert result.returncode == 0, result.stderr
    assert statuses(zcdb) == ["ok"] * 2


def test_data_ports_come_from_the_stated_range(zcdb, world):
    path = write(zcdb, link='ports = "45300-45303"', repetitions=1)

    result = zcdb.run("run", "--wait", path)

    assert result.returncode == 0, result.stderr
    assert statuses(zcdb) == ["ok"] * 2


@pytest.mark.usefixtures("lab")
class TestLab:
    """Two machines with a card each."""

    pytestmark = needs_namespaces

    def test_settings_of_both_machines_are_made_and_put_back(self, zcdb, lab):
        before = lab.outside_view()

        result = zcdb.run("run", "--wait", write_for_lab(zcdb, factors=SETTINGS, repetitions=1))

        assert result.returncode == 0, result.stderr
        assert statuses(zcdb) == ["ok"] * 4
        assert lab.outside_view() == before
        assert zcdb.wait_until_gone() == []

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    def test_whatever_ends_the_runner_the_agents_put_settings_back(self, zcdb, lab, number):
        before = lab.outside_view()
        process = zcdb.start("run", "--wait", write_for_lab(zcdb, factors=SETTINGS, repetitions=50))
        after_the_first_trial(process)

        process.send_signal(number)
        process.communicate(timeout=60)

        assert zcdb.wait_until_gone() == []
        assert lab.outside_view() == before
        assert zcdb.run("restore").stdout == "Nothing to put back.\n"

    def test_after_kill_9_of_everything_restore_puts_all_back(self, zcdb, lab):
        before = lab.outside_view()
        path = write_for_lab(zcdb, factors=SETTINGS, link='rate = "2gbit"', repetitions=200)
        rng = random.Random(2001)
        dirty = 0
        for _ in range(KILLS):
            process = zcdb.start("run", "--wait", path)
            after_the_first_trial(process)
            time.sleep(rng.uniform(0.0, 2.0))
            for pid in zcdb.processes():
                kill(pid)
            process.communicate(timeout=60)
            assert zcdb.wait_until_gone() == []
            dirty += lab.outside_view() != before

            restored = zcdb.run("restore")

            assert restored.returncode == 0, restored.stdout
            assert lab.outside_view() == before
        # A kill between two cases may find everything as it was; they cannot all have done so.
        assert dirty > 0
        print(f"{KILLS} kills, {dirty} of them with settings changed")

    def test_the_next_run_undoes_what_the_killed_one_left(self, zcdb, lab):
        before = lab.outside_view()
        process = zcdb.start(
            "run", "--wait", write_for_lab(zcdb, factors="mtu = 9000", repetitions=50)
        )
        after_the_first_trial(process)
        for pid in zcdb.processes():
            kill(pid)
        process.communicate(timeout=60)
        assert "mtu 9000" in lab.outside_view()["sender link"]

        result = zcdb.run("run", "--wait", write_for_lab(zcdb, repetitions=1))

        assert result.returncode == 0, result.stderr
        assert "ended without undoing 1 change of settings" in result.stderr
        assert "mtu of lan0: 1500 again" in result.stderr
        assert lab.outside_view() == before

    def test_an_interface_with_the_default_route_is_refused_unless_allowed(self, zcdb, lab):
        name = lab.names["sender"]
        hosts_support.run(*f"ip -n {name} route add default via 10.78.0.2".split())
        path = write_for_lab(zcdb, factors="sender.mtu = 9000", repetitions=1)
        before = lab.outside_view()

        refused = zcdb.run("run", "--wait", path)

        assert refused.returncode == 4
        assert "settings of lan0 may not be changed: it carries the default route" in refused.stderr
        assert "--allow-interface lan0" in refused.stderr
        allowed = zcdb.run("run", "--wait", path, "--allow-interface", "lan0")
        assert allowed.returncode == 0, allowed.stderr
        assert lab.outside_view() == before

    def test_a_case_that_the_card_cannot_have_is_unsupported_and_the_rest_runs(self, zcdb, lab):
        factors = "sender.feature.rx-fcs = [true, false]"

        result = zcdb.run("run", "--wait", write_for_lab(zcdb, factors=factors, repetitions=1))

        assert result.returncode == 0, result.stderr
        assert statuses(zcdb) == ["ok", "ok", "unsupported", "unsupported"]
        reasons = zcdb.query("SELECT DISTINCT reason FROM trials WHERE status = 'unsupported'")
        assert reasons == [("rx-fcs of lan0 stays off: its driver cannot change it",)]


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


# -- refused ----------------------------------------------------------------------------------


def test_the_interface_of_the_ssh_connection_is_refused(zcdb, world):
    result = zcdb.run("run", "--wait", write(zcdb, factors="mtu = 9000"))

    assert result.returncode == 4
    assert "lo may not be changed: it carries the control connection" in result.stderr
    assert not zcdb.query("SELECT 1 FROM runs")


@pytest.mark.parametrize(
    ("changes", "words", "code"),
    [
        ({"sender": "gamma"}, "the sender's agent on gamma", 1),
        ({"interface": "eth77"}, "there is no interface eth770", 4),
        (
            {"interface": 'lo", address = "10.9.8.7'},
            "lo does not have the address 10.9.8.7; its addresses: 127.0.0.1",
            4,
        ),
    ],
)
def test_what_is_not_there_is_one_sentence_and_nothing_is_recorded(
    zcdb, world, changes, words, code
):
    path = write(zcdb, **changes)
    path.write_text(
        path.read_text().replace("10.9.8.70", "10.9.8.7").replace("10.9.8.71", "10.9.8.7")
    )

    result = zcdb.run("run", "--wait", path)

    assert result.returncode == code, result.stderr
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert not zcdb.query("SELECT 1 FROM runs")
    assert zcdb.wait_until_gone() == []


def test_a_machine_that_lets_nobody_in_says_so(zcdb, world):
    (world.folder / "authorized_keys").write_text("")

    result = zcdb.run("run", "--wait", write(zcdb))

    assert result.returncode == 1
    assert "Permission denied (publickey)" in result.stderr
    assert "'ssh alpha zcdb agent < /dev/null' has to work without a password" in result.stderr


def test_another_version_at_the_other_end_is_refused_by_name(zcdb, world, tmp_path):
    other = tmp_path / "bin"
    other.mkdir()
    script = other / "zcdb"
    script.write_text(
        "#!/bin/sh\nread line\n"
        """echo '{"id": 1, "result": {"version": "0.0.9", "protocol": 1}}'\nread line\n"""
    )
    script.chmod(0o755)
    config = world.sshd_config.read_text()
    world.sshd_config.write_text(config.replace("SetEnv PATH=", f"SetEnv PATH={other}:"))
    world.add_loopback("old")

    result = zcdb.run("run", "--wait", write(zcdb, receiver="old"))

    assert result.returncode == 4
    assert "the receiver's agent on old has zcdb 0.0.9" in result.stderr
    assert "install the same version at both ends" in result.stderr


# -- dying ------------------------------------------------------------------------------------


def agents(zcdb):
    """Pids of the agents: every process of ours that was started as `zcdb agent`."""
    found = []
    for pid in zcdb.processes():
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if words[-2:] == [b"agent", b""] and b"ssh" not in words[0]:
            found.append(pid)
    return found


def test_an_agent_that_dies_fails_its_trial_and_a_new_one_goes_on(zcdb, world):
    process = zcdb.start("run", "--wait", write(zcdb, repetitions=3))
    after_the_first_trial(process)

    for pid in agents(zcdb):
        kill(pid)
    _, errors = process.communicate(timeout=120)

    assert process.returncode == 3, errors
    assert statuses(zcdb) == ["failed"] + ["ok"] * 5
    (reason,) = zcdb.query("SELECT reason FROM trials WHERE status = 'failed'")
    assert "'s agent on " in reason[0]
    assert zcdb.wait_until_gone() == []


def test_a_host_that_goes_away_ends_the_run_which_can_be_resumed(zcdb, world):
    path = write(zcdb, repetitions=4)
    process = zcdb.start("run", "--wait", path)
    after_the_first_trial(process)

    world.close()
    for pid in agents(zcdb):
        kill(pid)
    _, errors = process.communicate(timeout=120)
    world.add_loopback("alpha2", "beta2")
    config = world.config.read_text()
    world.config.write_text(
        config[config.index("Host alpha2") :].replace("alpha2", "alpha").replace("beta2", "beta")
    )
    resumed = zcdb.run("run", "--wait", path, "--resume")

    assert process.returncode == 1, errors
    assert "Traceback" not in errors
    assert resumed.returncode in (0, 3), resumed.stderr
    counts = dict(zcdb.query("SELECT status, count(*) FROM trials GROUP BY 1"))
    assert counts["ok"] + counts.get("failed", 0) == 8
    assert counts["ok"] >= 7
    assert zcdb.query("SELECT outcome FROM runs") == [("finished",)]


def test_an_agent_behind_ssh_ends_when_its_runner_does_even_in_a_window(world, monkeypatch):
    monkeypatch.setenv("ZCDB_SSH_CONFIG", str(world.config))
    client = AgentClient.start_ssh("alpha", "the agent on alpha")
    pid = client.hello["pid"]
    client.begin(
        "window", duration_ns=600 * 10**9, sample_ns=10**8, sampler_cpu=0, is_host_read=True
    )

    client.kill()
    client.close()

    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()


def test_an_agent_that_hears_nothing_for_too_long_takes_its_runner_for_gone(world, monkeypatch):
    monkeypatch.setattr("zcdb.agent.client.SILENCE_LIMIT_S", 0.3)
    monkeypatch.setenv("ZCDB_SSH_CONFIG", str(world.config))
    client = AgentClient.start_ssh("alpha", "the agent on alpha")

    time.sleep(1.5)

    with pytest.raises(AgentError, match="ended while it worked"):
        client.request("clock")
    client.close()


# -- the same answer --------------------------------------------------------------------------

SAME = """
name = "same"
question = "Do namespaces and ssh give the same answer?"

[factors]
api = ["write", "sendfile"]
offloads = [{ sg = true, tx_checksum = true }, { sg = false, tx_checksum = false }]

[link]
LINK

[measure]
repetitions = 6
duration = "1s"
bracket = "500ms"

[compare]
baseline = { api = "write" }
metrics = ["service_demand_sender", "service_demand_receiver", "throughput"]
"""


def answers(zcdb, link):
    """Metric and offload state -> the verdict about sendfile against write."""
    path = zcdb.folder / "same.toml"
    path.write_text(SAME.replace("LINK", link))
    result = zcdb.run("run", "--wait", path, "--json", timeout_s=280)
    assert result.returncode == 0, result.stderr
    return {
        (metric["metric"], metric["method"], row["case"]["factors"]["sg"]): row["verdict"]
        for metric in json.loads(result.stdout)["metrics"]
        for row in metric["rows"]
        if row["verdict"] is not None
    }


@pytest.mark.skipif(
    "ZCDB_TEST_VERDICTS" not in os.environ,
    reason="two runs of a minute on a quiet machine; set ZCDB_TEST_VERDICTS=1",
)
@pytest.mark.timeout(900)
def test_two_namespaces_and_ssh_give_the_same_answer_within_their_intervals(zcdb, lab):
    hosts = write_for_lab(zcdb).read_text()
    link = hosts[hosts.index("kind =") : hosts.index("[measure]")]

    namespaces, ssh = answers(zcdb, 'kind = "veth"'), answers(zcdb, link)

    assert namespaces.keys() == ssh.keys()
    for key, one in namespaces.items():
        other = ssh[key]
        print(key, one["word"], one["low"], one["high"], other["word"], other["low"], other["high"])
        assert one["low"] <= other["high"]
        assert other["low"] <= one["high"]
