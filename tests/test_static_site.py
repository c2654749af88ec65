"""The site as files: every link leads to a file, and it works without scripts or a server."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bundle_support import QUERY, write_everything
from store_support import DemoIds
from web_support import BROWSER_FLAGS, browser_path, client_of, get_json, page_addresses, parse

from zcdb.errors import UsageError
from zcdb.store import errata, reports
from zcdb.store.session import Database, opened
from zcdb.webapp import export
from zcdb.webapp.export import MARK, export_site
from zcdb.webapp.export_rewrite import FORM_SENTENCE, Places, State, is_page, rewrite

LINK = re.compile(r'\s(?:href|src|action|data-figure-url|data-plotly)="([^"]*)"')


@dataclass(frozen=True)
class Site:
    """An exported site and the database behind it."""

    folder: Path
    db: Database
    ids: DemoIds
    pages: int
    files: int


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("static")
    with opened(folder / "lab.db", with_history=False) as db:
        ids = write_everything(db)
        errata.retract(db, "trial", ids.failed_trial_id, reason="no cable", by="a tester")
        made = export_site(db, folder / "site", with_nics=False)
        yield Site(folder / "site", db, ids, made.pages, made.files)


def _links(page: Path) -> list[str]:
    return [html.unescape(link) for link in LINK.findall(page.read_text(encoding="utf-8"))]


def _problem(site: Path, page: Path, link: str) -> str | None:
    """Return what is wrong with a link of a page, or None."""
    parts = urlsplit(link)
    if parts.scheme in ("http", "https"):
        return None  # another site's
    if parts.scheme or parts.netloc or parts.query or parts.path.startswith("/"):
        return "not relative"
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if site.resolve() not in target.parents and target != site.resolve():
        return "outside"
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return "no file"
    if parts.fragment and f'id="{parts.fragment}"' not in target.read_text(encoding="utf-8"):
        return "no such place"
    return None


def test_every_link_leads_to_a_file_inside(site):
    pages = sorted(site.folder.rglob("*.html"))

    broken = [
        (str(page.relative_to(site.folder)), link, problem)
        for page in pages
        for link in _links(page)
        if (problem := _problem(site.folder, page, link))
    ]

    assert broken == []
    assert len(pages) >= site.pages > 100


def test_addresses_are_those_of_the_live_site(site):
    for address in page_addresses(site.ids).values():
        if site.ids.failed_trial_id in address:
            continue
        folder = site.folder / address.strip("/")
        twin = site.folder / f"{address.strip('/') or 'index'}.json"
        assert (folder / "index.html").is_file(), address
        live = get_json(client_of(site.db), f"/{twin.relative_to(site.folder)}")
        assert json.loads(twin.read_text(encoding="utf-8")) == live
    assert (site.folder / f"cases/{site.ids.baseline_case_id}.csv").is_file()


def test_kept_states_are_pages_at_their_short_address(site):
    links = {query: link for link, _, query in reports.links(site.db)}
    folder = site.folder / "q" / links[QUERY]

    page = parse((folder / "index.html").read_text(encoding="utf-8"))

    assert "sendfile" in page.first("h1").text
    live = get_json(client_of(site.db), f"/compare.json?{QUERY}")
    twin = json.loads(folder.with_suffix(".json").read_text(encoding="utf-8"))
    assert twin == live
    listed = (site.folder / "compare" / "index.html").read_text(encoding="utf-8")
    assert f'href="../q/{links[QUERY]}/"' in listed


def test_forms_become_a_sentence(site):
    for page in site.folder.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"<(form|input|select|textarea)\b", text), page


def test_frozen_reports_come_with_all_their_forms(site):
    (line,) = reports.report_list(site.db)[0]
    folder = site.folder / "reports" / line.id

    stored = reports.report(site.db, line.id)

    assert folder.with_suffix(".json").read_bytes() == stored.content
    for name in (f"{line.id}.csv", f"{line.id}.txt", f"{line.id}.svg"):
        assert (folder.parent / name).stat().st_size > 0
    assert (folder / "inputs.json").is_file()
    assert (folder / "verify" / "index.html").is_file()
    assert (folder / line.slug / "index.html").is_file()
    assert f'url={line.slug}/"' in (folder / "index.html").read_text(encoding="utf-8")


def test_what_was_retracted_says_so(site):
    page = site.folder / "trials" / site.ids.failed_trial_id / "index.html"

    assert "was retracted on" in page.read_text(encoding="utf-8")


def test_a_folder_of_something_else_is_refused(site, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")

    with pytest.raises(UsageError, match="holds files that zcdb did not write"):
        export_site(site.db, tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_exporting_again_removes_what_is_no_longer_there(tmp_path):
    (tmp_path / MARK).write_text("trials/gone/index.html\n")
    (tmp_path / "trials" / "gone").mkdir(parents=True)
    gone = tmp_path / "trials" / "gone" / "index.html"
    gone.write_text("old")
    (tmp_path / "mine.txt").write_text("not listed, so not touched")

    with opened(tmp_path.parent / "empty.db", with_history=False) as db:
        export_site(db, tmp_path, with_nics=False)

    assert not gone.exists()
    assert (tmp_path / "mine.txt").exists()
    assert "index.html" in (tmp_path / MARK).read_text().splitlines()


def test_a_page_that_does_not_work_stops_the_export(site, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "SEEDS", ("/", "/assets/none.txt"))

    with pytest.raises(
        export.ExportError, match=r"the page /assets/none\.txt does not work: status"
    ):
        export_site(site.db, tmp_path / "site", with_nics=False)


STATE = State("0" * 32, "/explore", "api=send&q=a+b")
PLACES = Places({(STATE.path, STATE.query): STATE}, ("/explore", "/compare"), ("/nics",))


@pytest.mark.parametrize(
    ("page", "target", "link"),
    [
        ("/", "/cases/abc", "cases/abc/"),
        ("/cases/abc", "/", "../../"),
        ("/cases/abc", "/cases/abc.json", "../abc.json"),
        ("/cases/abc", "/cases/abc?after=def", "~after=def/"),
        ("/cases/abc?after=def", "/cases/abc", "../"),
        ("/cases/abc", "/cases/abc.csv?after=def", "~after=def.csv"),
        ("/runs", "/runs/abc?from=200#plan", "abc/~from=200/#plan"),
        ("/x/devices", "/x/devices/8086:1533", "./8086:1533/"),
        ("/cases/abc", "/sources/0a/text", "../../sources/0a/text"),
        ("/cases/abc", "/experiments/a%20b", "../../experiments/a%20b/"),
        ("/explore", "/explore?q=a%20b&api=send", f"../q/{STATE.id}/"),
        ("/", "/explore?api=write", None),
        ("/", "/runs?sort=up", None),
        ("/", "/nics/drivers/e1000", None),
        ("/", "/nics.json", None),
    ],
)
def test_links_are_relative(page, target, link):
    assert PLACES.relative(page, target) == link


@pytest.mark.parametrize(
    ("path", "is_one"),
    [("/experiments/a.b", True), ("/experiments/a.toml", False), ("/sources/0a/text", False)],
)
def test_files_and_pages_are_told_apart(path, is_one):
    assert is_page(path) is is_one


def test_a_form_keeps_what_is_no_control():
    form = (
        '<form class="side" action="/x"><p class="field"><label>A</label><input name="a"></p>'
        '<p><button>Go</button> <a href="/runs">All &amp; more</a></p>'
        "<ul><li>kept &#8211;</li></ul>"
        "<fieldset><legend>Pivot</legend><select><option>1</option></select></fieldset></form>"
    )

    done = rewrite(form, "/", PLACES, None)

    assert done.html == (
        f'<div class="side"><p class="notice">{FORM_SENTENCE}</p>'
        '<p> <a href="runs/">All &amp; more</a></p><ul><li>kept &#8211;</li></ul></div>'
    )
    assert done.addresses == ["/runs"]


def test_what_has_no_file_loses_its_link():
    done = rewrite(
        '<link rel="canonical" href="/explore?api=write"><a rel="x" href="/explore?api=write">w</a>'
        '<a href="https://www.kernel.org/?a=b">k</a>',
        "/",
        PLACES,
        None,
    )

    assert done.html == '<a rel="x">w</a><a href="https://www.kernel.org/?a=b">k</a>'


@pytest.mark.browser
def test_a_browser_without_scripts_reads_it_from_a_plain_file_server(site):
    from playwright.sync_api import sync_playwright

    executable = browser_path()
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
    server = subprocess.Popen(
        command, cwd=site.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        origin = re.search(r"http://[0-9.:]+", server.stdout.readline())[0]
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=executable, args=list(BROWSER_FLAGS))
            context = browser.new_context(java_script_enabled=False)
            page = context.new_page()
            page.set_default_timeout(120_000)
            failed: list[str] = []
            page.on("response", lambda got: got.status >= 400 and failed.append(got.url))
            for address in ("/", f"/cases/{site.ids.baseline_case_id}/", "/reports/", "/explore/"):
                page.goto(origin + address)
                assert page.locator("h1").count() == 1, address
                assert page.locator("main").inner_text()
            page.goto(f"{origin}/experiments/")
            page.locator("main table a").first.click()
            page.locator("figure.chart svg").first.wait_for()
            assert failed == []
            browser.close()
    finally:
        server.terminate()
        server.wait(timeout=20)
        server.stdout.close()
