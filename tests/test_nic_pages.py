"""/nics and below: every cell has a word and leads to its evidence; twins say the same."""

from __future__ import annotations

import csv
import gzip
import io
import re

import pytest
from nic_pages_support import add_probe, measure_card
from store_support import StatementCount
from web_support import Element, client_of, get_json, get_page

from zcdb.nics.capabilities import CAPABILITIES
from zcdb.nics.catalogue import load
from zcdb.store.queries.nics import CASES_OF_A_VALUE, nic_cases, stored_claims
from zcdb.store.session import Database, open_database
from zcdb.webapp.present.nic_cells import GROUPS

pytest_plugins = ["store_fixtures"]

HTML_LIMIT_BYTES = 30 * 1024

PAGES = {
    "drivers": "/nics",
    "search": "/nics?q=x710",
    "everything": "/nics?kernel=6.12&show=all",
    "driver": "/nics/drivers/igb",
    "driver of 2001": "/nics/drivers/3c59x",
    "largest driver": "/nics/drivers/stmmac",
    "device": "/nics/devices/8086:1533",
    "device with many cards": "/nics/devices/8086:1229",
    "compare": "/nics/compare?d=igb&d=r8169&d=10ec:8139",
    "compare nothing": "/nics/compare",
    "conflicts": "/nics/conflicts",
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Database:
    """A database with measurements over igb, a probe that agrees and one that does not."""
    database = open_database(tmp_path_factory.mktemp("nics") / "nics.sqlite")
    measure_card(database, "igb")
    add_probe(database, "igb", "sg", "yes", "6.12.101")
    add_probe(database, "igb", "lro", "yes", "6.12.101")
    yield database
    database.dispose()


@pytest.fixture(scope="module")
def client(measured):
    return client_of(measured)


def twin(address: str, ending: str) -> str:
    path, mark, query = address.partition("?")
    return f"{path}.{ending}{mark}{query}"


def cells_of(page: Element, label: str) -> list[list[str]]:
    table = page.first("div", **{"aria-label": label}).first("table")
    return [
        [cell.text for cell in row.children if isinstance(cell, Element)] for row in table.all("tr")
    ]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_small_and_names_its_twins(name, client):
    address = PAGES[name]
    packed = client.get(address, headers={"Accept-Encoding": "gzip"})

    page = get_page(client, address)

    assert len(page.all("h1")) == 1
    assert not [element for element in page.all() if "style" in element.attributes]
    assert len(packed.data) <= HTML_LIMIT_BYTES
    assert gzip.decompress(packed.data).startswith(b"<!doctype html>")
    assert page.first("link", rel="canonical").attributes["href"] == address
    for ending, kind in (("json", "application/json"), ("csv", "text/csv")):
        link = page.first("link", rel="alternate", type=kind).attributes["href"]
        assert link == twin(address, ending)
        assert client.get(link).status_code == 200


@pytest.mark.parametrize("name", PAGES)
def test_ids_are_unique_and_links_lead_somewhere(name, client):
    page = get_page(client, PAGES[name])

    ids = [element.attributes["id"] for element in page.all() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    links = sorted({link.attributes["href"] for link in page.all("a")})
    seen: dict[str, str] = {}
    for address in links[:: max(1, len(links) // 40)]:
        path, _, fragment = address.partition("#")
        if not path:
            assert fragment in ids
            continue
        if path not in seen:
            answer = client.get(path)
            assert answer.status_code == 200, address
            seen[path] = answer.text
        assert not fragment or f'id="{fragment}"' in seen[path], address


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_revalidated_and_tells_of_unknown_parameters(name, client):
    address = PAGES[name]
    mark = "&" if "?" in address else "?"
    first = client.get(address)

    again = client.get(address, headers={"If-None-Match": first.headers["ETag"]})

    assert again.status_code == 304
    notices = [
        one.text for one in get_page(client, f"{address}{mark}colour=red").all("p", role="status")
    ]
    assert any("colour" in text for text in notices)
    assert "'colour'" in get_json(client, f"{twin(address, 'json')}{mark}colour=red", 400)["error"]


def test_every_cell_of_the_table_is_a_word_and_opens_its_evidence(client):
    page = get_page(client, "/nics?show=all")
    words = {"yes", "some", "no", "n/a", "unknown", "conflict", "copies"}

    marks = page.all("a", class_="mark")

    assert len(marks) == 30 * len(CAPABILITIES)
    for mark in marks:
        assert re.sub(r"since.*", "", mark.text) in words
        driver, _, capability = (
            mark.attributes["href"].removeprefix("/nics/drivers/").partition("#")
        )
        assert driver in load().driver_names
        assert capability in CAPABILITIES


def test_every_capability_is_in_a_group_of_columns_under_a_known_name():
    grouped = {key for _, keys in GROUPS.values() for key in keys}

    assert grouped == set(CAPABILITIES)


def test_the_table_pages_by_the_drivers_name_to_the_last_one(client):
    address, seen = "/nics.json", []
    for _ in range(20):
        content = get_json(client, address)
        seen += [row["driver"] for row in content["rows"]]
        if content["next_after"] is None:
            break
        address = f"/nics.json?after={content['next_after']}"

    assert seen == sorted(load().trees[-1].drivers)
    assert content["total"] == len(seen)


def test_the_next_page_keeps_the_filters(client):
    page = get_page(client, "/nics?kernel=6.12&bus=pci&must=sg")

    following = page.first("a", rel="next").attributes["href"]
    assert following.startswith("/nics?kernel=6.12&bus=pci&must=sg&after=")
    assert client.get(following).status_code == 200


@pytest.mark.parametrize(
    ("query", "there", "not_there"),
    [
        ("bus=usb", "r8152", "igb"),
        ("speed=100g", "bnxt_en", "ixgbe"),
        ("speed=1g&upto=1g&bus=pci", "e1000e", "igb"),
        ("must=xsk_zc&kernel=6.12", "ixgbe", "igb"),
        ("must=xsk_zc&must=hwts_rx&kernel=7.3", "igb", "bnxt_en"),
        ("q=i210", "igb", "ixgbe"),
        ("q=8086:1533", "igb", "e1000e"),
        ("q=realtek+8139", "8139too", "igb"),
        ("kernel=debian-12&must=sg&q=acenic", "acenic", "igb"),
    ],
)
def test_filters_in_the_address_choose_the_drivers(query, there, not_there, client):
    address, names = f"/nics.json?{query}", []
    while True:
        content = get_json(client, address)
        names += [row["driver"] for row in content["rows"]]
        if content["next_after"] is None:
            break
        address = f"/nics.json?{query}&after={content['next_after']}"

    assert there in names
    assert not_there not in names
    assert content["total"] == len(names)


def test_a_search_finds_devices_by_name_and_id(client):
    page = get_page(client, "/nics?q=8086:1533")

    device = page.first("ul", class_="devices").first("a")
    assert device.attributes["href"] == "/nics/devices/8086:1533"
    assert "I210" in page.first("ul", class_="devices").text


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("/nics?bus=isdn", "is no way to attach a card that this page knows: pci, usb"),
        ("/nics?speed=7g", "is no speed that this page knows"),
        ("/nics?must=warp", "is no capability that this page knows"),
        ("/nics?kernel=5.10", "is no kernel that the catalogue can answer for"),
        ("/nics?kernel=newest", "is no kernel that the catalogue can answer for"),
        ("/nics?kernel=2.4.16", "/buy?kernel=2.4.16"),
        ("/nics?show=blue", "is no group of columns"),
        ("/nics/devices/8086", "write both as four hexadecimal digits"),
        ("/nics/compare?" + "&".join(f"d={n}" for n in range(7)), "At most 6"),
    ],
)
def test_a_wrong_word_is_an_error_that_names_the_right_ones(address, says, client):
    page = get_page(client, address, status=400)

    assert says in page.first("main").text


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("/nics/drivers/warp", "has a driver 'warp'"),
        ("/nics/devices/ffff:ffff", "claims the device ffff:ffff"),
    ],
)
def test_what_is_not_in_the_catalogue_says_what_was_looked_for(address, says, client):
    assert says in get_page(client, address, status=404).first("main").text
    assert says in get_json(client, f"{address}.json", status=404)["error"]


