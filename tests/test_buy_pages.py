"""/buy and /buy/<use>: verdicts with their rules and lines, filters, twins, and what they cost."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator

import pytest
from nic_pages_support import add_probe, measure_card
from store_support import StatementCount
from web_support import BROWSER_FLAGS, browser_path, client_of, get_json, get_page, served

from zcdb.experiment import spec
from zcdb.nics.usecases import load_use_cases
from zcdb.nics.verdicts import RULES, WORDS
from zcdb.store.session import Database, open_database

pytest_plugins = ["store_fixtures"]

HTML_LIMIT_BYTES = 30 * 1024
USES = tuple(load_use_cases())
PAGES = {
    "uses": "/buy",
    "uses of 2001": "/buy?kernel=2.4.16",
    **{use: f"/buy/{use}" for use in USES},
    "2001": "/buy/file-server?kernel=2.4.16",
    "filtered": "/buy/file-server?kernel=debian-13&bus=any&speed=any&must=tls_tx",
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Iterator[Database]:
    """A database in which sendfile saved half over igb, and cost more over ixgbe."""
    database = open_database(tmp_path_factory.mktemp("buy") / "buy.sqlite")
    measure_card(database, "igb", 1)
    measure_card(database, "ixgbe", 2, gain=3.0)
    add_probe(database, "bnxt_en", "sg", "yes", "6.12.101")
    add_probe(database, "bnxt_en", "ip_csum", "yes", "6.12.101")
    add_probe(database, "qede", "sg", "no", "6.12.101")
    yield database
    database.dispose()


@pytest.fixture(scope="module")
def client(measured):
    return client_of(measured)


def twin(address: str, ending: str) -> str:
    path, mark, query = address.partition("?")
    return f"{path}.{ending}{mark}{query}"


def verdicts_of(content: dict) -> dict[str, tuple[str, dict]]:
    """Return card -> (verdict, everything about it)."""
    return {
        one["id"]: (group["word"], one) for group in content["groups"] for one in group["verdicts"]
    }


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_small_and_names_its_twins(name, client):
    address = PAGES[name]
    packed = client.get(address, headers={"Accept-Encoding": "gzip"})

    page = get_page(client, address)

    assert len(page.all("h1")) == 1
    assert len(packed.data) <= HTML_LIMIT_BYTES
    assert gzip.decompress(packed.data).startswith(b"<!doctype html>")
    assert page.first("link", rel="canonical").attributes["href"] == address
    ids = [element.attributes["id"] for element in page.all() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    for link in page.all("a"):
        path, _, fragment = link.attributes["href"].partition("#")
        assert path or fragment in ids
    for ending in ("json", "csv"):
        assert client.get(twin(address, ending)).status_code == 200


@pytest.mark.parametrize("use", USES)
def test_every_verdict_has_its_rule_its_reasons_and_its_evidence_level(use, client):
    content = get_json(client, f"/buy/{use}.json?kernel=6.12")

    assert [group["word"] for group in content["groups"]] == list(WORDS)
    for word, one in verdicts_of(content).values():
        assert RULES[one["rule"]] == (word, one["rule_says"])
        assert one["level"] in ("advertised", "probed", "measured")
        assert one["reasons"]
        assert {"score", "price"}.isdisjoint(one)


@pytest.mark.parametrize("use", ["file-server", "packet", "bulk-receive", "home-nas"])
def test_a_use_has_grouped_verdicts_with_reasons_that_stand_in_a_line(use, client):
    content = get_json(client, f"/buy/{use}.json")

    best = next(group for group in content["groups"] if group["verdicts"])
    assert best["word"] in ("recommended", "conditions")
    for one in best["verdicts"]:
        present = [reason for reason in one["reasons"] if reason["tone"] == "for"]
        assert all(reason["sources"] for reason in present)


def test_which_card_for_a_file_server_on_kernel_6_12_is_answered_at_the_top(client):
    page = get_page(client, "/buy/file-server?kernel=6.12")

    answer = page.first("section").text
    assert answer.startswith("Short answerLinux 6.12")
    assert "Recommended: cards with these drivers" in answer
    assert "igb" in answer
    assert "ConnectX" in answer


def test_the_page_of_2001_says_what_the_threads_said(client):
    content = get_json(client, "/buy/file-server.json?kernel=2.4.16")
    page = get_page(client, "/buy/file-server?kernel=2.4.16").text

    words = {card: word for card, (word, _) in verdicts_of(content).items()}
    assert words["3c905c"] == "recommended"
    assert words["starfire"] == "conditions"
    assert words["8139"] == "avoid"
    assert {words[card] for card in ("tulip", "pcnet32", "epic100")} == {"works"}
    for line in ("2596-2597", "2606", "151-152", "2541-2542", "2619", "2614-2617"):
        assert f"lkml-2001-zerocopy:{line}" in page


def test_a_measured_gain_stands_beside_the_verdict_with_n_hosts_and_date(client):
    word, igb = verdicts_of(get_json(client, "/buy/file-server.json?kernel=6.12"))["igb"]

    assert (word, igb["level"]) == ("recommended", "measured")
    assert igb["measured"]["gain"] == pytest.approx(0.5, rel=0.05)
    assert igb["measured"]["gain_words"] in (
        *("49 % less CPU than read_write at 64 KiB", "50 % less CPU than read_write at 64 KiB"),
        "51 % less CPU than read_write at 64 KiB",
    )
    assert igb["measured"]["breaks_even_at"] == 4096
    assert (igb["measured"]["n"], igb["measured"]["hosts"]) == (6, 1)
    assert igb["measured"]["newest"] == "2026-03-02"
    assert igb["measured"]["sender"] == pytest.approx(0.15, rel=0.05)
    assert igb["measured"]["receiver"] == pytest.approx(0.2)


def test_a_card_over_which_avoiding_the_copy_costs_more_is_to_avoid(client):
    word, ixgbe = verdicts_of(get_json(client, "/buy/file-server.json?kernel=6.12"))["ixgbe"]

    assert (word, ixgbe["rule"]) == ("avoid", "dearer")
    assert ixgbe["reasons"][0]["tone"] == "against"
    assert ixgbe["reasons"][0]["sources"][0]["address"].startswith("/cases/")


def test_with_measured_evidence_asked_for_the_others_are_not_enough(client):
    content = get_json(client, "/buy/file-server.json?kernel=6.12&evidence=measured")

    words = {card: word for card, (word, _) in verdicts_of(content).items()}
    assert words["igb"] == "recommended"
    assert words["mlx5_core"] == "open"
    _, mlx5 = verdicts_of(content)["mlx5_core"]
    assert mlx5["missing"] == ["a measurement of sendfile against read_write over this card"]


def test_a_machines_report_raises_the_evidence_or_is_a_conflict(client):
    found = verdicts_of(get_json(client, "/buy/file-server.json?kernel=6.12"))

    word, bnxt = found["bnxt_en"]
    assert (word, bnxt["level"]) == ("recommended", "probed")
    word, qede = found["qede"]
    assert (word, qede["rule"]) == ("open", "need-open")
    assert qede["reasons"][0]["text"] == (
        "the source says yes, a machine with Linux 6.12.101 says no"
    )


def test_measurements_of_one_time_do_not_judge_another(client):
    content = get_json(client, "/buy/file-server.json?kernel=2.4.16")

    assert all(
        one["measured"] is None or one["measured"]["is_published"]
        for _, one in verdicts_of(content).values()
    )


@pytest.mark.parametrize(
    ("query", "there", "not_there"),
    [
        ("kernel=6.12", "igb", "r8152"),
        ("kernel=6.12&bus=usb", "r8152", "igb"),
        ("kernel=6.12&speed=25g", "bnxt_en", "igb"),
        ("kernel=6.12&must=tls_tx", "mlx5_core", "igb"),
        ("kernel=6.12&medium=fibre", "bnxt_en", "r8169"),
        ("kernel=6.1", "igb", "rtase"),
        ("kernel=debian-12", "igb", "rtase"),
    ],
)
def test_a_filter_of_the_address_is_obeyed_and_what_it_hides_is_counted(
    query, there, not_there, client
):
    content = get_json(client, f"/buy/file-server.json?{query}")

    found = verdicts_of(content)
    assert there in found
    assert not_there not in found
    assert sum(count for _, count in content["hidden"]) > 0


def test_a_kernel_between_two_of_the_catalogue_says_which_one_answers(client):
    page = get_page(client, "/buy/file-server?kernel=ubuntu-24.04")

    assert (
        "Linux 6.8 is not in the catalogue; 6.1 is the newest"
        in page.first("p", class_="notice").text
    )


def test_an_unknown_use_names_the_known_ones(client):
    text = get_page(client, "/buy/gaming", status=404).first("main").text

    assert "There is no advice for a use 'gaming'; there is for file-server" in text


@pytest.mark.parametrize("use", USES)
def test_the_experiment_file_is_on_the_page_and_served_as_a_file(use, client):
    answer = client.get(f"/buy/{use}.toml")

    assert answer.content_type == "application/toml; charset=utf-8"
    assert spec.parse(answer.text, "served.toml").name == f"{use}-nic"
    shown = get_page(client, f"/buy/{use}").first("pre").text
    assert shown == " ".join(answer.text.split())


def test_the_list_of_uses_names_the_first_cards_of_each(client):
    content = get_json(client, "/buy.json?kernel=6.12")

    assert [line["use"] for line in content["uses"]] == list(USES)
    first = {line["use"]: line["first"] for line in content["uses"]}
    assert "igb (Intel)" in first["file-server"]
    assert get_page(client, "/buy?kernel=6.12").first("main").all("a")[0].attributes["href"]


def test_the_csv_has_a_line_for_every_reason(client):
    content = get_json(client, "/buy/packet.json?kernel=6.12")
    rows = list(csv.DictReader(io.StringIO(client.get("/buy/packet.csv?kernel=6.12").text)))

    reasons = [
        (one["name"], group["word"], reason["what"])
        for group in content["groups"]
        for one in group["verdicts"]
        for reason in one["reasons"]
    ]
    assert [(row["card"], row["verdict"], row["about"]) for row in rows] == reasons


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


# -- in a browser ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def origin(measured) -> Iterator[str]:
    with served(measured) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    from playwright.sync_api import sync_playwright

    path = browser_path()
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=path, args=list(BROWSER_FLAGS), timeout=120_000
        )
        yield launched
        launched.close()


@pytest.mark.browser
def test_the_filters_work_without_scripts(browser, origin):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{origin}/buy/file-server")

    page.get_by_label("Kernel or distribution").select_option("6.1")
    page.locator("select[name=speed]").select_option("25g")
    page.get_by_role("button", name="Show").click()

    assert "kernel=6.1" in page.url
    assert "speed=25g" in page.url
    assert page.locator("#h-answer + p").inner_text() == "Linux 6.1.192"
    context.close()
