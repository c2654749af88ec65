"""The agent itself: it does what the lines on its standard input ask.

The process is single-threaded and forks its endpoints and soakers, so that
they die with it.  When its input ends it stops them, gives back what it
changed and exits; when it is killed the kernel does most of that, and the next
start the rest.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from zcdb import __version__
from zcdb.agent import protocol
from zcdb.agent.settings import AgentSettings
from zcdb.agent.tool_ops import ToolOperations
from zcdb.engine import apis, window
from zcdb.engine.endpoint import (
    ReceiverOptions,
    SenderOptions,
    start_receiver,
    start_sender,
)
from zcdb.engine.soak import Soakers, SoakOptions
from zcdb.errors import AgentError, ZcdbError
from zcdb.host import cgroups, facts, links
from zcdb.host.lock import HostLock
from zcdb.ids import Json
from zcdb.records import End

STOP_TIMEOUT_S = 8.0
READ_BYTES = 1 << 16


class Agent(ToolOperations):
    """The state of one agent and its operations (`op_...`), one a request."""

    def __init__(self, is_abandoned: Callable[[], bool]) -> None:
        super().__init__()
        self._is_abandoned = is_abandoned
        self.silence_limit_s: float | None = None
        self._soakers: Soakers | None = None
        self._groups: cgroups.CpuGroups | None = None
        self._lock: HostLock | None = None
        self._settings = AgentSettings()

    def handle(self, op: str, arguments: Mapping[str, Any]) -> Json:
        """Carry out one request.

        Raises:
            ZcdbError: what the runner is told.
        """
        method = getattr(self, f"op_{op}", None)
        if method is None:
            raise AgentError(f"this agent knows no operation {op!r}")
        result: Json = method(**arguments)
        return result

    def close(self) -> None:
        """Stop everything and give back what was changed.  Idempotent."""
        self._ends.kill()
        if self._soakers is not None:
            self._soakers.stop()
            self._soakers = None
        if self._groups is not None:
            self._groups.close()
            self._groups = None
        self._settings.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # -- the host ---------------------------------------------------------------------------

    def op_hello(self, silence_limit_s: float | None = None) -> Json:
        """Say who this is: version, boot, clock, the CPUs that may be used.

        Args:
            silence_limit_s: end if no request comes for so long; None: never.
        """
        self.silence_limit_s = silence_limit_s
        return {
            "version": __version__,
            "protocol": protocol.PROTOCOL,
            "pid": os.getpid(),
            "boot_id": facts.boot_id(),
            "monotonic_ns": time.monotonic_ns(),
            "cores": facts.cpus_by_core(),
        }

    def op_clock(self) -> Json:
        """Return this host's monotonic clock, for the runner to find out how far off it is."""
        return time.monotonic_ns()

    def op_facts(self, interface: str | None = None, is_bandwidth_measured: bool = True) -> Json:
        """Return the stable facts and the present readings of this host."""
        return {
            "facts": facts.collect(interface),
            "readings": facts.readings(
                interface=interface, is_bandwidth_measured=is_bandwidth_measured
            ),
        }

    def op_lock(self, holder: str) -> Json:
        """Take the host's lock; say who has it if that fails."""
        taken = HostLock.acquire(holder)
        if isinstance(taken, str):
            return {"taken": False, "holder": taken}
        self._lock = taken
        return {"taken": True}

    def op_unsupported(self, factors: Mapping[str, Any]) -> Json:
        """Return why this kernel cannot run a case with these factors, or None."""
        for name in (factors.get("api"), factors.get("rx_api")):
            reason = apis.unsupported_reason(name) if name is not None else None
            if reason is not None:
                return f"{name}: {reason}"
        return apis.unsupported_combination(factors)

    # -- settings ---------------------------------------------------------------------------

    def op_undo_leftovers(self) -> Json:
        """Put back what killed runs left on this host; return what was done, as sentences."""
        return self._settings.undo_leftovers()

    def op_apply_settings(
        self,
        wanted: list[Mapping[str, Any]],
        interfaces: list[str],
        allow_interfaces: list[str],
    ) -> Json:
        """Make settings hold in place of those that were applied before."""
        return self._settings.apply(wanted, interfaces, allow_interfaces)

    def op_check_settings(self) -> Json:
        """Return a sentence for each setting that does not hold any more."""
        return self._settings.check()

    def op_restore_settings(self) -> Json:
        """Put the settings back; return a sentence for each that is not as it was."""
        return self._settings.restore()

    # -- the link ---------------------------------------------------------------------------

    def op_enter_namespace(self, partner_pid: int | None = None) -> Json:
        """Move into a network namespace of its own."""
        links.enter_new_namespace(partner_pid)
        self._settings.entered_namespace()
        return {}

    def op_make_veth(
        self,
        name: str,
        addresses: list[str],
        peer_name: str,
        peer_addresses: list[str],
        peer_pid: int,
    ) -> Json:
        """Make a veth pair to the namespace of another agent on this host."""
        links.make_veth(name, addresses, peer_name, peer_addresses, peer_pid)
        return {}

    def op_has_ipv6(self) -> Json:
        """Return whether this network namespace has IPv6."""
        return links.has_ipv6()

    def op_addresses(self, interface: str) -> Json:
        """Return the addresses of an interface: family -> list, the first one first."""
        return links.interface_addresses(interface)

    # -- soaking ----------------------------------------------------------------------------

    def op_start_soak(self, cpus: list[int], is_isolated: bool | None = None) -> Json:
        """Start one soaker per CPU, each in its CPU's control group where groups are allowed.

        Args:
            is_isolated: put load and soakers before all other work; None: if the host is busy.

        Returns:
            cgroup_paths: CPU -> the files by which an endpoint of any agent on this host joins.
        """
        made = cgroups.CpuGroups.create(cpus, is_isolated=is_isolated)
        groups = self._groups = None if isinstance(made, str) else made
        self._soakers = Soakers.start(SoakOptions(cpus=tuple(cpus)), groups=groups)
        # They run within windows only: isolated soakers would starve the work in between.
        self._soakers.pause()
        if groups is None:
            return {"foreign_not_measured": str(made), "is_isolated": False, "cgroup_paths": {}}
        return {
            "foreign_not_measured": groups.usage_reason,
            "is_isolated": groups.is_isolated,
            "cgroup_paths": {
                str(cpu): [str(path) for path in groups.procs_files(cpu)] for cpu in groups.cpus
            },
        }

    # -- endpoints --------------------------------------------------------------------------

    def op_start_receiver(self, options: Mapping[str, Any]) -> Json:
        """Start a receiver: it listens and is ready when this returns."""
        endpoint = start_receiver(ReceiverOptions.from_dict(options))
        self._ends.keep("receiver", endpoint)
        return {"ports": endpoint.ports, "effective": endpoint.effective}

    def op_start_sender(self, options: Mapping[str, Any]) -> Json:
        """Start a sender: it is connected and waits when this returns."""
        endpoint = start_sender(SenderOptions.from_dict(options))
        self._ends.keep("sender", endpoint)
        return {"effective": endpoint.effective}

    def op_go(self, end: End) -> Json:
        """Let an endpoint move bytes."""
        self._ends.get(end).go()
        return {}

    def op_state(self, end: End) -> Json:
        """Return an endpoint's counters and effective values as they stand now."""
        endpoint = self._ends.get(end)
        return {"reading": dict(endpoint.reading()), "effective": endpoint.effective}

    def op_stop(self, end: End) -> Json:
        """Stop an endpoint and return its totals."""
        result = self._ends.get(end).stop(STOP_TIMEOUT_S)
        self._ends.forget(end)
        return {
            "totals": dict(result.totals),
            "errors": list(result.errors),
            "verify_mismatch": result.verify_mismatch,
            "first_bad_offset": result.first_bad_offset,
        }

    def op_kill(self) -> Json:
        """End all endpoints at once, after a trial that failed."""
        self._ends.kill()
        self._settings.check_health()
        return {}

    # -- the window -------------------------------------------------------------------------

    def op_window(
        self,
        duration_ns: int,
        sample_ns: int,
        sampler_cpu: int,
        is_host_read: bool,
        is_soaked: bool = True,
        start_at_ns: int | None = None,
        discard_ns: int = 0,
        interfaces: Sequence[str] = (),
    ) -> Json:
        """Read edges for a while, with the soakers running.

        Args:
            discard_ns: length of the ramp, after which the first edge carries details.
            interfaces: those whose counters are read; none in a bracket.
            sampler_cpu: where the reading itself runs; the same in brackets and windows.
            is_soaked: False leaves the soakers paused, to see what they do to the load.
            is_host_read: False where another agent of the same host reads the host's counters.
            start_at_ns: first edge, on this host's monotonic clock; None is now.
        """
        if start_at_ns is not None:
            time.sleep(max(0, start_at_ns - time.monotonic_ns()) / 10**9)
        sources = window.Sources(
            soakers=self._soakers if is_host_read else None,
            ends=self._ends.readers(),
            cgroups=self._groups if is_host_read else None,
            is_host_read=is_host_read,
            interfaces=tuple(interfaces),
        )
        with window.sampling_priority(sampler_cpu) as sampler, self._soaking(is_soaked):
            edges = window.read_edges(
                duration_ns, sample_ns, sources, self._is_abandoned, discard_ns=discard_ns
            )
        return {
            "edges": [edge.to_json() for edge in edges],
            "no_priority": sampler.reason,
        }

    @contextmanager
    def _soaking(self, is_soaked: bool) -> Iterator[None]:
        if self._soakers is None or not is_soaked:
            yield
            return
        self._soakers.resume(is_waiting=False)
        try:
            yield
        finally:
            self._soakers.pause()