def test_a_drivers_page_has_a_row_with_evidence_for_every_capability_and_kernel(client):
    content = get_json(client, "/nics/drivers/igb.json")

    rows = {row["capability"]: row for group in content["groups"] for row in group["rows"]}
    assert rows.keys() == CAPABILITIES.keys()
    assert content["kernels"] == list(load().kernels)
    for row in rows.values():
        assert [cell["kernel"] for cell in row["cells"]] == content["kernels"]
        for cell in row["cells"]:
            assert cell["word"]
            if cell["word"].startswith("yes"):
                assert all(re.fullmatch(r"\S+:\d+", one["place"]) for one in cell["places"])
                assert cell["places"]
    assert rows["xsk_zc"]["cells"][-1]["since"] == "since 7.3"


def test_a_drivers_page_shows_published_claims_with_author_date_line_and_state(client):
    page = get_page(client, "/nics/drivers/3c59x")

    claims = [one.text for one in page.first("tr", id="sg").all("p", class_="claim")]
    assert any("Andrew Morton, 2001-01-27, lkml-2001-zerocopy:21-22" in text for text in claims)
    assert any("linux 2.4.16 drivers/net/3c59x.c:1306" in text for text in claims)
    assert all("stale" in text for text in claims)


def test_a_drivers_page_gives_a_verdict_for_every_use(client):
    lines = cells_of(get_page(client, "/nics/drivers/igb"), "Verdicts for each use")

    verdicts = {line[0]: line[1] for line in lines[1:]}
    assert len(verdicts) == 9
    assert verdicts["File server"] == "Recommended"
    assert verdicts["Web server with TLS"] == "Works, no advantage here"


