"""Draw a figure as SVG on the server.

A chart that deserves the whole width of a page is drawn twice, once for wide and
once for narrow screens, so that its text keeps its size on a phone; the
stylesheet shows one of the two.  The others are drawn narrow only.
Colours, and so light and dark, come from the page's custom properties through
classes; shapes and dashes are attributes.  Text is measured by a rule of thumb:
a server has no fonts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from markupsafe import Markup, escape

from zcdb.webapp.charts.figure import DASHES, MARKERS, SLOTS, Axis, Figure, Series
from zcdb.webapp.charts.markers import marker_path, px
from zcdb.webapp.charts.scales import Scale, domain, ticks
from zcdb.webapp.charts.style import document_style

CHARACTER_PX = 6.5
"""Width of an average character at the 12 px that the stylesheet sets charts in."""

LINE_PX = 18
ASIDE_PX = 5
DASH_ARRAYS = {"solid": "", "dash": "7 4", "dot": "2 3", "dashdot": "8 3 2 3", "longdash": "12 4"}


@dataclass(frozen=True, slots=True)
class Form:
    """The measures of one of the two drawings.

    Attributes:
        label_share: share of the width that row labels may take; 0 puts them above their row.
    """

    name: str
    width: int
    plot_height: int
    row_height: int
    x_ticks: int
    y_ticks: int
    label_share: float


WIDE = Form("wide", 860, 300, 26, 8, 6, 0.34)
NARROW = Form("narrow", 380, 230, 34, 5, 5, 0.0)


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where the plot's area lies, and the scales into it."""

    form: Form
    left: float
    right: float
    top: float
    bottom: float
    x: Scale
    y: Scale


def text_width(text: str) -> float:
    """Return about how many pixels a text takes."""
    return len(text) * CHARACTER_PX


def shortened(text: str, length: int) -> str:
    """Return a text of at most so many characters: its middle goes, both ends tell rows apart."""
    if len(text) <= length:
        return text
    head = length * 2 // 5
    return f"{text[:head].rstrip(' ,·')}…{text[len(text) - (length - head - 1) :].lstrip(' ,·')}"


def _values(figure: Figure, axis: str) -> list[float]:
    """Return everything that the axis must cover."""
    found: list[float] = []
    for series in figure.series:
        if series.kind == "stack" and axis == "y":
            continue
        found += [value for value in getattr(series, axis) if value is not None]
        if figure.value_axis == axis:
            found += [value for value in (*series.low, *series.high) if value is not None]
    if axis == "y":
        found += [top for _, tops in _stacks(figure) for top in tops]
    found += [rule.at for rule in figure.rules if rule.axis == axis]
    for band in figure.bands:
        if band.axis == axis:
            found += [band.low, band.high]
    return found


def _stacks(figure: Figure) -> Iterator[tuple[Series, list[float]]]:
    """Yield each stacked series with the upper edge of its area."""
    tops: list[float] = []
    for series in figure.series:
        if series.kind == "stack":
            values = [value or 0.0 for value in series.y]
            tops = (
                [below + value for below, value in zip(tops, values, strict=True)]
                if tops
                else values
            )
            yield series, tops


def _legend_rows(figure: Figure, form: Form) -> list[list[Series]]:
    """Return the legend's entries by line, wrapped to the drawing's width."""
    rows: list[list[Series]] = [[]]
    used = 0.0
    for series in figure.series:
        if not series.in_legend:
            continue
        width = 34 + text_width(series.name)
        if rows[-1] and used + width > form.width - 8:
            rows.append([])
            used = 0.0
        rows[-1].append(series)
        used += width
    return [row for row in rows if row]


def _name_lines(series: Series, form: Form) -> list[str]:
    """Return a legend's name in the lines that it takes in a drawing of this width."""
    return wrap(series.name, int((form.width - 44) / CHARACTER_PX)) or [""]


def _legend_lines(row: list[Series], form: Form) -> int:
    return max(len(_name_lines(series, form)) for series in row)


