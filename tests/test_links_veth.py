"""Runs over veth pairs and loopback with settings, looked at from outside while they run and after.

What is seen is read with the standard tools, in the namespace of an agent.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from run_support import Zcdb

pytestmark = [
    pytest.mark.measures,
    pytest.mark.net,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(
        any(shutil.which(tool) is None for tool in ("ip", "ethtool", "tc", "sysctl", "nsenter")),
        reason="needs iproute2, ethtool, procps and util-linux",
    ),
]
KILLS = int(os.environ.get("ZCDB_TEST_KILLS", "4"))
"""How often a run with changed settings is killed; fifty is the full test."""

EXPERIMENT = """
name = "linked"
question = "Does the link do as it is told?"

[factors]
{factors}

[fixed]
api = "send"
{fixed}

[link]
{link}

[measure]
repetitions = {repetitions}
duration = "{duration}"
discard = "100ms"
sample = "50ms"
bracket = "100ms"
aa = false
"""


@pytest.fixture
def zcdb(tmp_path):
    command = Zcdb(tmp_path)
    yield command
    command.close()


def write(zcdb, factors="", fixed="", link='kind = "veth"', repetitions=1, duration="200ms"):
    path = zcdb.folder / "linked.toml"
    values = {"factors": factors, "fixed": fixed, "link": link}
    path.write_text(EXPERIMENT.format(**values, repetitions=repetitions, duration=duration))
    return path


def tell(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


def machine_view():
    """What the standard tools say of this machine's own namespace, without counters."""
    names = sorted(name for _, name in socket.if_nameindex())
    sysctls = tell("sysctl", "-a", "--pattern", r"^net\.(core|ipv4)\.")
    moving = re.compile(r".*(nr_|_count|random|inode|neigh|\.route\.).*")
    return {
        "links": [re.sub(r" state \w+", "", line) for line in tell("ip", "-o", "link").split("\n")],
        "features": {name: tell("ethtool", "-k", name) for name in names},
        "qdiscs": re.sub(r"direct_packets_stat \d+", "", tell("tc", "qdisc", "show")),
        "sysctls": [line for line in sysctls.splitlines() if not moving.match(line)],
        "named namespaces": tell("ip", "netns").split(),
    }


def agents(zcdb):
    """Pids of the run's agents, the sender's first."""
    found = []
    for pid in sorted(zcdb.processes()):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        parent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]
        if words[-2:] == [b"agent", b""] and parent == str(zcdb.started[-1].pid):
            found.append(pid)
    return found


def inside(pid, line):
    return tell("nsenter", f"--net=/proc/{pid}/ns/net", *line.split())


def after_trials(process, count=1):
    seen = []
    for line in process.stderr:
        if line.startswith(f"[{count}/"):
            return
        seen.append(line)
    raise AssertionError(f"the run ended before trial {count}: " + "".join(seen))


def wait_for(check, timeout_s=20.0):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if check():
            return True
    return False


def statuses(zcdb):
    return [status for (status,) in zcdb.query("SELECT status FROM trials ORDER BY position")]


def test_settings_hold_at_both_ends_while_the_case_is_measured(zcdb):
    before = machine_view()
    link = 'kind = "veth"\nrate = "300mbit"\nmtu = 4000'
    fixed = "sg = false\ntx_checksum = false\nreceiver.gro = true\n"
    fixed += "sender.tcp_wmem = [4096, 9000, 99000]"
    path = write(zcdb, fixed=fixed, link=link, repetitions=3, duration="1s")
    process = zcdb.start("run", "--wait", path)
    after_trials(process)

    sender, receiver = agents(zcdb)
    features = inside(sender, "ethtool -k zcdb-tx"), inside(receiver, "ethtool -k zcdb-rx")
    qdiscs = inside(sender, "tc qdisc show dev zcdb-tx"), inside(receiver, "tc qdisc show")
    links = inside(sender, "ip link show zcdb-tx"), inside(receiver, "ip link show zcdb-rx")
    wmem = [inside(pid, "sysctl -n net.ipv4.tcp_wmem").split() for pid in (sender, receiver)]
    _, errors = process.communicate(timeout=120)

    assert process.returncode == 0, errors
    assert all("\ttx-scatter-gather: off" in text for text in features)
    assert "generic-receive-offload: on" in features[1]
    assert "tbf" in qdiscs[0]
    assert "rate 300Mbit" in qdiscs[0]
    assert "tbf" not in qdiscs[1]
    assert all("mtu 4000" in text for text in links)
    assert wmem[0] == ["4096", "9000", "99000"] != wmem[1]
    assert machine_view() == before