def test_a_drivers_page_shows_what_was_measured_over_its_cards(client):
    content = get_json(client, "/nics/drivers/igb.json")

    costs = {case["name"].split(" · ")[0]: case["sender"] for case in content["measured"]}
    assert costs["sendfile"] == pytest.approx(0.15, rel=0.03)
    assert costs["read_write"] == pytest.approx(0.30, rel=0.03)
    assert {case["n"] for case in content["measured"]} == {6}
    assert cells_of(get_page(client, "/nics/drivers/igb"), "Measured over this card")[1][
        1
    ].startswith("sender and receiver")


def test_a_drivers_page_shows_what_was_published_over_cards_of_2001(client):
    cases = get_json(client, "/nics/drivers/3c59x.json")["measured"]

    published = [case for case in cases if case["kernel"] == "2.4.1-pre10+zerocopy"]
    assert published
    assert all(case["is_published"] for case in published)


def test_a_probe_that_agrees_raises_the_evidence_and_one_that_does_not_is_a_conflict(client):
    rows = {
        cell["capability"]: cell
        for group in get_json(client, "/nics/drivers/igb.json")["groups"]
        for row in group["rows"]
        for cell in row["cells"]
        if cell["kernel"].startswith("6.12")
    }
    listed = get_json(client, "/nics/conflicts.json")["machines"]

    assert (rows["sg"]["word"], rows["sg"]["level"]) == ("yes", "probed")
    assert rows["lro"]["word"] == "conflict"
    assert rows["lro"]["why"] == "the source says no, a machine with Linux 6.12.101 says yes"
    assert [(one["driver"], one["capability"]) for one in listed] == [("igb", "lro")]
    assert [listed[0]["one"]["value"], listed[0]["other"]["value"]] == ["no", "yes"]
    assert listed[0]["other"]["kernel"] == "6.12.101"
    assert "/nics/drivers/igb#lro" in client.get("/nics/conflicts").text


def test_contradictions_of_2001_are_listed_with_both_places(client):
    content = get_json(client, "/nics/conflicts.json")

    places = [{one["one"]["place"], one["other"]["place"]} for one in content["people"]]
    assert {
        "Ion Badulescu, lkml-2001-zerocopy:1126-1128",
        "drivers/net/starfire.c:130 drivers/net/starfire.c:664",
    } in places
    pairs = {(one["one"]["id"], one["other"]["id"]): one["kind"] for one in content["disputes"]}
    assert pairs["jamal-starfire-gige", "badulescu-starfire-100mbit"] == "corrected by"


