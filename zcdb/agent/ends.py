"""The endpoints that an agent holds: one an end, whether zcdb's own or a foreign tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zcdb.engine.endpoint import Endpoint
from zcdb.errors import EngineError
from zcdb.records import End
from zcdb.tools.end import AbsentEnd, ToolEnd

AnyEnd = Endpoint | ToolEnd | AbsentEnd


class HeldEnds:
    """At most one endpoint an end; a new one takes the place of the old one, which is killed."""

    def __init__(self) -> None:
        self._held: dict[End, AnyEnd] = {}

    def keep(self, end: End, endpoint: AnyEnd) -> None:
        """Hold an endpoint that was started."""
        old = self._held.pop(end, None)
        if old is not None:
            old.kill()
        self._held[end] = endpoint

    def get(self, end: End) -> AnyEnd:
        """Return the endpoint of an end.

        Raises:
            EngineError: if none was started.
        """
        if end not in self._held:
            raise EngineError(f"no {end} was started on this host")
        return self._held[end]

    def forget(self, end: End) -> None:
        """Let go of an endpoint that has ended."""
        del self._held[end]

    def readers(self) -> dict[End, Callable[[], Mapping[str, int]]]:
        """Return what reads each endpoint's counters."""
        return {end: endpoint.reading for end, endpoint in self._held.items()}

    def kill(self) -> None:
        """End all of them at once.  Idempotent."""
        for end in list(self._held):
            self._held.pop(end).kill()
