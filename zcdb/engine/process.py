"""What a forked process does before anything else, so that it belongs to nobody but its parent."""

from __future__ import annotations

import ctypes
import gc
import os
import signal

from zcdb.engine.channel import ChannelClosed

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_TIMERSLACK = 29

EXIT_BUG = 70
"""Exit code after an exception that is no EngineError; its traceback is on stderr."""


def die_with(parent_pid: int) -> None:
    """Let the kernel kill this process when its parent dies.

    Raises:
        ChannelClosed: if the parent is dead already.
    """
    # Objects of the parent must not be collected here: they would close descriptor
    # numbers that are ours by then.
    gc.disable()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        raise ChannelClosed


def set_name(name: str) -> None:
    """Set the name that ps and top show; /proc/self/comm is not writable after a change of user."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode())


def wake_up_exactly() -> None:
    """Let sleeps of this thread and those it starts end in time, not 50 us later."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1)
