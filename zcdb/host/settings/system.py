"""Which function reads and writes which kind, and the kinds that are files of /proc and /sys.

Runs only in the helper process of `backend`.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path

from zcdb.host.settings import ethtool, interface, kinds
from zcdb.host.settings.model import BackendError, Item, Namespace, Reading, Values

SO_NETNS_COOKIE = 71


def read(root: Path, kind: str, target: str) -> Reading:
    """Return the values of one kind and target.

    Args:
        root: where /proc and /sys hang; another folder in tests.

    Raises:
        BackendError, OSError: if there are none, or the kernel refuses.
    """
    return _READERS[kind](root, target)


def write(root: Path, kind: str, target: str, values: Values) -> None:
    """Set values in their stored form.

    Raises:
        BackendError, OSError: if the kernel refuses.
    """
    _WRITERS[kind](root, target, values)


def namespace() -> Namespace:
    """Return the network namespace of this process."""
    inode = Path("/proc/self/ns/net").stat().st_ino
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            raw = any_socket.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8)
        except OSError as error:
            if error.errno != errno.ENOPROTOOPT:  # kernels before 5.14 have no cookie
                raise
            return Namespace(inode, 0)
    return Namespace(inode, int(struct.unpack("Q", raw)[0]))


def sysctl_path(root: Path, name: str) -> Path:
    """Return the file of a sysctl; as in sysctl(8) the first separator decides.

    In `net.ipv4.conf.eth0/1.forwarding` a slash stands for a dot inside a name.
    """
    if name[3:4] == ".":
        name = name.translate(str.maketrans("./", "/."))
    return root / "proc/sys" / name


def _read_sysctl(root: Path, name: str) -> Reading:
    try:
        text = " ".join(sysctl_path(root, name).read_text().split())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise BackendError(errno.ENOENT, "this network namespace has no such sysctl") from None
    return {"value": Item(text, text)}


def _write_sysctl(root: Path, name: str, values: Values) -> None:
    path = sysctl_path(root, name)
    try:
        _put(path, str(values["value"]))
    except PermissionError as error:
        raise BackendError(error.errno or 0, _why_refused(path)) from None


def _why_refused(path: Path) -> str:
    allowed = path.with_name("tcp_allowed_congestion_control")
    if path.name == "tcp_congestion_control" and os.access(path, os.W_OK) and allowed.exists():
        return f"only {allowed.read_text().strip()} may be used here ({allowed.name} of the host)"
    return "it is read-only for this user in this network namespace"


def _put(path: Path, text: str) -> None:
    """Write an existing kernel file in one call; never makes a file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode() + b"\n")
    finally:
        os.close(descriptor)


def _irq_file(root: Path, irq: str) -> Path:
    return root / "proc/irq" / irq / "smp_affinity_list"


def _read_affinity(root: Path, irq: str) -> Reading:
    text = kinds.cpu_list(kinds.cpus(_irq_file(root, irq).read_text().strip()))
    return {"cpus": Item(text, text)}


def _write_affinity(root: Path, irq: str, values: Values) -> None:
    try:
        _put(_irq_file(root, irq), str(values["cpus"]))
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise BackendError(errno.EIO, "the kernel manages this interrupt itself") from None


def _governor_files(root: Path, target: str) -> dict[str, Path]:
    cpu_folder = root / "sys/devices/system/cpu"
    if target == "all":
        found = sorted(cpu_folder.glob("cpu[0-9]*/cpufreq/scaling_governor"))
        files = {path.parent.parent.name[3:]: path for path in found}
    else:
        files = {
            str(cpu): cpu_folder / f"cpu{cpu}/cpufreq/scaling_governor"
            for cpu in kinds.cpus(target)
        }
    missing = next((cpu for cpu, path in files.items() if not path.exists()), None)
    if missing is not None or not files:
        which = f"CPU {missing}" if missing is not None else "any CPU"
        raise BackendError(errno.ENOENT, f"this machine has no frequency governor for {which}")
    return files


def _read_governor(root: Path, target: str) -> Reading:
    files = _governor_files(root, target)
    texts = {cpu: path.read_text().strip() for cpu, path in files.items()}
    return {cpu: Item(text, text) for cpu, text in texts.items()}


def _write_governor(root: Path, target: str, values: Values) -> None:
    files = _governor_files(root, target)
    for cpu, governor in values.items():
        _put(files[cpu], str(governor))


_READERS: dict[str, Callable[[Path, str], Reading]] = {
    "feature": lambda _root, target: ethtool.read_features(target),
    "coalescing": lambda _root, target: ethtool.read_numbers("coalescing", target),
    "rings": lambda _root, target: ethtool.read_numbers("rings", target),
    "channels": lambda _root, target: ethtool.read_numbers("channels", target),
    "mtu": lambda _root, target: interface.read_mtu(target),
    "sysctl": _read_sysctl,
    "qdisc": lambda _root, target: interface.read_qdisc(target),
    "irq_affinity": _read_affinity,
    "governor": _read_governor,
}
_WRITERS: dict[str, Callable[[Path, str, Values], None]] = {
    "feature": lambda _root, target, values: ethtool.write_features(target, values),
    "coalescing": lambda _root, target, values: ethtool.write_numbers("coalescing", target, values),
    "rings": lambda _root, target, values: ethtool.write_numbers("rings", target, values),
    "channels": lambda _root, target, values: ethtool.write_numbers("channels", target, values),
    "mtu": interface.write_mtu,
    "sysctl": _write_sysctl,
    "qdisc": lambda _root, target, values: interface.write_qdisc(target, values),
    "irq_affinity": _write_affinity,
    "governor": _write_governor,
}
