"""Control groups: finding the hierarchies, and real groups where this machine has them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zcdb.errors import HostError
from zcdb.host import cgroups
from zcdb.host.cgroups import CpuGroups, Mount, parse_mountinfo, parse_own_groups

APART = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / {top}/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:30 / {top}/cpuacct rw,relatime shared:7 - cgroup cgroup rw,cpuacct
41 31 0:38 / {top}/unified rw,relatime - cgroup2 cgroup2 rw
"""
TOGETHER = "32 31 0:29 / {top}/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
UNIFIED = "30 23 0:26 / {top} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


@pytest.fixture
def tree(tmp_path):
    """Return a function that lays out a hierarchy and tries to make groups in it."""

    def make(mountinfo: str, own: str = "0::/\n", *, is_isolated: bool = True, cpus=(0, 1)):
        (tmp_path / "mountinfo").write_text(mountinfo.format(top=tmp_path))
        (tmp_path / "own").write_text(own)
        return CpuGroups.create(
            cpus,
            is_isolated=is_isolated,
            mountinfo=tmp_path / "mountinfo",
            own=tmp_path / "own",
        )

    for name in ("cpu", "cpuacct", "cpu,cpuacct"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "cpuacct.usage_percpu").write_text("500 700\n")
    return make


def fill(folder: Path, usage: str) -> None:
    """Do what the kernel does when a group is made."""
    folder.mkdir(exist_ok=True)
    (folder / "cpuacct.usage_percpu").write_text(usage)


def test_mounts_are_found_wherever_they_are():
    mounts = parse_mountinfo(
        "1 0 8:1 / / rw - ext4 /dev/vda rw\n"
        "32 31 0:29 / /cg/cpu\\040time rw,relatime shared:9 - cgroup cgroup rw,cpuacct,cpu\n"
        "33 31 0:30 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
        "broken line\n"
    )

    assert mounts == [
        Mount(Path("/cg/cpu time"), "/", 1, frozenset({"rw", "cpu", "cpuacct"})),
        Mount(Path("/sys/fs/cgroup"), "/docker/abc", 2, frozenset()),
    ]


def test_a_process_knows_its_own_groups():
    text = "5:cpu,cpuacct:/user.slice\n1:name=systemd:/init\n0::/user.slice/session\n"

    assert parse_own_groups(text) == {
        "cpu": "/user.slice",
        "cpuacct": "/user.slice",
        "name=systemd": "/init",
        "": "/user.slice/session",
    }


def test_accounting_of_its_own_takes_one_group_for_all_cpus(tree, tmp_path):
    own = tmp_path / "cpuacct" / f"zcdb-{os.getpid()}-all"
    fill(own, "100 200\n")

    groups = tree(APART, is_isolated=False)

    assert groups.procs_files(0) == groups.procs_files(1) == [own / "cgroup.procs"]
    assert groups.usage() == ([500, 700], [100, 200])
    assert groups.usage_reason is None
    assert not groups.is_isolated
    assert list((tmp_path / "cpu").glob("zcdb-*")) == []


def test_isolation_takes_a_group_of_the_highest_weight_for_each_cpu(tree, tmp_path):
    own = tmp_path / "cpuacct" / f"zcdb-{os.getpid()}-all"
    fill(own, "100 200\n")

    groups = tree(APART, is_isolated=True)

    folder = tmp_path / "cpu" / f"zcdb-{os.getpid()}-cpu1"
    assert groups.procs_files(1) == [folder / "cgroup.procs", own / "cgroup.procs"]
    assert (folder / "cpu.shares").read_text() == "262144"
    assert groups.is_isolated


def test_where_both_controllers_are_one_hierarchy_the_groups_are_added_up(tree, tmp_path):
    for cpu, usage in ((0, "100 1\n"), (1, "2 200\n")):
        fill(tmp_path / "cpu,cpuacct" / f"zcdb-{os.getpid()}-cpu{cpu}", usage)

    groups = tree(TOGETHER)

    assert groups.usage() == ([500, 700], [102, 201])


def test_where_both_controllers_are_one_hierarchy_a_quiet_machine_needs_no_group(tree):
    reason = tree(TOGETHER, is_isolated=False)

    assert reason == "isolation is not needed, and cpuacct is not mounted apart from cpu"


def test_too_many_groups_to_read_are_not_read(tree):
    groups = tree(TOGETHER, cpus=range(65))

    assert groups.usage() is None
    assert groups.usage_reason == "reading 65 groups at each edge would disturb the measurement"


def test_without_cpuacct_there_is_isolation_only(tree):
    groups = tree("32 31 0:29 / {top}/cpu rw - cgroup cgroup rw,cpu\n")

    assert groups.usage() is None
    assert groups.usage_reason == "the cpuacct controller is not mounted"


