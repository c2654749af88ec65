"""What every response carries, which requests are refused, and the files that pages load."""

from __future__ import annotations

import gzip
import re

import plotly.offline
import pytest
from web_support import client_of, get_page

from zcdb.webapp import assets
from zcdb.webapp.headers import content_security_policy, is_allowed_host

pytest_plugins = ["store_fixtures"]

CSS_LIMIT_BYTES = 12 * 1024
SCRIPT_LIMIT_BYTES = 15 * 1024
EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"


@pytest.fixture(scope="module")
def client(demo):
    return client_of(demo[0])


@pytest.mark.parametrize("address", ["/", "/index.json", "/nowhere", "/healthz", "/trials/xyz"])
def test_every_answer_carries_the_policy_and_no_cookie(address, client):
    answer = client.get(address)

    assert answer.headers["Content-Security-Policy"] == content_security_policy()
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "Set-Cookie" not in answer.headers


def test_the_policy_allows_this_server_and_what_plotly_makes_and_nothing_else():
    rules = dict(rule.split(" ", 1) for rule in content_security_policy().split("; "))

    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["connect-src"] == "'self'"
    assert rules["style-src"].startswith("'self' 'sha256-")
    assert EMPTY_STYLE in rules["style-src"]
    assert rules["frame-ancestors"] == rules["base-uri"] == "'none'"
    assert not re.search(r"https?:|\*|unsafe-eval|unsafe-inline", rules["style-src"])


def test_both_style_elements_of_the_installed_plotly_are_known():
    script = assets.PLOTLY.read_text(encoding="utf-8")

    assert script.count('createElement("style")') == len(assets.plotly_style_hashes()) == 2


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:8750", True),
        ("localhost", True),
        ("LOCALHOST:8750", True),
        ("[::1]:8750", True),
        ("192.0.2.7", True),
        ("lab.example:8750", True),
        ("evil.example", False),
        ("evil.example:8750", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_only_addresses_and_names_of_this_site_are_answered(host, allowed):
    assert is_allowed_host(host, ("Lab.example",)) is allowed


def test_a_request_for_another_sites_name_is_refused(client):
    answer = client.get("/", headers={"Host": "rebound.example"})

    assert answer.status_code == 421
    assert "quickstart" not in answer.text


def test_files_are_kept_for_ever_at_an_address_made_from_their_content(client):
    style = get_page(client, "/").first("link", rel="stylesheet").attributes["href"]

    answer = client.get(style, headers={"Accept-Encoding": "gzip"})

    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert answer.content_type == "text/css; charset=utf-8"
    assert gzip.decompress(answer.data) == (assets.STATIC / "site.css").read_bytes()
    assert client.get(style).data == (assets.STATIC / "site.css").read_bytes()


@pytest.mark.parametrize("address", ["/assets/site-000000000000.css", "/assets/..%2f__init__.py"])
def test_any_other_file_is_not_there(address, client):
    assert client.get(address).status_code == 404


def test_plotly_is_the_one_of_the_installed_package(client):
    version = plotly.offline.get_plotlyjs_version()

    answer = client.get(assets.address("plotly.min.js"))

    assert f"plotly.js v{version}".encode() in answer.data[:200]
    answer.close()


def test_our_own_files_are_small():
    assert len(assets.asset("site.css").packed) <= CSS_LIMIT_BYTES
    assert len(assets.asset("charts.js").content) <= SCRIPT_LIMIT_BYTES


def test_a_page_without_charts_loads_no_script(client):
    assert get_page(client, "/experiments").all("script") == []
    assert len(get_page(client, "/experiments/quickstart").all("script")) == 1
