"""What a foreign tool is to zcdb: its programs, the factors it heeds, and the jobs it makes.

A job is one process that is run, and how its bytes are counted from outside.
Plain frozen values; nothing here starts anything.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self

from zcdb.errors import EngineError
from zcdb.factors import Factors
from zcdb.records import End

Meter = Literal["sockets-at", "sockets-to", "written", "interface", "whole", "none"]
"""How payload is counted: in the TCP sockets whose own port it is (bytes that were read from
them), in those whose peer's port it is (bytes that were written to them), by what the process
wrote, by what the interface received, as one amount when the process has ended, or not here."""

UNSEEN_COUNTS = ("calls", "short_calls", "completions", "copied", "enobufs", "passes")
"""What an endpoint of zcdb's own counts, and nobody can see of a foreign process."""

RESERVE_S = 1
"""A tool that is told for how long to run is told so many seconds more than the window needs."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that must be installed.

    Attributes:
        package: how it is got: the Debian package, in words.
        version_arguments: make it print its version; () if it cannot.
    """

    name: str
    package: str
    version_arguments: tuple[str, ...] = ()

    @property
    def path(self) -> str | None:
        """Where it is, or None."""
        # Servers are often in sbin, which is not on everybody's PATH.
        return shutil.which(self.name) or shutil.which(self.name, path="/usr/sbin:/sbin")

    def missing(self) -> str | None:
        """Return why it cannot be used, or None."""
        if self.path is not None:
            return None
        return f"the program {self.name} is not installed; {self.package} has it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions:
    """What an end is asked to run; passes through JSON.

    Attributes:
        factors: the case's declared factors, defaults filled in.
        address: the server's; where nothing listens, the other end's.
        own_address: this end's.
        interface: through which this end's data goes.
        ports: the server's, as it answered; () for the server itself.
        port_range: (first, last) to choose from; None leaves it to the kernel.
        cpus: CPUs that the tool may use; () is no pinning.
        cgroup_paths: files that the process writes itself into.
        run_ns: from the first bytes to the end of the window.
        discard_ns: from the first bytes to its beginning.
    """

    end: End
    factors: Factors
    address: str
    own_address: str
    run_ns: int
    discard_ns: int
    interface: str = ""
    ports: tuple[int, ...] = ()
    port_range: tuple[int, int] | None = None
    cpus: tuple[int, ...] = ()
    cgroup_paths: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the options that `dataclasses.asdict` turned into JSON.

        Raises:
            EngineError: for a name that is not an option.
        """
        unknown = sorted(set(values) - {field.name for field in fields(cls)})
        if unknown:
            raise EngineError(
                f"a tool's end has no option {unknown[0]!r}",
                hint="both ends of a run need the same version of zcdb",
            )
        arguments: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
        }
        return cls(**arguments)

    @property
    def tool(self) -> str:
        """Name of the tool."""
        return str(self.factors["tool"])

    @property
    def run_s(self) -> int:
        """For how many whole seconds a tool has to run to outlast the window."""
        return -(-self.run_ns // 10**9) + RESERVE_S

    @property
    def ip_version(self) -> str:
        """`"4"` or `"6"`, as the options of many tools spell it."""
        return "6" if ":" in self.address else "4"


@dataclass(frozen=True, slots=True)
class Job:
    """One process, and how to see from outside what it does.

    Attributes:
        argv: program and arguments; no shell comes near it.
        port: the one it serves or connects to; 0 if none is known.
        data_port: where its data goes if not there; 0 for the same one.
        meter: how its payload is counted.
        sockets: sockets that are there once data flows (a control connection counts too).
        is_server: it is ready when it listens on `port`, and is ended by a signal.
        is_repeated: it is run again as it ends, until the end is stopped.
        run_s: it ends by itself after so long; None for servers and repeated ones.
        needs_private_folder: it gets file system and process namespaces of its own, with an
            empty folder at `PRIVATE_FOLDER`; that and everything it forks dies with it.
        files: made in that folder: relative path -> content, or a size to be filled; a path
            that ends with / is a folder.
        file_bytes: an unnamed file of that size takes the place of `{file}` in `argv`.
        run_bytes: payload of a run that is measured whole, where it is known beforehand.
        printed_bytes: finds it in what the run has printed, where it is not.
        effective: what is known of the effective values, by factor name.
        differences: a sentence for each factor that the tool does not do as stated.
    """

    argv: tuple[str, ...]
    meter: Meter
    port: int = 0
    data_port: int = 0
    sockets: int = 1
    is_server: bool = False
    is_repeated: bool = False
    run_s: float | None = None
    needs_private_folder: bool = False
    files: Mapping[str, str | int] = field(default_factory=dict)
    file_bytes: int = 0
    run_bytes: int | None = None
    printed_bytes: Callable[[str], int | None] | None = None
    effective: Mapping[str, Any] = field(default_factory=dict)
    differences: tuple[str, ...] = ()


PRIVATE_FOLDER = "/mnt"
"""Hidden by an empty file system in memory, for the tool alone."""

JobMaker = Callable[[ToolOptions, int], Job]


@dataclass(frozen=True, slots=True)
class Tool:
    """A foreign tool.

    Attributes:
        server_end: which end its server is at: the sender for downloads.
        apis: values of the factor `api` that say truly how its sender moves bytes.
        heeds: further factors that it can follow; others must be at their default.
        tests: values of the factor `test` that it does.
        programs: what each end needs.
        server, client: make the jobs from options and a port.
        refuses: what else it cannot do, as a sentence or None.
        needs_root: it changes its user or reads files by handle.
    """

    name: str
    server_end: End
    apis: tuple[str, ...]
    heeds: frozenset[str]
    programs: Mapping[End, tuple[Program, ...]]
    server: JobMaker
    client: JobMaker
    tests: tuple[str, ...] = ("stream",)
    refuses: Callable[[Factors], str | None] = lambda _factors: None
    needs_root: bool = False
