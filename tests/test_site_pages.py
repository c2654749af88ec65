"""Reference and tool pages: complete, small, linked, with twins, at addresses that stay."""

from __future__ import annotations

import gzip
import json
import re
from datetime import UTC, datetime

import pytest
from site_support import HOST_HASH, KERNELS, measure, write_site
from store_support import StatementCount, make_environment
from web_support import client_of, get_json, get_page

from zcdb.store import write
from zcdb.store.models import Base
from zcdb.store.session import open_database
from zcdb.webapp import NAVIGATION, SITE_MAP, create_app
from zcdb.webapp.charts.curves import (
    CostPoint,
    Curve,
    CurvePoint,
    Distribution,
    latency_distribution,
    ratio_curves,
    scatter,
)
from zcdb.webapp.charts.figure import numbers
from zcdb.webapp.charts.plotly_json import plotly_figure
from zcdb.webapp.charts.svg import document
from zcdb.webapp.present.cite import cite
from zcdb.webapp.present.methods import TOPICS, prose
from zcdb.webapp.present.prose import inline, to_html
from zcdb.webapp.views.meta import REDIRECTS

pytest_plugins = ["store_fixtures"]

HTML_LIMIT_BYTES = 30 * 1024
CSS_LIMIT_BYTES = 12 * 1024
JS_LIMIT_BYTES = 15 * 1024

PAGES = (
    *("/", "/questions", "/questions/zero-copy", "/questions/kernels", "/break-even", "/flags"),
    *("/calculator", "/hosts", f"/hosts/{HOST_HASH}", "/kernels", "/kernels/6.12.0", "/diff"),
    *("/glossary", "/data", "/methods", *(f"/methods/{name}" for name in TOPICS)),
)


PROSE = tuple(f"/methods/{topic.name}" for topic in TOPICS.values() if not topic.registry)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    db = open_database(tmp_path_factory.mktemp("site") / "site.sqlite")
    ids = write_site(db)
    yield db, ids
    db.dispose()


@pytest.fixture(scope="module")
def client(made):
    return client_of(made[0])


def twin(address, ending):
    return f"{'/index' if address == '/' else address}.{ending}"


@pytest.mark.parametrize("address", PAGES)
def test_a_page_is_whole_without_inline_code_or_other_hosts(address, client):
    page = get_page(client, address)

    assert len(page.all("main")) == len(page.all("h1")) == 1
    assert page.all("style") == []
    for element in page.all():
        assert "style" not in element.attributes
        assert not [key for key in element.attributes if key.startswith("on")]
        for key in ("src", "href", "data-plotly", "data-figure-url", "data-png-of"):
            assert not re.match(r"(?:[a-z]+:)?//", element.attributes.get(key, ""))


@pytest.mark.parametrize("address", PAGES)
def test_a_page_names_its_canonical_address_and_has_its_twins(address, client):
    page = get_page(client, address)

    assert page.first("link", rel="canonical").attributes["href"] == address
    assert get_json(client, twin(address, "json"))["addresses"]["html"] == address
    csv_links = [
        link for link in page.all("link", rel="alternate") if link.attributes["type"] == "text/csv"
    ]
    # The tables of a topic's prose are no data; those of a registry are.
    assert csv_links or address in PROSE
    for link in csv_links:
        assert client.get(link.attributes["href"]).status_code == 200


@pytest.mark.parametrize("address", PAGES)
def test_ids_are_unique_and_what_labels_name_is_there(address, client):
    page = get_page(client, address)

    ids = [element.attributes["id"] for element in page.all() if "id" in element.attributes]
    assert sorted(ids) == sorted(set(ids))
    for element in page.all():
        for wanted in element.attributes.get("aria-labelledby", "").split():
            assert wanted in ids


@pytest.mark.parametrize("address", PAGES)
def test_every_internal_link_leads_somewhere(address, client):
    page = get_page(client, address)

    for link in {link.attributes["href"] for link in page.all("a")}:
        path, _, fragment = link.partition("#")
        if not path:
            assert any(element.attributes.get("id") == fragment for element in page.all()), link
            continue
        answer = client.get(path, follow_redirects=True)
        assert answer.status_code == 200, link
        if fragment:
            assert f'id="{fragment}"' in answer.text, link


@pytest.mark.parametrize("address", PAGES)
def test_a_page_is_small_and_not_sent_again_while_it_is_right(address, client):
    first = client.get(address, headers={"Accept-Encoding": "gzip"})

    again = client.get(
        address,
        headers={"Accept-Encoding": "gzip", "If-None-Match": first.headers["ETag"]},
    )

    assert len(first.data) <= HTML_LIMIT_BYTES
    assert (again.status_code, again.data) == (304, b"")


