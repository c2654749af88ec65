"""The walk over a plan: order, attempts, failures, interruptions, resuming."""

from __future__ import annotations

import signal
import time
import uuid

import pytest
from runner_support import (
    FakeBench,
    MemoryRecorder,
    SilentProgress,
    failing,
    make_execution,
    make_measured,
)

from zcdb.errors import StoreError
from zcdb.runner.execute import Resume, execute, new_run_id
from zcdb.runner.interrupt import Interrupted, Interruption, SignalInterruption


def test_every_planned_repetition_is_measured_once_in_the_plan_s_order():
    execution, bench, recorder = make_execution(), FakeBench(), MemoryRecorder()

    result = execute(execution, bench, recorder, SilentProgress())

    assert recorder.finals() == [(p.plan_key, p.repetition) for p in execution.plan]
    assert (result.outcome, result.counts["ok"]) == ("finished", 6)
    assert recorder.outcome == "finished"
    assert recorder.readings == {"bench": "fake", "environment_changed": []}
    assert not bench.is_open


def test_the_plan_is_recorded_before_the_first_trial():
    execution, recorder = make_execution(), MemoryRecorder()
    seen = []

    def script(factors, call):
        seen.append(list(recorder.runs))
        return make_measured()

    execute(execution, FakeBench(script), recorder, SilentProgress())

    assert seen[0][0].plan == execution.plan


def test_a_trial_is_recorded_as_started_before_it_is_measured():
    recorder = MemoryRecorder()
    open_trials = []

    def script(factors, call):
        open_trials.append(len(recorder.starts) - len(recorder.ends))
        return make_measured()

    execute(make_execution(), FakeBench(script), recorder, SilentProgress())

    assert open_trials == [1] * 6


def test_a_failing_trial_is_recorded_with_its_reason_and_the_rest_runs():
    bench = FakeBench(lambda factors, call: failing() if call == 1 else make_measured())
    recorder = MemoryRecorder()

    result = execute(make_execution(), bench, recorder, SilentProgress())

    assert dict(result.counts) == {"ok": 5, "failed": 1}
    assert [e.reason for e in recorder.ends.values() if e.status == "failed"] == [
        "the receiver was killed"
    ]
    assert bench.recovered == 1


def test_a_trial_that_measured_but_is_bad_keeps_its_numbers():
    bench = FakeBench(lambda factors, call: make_measured(failure="3 bytes differ"))
    recorder = MemoryRecorder()

    execute(make_execution(repetitions=1), bench, recorder, SilentProgress())

    ends = list(recorder.ends.values())
    assert [(e.status, e.reason) for e in ends] == [("failed", "3 bytes differ")] * 2
    assert all(e.measurements for e in ends)


def test_unsupported_cases_are_recorded_with_the_reason_before_anything_is_measured():
    bench = FakeBench(reasons={"sendfile": "this kernel has no sendfile"})
    recorder = MemoryRecorder()

    result = execute(make_execution(), bench, recorder, SilentProgress())

    assert dict(result.counts) == {"unsupported": 3, "ok": 3}
    assert bench.calls == ["write"] * 3
    assert [e.status for e in recorder.ends.values()][:3] == ["unsupported"] * 3


def test_the_case_of_a_trial_has_the_observed_context():
    recorder = MemoryRecorder()

    execute(make_execution(), FakeBench(), recorder, SilentProgress())

    start = next(iter(recorder.starts.values()))
    assert start.case_factors["sender_kernel"] == "0.0-fake"


def test_resuming_runs_only_what_has_no_final_attempt_and_counts_attempts_on():
    execution = make_execution()
    first, second = execution.plan[0], execution.plan[1]
    resume = Resume(
        run_id=new_run_id(),
        finished=frozenset({(first.plan_key, first.repetition)}),
        attempts={(first.plan_key, first.repetition): 1, (second.plan_key, second.repetition): 2},
    )
    recorder = MemoryRecorder()

    result = execute(make_execution(resume=resume), FakeBench(), recorder, SilentProgress())

    assert result.run_id == resume.run_id
    assert recorder.runs == []
    assert len(recorder.finals()) == 5
    assert next(iter(recorder.starts.values())).attempt == 2


def test_an_interrupted_trial_stays_as_failed_interrupted():
    interruption = Interruption()

    def script(factors, call):
        if call == 2:
            interruption.request()
        return make_measured()

    recorder = MemoryRecorder()
    bench = FakeBench(script)

    result = execute(make_execution(), bench, recorder, SilentProgress(), interruption)

    assert result.outcome == recorder.outcome == "interrupted"
    assert [e.reason for e in recorder.ends.values()] == [None, None, "interrupted"]
    assert not bench.is_open


def test_a_request_that_comes_while_a_record_is_written_waits_until_it_is_safe():
    interruption = Interruption()
    recorder = MemoryRecorder()
    keep = recorder.trial_ended

    def ended(end):
        interruption.request()
        keep(end)

    recorder.trial_ended = ended

    execute(make_execution(), FakeBench(), recorder, SilentProgress(), interruption)

    assert [e.status for e in recorder.ends.values()] == ["ok", "failed"]
    assert recorder.outcome == "interrupted"


def test_a_bug_in_the_bench_is_not_swallowed_and_its_trial_does_not_stay_open():
    def script(factors, call):
        raise ZeroDivisionError

    recorder = MemoryRecorder()

    with pytest.raises(ZeroDivisionError):
        execute(make_execution(), FakeBench(script), recorder, SilentProgress())

    assert [e.reason for e in recorder.ends.values()] == ["interrupted"]
    assert recorder.outcome == "failed"


def test_a_recorder_that_cannot_write_stops_the_run_and_leaves_it_open():
    recorder = MemoryRecorder()

    def full(end):
        raise StoreError("no space left on the device")

    recorder.trial_ended = full
    bench = FakeBench()

    with pytest.raises(StoreError, match="no space left"):
        execute(make_execution(), bench, recorder, SilentProgress())

    assert recorder.outcome is None
    assert not bench.is_open


def test_sigterm_stops_what_may_be_stopped_and_the_old_handler_comes_back():
    before = signal.getsignal(signal.SIGTERM)

    with SignalInterruption() as interruption, pytest.raises(Interrupted), interruption.allowed():
        signal.raise_signal(signal.SIGTERM)

    assert signal.getsignal(signal.SIGTERM) == before


def test_run_ids_are_uuid_version_7_and_sort_by_time():
    first = new_run_id()
    time.sleep(0.002)
    second = new_run_id()

    assert uuid.UUID(first).version == 7
    assert uuid.UUID(first).variant == uuid.RFC_4122
    assert first < second