def test_a_devices_page_leads_to_its_drivers_and_names_its_cards(client):
    content = get_json(client, "/nics/devices/8086:1229.json")

    entry = content["entries"][0]
    assert entry["id"] == "pci:8086:1229"
    assert [driver["driver"] for driver in entry["drivers"]] == ["e100"]
    assert len(entry["cards"]) > 50


def test_drivers_side_by_side_show_what_differs_first(client):
    content = get_json(client, "/nics/compare.json?d=igb&d=r8169&d=10ec:8139&kernel=6.12")

    assert [one["driver"] for one in content["drivers"]] == ["igb", "r8169", "8139cp", "8139too"]
    sg = next(row for row in content["rows"] if row["column"]["capability"] == "sg")
    assert [cell["mark"] for cell in sg["cells"]] == ["yes", "yes", "yes", "copies"]
    assert sg["differs"]
    first = cells_of(get_page(client, "/nics/compare?d=igb&d=r8169"), "Drivers side by side")[1]
    assert first[1] != first[2]


def test_a_comparison_says_what_it_does_not_know(client):
    page = get_page(client, "/nics/compare?d=igb&d=warp&d=s2io")

    text = " ".join(one.text for one in page.all("p", class_="notice"))
    assert "is, or claims, warp" in text
    assert "has no driver s2io" in text


@pytest.mark.parametrize("name", ["driver", "compare", "everything"])
def test_the_csv_has_the_cells_of_the_page(name, client):
    content = get_json(client, twin(PAGES[name], "json"))
    rows = list(csv.DictReader(io.StringIO(client.get(twin(PAGES[name], "csv")).text)))

    if name == "driver":
        wanted = sum(len(row["cells"]) for group in content["groups"] for row in group["rows"])
    else:
        wanted = sum(len(row["cells"]) for row in content.get("drivers") or content["rows"])
    assert len(rows) == wanted
    assert all(row["value"] for row in rows)


@pytest.fixture(scope="module")
def larger(tmp_path_factory):
    """A database with more runs over more cards, and more probes."""
    database = open_database(tmp_path_factory.mktemp("larger") / "larger.sqlite")
    for number, driver in enumerate(("igb", "ixgbe", "mlx5_core", "igb"), start=1):
        measure_card(database, driver, number)
        add_probe(database, driver, "sg", "yes", f"6.12.{number}")
    yield database
    database.dispose()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_asks_as_many_statements_of_a_larger_database(name, measured, larger):
    counts = []
    for database in (measured, larger):
        with StatementCount(database) as count:
            get_page(client_of(database), PAGES[name])
        counts.append(len(count))

    assert counts[0] == counts[1] <= 12


def test_cases_over_cards_are_found_on_both_databases(database_url):
    database = open_database(database_url)
    measure_card(database, "igb")
    add_probe(database, "igb", "sg", "yes", "6.12.1")

    found = nic_cases(database)
    chosen = nic_cases(database, ["igb", "veth"])
    mine = [case for case in found if case.factors.get("sender_driver") == "igb"]

    assert {case.id for case in chosen} == {case.id for case in mine}
    assert [(case.trials, case.hosts, case.published) for case in mine] == [(6, 1, 0)] * 4
    assert all(f"{case.newest:%Y-%m-%d}" == "2026-03-02" for case in mine)
    assert [(one.subject, one.capability, one.value) for one in stored_claims(database)] == [
        ("igb", "sg", "yes")
    ]
    assert nic_cases(database, ["warp"]) == ()
    database.dispose()


def test_only_the_newest_cases_of_a_card_are_read(sqlite_db, monkeypatch):
    from zcdb.store.queries import nics

    measure_card(sqlite_db, "igb")
    monkeypatch.setattr(nics, "CASES_OF_A_VALUE", 2)
    nics._newest_of_each.cache_clear()
    try:
        found = [one for one in nics.nic_cases(sqlite_db) if "card of igb" in one.factors.values()]
    finally:
        nics._newest_of_each.cache_clear()

    assert len(found) == 2
    assert CASES_OF_A_VALUE > 2
