"""Every page: what it says, that its twins say the same, and what it costs the database."""

from __future__ import annotations

import csv
import gzip
import io
import re

import pytest
from store_support import (
    NO_PERF,
    UNSUPPORTED_REASON,
    DemoIds,
    StatementCount,
    make_environment,
    make_run,
    run_trials,
    write_demo,
)
from web_support import (
    PAGES,
    Element,
    client_of,
    get_json,
    get_page,
    page_addresses,
    parse,
)

from zcdb.errors import StoreError
from zcdb.metrics import CPU_METHODS
from zcdb.store import queries, write
from zcdb.store.session import Database, open_database
from zcdb.webapp.filters import metric_number
from zcdb.webapp.quantities import quantity

pytest_plugins = ["store_fixtures"]

Demo = tuple[Database, DemoIds]

HTML_LIMIT_BYTES = 30 * 1024


@pytest.fixture(scope="module")
def client(demo):
    return client_of(demo[0])


@pytest.fixture
def empty_client(sqlite_db):
    return client_of(sqlite_db)


def twin(address: str, ending: str) -> str:
    return f"{'/index' if address == '/' else address}.{ending}"


def rows_of(table: Element) -> list[list[str]]:
    return [
        [cell.text for cell in row.children if isinstance(cell, Element)] for row in table.all("tr")
    ]


def table_named(page: Element, label: str) -> Element:
    return page.first("div", **{"aria-label": label}).first("table")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_without_inline_code_or_other_hosts(name, client, demo):
    page = get_page(client, page_addresses(demo[1])[name])

    assert page.first("html").attributes["lang"] == "en"
    assert len(page.all("main")) == len(page.all("h1")) == 1
    assert page.all("style") == []
    for element in page.all():
        assert "style" not in element.attributes
        assert not [key for key in element.attributes if key.startswith("on")]
        for key in ("src", "href", "data-plotly", "data-figure-url"):
            assert not re.match(r"(?:[a-z]+:)?//", element.attributes.get(key, ""))
    assert all(script.text == "" for script in page.all("script"))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_names_its_canonical_address_and_its_twins(name, client, demo):
    address = page_addresses(demo[1])[name]

    page = get_page(client, address)

    assert page.first("link", rel="canonical").attributes["href"] == address
    alternates = {link.attributes["type"]: link for link in page.all("link", rel="alternate")}
    assert alternates["application/json"].attributes["href"] == twin(address, "json")
    assert get_json(client, twin(address, "json"))["addresses"]["html"] == address
    assert client.get(alternates["text/csv"].attributes["href"]).status_code == 200


