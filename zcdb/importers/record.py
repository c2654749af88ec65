"""What a file gave as a source that a database keeps: one entry a result.

A result of a test has a case: what the text states, what was given beside it, and "unstated" for
the rest.  What only describes a machine (ethtool, lspci) has no case; `machine_factors` makes the
context of a test from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from zcdb import factors
from zcdb.factors import Factors, FactorValue
from zcdb.ids import Json
from zcdb.importers.model import Reading, Result
from zcdb.importers.published import published_factors
from zcdb.metrics import METRICS
from zcdb.records import MetricValue
from zcdb.sources import Entry, Figure, Source

FORM = "import 1"
"""Raise the number when the same text gives other records: importing it again reads it anew."""

_EXCHANGES = (("crr", "crr"), ("_rr", "rr"), ("rr", "rr"), ("ping-pong", "rr"))
_FEATURES = {
    "scatter-gather": "sg",
    "tx-checksumming": "tx_checksum",
    "rx-checksumming": "rx_checksum",
    "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
    "large-receive-offload": "lro",
    "tx-nocache-copy": "tx_nocache_copy",
}
"""Feature of ethtool -k -> factor."""


def source_of(
    reading: Reading,
    text: bytes,
    *,
    command: str | None = None,
    given: Factors | None = None,
) -> Source:
    """Return what a file gave as a source.

    Args:
        reading: what the importers found in it.
        text: the file as it is.
        command: the command line that was given for it.
        given: factors that the text does not state; with other ones it is another source.
    """
    given = dict(given or {})
    tools = dict.fromkeys(result.tool for result in reading.results)
    spans = [*(one.span for one in reading.results), *(one.span for one in reading.refused)]
    lines = [line for span in spans for line in (span.first_line, span.last_line)]
    keys = Counter[str]()
    return Source(
        kind="import",
        identity={"sha256": reading.sha256, "command": command, "given": given},
        name=reading.file_name,
        title=f"Output of {', '.join(tools)}" if tools else "Nothing that is known",
        document=reading.file_name,
        author=None,
        dated=None,
        lines=(min(lines), max(lines)) if lines else None,
        text=text,
        form=FORM,
        entries=[_entry(result, given, keys) for result in reading.results],
        details={
            "command": command,
            "given": given,
            "refused": [
                {
                    "tool": refusal.tool,
                    "reason": refusal.reason,
                    "lines": [refusal.span.first_line, refusal.span.last_line],
                }
                for refusal in reading.refused
            ],
        },
    )


def _entry(result: Result, given: Factors, keys: Counter[str]) -> Entry:
    span = result.span
    key = f"bytes {span.first_byte}-{span.end_byte} {result.tool} {result.format}"
    # One document may hold several results: they are told apart by their order.
    keys[key] += 1
    key = f"{key} {keys[key]}" if keys[key] > 1 else key
    name = f"{result.tool} {result.test}" if result.test != result.tool else result.tool
    is_test = bool(result.measurements)
    return Entry(
        key=key,
        name=name,
        kind="result" if is_test else "machine",
        lines=(span.first_line, span.last_line),
        factors=case_factors(result, given) if is_test else None,
        figures=[_figure(value, result) for value in result.measurements],
        flags=result.flags,
        left_out=None if is_test else "it describes a machine, not a case",
        details={
            "tool": result.tool,
            "format": result.format,
            "version": result.version,
            "test": result.test,
            "stated": dict(result.factors),
            "bytes": [span.first_byte, span.end_byte],
            "details": dict(result.details),
        },
    )


def case_factors(result: Result, given: Factors) -> dict[str, FactorValue]:
    """Return the factors of the case that a result measured."""
    stated: dict[str, FactorValue] = {"tool": result.tool, "test": _test(result)}
    for name, value in {**result.factors, **given}.items():
        stated[name] = factors.normalise_published(name, value)
    return published_factors(stated)


def _test(result: Result) -> str:
    word = result.test.lower()
    if "transaction_rate" in result.metrics or "request_size" in result.factors:
        return "crr" if "crr" in word else "rr"
    return next((test for part, test in _EXCHANGES if part in word), "stream")


def _figure(value: MetricValue, result: Result) -> Figure:
    derivation = result.derivations.get(value.metric)
    details: dict[str, Json] = {}
    if derivation is not None:
        details = {"rule": derivation.rule, "from": list(derivation.inputs)}
    return Figure(
        metric=value.metric,
        method=value.method,
        unit=METRICS[value.metric].unit,
        stated="",
        low=value.value,
        high=value.value,
        reason=value.reason,
        details=details,
    )


def machine_factors(results: Sequence[Result]) -> dict[str, FactorValue]:
    """Return what ethtool, lspci and ip say about one machine: names of factors without an end.

    `nic`, `driver`, `driver_version`, `mtu` and the offloads.  A file that shows several cards does
    not say which of them carried the data: what differs between them is left out.
    """
    seen: dict[str, set[FactorValue]] = {}
    for result in results:
        for name, value in _facts(result):
            seen.setdefault(name, set()).add(value)
    return {name: values.pop() for name, values in seen.items() if len(values) == 1}


def _facts(result: Result) -> list[tuple[str, FactorValue]]:
    details: Mapping[str, Any] = result.details
    if result.tool == "ethtool" and details.get("kind") == "driver":
        pairs = (("driver", details.get("driver")), ("driver_version", details.get("version")))
        return [(name, str(value)) for name, value in pairs if value]
    if result.tool == "ethtool" and details.get("kind") == "features":
        features = details.get("features") or {}
        return [
            (factor, bool(features[name]["on"]))
            for name, factor in _FEATURES.items()
            if name in features
        ]
    if result.tool == "lspci":
        return [
            ("nic", str(device["name"]))
            for device in details.get("devices") or ()
            if str(device.get("class", "")).startswith("02") and device.get("name")
        ]
    if result.tool == "ip-link":
        return [
            ("mtu", int(link["mtu"]))
            for link in details.get("links") or ()
            if link.get("link_type") == "ether" and link.get("mtu")
        ]
    return []


def probe_factors(facts: Mapping[str, Any]) -> dict[str, FactorValue]:
    """Return what the JSON of `zcdb probe` or an environment says, in the same words."""
    inner = facts.get("facts", facts)
    pairs = {
        "kernel": inner.get("kernel_release"),
        "cpu": inner.get("cpu_model"),
        "cpus": inner.get("cpus"),
    }
    return {name: str(value) for name, value in pairs.items() if value}
