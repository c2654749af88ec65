"""Ctrl-C and SIGTERM end a run in order: only where nothing is half recorded."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType


class Interrupted(Exception):
    """Somebody asked the run to stop."""


class Interruption:
    """A request to stop, taken at once while measuring and kept for later while recording."""

    def __init__(self) -> None:
        self._is_pending = False
        self._is_allowed = False

    def request(self) -> None:
        """Ask the run to stop.

        Raises:
            Interrupted: if it may stop here and now.
        """
        self._is_pending = True
        if self._is_allowed:
            raise Interrupted

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """Let a request stop what happens inside; one that came before stops it at once."""
        if self._is_pending:
            raise Interrupted
        self._is_allowed = True
        try:
            yield
        finally:
            self._is_allowed = False


class SignalInterruption(Interruption):
    """An interruption by SIGINT and SIGTERM, as a context manager."""

    def __enter__(self) -> SignalInterruption:
        self._old = {
            number: signal.signal(number, self._handle)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.request()