def _axis_scale(axis: Axis, values: list[float], wanted: int, start: float, end: float) -> Scale:
    low, high = domain(axis, values, wanted)
    return Scale(low, high, start, end, axis.scale == "log")


def _frame(figure: Figure, form: Form) -> _Frame:
    """Lay out the drawing: margins from the labels, height from the rows."""
    rows = sum(_legend_lines(row, form) for row in _legend_rows(figure, form))
    has_rows = figure.y.scale == "category"
    top = 8.0 + rows * LINE_PX + (0 if has_rows else LINE_PX)
    height = form.plot_height
    if has_rows:
        height = max(1, len(figure.y.categories)) * form.row_height
    y = _axis_scale(
        figure.y,
        _values(figure, "y"),
        form.y_ticks,
        *((top, top + height) if has_rows else (top + height, top)),
    )
    labels = [label for _, label in ticks(figure.y, y, form.y_ticks)]
    left = 10 + max((text_width(label) for label in labels), default=0)
    if has_rows:
        left = min(left, form.width * form.label_share) if form.label_share else 6.0
    right = form.width - 14.0
    x = _axis_scale(figure.x, _values(figure, "x"), form.x_ticks, left + 4, right - 4)
    return _Frame(form, left, right, top, top + height, x, y)


def _grid(figure: Figure, frame: _Frame) -> Iterator[str]:
    """Yield grid lines, tick labels and axis titles."""
    form = frame.form
    shown_until = -math.inf
    for value, label in ticks(figure.x, frame.x, form.x_ticks):
        if not frame.x.low <= value <= frame.x.high:
            continue
        at = frame.x(value)
        yield f'<path class="chart-grid" d="M{px(at)} {px(frame.top)}V{px(frame.bottom)}"/>'
        half = text_width(label) / 2
        if at - half > shown_until:
            shown_until = at + half + 6
            place = min(max(at, half), form.width - half)
            yield (
                f'<text class="chart-tick" x="{px(place)}" y="{px(frame.bottom + 16)}"'
                f' text-anchor="middle">{escape(label)}</text>'
            )
    yield from _rows_or_ticks(figure, frame)
    middle = (frame.left + frame.right) / 2
    yield (
        f'<text class="chart-title" x="{px(middle)}" y="{px(frame.bottom + 36)}"'
        f' text-anchor="middle">{escape(figure.x.title)}</text>'
    )
    if figure.y.scale != "category":
        yield (
            f'<text class="chart-title" x="2" y="{px(frame.top - 10)}">'
            f"{escape(figure.y.title)}</text>"
        )


def _rows_or_ticks(figure: Figure, frame: _Frame) -> Iterator[str]:
    """Yield the horizontal grid with its labels: beside the rows, or above them where narrow."""
    form = frame.form
    for value, label in ticks(figure.y, frame.y, form.y_ticks):
        if not frame.y.low <= value <= frame.y.high:
            continue
        at = frame.y(value)
        yield (f'<path class="chart-grid" d="M{px(frame.left)} {px(at)}H{px(frame.right)}"/>')
        if figure.y.scale == "category" and not form.label_share:
            shown = shortened(label, int(form.width / CHARACTER_PX))
            whole = "" if shown == label else f"<title>{escape(label)}</title>"
            yield (f'<text class="chart-row" x="0" y="{px(at - 11)}">{whole}{escape(shown)}</text>')
        else:
            room = int((frame.left - 8) / CHARACTER_PX)
            shown = shortened(label, max(2, room))
            kind = "chart-row" if figure.y.scale == "category" else "chart-tick"
            yield (
                f'<text class="{kind}" x="{px(frame.left - 8)}" y="{px(at + 4)}"'
                f' text-anchor="end">{escape(shown)}</text>'
            )


