"""An end that is a foreign tool, with the methods of `zcdb.engine.endpoint.Endpoint`.

So the agent keeps, reads, stops and kills it like an end of its own.  Its
counters are read from outside: sockets through sock_diag, CPU time from the
clocks of the tool's processes, what it wrote from the kernel's account.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import FileIO
from typing import Any

from zcdb.errors import EngineError
from zcdb.tools import processes
from zcdb.tools.inetdiag import ConnectionWatch, SocketDiag
from zcdb.tools.model import UNSEEN_COUNTS, Job, ToolOptions
from zcdb.tools.supervisor import Board, Surroundings, fill, run_supervisor, written_bytes

SumTcpInfo = Callable[[Sequence[bytes]], Mapping[str, int]]

START_TIMEOUT_S = 20.0
READY_POLL_S = 0.01
STOP_MARGIN_S = 10.0
EXIT_TIMEOUT_S = 5.0
MOST_LOOKS = 100
"""At a count that changes while it is read; then the one before is good enough."""

OUTPUT_LIMIT_BYTES = 256 * 1024
"""More than this of what a tool prints is cut off."""


@dataclass(frozen=True, slots=True)
class ToolEnding:
    """How a tool ended; the first four as `zcdb.engine.endpoint.EndpointEnd` has them.

    Attributes:
        report: JSON: command, version, runs, started_ns and ended_ns of the runs, output and
            errors as printed (cut to their last 256 KiB).
    """

    totals: Mapping[str, int]
    errors: list[str]
    report: Mapping[str, Any]
    verify_mismatch: int | None = None
    first_bad_offset: int | None = None


@dataclass(slots=True)
class _Delay:
    """When to start a job that is measured whole: so long after the first reading."""

    delay_ns: int
    first_ns: int | None = None


class ToolEnd:
    """A foreign tool that sends or receives.

    Args:
        options: what it was asked for.
        job: what to run.
        version: what the program says of itself; None if it does not say.
        sum_tcp_info: makes counters of the TCP_INFO of all its connections.

    Attributes:
        pid: of the process that runs the tool.
        ports: where it serves (and, if that is another one, gets data); [] for a client.
        effective: command, program version, how payload is counted, CPUs and what else is
            known of its values.
        differences: a sentence for each factor that the tool does not do as stated.

    Raises:
        EngineError: if it does not start; its own words are in the sentence.
    """

    def __init__(
        self,
        options: ToolOptions,
        job: Job,
        version: str | None = None,
        sum_tcp_info: SumTcpInfo = lambda _infos: {},
    ) -> None:
        served = [job.port, job.data_port] if job.data_port else [job.port]
        self.ports = served if job.is_server else []
        self.effective: dict[str, Any] = {
            **job.effective,
            "tool_command": list(job.argv),
            "tool_version": version,
            "payload_counting": job.meter,
        }
        self.differences = job.differences
        self._options, self._job = options, job
        self._sum_tcp_info = sum_tcp_info
        self._board = Board()
        self._files: list[FileIO] = []
        self._watch: ConnectionWatch | None = None
        self._is_reaped = self._is_told = self._is_stopping = False
        self._delay: _Delay | None = None
        self._last = {"payload_bytes": 0, "cpu_time_ns": 0, "retransmits": 0}
        self._first_interface_bytes: int | None = None
        self._output, self._errors = self._file(), self._file()
        source = self._file(job.file_bytes) if job.file_bytes else None
        go_reads, self._go = os.pipe2(os.O_CLOEXEC)
        surroundings = Surroundings(
            go_reads,
            self._output.fileno(),
            self._errors.fileno(),
            source.fileno() if source is not None else None,
            options.cpus,
            options.cgroup_paths,
        )
        parent_pid = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            run_supervisor(job, surroundings, self._board, parent_pid)
        os.close(go_reads)
        try:
            self._get_ready()
        except BaseException:
            self.kill()
            raise

    @property
    def name(self) -> str:
        """Return how messages name it."""
        return f"{self._options.tool} at the {self._options.end}"

    def go(self) -> None:
        """Let it run, or its first run wait for the window if it is measured whole."""
        if self._job.meter == "whole":
            self._delay = _Delay(self._options.discard_ns)
        else:
            self._tell()

    def reading(self) -> dict[str, int]:
        """Return its cumulative counts now.

        Keys: payload_bytes, cpu_time_ns, streams_running, retransmits and others of TCP where
        its connections are watched, and `UNSEEN_COUNTS`, which stay 0: an endpoint of zcdb's
        own has them, and the runner drops them.

        Raises:
            EngineError: if the tool has failed, or has ended when it should not.
        """
        if self._delay is not None:
            self._start_when_due(self._delay)
        self._raise_if_failed()
        self._read_cpu_time()
        self._read_payload()
        running = int(self._board.read().pid != 0)
        return {**dict.fromkeys(UNSEEN_COUNTS, 0), **self._last, "streams_running": running}

    def stop(self, timeout_s: float = STOP_MARGIN_S) -> ToolEnding:
        """End it: a server by signal, a client by waiting for its own end.

        A client that does not end within `timeout_s` after its time, or fails, is an error in
        what is returned.
        """
        self._is_stopping = True
        if self._is_told and self._job.run_s is not None:
            self._wait_until_over(self._job.run_s + timeout_s)
        totals = self.reading() if not self._failure() else dict(self._last)
        errors = [sentence] if (sentence := self._failure()) else []
        if not errors and not self._board.read().is_over:
            errors = self._lateness(timeout_s)
        self._end_processes()
        report = self._report()
        self.kill()
        return ToolEnding(totals, errors, report)

    def kill(self) -> None:
        """End the tool at once and give everything back.  Idempotent, never raises."""
        if not self._is_reaped:
            self._end_processes()
        if self._go >= 0:
            os.close(self._go)
            self._go = -1
        if self._watch is not None:
            self._watch.close()
        for file in self._files:
            file.close()

    # -- starting ---------------------------------------------------------------------------

    def _file(self, size_bytes: int = 0) -> FileIO:
        """Return a file without a name: it is gone with the last process that has it."""
        file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed by `kill`)
        self._files.append(file)
        if size_bytes:
            fill(file.fileno(), size_bytes)
        return file

    def _get_ready(self) -> None:
        if self._job.meter in ("sockets-at", "sockets-to"):
            is_own = self._job.meter == "sockets-at"
            port = self._job.data_port or self._job.port
            self._watch = ConnectionWatch(
                own_port=port if is_own else 0,
                peer_port=0 if is_own else port,
                expected=self._job.sockets,
            )
        self._wait_for(lambda: self._board.read().is_prepared, "was not prepared")
        self.effective["cpus"] = sorted(os.sched_getaffinity(self.pid))
        if self._job.is_server:
            port = self._job.port
            self._tell()
            with SocketDiag() as diag:
                self._wait_for(lambda: diag.is_listening(port), f"did not listen on port {port}")

    def _wait_for(self, is_so: Callable[[], bool], complaint: str) -> None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not is_so():
            self._raise_if_failed()
            if time.monotonic() > deadline_s:
                raise EngineError(
                    f"{self.name} {complaint} within {START_TIMEOUT_S:g} s{self._last_words()}"
                )
            time.sleep(READY_POLL_S)

    def _tell(self) -> None:
        if not self._is_told:
            self._is_told = True
            # It may be gone already; the next look at it says so.
            with contextlib.suppress(BrokenPipeError):
                os.write(self._go, b"g")

    def _start_when_due(self, delay: _Delay) -> None:
        now_ns = time.monotonic_ns()
        if delay.first_ns is None:
            delay.first_ns = now_ns
        if now_ns >= delay.first_ns + delay.delay_ns:
            self._delay = None
            self._tell()

    # -- readings ---------------------------------------------------------------------------

    def _read_cpu_time(self) -> None:
        progress = self._board.read()
        spent_ns = progress.cpu_time_ns
        if progress.pid:
            spent_ns += processes.tree_cpu_time_ns(progress.pid)
        # A run that ends between two looks is booked a little differently by its parent.
        self._last["cpu_time_ns"] = max(self._last["cpu_time_ns"], spent_ns)

    def _read_payload(self) -> None:
        meter = self._job.meter
        if self._watch is not None:
            counts = self._watch.read()
            is_receiver = self._options.end == "receiver"
            self._last["payload_bytes"] = counts.read_bytes if is_receiver else counts.sent_bytes
            self._last |= self._sum_tcp_info(self._watch.tcp_infos)
        elif meter == "written":
            self._last["payload_bytes"] = self._written()
        elif meter == "interface":
            received = processes.interface_received_bytes(self._options.interface)
            if self._first_interface_bytes is None:
                self._first_interface_bytes = received
            self._last["payload_bytes"] = received - self._first_interface_bytes
        elif meter == "whole" and self._board.read().runs:
            self._last["payload_bytes"] = self._run_bytes()

    def _run_bytes(self) -> int:
        """Return the payload of the run that has ended."""
        if self._job.run_bytes is not None:
            return self._job.run_bytes
        printed = "".join(_tail(file, OUTPUT_LIMIT_BYTES) for file in (self._output, self._errors))
        found = self._job.printed_bytes(printed) if self._job.printed_bytes else None
        if found is None:
            raise EngineError(
                f"{self.name} printed nothing that its command_bytes finds{self._last_words()}"
            )
        return found

    def _written(self) -> int:
        for _ in range(MOST_LOOKS):
            before = self._board.read()
            running = 0
            if before.pid:
                # A run may end between the two looks: then its figures are on the board.
                with contextlib.suppress(OSError):
                    running = written_bytes(before.pid)
            if self._board.read() == before:
                return max(before.written_bytes + running, self._last["payload_bytes"])
        return self._last["payload_bytes"]

    # -- ends and failures ------------------------------------------------------------------

    def _failure(self) -> str | None:
        """Return what went wrong with the tool, or None."""
        progress = self._board.read()
        if not progress.is_over or (self._is_stopping and self._job.is_server):
            return None
        if progress.status != 0:
            how = processes.describe_status(progress.status)
            return f"{self.name} {how}{self._last_words()}"
        if not self._is_stopping and self._job.meter != "whole":
            return f"{self.name} ended by itself before the window did{self._last_words()}"
        return None

    def _lateness(self, timeout_s: float) -> list[str]:
        if self._job.run_s is not None:
            return [f"{self.name} did not end within {timeout_s:g} s after its time"]
        if self._job.meter == "whole":
            return [f"{self.name} had not ended when the window did; make its duration longer"]
        return []

    def _raise_if_failed(self) -> None:
        sentence = self._failure()
        if sentence is not None:
            raise EngineError(sentence)
        pid, _ = (0, 0) if self._is_reaped else os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self._is_reaped = True
            if not self._board.read().is_over:
                raise EngineError(f"the process that ran {self.name} was ended by somebody")

    def _last_words(self) -> str:
        for file in (self._errors, self._output):
            lines = [line for line in _tail(file, 4096).splitlines() if line.strip()]
            if lines:
                return f": {lines[-1].strip()[:300]}"
        return ""

    def _wait_until_over(self, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not self._board.read().is_over and time.monotonic() < deadline_s:
            # Its sockets are gone when it is: the last look at them is what it moved in all.
            self._read_cpu_time()
            self._read_payload()
            time.sleep(READY_POLL_S)

    def _end_processes(self) -> None:
        """End the tool with everything it forked, then the process that ran it."""
        if self._is_reaped:
            return
        running = self._board.read().pid
        # The group has the tool and what it forked, unless one of them left it.
        for pid in [*(processes.tree(running) if running else ()), self.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._is_reaped = True

    def _report(self) -> dict[str, Any]:
        progress = self._board.read()
        return {
            "command": list(self._job.argv),
            "version": self.effective["tool_version"],
            "runs": progress.runs,
            "started_ns": progress.started_ns or None,
            "ended_ns": progress.ended_ns or None,
            "output": _tail(self._output, OUTPUT_LIMIT_BYTES),
            "errors": _tail(self._errors, OUTPUT_LIMIT_BYTES),
        }


@dataclass(slots=True)
class AbsentEnd:
    """An end where nothing of ours runs: its CPUs are watched, its processes are not known."""

    pid: int | None = None
    ports: list[int] = field(default_factory=list)
    effective: dict[str, Any] = field(default_factory=lambda: {"payload_counting": "absent"})
    differences: tuple[str, ...] = ()
    has_ended: bool = False

    def go(self) -> None:
        """Do nothing: whatever sends here is not ours to start."""

    def reading(self) -> dict[str, int]:
        """Return counts that never move; what stands for them is dropped from the record."""
        seen = ("payload_bytes", "retransmits", "cpu_time_ns", "streams_running")
        return dict.fromkeys((*UNSEEN_COUNTS, *seen), 0)

    def stop(self, timeout_s: float = 0.0) -> ToolEnding:
        """Return the empty ending of nothing."""
        return ToolEnding(self.reading(), [], {"command": None})

    def kill(self) -> None:
        """Do nothing."""


def _tail(file: FileIO, limit_bytes: int) -> str:
    size = os.fstat(file.fileno()).st_size
    data = os.pread(file.fileno(), limit_bytes, max(0, size - limit_bytes))
    return data.decode(errors="replace")
