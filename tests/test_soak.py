"""Real soakers on this machine: what they count and how they end.  No speed is asserted."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from books_support import SAMPLE_NS, Script, idle_edges, script_edges

from zcdb.engine import soak
from zcdb.engine.books import calibrate
from zcdb.engine.measure import take_lock
from zcdb.engine.selftest import Burner, known_load
from zcdb.engine.soak import Soakers, SoakOptions, SoakReading, cpu_time_ns
from zcdb.errors import EngineError
from zcdb.host.cgroups import CpuGroups
from zcdb.host.procstat import usable_cpus

CPU = usable_cpus()[-1]
TIMEOUT_S = 30.0


@pytest.fixture(scope="module", autouse=True)
def _alone() -> Iterator[None]:
    """Keep measurements of others away: their soakers may come before these."""
    lock = take_lock(is_waiting=True)
    yield
    lock.release()


@pytest.fixture
def soakers() -> Iterator[Soakers]:
    with Soakers.start() as running:
        yield running


def wait_for(is_true, what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_true():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def gaps(reading: SoakReading) -> int:
    return reading.task_gap_ticks + reading.interrupt_gap_ticks + reading.open_gap_ticks


def test_every_usable_cpu_is_soaked_and_its_counters_grow(soakers):
    before = soakers.snapshot()
    wait_for(
        lambda: all(
            now.units > then.units
            for now, then in zip(soakers.snapshot().values(), before.values(), strict=True)
        ),
        "a soaker does no work",
    )

    after = soakers.snapshot()
    assert sorted(after) == usable_cpus()
    for cpu, reading in after.items():
        assert reading.at_ticks > before[cpu].at_ticks
        assert reading.units % 16 == 0


def test_time_is_either_work_or_gap(soakers):
    before = soakers.snapshot()[CPU]
    time.sleep(0.2)
    after = soakers.snapshot()[CPU]

    elapsed = after.at_ticks - before.at_ticks
    lost = gaps(after) - gaps(before) + after.steal_gap_ticks - before.steal_gap_ticks
    # A rounding of one batch is possible at each end.
    assert -elapsed // 100 <= lost <= elapsed + elapsed // 100


def test_a_load_on_its_cpu_shows_as_task_gaps(soakers):
    with Burner(CPU, 0.5) as burner:
        burner.wait_until_started()
        before = soakers.snapshot()[CPU]
        wait_for(
            lambda: soakers.snapshot()[CPU].task_gaps >= before.task_gaps + 5, "no gap was seen"
        )
        after = soakers.snapshot()[CPU]

    assert after.task_gap_ticks > before.task_gap_ticks


def test_soakers_have_the_lowest_priority_their_cpu_and_a_name(soakers):
    for cpu, pid in soakers.pids.items():
        assert os.sched_getscheduler(pid) == os.SCHED_IDLE
        assert os.getpriority(os.PRIO_PROCESS, pid) == 19
        assert os.sched_getaffinity(pid) == {cpu}
        assert Path(f"/proc/{pid}/comm").read_text() == f"zcdb-soak/{cpu}\n"


def test_their_cpu_time_is_read_from_outside(soakers):
    before = soakers.cpu_time_ns()

    wait_for(lambda: soakers.cpu_time_ns()[CPU] > before[CPU], "no CPU time was booked")

    assert set(before) == set(soakers.cpus)


def test_a_paused_soaker_does_nothing_until_it_is_resumed(soakers):
    soakers.pause()
    wait_for(lambda: _state(soakers.pids[CPU]) == "T", "the soaker did not stop")
    paused = soakers.snapshot()[CPU]
    time.sleep(0.05)
    still = soakers.snapshot()[CPU]

    soakers.resume()
    resumed = soakers.snapshot()[CPU]

    assert still.units == paused.units
    assert still.open_gap_ticks > paused.open_gap_ticks
    assert resumed.units > still.units
    # The pause is booked once: as the open gap before, as a closed one after.
    assert gaps(resumed) >= gaps(still)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_killed_soaker_is_reported_with_its_cpu(soakers):
    os.kill(soakers.pids[CPU], signal.SIGKILL)

    wait_for(lambda: _state(soakers.pids[CPU]) == "Z", "the soaker did not die")
    with pytest.raises(EngineError) as reported:
        soakers.check()

    assert reported.value.message == f"the soaker of CPU {CPU} was killed by signal 9"
    assert CPU not in soakers.pids


def test_stop_leaves_no_process_and_can_be_repeated():
    soakers = Soakers.start(SoakOptions(cpus=(CPU,)))
    (pid,) = soakers.pids.values()

    soakers.stop()
    soakers.stop()

    assert not Path(f"/proc/{pid}").exists()


def test_soakers_die_with_the_process_that_started_them():
    code = (
        "from zcdb.engine.soak import Soakers\n"
        "import time\n"
        "soakers = Soakers.start()\n"
        "print(*soakers.pids.values(), flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        watched = [os.pidfd_open(pid) for pid in pids]

        parent.kill()

        for descriptor in watched:
            assert select.select([descriptor], [], [], TIMEOUT_S)[0], "a soaker lives on"
            os.close(descriptor)
    assert len(pids) == len(usable_cpus())


def test_a_realtime_caller_starts_soakers_of_the_lowest_priority():
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(5))
    except PermissionError:
        pytest.skip("no permission for SCHED_FIFO")
    try:
        with Soakers.start(SoakOptions(cpus=(CPU,))) as soakers:
            assert os.sched_getscheduler(soakers.pids[CPU]) == os.SCHED_IDLE
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def test_soakers_keep_no_descriptor_of_their_parent():
    reading, writing = os.pipe()
    with Soakers.start(SoakOptions(cpus=(CPU,))):
        os.close(writing)

        # End of file, although the soaker was forked while the pipe was open.
        assert select.select([reading], [], [], TIMEOUT_S)[0]
        assert os.read(reading, 1) == b""
    os.close(reading)


def test_soakers_join_the_group_of_their_cpu():
    groups = CpuGroups.create([CPU], is_isolated=True)
    if isinstance(groups, str):
        pytest.skip(groups)
    try:
        with Soakers.start(SoakOptions(cpus=(CPU,)), groups) as soakers:
            members = groups.procs_files(CPU)[0].read_text().split()

            assert members == [str(soakers.pids[CPU])]
    finally:
        groups.close()


@pytest.mark.parametrize("footprint_bytes", [0, 64, 4 * 1024 * 1024])
def test_any_footprint_can_be_walked(footprint_bytes):
    options = SoakOptions(footprint_bytes, reads_per_write=0, spin_iterations=0, cpus=(CPU,))

    with Soakers.start(options) as soakers:
        before = soakers.snapshot()[CPU].units
        wait_for(lambda: soakers.snapshot()[CPU].units > before, "no work was done")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (SoakOptions(footprint_bytes=100), "a soaker's footprint of 100 bytes is not a multiple"),
        (SoakOptions(footprint_bytes=1 << 40), "a soaker's footprint of 1099511627776 bytes"),
        (SoakOptions(spin_iterations=-1), "cannot be negative"),
        (SoakOptions(cpus=(9999,)), "no soaker can run on CPU 9999: Invalid argument"),
        (SoakOptions(cpus=()), "there is no CPU to soak"),
    ],
)
def test_impossible_options_are_refused_in_one_sentence(options, message):
    with pytest.raises(EngineError) as refused:
        Soakers.start(options)

    assert message in refused.value.message


def test_without_permission_for_sched_idle_the_error_says_so(monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(soak.os, "sched_setscheduler", refuse)

    with pytest.raises(EngineError) as refused:
        Soakers.start(SoakOptions(cpus=(CPU,)))

    assert refused.value.message == "no permission for SCHED_IDLE: Operation not permitted"
    assert refused.value.hint is not None
    assert refused.value.exit_code == 4


def test_a_processor_whose_counter_cannot_be_read_is_named(monkeypatch):
    monkeypatch.setattr(soak, "unsupported_reason", lambda: "soaking is not supported on riscv64")

    with pytest.raises(EngineError, match="soaking is not supported on riscv64"):
        Soakers.start()


@pytest.mark.parametrize("load", [0.0, 0.10, 0.25, 0.50, 0.90])
def test_the_self_test_compares_every_method_with_the_truth(load):
    used_ns = [round((load + 0.01) * SAMPLE_NS)] * 20
    edges = [
        replace(edge, ends={"sender": {**edge.ends["sender"], "true_ns": true_ns}})
        for edge, true_ns in zip(
            script_edges([{0: Script(), 1: Script(load=load)}] * 20, ends={"sender": used_ns}),
            range(0, 10**10, round(load * SAMPLE_NS)) if load else [0] * 21,
            strict=False,
        )
    ]
    idle = calibrate(idle_edges([0, 1]))

    known = known_load(1, load, edges, idle, idle)

    assert known.true_share == pytest.approx(load)
    assert known.error_points["soak"] == pytest.approx(0, abs=1e-4)
    assert known.error_points["soak_work"] == pytest.approx(0, abs=1e-4)
    assert known.error_points["rusage"] == pytest.approx(1.0)
    assert not known.is_disturbed


def test_the_self_test_marks_windows_that_the_hypervisor_disturbed():
    edges = [
        replace(edge, ends={"sender": {**edge.ends["sender"], "true_ns": 0}})
        for edge in script_edges(
            [{0: Script(steal=0.1)}] * 2 + [{0: Script()}] * 18, ends={"sender": [0] * 20}
        )
    ]
    idle = calibrate(idle_edges([0]))

    known = known_load(0, 0.0, edges, idle, idle)

    assert known.is_disturbed
    assert not known.is_contaminated
    assert known.flags["steal"].startswith("CPU 0: 2 of 20 samples")


def test_the_cpu_clock_of_a_process_that_has_ended_is_an_error():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)

    with pytest.raises(EngineError, match=f"process {pid} has ended"):
        cpu_time_ns(pid)
