"""An address or a few of every kind of page, over three databases, for suites over all of them.

Which kinds there are says the application's own map of addresses; a test holds this list
against it, so that a new page cannot be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bundle_support import QUERY, write_everything
from flask import Flask
from nic_pages_support import add_probe, measure_card
from site_support import HOST_HASH, measure, write_site
from store_support import DemoIds
from web_support import client_of, get_json

from zcdb.store import reports
from zcdb.store.session import Database, open_database

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
OTHER_HOST = "ba9876543210"

NO_PAGES = frozenset(
    {
        *("api", "assets", "meta", "feed"),
        *("experiments.text", "history.source_text", "buy.experiment_file"),
        *("history.entry", "reports.report_twin", "reports.inputs", "reports.short"),
    }
)
"""Blueprints and endpoints whose answers are no HTML pages: files, redirects, twins."""

LISTS = {
    "home": "/",
    "questions": "/questions",
    "break-even": "/break-even",
    "flags": "/flags",
    "calculator": "/calculator",
    "buy": "/buy",
    "explore": "/explore",
    "compare": "/compare",
    "reports": "/reports",
    "diff": "/diff",
    "experiments": "/experiments",
    "runs": "/runs",
    "hosts": "/hosts",
    "kernels": "/kernels",
    "sources": "/sources",
}
"""Pages that say what there is, and so also what to do where there is nothing."""

REFERENCE = {
    "history": "/history",
    "conclusions": "/history/conclusions",
    "nics": "/nics",
    "nics found": "/nics?q=x710",
    "nics compared": "/nics/compare?d=igb&d=r8169&d=10ec:8139",
    "nics, nothing compared": "/nics/compare",
    "conflicts": "/nics/conflicts",
    "driver": "/nics/drivers/igb",
    "driver of 2001": "/nics/drivers/3c59x",
    "device": "/nics/devices/8086:1533",
    "use": "/buy/file-server",
    "use in 2001": "/buy/file-server?kernel=2.4.16",
    "methods": "/methods",
    "topic": "/methods/window",
    "topic of a registry": "/methods/metrics",
    "glossary": "/glossary",
    "data": "/data",
}
"""Pages that need no results."""


@dataclass(frozen=True, slots=True)
class Databases:
    """Open databases, with the ids of what is in them.

    Attributes:
        record: something of everything that can be recorded, imported, corrected and kept.
        site: cases with an answer to every question.
        empty: the founding tables only.
    """

    record: Database
    record_ids: DemoIds
    site: Database
    site_ids: Mapping[str, str]
    empty: Database

    def open(self, name: str) -> Database:
        """Return the database of this name."""
        return {"record": self.record, "site": self.site, "empty": self.empty}[name]


@contextmanager
def databases(folder: Path) -> Iterator[Databases]:
    """Make the databases in a folder; closes them at the end."""
    record, site, empty = (
        open_database(folder / f"{name}.sqlite") for name in ("record", "site", "empty")
    )
    record_ids = write_everything(record)
    measure_card(record, "igb", 50)
    add_probe(record, "igb", "sg", "yes", "6.12.101")
    add_probe(record, "igb", "lro", "yes", "6.12.101")
    site_ids = write_site(site)
    measure(site, 90, [{"api": "write"}], lambda _: {"throughput": 1e9}, host=OTHER_HOST)
    yield Databases(record, record_ids, site, site_ids, empty)
    for db in (record, site, empty):
        db.dispose()


def every_page(made: Databases) -> dict[str, tuple[str, str]]:
    """Return label -> (database, address) of at least one page of every kind."""
    return {
        **{label: ("record", address) for label, address in (LISTS | REFERENCE).items()},
        **{f"{label}, empty": ("empty", address) for label, address in LISTS.items()},
        **{label: ("record", address) for label, address in _recorded(made).items()},
        **{label: ("site", address) for label, address in _answered(made).items()},
    }


def _recorded(made: Databases) -> dict[str, str]:
    ids, client = made.record_ids, client_of(made.record)
    report = reports.report_list(made.record)[0][0]
    link = reports.add_link(made.record, "/compare", QUERY, AT)
    source = get_json(client, "/sources.json")["sources"][0]["id"]
    table = get_json(client, "/history.json")["documents"][0]["tables"][0]["name"]
    return {
        "experiment": f"/experiments/{ids.experiment_name}",
        "run": f"/runs/{ids.run_id}",
        "case": f"/cases/{ids.baseline_case_id}",
        "case without values": f"/cases/{ids.case_ids['io_uring_send_zc', 65536]}",
        "trial": f"/trials/{ids.ok_trial_id}",
        "copied trial": f"/trials/{ids.copied_trial_id}",
        "failed trial": f"/trials/{ids.failed_trial_id}",
        "unsupported trial": f"/trials/{ids.unsupported_trial_id}",
        "environment": f"/environments/{ids.environment_id}",
        "pivot": "/explore?rows=api&cols=message_size",
        "explored to a chart": "/explore?api=write&api=sendfile&message_size=65536",
        "explored to nothing": "/explore?api=write&q=nowhere",
        "comparison": f"/compare?{QUERY}",
        "comparison of runs": f"/compare?of=runs&a={ids.older_run_id}&b={ids.run_id}",
        "comparison without a pair": "/compare?axis=api&a=write&b=splice",
        "report": f"/reports/{report.id}/{report.slug}",
        "verification": f"/reports/{report.id}/verify",
        "short address": f"/q/{link}/address",
        "founding table": f"/history/{table}",
        "source": f"/sources/{source}",
        "no page": "/nowhere",
        "no id": "/trials/xyz",
        "unknown parameter": "/runs?colour=red",
    }


def _answered(made: Databases) -> dict[str, str]:
    client = client_of(made.site)
    states = get_json(client, f"/hosts/{HOST_HASH}.json")["states"]
    first, second = (one["environment_id"] for one in states[:2])
    questions = [one["name"] for one in get_json(client, "/questions.json")["questions"]]
    return {
        "home, answered": "/",
        **{f"question {name}": f"/questions/{name}" for name in questions},
        "break-even, answered": "/break-even",
        "flags, answered": "/flags",
        "calculator, answered": f"/calculator?case={made.site_ids['write 64 KiB']}",
        "host": f"/hosts/{HOST_HASH}",
        "hosts, two": "/hosts",
        "kernel": "/kernels/6.12.0",
        "kernels, many": "/kernels",
        "diff of two": f"/diff?a={first}&b={second}",
        "case of latency": f"/cases/{made.site_ids['latency']}",
        "comparison of kernels": "/compare?axis=sender_kernel&a=2.4.1&b=2.4.1%2Bzerocopy",
        "pivot of sizes": "/explore?rows=message_size&cols=api&m=throughput",
    }


def page_endpoints(app: Flask) -> set[str]:
    """Return the endpoints that answer GET with an HTML page."""
    return {
        rule.endpoint
        for rule in app.url_map.iter_rules()
        if "GET" in (rule.methods or ())
        and (rule.defaults or {}).get("form", "html") == "html"
        and not {rule.endpoint, rule.endpoint.partition(".")[0]} & NO_PAGES
    }


def endpoint_of(app: Flask, address: str) -> str | None:
    """Return the endpoint that an address leads to; None where there is no page."""
    from werkzeug.exceptions import NotFound

    try:
        endpoint, _ = app.url_map.bind("localhost").match(address.partition("?")[0])
    except NotFound:
        return None
    return str(endpoint)
