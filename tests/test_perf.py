"""Hardware counters: the arithmetic with known answers, the mechanism with software events."""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path

import pytest

from zcdb.errors import HostError
from zcdb.host import perf
from zcdb.host.perf import Count, PerfCounters, PerfReading, total

SOFTWARE_REASON = perf.unsupported_reason(perf.SOFTWARE_EVENTS[0])
needs_perf = pytest.mark.skipif(SOFTWARE_REASON is not None, reason=str(SOFTWARE_REASON))


def reading(everything, soaker, cpu="0", enabled_ns=1000, running_ns=1000):
    def counts(value):
        return {cpu: {"cycles": Count(value, enabled_ns, running_ns)}} if value is not None else {}

    return PerfReading(counts(everything), counts(soaker))


def test_the_soaker_s_own_events_are_taken_off():
    before, after = reading(1000, 400), reading(9000, 3400, enabled_ns=2000, running_ns=2000)

    found = total(before, after, "cycles", [0])

    assert (found.value, found.is_estimate) == (8000 - 3000, False)


def test_a_counter_that_shared_its_register_is_scaled_and_called_an_estimate():
    before = reading(0, None, enabled_ns=0, running_ns=0)
    after = reading(600, None, enabled_ns=1000, running_ns=250)

    found = total(before, after, "cycles", [0])

    assert (found.value, found.is_estimate) == (2400.0, True)


def test_a_cpu_without_a_figure_leaves_the_total_without_one():
    before, after = reading(1, None), reading(2, None, enabled_ns=2000, running_ns=2000)

    assert total(before, after, "cycles", [0, 1]).value is None
    assert total(before, after, "instructions", [0]).value is None
    assert total(after, after, "cycles", [0]).value is None


def test_a_soaker_that_never_ran_has_nothing_to_take_off():
    before, after = reading(0, 7), reading(50, 7, enabled_ns=2000, running_ns=2000)
    still = PerfReading(after.cpus, before.soakers)

    assert total(before, still, "cycles", [0]).value == 50


def test_readings_survive_the_pipe():
    found = reading(5, 3)

    assert PerfReading.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOENT, "offers no hardware counters"),
        (errno.EACCES, "perf_event_paranoid"),
        (errno.ENOSYS, "CONFIG_PERF_EVENTS"),
        (errno.EMFILE, "Too many open files"),
    ],
)
def test_a_refusal_says_why_and_what_would_help(monkeypatch, number, words):
    def refuse(event, pid, cpu):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(perf, "_open", refuse)

    with pytest.raises(HostError, match="no hardware counters") as error:
        PerfCounters([0], {})
    assert words in error.value.message


def test_an_event_that_the_machine_lacks_is_left_out_and_the_others_counted(monkeypatch):
    def open_some(event, pid, cpu):
        if event.name == "cache-misses":
            raise OSError(errno.ENOENT, "no such event")
        return os.open("/dev/zero", os.O_RDONLY)

    monkeypatch.setattr(perf, "_open", open_some)

    with PerfCounters([0], {0: 1}) as counters:
        found = counters.read()

    assert set(found.cpus["0"]) == {"cycles", "instructions", "cache-references"}
    assert found.soakers["0"]["cycles"] == Count(0, 0, 0)


@needs_perf
@pytest.mark.measures
def test_the_time_of_a_busy_process_is_counted_apart():
    cpu = min(os.sched_getaffinity(0))
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        os.sched_setaffinity(0, [cpu])
        while True:
            pass
    try:
        with PerfCounters([cpu], {cpu: pid}, perf.SOFTWARE_EVENTS) as counters:
            before = counters.read()
            # Until it has had 20 ms of its CPU.
            after = before
            for _ in range(5000):
                time.sleep(0.002)
                after = counters.read()
                own = after.soakers[str(cpu)]["task-clock"].value
                if own - before.soakers[str(cpu)]["task-clock"].value > 20_000_000:
                    break
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    everything = after.cpus[str(cpu)]["task-clock"].value
    own = after.soakers[str(cpu)]["task-clock"].value
    assert everything >= own > 20_000_000
    assert total(before, after, "task-clock", [cpu]).value is not None


@needs_perf
def test_counters_are_closed():
    before = len(list(Path("/proc/self/fd").iterdir()))

    counters = PerfCounters([min(os.sched_getaffinity(0))], {}, perf.SOFTWARE_EVENTS)
    counters.close()
    counters.close()

    assert len(list(Path("/proc/self/fd").iterdir())) == before
