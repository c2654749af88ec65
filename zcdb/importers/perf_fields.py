"""perf stat for programs: -x with any separator, and -j with one object a line.

The number of leading fields depends on the options, so the event's name and
the empty unit before it are looked for.  Also here: what the counters of any
form become in a result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from zcdb.ids import Json
from zcdb.importers import quantities as q
from zcdb.importers.context import Context, Found, Source
from zcdb.importers.documents import Document
from zcdb.importers.model import Draft, Refusal, Result
from zcdb.importers.text import Line, span

TOOL = "perf-stat"

_VERSION = re.compile(r"^\s*perf version (\S{1,60})")
_INTERVAL_OPTION = re.compile(r"perf stat .*?-I\s*([0-9]{1,9})\b")
STATES = {"<not counted>": "not counted", "<not supported>": "not supported"}
"""What perf prints in place of a count -> the state of the counter."""


def take_events(
    draft: Draft, events: dict[str, Json], timed: Mapping[str, dict[str, Json]]
) -> None:
    """Take the counters: once counted, or by interval; flag what makes them estimates."""
    if timed:
        rows: list[Json] = [
            {"time_s": q.number(time), "events": dict(found)} for time, found in timed.items()
        ]
        draft.detail("by_interval", rows)
        draft.count("intervals", len(rows))
    if events:
        draft.detail("events", events)
    everything = [event for found in [events, *timed.values()] for event in found.values()]
    running = [
        event["running_percent"]
        for event in everything
        if isinstance(event, dict) and isinstance(event.get("running_percent"), float | int)
    ]
    shared = [r for r in running if isinstance(r, float | int) and 0 < r < 99.995]
    if shared:
        draft.flag("multiplexed", f"counted {min(shared):g} % to {max(shared):g} % of the time")
    spreads = [
        (name, event["stddev_percent"])
        for name, event in events.items()
        if isinstance(event, dict) and isinstance(event.get("stddev_percent"), float)
    ]
    wide = [name for name, s in spreads if isinstance(s, float) and s > 10]
    if wide:
        draft.flag("counts-vary", ", ".join(wide))
    if any(
        name.startswith(("cpu_core/", "cpu_atom/"))
        for found in [events, *timed.values()]
        for name in found
    ):
        draft.detail("hybrid", True)


_VALUE = r"(?:[0-9]{1,20}(?:\.[0-9]{1,9})?|<not counted>|<not supported>)"
_SEPARATED = re.compile(
    rf"^\s*(?:(?P<time>[0-9]{{1,10}}\.[0-9]{{9}})(?P<s>[,;|\t:]))?"
    r"(?:(?P<unit_of>CPU[0-9]{1,5}|(?:S[0-9]{1,4}[-DC0-9]{0,12}|N[0-9]{1,4})[,;|\t:][0-9]{1,5})"
    r"[,;|\t:])?"
    rf"(?P<value>{_VALUE})(?P<s2>[,;|\t:])(?P<unit>msec|ns|Joules|MiB|)(?P=s2)"
    r"(?P<event>[A-Za-z_][\w.:/=@{}-]{1,120})(?P=s2)(?P<rest>.*)$",
    re.M,
)
_BLANK_SEPARATED = re.compile(
    rf"^\s*(?P<time>[0-9]{{1,10}}\.[0-9]{{9}}) (?P<unit_of>)(?P<value>{_VALUE}) "
    r"(?P<unit>msec|ns|Joules|MiB|) ?"
    r"(?P<event>[A-Za-z_][\w.:/=@{}-]{1,120}) (?P<rest>[0-9].*)$",
    re.M,
)


_AGGREGATES = ("node", "socket", "die", "core", "cpu")


def find_separator(text: str) -> str | None:
    """Return the separator of -x output that stands in a text, or None."""
    match = _SEPARATED.search(text)
    if match is not None:
        return match["s2"]
    return " " if _BLANK_SEPARATED.search(text) else None


def parse_separated(lines: Sequence[Line], context: Context) -> Found:
    """Return the results of -x output in `lines`."""
    found: Found = []
    block: list[tuple[int, re.Match[str]]] = []
    above: list[str] = [context.command or ""]
    for i, line in enumerate(lines):
        match = _BLANK_SEPARATED.match(line.text) or _SEPARATED.match(line.text)
        if match is not None:
            block.append((i, match))
        elif block and line.text.strip() and not line.text.startswith("#"):
            found.append(_separated(lines, block, above))
            block, above = [], [line.text]
        else:
            above.append(line.text)
    if block:
        found.append(_separated(lines, block, above))
    return found


def _separated(
    lines: Sequence[Line], block: Sequence[tuple[int, re.Match[str]]], above: Sequence[str]
) -> Result:
    draft = Draft(TOOL, "x", "perf stat")
    separator = " " if block[0][1].re is _BLANK_SEPARATED else block[0][1]["s2"]
    draft.detail("separator", separator)
    text = "\n".join(above)
    if match := _VERSION.search(text) or re.search(r"perf version (\S{1,60})", text):
        draft.version = match[1]
    events: dict[str, Json] = {}
    timed: dict[str, dict[str, Json]] = {}
    for _, row in block:
        event = _separated_event(row, separator)
        if row["time"]:
            timed.setdefault(row["time"], {})[_name(row)] = event
        else:
            events[_name(row)] = event
    if timed:
        option = _INTERVAL_OPTION.search(text)
        first = q.number(next(iter(timed)))
        draft.detail("interval_s", int(option[1]) / 1000 if option else first)
    take_events(draft, events, timed)
    return draft.done(span(lines, block[0][0], block[-1][0]))


def _name(row: re.Match[str]) -> str:
    """Return the event's name, behind the CPU, core or socket it was counted on."""
    unit = re.sub(r"[^A-Z0-9-]", " ", row["unit_of"] or "")
    return f"{unit} {row['event']}" if unit else row["event"]


