"""Colours and lines of charts, read from the site's stylesheet, which alone states them.

A chart in a page takes them from the page.  One that leaves it, as a file or as
Plotly's description, takes the light ones with every custom property replaced by
its value: programs that print or convert SVG know no `var()`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

STYLESHEET = Path(__file__).parent.parent / "static" / "site.css"

PAPER = "#ffffff"
"""Ground of a drawing that is a file: white, as what it will be put on."""

_ROOT = re.compile(r":root \{(.*?)\}", re.DOTALL)
_PROPERTY = re.compile(r"(--[a-z0-9-]+): ([^;]+);")
_RULE = re.compile(r"^(\.chart-(?!-)[^{}]*?) \{ ([^{}]*) \}$", re.MULTILINE)
_VARIABLE = re.compile(r"var\((--[a-z0-9-]+)\)")
_LAYOUT = re.compile(r"(?<![\w-])(?:display|width|max-width|height|overflow): [^;]+;\s*")


@cache
def light_properties() -> dict[str, str]:
    """Return the custom properties of the light scheme: "--ink" -> "#1b2126"."""
    first = _ROOT.search(STYLESHEET.read_text(encoding="utf-8"))
    if first is None:
        raise ValueError(f"{STYLESHEET} has no :root")
    return dict(_PROPERTY.findall(first[1])) | {"--paper": PAPER}


@cache
def palette() -> tuple[str, ...]:
    """Return the colours of the slots on a light ground, the first slot's first."""
    found = light_properties()
    return tuple(found[name] for name in sorted(found) if name.startswith("--series-"))


@cache
def document_style() -> str:
    """Return the stylesheet of a drawing that is a file of its own."""
    rules = [f"svg{{background:{PAPER}}}"]
    for selector, declarations in _RULE.findall(STYLESHEET.read_text(encoding="utf-8")):
        if "--narrow" in selector:
            continue
        inside = re.sub(r"\.chart-svg(?= |,|$)", "svg", selector)
        drawn = _LAYOUT.sub("", declarations)
        if "var(--c)" not in drawn:
            rules.append(f"{inside}{{{_valued(drawn)}}}")
            continue
        for slot, colour in enumerate(palette(), 1):
            coloured = ",".join(f".s{slot} {part.strip()}" for part in inside.split(","))
            rules.append(f"{coloured}{{{_valued(drawn.replace('var(--c)', colour))}}}")
    return "".join(rules)


def _valued(declarations: str) -> str:
    return _VARIABLE.sub(lambda match: light_properties()[match[1]], declarations)
