"""ethtool: -k -K -c -g -l -i -T -S, as text and as JSON.

"off [requested on]" of -k says what the kernel wants and cannot have now;
"[not requested]" of -K says that nobody asked for this change.  Names stay the
kernel's.  A result here is facts of one interface, without metrics.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from zcdb.ids import Json
from zcdb.importers import quantities as q
from zcdb.importers.commands import parse_command
from zcdb.importers.context import Context, Found, Source
from zcdb.importers.documents import Document
from zcdb.importers.model import Draft, Refusal, Result
from zcdb.importers.text import Line, is_prompt, span, without_prompt

TOOL = "ethtool"

_HEADERS = {
    "features": re.compile(r"^\s*(?:Features|Offload parameters) for (\S{1,60}):\s*$"),
    "coalesce": re.compile(r"^\s*Coalesce parameters for (\S{1,60}):\s*$"),
    "rings": re.compile(r"^\s*Ring parameters for (\S{1,60}):\s*$"),
    "channels": re.compile(r"^\s*Channel parameters for (\S{1,60}):\s*$"),
    "timestamping": re.compile(r"^\s*Time stamping parameters for (\S{1,60}):\s*$"),
    "feature-change": re.compile(r"^\s*Actual changes:()\s*$"),
    "statistics": re.compile(r"^\s*NIC statistics:()\s*$"),
    "driver": re.compile(r"^\s*driver:()\s*\S"),
}
_FEATURE = re.compile(r"^\s*([a-z0-9][\w. -]{1,60}):\s+(on|off)((?:\s*\[[a-z ]{1,20}\]){0,3})\s*$")
_FEATURE_WITHOUT_COLON = re.compile(r"^\s*[a-z0-9][\w.-]{1,60}\s+(?:on|off)\b")
_PAIR = re.compile(r"^\s*([A-Za-z][\w. /-]{0,60}?):\s*(\S.{0,200}?)?\s*$")
_COUNTER = re.compile(r"^\s*(\S.{0,120}?):\s+(-?[0-9]{1,20})\s*$")
_ADAPTIVE = re.compile(r"^\s*Adaptive RX:\s*(on|off|n/a)\s+TX:\s*(on|off|n/a)\s*$")
_ERRORS = re.compile(
    r"^\s*(?:Cannot get (?:device )?(?P<what>[\w ,/-]{1,60}?)(?: settings| information| names)?:"
    r" .{1,100}|no stats available|netlink error: .{1,100})\s*$"
)
_ERROR_KINDS = (
    ("ring", "rings", "-g"),
    ("coalesce", "coalesce", "-c"),
    ("stats", "statistics", "-S"),
    ("channel", "channels", "-l"),
    ("driver", "driver", "-i"),
    ("udp-fragmentation", "features", "-k"),
    ("feature", "features", "-k"),
    ("offload", "features", "-k"),
    ("time stamping", "timestamping", "-T"),
)


def is_hinted(text: str) -> bool:
    """Tell whether ethtool's output may stand here."""
    return any(
        word in text
        for word in (
            "Features for ",
            "Offload parameters for ",
            " parameters for ",
            "Actual changes:",
            "NIC statistics:",
            "firmware-version:",
            "Cannot get ",
            "netlink error: ",
            "bus-info:",
        )
    )


def parse(lines: Sequence[Line], context: Context) -> Found:
    """Return the results and refusals of ethtool in `lines`."""
    found: Found = []
    error: tuple[int, str] | None = None
    interface: str | None = None
    i = 0
    while i < len(lines):
        text = lines[i].text
        command = parse_command(without_prompt(text), TOOL)
        if command is not None and command.globals:
            names = [word for word in command.globals if not word.startswith("-")]
            interface = names[0] if names else None
        header = next(
            ((kind, m) for kind, pattern in _HEADERS.items() if (m := pattern.match(text))), None
        )
        if header is None:
            if _ERRORS.match(text):
                if error is not None:
                    found.append(_failure(lines, error[0], error[0], error[1]))
                error = (i, text.strip())
            i += 1
            continue
        kind, match = header
        name = match[1] or interface
        item, end = _READERS[kind](lines, i, kind, name)
        if isinstance(item, Refusal) and error is not None:
            item = _failure(lines, error[0], end - 1, error[1])
        elif error is not None:
            found.append(_failure(lines, error[0], error[0], error[1]))
        error = None
        found.append(item)
        if kind != "driver":
            interface = None
        i = end
    if error is not None:
        found.append(_failure(lines, error[0], error[0], error[1]))
    return found


def _failure(lines: Sequence[Line], first: int, last: int, text: str) -> Refusal:
    option = next((o for word, _, o in _ERROR_KINDS if word in text), None)
    what = f"ethtool {option}" if option else "ethtool"
    return Refusal(TOOL, f"{what}: {text[:200]}", span(lines, first, last))