@pytest.mark.parametrize("name", PAGES)
def test_element_ids_of_a_page_are_unique_and_labels_lead_to_them(name, client, demo):
    page = get_page(client, page_addresses(demo[1])[name])

    ids = [element.attributes["id"] for element in page.all() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    for element in page.all():
        for wanted in element.attributes.get("aria-labelledby", "").split():
            assert wanted in ids


@pytest.mark.parametrize("name", PAGES)
def test_every_internal_link_of_a_page_leads_somewhere(name, client, demo):
    page = get_page(client, page_addresses(demo[1])[name])

    links = {link.attributes["href"] for link in page.all("a")}
    for address in links:
        path, _, fragment = address.partition("#")
        if not path:
            assert any(element.attributes.get("id") == fragment for element in page.all())
            continue
        answer = client.get(path)
        assert answer.status_code == 200, address
        if fragment:
            assert f'id="{fragment}"' in answer.text, address


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_small_when_compressed(name, client, demo):
    answer = client.get(page_addresses(demo[1])[name], headers={"Accept-Encoding": "gzip"})

    assert answer.headers["Content-Encoding"] == "gzip"
    assert len(answer.data) <= HTML_LIMIT_BYTES
    assert gzip.decompress(answer.data).startswith(b"<!doctype html>")


@pytest.mark.parametrize("name", PAGES)
def test_an_unknown_parameter_is_a_notice_in_html_and_an_error_in_json(name, client, demo):
    address = page_addresses(demo[1])[name]

    page = get_page(client, f"{address}?colour=red")
    error = get_json(client, f"{twin(address, 'json')}?colour=red", status=400)

    assert "colour" in page.first("p", role="status").text
    assert "'colour'" in error["error"]


@pytest.mark.parametrize("name", PAGES)
def test_a_copy_that_is_still_right_is_not_sent_again(name, client, demo):
    address = page_addresses(demo[1])[name]
    first = client.get(address)

    again = client.get(address, headers={"If-None-Match": first.headers["ETag"]})

    assert first.headers["Cache-Control"] == "no-cache"
    assert (again.status_code, again.data) == (304, b"")


@pytest.fixture(scope="module")
def larger(tmp_path_factory):
    """A database with three times as many runs, and the ids of the demo that is in it."""
    database = open_database(tmp_path_factory.mktemp("larger") / "larger.sqlite")
    ids = write_demo(database)
    for number in range(3, 7):
        run = make_run(number, repetitions=2)
        write.add_run(database, run)
        run_trials(database, run, make_environment(), seed=number)
        write.finish_run(database, run.id, "finished", {})
    yield database, ids
    database.dispose()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_asks_as_many_statements_of_a_larger_database(name, demo, larger):
    counts = []
    for database, ids in (demo, larger):
        client = client_of(database)
        with StatementCount(database) as count:
            get_page(client, page_addresses(ids)[name])
        counts.append(len(count))

    assert counts[0] == counts[1] <= 30


def test_the_first_page_shows_the_newest_finding_as_a_sentence_with_its_interval(client, demo):
    finding = get_page(client, "/").first("p", class_="answer__text").text

    assert re.fullmatch(
        r"sendfile at message size \S+ KiB is ↓ better than write: service demand of the sender"
        r" by soak −4\d\.\d % \[−\d\d\.\d %, −\d\d\.\d %\], n = 5\.",
        finding,
    ), finding


def test_an_empty_database_says_how_to_measure(empty_client):
    home = get_page(empty_client, "/")

    assert home.first("pre").text == "zcdb run"
    assert "database is empty" in home.text
    assert get_json(empty_client, "/index.json")["findings"] == []
    for address in ("/experiments", "/runs"):
        assert "zcdb run" in get_page(empty_client, address).first("main").text


def test_an_experiment_opens_with_the_verdicts_in_words(client, demo):
    page = get_page(client, "/experiments/quickstart")

    sections = page.first("main").all("section")
    answer = [entry.text for entry in sections[0].all("p", class_="answer__text")]
    assert sections[0].first("h2").text == "Answer"
    assert len(answer) == 7
    assert answer[-1].startswith("io_uring_send_zc at message size 64 KiB is ? undecided against")
    assert sections[1].first("h2").text == "Charts"
    assert "The kernel copied every byte after all" in sections[0].text


def test_an_experiment_sets_what_was_declared_against_what_was_measured(client, demo):
    page = get_page(client, "/experiments/quickstart")

    rows = {row[0]: row[1:] for row in rows_of(table_named(page, "Declared against measured"))}
    # The demo's older run is of another version, which has its own coverage.
    assert rows["io_uring_send_zc · 64 KiB"] == ["5", "0", "–", "5"]
    assert rows["read_write · 4 KiB"] == ["5", "4", "1", "–"]


def test_an_older_version_of_an_experiment_keeps_its_own_page(client, demo):
    versions = get_json(client, "/experiments/quickstart.json")["versions"]

    older = get_json(client, f"/experiments/quickstart.json?version={versions[1]['id']}")

    assert len(versions) == 2
    assert older["answer_run"]["id"] == demo[1].older_run_id
    assert older["declared"] == 8


def test_the_experiment_file_can_be_saved_as_it_was_written(client):
    answer = client.get("/experiments/quickstart.toml")

    assert answer.content_type == "application/toml; charset=utf-8"
    assert answer.text.startswith('name = "quickstart"')


@pytest.mark.parametrize("address", ["/experiments/quickstart", "run"])
def test_every_case_shows_both_ends_by_every_method_with_interval_and_n(address, client, demo):
    address = f"/runs/{demo[1].run_id}" if address == "run" else address
    found = get_json(client, f"{address}.json")
    page = get_page(client, address)
    table = table_named(page, "Throughput and CPU cost of every case")

    bodies = table.all("tbody")
    assert len(bodies) == len(found["cases"]) == 9
    for body, case in zip(bodies, found["cases"], strict=True):
        rows = body.all("tr")
        if not case["ok"]:
            assert "nothing measured" in body.text
            continue
        assert [row["method"] for row in case["cpu"]] == ["soak", "soak_work", "procstat", "rusage"]
        for row, numbers in zip(rows, case["cpu"], strict=True):
            cells = [cell.text for cell in row.all("td")]
            assert cells[0] == numbers["method"]
            assert cells[1:5] == [shown(estimate) for estimate in numbers["cells"]]
            assert cells[5] == str(case["ok"])
        assert shown(case["throughput"]) in rows[0].first("th").text


def shown(estimate: dict) -> str:
    """Return an estimate of a JSON twin as the page must show it."""
    number = metric_number(estimate["mean"], estimate["metric"])
    unit = quantity(estimate["metric"], [estimate["mean"]])
    interval = unit.interval(estimate["mean"], estimate["low"], estimate["high"])
    return f"{number} {interval}".strip()


def test_verdict_table_and_json_say_the_same(client, demo):
    address = f"/runs/{demo[1].run_id}"
    metrics = get_json(client, f"{address}.json")["answer"]["metrics"]

    bodies = table_named(get_page(client, address), "Verdicts").all("tbody")

    assert [metric["metric"] for metric in metrics] == [
        "service_demand_sender",
        "throughput",
        "service_demand_receiver",
    ]
    for body, metric in zip(bodies, metrics, strict=True):
        for row, case in zip(body.all("tr")[1:], metric["rows"], strict=True):
            text = row.text
            assert text.startswith(case["name"])
            if case["judged"] is None:
                assert case["role"] in text
            else:
                assert f"{case['judged']['arrow']} {case['judged']['word']}" in text
                assert case["judged"]["interval"] in text
            assert metric_number(case["estimate"]["mean"], metric["metric"]) in text


def test_zero_copy_that_was_copied_is_called_copied_everywhere(client, demo):
    case = f"/cases/{demo[1].case_ids['msg_zerocopy', 65536]}"

    for address in (f"/trials/{demo[1].copied_trial_id}", case):
        assert get_page(client, address).first("h1").first("span", class_="tag").text == "copied"
    run = table_named(
        get_page(client, f"/runs/{demo[1].run_id}"), "Throughput and CPU cost of every case"
    )
    marked = [body for body in run.all("tbody") if body.all("span", class_="tag--warn")]
    assert [body.first("a").text.split(" ")[0] for body in marked] == ["msg_zerocopy"] * 2
    proof = get_json(client, f"/trials/{demo[1].copied_trial_id}.json")["proof"]
    assert proof.startswith("Not zero copy")


def test_a_trial_shows_every_number_or_the_reason_why_it_is_missing(client, demo):
    address = f"/trials/{demo[1].ok_trial_id}"
    found = get_json(client, f"{address}.json")

    page = get_page(client, address)

    rows = {row[0]: row[1:] for row in rows_of(table_named(page, "CPU figures by method"))}
    assert list(rows)[1:] == list(CPU_METHODS)
    for row in found["cpu"]:
        numbers = [metric_number(cell["mean"], cell["metric"]) for cell in row["cells"]]
        assert rows[row["method"]] == numbers
    assert f"No perf: {NO_PERF}." in page.text
    others = {row[0]: row for row in rows_of(table_named(page, "All other metrics"))}
    assert others["Copied share"][-1] == "write has no completions"
    assert others["Retransmits"][2:] == ["0", "segments"]


def test_a_trial_lists_its_flags_with_what_they_say_and_what_raised_them(client, demo):
    flags = get_page(client, f"/trials/{demo[1].copied_trial_id}").first("ul", class_="flags")

    text = flags.all("li")[1].text
    assert text.startswith("copied Zero copy was asked for, but the kernel says it copied bytes.")
    assert text.endswith("31250 of 31250 completions say so")


@pytest.mark.parametrize(
    ("which", "status", "reason"),
    [
        ("failed_trial_id", "failed", "the receiver stopped reading: no byte for 5 s"),
        ("unsupported_trial_id", "unsupported", UNSUPPORTED_REASON),
        ("interrupted_trial_id", "failed", "interrupted"),
    ],
)
def test_a_trial_that_measured_nothing_says_why(which, status, reason, client, demo):
    page = get_page(client, f"/trials/{getattr(demo[1], which)}")

    outcome = page.first("section")
    assert outcome.first("p").text == f"{status} {reason}"


def test_a_repeated_attempt_and_the_interrupted_one_lead_to_each_other(client, demo):
    interrupted, retried = demo[1].interrupted_trial_id, demo[1].retried_trial_id

    page = get_page(client, f"/trials/{retried}")

    assert f"/trials/{interrupted}" in [link.attributes["href"] for link in page.all("a")]
    assert "attempt 2" in page.text


def test_a_run_shows_the_outcome_of_every_place_of_its_plan(client, demo):
    page = get_page(client, f"/runs/{demo[1].run_id}")

    rows = rows_of(table_named(page, "Plan with the outcome of every trial"))[1:]
    outcomes = [row[3] for row in rows]
    assert len(rows) == 45
    assert [row[0] for row in rows] == [str(place) for place in range(1, 46)]
    assert outcomes.count("unsupported") == 5
    assert outcomes.count("failed") == 1
    assert outcomes.count("failed ok") == 1, "an interrupted attempt and the one after it"


def test_a_long_plan_goes_on_at_another_address(client, demo):
    address = f"/runs/{demo[1].run_id}?from=40"

    page = get_page(client, address)

    assert page.first("link", rel="canonical").attributes["href"] == address
    assert len(rows_of(table_named(page, "Plan with the outcome of every trial"))) == 1 + 5


def test_a_case_lists_its_trials_of_all_runs_and_its_neighbours(client, demo):
    page = get_page(client, f"/cases/{demo[1].baseline_case_id}")

    trials = rows_of(table_named(page, "Trials"))[1:]
    sizes = rows_of(table_named(page, "Cases along Message size"))[1:]
    assert len(trials) == 10
    assert [row[0] for row in sizes] == [
        "4 KiB",
        "64 KiB (this case)",
    ]
    apis = {row[0] for row in rows_of(table_named(page, "Cases along API"))[1:]}
    assert apis == {
        "io_uring_send_zc",
        "msg_zerocopy copied",
        "read_write",
        "sendfile",
        "write (this case)",
    }


def test_an_environment_shows_its_facts_and_runs(client, demo):
    page = get_page(client, f"/environments/{demo[1].environment_id}")

    assert "clock_source" in page.text
    assert "85 trials had an end here" in page.text or "86 trials had an end here" in page.text


def test_methods_explain_every_metric_method_and_flag(client):
    page = get_page(client, "/methods")

    ids = {element.attributes.get("id") for element in page.all()}
    assert {"service_demand_sender", "soak", "flag-copied", "verdicts", "factor-api"} <= ids


@pytest.mark.parametrize("name", PAGES)
def test_every_chart_has_a_table_and_a_twin_for_plotly(name, client, demo):
    page = get_page(client, page_addresses(demo[1])[name])

    for chart in page.all("figure"):
        button = chart.first("button")
        described = get_json(client, button.attributes["data-figure-url"])
        rows = rows_of(chart.first("details").first("table"))
        assert len(rows) - 1 == sum(len(trace["x"]) for trace in described["data"])
        assert "hidden" in button.attributes, "without scripts the button would do nothing"


def test_the_csv_of_a_run_holds_every_figure_in_base_units(client, demo):
    address = f"/runs/{demo[1].run_id}"
    cases = get_json(client, f"{address}.json")["cases"]

    rows = list(csv.DictReader(io.StringIO(client.get(f"{address}.csv").text)))

    for case in cases:
        for row in case["cpu"]:
            for cell in row["cells"]:
                found = next(
                    line
                    for line in rows
                    if (line["case_id"], line["metric"], line["method"])
                    == (case["case_id"], cell["metric"], cell["method"])
                )
                assert float(found["mean"]) == cell["mean"]


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("/trials/" + "0" * 32, f"There is no trial {'0' * 32} in this database."),
        ("/cases/" + "f" * 32, f"There is no case {'f' * 32} in this database."),
        ("/environments/" + "a" * 32, f"There is no environment {'a' * 32} in this database."),
        ("/experiments/nothing", "There is no experiment nothing in this database."),
        ("/nowhere", "There is no page at /nowhere."),
    ],
)
def test_what_is_not_there_is_named_and_leads_back(address, sentence, client):
    page = get_page(client, address, status=404)
    error = get_json(client, f"{address}.json", status=404)

    assert page.first("p", class_="page-head__lead").text == sentence
    assert page.first("main").all("a")
    assert error["error"].replace(".json", "") == sentence