def _bands(figure: Figure, frame: _Frame) -> Iterator[str]:
    for band in figure.bands:
        scale = frame.x if band.axis == "x" else frame.y
        one, two = sorted((scale(band.low), scale(band.high)))
        box = (
            (one, frame.top, two - one, frame.bottom - frame.top)
            if band.axis == "x"
            else (frame.left, one, frame.right - frame.left, two - one)
        )
        x, y, width, height = (px(value) for value in box)
        yield (
            f'<rect class="chart-band" x="{x}" y="{y}" width="{width}" height="{height}">'
            f"<title>{escape(band.label)}</title></rect>"
        )
    for rule in figure.rules:
        scale = frame.x if rule.axis == "x" else frame.y
        at = px(scale(rule.at))
        path = (
            f"M{at} {px(frame.top)}V{px(frame.bottom)}"
            if rule.axis == "x"
            else f"M{px(frame.left)} {at}H{px(frame.right)}"
        )
        yield f'<path class="chart-rule" d="{path}"><title>{escape(rule.label)}</title></path>'


def _line(points: Sequence[tuple[float, float] | None]) -> str:
    """Return the path through the points; a point that is None interrupts it."""
    path, pen = "", "M"
    for point in points:
        if point is None:
            pen = "M"
            continue
        path += f"{pen}{px(point[0])} {px(point[1])}"
        pen = "L"
    return path


def _places(series: Series, frame: _Frame, shift: float = 0) -> list[tuple[float, float] | None]:
    return [
        None if y is None else (frame.x(x) + shift, frame.y(y))
        for x, y in zip(series.x, series.y, strict=True)
    ]


def _shift(figure: Figure, series: Series) -> float:
    """Return by how much a series of a sweep stands aside, so that intervals do not overlap."""
    if figure.x.scale != "log" or figure.value_axis != "y":
        return 0
    slots = sorted({other.slot for other in figure.series})
    return (slots.index(series.slot) - (len(slots) - 1) / 2) * ASIDE_PX


def _dashed(slot: int) -> str:
    array = DASH_ARRAYS[DASHES[slot % SLOTS]]
    return f' stroke-dasharray="{array}"' if array else ""


def _interval(
    figure: Figure, series: Series, frame: _Frame, index: int, place: tuple[float, float]
) -> str:
    """Return the interval bar of one point with its end caps, or nothing."""
    low = series.low[index] if series.low else None
    high = series.high[index] if series.high else None
    if low is None or high is None:
        return ""
    x, y = place
    if figure.value_axis == "x":
        one, two = px(frame.x(low)), px(frame.x(high))
        path = f"M{one} {px(y)}H{two}M{one} {px(y - 4)}v8M{two} {px(y - 4)}v8"
    else:
        one, two = px(frame.y(low)), px(frame.y(high))
        path = f"M{px(x)} {one}V{two}M{px(x - 4)} {one}h8M{px(x - 4)} {two}h8"
    return f'<path class="chart-interval" d="{path}"/>'


def _means(figure: Figure, series: Series, frame: _Frame) -> Iterator[str]:
    places = _places(series, frame, _shift(figure, series))
    if series.joined:
        yield f'<path class="chart-line" d="{_line(places)}"{_dashed(series.slot)}/>'
    shape = MARKERS[series.slot % SLOTS]
    for index, place in enumerate(places):
        if place is None:
            continue
        note = f"<title>{escape(series.notes[index])}</title>" if series.notes else ""
        mark = f'<path class="chart-mark" d="{marker_path(shape, *place, 5)}"/>'
        yield f"<g>{note}{_interval(figure, series, frame, index, place)}{mark}</g>"


def _dots(figure: Figure, series: Series, frame: _Frame) -> str:
    """Return single observations; on rows they are spread a little so that equal ones show."""
    is_on_rows = figure.y.scale == "category"
    path = ""
    for index, place in enumerate(_places(series, frame, _shift(figure, series))):
        if place is not None:
            spread = (index % 5 - 2) * 1.6 if is_on_rows else 0
            path += f"M{px(place[0])} {px(place[1] + spread)}h0"
    # A round-capped line of no length is the shortest spelling of a dot.
    return f'<path class="chart-dots" d="{path}"/>'