def _has_hung_up(descriptor: int) -> Callable[[], bool]:
    poll = select.poll()
    # Under sshd the pipe may be a socket whose other end is only half closed.
    poll.register(descriptor, select.POLLHUP | select.POLLRDHUP)
    return lambda: bool(poll.poll(0))


class _Requests:
    """The lines on a descriptor, until it ends or nobody has written for too long.

    Attributes:
        silence_limit_s: a runner behind a network may be gone without a sign; None: wait for ever.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.silence_limit_s: float | None = None

    def __iter__(self) -> Iterator[bytes]:
        left = b""
        while data := self._read():
            *lines, left = (left + data).split(b"\n")
            yield from lines
        if left:
            yield left

    def _read(self) -> bytes:
        ready, _, _ = select.select([self._descriptor], [], [], self.silence_limit_s)
        return os.read(self._descriptor, READ_BYTES) if ready else b""


def serve() -> None:
    """Answer requests on stdin until it ends, then clean up."""
    # Whatever prints by mistake must not end up between the lines of the protocol.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests = _Requests(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))
    agent = Agent(_has_hung_up(0))
    try:
        for line in requests:
            message = protocol.decode(line)
            replies.write(protocol.encode(_reply(agent, message)))
            replies.flush()
            requests.silence_limit_s = agent.silence_limit_s
    except BrokenPipeError:
        return
    finally:
        # Nothing may cut short what is put back here; a kill -9 leaves it to the next start.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        agent.close()


def _reply(agent: Agent, message: Mapping[str, Any]) -> dict[str, Json]:
    number = message.get("id")
    try:
        result = agent.handle(message["op"], message.get("arguments") or {})
    except ZcdbError as error:
        return {"id": number, "error": protocol.error_to_json(error)}
    return {"id": number, "result": result}
