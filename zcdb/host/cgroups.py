"""Control groups: isolation from a busy machine, and what other work took.

Isolation: a load and the soaker of its CPU share a group whose weight is the
highest there is.  The load comes before the soaker inside, and both before
everything outside.  One group per CPU, because a group's weight is divided
among the CPUs its tasks run on.  The price: kernel threads are outside as well,
so a soaker comes before ksoftirqd, and a load that moves between CPUs competes
with the soakers of the other groups.  Hence only pinned loads are isolated, and
only on a machine that is busy.

Accounting: with version 1 the cpuacct controller counts CPU time per CPU in
nanoseconds, so what other work took is the whole machine's minus ours.
Version 2 has no such counter; then foreign time is not measured.

Where the controllers are mounted is read from /proc/self/mountinfo, never
assumed.  Groups carry the pid of their maker: those of dead ones are removed at
the next start.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zcdb.errors import HostError
from zcdb.host.procstat import OpenFile, StatReader

HIGHEST_SHARES = 262144
"""Largest cpu.shares of version 1; an ordinary group has 1024."""
HIGHEST_WEIGHT = 10000
"""Largest cpu.weight of version 2; an ordinary group has 100."""
MOST_GROUPS = 64
"""With more groups, reading each group's row at each edge would disturb what is measured."""
NO_USAGE_V2 = "control groups of version 2 do not count CPU time per CPU"
BUSY_LIMIT = 0.15
"""A machine is busy if other work has more than this share of some CPU."""
BUSY_LOOK_S = 0.5
REMOVE_TRIES = 100
REMOVE_PAUSE_S = 0.01

_NAME = re.compile(r"zcdb-([0-9]+)-(?:cpu[0-9]+|all)")


@dataclass(frozen=True, slots=True)
class Mount:
    """One mounted hierarchy.

    Attributes:
        version: 1 or 2.
        root: the folder inside the hierarchy that is mounted here ("/" outside containers).
        controllers: those of version 1; empty for version 2.
    """

    point: Path
    root: str
    version: int
    controllers: frozenset[str]


def parse_mountinfo(text: str) -> list[Mount]:
    """Return the control group hierarchies that /proc/self/mountinfo names."""
    mounts = []
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, types = before.split(), after.split()
        if not separator or len(fields) < 5 or len(types) < 3:
            continue
        point = Path(_unescape(fields[4]))
        if types[0] == "cgroup":
            names = frozenset(types[2].split(","))
            mounts.append(Mount(point, _unescape(fields[3]), 1, names))
        elif types[0] == "cgroup2":
            mounts.append(Mount(point, _unescape(fields[3]), 2, frozenset()))
    return mounts


def _unescape(path: str) -> str:
    """Undo the kernel's octal escapes of space, tab, newline and backslash."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def parse_own_groups(text: str) -> dict[str, str]:
    """Read /proc/self/cgroup: controller -> path in its hierarchy; version 2 is under `""`."""
    groups = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = path
    return groups


def _own_folder(mount: Mount, path: str) -> Path:
    """Return where a process's own group is seen below the mount."""
    inside = path.removeprefix(mount.root.rstrip("/")) if mount.root != "/" else path
    return mount.point / inside.lstrip("/")


def _ancestry(top: Path, folder: Path) -> list[Path]:
    """Return `top`, ..., `folder`."""
    below = folder.relative_to(top).parts if folder.is_relative_to(top) else ()
    return [top.joinpath(*below[:depth]) for depth in range(len(below) + 1)]


def is_busy(cpus: Collection[int]) -> bool:
    """Return True if one of these CPUs has other work to do just now; takes half a second."""
    with StatReader() as reader:
        before = reader.stat().cpus
        time.sleep(BUSY_LOOK_S)
        after = reader.stat().cpus
    for cpu in cpus:
        if cpu in before and cpu in after:
            ticks = after[cpu].since(before[cpu])
            if ticks.busy() > BUSY_LIMIT * max(1, ticks.busy() + ticks.idle + ticks.iowait):
                return True
    return False


