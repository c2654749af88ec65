"""Which tools there are, whether a case can be run with one here, and how it is started."""

from __future__ import annotations

import functools
import os
import subprocess
from dataclasses import replace
from pathlib import Path

from zcdb.errors import EngineError
from zcdb.factors import FACTORS, Factors
from zcdb.records import End
from zcdb.tools import command, ftp, iperf3, netperf, nfs
from zcdb.tools.end import AbsentEnd, SumTcpInfo, ToolEnd
from zcdb.tools.model import Job, Program, Tool, ToolOptions
from zcdb.tools.ports import free_port

TOOLS: dict[str, Tool] = {
    tool.name: tool for tool in (iperf3.TOOL, netperf.TOOL, nfs.TOOL, ftp.TOOL, command.TOOL)
}

OWN = "zcdb"
"""Value of the factor `tool` that is no foreign tool."""

ALWAYS_HEEDED = frozenset({"api", "test", "tool", "pinning", "link", "twin"})
"""Factors that are asked for above, or are the runner's business."""

VERSION_TIMEOUT_S = 5.0


def is_foreign(factors: Factors) -> bool:
    """Tell whether a case is run with a foreign tool."""
    return factors.get("tool", OWN) != OWN


def unsupported_reason(factors: Factors) -> str | None:
    """Return why a tool cannot run a case on any machine, or None.

    Args:
        factors: declared factors, defaults filled in.
    """
    name = str(factors["tool"])
    tool = TOOLS.get(name)
    if tool is None:
        return f"there is no tool {name!r}; zcdb knows {', '.join(TOOLS)}"
    if factors["test"] not in tool.tests:
        return f"{name} does no test = {factors['test']!r} here, only {', '.join(tool.tests)}"
    if tool.apis and factors["api"] not in tool.apis:
        return f"{name} has no api = {factors['api']!r}, only {', '.join(tool.apis)}"
    for other in factors:
        factor = FACTORS[other]
        if other in tool.heeds or other in ALWAYS_HEEDED or factor.is_setting:
            continue
        if factors[other] != factor.default:
            return f"{name} has no way to follow {other} = {factors[other]!r}"
    return tool.refuses(factors)


def missing_here(factors: Factors, end: End) -> str | None:
    """Return what this machine lacks for an end of a case that a tool can run, or None."""
    tool = TOOLS[str(factors["tool"])]
    for program in tool.programs[end]:
        if (reason := program.missing()) is not None:
            return reason
    if tool is command.TOOL:
        return command.missing(factors, end)
    if tool.needs_root and end == tool.server_end and not _is_real_root():
        return f"{tool.name} needs root: it gets a folder in memory and changes its user"
    return None


def _is_real_root() -> bool:
    """Tell whether this is root, and not one of a user namespace only."""
    everybody = Path("/proc/self/uid_map").read_text().split()
    return os.geteuid() == 0 and everybody[:2] == ["0", "0"]


def start(options: ToolOptions, sum_tcp_info: SumTcpInfo) -> ToolEnd | AbsentEnd:
    """Start an end: a server listens, a client waits for `go`, when this returns.

    Args:
        sum_tcp_info: see `ToolEnd`.

    Raises:
        EngineError: if it does not start; one sentence why.
    """
    tool = TOOLS[options.tool]
    if tool is command.TOOL and options.end == "sender" and command.has_own_sender(options.factors):
        return AbsentEnd()
    job = job_of(tool, options)
    program = _program_of(tool, options.end, job)
    path = program.path
    if path is None:
        raise EngineError(f"the program {program.name} is not installed here")
    job = replace(job, argv=(path, *job.argv[1:]))
    return ToolEnd(options, job, version_of(path, program.version_arguments), sum_tcp_info)


def job_of(tool: Tool, options: ToolOptions) -> Job:
    """Return what an end runs; a server's port is chosen here."""
    if options.end != tool.server_end:
        return tool.client(options, options.ports[0] if options.ports else 0)
    return tool.server(options, free_port(options.own_address, options.port_range))


def _program_of(tool: Tool, end: End, job: Job) -> Program:
    known = tool.programs[end]
    return known[0] if known else Program(job.argv[0], "")


@functools.cache
def version_of(path: str, arguments: tuple[str, ...]) -> str | None:
    """Return the first line in which a program tells its version, or None if it cannot."""
    if not arguments:
        return None
    try:
        answer = subprocess.run(
            [path, *arguments],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=VERSION_TIMEOUT_S,
            text=True,
            errors="replace",
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (answer.stdout + answer.stderr).splitlines()
    return lines[0].strip() if lines else None
