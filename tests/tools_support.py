"""Helpers for tests of foreign tools: ends without an agent, and what is installed."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from zcdb.factors import with_defaults
from zcdb.tools.end import ToolEnd
from zcdb.tools.model import Job, ToolOptions

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts and user changes")


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skip a test where one of these programs is not installed."""
    missing = [
        name
        for name in programs
        if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None
    ]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def make_options(end: str = "receiver", **changes: Any) -> ToolOptions:
    """Options of an end on loopback; `factors` are completed with their defaults."""
    factors = with_defaults({"api": "write", "tool": "command", **changes.pop("factors", {})})
    values: dict[str, Any] = {
        "end": end,
        "factors": factors,
        "address": "127.0.0.1",
        "own_address": "127.0.0.1",
        "interface": "lo",
        "run_ns": 10**9,
        "discard_ns": 0,
        **changes,
    }
    return ToolOptions(**values)


def make_job(*argv: str, meter: str = "none", **changes: Any) -> Job:
    """A job that counts nothing unless told how."""
    program = shutil.which(argv[0]) or argv[0]
    return Job((program, *argv[1:]), meter, **changes)  # type: ignore[arg-type]


def wait_until(is_so: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    """Wait until something is so; return whether it became so in time."""
    deadline_s = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.01)
    return True


def read_when_over(end: ToolEnd) -> Mapping[str, int]:
    """Return an end's reading once its job has ended."""
    readings = []

    def is_over() -> bool:
        readings.append(end.reading())
        return readings[-1]["payload_bytes"] > 0

    assert wait_until(is_over)
    return readings[-1]
