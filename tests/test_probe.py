"""zcdb probe: what a machine can run, each thing tried and taken back."""

from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner

from zcdb.cli import cli
from zcdb.cli.probe import probe_lines
from zcdb.engine.apis import SENDER_APIS
from zcdb.errors import HostError, UsageError
from zcdb.runner import probe as probing
from zcdb.runner.probe import Ability, Probe, in_child, interfaces_up

CARD = {
    "name": "eth0",
    "driver": "igb",
    "model": "8086:1521",
    "firmware": "1.63",
    "link_speed_bps": 10**9,
    "mtu": 1500,
    "bus": {"speed": "5.0 GT/s", "width": "2", "speed_max": "5.0 GT/s", "width_max": "4"},
    "features": {"rx-gro": "on", "rx-lro": "off [fixed]"},
}
FACTS = {
    "kernel": {"release": "6.12.0", "machine": "x86_64"},
    "cpu": {
        "model": "Fast 9000",
        "topology": {"cores": 4, "online": "0-7", "smt": "on", "numa_nodes": "0"},
        "governor": "performance",
        "frequency": {"turbo": "off"},
        "mitigations": {"l1tf": "Not affected", "mds": "Vulnerable: no microcode"},
    },
    "memory_bytes": 8 << 30,
    "clock_source": "tsc",
    "virtualisation": {"hypervisor_flag": True},
    "interface": CARD,
}
READINGS = {
    "load_average_1min": 0.5,
    "irqbalance_runs": False,
    "memory_bandwidth": {"read_bytes_per_s": 12e9, "write_bytes_per_s": 9e9, "reason": None},
}


def lines(abilities, facts=FACTS, readings=READINGS, interfaces=("eth0",)):
    return "\n".join(probe_lines(Probe(interfaces, facts, readings, abilities)))


def test_what_cannot_be_done_comes_with_its_reason():
    text = lines(
        [
            Ability("send", "sendfile", None, "a file in the page cache"),
            Ability("send", "io_uring_send", "io_uring is not allowed here"),
        ]
    )

    assert "sendfile                           yes a file in the page cache" in text
    assert "io_uring_send                      no  io_uring is not allowed here" in text


def test_the_machine_is_told_in_a_few_lines():
    text = lines([])

    assert "Fast 9000, 4 cores, CPUs 0-7" in text
    assert "on, performance, turbo off" in text
    assert "mitigations missing                mds" in text
    assert "12.0 GB/s read, 9.0 GB/s written, by one core" in text
    assert "igb, 8086:1521, 1.63, 1.00 Gbit/s, MTU 1500" in text
    assert "5.0 GT/s x2 of at most 5.0 GT/s x4" in text
    assert "1 of 2 on" in text


def test_what_is_not_known_is_said():
    bandwidth = {"memory_bandwidth": {"reason": "too little memory is free"}}
    bare = {**CARD, "driver": None, "model": None, "firmware": None, "link_speed_bps": None}

    text = lines(
        [],
        {**FACTS, "interface": {**bare, "bus": None, "features": None}, "memory_bytes": None},
        {**READINGS, **bandwidth},
    )

    assert "not measured: too little memory is free" in text
    assert "not known, speed unknown, MTU 1500" in text
    assert "memory                             not known" in text


def test_settings_are_counted_and_their_refusals_gathered_by_reason():
    reason = "its driver cannot change it"
    fixed = [Ability("setting", f"feature eth0 f{number}", reason) for number in range(7)]
    others = [
        Ability("setting", "mtu eth0", None, "now 1500"),
        Ability("setting", "rings eth0", "none"),
    ]

    text = lines([*fixed, *others])

    assert "1 of 9" in text
    assert "    7 of them: its driver cannot change it" in text
    assert "    rings eth0: none" in text


def test_an_attempt_in_a_child_leaves_nothing_here_and_says_why_it_failed():
    before = os.getpriority(os.PRIO_PROCESS, 0)

    def refuse():
        raise HostError("this kernel has none")

    def fail():
        raise PermissionError(1, "Operation not permitted")

    assert in_child(lambda: os.setpriority(os.PRIO_PROCESS, 0, before + 1)) is None
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
    assert in_child(refuse) == "this kernel has none"
    assert in_child(fail) == "Operation not permitted"
    assert in_child(lambda: os._exit(1)) == "the child that tried it died"


def test_interfaces_that_are_down_are_not_looked_at_by_default(tmp_path, monkeypatch):
    for name, flags in (("eth0", "0x1003"), ("eth1", "0x1002")):
        folder = tmp_path / "sys/class/net" / name
        folder.mkdir(parents=True)
        (folder / "flags").write_text(flags)
    names = [(1, "lo"), (2, "eth0"), (3, "eth1")]
    monkeypatch.setattr(probing.socket, "if_nameindex", lambda: names)

    assert interfaces_up(tmp_path) == ["eth0"]
    monkeypatch.setattr(probing.socket, "if_nameindex", lambda: names[:1])
    assert interfaces_up(tmp_path) == ["lo"]


def test_an_unknown_interface_is_refused_with_those_there_are():
    with pytest.raises(UsageError, match="no interface eth99 here; there are") as error:
        CliRunner().invoke(cli, ["probe", "--interface", "eth99"], catch_exceptions=False)

    assert "lo" in error.value.message


def test_this_machine_is_probed_without_a_trace():
    answer = CliRunner().invoke(cli, ["probe", "--interface", "lo", "--json"])

    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.output)
    abilities = {(entry["kind"], entry["name"]): entry for entry in found["abilities"]}
    assert found["facts"]["kernel"]["release"] == os.uname().release
    assert found["readings"]["memory_bandwidth"]["read_bytes_per_s"] > 0
    assert {name for kind, name in abilities if kind == "send"} == set(SENDER_APIS)
    assert abilities["send", "write"]["is_there"]
    assert abilities["link", "loopback"]["is_there"]
    for entry in found["abilities"]:
        assert entry["is_there"] == (entry["reason"] is None)
    assert not [name for _, name in probing.socket.if_nameindex() if name.startswith("zcdb-probe")]
