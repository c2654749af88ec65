"""Every address of the site under hostile paths, queries and headers.

A bounded slice with a fixed seed runs by default; `ZCDB_FUZZ_EXAMPLES=100000` runs more, each
time other ones.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, quote_plus, urlencode
from xml.etree import ElementTree as ET

import pytest
from flask import Flask
from flask.testing import FlaskClient
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from site_support import write_site
from sqlalchemy import create_engine, text
from werkzeug.routing import Rule
from werkzeug.test import TestResponse

from zcdb.factors import FACTORS
from zcdb.metrics import METRICS
from zcdb.report import freeze
from zcdb.store.session import open_database
from zcdb.webapp import create_app

pytest_plugins = ["store_fixtures"]

EXAMPLES = int(os.environ.get("ZCDB_FUZZ_EXAMPLES", "300"))
SLICE = settings(
    max_examples=EXAMPLES,
    derandomize="ZCDB_FUZZ_EXAMPLES" not in os.environ,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
MARKER = "<zq\"'&>"
"""Must never come back as it is: each of its characters means something in HTML."""

SENTENCE_LIMIT = 2100

HOSTILE = (
    MARKER,
    "",
    " ",
    "\0",
    "a\0b",
    "\x1b[31m",
    "\r\nSet-Cookie: a=b",
    "\u202e\u2028\ufeff",
    "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    "\U0001f98a" * 20,
    "0",
    "-1",
    "1e309",
    "nan",
    "inf",
    "-0.0",
    "9" * 400,
    "9" * 19,
    "1_000",
    "\u0661\u0662",
    "0x10",
    "100%",
    "1e9%",
    "4K",
    "4KiB",
    "true",
    "null",
    "unstated",
    "*",
    "%",
    "_",
    "' OR 1=1 --",
    '"; DROP TABLE trials; --',
    '" NEAR(a b) *',
    "[a-z]*",
    "../../../etc/passwd",
    "..%2f..%2f",
    "http://[::1",
    "=cmd|' /C calc'!A0",
    "x" * 5000,
    "0" * 32,
    "f" * 32,
    "00000000-0000-7000-8000-000000000000",
    "zq.json",
    "service_demand_sender:soak",
    "throughput:soak",
    "service_demand_sender:nosuch",
)

SENSIBLE = (
    *("write", "sendfile", "read_write", "65536", "4096", "64K", "separate", "loopback"),
    *("6.12.0", "api", "message_size", "sender_kernel", "throughput", "soak", "cases", "runs"),
    *("latency_p99", "1%", "ixgbe", "e1000e", "25g", "6.12", "yes", "file-server"),
)

RAW_QUERIES = (
    "%",
    "%zz=%zz",
    "a=%ff%fe",
    "api=%00",
    "q=%ed%a0%80",
    "&&&===",
    "=x",
    "api",
    "a=1;b=2",
    "a[]=1&a[0]=2",
    "after=%F0%9F%A6%8A",
    "q=" + "a+" * 3000,
    "&".join(f"p{number}=1" for number in range(2000)),
)

RAW_QUERIES_OF_ONE = 2
HOSTILE_OF_ONE = 4


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Flask, dict[str, list[str]]]]:
    """The site over a database of either kind, and values that its paths take."""
    where: str | Path = tmp_path_factory.mktemp("fuzz") / "lab.sqlite"
    if request.param == "postgresql":
        where = request.getfixturevalue("fuzz_postgres_url")
    db = open_database(where)
    ids = write_site(db)
    frozen = freeze.freeze(db, "axis=api&a=write&b=sendfile", "frozen")
    app = create_app({"DATABASE": db, "PROPAGATE_EXCEPTIONS": True})
    yield app, _known(app.test_client(), ids["write 64 KiB"], frozen.id)
    db.dispose()


@pytest.fixture(scope="module")
def fuzz_postgres_url(postgres_server: str) -> str:
    """A database of its own: other tests empty the server's first one."""
    engine = create_engine(postgres_server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("CREATE DATABASE fuzz"))
    engine.dispose()
    return postgres_server.replace("/postgres?", "/fuzz?")