@pytest.mark.parametrize("address", PAGES)
def test_an_unknown_parameter_is_a_notice_in_html_and_an_error_in_json(address, client):
    page = get_page(client, f"{address}?colour=red")
    error = get_json(client, f"{twin(address, 'json')}?colour=red", status=400)

    assert "colour" in page.first("p", role="status").text
    assert "'colour'" in error["error"]


def test_pages_ask_as_many_statements_of_a_larger_database(made, tmp_path):
    larger = open_database(tmp_path / "larger.sqlite")
    write_site(larger, more_runs=3)

    for address in PAGES:
        counts = []
        for database in (made[0], larger):
            client = client_of(database)
            with StatementCount(database) as count:
                get_page(client, address)
            counts.append(len(count))
        # The first page asks for three whole runs.
        limit = 50 if address == "/" else 30
        assert counts[0] == counts[1] <= limit, address
    larger.dispose()


# -- frame ----------------------------------------------------------------------------------------


def test_the_head_has_at_most_eight_entries_and_the_foot_has_all_pages(client):
    page = get_page(client, "/glossary")

    head = page.first("nav", **{"aria-label": "Site"})
    foot = page.first("nav", **{"aria-label": "All pages"})
    assert len(head.all("a")) == len(NAVIGATION) <= 8
    assert [link.attributes["href"] for link in foot.all("a")] == [
        address for _, pages in SITE_MAP for address, _ in pages
    ]


def test_style_and_script_are_within_their_budgets(client):
    page = get_page(client, "/questions/zero-copy")

    css = client.get(page.first("link", rel="stylesheet").attributes["href"]).data
    script = client.get(page.first("script").attributes["src"]).data
    assert len(gzip.compress(css)) <= CSS_LIMIT_BYTES
    assert len(script) <= JS_LIMIT_BYTES


def test_every_route_that_had_another_name_leads_on_for_ever(client):
    assert set(REDIRECTS) >= {
        *("/index", "/zero-copy", "/breakeven", "/environments", "/factors", "/metrics"),
        *("/buying", "/feed", "/openapi.json"),
    }
    for old, new in REDIRECTS.items():
        answer = client.get(f"{old}?api=write")
        assert (answer.status_code, answer.headers["Location"]) == (301, f"{new}?api=write")
        assert client.get(new).status_code == 200


def test_an_address_in_capitals_leads_to_the_one_in_lower_case(client):
    answer = client.get("/Questions/zero-copy?api=sendfile")

    assert (answer.status_code, answer.headers["Location"]) == (
        301,
        "/questions/zero-copy?api=sendfile",
    )
    assert client.get("/kernels/2.4.1+ZEROCOPY").status_code == 404


def test_the_same_state_has_one_canonical_address(client):
    one = get_page(client, "/questions/zero-copy?sender_kernel=6.12.0&message_size=64K")
    other = get_page(client, "/questions/zero-copy?message_size=65536&sender_kernel=6.12.0")

    addresses = {page.first("link", rel="canonical").attributes["href"] for page in (one, other)}
    assert addresses == {"/questions/zero-copy?message_size=65536&sender_kernel=6.12.0"}


# -- the first page -------------------------------------------------------------------------------


def test_the_first_page_offers_the_questions_and_a_search(client):
    page = get_page(client, "/")

    links = {link.attributes["href"] for link in page.first("main").all("a")}
    assert {"/questions/zero-copy", "/questions/then-and-now", "/break-even"} <= links
    form = page.first("form", role="search")
    assert (form.attributes["action"], form.first("input").attributes["name"]) == ("/explore", "q")
    assert client.get("/explore?q=sendfile").status_code == 200


def test_the_first_page_tells_what_is_new_on_record(client):
    news = get_json(client, "/index.json")["news"]

    assert {one["kind"] for one in news} <= {"source", "report"}
    for one in news:
        assert client.get(one["address"], follow_redirects=True).status_code == 200


# -- reference ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["glossary.md", "method.md"])
def test_the_documents_that_the_site_ships_are_those_of_docs(name, project_folder):
    shipped = (project_folder / "webapp" / "static" / name).read_bytes()

    assert shipped == (project_folder / "docs" / name).read_bytes(), f"copy docs/{name} again"


def test_every_word_of_the_glossary_is_on_its_page(client, project_folder):
    text = (project_folder / "docs" / "glossary.md").read_text()
    words = re.findall(r"^\*\*(.+?)\.\*\*", text, re.MULTILINE)

    terms = get_json(client, "/glossary.json")["terms"]

    assert [term["term"] for term in terms] == words
    assert len(words) > 30


