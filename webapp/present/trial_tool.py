"""The foreign tool of a trial: what ran at each end, and how its bytes were counted.  Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from zcdb import metrics
from zcdb.ids import Json
from zcdb.records import ENDS, End
from zcdb.webapp.labels import metric_label

COUNTING: Mapping[str, str] = {
    "sockets-at": "read from the TCP connections of its own port, by the kernel's count",
    "sockets-to": "written to its TCP connections and acknowledged, by the kernel's count",
    "written": "what its process handed to write calls, by the kernel's count",
    "interface": "what the interface received, headers and all",
    "whole": "known when the run had ended: stated, or printed by the tool",
    "none": "not counted at this end",
    "absent": "nothing of ours ran at this end",
    "endpoint": "by zcdb's own endpoint",
}
"""How payload was counted, in words; keys are `payload_counting` of an end's effective values."""


@dataclass(frozen=True, slots=True)
class ToolEndContent:
    """What ran at one end.

    Attributes:
        command: the command line as a shell would take it; None where nothing ran.
        version: as the program prints it; None where it prints none.
        runs: how often it was run in the trial; None where that is not known.
    """

    end: End
    command: str | None
    version: str | None
    counting: str
    runs: int | None


@dataclass(frozen=True, slots=True)
class ToolContent:
    """The tool of a trial.

    Attributes:
        comparison: how its own figure compares with what went through its sockets; None
            where it reports none.
    """

    name: str
    ends: tuple[ToolEndContent, ...]
    comparison: str | None


def tool_content(counts: Mapping[str, Json]) -> ToolContent | None:
    """Return the tool of a trial, None for a trial of zcdb's own loops."""
    tool = cast(Mapping[str, Any] | None, counts.get("tool"))
    if not tool:
        return None
    effective = cast(Mapping[str, Mapping[str, Any]], counts.get("effective") or {})
    reports = tool.get("ends") or {}
    return ToolContent(
        name=str(tool["name"]),
        ends=tuple(_end(end, reports.get(end) or {}, effective.get(end) or {}) for end in ENDS),
        comparison=_comparison(str(tool["name"]), tool.get("comparison")),
    )


def _end(end: End, report: Mapping[str, Any], effective: Mapping[str, Any]) -> ToolEndContent:
    command = report.get("command") or effective.get("tool_command")
    counting = str(effective.get("payload_counting", "endpoint"))
    return ToolEndContent(
        end=end,
        command=shlex.join(command) if command else None,
        version=report.get("version") or effective.get("tool_version"),
        counting=COUNTING.get(counting, counting),
        runs=report.get("runs"),
    )


def _comparison(name: str, compared: Mapping[str, Any] | None) -> str | None:
    if not compared or compared.get("tool") is None or compared.get("ours") is None:
        return None
    metric = str(compared["metric"])

    def shown(value: float) -> str:
        return metrics.format_value(metric, value)

    difference = (float(compared["tool"]) / float(compared["ours"]) - 1) * 100
    return (
        f"{metric_label(metric)} that {name} reports: {shown(compared['tool'])}; that its"
        f" connections carried until it ended: {shown(compared['ours'])} ({difference:+.2f} %)"
    )
