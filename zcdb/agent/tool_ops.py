"""The agent's operations for ends that are foreign tools; mixed into the agent itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zcdb.agent.ends import HeldEnds
from zcdb.engine.tcpinfo import sum_totals
from zcdb.errors import EngineError
from zcdb.ids import Json
from zcdb.records import End
from zcdb.tools.end import AbsentEnd, ToolEnd
from zcdb.tools.model import ToolOptions
from zcdb.tools.registry import missing_here, start, unsupported_reason


class ToolOperations:
    """Start and stop a tool; everything in between is what any endpoint does."""

    def __init__(self) -> None:
        self._ends = HeldEnds()

    def op_tool_unsupported(self, end: End, factors: Mapping[str, Any]) -> Json:
        """Return why a tool cannot run a case, or an end of it not on this machine, or None."""
        return unsupported_reason(factors) or missing_here(factors, end)

    def op_start_tool(self, options: Mapping[str, Any]) -> Json:
        """Start a tool: a server listens, a client waits for `go`, when this returns."""
        asked = ToolOptions.from_dict(options)
        endpoint = start(asked, sum_totals)
        self._ends.keep(asked.end, endpoint)
        return {
            "ports": endpoint.ports,
            "effective": endpoint.effective,
            "differences": list(endpoint.differences),
        }

    def op_stop_tool(self, end: End) -> Json:
        """Stop a tool, or wait for its own end, and return its totals and what it printed."""
        endpoint = self._ends.get(end)
        if not isinstance(endpoint, ToolEnd | AbsentEnd):
            raise EngineError(f"no tool was started as the {end} on this host")
        ending = endpoint.stop()
        self._ends.forget(end)
        return {
            "totals": dict(ending.totals),
            "errors": ending.errors,
            "verify_mismatch": None,
            "first_bad_offset": None,
            "report": dict(ending.report),
        }