def test_every_part_of_the_method_belongs_to_a_topic():
    told = [heading for topic in TOPICS.values() for heading in topic.headings]

    assert sorted(told) == sorted(prose())


def test_the_page_of_all_words_keeps_the_anchors_that_pages_lead_to(client):
    text = client.get("/methods").text

    for anchor in ("service_demand_sender", "soak", "cpu-methods", "verdicts", "flag-copied",
                   "factor-api", "verdict-better"):  # fmt: skip
        assert f'id="{anchor}"' in text


def test_the_dictionary_has_every_table_and_column(client):
    tables = {table["name"]: table for table in get_json(client, "/data.json")["tables"]}

    assert set(tables) == set(Base.metadata.tables)
    for name, table in Base.metadata.tables.items():
        assert [c["name"] for c in tables[name]["columns"]] == list(table.columns.keys())


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a `b<c` d", "a <code>b&lt;c</code> d"),
        ("**bold `x`**", "<strong>bold <code>x</code></strong>"),
        ("<script>", "&lt;script&gt;"),
        ("[label](docs/cli.md)", "label"),
        ("[label](https://elsewhere)", "label"),
        ("[label](/methods)", '<a href="/methods">label</a>'),
    ],
)
def test_a_line_of_a_document_becomes_safe_html(text, html):
    assert str(inline(text)) == html


def test_blocks_of_a_document_become_html():
    table = "| a | b |\n|---|--:|\n| 1 | 2 |\n"
    lists = "- one\n  two\n- three\n"
    code = "```\nx < y\n```\n\n    set in\n"

    html = str(to_html(f"para\nmore\n\n{lists}\n{code}\n{table}"))

    assert "<p>para more</p>" in html
    assert "<li>one two</li><li>three</li>" in html
    assert "<code>x &lt; y</code>" in html
    assert "<code>set in</code>" in html
    assert "<td class='num'>2</td>" in html


# -- hosts, kernels, differences -------------------------------------------------------------------


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """A host that was met in two states, the second one after a change."""
    db = open_database(tmp_path_factory.mktemp("changed") / "changed.sqlite", with_history=False)
    case = [{"api": "write", "message_size": 4096}]
    measure(db, 1, case, lambda _: {"throughput": 1e9}, kernel="6.9.0")
    measure(db, 2, case, lambda _: {"throughput": 1e9}, kernel="6.12.0")
    yield client_of(db)
    db.dispose()


def test_a_host_lists_the_states_it_was_met_in_and_what_changed(changed):
    host = get_json(changed, f"/hosts/{HOST_HASH}.json")

    assert [state["trials"] for state in host["states"]] == [5, 5]
    assert host["states"][0]["changed"] == ["kernel.release", "kernel_release"]
    assert host["states"][1]["diff_address"] == ""
    assert len(host["runs"]) == 2
    page = get_page(changed, host["states"][0]["diff_address"])
    assert "Both are of one host." in page.text


def test_the_difference_of_two_environments_has_each_fact_of_both(changed):
    states = get_json(changed, f"/hosts/{HOST_HASH}.json")["states"]
    ids = [state["environment_id"] for state in states]

    found = get_json(changed, f"/diff.json?a={ids[1]}&b={ids[0]}")
    same = get_json(changed, f"/diff.json?a={ids[0]}&b={ids[0]}")

    changes = {one["name"]: (one["first"], one["second"]) for one in found["changes"]}
    assert changes["kernel.release"] == ("6.9.0", "6.12.0")
    assert "cpus" in {name for name, _ in found["same"]}
    assert same["changes"] == []


def test_a_difference_offers_environments_until_two_are_chosen(changed):
    page = get_page(changed, "/diff")

    assert len(page.first("select", name="a").all("option")) == 3
    assert "Choose two of the 2 environments" in page.text


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/diff?a=xyz", 400),
        (f"/diff?a={'0' * 32}", 404),
        ("/hosts/0123456789ff", 404),
        ("/hosts/HOST", 400),
        ("/kernels/9.9.9", 404),
        ("/methods/astrology", 404),
    ],
)
def test_what_is_not_there_says_so(address, status, client):
    page = get_page(client, address, status=status)

    assert page.first("p", class_="page-head__lead").text


