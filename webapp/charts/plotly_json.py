"""Write a figure as Plotly's JSON: the same points, intervals and words as the SVG.

Plain dictionaries: Plotly's own figure classes add a template of 7 kB to every
chart and are not needed to write JSON.  Only trace types that need no WebGL
are used; colours are the light ones, and `charts.js` puts the page's in.
"""

from __future__ import annotations

from typing import Any

from zcdb.webapp.charts.figure import DASHES, MARKERS, SLOTS, Axis, Figure, Series
from zcdb.webapp.charts.style import light_properties, palette


def _axis(axis: Axis) -> dict[str, Any]:
    written: dict[str, Any] = {
        "title": {"text": axis.title, "font": {"size": 12}},
        "gridcolor": light_properties()["--rule"],
        "zeroline": False,
        "automargin": True,
    }
    if axis.scale == "category":
        written |= {
            "tickvals": list(range(len(axis.categories))),
            "ticktext": list(axis.categories),
            "range": [len(axis.categories) - 0.5, -0.5],
        }
    elif axis.scale == "log":
        written["type"] = "log"
    if axis.ticks:
        written["tickvals"] = list(axis.ticks)
        written["ticktext"] = list(axis.tick_labels) or [f"{tick:g}" for tick in axis.ticks]
    if axis.includes_zero:
        written["rangemode"] = "tozero"
    return written


def _interval(figure: Figure, series: Series) -> dict[str, Any]:
    """Return Plotly's error bars: lengths from the value up and down, null where there is none."""
    values = series.x if figure.value_axis == "x" else series.y
    up: list[float | None] = []
    down: list[float | None] = []
    for value, low, high in zip(values, series.low, series.high, strict=True):
        known = value is not None and low is not None and high is not None
        up.append(high - value if known else None)  # type: ignore[operator]
        down.append(value - low if known else None)  # type: ignore[operator]
    return {"type": "data", "symmetric": False, "array": up, "arrayminus": down, "width": 4}


def _trace(figure: Figure, series: Series) -> dict[str, Any]:
    slot = series.slot % SLOTS
    trace: dict[str, Any] = {
        "type": "scatter",
        "name": series.name,
        "x": list(series.x),
        "y": list(series.y),
        "showlegend": series.in_legend,
        # charts.js reads the slot and puts the page's colour in, light or dark.
        "meta": {"slot": slot + 1},
        "mode": {"dots": "markers", "means": "markers", "line": "lines", "stack": "lines"}[
            series.kind
        ],
    }
    if series.kind == "means" and series.joined:
        trace["mode"] = "lines+markers"
    if "lines" in trace["mode"]:
        trace["line"] = {"color": palette()[slot], "dash": DASHES[slot], "width": 2}
    if "markers" in trace["mode"]:
        is_dot = series.kind == "dots"
        trace["marker"] = {
            "color": palette()[slot],
            "symbol": "circle" if is_dot else MARKERS[slot],
            "size": 5 if is_dot else 10,
            "opacity": 0.55 if is_dot else 1,
        }
    if series.kind == "stack":
        trace["stackgroup"] = "stack"
    if series.low:
        trace[f"error_{figure.value_axis}"] = _interval(figure, series)
    if series.notes:
        trace |= {"text": list(series.notes), "hoverinfo": "text"}
    return trace


def _shape(axis: str, low: float, high: float) -> dict[str, Any]:
    """Return a rectangle (or, if low equals high, a line) across the whole plot."""
    other = "y" if axis == "x" else "x"
    return {
        "type": "line" if low == high else "rect",
        f"{axis}0": low,
        f"{axis}1": high,
        f"{axis}ref": axis,
        f"{other}0": 0,
        f"{other}1": 1,
        f"{other}ref": "paper",
    }


def plotly_figure(figure: Figure) -> dict[str, Any]:
    """Return {"data": [...], "layout": {...}} for Plotly.newPlot; no NaN in it."""
    ink = light_properties()["--ink"]
    shapes = [
        _shape(band.axis, band.low, band.high)
        | {"fillcolor": ink, "opacity": 0.08, "line": {"width": 0}, "layer": "below"}
        for band in figure.bands
    ] + [
        _shape(rule.axis, rule.at, rule.at) | {"line": {"color": ink, "width": 1}}
        for rule in figure.rules
    ]
    layout: dict[str, Any] = {
        "title": {"text": figure.title},
        "xaxis": _axis(figure.x),
        "yaxis": _axis(figure.y),
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": ink},
        "shapes": shapes,
        "hovermode": "closest",
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom"},
        "meta": {"description": figure.description},
        "height": 420,
    }
    if figure.y.scale == "category":
        layout["height"] = 160 + 30 * len(figure.y.categories)
    if figure.x.scale == "category":
        layout["xaxis"]["range"] = [-0.5, len(figure.x.categories) - 0.5]
    return {"data": [_trace(figure, series) for series in figure.series], "layout": layout}
