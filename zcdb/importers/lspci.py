"""lspci -nn, with or without -v: which PCI devices a machine has.

The numbers in brackets identify; the words are pci.ids' and may have brackets
of their own, so the last bracket of the right shape is the device's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from zcdb.ids import Json
from zcdb.importers.context import Context, Found
from zcdb.importers.model import Draft, Result
from zcdb.importers.text import Line, is_prompt, span

TOOL = "lspci"

_DEVICE = re.compile(
    r"^\s*((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (.{1,100}?) \[([0-9a-f]{4})\]: "
    r"(.{1,300}) \[([0-9a-f]{4}):([0-9a-f]{4})\]((?: \([^()]{1,60}\)){0,3})\s*$"
)
_REVISION = re.compile(r"\(rev ([0-9a-f]{2})\)")
_SUBSYSTEM = re.compile(r"^\s+Subsystem: .*\[([0-9a-f]{4}):([0-9a-f]{4})\]\s*$")
_DRIVER = re.compile(r"^\s+Kernel driver in use: ([\w.-]{1,60})\s*$")
_INDENTED = re.compile(r"^\s+\S")


def is_hinted(text: str) -> bool:
    """Tell whether lspci -nn may stand here."""
    return re.search(r"\.[0-7] .{1,100}? \[[0-9a-f]{4}\]: ", text) is not None


def parse(lines: Sequence[Line], context: Context) -> Found:
    """Return one result for each list of devices in `lines`."""
    found: Found = []
    devices: list[dict[str, Json]] = []
    first = last = 0
    is_cut = False
    for i, line in enumerate(lines):
        match = _DEVICE.match(line.text)
        if match is not None:
            if not devices:
                first = i
            devices.append(_device(match))
            last = i
        elif devices and _INDENTED.match(line.text) and i == last + 1:
            last = i
            if subsystem := _SUBSYSTEM.match(line.text):
                devices[-1]["subsystem"] = f"{subsystem[1]}:{subsystem[2]}"
            elif driver := _DRIVER.match(line.text):
                devices[-1]["driver"] = driver[1]
            elif "Subsystem:" in line.text and re.search(r"\[[0-9a-f:]*$", line.text):
                is_cut = True
        elif devices and (is_prompt(line.text) or (line.text.strip() and i > last + 1)):
            found.append(_result(lines, devices, first, last, is_cut))
            devices, is_cut = [], False
        elif devices and not line.text.strip():
            last = i if i == last + 1 else last
    if devices:
        found.append(_result(lines, devices, first, last, is_cut))
    return found


def _device(match: re.Match[str]) -> dict[str, Json]:
    revision = _REVISION.search(match[7])
    return {
        "slot": match[1],
        "class_name": match[2],
        "class": match[3],
        "name": match[4],
        "vendor": match[5],
        "device": match[6],
        "revision": revision[1] if revision else None,
        "virtual_function": "Virtual Function" in match[4],
    }


def _result(
    lines: Sequence[Line], devices: Sequence[Json], first: int, last: int, is_cut: bool
) -> Result:
    draft = Draft(TOOL, "nn", "lspci")
    draft.detail("devices", list(devices))
    draft.count("records", len(devices))
    if is_cut:
        draft.flag("incomplete", "cut off inside a subsystem id")
    return draft.done(span(lines, first, last))
