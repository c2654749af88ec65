"""The real backend: a helper process that reads and writes this machine's settings.

The helper is forked when a batch begins and ends with it, so that pyroute2 never
enters this process.  It ends when its owner does: it reads end of file, and the
kernel kills it (PR_SET_PDEATHSIG).  It can work in another network namespace
than its owner, which is how leftovers of a namespace are undone from outside.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from zcdb.host.links import CLONE_NEWNET, CLONE_NEWUSER, setns, unshare
from zcdb.host.settings import interface, netlink, system
from zcdb.host.settings.model import (
    BackendError,
    Item,
    Namespace,
    Process,
    Reading,
    SettingsError,
    Values,
)

PR_SET_PDEATHSIG = 1
MESSAGE_LIMIT_BYTES = 1 << 17

_libc = ctypes.CDLL(None, use_errno=True)


def process(pid: int, root: Path = Path("/")) -> Process | None:
    """Return the living process of this number; None if there is none (a zombie is none)."""
    try:
        text = (root / f"proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may hold anything; what follows is counted from its end.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else Process(pid, int(fields[19]))


class SystemBackend:
    """This machine's settings, by a helper process.

    Args:
        root: where /proc and /sys hang; another folder in tests.
        namespace_path: network namespace to work in; None for that of this process.
    """

    def __init__(self, root: Path = Path("/"), namespace_path: Path | None = None) -> None:
        self._root = root
        self._namespace_path = namespace_path
        self._pid = 0
        self._pipe: socket.socket | None = None
        self._depth = 0
        self._asked = 0

    def __enter__(self) -> SystemBackend:
        """Start the helper; within another `with` of the same backend, share that one's.

        Starting costs a third of a second (pyroute2), so who has many transactions to make
        enters the backend once around all of them.

        Raises:
            SettingsError: if it cannot enter the namespace.
        """
        if self._depth == 0:
            self._start()
        self._depth += 1
        return self

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        owner = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            ours.close()
            _help(theirs, owner, self._root, self._namespace_path)
        theirs.close()
        self._pipe = ours
        try:
            self._ask("ready")
        except SettingsError:
            self._end()
            raise
        except BackendError as error:
            self._end()
            raise SettingsError(
                f"the network namespace {self._namespace_path} cannot be entered ({error.reason})",
                hint="run the command as the user who made it, or as root",
            ) from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the helper with the outermost `with`."""
        self._depth -= 1
        if self._depth == 0:
            self._end()

    def _end(self) -> None:
        if self._pipe is not None:
            # Not only closed: other children of this process may have a copy of our end.
            self._pipe.shutdown(socket.SHUT_RDWR)
            self._pipe.close()
            self._pipe = None
            os.waitpid(self._pid, 0)

    def worker(self) -> Process | None:
        """Return the helper."""
        return process(self._pid) if self._pipe else None

    def read(self, kind: str, target: str) -> Reading:
        """Return every value of this kind and target."""
        answer = self._ask("read", kind, target)
        return {key: _item(item) for key, item in answer.items()}

    def write(self, kind: str, target: str, values: Values) -> None:
        """Set values in their stored form."""
        self._ask("write", kind, target, dict(values))

    def namespace(self) -> Namespace:
        """Return the network namespace that the helper works in."""
        return Namespace(*self._ask("namespace"))

    def interface_index(self, name: str) -> int | None:
        """Return the kernel's number of an interface."""
        answer = self._ask("interface_index", name)
        return None if answer is None else int(answer)

    def carriers(self, control_address: str | None) -> Mapping[str, str]:
        """Return the interfaces that must be left alone, each with the reason."""
        return dict(self._ask("carriers", control_address))

    def has_tbf(self) -> bool:
        """Return whether this kernel has the token bucket filter; tried in a new namespace."""
        return bool(self._ask("has_tbf"))

    def _ask(self, name: str, *arguments: object) -> Any:
        if self._pipe is None:
            raise RuntimeError("the backend has to be entered first")
        self._asked += 1
        answer: Any = {"number": 0}
        try:
            self._pipe.sendall(json.dumps([self._asked, name, *arguments]).encode())
            # Who was interrupted while waiting left an answer that nobody read.
            while answer and answer["number"] != self._asked:
                answer = json.loads(self._pipe.recv(MESSAGE_LIMIT_BYTES) or "null")
        except (BrokenPipeError, ConnectionResetError):
            answer = None
        if answer is None:
            raise SettingsError("the helper process that changes settings died")
        if "error" in answer:
            raise BackendError(answer["errno"], answer["error"])
        return answer["result"]


def _item(fields: Mapping[str, Any]) -> Item:
    limits = fields["limits"]
    low_high = (int(limits[0]), int(limits[1])) if limits else None
    return Item(fields["stored"], fields["active"], fields["fixed"], low_high)


def _help(pipe: socket.socket, owner: int, root: Path, namespace_path: Path | None) -> None:
    """Answer requests until the owner goes.  Never returns, and never lets an exception out:

    this is a copy of the owner, whose clean-up code must not run here.
    """
    try:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == owner:
            _serve(pipe, root, namespace_path)
    except (BrokenPipeError, ConnectionResetError):
        os._exit(0)  # the owner was killed before it read an answer
    finally:
        if sys.exc_info()[0] is not None:
            traceback.print_exc()
        os._exit(0)


def _serve(pipe: socket.socket, root: Path, namespace_path: Path | None) -> None:
    # Ctrl-C reaches the whole process group: the owner decides what it means, by closing the pipe.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    failed: dict[str, object] = {}
    try:
        if namespace_path is not None:
            _enter(namespace_path)
    except OSError as error:
        failed = _failure(error)
    while request := pipe.recv(MESSAGE_LIMIT_BYTES):
        number, *words = json.loads(request)
        answer = {"number": number, **(failed or _answer(root, *words))}
        pipe.sendall(json.dumps(answer).encode())


def _enter(path: Path) -> None:
    """Enter a network namespace, without root by way of the user namespace that owns it."""
    if os.geteuid() != 0 and path.parent.name == "ns":
        setns(path.parent / "user", CLONE_NEWUSER)
    setns(path, CLONE_NEWNET)


def _has_tbf() -> bool:
    """Try a token bucket on the loopback interface of a new namespace, and come back."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        unshare(CLONE_NEWNET)
        try:
            return interface.can_make_tbf("lo")
        finally:
            setns(Path(f"/proc/self/fd/{own}"), CLONE_NEWNET)
    finally:
        os.close(own)


def _answer(root: Path, name: str, *arguments: Any) -> dict[str, object]:
    try:
        return {"result": _REQUESTS[name](root, *arguments)}
    except BackendError as error:
        return {"error": error.reason, "errno": error.number}
    except OSError as error:
        return _failure(error)
    except ImportError as error:
        return {"error": f"a library is missing ({error})", "errno": 0}


def _failure(error: OSError) -> dict[str, object]:
    return {"error": error.strerror or str(error), "errno": error.errno or 0}


_REQUESTS: dict[str, Callable[..., object]] = {
    "ready": lambda _root: True,
    "read": lambda root, kind, target: {
        key: asdict(item) for key, item in system.read(root, kind, target).items()
    },
    "write": system.write,
    "namespace": lambda _root: system.namespace(),
    "interface_index": lambda _root, name: netlink.interface_index(name),
    "carriers": lambda _root, address: interface.carriers(address),
    "has_tbf": lambda _root: _has_tbf(),
}