class CpuGroups:
    """The groups of one process; made by `create`, removed by `close`.

    Attributes:
        is_isolated: load and soakers come before everything else on the machine.
        usage_reason: why `usage` cannot say what other work took; None if it can.
    """

    def __init__(
        self,
        folders_by_cpu: Mapping[int, Sequence[Path]],
        machine_usage: Path | None,
        own_usage: Sequence[Path],
        usage_reason: str | None,
        *,
        is_isolated: bool,
    ) -> None:
        self._folders_by_cpu = folders_by_cpu
        self.is_isolated = is_isolated
        self.usage_reason = usage_reason
        self._machine_usage = OpenFile(machine_usage) if machine_usage else None
        self._own_usage = [OpenFile(path) for path in own_usage]

    @classmethod
    def create(
        cls,
        cpus: Collection[int],
        *,
        is_isolated: bool | None = None,
        mountinfo: Path = Path("/proc/self/mountinfo"),
        own: Path = Path("/proc/self/cgroup"),
    ) -> CpuGroups | str:
        """Make the groups for these CPUs, after removing those of dead processes.

        Args:
            is_isolated: give load and soakers the highest weight; only for loads that are
                pinned.  None: if the machine is busy (see `is_busy`).

        Returns:
            The groups, or the reason why there are none.
        """
        mounts = parse_mountinfo(mountinfo.read_text())
        own_groups = parse_own_groups(own.read_text())
        cpu_mount = next((mount for mount in mounts if "cpu" in mount.controllers), None)
        unified = next((mount for mount in mounts if mount.version == 2), None)
        if is_isolated is None:
            is_isolated = is_busy(cpus)
        try:
            if cpu_mount is not None:
                return _create_v1(cpus, cpu_mount, mounts, own_groups, is_isolated=is_isolated)
            if unified is None:
                return "no control group hierarchy with a cpu controller is mounted"
            if not is_isolated:
                return f"isolation is not needed, and {NO_USAGE_V2}"
            return _create_v2(cpus, unified, own_groups)
        except OSError as error:
            return f"cannot make a control group: {error.filename}: {error.strerror}"

    @property
    def cpus(self) -> list[int]:
        """The CPUs that have a group."""
        return sorted(self._folders_by_cpu)

    def procs_files(self, cpu: int) -> list[Path]:
        """Return the files into which a process writes its pid to join this CPU's group.

        Raises:
            HostError: if there is no group for this CPU.
        """
        if cpu not in self._folders_by_cpu:
            raise HostError(f"CPU {cpu} has no control group; there are groups for {self.cpus}")
        return [folder / "cgroup.procs" for folder in self._folders_by_cpu[cpu]]

    def add(self, cpu: int, pid: int) -> None:
        """Move a process and all its threads into a CPU's group.

        Raises:
            HostError: if there is no such group, or the kernel refuses.
        """
        for path in self.procs_files(cpu):
            try:
                path.write_text(str(pid))
            except OSError as error:
                raise HostError(
                    f"process {pid} cannot join {path.parent}: {error.strerror}",
                    hint="Processes with a real-time priority cannot join a cpu group.",
                ) from error

    def usage(self) -> tuple[list[int], list[int]] | None:
        """Return CPU time by CPU number since boot: the machine's, and that of our groups.

        Returns:
            Two lists of nanoseconds, or None where it is not measured (see `usage_reason`).
        """
        if self._machine_usage is None:
            return None
        # Ours first: what runs between the two readings looks foreign, never negative.
        rows = [_numbers(file.read()) for file in self._own_usage]
        own = [sum(column) for column in zip(*rows, strict=True)]
        return _numbers(self._machine_usage.read()), own

    def close(self) -> None:
        """Remove the groups; processes that are still inside go back outside.  Idempotent.

        Raises:
            HostError: if one cannot be removed.
        """
        for file in (self._machine_usage, *self._own_usage):
            if file is not None:
                file.close()
        folders = {folder for folders in self._folders_by_cpu.values() for folder in folders}
        self._folders_by_cpu = {}
        for folder in sorted(folders):
            _remove(folder)


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split()]


def _remove(folder: Path) -> None:
    for _ in range(REMOVE_TRIES):
        try:
            folder.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            # Busy: a process is inside, or has just died and is not yet gone.
            _empty(folder)
            time.sleep(REMOVE_PAUSE_S)
    raise HostError(
        f"control group {folder} could not be removed: a process is still in it",
        hint=f"'cat {folder / 'cgroup.procs'}' lists it; the next start tries again.",
    )


def _empty(folder: Path) -> None:
    for pid in (folder / "cgroup.procs").read_text().split():
        # A process that ended since the list was read needs no moving.
        with contextlib.suppress(ProcessLookupError):
            (folder.parent / "cgroup.procs").write_text(pid)