def test_the_record_says_what_was_before_asked_and_in_effect(zcdb):
    result = zcdb.run("run", "--wait", write(zcdb, fixed="receiver.mtu = 1400\nsender.mtu = 1400"))

    assert result.returncode == 0, result.stderr
    trial = zcdb.json("show", zcdb.query("SELECT public_id FROM trials")[0][0])
    settings = find(trial, "settings")
    assert settings["sender"]["mtu"] == {
        "asked": 1400,
        "target": "zcdb-tx",
        "before": {"mtu": 1500},
        "effective": {"mtu": 1400},
    }


def find(value, key):
    """The first value of a key anywhere in a JSON value."""
    if isinstance(value, dict):
        if key in value:
            return value[key]
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            found = find(inner, key)
            if found is not None:
                return found
    return None


def test_streams_are_spread_over_two_pairs_of_either_family(zcdb):
    factors = 'address_family = ["inet", "inet6"]'
    link = 'kind = "veth"\ninterfaces = 2'
    path = write(zcdb, factors, "streams = 2", link, repetitions=2, duration="1s")
    process = zcdb.start("run", "--wait", path)
    after_trials(process, 2)

    sender, _ = agents(zcdb)
    counters = Path(f"/proc/{sender}/net/dev").read_text()
    _, errors = process.communicate(timeout=120)

    assert process.returncode == 0, errors
    assert statuses(zcdb) == ["ok"] * 4
    sent = {row[0]: int(row[9]) for row in map(str.split, counters.splitlines()[2:])}
    assert sent["zcdb-tx:"] > 10**6
    assert sent["zcdb-tx1:"] > 10**6


def test_a_small_mtu_and_ipv6_exclude_each_other_with_a_reason(zcdb):
    fixed = 'mtu = 1000\naddress_family = "inet6"'

    result = zcdb.run("run", "--wait", write(zcdb, fixed=fixed))

    assert result.returncode == 4
    reasons = zcdb.query("SELECT reason FROM trials WHERE status = 'unsupported'")
    assert reasons == [
        (
            "mtu of zcdb-tx cannot be 1000: below 1280 the kernel removes the interface's IPv6"
            " addresses for good",
        )
    ]


def test_more_interfaces_than_a_loopback_link_has_are_unsupported(zcdb):
    link = 'kind = "loopback"\ninterfaces = 2'

    result = zcdb.run("run", "--wait", write(zcdb, fixed="streams = 2", link=link))

    assert result.returncode == 4
    assert zcdb.query("SELECT reason FROM trials") == [("interfaces = 2: a loopback link has 1",)]


def test_settings_of_a_loopback_link_never_touch_the_machines_own(zcdb):
    before = machine_view()
    link = 'kind = "loopback"\nmtu = 1500'
    process = zcdb.start("run", "--wait", write(zcdb, "tso = [true, false]", "", link, 4, "500ms"))
    after_trials(process)

    (agent,) = agents(zcdb)
    # Between two cases the settings are as they were before.
    is_set = wait_for(lambda: "mtu 1500" in inside(agent, "ip link show lo"))
    meanwhile = machine_view()
    _, errors = process.communicate(timeout=120)

    assert process.returncode == 0, errors
    assert is_set
    assert meanwhile == before
    assert machine_view() == before


def test_a_global_sysctl_is_read_only_in_a_namespace_and_the_case_unsupported(zcdb):
    factors = 'sysctl.net.core.netdev_max_backlog = ["777"]'

    result = zcdb.run("run", "--wait", write(zcdb, factors, link='kind = "loopback"'))

    assert result.returncode == 4
    ((reason,),) = zcdb.query("SELECT reason FROM trials")
    assert reason.startswith("net.core.netdev_max_backlog cannot be 777: ")


def test_a_run_without_settings_changes_nothing_and_needs_no_namespace(zcdb):
    process = zcdb.start("run", "--wait", write(zcdb, link='kind = "loopback"', repetitions=3))
    after_trials(process)

    (agent,) = agents(zcdb)
    namespace = Path(f"/proc/{agent}/ns/net").readlink()
    process.communicate(timeout=120)

    assert namespace == Path("/proc/self/ns/net").readlink()
    assert not list((Path(zcdb.environment["ZCDB_STATE"]) / "settings").glob("*"))


def test_kill_9_during_runs_with_changed_settings_leaves_nothing(zcdb):
    before = machine_view()
    factors = """offloads = [
        { sg = false, tx_checksum = false, mtu = 9000 },
        { tcp_wmem = "4096 16384 65536", link_rate = "1gbit" },
    ]"""
    path = write(zcdb, factors, repetitions=500)
    rng = random.Random(2001)
    for _ in range(KILLS):
        process = zcdb.start("run", "--wait", path)
        after_trials(process)
        time.sleep(rng.uniform(0.0, 2.0))
        for pid in zcdb.processes():
            kill(pid)
        process.communicate(timeout=60)

        assert zcdb.wait_until_gone() == []
        restored = zcdb.run("restore")
        assert restored.returncode == 0, restored.stdout
        assert machine_view() == before
    assert not list((Path(zcdb.environment["ZCDB_STATE"]) / "settings").glob("*"))


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
