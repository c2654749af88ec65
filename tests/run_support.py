"""Helpers for tests that run `zcdb` as its users do: a process with arguments."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from pathlib import Path

EXPERIMENT = """
name = "tiny"
question = "Does it run?"

[factors]
api = ["write", "sendfile"]

[link]
kind = "{link}"

[measure]
repetitions = {repetitions}
duration = "200ms"
discard = "100ms"
sample = "50ms"
bracket = "100ms"
aa = false

[compare]
baseline = {{ api = "write" }}
metrics = ["service_demand_sender", "throughput"]
"""


class Zcdb:
    """One database and folder, and the command line over them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "test.sqlite"
        self.mark = uuid.uuid4().hex
        self.started: list[subprocess.Popen[str]] = []
        self.environment = {
            **os.environ,
            "ZCDB_DATABASE": str(self.database),
            "ZCDB_STATE": str(folder / "state"),
            "ZCDB_TEST_MARK": self.mark,
        }

    def write(self, text: str = EXPERIMENT, link: str = "loopback", repetitions: int = 2) -> Path:
        """Write an experiment file and return its path."""
        path = self.folder / "tiny.toml"
        path.write_text(text.format(link=link, repetitions=repetitions))
        return path

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        """Start `zcdb` with these arguments."""
        process = subprocess.Popen(
            [sys.executable, "-m", "zcdb", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=self.folder,
        )
        self.started.append(process)
        return process

    def close(self) -> None:
        """End everything that was started and is still there."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.started:
            process.kill()
            process.communicate()

    def run(self, *arguments: object, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """Run `zcdb` to its end."""
        with self.start(*arguments) as process:
            try:
                output, errors = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return subprocess.CompletedProcess(arguments, process.returncode, output, errors)

    def query(self, sql: str) -> list[tuple]:
        """Look into the database behind zcdb's back."""
        connection = sqlite3.connect(self.database)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def processes(self) -> list[int]:
        """Return the pids of all processes that descend from ours, whoever their parent is now."""
        mark = f"ZCDB_TEST_MARK={self.mark}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                environment = (folder / "environ").read_bytes()
                state = (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if mark in environment and state != "Z" and int(folder.name) != os.getpid():
                found.append(int(folder.name))
        return found

    def wait_until_gone(self, timeout_s: float = 30) -> list[int]:
        """Wait until none of our processes is left; return those that stayed."""
        deadline = time.monotonic() + timeout_s
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.processes()

    def json(self, *arguments: object) -> object:
        """Run a command with --json and return what it prints."""
        result = self.run(*arguments, "--json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)
