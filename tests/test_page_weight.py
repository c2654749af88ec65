"""What a page holds of its charts, and what it only links to."""

from __future__ import annotations

from zcdb.webapp import pages
from zcdb.webapp.charts.figure import Axis, Figure, Series
from zcdb.webapp.pages import Page


def _figure(key: str, points: int) -> Figure:
    places = tuple(float(place) for place in range(1, points + 1))
    return Figure(
        key=key,
        title=key,
        description="",
        x=Axis("x"),
        y=Axis("y"),
        series=(Series("one", 0, "means", places, places),),
    )


def _page(*points: int) -> Page:
    figures = tuple(_figure(f"chart-{place}", count) for place, count in enumerate(points))
    return Page("run.html", "Run", "", "/runs/1", None, figures)


def test_a_page_holds_its_charts_while_they_are_light():
    page = _page(40, 40, 40, 40)

    assert page.drawn == page.figures
    assert page.listed == ()


def test_what_is_too_much_is_listed_and_nothing_is_left_out():
    page = _page(100, 150, 100, 10)

    assert [figure.key for figure in page.drawn] == ["chart-0", "chart-1"]
    assert page.drawn + page.listed == page.figures


def test_the_first_charts_are_drawn_however_heavy_they_are():
    page = _page(900, 900, 900)

    assert len(page.drawn) == pages.CHARTS_DRAWN


def test_numbers_of_many_rows_are_left_to_their_csv():
    page = _page(pages.NUMBERS_SHOWN, pages.NUMBERS_SHOWN + 1)

    assert len(page.numbers(page.figures[0]).rows) == pages.NUMBERS_SHOWN
    assert page.numbers(page.figures[1]) is None
