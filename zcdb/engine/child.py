"""What an endpoint's process does between its fork and its end.

It owns the sockets, the files and the threads, and obeys three messages of its
parent: go, stop (before anything runs; later the stop word says it) and bye.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from zcdb.engine import files
from zcdb.engine.admission import Admitted, admit_datagram_senders, admit_streams
from zcdb.engine.apis import SENDER_APIS, shares
from zcdb.engine.channel import Channel, ChannelClosed, seconds_until
from zcdb.engine.counters import SharedCounters
from zcdb.engine.jobs import Line, pipe_size_bytes, receiver_streams, sender_streams
from zcdb.engine.options import ReceiverOptions, SenderOptions, datagrams_of_a_call
from zcdb.engine.process import EXIT_BUG, die_with, set_name, wake_up_exactly
from zcdb.engine.sockets import connect, effective_values, listen, open_datagram_sockets
from zcdb.engine.streams import Crew, Stream
from zcdb.engine.workers import Company
from zcdb.errors import EngineError

COLD_SHARE = 0.01
"""Up to this share of pages may stay in the cache and the files still count as cold."""


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
    die_with(parent_pid)
    set_name(name)
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
    crew: Crew | Company | None
    try:
        _join_cgroups(options.cgroup_paths)
        _pin(options.cpus)
        if isinstance(options, SenderOptions):
            crew, errors = _send(options, channel, counters)
        else:
            crew, errors = _receive(options, channel, counters)
    except EngineError as error:
        channel.send("failed", message=error.message, hint=error.hint)
        return
    channel.send("end", errors=errors)
    # The parent reads our CPU clocks and sockets until it says bye.
    _wait_for(channel, ("bye",), options.longest_run_ns)
    if isinstance(crew, Company):
        crew.dismiss()


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


def _muster(
    options: SenderOptions | ReceiverOptions,
    channel: Channel,
    connections: Sequence[socket.socket],
    make_streams: Callable[[Sequence[Line]], list[Stream]],
) -> Crew | Company:
    """Return what runs the streams: threads of this process, or processes that share them."""
    lines = [
        Line(number, connections[number % len(connections)] if connections else None)
        for number in range(options.streams)
    ]
    if options.processes == 1:
        return Crew(make_streams(lines))
    return Company(
        "sender" if isinstance(options, SenderOptions) else "receiver",
        options.processes,
        lambda number: Crew(make_streams(lines[number :: options.processes])),
        inherited=[channel.fileno()],
    )


def _send(
    options: SenderOptions, channel: Channel, counters: SharedCounters
) -> tuple[Crew | Company, list[str]]:
    source = _make_source(options)
    if options.target_bps:
        wake_up_exactly()
    connections = _connect_all(options)
    crew = _muster(
        options,
        channel,
        # Each exchange of a crr client makes its own; the first connection only tried the way.
        connections if options.test != "crr" else [],
        lambda lines: sender_streams(options, lines, counters, source),
    )
    effective = {
        **effective_values(connections[0]),
        **_source_values(options, source),
        "cpus": crew.cpus,
    }
    ports = [connection.getsockname()[1] for connection in connections]
    if options.test == "crr":
        connections[0].close()
        connections = []
    channel.send(
        "ready",
        [connection.fileno() for connection in connections],
        ports=ports,
        pids=list(crew.pids),
        effective=effective,
    )
    if _wait_for(channel, ("go", "stop"), options.longest_run_ns) == "stop":
        return crew, []
    return crew, crew.run(options.longest_run_ns)


def _connect_all(options: SenderOptions) -> list[socket.socket]:
    streams = 1 if options.test == "crr" else options.streams
    return [connect(options, stream) for stream in range(streams)]


def _make_source(options: SenderOptions) -> files.SourceFiles | None:
    """Make the files that are sent from, if any are, as warm or as cold as they are to be."""
    names = shares(options.api, options.api_mix)
    if not any(SENDER_APIS[name].takes_file for name in names):
        return None
    source = files.make_source(options.working_set, options.message_size_bytes, options.file_folder)
    if options.page_cache == "cold":
        source.drop()
        cached_share = source.cached_share()
        if cached_share > COLD_SHARE:
            raise EngineError(
                f"{cached_share:.0%} of the source files stayed in the page cache when they were"
                " dropped from it",
                hint="set TMPDIR to a folder on a disk",
            )
    return source


def _source_values(options: SenderOptions, source: files.SourceFiles | None) -> dict[str, Any]:
    message_bytes = options.message_size_bytes * datagrams_of_a_call(options)
    if options.is_exchange:
        return {}
    values: dict[str, Any] = {
        "working_set_bytes": sum(files.extent_sizes(options.working_set, message_bytes)),
        "cached_share": source.cached_share() if source is not None else None,
    }
    if "splice" in shares(options.api, options.api_mix):
        values["pipe_size"] = pipe_size_bytes(message_bytes)
    if options.udp_segment:
        values["datagrams_per_call"] = datagrams_of_a_call(options)
    return values


def _receive(
    options: ReceiverOptions, channel: Channel, counters: SharedCounters
) -> tuple[Crew | Company | None, list[str]]:
    is_datagram = options.protocol == "udp"
    doors = open_datagram_sockets(options) if is_datagram else listen(options)
    channel.send(
        "ready",
        ports=[door.getsockname()[1] for door in doors],
        effective=effective_values(doors[0]),
    )
    admitted = _admit(options, doors, channel)
    if not admitted.is_complete:
        return None, []
    connections = admitted.connections
    crew = _muster(
        options, channel, connections, lambda lines: receiver_streams(options, lines, counters)
    )
    effective = {**effective_values(connections[0]), "cpus": crew.cpus}
    if options.token:
        effective["refused_connections"] = admitted.refused
    channel.send(
        "connected",
        [connection.fileno() for connection in connections],
        pids=list(crew.pids),
        effective=effective,
    )
    return crew, crew.run(options.longest_run_ns)


def _admit(options: ReceiverOptions, doors: Sequence[socket.socket], channel: Channel) -> Admitted:
    """Return the connection of each stream; a crr server's are its listening sockets."""
    if options.test == "crr":
        return Admitted(list(doors), 0, is_complete=True)
    if options.protocol == "udp":
        return admit_datagram_senders(doors, options, channel)
    admitted = admit_streams(doors, options, channel)
    for door in doors:
        door.close()
    return admitted
