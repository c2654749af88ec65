"""The runner's side of the pipe: start an agent, ask it, end it."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from zcdb import __version__
from zcdb.agent import protocol
from zcdb.errors import AgentError, HostError
from zcdb.ids import Json

REPLY_TIMEOUT_S = 20.0
CLOSE_TIMEOUT_S = 60.0
"""An agent that ends puts settings back first; a card may take seconds for each."""

READ_BYTES = 1 << 20
SSH_CONFIG_VARIABLE = "ZCDB_SSH_CONFIG"
"""Environment variable with the path of an ssh configuration to use instead of the user's own."""

SILENCE_LIMIT_S = 600.0
"""An agent behind a network that hears nothing for so long takes its runner for gone."""

SSH_OPTIONS = (
    *("-o", "BatchMode=yes"),  # nobody is there to type a password
    *("-o", "ConnectTimeout=10"),
    # A host that is switched off closes no connection: it is noticed when it does not answer.
    *("-o", "ServerAliveInterval=15"),
    *("-o", "ServerAliveCountMax=3"),
)


class AgentClient:
    """One agent process.

    `request` asks and waits; `begin` and `finish` are its two halves, so that
    two agents can work at the same time.

    Attributes:
        host: name that ssh knows its machine by; "" is this one.
    """

    def __init__(
        self,
        command: Sequence[str],
        name: str,
        *,
        host: str = "",
        silence_limit_s: float | None = None,
    ) -> None:
        self.name = name
        self.host = host
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the agent)
        try:
            # A session of its own: Ctrl-C is for the runner, which then ends its agents in order.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                start_new_session=True,
            )
        except FileNotFoundError:
            self._log.close()
            raise
        self._buffer = b""
        self._next_id = 0
        self.hello = self._greet(silence_limit_s)

    @classmethod
    def start_local(cls, name: str) -> AgentClient:
        """Start an agent on this machine.

        Raises:
            AgentError: if it does not come up.
        """
        return cls([sys.executable, "-m", "zcdb", "agent"], name)

    @classmethod
    def start_ssh(cls, host: str, name: str) -> AgentClient:
        """Start an agent on another machine, by the name that the user's ssh knows it by.

        Raises:
            AgentError: if it cannot be reached, or has no zcdb.
        """
        config = os.environ.get(SSH_CONFIG_VARIABLE)
        use = ("-F", config) if config else ()
        command = ["ssh", "-T", *use, *SSH_OPTIONS, "--", host, "zcdb", "agent"]
        try:
            return cls(command, name, host=host, silence_limit_s=SILENCE_LIMIT_S)
        except FileNotFoundError:
            raise HostError(
                "there is no ssh on this machine", hint="install OpenSSH's client"
            ) from None
        except AgentError as error:
            raise AgentError(
                error.message,
                hint=f"'ssh {host} zcdb agent < /dev/null' has to work without a password and"
                " without printing anything",
            ) from None

    def _greet(self, silence_limit_s: float | None) -> dict[str, Any]:
        try:
            hello: dict[str, Any] = self.request("hello", silence_limit_s=silence_limit_s)
        except BaseException:
            self.kill()
            self._log.close()
            raise
        if (hello["version"], hello["protocol"]) != (__version__, protocol.PROTOCOL):
            self.close()
            raise HostError(
                f"{self.name} has zcdb {hello['version']}, this is zcdb {__version__}",
                hint="install the same version at both ends",
            )
        return hello

    @property
    def pid(self) -> int:
        """The process id of the agent (of the local ssh, for a remote one)."""
        return self._process.pid

    def begin(self, op: str, **arguments: Json) -> int:
        """Send a request and return its number.

        Raises:
            AgentError: if the agent has gone.
        """
        self._next_id += 1
        message: dict[str, Json] = {"id": self._next_id, "op": op, "arguments": arguments}
        assert self._process.stdin is not None  # noqa: S101
        try:
            self._process.stdin.write(protocol.encode(message))
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise self._gone(op) from None
        return self._next_id

    def finish(self, number: int, timeout_s: float = REPLY_TIMEOUT_S) -> Any:
        """Wait for the reply to request `number` and return its result.

        Raises:
            AgentError: if the agent dies or does not answer in time; it is killed then.
            ZcdbError: the error that the agent reports.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            line = self._read_line(number, deadline)
            try:
                message = protocol.decode(line)
            except AgentError:
                self.kill()
                raise
            if message.get("id") == number:
                break
        if "error" in message:
            raise protocol.error_from_json(message["error"])
        return message["result"]

    def request(self, op: str, timeout_s: float = REPLY_TIMEOUT_S, **arguments: Json) -> Any:
        """Send a request, wait for its reply and return the result; raises as `finish`."""
        return self.finish(self.begin(op, **arguments), timeout_s)

    def _read_line(self, number: int, deadline: float) -> bytes:
        assert self._process.stdout is not None  # noqa: S101
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self.kill()
                    raise AgentError(
                        f"{self.name} did not answer request {number} in time and was ended",
                        hint="the machine may be overloaded, or the other end hung",
                    )
                data = os.read(self._process.stdout.fileno(), READ_BYTES)
                if not data:
                    raise self._gone(f"request {number}")
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _gone(self, what: str) -> AgentError:
        self.kill()
        self._log.seek(0)
        words = self._log.read().decode(errors="replace").strip().splitlines()
        last = f": {words[-1]}" if words else ""
        return AgentError(f"{self.name} ended while it worked on {what}{last}")

    def close(self) -> None:
        """End the agent: it stops its children and gives back what it changed.  Idempotent."""
        if self._process.poll() is None and self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
            try:
                self._process.wait(CLOSE_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()
        self._close_pipes()
        self._log.close()

    def kill(self) -> None:
        """End the agent at once; its children die with it.  Idempotent."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
