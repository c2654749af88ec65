"""The site in a real browser: both colour schemes, phone and desk, with and without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from store_support import DemoIds
from web_support import BROWSER_FLAGS, PAGES, browser_path, page_addresses, served

from zcdb.store.session import Database

pytest_plugins = ["store_fixtures"]

pytestmark = pytest.mark.browser

TIMEOUT_MS = 120_000
VARIANTS = [(scheme, width) for scheme in ("light", "dark") for width in (390, 1280)]
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
IS_WIDER_THAN_SCREEN = "() => document.documentElement.scrollWidth > window.innerWidth"


@dataclass
class Visit:
    """A browser page with what went wrong on it."""

    page: object
    origin: str
    messages: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def open(self, address: str) -> None:
        """Go to an address of the site, with empty lists."""
        self.messages.clear()
        self.strangers.clear()
        self.page.goto(self.origin + address)

    def note_request(self, request: object) -> None:
        """Keep the addresses that are not this site's."""
        if not request.url.startswith((self.origin, "data:", "blob:")):
            self.strangers.append(request.url)


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    from playwright.sync_api import sync_playwright

    path = browser_path()
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=path, args=list(BROWSER_FLAGS), timeout=TIMEOUT_MS
        )
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def origin(demo: tuple[Database, DemoIds]) -> Iterator[str]:
    with served(demo[0]) as address:
        yield address


def visit(browser: object, origin: str, **options: object) -> Visit:
    """Return a page in a new context that notes messages and requests."""
    context = browser.new_context(**options)
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    visited = Visit(page, origin)
    page.on("console", lambda message: visited.messages.append(message.text))
    page.on("pageerror", lambda error: visited.messages.append(str(error)))
    page.on("request", visited.note_request)
    return visited


@pytest.fixture(scope="module", params=VARIANTS, ids=lambda variant: f"{variant[0]}-{variant[1]}")
def variant(request, browser, origin) -> Iterator[Visit]:
    """A page in each colour scheme and width in turn."""
    scheme, width = request.param
    visited = visit(browser, origin, color_scheme=scheme, viewport={"width": width, "height": 844})
    yield visited
    visited.page.context.close()


def violations(page: object) -> list[str]:
    """Return what axe finds against WCAG 2.2 AA."""
    from axe_playwright_python.sync_playwright import Axe

    options = {"runOnly": {"type": "tag", "values": list(RULES)}, "resultTypes": ["violations"]}
    found = Axe().run(page, options=options).response["violations"]
    return [
        f"{entry['id']}: {node['html'][:160]} {node['failureSummary']}"
        for entry in found
        for node in entry["nodes"]
    ]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_is_accessible_and_stays_at_home(name, variant, demo):
    variant.open(page_addresses(demo[1])[name])

    assert variant.page.locator("h1").is_visible()
    assert not variant.page.evaluate(IS_WIDER_THAN_SCREEN)
    assert violations(variant.page) == []
    assert variant.messages == []
    assert variant.strangers == []


def test_with_everything_unfolded_a_page_still_fits_and_is_accessible(variant, demo):
    variant.open(page_addresses(demo[1])["run"])

    variant.page.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")

    assert not variant.page.evaluate(IS_WIDER_THAN_SCREEN)
    assert violations(variant.page) == []


def test_the_colour_scheme_is_the_readers(variant):
    variant.open("/")

    background = variant.page.evaluate("() => getComputedStyle(document.body).backgroundColor")

    is_dark = variant.page.evaluate("() => matchMedia('(prefers-color-scheme: dark)').matches")
    assert background == ("rgb(20, 24, 28)" if is_dark else "rgb(251, 250, 247)")


def test_the_button_draws_the_chart_with_plotly_from_this_server(variant, demo):
    variant.open(page_addresses(demo[1])["run"])
    chart = variant.page.locator("figure.chart").first
    button = chart.locator("[data-figure-url]")

    button.click()
    chart.locator(".chart__plotly[data-state=drawn]").wait_for()

    assert chart.locator(".main-svg").first.is_visible()
    assert chart.locator(".errorbars path.xerror").count() > 0
    assert not chart.locator(".chart__drawing").is_visible()
    assert chart.locator("[data-title*=Share]").count() == 0
    assert not variant.page.evaluate(IS_WIDER_THAN_SCREEN)
    assert (variant.messages, variant.strangers) == ([], [])
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert chart.locator(".chart__drawing").is_visible()


@pytest.fixture(scope="module")
def scriptless(browser, origin) -> Iterator[Visit]:
    """A phone with scripts off."""
    visited = visit(
        browser, origin, java_script_enabled=False, viewport={"width": 390, "height": 844}
    )
    yield visited
    visited.page.context.close()


@pytest.mark.parametrize("name", ["experiment", "run", "case", "trial"])
def test_without_scripts_charts_and_their_numbers_are_there(name, scriptless, demo):
    scriptless.open(page_addresses(demo[1])[name])
    charts = scriptless.page.locator("figure.chart")

    assert charts.count() > 0
    for chart in charts.all():
        assert chart.locator("svg.chart-svg").first.is_visible()
        assert not chart.locator("[data-figure-url]").is_visible()
        chart.locator("summary").click()
        assert chart.locator("table").is_visible()


def test_a_wide_table_scrolls_in_its_own_box(scriptless, demo):
    scriptless.open(page_addresses(demo[1])["run"])

    box = scriptless.page.locator("[aria-label='Throughput and CPU cost of every case']")

    assert box.bounding_box()["width"] <= 390
    assert box.locator("table").bounding_box()["width"] > 390


@pytest.fixture(scope="module")
def desk(browser, origin) -> Iterator[Visit]:
    """A desk's screen."""
    visited = visit(browser, origin, viewport={"width": 1280, "height": 844})
    yield visited
    visited.page.context.close()


def test_the_keyboard_reaches_the_content_first_and_then_everything(desk, demo):
    desk.open(page_addresses(demo[1])["experiment"])
    keyboard = desk.page.keyboard

    keyboard.press("Tab")
    assert desk.page.locator(":focus").inner_text() == "Skip to the content"
    assert desk.page.locator(":focus").bounding_box()["x"] >= 0
    keyboard.press("Enter")
    keyboard.press("Tab")
    assert desk.page.locator("main :focus").count() == 1
    desk.page.locator("figure.chart button").first.focus()
    keyboard.press("Enter")
    desk.page.locator(".chart__plotly[data-state=drawn]").first.wait_for()


def test_a_chart_that_cannot_be_loaded_says_so(desk, demo):
    desk.open(page_addresses(demo[1])["case"])
    desk.page.route("**/*.plotly.json", lambda route: route.abort())

    chart = desk.page.locator("figure.chart").first
    chart.locator("[data-figure-url]").click()
    failed = chart.locator(".chart__plotly[data-state=failed]")
    failed.wait_for()

    assert failed.inner_text().startswith("The interactive chart did not work:")
    assert chart.locator(".chart__drawing").is_visible()
    desk.page.unroute("**/*.plotly.json")


@pytest.mark.parametrize("address", ["/nowhere", "/trials/xyz"])
def test_an_error_page_is_accessible_too(address, desk):
    desk.open(address)

    assert violations(desk.page) == []