def _separated_event(row: re.Match[str], separator: str) -> dict[str, Json]:
    value = row["value"]
    event: dict[str, Json] = (
        {"value": None, "state": STATES[value]} if value in STATES else {"value": q.number(value)}
    )
    if row["unit"]:
        event["unit"] = row["unit"]
    fields = row["rest"].split(separator)
    if fields and fields[0].endswith("%"):
        event["stddev_percent"] = q.number(fields.pop(0).rstrip("%"))
    if len(fields) >= 2 and (runtime := q.whole(fields[0])) is not None:
        event["runtime_ns"] = runtime
        event["running_percent"] = q.number(fields[1])
        if len(fields) >= 4 and fields[2]:
            event["metric"] = " ".join(x for x in fields[2:] if x).strip()
    return event


def matches(value: Json) -> bool:
    """Tell whether a document is one line of perf stat -j."""
    return isinstance(value, dict) and (
        "counter-value" in value or ("metric-value" in value and "metric-unit" in value)
    )


def parse_documents(documents: Sequence[Document], source: Source, context: Context) -> Found:
    """Return the result of the lines of one perf stat -j."""
    draft = Draft(TOOL, "j", "perf stat")
    events: dict[str, Json] = {}
    timed: dict[str, dict[str, Json]] = {}
    for document in documents:
        assert isinstance(document.value, dict)  # noqa: S101 - matches() has seen it
        fields = document.value
        name = fields.get("event")
        metric = _json_metric(fields)
        time = q.json_number(fields.get("interval"))
        if not isinstance(name, str):
            draft.detail("metric_without_event", metric)
            if time is not None:
                draft.detail("interval_s", time)
            continue
        name = " ".join(
            [f"{key.upper()}{fields[key]}" for key in _AGGREGATES if key in fields] + [name]
        )
        event = _json_event(fields, metric)
        if time is not None:
            draft.detail("interval_s", draft.details.get("interval_s") or time)
            timed.setdefault(repr(time), {})[name] = event
        else:
            events[name] = event
    place = source.span(documents[0].start, documents[-1].end)
    if not events and not timed:
        return [Refusal(TOOL, "perf stat -j without an event", place)]
    take_events(draft, events, timed)
    return [draft.done(place)]


def _json_metric(fields: Mapping[str, Json]) -> str | None:
    value, unit = fields.get("metric-value"), fields.get("metric-unit")
    if (
        not isinstance(unit, str)
        or not unit
        or value is None
        or isinstance(value, bool | dict | list)
    ):
        return None
    return f"{value} {unit}" if isinstance(value, str) else f"{value:.6f} {unit}"


def _json_event(fields: Mapping[str, Json], metric: str | None) -> dict[str, Json]:
    printed = fields.get("counter-value")
    event: dict[str, Json]
    if isinstance(printed, str) and printed in STATES:
        event = {"value": None, "state": STATES[printed]}
    elif isinstance(printed, str):
        event = {"value": q.number(printed)}
    else:
        event = {"value": q.json_number(printed)}
    if isinstance(fields.get("unit"), str) and fields["unit"]:
        event["unit"] = fields["unit"]
    for key, name in (
        ("event-runtime", "runtime_ns"),
        ("pcnt-running", "running_percent"),
        ("variance", "stddev_percent"),
    ):
        value = q.json_number(fields.get(key))
        if value is not None:
            event[name] = value
    if metric is not None and event.get("state") is None:
        event["metric"] = metric
    return event