def _draft(kind: str, interface: str | None, output_format: str = "text") -> Draft:
    draft = Draft(TOOL, output_format, kind)
    draft.detail("kind", kind)
    draft.detail("interface", interface)
    if interface is None:
        draft.flag("interface-unknown")
    return draft


Item = Result | Refusal


def _read_features(
    lines: Sequence[Line], start: int, kind: str, interface: str | None
) -> tuple[Item, int]:
    features: dict[str, Json] = {}
    i, end = start + 1, start + 1
    without_colon = 0
    while i < len(lines):
        text = lines[i].text
        match = _FEATURE.match(text)
        if match is not None:
            # Before 2012 ethtool printed "tcp segmentation offload".
            features[match[1].replace(" ", "-")] = _feature(match[2], match[3])
            end = i + 1
        elif text.strip():
            if _FEATURE_WITHOUT_COLON.match(text):
                without_colon += 1
                end = i + 1
            elif not text.startswith(("Cannot get", "netlink")):
                break
        i += 1
    place = span(lines, start, max(start, end - 1))
    if not features or without_colon:
        where = f" for {interface}" if interface else ""
        why = "its lines have no colon: damaged" if without_colon else "no feature follows"
        return Refusal(TOOL, f"ethtool -k{where}: {why}", place), end
    draft = _draft(kind, interface)
    draft.detail("features", features)
    return draft.done(place), end


def _feature(state: str, marks: str) -> dict[str, Json]:
    feature: dict[str, Json] = {"on": state == "on", "fixed": "[fixed]" in marks}
    if match := re.search(r"\[requested (on|off)\]", marks):
        feature["requested"] = match[1] == "on"
    if "[not requested]" in marks:
        feature["change_requested"] = False
    return feature


def _number_or_none(printed: str | None) -> Json:
    return q.whole(printed)


def _read_limits(
    lines: Sequence[Line], start: int, kind: str, interface: str | None
) -> tuple[Item, int]:
    """Read -g and -l: two blocks, maximums and current values."""
    blocks: dict[str, dict[str, Json]] = {}
    block: str | None = None
    i, end = start + 1, start + 1
    while i < len(lines):
        text = lines[i].text
        pair = _PAIR.match(text)
        if "Pre-set maximums" in text or "Current hardware settings" in text:
            block = "max" if "maximums" in text else "current"
            blocks[block] = {}
            end = i + 1
        elif block is not None and pair is not None and not is_prompt(text):
            if pair[2] is None or not re.fullmatch(r"[0-9]{1,12}|n/a|on|off|auto", pair[2]):
                break
            blocks[block][pair[1].lower().replace(" ", "-")] = _number_or_none(pair[2])
            end = i + 1
        elif text.strip():
            break
        i += 1
    place = span(lines, start, max(start, end - 1))
    if not any(blocks.values()):
        option = "-g" if kind == "rings" else "-l"
        reason = f"ethtool {option} for {interface}: a heading and no value"
        return Refusal(TOOL, reason, place), end
    draft = _draft(kind, interface)
    for name, values in blocks.items():
        draft.detail(name, values)
    if len(blocks) < 2:
        draft.flag("incomplete", "one of the two blocks is missing")
    return draft.done(place), end


def _read_coalesce(
    lines: Sequence[Line], start: int, kind: str, interface: str | None
) -> tuple[Item, int]:
    values: dict[str, Json] = {}
    switch: dict[str, Json] = {"on": True, "off": False, "n/a": None}
    i, end = start + 1, start + 1
    while i < len(lines):
        text = lines[i].text
        adaptive, pair = _ADAPTIVE.match(text), _PAIR.match(text)
        if adaptive is not None:
            values["adaptive-rx"], values["adaptive-tx"] = switch[adaptive[1]], switch[adaptive[2]]
        elif pair is not None and pair[2] and re.fullmatch(r"[0-9]{1,12}|n/a|on|off", pair[2]):
            values[pair[1]] = switch[pair[2]] if pair[2] in switch else _number_or_none(pair[2])
        elif text.strip():
            break
        if text.strip():
            end = i + 1
        i += 1
    place = span(lines, start, max(start, end - 1))
    if not values:
        return Refusal(TOOL, f"ethtool -c for {interface}: a heading and no value", place), end
    draft = _draft(kind, interface)
    draft.detail("values", values)
    return draft.done(place), end


_DRIVER_KEYS = frozenset(
    [
        "driver",
        "version",
        "firmware-version",
        "expansion-rom-version",
        "bus-info",
        "supports-statistics",
        "supports-test",
        "supports-eeprom-access",
        "supports-register-dump",
        "supports-priv-flags",
    ]
)