def _remove_leftovers(base: Path) -> None:
    for folder in base.glob("zcdb-*"):
        match = _NAME.fullmatch(folder.name)
        if match is None or Path("/proc", match[1]).exists():
            continue
        # Not empty, or somebody else's: it is left alone, and tried again next time.
        with contextlib.suppress(OSError):
            folder.rmdir()


def _writable_base(mount: Mount, own_path: str) -> Path:
    """Return where groups may be made: the top of the hierarchy, else our own group.

    At the top a group competes with everything else on the machine by its own
    weight; further down only with its siblings.
    """
    own = _own_folder(mount, own_path)
    for folder in (mount.point, own):
        if os.access(folder, os.W_OK):
            return folder
    return own


def _create_v1(
    cpus: Collection[int],
    cpu_mount: Mount,
    mounts: Sequence[Mount],
    own_groups: Mapping[str, str],
    *,
    is_isolated: bool,
) -> CpuGroups | str:
    account = next((mount for mount in mounts if "cpuacct" in mount.controllers), None)
    is_apart = account is not None and account.point != cpu_mount.point
    if not is_isolated and not is_apart:
        # A soaker in a group with a cpu controller has that group's weight, not SCHED_IDLE's.
        return "isolation is not needed, and cpuacct is not mounted apart from cpu"
    made: list[Path] = []
    folders: dict[int, list[Path]] = {cpu: [] for cpu in cpus}
    try:
        if is_isolated:
            base = _writable_base(cpu_mount, own_groups.get("cpu", "/"))
            _make_per_cpu(base, folders, made)
            for (folder,) in folders.values():
                (folder / "cpu.shares").write_text(str(HIGHEST_SHARES))
        if account is None:
            reason: str | None = "the cpuacct controller is not mounted"
        elif is_apart:
            # Accounting alone needs no group per CPU, so it costs one file however many CPUs.
            base = _writable_base(account, own_groups.get("cpuacct", "/"))
            _remove_leftovers(base)
            everything = _make(base / f"zcdb-{os.getpid()}-all", made)
            folders = {cpu: [*group, everything] for cpu, group in folders.items()}
            return _with_usage(folders, account, [everything], is_isolated=is_isolated)
        elif len(folders) <= MOST_GROUPS:
            own = [folder for (folder,) in folders.values()]
            return _with_usage(folders, account, own, is_isolated=True)
        else:
            reason = f"reading {len(folders)} groups at each edge would disturb the measurement"
        return CpuGroups(folders, None, [], reason, is_isolated=True)
    except (OSError, HostError):
        for folder in made:
            _remove(folder)
        raise


def _with_usage(
    folders: Mapping[int, Sequence[Path]], account: Mount, own: Sequence[Path], *, is_isolated: bool
) -> CpuGroups:
    name = "cpuacct.usage_percpu"
    return CpuGroups(
        folders,
        account.point / name,
        [folder / name for folder in own],
        None,
        is_isolated=is_isolated,
    )


def _create_v2(
    cpus: Collection[int], mount: Mount, own_groups: Mapping[str, str]
) -> CpuGroups | str:
    for base in _ancestry(mount.point, _own_folder(mount, own_groups.get("", "/"))):
        if _delegates_cpu(base):
            break
    else:
        return f"no group below {mount.point} lets this process make groups with a cpu controller"
    made: list[Path] = []
    folders: dict[int, list[Path]] = {cpu: [] for cpu in cpus}
    try:
        _make_per_cpu(base, folders, made)
        for (folder,) in folders.values():
            (folder / "cpu.weight").write_text(str(HIGHEST_WEIGHT))
    except OSError:
        for folder in made:
            _remove(folder)
        raise
    return CpuGroups(folders, None, [], NO_USAGE_V2, is_isolated=True)


def _make_per_cpu(base: Path, folders: Mapping[int, list[Path]], made: list[Path]) -> None:
    _remove_leftovers(base)
    for cpu, group in folders.items():
        group.append(_make(base / f"zcdb-{os.getpid()}-cpu{cpu}", made))


def _delegates_cpu(folder: Path) -> bool:
    """Return True if groups made in `folder` get the cpu controller and we may fill them."""
    try:
        passed_on = (folder / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False
    is_ours = os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)
    return "cpu" in passed_on and is_ours


def _make(folder: Path, made: list[Path]) -> Path:
    folder.mkdir(exist_ok=True)
    made.append(folder)
    return folder
