"""What a tool says of its own run, read through the importers and held against our figures.

Pure.  The tool's words are kept whole, so a better reader can read them again.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from zcdb import importers
from zcdb.ids import Json

DISAGREEMENT_LIMIT = 0.02


def read_report(tool: str, command: Sequence[str], output: str) -> dict[str, Json]:
    """Return what the importers make of a tool's output.

    Returns:
        tool, version, test, elapsed_s, metrics (name -> base unit) and flags (codes) of its one
        result; {"reason": why} where there is not one.
    """
    reading = importers.read(output.encode(), tool, command=shlex.join(command))
    if len(reading.results) != 1:
        refused = "; ".join(refusal.reason for refusal in reading.refused)
        return {"reason": refused or f"{len(reading.results)} results were found, not one"}
    result = reading.results[0]
    return {
        "tool": result.tool,
        "version": result.version,
        "test": result.test,
        "elapsed_s": result.details.get("elapsed_s"),
        "metrics": dict(result.metrics),
        "flags": [flag.code for flag in result.flags],
    }


def comparison(
    report: Mapping[str, Any], sent_bytes: int, request_bytes: int | None
) -> dict[str, Json]:
    """Hold a tool's figure against what went through its sockets until it ended.

    Args:
        report: of `read_report`.
        sent_bytes: by the sender, over the whole run.
        request_bytes: size of one request; None for a stream.

    Returns:
        metric, tool (its figure), ours (the bytes over the tool's own time) and their ratio;
        {"reason": why} where there is nothing to compare.
    """
    elapsed_s = report.get("elapsed_s")
    metrics: Mapping[str, float] = report.get("metrics") or {}
    metric = "throughput" if request_bytes is None else "transaction_rate"
    if metric not in metrics or not elapsed_s or not sent_bytes:
        return {"reason": str(report.get("reason") or f"no {metric} in the tool's report")}
    per_second = sent_bytes / elapsed_s
    ours = per_second * 8 if request_bytes is None else per_second / request_bytes
    return {
        "metric": metric,
        "tool": metrics[metric],
        "ours": ours,
        "ratio": metrics[metric] / ours,
    }


def disagrees(compared: Mapping[str, Any]) -> bool:
    """Tell whether a comparison was made and its ratio is beyond the limit."""
    return "ratio" in compared and abs(compared["ratio"] - 1) > DISAGREEMENT_LIMIT
