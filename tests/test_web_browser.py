"""Every page of the site in a real browser.

Both colour schemes, phone and desk, with and without scripts, by keyboard alone and on
paper.  The pages come from `every_page`, which is held against the application.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from every_page import Databases, databases, endpoint_of, every_page, page_endpoints
from web_support import BROWSER_FLAGS, browser_path, served

from zcdb.webapp import create_app

TIMEOUT_MS = 120_000
HEIGHT_PX = 844
PHONE_PX, DESK_PX = 390, 1280
VARIANTS = [(scheme, width) for scheme in ("light", "dark") for width in (PHONE_PX, DESK_PX)]
AXE_VARIANTS = [("light", DESK_PX), ("dark", PHONE_PX)]
"""Contrast depends on the scheme and target sizes on the width; each is in one of the two."""

SHARES = 8
"""Tests that the pages are shared out to, so that none takes too long."""

RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
REFUSED = "Failed to load resource: the server responded with a status of 40"
"""What the browser's console says of an error page itself."""

IS_WIDER_THAN_SCREEN = "() => document.documentElement.scrollWidth > window.innerWidth"
UNFOLD = "all => all.forEach(one => one.open = true)"

NOTE_FOCUS = """() => {
  const controls = 'a[href], button, input, select, textarea, summary, [tabindex="0"]';
  const isShown = (one) => one.checkVisibility({ visibilityProperty: true });
  const canBeReached = (one) => !one.disabled && one.type !== 'hidden' && isShown(one);
  window.reachable = [...document.querySelectorAll(controls)].filter(canBeReached);
  window.reached = [];
  window.unmarked = [];
  document.addEventListener('focusin', ({ target }) => {
    window.reached.push(window.reachable.indexOf(target));
    const style = getComputedStyle(target);
    const box = target.getBoundingClientRect();
    const isMarked = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
    const isSeen = box.right > 0 && box.bottom > 0 && box.top < innerHeight;
    if (!isMarked || !isSeen) window.unmarked.push(target.outerHTML.slice(0, 160));
  });
  return window.reachable.length;
}"""
"""Lists what the Tab key must reach, in the page's order, and notes what it does reach."""

TEXT_OF_ALL = """() => {
  for (const one of document.querySelectorAll('details')) one.open = true;
  for (const one of document.querySelectorAll('main button[data-figure-url], .link-button'))
    one.remove();
  return document.querySelector('main').innerText;
}"""


@dataclass
class Visit:
    """A browser page with what went wrong on it."""

    page: Any
    origins: dict[str, str]
    messages: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def open(self, place: tuple[str, str]) -> None:
        """Go to an address of the site over a database, with empty lists."""
        database, address = place
        self.messages.clear()
        self.strangers.clear()
        self.page.goto(self.origins[database] + address)

    def note_request(self, request: Any) -> None:
        """Keep the addresses that are not this site's."""
        if not request.url.startswith((*self.origins.values(), "data:", "blob:")):
            self.strangers.append(request.url)

    def note_message(self, message: Any) -> None:
        """Keep what the console says, but for the status of an error page."""
        if not message.text.startswith(REFUSED):
            self.messages.append(message.text)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    with databases(tmp_path_factory.mktemp("every")) as every:
        yield every


@pytest.fixture(scope="module")
def pages(made: Databases) -> dict[str, tuple[str, str]]:
    return every_page(made)


