"""What the site's tests share: a client, parsed pages, a served site, a browser."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import pytest
from flask.testing import FlaskClient
from store_support import DemoIds

from zcdb.store.session import Database
from zcdb.webapp import create_app

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
VOID = {"meta", "link", "br", "img", "input", "hr", "wbr", "path", "rect"}


@dataclass
class Element:
    """An element of a parsed page."""

    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text inside, with white space made single and soft breaks left out."""
        parts = [child if isinstance(child, str) else child.text for child in self.children]
        return re.sub(r"\s+", " ", "".join(parts)).strip()

    def all(self, tag: str | None = None, **attributes: str) -> list[Element]:
        """Return the elements inside, in order; `class_` matches one of the classes."""
        found = []
        for child in self.children:
            if isinstance(child, str):
                continue
            if child.fits(tag, attributes):
                found.append(child)
            found += child.all(tag, **attributes)
        return found

    def fits(self, tag: str | None, attributes: Mapping[str, str]) -> bool:
        """Return whether this element is of that tag and has those attributes."""
        mine = self.attributes | {"class_": self.attributes.get("class", "")}
        return tag in (None, self.tag) and all(
            value in mine["class_"].split() if name == "class_" else mine.get(name) == value
            for name, value in attributes.items()
        )

    def first(self, tag: str | None = None, **attributes: str) -> Element:
        """Return the first such element; it must be there."""
        found = self.all(tag, **attributes)
        assert found, f"no {tag} with {attributes}"
        return found[0]


class _Tree(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("root", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse(html: str) -> Element:
    """Return a page as a tree; a wrongly nested element is an error."""
    tree = _Tree()
    tree.feed(html)
    tree.close()
    assert tree.open == [tree.root], f"<{tree.open[-1].tag}> is not closed"
    return tree.root


def get_page(client: FlaskClient, address: str, status: int = 200) -> Element:
    """Return the parsed page at an address."""
    answer = client.get(address)
    assert answer.status_code == status, answer.text[:2000]
    return parse(answer.text)


def get_json(client: FlaskClient, address: str, status: int = 200) -> Any:
    """Return the JSON at an address."""
    answer = client.get(address)
    assert answer.status_code == status, answer.text[:2000]
    assert answer.content_type == "application/json"
    return answer.get_json()


def page_addresses(ids: DemoIds) -> dict[str, str]:
    """Return the address of one page of every kind."""
    return {
        "home": "/",
        "experiments": "/experiments",
        "experiment": f"/experiments/{ids.experiment_name}",
        "runs": "/runs",
        "run": f"/runs/{ids.run_id}",
        "case": f"/cases/{ids.baseline_case_id}",
        "case without values": f"/cases/{ids.case_ids['io_uring_send_zc', 65536]}",
        "trial": f"/trials/{ids.ok_trial_id}",
        "copied trial": f"/trials/{ids.copied_trial_id}",
        "failed trial": f"/trials/{ids.failed_trial_id}",
        "unsupported trial": f"/trials/{ids.unsupported_trial_id}",
        "environment": f"/environments/{ids.environment_id}",
        "methods": "/methods",
    }


PAGES = (
    "home",
    "experiments",
    "experiment",
    "runs",
    "run",
    "case",
    "case without values",
    "trial",
    "copied trial",
    "failed trial",
    "unsupported trial",
    "environment",
    "methods",
)


def client_of(database: Database) -> FlaskClient:
    """Return a client of a site over this database."""
    return create_app({"DATABASE": database}).test_client()


@contextmanager
def served(database: Database, config: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Serve a database on a free loopback port; gives the address without a slash at its end."""
    from waitress.server import create_server

    app = create_app({"DATABASE": database, **(config or {})})
    server = create_server(app, host="127.0.0.1", port=0, threads=4)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.effective_port}"
    finally:
        server.close()
        thread.join(timeout=20)
        server.task_dispatcher.shutdown()


def browser_path() -> str:
    """Return the browser's executable; skips the test where there is none, fails in CI."""
    found = os.environ.get("ZCDB_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        message = "no Chromium found; 'apt install chromium', or name one in ZCDB_CHROMIUM"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return found