def _known(client: FlaskClient, case: str, report: str) -> dict[str, list[str]]:
    """Return variable of a path -> values that name something."""

    def read(address: str) -> dict[str, object]:
        return client.get(address).get_json()

    runs = read("/runs.json")["runs"]
    listed = read(f"/cases/{case}.json")["trials"][0]["trial"]
    trial = listed["id"]
    documents = read("/history.json")["documents"]
    return {
        "case_id": [case],
        "run_id": [run["id"] for run in runs[:3]],
        "trial_id": [trial],
        "report_id": [report],
        "slug": ["frozen"],
        "ending": ["json", "csv", "txt", "svg"],
        "environment_id": list(listed["environment_ids"].values()),
        "source_id": [source["id"] for source in read("/sources.json")["sources"][:3]],
        "host_id": [host["id"] for host in read("/hosts.json")["hosts"]],
        "name": [
            *(run["experiment_name"] for run in runs[:3]),
            *(table["name"] for document in documents for table in document["tables"][:2]),
            *("zero-copy", "checksum-offload", "pinning", "site.css"),
        ],
        "release": ["6.12.0"],
        "topic": ["soaking", "intervals", "zero-copy-proof"],
        "use": ["file-server", "packet"],
        "driver": ["ixgbe", "e1000e"],
        "device_id": ["8086:10fb"],
        "chart": ["service_demand_sender", "order", "throughput"],
        "link_id": ["0" * 32],
        "entry_id": ["0" * 32],
    }


def rules(app: Flask) -> list[Rule]:
    """Return every address that can be read, in a fixed order."""
    return sorted((r for r in app.url_map.iter_rules() if "GET" in r.methods), key=str)


def variables(rule: Rule) -> list[str]:
    """Return the variables of a rule's path."""
    return sorted(set(rule.arguments) - set(rule.defaults or ()))


def built(rule: Rule, values: dict[str, str]) -> str:
    """Return the path of a rule with these values, quoted as a browser does."""
    return re.sub(
        r"<(?:[^:<>]+:)?(\w+)>", lambda found: quote(values[found[1]], safe=""), rule.rule
    )


def check(answer: TestResponse) -> None:
    """Check what must hold whatever was asked."""
    assert answer.status_code < 500, answer.text
    assert "content-security-policy" in answer.headers
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "Set-Cookie" not in answer.headers
    if answer.request.method == "HEAD" or answer.status_code == 304:
        assert answer.data == b""
        return
    body = answer.data
    if answer.headers.get("Content-Encoding") == "gzip":
        body = gzip.decompress(body)
    text = body.decode()
    kind = answer.mimetype
    if kind in ("text/html", "image/svg+xml", "application/atom+xml"):
        assert MARKER not in text
        assert "<zq" not in text
    if kind in ("image/svg+xml", "application/atom+xml"):
        ET.fromstring(text)  # noqa: S314  # our own answer
    if kind == "application/json":
        content = json.loads(text, parse_constant=_refuse)
        if answer.status_code >= 400:
            assert content["status"] == answer.status_code
            assert 0 < len(content["error"]) <= SENTENCE_LIMIT
    if kind == "text/csv":
        for row in csv.reader(io.StringIO(text)):
            for cell in row:
                assert not re.match(r"[=@]|[+-][^\d.]", cell), cell


def _refuse(word: str) -> None:
    raise AssertionError(f"JSON with {word}")


def test_every_address_stands_the_worst_of_queries(site):
    app, known = site
    client = app.test_client()
    # All of them at every address would take minutes: each gets some, and neighbours other ones.
    some = itertools.cycle(RAW_QUERIES)
    for rule in rules(app):
        values = {name: known[name][0] for name in variables(rule)}
        for raw in itertools.islice(some, RAW_QUERIES_OF_ONE):
            check(client.get(f"{built(rule, values)}?{raw}"))


def test_every_variable_of_a_path_stands_hostile_values(site):
    app, known = site
    client = app.test_client()
    some = itertools.cycle(text for text in HOSTILE if text)
    for rule in rules(app):
        for name in variables(rule):
            for hostile in itertools.islice(some, HOSTILE_OF_ONE):
                values = {other: known[other][0] for other in variables(rule)} | {name: hostile}
                check(client.get(built(rule, values)))