@pytest.fixture(params=range(SHARES))
def share(request: Any, pages: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Each of the shares of all pages in turn."""
    return dict(list(pages.items())[request.param :: SHARES])


@pytest.fixture(scope="module")
def origins(made: Databases) -> Iterator[dict[str, str]]:
    with served(made.record) as record, served(made.site) as site, served(made.empty) as empty:
        yield {"record": record, "site": site, "empty": empty}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    path = browser_path()
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=path, args=list(BROWSER_FLAGS), timeout=TIMEOUT_MS
        )
        yield launched
        launched.close()


def visit(browser: Any, origins: dict[str, str], width: int = DESK_PX, **options: Any) -> Visit:
    """Return a page in a new context that notes messages and requests."""
    context = browser.new_context(viewport={"width": width, "height": HEIGHT_PX}, **options)
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    visited = Visit(page, origins)
    page.on("console", visited.note_message)
    page.on("pageerror", lambda error: visited.messages.append(str(error)))
    page.on("request", visited.note_request)
    return visited


@pytest.fixture(scope="module", params=VARIANTS, ids=lambda variant: f"{variant[0]}-{variant[1]}")
def variant(request: Any, browser: Any, origins: dict[str, str]) -> Iterator[Visit]:
    """A page in each colour scheme and width in turn."""
    scheme, width = request.param
    visited = visit(browser, origins, width, color_scheme=scheme)
    yield visited
    visited.page.context.close()


@pytest.fixture(
    scope="module", params=AXE_VARIANTS, ids=lambda variant: f"{variant[0]}-{variant[1]}"
)
def examined(request: Any, browser: Any, origins: dict[str, str]) -> Iterator[Visit]:
    """A page in the two variants that axe looks at."""
    scheme, width = request.param
    visited = visit(browser, origins, width, color_scheme=scheme)
    yield visited
    visited.page.context.close()


@pytest.fixture(scope="module")
def desk(browser: Any, origins: dict[str, str]) -> Iterator[Visit]:
    """A desk's screen."""
    visited = visit(browser, origins)
    yield visited
    visited.page.context.close()


@pytest.fixture(scope="module")
def scriptless(browser: Any, origins: dict[str, str]) -> Iterator[Visit]:
    """A phone with scripts off."""
    visited = visit(browser, origins, PHONE_PX, java_script_enabled=False)
    yield visited
    visited.page.context.close()


def violations(page: Any) -> list[str]:
    """Return what axe finds against WCAG 2.2 AA."""
    from axe_playwright_python.sync_playwright import Axe

    options = {"runOnly": {"type": "tag", "values": list(RULES)}, "resultTypes": ["violations"]}
    found = Axe().run(page, options=options).response["violations"]
    return [
        f"{entry['id']}: {node['html'][:160]} {node['failureSummary']}"
        for entry in found
        for node in entry["nodes"]
    ]


# -- every page -----------------------------------------------------------------------------------
# A test takes a share of them: which pages there are is known when the databases are made.


def test_every_kind_of_page_is_looked_at(made, pages):
    app = create_app({"DATABASE": made.record})

    looked_at = {endpoint_of(app, address) for _, address in pages.values()}

    assert page_endpoints(app) - looked_at == set()


@pytest.mark.browser
def test_every_page_fits_folded_and_unfolded_and_stays_at_home(variant, share):
    problems = []

    for label, place in share.items():
        variant.open(place)
        page = variant.page
        found = {
            "no heading": not page.locator("h1").is_visible(),
            "wider than the screen": page.evaluate(IS_WIDER_THAN_SCREEN),
        }
        page.locator("details").evaluate_all(UNFOLD)
        found["wider when unfolded"] = page.evaluate(IS_WIDER_THAN_SCREEN)
        found |= dict.fromkeys((*variant.messages, *variant.strangers), True)
        problems += [f"{label}: {problem}" for problem, is_so in found.items() if is_so]

    assert problems == []


@pytest.mark.browser
def test_axe_finds_nothing_on_any_page_with_everything_unfolded(examined, share):
    problems = []

    for label, place in share.items():
        examined.open(place)
        examined.page.locator("details").evaluate_all(UNFOLD)
        problems += [f"{label}: {problem}" for problem in violations(examined.page)]

    assert problems == []


@pytest.mark.browser
def test_the_keyboard_reaches_every_control_in_order_and_shows_where_it_is(desk, share):
    problems = []

    for label, place in share.items():
        desk.open(place)
        page = desk.page
        count = page.evaluate(NOTE_FOCUS)
        for _ in range(count):
            page.keyboard.press("Tab")
        if page.evaluate("() => window.reached") != list(range(count)):
            problems.append(f"{label}: {page.evaluate('() => window.reached')} of {count}")
        problems += [f"{label}: {one}" for one in page.evaluate("() => window.unmarked")]

    assert problems == []


@pytest.mark.browser
def test_without_scripts_every_page_says_the_same(scriptless, browser, origins, share):
    scripted = visit(browser, origins, PHONE_PX)
    problems = []

    for label, place in share.items():
        scriptless.open(place)
        scripted.open(place)
        # Scripts of the page are off; what the test asks still works.
        if scriptless.page.evaluate(TEXT_OF_ALL) != scripted.page.evaluate(TEXT_OF_ALL):
            problems.append(label)
        if scriptless.page.locator("button[data-figure-url]:visible").count():
            problems.append(f"{label}: a button that does nothing")

    scripted.page.context.close()
    assert problems == []


@pytest.mark.browser
def test_on_paper_every_page_is_complete_and_without_what_only_works_on_a_screen(desk, share):
    problems = []
    desk.page.emulate_media(media="print")

    for label, place in share.items():
        desk.open(place)
        page = desk.page
        if not page.locator("h1").is_visible():
            problems.append(f"{label}: no heading")
        for screen_only in (".site-nav", ".site-map", ".chart__tools", "main .button"):
            if page.locator(f"{screen_only}:visible").count():
                problems.append(f"{label}: {screen_only}")

    desk.page.emulate_media(media="screen")
    assert problems == []


# -- one page -------------------------------------------------------------------------------------


@pytest.mark.browser
def test_the_colour_scheme_is_the_readers(variant, pages):
    variant.open(pages["home"])

    background = variant.page.evaluate("() => getComputedStyle(document.body).backgroundColor")

    is_dark = variant.page.evaluate("() => matchMedia('(prefers-color-scheme: dark)').matches")
    assert background == ("rgb(20, 24, 28)" if is_dark else "rgb(251, 250, 247)")


@pytest.mark.browser
def test_the_button_draws_the_chart_with_plotly_from_this_server(variant, pages):
    variant.open(pages["run"])
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


@pytest.mark.browser
@pytest.mark.parametrize("name", ["experiment", "run", "case", "trial", "break-even, answered"])
def test_without_scripts_charts_and_their_numbers_are_there(name, scriptless, pages):
    scriptless.open(pages[name])
    charts = scriptless.page.locator("figure.chart")

    assert charts.count() > 0
    for chart in charts.all():
        assert chart.locator("svg.chart-svg:visible").count() == 1
        chart.locator("summary").click()
        assert chart.locator("table").is_visible()


@pytest.mark.browser
def test_a_wide_table_scrolls_in_its_own_box(scriptless, pages):
    scriptless.open(pages["run"])

    box = scriptless.page.locator("[aria-label='Throughput and CPU cost of every case']")

    assert box.bounding_box()["width"] <= PHONE_PX
    assert box.locator("table").bounding_box()["width"] > PHONE_PX


@pytest.mark.browser
def test_the_skip_link_is_first_and_leads_to_the_content(desk, pages):
    desk.open(pages["experiment"])
    keyboard = desk.page.keyboard

    keyboard.press("Tab")
    assert desk.page.locator(":focus").inner_text() == "Skip to the content"
    assert desk.page.locator(":focus").bounding_box()["x"] >= 0
    keyboard.press("Enter")
    keyboard.press("Tab")
    assert desk.page.locator("main :focus").count() == 1


@pytest.mark.browser
def test_a_chart_is_drawn_by_keyboard(desk, pages):
    desk.open(pages["experiment"])

    desk.page.locator("figure.chart button").first.focus()
    desk.page.keyboard.press("Enter")

    desk.page.locator(".chart__plotly[data-state=drawn]").first.wait_for()


@pytest.mark.browser
def test_a_chart_that_cannot_be_loaded_says_so(desk, pages):
    desk.open(pages["case"])
    desk.page.route("**/*.plotly.json", lambda route: route.abort())

    chart = desk.page.locator("figure.chart").first
    chart.locator("[data-figure-url]").click()
    failed = chart.locator(".chart__plotly[data-state=failed]")
    failed.wait_for()

    assert failed.inner_text().startswith("The interactive chart did not work:")
    assert chart.locator(".chart__drawing").is_visible()
    desk.page.unroute("**/*.plotly.json")


@pytest.mark.browser
def test_a_chart_opened_as_a_file_has_its_colours_under_the_policy(desk, pages):
    desk.open(pages["run"])
    address = desk.page.locator(".chart__tools a[href$='.svg']").first.get_attribute("href")

    desk.open((pages["run"][0], address))
    label = desk.page.locator("text.chart-tick").first

    assert label.evaluate("one => getComputedStyle(one).fill") == "rgb(86, 92, 99)"
    assert (desk.messages, desk.strangers) == ([], [])


@pytest.mark.browser
@pytest.mark.parametrize("has_scripts", [True, False])
def test_a_state_is_kept_and_a_comparison_frozen_by_the_pages_forms(
    has_scripts, browser, origins, pages
):
    visited = visit(browser, origins, PHONE_PX, java_script_enabled=has_scripts)
    page = visited.page
    visited.open(pages["pivot"])
    state = page.url

    page.get_by_role("button", name="Short address").click()
    short = page.locator("main pre").inner_text()
    page.goto(short)
    leads_to = page.url
    visited.open(pages["comparison"])
    page.get_by_role("button", name="Freeze as a report").click()

    assert sorted(leads_to.partition("?")[2].split("&")) == sorted(
        state.partition("?")[2].split("&")
    )
    assert "/reports/" in page.url
    assert page.locator(".page-head__kind").inner_text().lower() == "report"
    assert visited.messages == []
    page.context.close()


@pytest.mark.browser
def test_a_form_of_another_page_stores_nothing(browser, origins, pages):
    visited = visit(browser, origins)
    action = origins["record"] + pages["pivot"][1].replace("&", "&amp;")
    visited.page.set_content(f'<form method="post" action="{action}"><button>Win</button></form>')

    visited.page.get_by_role("button", name="Win").click()

    visited.page.get_by_text("came from another site").wait_for()
    visited.page.context.close()
