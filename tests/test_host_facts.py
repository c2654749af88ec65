"""Facts and readings of a machine, from a made-up /proc and /sys."""

from __future__ import annotations

import gzip
import json
import platform

import pytest

from zcdb.host import facts
from zcdb.records import Environment


@pytest.fixture
def root(tmp_path):
    files = {
        "proc/cpuinfo": "processor : 0\nmodel name : Fast  CPU 9000\nmicrocode : 0x12\n"
        "flags : fpu hypervisor\n\nprocessor : 1\nmodel name : other\n",
        "proc/cmdline": "root=/dev/secret-host mitigations=off isolcpus=2 ro",
        "proc/meminfo": "MemTotal:  2048500 kB\nMemAvailable: 1024 kB\n",
        "proc/loadavg": "0.75 0.5 0.1 1/99 1234",
        "proc/stat": "cpu 1 2 3 4 5 6 7 88 0 0\ncpu0 1 2 3 4 5 6 7 88 0 0\n",
        "proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t33554432\n",
        "proc/sys/kernel/random/boot_id": "aaaa-bbbb\n",
        "sys/class/net/eth7/mtu": "9000\n",
        "proc/12/comm": "irqbalance\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "proc/config.gz").write_bytes(gzip.compress(b"CONFIG_HZ=250\n# CONFIG_TLS\n"))
    return tmp_path


def test_facts_are_normalised_and_what_the_machine_does_not_say_is_none(root):
    found = facts.collect("eth7", root)

    assert found["cpu"]["model"] == "Fast CPU 9000"
    assert found["kernel"]["options"]["CONFIG_HZ"] == "250"
    assert found["kernel"]["options"]["CONFIG_TLS"] == "not set"
    assert found["sysctls"]["net.ipv4.tcp_rmem"] == "4096 131072 33554432"
    assert found["sysctls"]["net.core.wmem_max"] is None
    assert found["interface"] == {"driver": None, "mtu": "9000", "type": None}
    assert found["virtualisation"]["hypervisor_flag"] is True
    assert found["clock_source"] is None


def test_names_that_would_tell_whose_machine_it_is_do_not_appear(root):
    text = json.dumps(facts.collect(None, root))

    assert platform.node() not in text
    assert "secret-host" not in text
    assert facts.collect(None, root)["kernel"]["command_line"] == ["mitigations=off", "isolcpus=2"]


def test_the_same_host_gets_the_same_stand_in_and_another_salt_another_one(monkeypatch, tmp_path):
    first, again = facts.redact("alpha"), facts.redact("alpha")
    monkeypatch.setenv("ZCDB_STATE", str(tmp_path / "other"))

    assert first == again
    assert facts.redact("alpha") != first


def test_the_facts_of_a_host_make_the_same_environment_twice(root):
    assert Environment(facts.collect(None, root)).id == Environment(facts.collect(None, root)).id


def test_readings_hold_what_moves(root):
    found = facts.readings(root)

    assert found["load_average_1min"] == 0.75
    assert found["available_memory_bytes"] == 1024 * 1024
    assert found["steal_ticks"] == 88
    assert found["irqbalance_runs"] is True
    assert found["boot_id"] == "aaaa-bbbb"


def test_this_machine_has_facts_too():
    found = facts.collect("lo")

    assert found["kernel"]["release"] == platform.release()
    assert found["interface"]["mtu"] == "65536"


def test_cpus_are_grouped_by_physical_core(monkeypatch, tmp_path):
    monkeypatch.setattr(facts.os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    for cpu, core in ((0, 0), (1, 1), (2, 0), (3, 1)):
        folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "core_id").write_text(str(core))
        (folder / "physical_package_id").write_text("0")

    assert facts.cpus_by_core(tmp_path) == [[0, 2], [1, 3]]
