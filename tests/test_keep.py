"""Short addresses and reports from the pages: forms that store what the page shows, and no more."""

from __future__ import annotations

import pytest
from store_support import write_demo
from web_support import get_page

from zcdb.store import reports
from zcdb.store.session import open_database
from zcdb.webapp import create_app
from zcdb.webapp.export_rewrite import Places, rewrite
from zcdb.webapp.origin import is_from_elsewhere
from zcdb.webapp.views import keep

QUESTION = "axis=api&a=write&b=sendfile"


@pytest.fixture
def filled(tmp_path):
    db = open_database(tmp_path / "keep.db", with_history=False)
    write_demo(db)
    yield db
    db.dispose()


@pytest.fixture
def client(filled):
    return create_app({"DATABASE": filled}).test_client()


def forms(page):
    return {
        form.attributes["action"]: form
        for form in page.all("form")
        if form.attributes.get("method") == "post"
    }


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/explore", "api=write&message_size=65536&rows=api&cols=message_size"),
        ("/compare", f"{QUESTION}&m=throughput"),
    ],
)
def test_the_form_of_a_page_keeps_its_state_under_an_address_that_leads_back(path, query, client):
    asked = get_page(client, f"{path}?{query}")
    (action,) = [action for action in forms(asked) if action.startswith(path)]

    answer = client.post(action)
    shown = get_page(client, answer.headers["Location"])
    short = shown.first("pre").text
    leads = client.get(short)

    assert answer.status_code == 303
    assert short.startswith("http://localhost/q/")
    assert leads.status_code == 302
    canonical = asked.first("link", rel="canonical").attributes["href"]
    assert leads.headers["Location"] == canonical
    assert canonical in [link.attributes["href"] for link in shown.first("main").all("a")]


def test_the_same_state_in_another_order_has_the_same_short_address(filled, client):
    first = client.post("/explore?api=write&message_size=65536")
    second = client.post("/explore?message_size=64K&api=write&colour=red")

    assert first.headers["Location"] == second.headers["Location"]
    assert len(reports.links(filled)) == 1


def test_a_page_that_asks_nothing_has_no_form_to_keep_it(client):
    assert forms(get_page(client, "/explore")) == {}
    assert forms(get_page(client, "/compare")) == {}


def test_a_comparison_is_frozen_under_the_title_of_the_form(filled, client):
    page = get_page(client, f"/compare?{QUESTION}")
    (action,) = [action for action in forms(page) if action.startswith("/reports")]

    answer = client.post(action, data={"title": "sendfile in 2026"})

    assert answer.status_code == 303
    report = get_page(client, answer.headers["Location"])
    assert report.first("h1").text == "sendfile in 2026"
    (line,) = reports.report_list(filled)[0]
    assert answer.headers["Location"] == f"/reports/{line.id}/sendfile-in-2026"


@pytest.mark.parametrize(
    ("address", "form", "status", "sentence"),
    [
        ("/compare", {}, 400, "Only a comparison can be kept"),
        ("/compare?axis=colour&a=red&b=blue", {}, 400, "colour"),
        ("/explore?api=pigeon", {}, 400, "pigeon"),
        (f"/explore?q={'x' * 3000}", {}, 400, "This state has 3002 characters"),
        (f"/reports?{QUESTION}", {}, 400, "A title has 1 to 200 characters, got 0."),
        (f"/reports?{QUESTION}", {"title": "x" * 201}, 400, "got 201"),
        (f"/reports?{QUESTION}", {"title": "x" * 20_000}, 413, ""),
        (f"/reports?{QUESTION}&api=nothing", {"title": "x"}, 400, ""),
        ("/reports?axis=cc&a=cubic&b=reno", {"title": "x"}, 400, ""),
        ("/reports", {"title": "x"}, 400, "Only a comparison can be kept"),
    ],
)
def test_what_cannot_be_kept_is_refused_in_a_sentence(
    address, form, status, sentence, filled, client
):
    answer = client.post(address, data=form)

    assert answer.status_code == status
    assert sentence in answer.text
    assert reports.links(filled) == ()
    assert reports.report_list(filled)[0] == ()


@pytest.mark.parametrize(
    ("headers", "elsewhere"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, True),
        ({"Sec-Fetch-Site": "same-site"}, True),
        # What the browser says of the site counts before the address, which a proxy may change.
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://lab.example"}, False),
        ({"Origin": "http://127.0.0.1:8750"}, False),
        ({"Origin": "http://127.0.0.1:8751"}, True),
        ({"Origin": "http://elsewhere.example"}, True),
        ({"Origin": "null"}, True),
        ({}, False),
    ],
)
def test_only_pages_of_this_site_and_programs_may_store(headers, elsewhere):
    assert is_from_elsewhere(headers, "127.0.0.1:8750") is elsewhere


@pytest.mark.parametrize("address", ["/explore?api=write", f"/compare?{QUESTION}", "/reports"])
def test_a_form_of_another_site_stores_nothing(address, filled, client):
    answer = client.post(address, headers={"Sec-Fetch-Site": "cross-site"})

    assert answer.status_code == 403
    assert "came from another site" in answer.text
    assert reports.links(filled) == ()


def test_full_stores_say_so_and_what_still_works(monkeypatch, filled, client):
    kept = client.post("/explore?api=write")
    monkeypatch.setattr(keep, "LINKS_LIMIT", 1)
    monkeypatch.setattr(keep, "REPORTS_LIMIT", 0)

    link = client.post("/explore?api=sendfile")
    report = client.post(f"/reports?{QUESTION}", data={"title": "x"})

    assert (link.status_code, report.status_code) == (409, 409)
    assert "This database holds 1 short addresses" in link.text
    again = client.post("/explore?api=write")
    assert (again.status_code, again.headers["Location"]) == (303, kept.headers["Location"])
    assert len(reports.links(filled)) == 1


def test_where_readers_may_not_freeze_there_is_only_the_command(filled):
    client = create_app({"DATABASE": filled, "MAY_FREEZE": False}).test_client()

    page = get_page(client, f"/compare?{QUESTION}")
    answer = client.post(f"/reports?{QUESTION}", data={"title": "x"})

    assert [action.partition("?")[0] for action in forms(page)] == ["/compare"]
    assert "zcdb report create" in page.text
    assert answer.status_code == 403


def test_a_page_that_is_a_file_has_no_form_that_stores():
    form = '<p>a</p><form method="post" action="/explore?api=write"><button>Keep</button></form>'

    assert rewrite(form, "/explore", Places({}, ()), None).html == "<p>a</p>"
