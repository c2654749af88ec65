"""/api/v1: the JSON of every page, described, with errors as JSON."""

from __future__ import annotations

import re

import pytest
from site_support import HOST_HASH, write_site
from web_support import client_of, get_json

from zcdb.factors import FACTORS
from zcdb.report import freeze
from zcdb.store.session import open_database
from zcdb.webapp import create_app
from zcdb.webapp.api_pages import PAGES
from zcdb.webapp.schemas import Schemas
from zcdb.webapp.views import api

pytest_plugins = ["store_fixtures"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    db = open_database(tmp_path_factory.mktemp("api") / "api.sqlite")
    ids = write_site(db)
    report = freeze.freeze(db, "axis=api&a=write&b=sendfile", "frozen")
    yield db, ids, report
    db.dispose()


@pytest.fixture(scope="module")
def app(made):
    return create_app({"DATABASE": made[0]})


@pytest.fixture(scope="module")
def client(made):
    return client_of(made[0])


@pytest.fixture(scope="module")
def described(client):
    return get_json(client, "/api/v1/openapi.json")


@pytest.fixture(scope="module")
def variables(client, made):
    """A value for every variable of a path."""
    run = get_json(client, "/runs.json")["runs"][0]
    case = made[1]["write 64 KiB"]
    trial = get_json(client, f"/cases/{case}.json")["trials"][0]["trial"]
    source = get_json(client, "/sources.json")["sources"][0]
    table = get_json(client, "/history.json")["documents"][0]["tables"][0]
    return {
        "run_id": run["id"],
        "case_id": case,
        "trial_id": trial["id"],
        "environment_id": trial["environment_ids"]["sender"],
        "source_id": source["id"],
        "report_id": made[2].id,
        "host_id": HOST_HASH,
        "release": "6.12.0",
        "device_id": "8086:1533",
        "driver": "igb",
        "use": "file-server",
        "topic": "window",
        "experiments/{name}": run["experiment_name"],
        "questions/{name}": "zero-copy",
        "history/{name}": table["name"],
    }


def filled(path, variables):
    def value(match):
        folder = path[: match.start()].rstrip("/").rpartition("/")[2]
        return variables.get(f"{folder}/{match[0]}") or variables[match[1]]

    return re.sub(r"\{(\w+)\}", value, path)


def test_the_description_has_every_page_of_the_site(app, described):
    pages = {
        re.sub(r"<(\w+)>", r"{\1}", rule.rule.removesuffix(".json"))
        for rule in app.url_map.iter_rules()
        if (rule.defaults or {}).get("form") == "json" and not rule.rule.startswith("/api/")
    }

    assert {f"/api/v1{page}" for page in pages} | {"/api/v1/reports/{report_id}"} == set(
        described["paths"]
    )
    assert described["openapi"] == "3.1.0"
    ids = [path["get"]["operationId"] for path in described["paths"].values()]
    assert len(ids) == len(set(ids))


def test_every_reference_of_the_description_leads_to_a_schema(client, described):
    text = client.get("/api/v1/openapi.json").text

    for name in set(re.findall(r'"#/components/schemas/(\w+)"', text)):
        assert described["components"]["schemas"][name], name


def test_every_answer_has_the_content_that_is_described(client, described, variables):
    validators = pytest.importorskip("jsonschema_rs")

    for path, item in described["paths"].items():
        address = filled(path, variables)
        answer = client.get(address)
        assert answer.status_code == 200, address
        assert answer.content_type == "application/json"
        schema = item["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        whole = {**schema, "components": described["components"]}
        validator = validators.Draft202012Validator(whole)
        problems = [str(error)[:300] for error in validator.iter_errors(answer.get_json())][:3]
        assert problems == [], address


def test_an_answer_is_the_json_twin_of_the_page(client, variables):
    for path in ("/questions/{name}", "/cases/{case_id}", "/break-even", "/runs"):
        address = filled(f"/api/v1{path}", variables)
        page = address.removeprefix("/api/v1")
        assert client.get(address).data == client.get(f"{page}.json").data


def test_a_frozen_report_comes_byte_by_byte(client, made):
    answer = client.get(f"/api/v1/reports/{made[2].id}")

    assert answer.data == made[2].content


def test_the_parameters_described_are_those_the_pages_know(app, variables):
    views = {
        rule.endpoint.removesuffix("_json"): rule
        for rule in app.url_map.iter_rules()
        if (rule.defaults or {}).get("form") == "json" and not rule.rule.startswith("/api/")
    }
    assert set(views) == set(PAGES)

    with app.test_client() as client:
        for endpoint, rule in views.items():
            path = re.sub(r"<(\w+)>", r"{\1}", rule.rule.removesuffix(".json"))
            error = get_json(client, f"/api/v1{filled(path, variables)}?colour=red", status=400)
            page = PAGES[endpoint]
            known = (*page.parameters, *(FACTORS if page.takes_filters else ()))
            listed = error["error"].rpartition("it knows ")[2].rstrip(".")
            assert sorted(listed.split(", ")) == sorted(known or ("none",)), endpoint


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/api/v1/nothing", 404),
        ("/api/v1/cases/xyz", 400),
        (f"/api/v1/cases/{'0' * 32}", 404),
        ("/api/v1/questions/price", 404),
        ("/api/v1/runs?colour=red", 400),
        ("/api/v1/explore?message_size=huge", 400),
        ("/api/v1/break-even?m=throughput", 400),
    ],
)
def test_an_error_is_json_with_a_sentence(address, status, client):
    error = get_json(client, address, status=status)

    assert error["status"] == status
    assert error["error"].endswith(".")


def test_only_reading_is_possible(client):
    answer = client.post("/api/v1/runs")

    assert answer.status_code == 405
    assert answer.get_json()["status"] == 405


def test_a_schema_tells_the_fields_of_a_dataclass():
    schemas = Schemas()

    found = schemas.of(PAGES["runs.runs"].content)

    assert found == {"$ref": "#/components/schemas/RunsContent"}
    content = schemas.named["RunsContent"]
    assert content["required"] == ["runs", "next_after"]
    assert content["properties"]["next_after"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert schemas.named["RunLine"]["properties"]["started_at"]["format"] == "date-time"


def test_every_parameter_has_a_description_or_is_a_factor():
    for page in PAGES.values():
        for name in page.parameters:
            assert name in api.ABOUT, name