def test_every_parameter_stands_every_hostile_value(site):
    app, _ = site
    client = app.test_client()
    pages = {
        "/explore": ("q", "rows", "cols", "m", "after", "api", "message_size", "ring.rx"),
        "/compare": ("axis", "of", "a", "b", "m", "method", "matters", "api"),
        "/runs": ("after",),
        "/sources": ("after",),
        "/reports": ("after",),
        "/experiments": ("after",),
        "/break-even": ("m", "method", "api"),
        "/questions/zero-copy": ("api", "sender_kernel"),
        "/calculator": ("case", "rate", "cpus", "share"),
        "/diff": ("a", "b"),
        "/nics": ("q", "kernel", "must", "speed", "after"),
        "/nics/compare": ("d", "kernel"),
        "/buy/file-server": ("speed", "kernel", "must"),
        "/buy": ("kernel",),
    }
    base = {"/compare": {"axis": "api", "a": "write", "b": "sendfile"}}
    endings = itertools.cycle(("", ".json", "", ".csv", ""))
    for path, names in pages.items():
        for name in names:
            for hostile in HOSTILE:
                query = urlencode(base.get(path, {}) | {name: hostile})
                check(client.get(f"{path}{next(endings)}?{query}"))


NAMES = st.sampled_from(
    sorted(
        {"q", "rows", "cols", "m", "after", "axis", "of", "a", "b", "d", "method", "matters"}
        | {"case", "rate", "cpus", "kernel", "must", "speed", "from", "version", "zq", "ring.rx"}
        | set(FACTORS)
    )
)
VALUES = st.one_of(
    st.sampled_from(SENSIBLE),
    st.sampled_from(HOSTILE),
    st.sampled_from(sorted(METRICS)),
    st.text(max_size=30),
    st.integers().map(str),
    st.floats().map(str),
    st.text("0123456789abcdef", min_size=32, max_size=32),
)
QUERIES = st.one_of(
    st.lists(st.tuples(NAMES, VALUES), max_size=6).map(
        lambda pairs: urlencode(pairs, errors="surrogatepass")
    ),
    st.binary(max_size=60).map(lambda raw: quote_plus(raw, safe="=&;%+")),
)
HEADERS = st.dictionaries(
    st.sampled_from(["If-None-Match", "Accept-Encoding", "Range", "Accept", "If-Modified-Since"]),
    st.one_of(
        st.sampled_from(['"a"', "*", "gzip", "gzip;q=0", "br, *;q=x", "bytes=0-", "bytes=9-1"]),
        st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=30),
    ),
    max_size=3,
)


@SLICE
@given(data=st.data(), query=QUERIES, headers=HEADERS)
@example(data=None, query="", headers={})
def test_no_request_breaks_the_site(site, data, query, headers):
    app, known = site
    client = app.test_client()
    if data is None:
        check(client.get("/"))
        return
    rule = data.draw(st.sampled_from(rules(app)), label="rule")
    values = {}
    for name in variables(rule):
        # Mostly what is there: what is not ends at the first check.
        sensible = st.sampled_from(known[name])
        values[name] = data.draw(
            st.one_of(sensible, sensible, VALUES.filter(lambda text: text not in ("", ".", ".."))),
            label=name,
        )
    method = data.draw(st.sampled_from(["GET", "GET", "GET", "HEAD"]))
    check(client.open(f"{built(rule, values)}?{query}", method=method, headers=headers))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "TRACE"])
def test_what_cannot_be_read_refuses_by_a_sentence(site, method):
    app, known = site
    client = app.test_client()
    writable = {rule.rule for rule in app.url_map.iter_rules() if method in rule.methods}
    for rule in rules(app):
        if rule.rule in writable:
            continue
        values = {name: known[name][0] for name in variables(rule)}
        answer = client.open(built(rule, values), method=method, data=MARKER)
        check(answer)
        assert answer.status_code in (400, 403, 405)
