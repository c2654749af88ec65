"""Facts and readings of a machine, from a made-up /proc and /sys."""

from __future__ import annotations

import gzip
import json
import os
import platform

import pytest

from zcdb.host import facts
from zcdb.records import Environment


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


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
        write(tmp_path, name, text)
    (tmp_path / "proc/config.gz").write_bytes(gzip.compress(b"CONFIG_HZ=250\n# CONFIG_TLS\n"))
    return tmp_path


def test_facts_are_normalised_and_what_the_machine_does_not_say_is_none(root):
    found = facts.collect("eth7", root)

    assert found["cpu"]["model"] == "Fast CPU 9000"
    assert found["kernel"]["options"]["CONFIG_HZ"] == "250"
    assert found["kernel"]["options"]["CONFIG_TLS"] == "not set"
    assert found["sysctls"]["net.ipv4.tcp_rmem"] == "4096 131072 33554432"
    assert found["sysctls"]["net.core.wmem_max"] is None
    assert (found["interface"]["driver"], found["interface"]["mtu"]) == (None, 9000)
    assert found["interface"]["features"] is None
    assert found["virtualisation"]["hypervisor_flag"] is True
    assert found["clock_source"] is None


def test_the_processors_are_told_with_caches_turbo_and_numa(root):
    write(root, "sys/devices/system/cpu/cpu0/cache/index0/level", "1")
    write(root, "sys/devices/system/cpu/cpu0/cache/index0/type", "Data")
    write(root, "sys/devices/system/cpu/cpu0/cache/index0/size", "48K")
    write(root, "sys/devices/system/cpu/cpu0/cache/index3/level", "3")
    write(root, "sys/devices/system/cpu/cpu0/cache/index3/type", "Unified")
    write(root, "sys/devices/system/cpu/cpu0/cache/index3/size", "32M")
    for cpu, governor in ((0, "performance"), (1, "powersave")):
        write(root, f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor", governor)
    write(root, "sys/devices/system/cpu/intel_pstate/no_turbo", "1")
    write(root, "sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI")
    write(root, "sys/devices/system/node/node1/cpulist", "8-15")
    write(root, "sys/devices/system/node/node1/distance", "21 10")

    found = facts.collect(None, root)

    assert found["cpu"]["caches"] == {"L1 data": "48K", "L3": "32M"}
    assert found["cpu"]["governor"] == "performance, powersave"
    assert found["cpu"]["frequency"]["turbo"] == "off"
    assert found["cpu"]["mitigations"] == {"meltdown": "Mitigation: PTI"}
    assert found["numa"] == [{"node": 1, "cpus": "8-15", "distance": "21 10"}]


def test_a_serial_number_is_hashed_and_a_maker_s_placeholder_is_none(root):
    write(root, "sys/class/dmi/id/product_serial", "ABC123456")
    named = facts.collect(None, root)["virtualisation"]["serial"]
    write(root, "sys/class/dmi/id/product_serial", "To Be Filled By O.E.M.")

    assert named == facts.redact("ABC123456")
    assert facts.collect(None, root)["virtualisation"]["serial"] is None


def test_what_changed_between_two_times_is_said_by_its_place(root):
    before = facts.collect(None, root)
    write(root, "proc/sys/net/ipv4/tcp_rmem", "4096 131072 6291456")
    (root / "proc/config.gz").unlink()

    changes = facts.changes(before, facts.collect(None, root))

    assert changes[1] == (
        "sysctls.net.ipv4.tcp_rmem was 4096 131072 33554432 before and is 4096 131072 6291456 after"
    )
    assert changes[0].startswith("kernel.options was {'CONFIG_HZ': '250'")
    assert changes[0].endswith("and is not there after")
    assert facts.changes(before, before) == []


def test_names_that_would_tell_whose_machine_it_is_do_not_appear(root, monkeypatch):
    monkeypatch.setattr(platform, "node", lambda: "db7.example.org")

    text = json.dumps(facts.collect(None, root))

    assert "db7.example.org" not in text
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
    write(root, "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3")
    write(root, "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "4")
    write(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2400000")

    found = facts.readings(root)

    assert found["throttles"] == 7
    assert found["frequencies_hz"] == [2_400_000_000]

    assert found["load_average_1min"] == 0.75
    assert found["available_memory_bytes"] == 1024 * 1024
    assert found["steal_ticks"] == 88
    assert found["irqbalance_runs"] is True
    assert found["boot_id"] == "aaaa-bbbb"


def test_this_machine_has_facts_too():
    found = facts.collect("lo")

    assert found["kernel"]["release"] == platform.release()
    assert found["interface"]["features"]["tx-scatter-gather"] == "on [fixed]"
    assert found["interface"]["rings"] is None


def test_cpus_are_grouped_by_physical_core(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    for cpu, core in ((0, 0), (1, 1), (2, 0), (3, 1)):
        folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "core_id").write_text(str(core))
        (folder / "physical_package_id").write_text("0")

    assert facts.cpus_by_core(tmp_path) == [[0, 2], [1, 3]]