def test_environments_without_a_host_name_are_listed_apart(tmp_path):
    db = open_database(tmp_path / "nameless.sqlite", with_history=False)
    facts = dict(make_environment().facts)
    del facts["hostname_hash"]
    write.add_environment(db, type(make_environment())(facts))

    page = get_page(client_of(db), "/hosts")
    db.dispose()

    assert "1 environment of hosts that have no name" in page.text


def test_a_kernel_leads_to_its_neighbours_and_its_cases(client):
    found = get_json(client, "/kernels/6.9.0.json")

    assert found["after"] == "6.12.0"
    assert found["before"] not in (None, *KERNELS[2:])
    assert found["cases_total"] == 2


# -- charts ---------------------------------------------------------------------------------------


def test_every_chart_is_an_svg_and_a_csv_of_its_own(client, made):
    for address in ("/questions/zero-copy", "/break-even", f"/cases/{made[1]['latency']}"):
        page = get_page(client, address)
        assert page.all("figure"), address
        for figure in page.all("figure"):
            forms = {
                link.text: link.attributes["href"]
                for link in figure.first("div", class_="chart__tools").all("a")
            }
            svg = client.get(forms["SVG"])
            assert svg.content_type == "image/svg+xml"
            assert svg.text.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
            rows = client.get(forms["CSV"]).text.splitlines()
            traces = get_json(client, forms["JSON"])["data"]
            assert len(rows) - 1 == sum(len(trace["x"]) for trace in traces)
            button = figure.first("button", **{"data-png-of": forms["SVG"]})
            assert "hidden" in button.attributes, "without scripts the button would do nothing"


def test_a_run_shows_throughput_against_cost(client):
    runs = get_json(client, "/runs.json")["runs"]
    sweep = next(run for run in runs if run["experiment_name"] == "made-1")

    charts = get_json(client, f"/runs/{sweep['id']}.json")["charts"]
    chart = get_json(client, charts["cost-against-throughput"])

    assert sum(len(trace["x"]) for trace in chart["data"]) == 12


FIGURES = [
    ratio_curves(
        "curves",
        "service_demand_sender",
        [Curve("sendfile", (CurvePoint(1024, 1.2, 1.1, 1.3), CurvePoint(4096, 0.8, None, None)))],
    ),
    scatter(
        "scatter",
        "service_demand_sender",
        "soak",
        [
            CostPoint("write", "write", 1e9, 0.2, 0.19, 0.21),
            CostPoint("x", "x", 2e9, 0.1, None, None),
        ],
    ),
    latency_distribution("latency", [Distribution("rr", ((0.5, 2e-5), (0.9, 5e-5), (0.99, 1e-3)))]),
]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.key)
def test_both_renderers_draw_every_point(figure):
    points = sum(len(series.x) for series in figure.series)

    drawn = plotly_figure(figure)

    assert sum(len(trace["x"]) for trace in drawn["data"]) == points
    assert len(numbers(figure).rows) == points
    assert document(figure).count("chart-mark") >= points
    json.dumps(drawn, allow_nan=False)


# -- citing ---------------------------------------------------------------------------------------


def test_a_citation_names_what_where_and_when_and_is_safe_in_latex():
    at = datetime(2026, 3, 1, tzinfo=UTC)

    cited = cite("run", "0195", "a_b & 5 %", "http://host/runs/0195", at, "1.0")

    assert cited.text == "a_b & 5 %. zcdb run 0195, measured 2026-03-01. http://host/runs/0195"
    assert "title = {a\\_b \\& 5 \\%}" in cited.bibtex
    assert "year = {2026}" in cited.bibtex


def test_case_trial_run_and_experiment_say_how_to_cite_them(client, made):
    run = get_json(client, "/runs.json")["runs"][0]
    case = made[1]["write 64 KiB"]
    trial = get_json(client, f"/cases/{case}.json")["trials"][0]["trial"]["id"]

    for address, id in (
        (f"/cases/{case}", case),
        (f"/trials/{trial}", trial),
        (f"/runs/{run['id']}", run["id"]),
        (f"/experiments/{run['experiment_name']}", run["experiment_id"]),
    ):
        page = get_page(client, address)
        box = page.first("pre", **{"aria-label": "BibTeX"}).text
        assert box.startswith("@misc{zcdb-")
        assert id in box.replace("\\", "")


def test_live_pages_say_which_data_they_are_of(made):
    client = create_app({"DATABASE": made[0]}).test_client()

    for address in ("/questions/zero-copy", "/break-even", "/flags", "/calculator"):
        revision = get_json(client, twin(address, "json"))["revision"]
        assert revision > 0
        page = get_page(client, address)
        assert page.first("p", class_="live").text.startswith("Live, data revision")
