"""Charts: scales, the SVG drawing, the Plotly twin, and the descriptions made from results."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import plotly.graph_objects
import pytest

from zcdb.records import SampleSeries
from zcdb.webapp.charts import trial as trial_charts
from zcdb.webapp.charts.case import Observation, strip
from zcdb.webapp.charts.comparison import CaseValues, RatioRow, comparison, ratios
from zcdb.webapp.charts.figure import MARKERS, SLOTS, Axis, Band, Figure, Series, numbers
from zcdb.webapp.charts.markers import marker_path
from zcdb.webapp.charts.plotly_json import plotly_figure
from zcdb.webapp.charts.scales import Scale, domain, round_ticks, tick_text, ticks
from zcdb.webapp.charts.style import STYLESHEET, palette
from zcdb.webapp.charts.svg import NARROW, WIDE, document, drawings, render, shortened

SVG = "{http://www.w3.org/2000/svg}"


def make_figure(**changes: object) -> Figure:
    plain = {
        "key": "cost",
        "title": "Cost",
        "description": "What it costs.",
        "x": Axis("Size (B)"),
        "y": Axis("Service demand (us/KB)", includes_zero=True),
        "series": (
            Series("write", 0, "means", (1.0, 2.0), (3.0, 4.0), (2.5, 3.5), (3.5, 4.5)),
            Series("write, each", 0, "dots", (1.0, 1.0), (2.9, 3.1), in_legend=False),
        ),
    }
    return Figure(**(plain | changes))  # type: ignore[arg-type]


def parsed(svg: str) -> ElementTree.Element:
    with_name = str(svg).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return ElementTree.fromstring(with_name)  # noqa: S314  # our own text


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in parsed(svg).iter(f"{SVG}text")]


def sweep_cases() -> list[CaseValues]:
    return [
        CaseValues({"api": api, "message_size": size}, (cost, cost * 1.1), cost * 1.05, cost, cost)
        for api, factor in (("write", 2.0), ("sendfile", 1.0))
        for size, cost in ((1024, 4.0 * factor), (4096, 2.0 * factor), (16384, 1.0 * factor))
    ]


@pytest.mark.parametrize(
    ("low", "high", "wanted", "expected"),
    [
        (0, 10, 5, [0, 2, 4, 6, 8, 10]),
        (0, 1, 4, [0, 0.25, 0.5, 0.75, 1.0]),
        (-5, 5, 2, [-5, 0, 5]),
    ],
)
def test_ticks_are_round_numbers(low, high, wanted, expected):
    assert round_ticks(low, high, wanted) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "step", "expected"),
    [
        (0.25, 0.25, "0.25"),
        (2.0, 1.0, "2"),
        (-0.0, 0.5, "0.0"),
        (7.5, 2.5, "7.5"),
        (1e6, 5e5, "1000000"),
    ],
)
def test_a_tick_has_no_more_decimals_than_its_step_needs(value, step, expected):
    assert tick_text(value, step) == expected


def test_a_linear_axis_ends_at_round_numbers_and_reaches_zero_if_told():
    assert domain(Axis("x"), [3.1, 9.7], 5) == (2, 10)
    assert domain(Axis("x", includes_zero=True), [3.1, 9.7], 5) == (0, 10)


def test_an_axis_with_a_single_value_has_room_on_both_sides():
    low, high = domain(Axis("x"), [5.0], 4)

    assert low < 5 < high


def test_a_logarithmic_scale_puts_the_geometric_mean_in_the_middle():
    scale = Scale(1, 100, 0, 200, is_log=True)

    assert scale(10) == pytest.approx(100)


def test_a_category_axis_has_a_tick_for_every_category():
    axis = Axis("", "category", categories=("write", "sendfile"))

    assert ticks(axis, Scale(*domain(axis, [], 5), 0, 100), 5) == [(0, "write"), (1, "sendfile")]


def test_every_slot_has_a_shape_of_its_own():
    assert len({marker_path(shape, 0, 0, 5) for shape in MARKERS}) == SLOTS


def test_a_drawing_has_title_description_and_axes_with_units():
    root = parsed(render(make_figure()))

    labelled = root.attrib["aria-labelledby"].split()
    by_id = {element.attrib.get("id"): element.text for element in root.iter()}
    assert [by_id[name] for name in labelled] == ["Cost", "What it costs."]
    assert root.attrib["role"] == "img"
    assert {"Size (B)", "Service demand (us/KB)", "write"} <= set(texts(render(make_figure())))


def test_a_drawing_shows_every_point_and_every_interval():
    root = parsed(render(make_figure()))

    classes = [element.attrib.get("class") for element in root.iter(f"{SVG}path")]
    assert classes.count("chart-interval") == 2
    assert classes.count("chart-mark") == 2 + 1, "two points and the key in the legend"
    dots = next(e for e in root.iter(f"{SVG}path") if e.attrib.get("class") == "chart-dots")
    assert dots.attrib["d"].count("h0") == 2


def test_marks_lie_where_their_values_say():
    figure = make_figure(
        x=Axis("x", includes_zero=True), series=(Series("s", 0, "line", (0.0, 10.0), (0.0, 10.0)),)
    )

    line = next(
        element.attrib["d"]
        for element in parsed(render(figure)).iter(f"{SVG}path")
        if element.attrib.get("class") == "chart-line" and "L" in element.attrib["d"]
    )

    start, end = (tuple(map(float, p.split())) for p in line.removeprefix("M").split("L"))
    assert start[0] < end[0]
    assert start[1] > end[1], "a larger value is higher up"


def test_a_missing_value_interrupts_a_line():
    figure = make_figure(series=(Series("s", 0, "line", (1.0, 2.0, 3.0), (1.0, None, 2.0)),))

    lines = [
        element.attrib["d"]
        for element in parsed(render(figure)).iter(f"{SVG}path")
        if element.attrib.get("class") == "chart-line"
    ]

    assert any(line.count("M") == 2 and "L" not in line for line in lines)


def test_names_from_outside_are_escaped():
    figure = make_figure(
        title="<script>alert(1)</script>",
        series=(Series('"><b>', 0, "means", (1.0,), (1.0,), notes=("</title><script>",)),),
    )

    svg = drawings(figure)

    assert "<script" not in svg
    assert '"><b>' in texts(svg)


def test_only_a_wide_figure_is_drawn_twice_and_ids_stay_unique():
    assert drawings(make_figure()).count("<svg") == 1
    both = drawings(make_figure(is_wide=True))
    assert both.count("<svg") == 2
    assert 'id="cost-wide-title"' in both
    assert 'id="cost-narrow-title"' in both


@pytest.mark.parametrize("form", [WIDE, NARROW])
def test_no_text_starts_outside_the_drawing(form):
    figure = make_figure(
        y=Axis("", "category", categories=("io_uring_send_zc · 16384 KiB · streams 128", "b")),
        value_axis="x",
        series=(Series("s", 0, "means", (0.123456,), (0.0,)),),
    )

    for element in parsed(render(figure, form)).iter(f"{SVG}text"):
        assert 0 <= float(element.attrib["x"]) <= form.width


def test_names_of_rows_stay_inside_the_drawing_and_keep_both_ends():
    name = "send · streams 200 · request size 13.7 KiB · response size 13.7 KiB · no-cache copy off"

    short = shortened(name, 58)

    assert len(short) <= 58
    assert short.startswith("send · streams 200")
    assert short.endswith("no-cache copy off")
    assert "…" in short
    assert shortened(name, len(name)) == name


def test_a_shortened_name_is_whole_where_it_is_pointed_at():
    name = "a name that is " + "very " * 20 + "long"
    figure = make_figure(
        y=Axis("", "category", (name,)), series=(Series("one", 0, "means", (1.0,), (0.0,)),)
    )

    drawn = parsed(render(figure, NARROW))

    (row,) = [text for text in drawn.iter() if text.get("class") == "chart-row"]
    title = next(iter(row))
    assert title.text == name
    assert len(title.tail or "") < len(name)


def test_a_stack_stands_on_the_one_below():
    figure = make_figure(
        series=(
            Series("a", 0, "stack", (0.0, 1.0), (1.0, 1.0)),
            Series("b", 1, "stack", (0.0, 1.0), (2.0, 2.0)),
        )
    )

    areas = [
        element.attrib["d"]
        for element in parsed(render(figure)).iter(f"{SVG}path")
        if element.attrib.get("class") == "chart-area"
    ]

    lower_top = areas[0].removeprefix("M").split("L")[0]
    upper_bottom = areas[1].removeprefix("M").removesuffix("z").split("L")[-1]
    assert lower_top == upper_bottom


def test_plotly_gets_the_same_points_and_intervals():
    trace = plotly_figure(make_figure())["data"][0]

    assert (trace["x"], trace["y"]) == ([1.0, 2.0], [3.0, 4.0])
    assert trace["error_y"]["array"] == [0.5, 0.5]
    assert trace["error_y"]["arrayminus"] == [0.5, 0.5]


@pytest.mark.parametrize(
    "figure",
    [
        make_figure(bands=(Band("x", 1, 2, "discarded"),)),
        comparison("c", "service_demand_sender", "soak", sweep_cases()),
        comparison("c", "service_demand_sender", "soak", sweep_cases()[:2]),
        ratios("r", "throughput", [RatioRow("a", "better", 1.2, 1.1, 1.3)], 0.02),
        strip("throughput", "", [Observation(2e9, "run", "note")], None, None, None),
    ],
)
def test_plotly_accepts_every_kind_of_chart_and_none_needs_webgl(figure):
    described = plotly_figure(figure)

    assert plotly.graph_objects.Figure(described).to_dict()["data"]
    assert {trace["type"] for trace in described["data"]} == {"scatter"}
    assert described["layout"]["xaxis"]["title"]["text"] == figure.x.title


def test_three_sizes_become_a_logarithmic_axis_with_a_line_for_each_api():
    figure = comparison("c", "service_demand_sender", "soak", sweep_cases())

    means = [series for series in figure.series if series.kind == "means"]
    assert (figure.x.scale, figure.x.tick_labels) == ("log", ("1 KiB", "4 KiB", "16 KiB"))
    assert [series.name for series in means] == ["write", "sendfile"]
    assert means[1].y == pytest.approx((4.2, 2.1, 1.05))
    assert figure.y.title == "Service demand, sender by soak (us/KB)"


def test_two_sizes_become_rows_that_share_an_api_colour():
    cases = [case for case in sweep_cases() if case.factors["message_size"] != 4096]

    figure = comparison("c", "service_demand_sender", "soak", cases)

    assert figure.y.categories[0] == "write · 1 KiB"
    assert len(figure.y.categories) == 4
    assert [s.slot for s in figure.series if s.kind == "means"] == [0, 1]


def test_rates_are_drawn_in_the_prefix_of_the_largest():
    cases = [
        CaseValues({"api": "write"}, (2.5e9, 2.5e9), 2.5e9, None, None),
        CaseValues({"api": "send"}, (5e8,), 5e8, None, None),
    ]

    figure = comparison("c", "throughput", "", cases)

    assert figure.x.title == "Throughput (Gbit/s)"
    assert [series.x for series in figure.series if series.kind == "means"] == [(2.5,), (0.5,)]


def test_the_chart_of_changes_shades_what_does_not_matter_and_marks_no_difference():
    rows = [
        RatioRow("sendfile", "better", 0.5, 0.45, 0.56),
        RatioRow("send", "equivalent", 1, 0.99, 1.01),
    ]

    figure = ratios("r", "service_demand_sender", rows, 0.02)

    assert (figure.bands[0].low, figure.bands[0].high) == (0.98, 1.02)
    assert figure.rules[0].at == 1.0
    assert dict(zip(figure.x.ticks, figure.x.tick_labels, strict=True))[0.5] == "−50 %"
    assert "better is left" in figure.description


def test_a_very_uncertain_ratio_still_gets_few_ticks_with_no_difference_among_them():
    figure = ratios("r", "throughput", [RatioRow("a", "undecided", 1.2, 0.02, 60.0)], 0.02)

    assert 1.0 in figure.x.ticks
    assert len(figure.x.ticks) <= 9


def test_the_table_twin_has_a_row_for_every_point_with_its_category():
    figure = make_figure(
        y=Axis("", "category", categories=("write", "sendfile")),
        series=(Series("s", 0, "means", (3.0, 4.0), (0.0, 1.0), (2.0, 3.0), (4.0, 5.0)),),
    )

    table = numbers(figure)

    assert table.rows == (("s", 3.0, "write", 2.0, 4.0), ("s", 4.0, "sendfile", 3.0, 5.0))


def make_samples(count: int = 4, **columns: list[int | float | None]) -> SampleSeries:
    plain: dict[str, list[int | float | None]] = {
        "start_ns": [place * 100_000_000 for place in range(count)],
        "end_ns": [(place + 1) * 100_000_000 for place in range(count)],
        "kept": [0, *[1] * (count - 1)],
        "payload_bytes": [125_000_000] * count,
    }
    return SampleSeries(plain | columns)


def test_throughput_over_time_is_payload_per_second_with_the_ramp_shaded():
    figure = trial_charts.throughput(make_samples())

    assert figure.series[0].y == pytest.approx((10.0,) * 4)
    assert figure.series[0].x == pytest.approx((0.05, 0.15, 0.25, 0.35))
    assert figure.y.title == "Throughput (Gbit/s)"
    assert [(band.low, band.high) for band in figure.bands] == [(0, 0.1)]


def test_cpu_over_time_shows_each_end_by_soak_and_by_rusage():
    samples = make_samples(
        sender_soak_ns=[50_000_000] * 4,
        sender_rusage_ns=[40_000_000, None, 40_000_000, 40_000_000],
        receiver_soak_ns=[100_000_000] * 4,
    )

    figure = trial_charts.cpu(samples)

    assert figure is not None
    by_name = {series.name: series.y for series in figure.series}
    assert by_name["sender by soak"] == pytest.approx((0.5,) * 4)
    assert by_name["sender by rusage"] == (0.4, None, 0.4, 0.4)


def test_charts_that_nothing_was_measured_for_are_left_out():
    assert trial_charts.figures(None, {}) == ()
    assert [f.key for f in trial_charts.figures(make_samples(), {})] == ["throughput"]
    quiet = make_samples(host_steal_ns=[0] * 4, host_foreign_ns=[0] * 4)
    assert trial_charts.disturbance(quiet) is None


def test_each_cpu_is_a_row_with_its_busy_share_by_method():
    cpus = [
        {"cpu": 0, "end": "sender", "soak_share": 0.5, "soak_work_share": 0.6, "procstat_ns": 400},
        {"cpu": 1, "end": None, "soak_share": None, "soak_work_share": None, "procstat_ns": 100},
    ]

    figure = trial_charts.per_cpu({"hosts": {"host": {"window_ns": 1000, "cpus": cpus}}})

    assert figure is not None
    assert figure.y.categories == ("CPU 0 (sender)", "CPU 1")
    assert [(s.name, s.x, s.y) for s in figure.series] == [
        ("soak", (0.5,), (0.0,)),
        ("soak_work", (0.6,), (0.0,)),
        ("procstat", (0.4, 0.1), (0.0, 1.0)),
    ]


def test_a_long_series_is_thinned():
    samples = make_samples(5000)

    assert len(trial_charts.throughput(samples).series[0].x) <= trial_charts.MOST_POINTS


def test_a_drawing_that_is_a_file_has_the_stylesheets_light_colours_as_plain_values():
    drawn = document(make_figure())

    style = ElementTree.fromstring(drawn).findtext(f"{SVG}style")  # noqa: S314  # our own text
    assert style is not None
    assert "var(" not in style
    assert "svg text{fill: #1b2126;}" in style
    assert ".s2 .chart-mark{fill: #b8500a; stroke: #ffffff; stroke-width: 1;}" in style
    for name in re.findall(r'class="(chart-[a-z]+)', drawn):
        assert f".{name}" in style or name in ("chart-svg", "chart-key"), name


def test_every_slot_has_a_colour_of_its_own_in_both_schemes():
    schemes = STYLESHEET.read_text(encoding="utf-8").partition("prefers-color-scheme: dark")

    for text in (schemes[0], schemes[2]):
        colours = re.findall(r"--series-\d: (#[0-9a-f]{6});", text)
        assert len(set(colours)) == len(colours) == SLOTS
    assert len(palette()) == SLOTS


def test_a_legend_too_long_for_a_phone_goes_on_in_a_second_line_and_moves_the_plot_down():
    name = "msg_zerocopy, kernel 6.12.0, CPU Example CPU 3000, NIC loopback, 2 streams"
    short, long = (
        render(make_figure(series=(Series(label, 0, "means", (1.0,), (2.0,)),)), NARROW)
        for label in ("write", name)
    )

    keys = [one.text for one in parsed(long).iter(f"{SVG}text") if one.get("class") == "chart-key"]
    heights = [float(parsed(one).get("viewBox").split()[3]) for one in (short, long)]
    assert " ".join(keys) == name
    assert len(keys) == 2
    assert heights[1] == heights[0] + 18
