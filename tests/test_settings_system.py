"""The real backend on folders that stand in for /proc and /sys, and its helper process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from settings_support import FakeBackend

from zcdb.host.settings import Transaction, parse_setting, probe_settings
from zcdb.host.settings.backend import SystemBackend, process
from zcdb.host.settings.model import BackendError, SettingsError


@pytest.fixture
def root(tmp_path):
    """A machine with an interrupt, two CPUs with governors and two sysctls."""
    files = {
        "proc/irq/41/smp_affinity_list": "0-1\n",
        "proc/sys/net/ipv4/tcp_wmem": "4096\t16384\t4194304\n",
        "proc/sys/net/ipv4/conf/eth0.1/forwarding": "0\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
        "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "schedutil\n",
    }
    for name, text in files.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "root"


@pytest.fixture
def backend(root):
    return SystemBackend(root)


def contents(root: Path) -> dict[str, str]:
    return {str(path): path.read_text().strip() for path in root.rglob("*") if path.is_file()}


def test_files_are_set_and_put_back(root, backend, tmp_path):
    settings = [
        parse_setting("irq_affinity", 41, "1"),
        parse_setting("sysctl", "net.ipv4.tcp_wmem", [4096, 16384, 65536]),
        parse_setting("sysctl", "net.ipv4.conf.eth0/1.forwarding", 1),
        parse_setting("governor", "all", "performance"),
        parse_setting("governor", "1", "ondemand"),
    ]
    before = contents(root)

    with Transaction(backend=backend, folder=tmp_path / "journals") as inside:
        results = inside.apply(settings)
        during = set(contents(root).values())

    assert [result.problems for result in results] == [()] * 5
    assert during == {"1", "4096 16384 65536", "performance", "ondemand"}
    assert results[3].before == {"0": "powersave", "1": "schedutil"}
    assert {k: v.split() for k, v in contents(root).items()} == {
        k: v.split() for k, v in before.items()
    }


@pytest.mark.parametrize(
    ("kind", "target", "value", "sentence"),
    [
        ("governor", "0-2", "performance", "this machine has no frequency governor for CPU 2"),
        ("sysctl", "net.ipv4.tcp_foo", 1, "this network namespace has no such sysctl"),
        ("sysctl", "net.ipv4.conf", 1, "this network namespace has no such sysctl"),
        ("irq_affinity", 99, "0", "No such file or directory"),
    ],
)
def test_what_is_not_there_is_a_sentence(backend, tmp_path, kind, target, value, sentence):
    with Transaction(backend=backend, folder=tmp_path / "journals") as inside:
        (result,) = inside.apply([parse_setting(kind, target, value)])

    assert result.problems[0].endswith(sentence)


def test_this_process_never_imports_netlink_and_gets_no_thread(tmp_path):
    script = """
import sys, threading
from zcdb.host.settings import Transaction, parse_setting
mtu = int(open("/sys/class/net/lo/mtu").read())
with Transaction(["lo"]) as inside:
    (result,) = inside.apply([parse_setting("mtu", "lo", mtu)])
assert result.effective == {"mtu": mtu}, result
heavy = {"pyroute2", "numpy", "pydantic", "sqlalchemy", "click", "asyncio"} & set(sys.modules)
print(sorted(heavy), threading.active_count())
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stderr == ""
    assert done.stdout == "[] 1\n"


def test_the_helper_ends_with_the_batch(backend):
    with backend:
        helper = backend.worker()

    assert helper is not None
    assert process(helper.pid) is None


def test_transactions_inside_an_entered_backend_share_its_helper(root, backend, tmp_path):
    with backend:
        helper = backend.worker()
        with Transaction(backend=backend, folder=tmp_path / "journals") as inside:
            inside.apply([parse_setting("irq_affinity", 41, "1")])
            helper_inside = backend.worker()
        helper_after = backend.worker()

    assert helper is not None
    assert helper_inside == helper_after == helper
    assert process(helper.pid) is None
    assert (root / "proc/irq/41/smp_affinity_list").read_text() == "0-1\n"