def _stack_areas(figure: Figure, frame: _Frame) -> Iterator[str]:
    below: list[float] = []
    for series, tops in _stacks(figure):
        below = below or [0.0] * len(tops)
        over = [(frame.x(x), frame.y(y)) for x, y in zip(series.x, tops, strict=True)]
        back = [(frame.x(x), frame.y(y)) for x, y in zip(series.x, below, strict=True)]
        yield (
            f'<g class="s{series.slot % SLOTS + 1}"><title>{escape(series.name)}</title>'
            f'<path class="chart-area" d="{_line([*over, *reversed(back)])}z"/>'
            f'<path class="chart-line" d="{_line(over)}"{_dashed(series.slot)}/></g>'
        )
        below = tops


def _marks(figure: Figure, frame: _Frame) -> Iterator[str]:
    yield from _stack_areas(figure, frame)
    order = {"line": 0, "dots": 1, "means": 2}
    flat = [series for series in figure.series if series.kind != "stack"]
    for series in sorted(flat, key=lambda series: order[series.kind]):
        if series.kind == "line":
            line = _line(_places(series, frame))
            drawn = f'<path class="chart-line" d="{line}"{_dashed(series.slot)}/>'
        elif series.kind == "dots":
            drawn = _dots(figure, series, frame)
        else:
            drawn = "".join(_means(figure, series, frame))
        yield f'<g class="s{series.slot % SLOTS + 1}">{drawn}</g>'


def _legend(figure: Figure, form: Form) -> Iterator[str]:
    y = 12.0 - LINE_PX
    below = 1
    for row in _legend_rows(figure, form):
        x, y = 2.0, y + below * LINE_PX
        below = _legend_lines(row, form)
        for series in row:
            key = ""
            if series.kind in ("line", "stack") or series.joined:
                key += (
                    f'<path class="chart-line" d="M{px(x)} {px(y - 4)}h22"{_dashed(series.slot)}/>'
                )
            if series.kind == "means":
                shape = marker_path(MARKERS[series.slot % SLOTS], x + 11, y - 4, 5)
                key += f'<path class="chart-mark" d="{shape}"/>'
            if series.kind == "dots":
                key += f'<path class="chart-dots" d="M{px(x + 11)} {px(y - 4)}h0"/>'
            names = "".join(
                f'<text class="chart-key" x="{px(x + 27)}" y="{px(y + line * LINE_PX)}">'
                f"{escape(name)}</text>"
                for line, name in enumerate(_name_lines(series, form))
            )
            yield f'<g class="s{series.slot % SLOTS + 1}">{key}{names}</g>'
            x += 34 + text_width(series.name)


def render(figure: Figure, form: Form = WIDE) -> Markup:
    """Return one drawing of the figure as an `svg` element."""
    frame = _frame(figure, form)
    height = frame.bottom + 44
    ids = f"{figure.key}-{form.name}"
    body = "".join(
        [
            *_bands(figure, frame),
            *_grid(figure, frame),
            *_marks(figure, frame),
            *_legend(figure, form),
        ]
    )
    return Markup(  # noqa: S704  # every text in it went through escape()
        f'<svg class="chart-svg chart-svg--{form.name}" viewBox="0 0 {form.width} {px(height)}"'
        f' role="img" aria-labelledby="{ids}-title {ids}-desc">'
        f'<title id="{ids}-title">{escape(figure.title)}</title>'
        f'<desc id="{ids}-desc">{escape(figure.description)}</desc>{body}</svg>'
    )


def drawings(figure: Figure) -> Markup:
    """Return the narrow drawing, and with a wide figure the wide one before it."""
    narrow = render(figure, NARROW)
    return render(figure, WIDE) + narrow if figure.is_wide else narrow


def document(figure: Figure) -> str:
    """Return the wide drawing as a file of its own, in light colours."""
    drawn = str(render(figure, WIDE))
    opening, rest = drawn[: drawn.index(">") + 1], drawn[drawn.index(">") + 1 :]
    opening = opening.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return f"{opening}<style>{document_style()}</style>{rest}\n"