@pytest.mark.parametrize(
    ("address", "form"),
    [
        ("/trials/xyz", "32 hexadecimal digits"),
        ("/runs/1", "a UUID"),
        ("/cases/%3Cscript%3E", "32 hexadecimal digits"),
        ("/experiments/quickstart?version=new", "32 hexadecimal digits"),
    ],
)
def test_an_impossible_id_is_a_bad_request_that_says_the_form(address, form, client):
    page = get_page(client, address, status=400)

    assert form in page.first("p", class_="page-head__lead").text


@pytest.mark.parametrize("position", ["-1", "x", "1e3", "9" * 30, "١"])
def test_an_impossible_place_in_a_plan_is_a_bad_request(position, client, demo):
    assert client.get(f"/runs/{demo[1].run_id}?from={position}").status_code == 400


def test_a_name_from_outside_is_escaped(client):
    answer = client.get("/experiments/%3Cscript%3Ealert(1)%3C/script%3E")

    assert answer.status_code == 404
    assert "<script>alert" not in answer.text
    parse(answer.text)


def test_only_reading_is_possible(client):
    answer = client.post("/runs")

    assert answer.status_code == 405
    assert "Set-Cookie" not in answer.headers


def test_health_needs_no_database_and_readiness_asks_it(client, demo):
    with StatementCount(demo[0]) as count:
        assert client.get("/healthz").text == "ok\n"
    assert len(count) == 0
    assert client.get("/readyz").text == "ready\n"


