"""Errors a person can act on.

    ZcdbError                 exit 1   anything that went wrong in a way we can name
    ├── UsageError            exit 2   the command line or a file it names is wrong
    │   └── ExperimentError   exit 2   an experiment file: names file, line and key
    ├── HostError             exit 4   this machine cannot do what was asked
    │   ├── EngineError       exit 4   an endpoint, a soaker or the C module
    │   └── LinkError         exit 4   a link could not be made
    ├── AgentError            exit 1   the process at the other end of a pipe died or spoke nonsense
    └── StoreError            exit 1   the database

Bugs are not in this tree: they stay ordinary exceptions with a traceback.
"""

from __future__ import annotations


class ZcdbError(Exception):
    """An error with one clear sentence and, where there is one, a hint what to do next.

    Args:
        message: names the thing, the place and the value.
        hint: the next step, printed on a line of its own.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(ZcdbError):
    """The command line, or a file it names, is wrong."""

    exit_code = 2


class ExperimentError(UsageError):
    """An experiment file cannot be read or does not make sense."""


class HostError(ZcdbError):
    """This machine cannot do what was asked."""

    exit_code = 4


class EngineError(HostError):
    """An endpoint, a soaker or the C module failed."""


class LinkError(HostError):
    """The link of an experiment could not be made."""


class AgentError(ZcdbError):
    """An agent died, hung or spoke nonsense."""


class StoreError(ZcdbError):
    """The database cannot be opened, read or written."""
