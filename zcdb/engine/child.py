"""What an endpoint's process does between its fork and its end.

It owns the sockets, the files and the threads, and obeys three messages of its
parent: go, stop (before anything runs; later the stop word says it) and bye.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import signal
import socket
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from zcdb.engine import files
from zcdb.engine.apis import SENDER_APIS
from zcdb.engine.channel import Channel, ChannelClosed, seconds_until, wait_readable
from zcdb.engine.counters import SharedCounters
from zcdb.engine.options import ReceiverOptions, SenderOptions
from zcdb.engine.sockets import connect, effective_values, listen
from zcdb.engine.streams import Crew, pipe_size_bytes, receiver_streams, sender_streams
from zcdb.errors import EngineError

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15

EXIT_BUG = 70
"""Exit code after an exception that is no EngineError; its traceback is on stderr."""


def run_child(
    options: SenderOptions | ReceiverOptions,
    channel: Channel,
    counters: SharedCounters,
    parent_pid: int,
) -> NoReturn:
    """Be an endpoint, then exit; never returns into the code of the parent."""
    exit_code = EXIT_BUG
    try:
        role = "sender" if isinstance(options, SenderOptions) else "receiver"
        _become_independent(channel, parent_pid, f"zcdb-{role}")
        _serve(options, channel, counters)
        exit_code = 0
    except ChannelClosed:
        exit_code = 0
    finally:
        try:
            if exit_code:
                # Not sys.stderr: what is behind it may be a descriptor that was the parent's.
                os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(exit_code)


def _become_independent(channel: Channel, parent_pid: int, name: str) -> None:
    """Die with the parent, and touch nothing that is the parent's."""
    # Objects of the parent must not be collected here: they would close descriptor
    # numbers that are ours by then.
    gc.disable()
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        raise ChannelClosed
    # The name that ps and top show; /proc/self/comm is not writable after a change of user.
    libc.prctl(PR_SET_NAME, name.encode())
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    # A Ctrl-C reaches the whole process group: the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.closerange(3, channel.fileno())
    os.closerange(channel.fileno() + 1, soft if soft != resource.RLIM_INFINITY else 1 << 20)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _serve(
    options: SenderOptions | ReceiverOptions, channel: Channel, counters: SharedCounters
) -> None:
    try:
        _join_cgroups(options.cgroup_paths)
        _pin(options.cpus)
        if isinstance(options, SenderOptions):
            errors = _send(options, channel, counters)
        else:
            errors = _receive(options, channel, counters)
    except EngineError as error:
        channel.send("failed", message=error.message, hint=error.hint)
        return
    channel.send("end", errors=errors)
    # The parent reads our CPU clock and sockets until it says bye.
    _wait_for(channel, ("bye",), options.longest_run_ns)


def _join_cgroups(paths: Sequence[str]) -> None:
    for path in paths:
        try:
            Path(path).write_text(str(os.getpid()))
        except OSError as error:
            raise EngineError(
                f"the endpoint cannot join the cgroup {path}: {error.strerror}"
            ) from None


def _pin(cpus: Sequence[int]) -> None:
    if not cpus:
        return
    allowed = sorted(os.sched_getaffinity(0))
    try:
        os.sched_setaffinity(0, cpus)
    except (OSError, ValueError, OverflowError):
        raise EngineError(
            f"the endpoint cannot be pinned to the CPUs {list(cpus)}",
            hint=f"it started with {allowed}; a container or cgroup may hold others back",
        ) from None


def _wait_for(channel: Channel, kinds: Sequence[str], bound_ns: int) -> str:
    """Return the kind of the first message that is one of `kinds`; "stop" if none comes in time."""
    deadline_s = time.monotonic() + bound_ns / 10**9
    while True:
        message = channel.receive(seconds_until(deadline_s))
        if message is None:
            return "stop"
        if message.kind in kinds:
            return message.kind


def _send(options: SenderOptions, channel: Channel, counters: SharedCounters) -> list[str]:
    source = None
    sizes = files.extent_sizes(options.working_set, options.message_size_bytes)
    if SENDER_APIS[options.api].takes_file:
        source = files.make_files(sizes, options.file_folder)
    connections = [connect(options, stream) for stream in range(options.streams)]
    crew = Crew(sender_streams(options, connections, counters, source))
    effective: dict[str, Any] = {
        **effective_values(connections[0]),
        "cpus": crew.cpus,
        "working_set_bytes": sum(sizes),
        "cached_share": source.cached_share() if source is not None else None,
    }
    if options.api == "splice":
        effective["pipe_size"] = pipe_size_bytes(options.message_size_bytes)
    channel.send(
        "ready",
        [connection.fileno() for connection in connections],
        ports=[connection.getsockname()[1] for connection in connections],
        effective=effective,
    )
    if _wait_for(channel, ("go", "stop"), options.longest_run_ns) == "stop":
        return []
    return crew.run(options.longest_run_ns)


def _receive(options: ReceiverOptions, channel: Channel, counters: SharedCounters) -> list[str]:
    listener = listen(options)
    channel.send("ready", ports=[listener.getsockname()[1]], effective=effective_values(listener))
    connections = _accept_all(listener, options, channel)
    listener.close()
    if len(connections) < options.streams:
        return []
    crew = Crew(receiver_streams(options, connections, counters))
    channel.send(
        "connected",
        [connection.fileno() for connection in connections],
        effective={**effective_values(connections[0]), "cpus": crew.cpus},
    )
    return crew.run(options.longest_run_ns)


def _accept_all(
    listener: socket.socket, options: ReceiverOptions, channel: Channel
) -> list[socket.socket]:
    """Return one connection a stream, or fewer if the parent says stop before."""
    connections: list[socket.socket] = []
    deadline_s = time.monotonic() + options.longest_run_ns / 10**9
    while len(connections) < options.streams:
        ready = wait_readable([listener.fileno(), channel.fileno()], seconds_until(deadline_s))
        if not ready:
            break
        if channel.fileno() in ready:
            message = channel.receive(0)
            if message is not None and message.kind == "stop":
                break
        if listener.fileno() in ready:
            connection, _ = listener.accept()
            connection.settimeout(None)
            connections.append(connection)
    return connections
