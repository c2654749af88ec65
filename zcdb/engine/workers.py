"""The processes of an endpoint that has more than one.

The endpoint's own process then only waits: each worker is forked from it with
its share of the streams, runs them as a `Crew`, and stays until it is told bye,
so that its CPU clock can be read to the end.  Workers die with it.
"""

from __future__ import annotations

import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from zcdb.engine.channel import Channel, ChannelClosed, Message, seconds_until, wait_process
from zcdb.engine.process import EXIT_BUG, die_with
from zcdb.engine.streams import Crew
from zcdb.errors import EngineError

START_TIMEOUT_S = 100.0
END_SLACK_S = 5.0
EXIT_TIMEOUT_S = 2.0
ORDER_TIMEOUT_S = 86_400.0
"""How long a worker waits for a word; the endpoint's death ends it much earlier."""


@dataclass(slots=True)
class _Worker:
    """A worker as the endpoint's process sees it."""

    pid: int
    channel: Channel
    errors: list[str] | None = None


class Company:
    """The workers of an endpoint, waiting to be let go; the same face as a `Crew`.

    Args:
        role: "sender" or "receiver", for messages.
        make_crew: called in each worker with its number; returns its streams' crew.
        inherited: descriptors that workers must not keep.

    Attributes:
        pids: the workers' processes.
        cpus: those that any of their threads may use.
    """

    def __init__(
        self,
        role: str,
        processes: int,
        make_crew: Callable[[int], Crew],
        inherited: Sequence[int],
    ) -> None:
        self._role = role
        self._workers: list[_Worker] = []
        for number in range(processes):
            self._workers.append(self._fork(number, make_crew, inherited))
        self.pids: Sequence[int] = [worker.pid for worker in self._workers]
        deadline_s = time.monotonic() + START_TIMEOUT_S
        cpus: set[int] = set()
        for worker in self._workers:
            cpus.update(self._await(worker, "ready", deadline_s).values["cpus"])
        self.cpus = sorted(cpus)

    def run(self, longest_run_ns: int) -> list[str]:
        """Run all loops to their end; return a sentence for each that failed.

        Raises:
            EngineError: if a worker was killed or broke down.
        """
        for worker in self._workers:
            self._tell(worker, "go", longest_run_ns)
        deadline_s = time.monotonic() + longest_run_ns / 10**9 + END_SLACK_S
        poller = select.poll()
        by_descriptor = {worker.channel.fileno(): worker for worker in self._workers}
        for descriptor in by_descriptor:
            poller.register(descriptor, select.POLLIN)
        while any(worker.errors is None for worker in self._workers):
            events = poller.poll(seconds_until(deadline_s) * 1000)
            if not events:
                raise EngineError(f"a process of the {self._role} did not end in time")
            for descriptor, _ in events:
                worker = by_descriptor[descriptor]
                worker.errors = self._await(worker, "end", deadline_s).values["errors"]
        return [error for worker in self._workers for error in worker.errors or []]

    def dismiss(self) -> None:
        """Let the workers exit and wait for that."""
        for worker in self._workers:
            self._tell(worker, "bye")
        for worker in self._workers:
            if not wait_process(worker.pid, EXIT_TIMEOUT_S):
                os.kill(worker.pid, signal.SIGKILL)
            os.waitpid(worker.pid, 0)

    def _fork(
        self, number: int, make_crew: Callable[[int], Crew], inherited: Sequence[int]
    ) -> _Worker:
        ours, theirs = Channel.pair()
        parent_pid = os.getpid()
        pid = os.fork()
        if pid == 0:
            # The ends of its siblings' channels too, or it would keep them open.
            kept = [worker.channel.fileno() for worker in self._workers]
            for descriptor in (*inherited, ours.fileno(), *kept):
                os.close(descriptor)
            _work(number, make_crew, theirs, parent_pid)
        theirs.close()
        return _Worker(pid, ours)

    def _tell(self, worker: _Worker, kind: str, longest_run_ns: int = 0) -> None:
        try:
            worker.channel.send(kind, longest_run_ns=longest_run_ns)
        except ChannelClosed:
            self._fail(worker)

    def _await(self, worker: _Worker, kind: str, deadline_s: float) -> Message:
        try:
            message = worker.channel.receive(seconds_until(deadline_s))
        except ChannelClosed:
            self._fail(worker)
        if message is None:
            raise EngineError(f"process {worker.pid} of the {self._role} was not {kind} in time")
        if message.kind == "failed":
            raise EngineError(message.values["message"], hint=message.values["hint"])
        return message

    def _fail(self, worker: _Worker) -> NoReturn:
        """Raise what became of a worker that is gone or going."""
        if not wait_process(worker.pid, EXIT_TIMEOUT_S):
            os.kill(worker.pid, signal.SIGKILL)
        _, status = os.waitpid(worker.pid, 0)
        if os.WIFSIGNALED(status):
            what = f"was killed by {signal.Signals(os.WTERMSIG(status)).name}"
        else:
            what = f"broke down with exit code {os.WEXITSTATUS(status)}"
        raise EngineError(f"the {self._role}'s process {worker.pid} {what}")


def _work(
    number: int, make_crew: Callable[[int], Crew], channel: Channel, parent_pid: int
) -> NoReturn:
    """Be a worker, then exit; never returns into the code of the endpoint."""
    exit_code = EXIT_BUG
    try:
        die_with(parent_pid)
        _serve(number, make_crew, channel)
        exit_code = 0
    except ChannelClosed:
        exit_code = 0
    finally:
        try:
            if exit_code:
                os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(exit_code)


def _serve(number: int, make_crew: Callable[[int], Crew], channel: Channel) -> None:
    try:
        crew = make_crew(number)
    except EngineError as error:
        channel.send("failed", message=error.message, hint=error.hint)
        return
    channel.send("ready", cpus=crew.cpus)
    message = channel.receive(ORDER_TIMEOUT_S)
    if message is not None and message.kind == "go":
        channel.send("end", errors=crew.run(message.values["longest_run_ns"]))
        channel.receive(ORDER_TIMEOUT_S)