def test_an_answer_that_nobody_waited_for_is_not_taken_for_the_next_one(backend):
    with backend:
        assert backend._pipe is not None
        backend._pipe.sendall(b'[0, "read", "governor", "all"]')

        reading = backend.read("irq_affinity", "41")

    assert list(reading) == ["cpus"]


def test_the_helper_ends_although_another_child_has_a_copy_of_the_pipe(backend):
    release, hold = os.pipe()
    with backend:
        helper = backend.worker()
        child = os.fork()
        if child == 0:
            os.close(hold)
            os.read(release, 1)
            os._exit(0)

    assert helper is not None
    assert process(helper.pid) is None
    os.close(hold)
    os.close(release)
    os.waitpid(child, 0)


def test_the_helper_lives_through_ctrl_c_and_ends_when_its_owner_is_killed(tmp_path):
    script = """
import os, signal, sys, time
from zcdb.host.settings.backend import SystemBackend
with SystemBackend() as backend:
    backend.interface_index("lo")
    print(backend.worker().pid, flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        helper = process(int(owner.stdout.readline()))
        assert helper is not None
        os.kill(helper.pid, signal.SIGINT)
        time.sleep(0.05)
        alive_after_ctrl_c = process(helper.pid) == helper

        owner.kill()
        owner.wait()
        deadline = time.monotonic() + 10
        while process(helper.pid) == helper and time.monotonic() < deadline:
            time.sleep(0.01)

    assert alive_after_ctrl_c
    assert process(helper.pid) != helper


def test_a_helper_that_dies_is_an_error_and_not_a_refusal(backend):
    with backend:
        helper = backend.worker()
        assert helper is not None
        os.kill(helper.pid, signal.SIGKILL)

        with pytest.raises(SettingsError, match="the helper process that changes settings died"):
            backend.read("sysctl", "net.ipv4.tcp_wmem")


def test_a_namespace_that_cannot_be_entered_is_one_sentence(tmp_path):
    with (
        pytest.raises(SettingsError, match="cannot be entered"),
        SystemBackend(namespace_path=tmp_path),
    ):
        pass


def test_a_refusal_keeps_the_kernels_number(backend):
    with backend, pytest.raises(BackendError) as caught:
        backend.read("irq_affinity", "99")

    assert (caught.value.number, caught.value.reason) == (2, "No such file or directory")


@pytest.mark.parametrize(
    ("interface", "rights", "reason"),
    [
        ("eth1", "1000", None),
        ("eth1", "0", "this user may not (it needs root, or CAP_NET_ADMIN)"),
        (
            "eth0",
            "1000",
            "the interface carries the default route; --allow-interface eth0 permits it",
        ),
    ],
)
def test_probing_gives_the_reason_for_what_is_not_the_drivers_fault(
    root, interface, rights, reason
):
    fake = FakeBackend()
    fake.state[("mtu", "eth0")] = fake.state[("mtu", "eth1")]
    (root / "proc/self").mkdir()
    (root / "proc/self/status").write_text(f"Name:\tzcdb\nCapEff:\t{rights}\n")

    abilities = probe_settings(interface, backend=fake, root=root, environment={})

    (mtu,) = [ability for ability in abilities if ability.kind == "mtu"]
    assert (mtu.current, mtu.reason) == (1500, reason)
    assert mtu.can_change == (reason is None)


def test_probing_says_what_can_be_changed_and_why_not():
    abilities = {(a.kind, a.key): a for a in probe_settings("lo", environment={})}

    assert abilities[("mtu", "mtu")].current == int(Path("/sys/class/net/lo/mtu").read_text())
    assert abilities[("rings", "")].reason == "its driver has no rings to change"
    assert not abilities[("feature", "vlan-challenged")].can_change
    assert abilities[("feature", "vlan-challenged")].reason == "its driver cannot change it"
    assert abilities[("irq_affinity", "")].reason == "it has no interrupts of its own"