def test_version_2_isolates_where_the_cpu_controller_is_delegated(tree, tmp_path):
    session = tmp_path / "user" / "session"
    session.mkdir(parents=True)
    (tmp_path / "cgroup.subtree_control").write_text("memory\n")
    (tmp_path / "user" / "cgroup.subtree_control").write_text("cpu memory\n")
    (tmp_path / "user" / "cgroup.procs").write_text("")

    groups = tree(UNIFIED, "0::/user/session\n")

    folder = tmp_path / "user" / f"zcdb-{os.getpid()}-cpu0"
    assert groups.procs_files(0) == [folder / "cgroup.procs"]
    assert (folder / "cpu.weight").read_text() == "10000"
    assert groups.usage_reason == "control groups of version 2 do not count CPU time per CPU"


def test_version_2_without_delegation_says_why_not(tree, tmp_path):
    reason = tree(UNIFIED)

    assert reason == (
        f"no group below {tmp_path} lets this process make groups with a cpu controller"
    )


def test_a_machine_without_hierarchies_says_so(tree):
    assert tree("1 0 8:1 / / rw - ext4 /dev/vda rw\n") == (
        "no control group hierarchy with a cpu controller is mounted"
    )


def test_a_hierarchy_that_refuses_new_groups_is_named(tree, tmp_path, monkeypatch):
    def refuse(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(cgroups.Path, "mkdir", refuse)

    folder = tmp_path / "cpu" / f"zcdb-{os.getpid()}-cpu0"
    assert tree(APART) == f"cannot make a control group: {folder}: Permission denied"


def test_groups_of_dead_processes_are_removed_and_others_left_alone(tree, tmp_path):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    dead = tmp_path / "cpu" / f"zcdb-{child}-cpu0"
    alive = tmp_path / "cpu" / "zcdb-1-cpu0"
    stranger = tmp_path / "cpu" / "zcdb-notes"
    for folder in (dead, alive, stranger):
        folder.mkdir()
    fill(tmp_path / "cpuacct" / f"zcdb-{os.getpid()}-all", "1 2\n")

    tree(APART)

    assert not dead.exists()
    assert alive.exists()
    assert stranger.exists()


def test_a_cpu_without_a_group_is_named(tree):
    groups = tree("32 31 0:29 / {top}/cpu rw - cgroup cgroup rw,cpu\n")

    with pytest.raises(HostError, match=r"CPU 7 has no control group; .* \[0, 1\]"):
        groups.procs_files(7)


def test_a_quiet_machine_is_told_from_a_busy_one(monkeypatch):
    rows = iter(["cpu0 0 0 0 0", "cpu0 2 0 2 46", "cpu0 0 0 0 0", "cpu0 30 0 0 20"])
    monkeypatch.setattr(cgroups, "BUSY_LOOK_S", 0.0)
    monkeypatch.setattr(
        cgroups.StatReader, "stat", lambda _: cgroups_stat(next(rows)), raising=True
    )

    assert not cgroups.is_busy([0])
    assert cgroups.is_busy([0])


def cgroups_stat(row: str):
    from zcdb.host.procstat import parse_stat

    return parse_stat(row)


# -- this machine's own hierarchies ----------------------------------------------------------


@pytest.fixture
def real_groups():
    groups = CpuGroups.create([0], is_isolated=True)
    if isinstance(groups, str):
        pytest.skip(groups)
    yield groups
    groups.close()


def test_a_process_in_a_group_is_counted_as_ours(real_groups):
    if real_groups.usage() is None:
        pytest.skip(real_groups.usage_reason)
    before = real_groups.usage()
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as burner:
        real_groups.add(0, burner.pid)
        deadline = time.monotonic() + 30
        while sum(real_groups.usage()[1]) <= sum(before[1]):
            assert time.monotonic() < deadline, "the group counts nothing"
        burner.kill()
    after = real_groups.usage()

    assert sum(after[0]) - sum(before[0]) >= sum(after[1]) - sum(before[1]) > 0


def test_closing_moves_processes_out_and_removes_the_groups(real_groups):
    folders = [path.parent for path in real_groups.procs_files(0)]
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as sleeper:
        real_groups.add(0, sleeper.pid)

        real_groups.close()
        real_groups.close()

        assert sleeper.poll() is None
        assert not any(folder.exists() for folder in folders)
        sleeper.kill()


def test_a_process_that_has_ended_cannot_join(real_groups):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)

    with pytest.raises(HostError, match=f"process {child} cannot join"):
        real_groups.add(0, child)


def test_a_killed_owners_groups_are_removed_at_the_next_start(real_groups):
    code = (
        "import os, signal\n"
        "from zcdb.host.cgroups import CpuGroups\n"
        "groups = CpuGroups.create([0], is_isolated=True)\n"
        "print(*(path.parent for path in groups.procs_files(0)), sep='\\n', flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    folders = [Path(line) for line in killed.stdout.splitlines()]
    assert folders
    assert all(folder.exists() for folder in folders)

    again = CpuGroups.create([0], is_isolated=True)

    assert isinstance(again, CpuGroups)
    assert not any(folder.exists() for folder in folders)