def _read_driver(
    lines: Sequence[Line], start: int, kind: str, interface: str | None
) -> tuple[Item, int]:
    values: dict[str, str | None] = {}
    i = start
    while i < len(lines):
        pair = _PAIR.match(lines[i].text)
        if pair is None or pair[1] not in _DRIVER_KEYS or pair[1] in values:
            break
        values[pair[1]] = pair[2]
        i += 1
    place = span(lines, start, max(start, i - 1))
    if "version" not in values and "bus-info" not in values:
        return Refusal(TOOL, "a line 'driver:' that is not ethtool -i", place), max(i, start + 1)
    draft = _draft(kind, interface)
    for name, value in values.items():
        key = name.replace("-", "_")
        if name.startswith("supports-"):
            draft.detail(key, {"yes": True, "no": False}.get(value or ""))
        else:
            draft.detail(key, value)
    return draft.done(place), i


def _read_statistics(
    lines: Sequence[Line], start: int, kind: str, interface: str | None
) -> tuple[Item, int]:
    counters: dict[str, Json] = {}
    i = start + 1
    while i < len(lines) and (match := _COUNTER.match(lines[i].text)) is not None:
        counters[match[1]] = q.whole(match[2])
        i += 1
    place = span(lines, start, max(start, i - 1))
    if not counters:
        return Refusal(TOOL, "ethtool -S: a heading and no counter", place), i
    draft = _draft(kind, interface)
    draft.detail("counters", counters)
    return draft.done(place), i


def _read_timestamping(
    lines: Sequence[Line], start: int, kind: str, interface: str | None
) -> tuple[Item, int]:
    values: dict[str, Json] = {}
    names: list[Json] = []
    i, end = start + 1, start + 1
    while i < len(lines):
        text = lines[i].text
        pair = re.match(r"^\s*([A-Z][\w ]{2,60}):\s*(.{0,60}?)\s*$", text)
        item = re.match(r"^\s+([a-z][\w/-]{1,60})(?:\s+\(.{0,60}\))?\s*$", text)
        if pair is not None:
            names = []
            key = pair[1].lower().replace(" ", "_")
            values[key] = (None if pair[2] == "none" else q.whole(pair[2])) if pair[2] else names
        elif item is not None and end > start + 1:
            names.append(item[1])
        elif text.strip():
            break
        end = i + 1 if text.strip() else end
        i += 1
    place = span(lines, start, max(start, end - 1))
    if "capabilities" not in values:
        return Refusal(TOOL, f"ethtool -T for {interface}: no capabilities follow", place), end
    draft = _draft(kind, interface)
    for name, value in values.items():
        draft.detail(name, value)
    return draft.done(place), end


_READERS = {
    "features": _read_features,
    "feature-change": _read_features,
    "coalesce": _read_coalesce,
    "rings": _read_limits,
    "channels": _read_limits,
    "driver": _read_driver,
    "statistics": _read_statistics,
    "timestamping": _read_timestamping,
}


def matches(value: Json) -> bool:
    """Tell whether a document is ethtool's JSON: a list of objects named by `ifname`."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(v, dict) and "ifname" in v and "ifindex" not in v for v in value)
    )


def parse_documents(documents: Sequence[Document], source: Source, context: Context) -> Found:
    """Return the results of ethtool's JSON documents."""
    found: Found = []
    for document in documents:
        assert isinstance(document.value, list)  # noqa: S101 - matches() has seen it
        place = source.span(document.start, document.end)
        for item in document.value:
            assert isinstance(item, dict)  # noqa: S101
            values = {key: value for key, value in item.items() if key != "ifname"}
            draft = _of_json(str(item["ifname"])[:60], values)
            if draft is None:
                reason = "ethtool JSON of a kind that is not read"
                found.append(Refusal(TOOL, reason, place))
                continue
            if document.is_cut:
                draft.flag("incomplete", "the JSON is cut off")
            found.append(draft.done(place))
    return found


def _of_json(interface: str, values: Mapping[str, Json]) -> Draft | None:
    features = {
        name: _json_feature(value)
        for name, value in values.items()
        if isinstance(value, dict) and "active" in value
    }
    if features:
        draft = _draft("features", interface, "json")
        draft.detail("features", features)
        return draft
    scalars: dict[str, Json] = {
        name: value if isinstance(value, bool) else q.json_number(value)
        for name, value in values.items()
        if not isinstance(value, dict | list | str)
    }
    if any(name.startswith(("rx-usecs", "adaptive-")) for name in values):
        draft = _draft("coalesce", interface, "json")
        draft.detail("values", scalars)
        return draft
    if any(name.endswith("-max") for name in values):
        kind = "channels" if any(n.startswith(("combined", "other")) for n in values) else "rings"
        draft = _draft(kind, interface, "json")
        draft.detail(
            "max", {n.removesuffix("-max"): v for n, v in scalars.items() if n.endswith("-max")}
        )
        draft.detail("current", {n: v for n, v in scalars.items() if not n.endswith("-max")})
        return draft
    return None


def _json_feature(value: Mapping[str, Json]) -> dict[str, Json]:
    feature: dict[str, Json] = {
        "on": value.get("active") is True,
        "fixed": value.get("fixed") is True,
    }
    requested = value.get("requested")
    if (
        isinstance(requested, bool)
        and requested is not value.get("active")
        and not feature["fixed"]
    ):
        feature["requested"] = requested
    return feature