def test_a_database_that_cannot_be_read_is_a_503_with_its_sentence(demo, monkeypatch):
    def broken(*_: object, **__: object) -> None:
        raise StoreError("the disk is gone", hint="Plug it in again.")

    monkeypatch.setattr(queries, "run_list", broken)

    page = get_page(client_of(demo[0]), "/runs", status=503)

    assert page.first("p", class_="page-head__lead").text == "the disk is gone Plug it in again."


def test_a_fault_of_ours_is_a_500_that_shows_nothing_of_the_inside(demo, monkeypatch):
    def faulty(*_: object, **__: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(queries, "run_list", faulty)

    page = get_page(client_of(demo[0]), "/runs", status=500)

    assert "the fault is zcdb's" in page.text
    assert "secret" not in page.text


def test_a_list_goes_on_after_any_text_without_breaking_its_links(client):
    page = get_page(client, "/experiments?after=%22%3E%26x")

    canonical = page.first("link", rel="canonical").attributes["href"]
    assert canonical == "/experiments?after=%22%3E%26x"


@pytest.mark.parametrize("address", ["/experiments/a%00b", "/experiments?after=%00", "/runs?%00=1"])
def test_a_nul_is_refused_by_a_sentence(client, address):
    page = get_page(client, address, status=400)

    assert "holds a NUL character" in page.first("p", class_="page-head__lead").text
