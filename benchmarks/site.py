"""How fast the site's pages are, how that grows, and how it compares with Datasette.

    python benchmarks/generate.py 10000 small.db
    python benchmarks/generate.py 1000000 large.db
    python benchmarks/site.py small.db large.db [--requests 200] [--only 'trial|case']
    python benchmarks/site.py small.db large.db --datasette
    python benchmarks/site.py large.db --browser

Each database is served as `zcdb serve` does it, by a process of its own; one client asks over
loopback and one connection, after a warm-up of each kind of page.  Objects are drawn at random
with a fixed seed, kinds of pages in turn.  Printed for each kind: median, p95 and p99 in
milliseconds from request to last byte, the budget and whether p95 keeps it, SQL statements
(counted in this process), bytes of the page as sent (gzip) and unpacked.  The site keeps answers
until something is committed, so most requests of this benchmark are for kept ones; `made` is the
median of making the page anew, which the first reader after each commit waits for.  With several
databases these stand beside each other, and the last as a multiple of the first.

`--datasette` sets Datasette up in a virtual environment of its own, serves the same file with it
and asks both in alternation; printed is the ratio of the medians.  The content is alike, not the
same: Datasette shows the one row of a trial or case, zcdb all that belongs to it; Datasette counts
the facets it is told, zcdb all of them.
`--browser` opens pages in headless Chromium and reads first and largest paint and layout shift.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import itertools
import math
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlencode

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from flask import Flask
from sqlalchemy import func, select
from store_support import StatementCount
from web_support import BROWSER_FLAGS, browser_path

from zcdb.report import freeze
from zcdb.store.models import (
    CaseFactorRow,
    CaseRow,
    EnvironmentRow,
    ReportRow,
    RunRow,
    TrialRow,
)
from zcdb.store.session import Database, opened
from zcdb.webapp import create_app
from zcdb.webapp.kept import KeptAnswers

SEED = 2001
WAIT_S = 120
MADE = 5
APIS = ("read_write", "sendfile", "msg_zerocopy")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of page.

    Attributes:
        budget_ms: what p95 should keep; None where nothing is set.
        address: of one page of this kind.
    """

    name: str
    budget_ms: float | None
    address: Callable[[Sample], str]


@dataclass(slots=True)
class Sample:
    """Draws objects of a database at random."""

    db: Database
    noise: random.Random
    counts: dict[type, int] = field(default_factory=dict)
    values: dict[str, list[str]] = field(default_factory=dict)
    drawn: Iterator[int] = field(default_factory=itertools.count)

    def id(self, row_class: type) -> str:
        """Return the public id of some row."""
        with self.db.reading() as session:
            if row_class not in self.counts:
                last = session.scalar(select(func.max(row_class.id)))  # type: ignore[attr-defined]
                self.counts[row_class] = int(last or 0)
            key = self.noise.randint(1, self.counts[row_class])
            chosen = (
                select(row_class.public_id)  # type: ignore[attr-defined]
                .where(row_class.id >= key)  # type: ignore[attr-defined]
                .limit(1)
            )
            return str(session.scalars(chosen).one())

    def value(self, factor: str) -> str:
        """Return some value that measured cases have of a factor."""
        if factor not in self.values:
            values = select(CaseFactorRow.value).distinct().where(CaseFactorRow.factor == factor)
            with self.db.reading() as session:
                self.values[factor] = sorted(
                    session.scalars(values.where(CaseFactorRow.value != "unstated"))
                )
        return self.noise.choice(self.values[factor])

    def choice(self, *values: str) -> str:
        """Return one of the values."""
        return self.noise.choice(values)

    def next(self) -> int:
        """Return a number that was not given before."""
        return next(self.drawn)


def explored(**asked: str) -> str:
    """Return the address of /explore with these parameters."""
    return f"/explore?{urlencode(asked)}"


def compared(sample: Sample, *, number: int = 0) -> str:
    """Return the address of a comparison of all pairs; a number makes it one of its own."""
    asked = {"axis": "api", "a": "write", "b": sample.choice(*APIS) if number else "sendfile"}
    if number:
        asked["matters"] = f"{1 + number / 1000:g}%"
    return f"/compare?{urlencode(asked)}"


def _kernel(sample: Sample) -> str:
    """Return a kernel of the generator: history's own ones have few cases."""
    while not (kernel := sample.value("sender_kernel")).endswith(".0"):
        pass
    return kernel


def report(sample: Sample) -> str:
    """Return the full address of a report."""
    with sample.db.reading() as session:
        found = session.execute(select(ReportRow.public_id, ReportRow.slug)).all()
    chosen = sample.noise.choice(found)
    return f"/reports/{chosen.public_id}/{chosen.slug}"


def host(sample: Sample) -> str:
    """Return the address of a host that the generator made."""
    listed = create_app({"DATABASE": sample.db}).test_client().get("/hosts.json").get_json()
    return f"/hosts/{listed['hosts'][0]['id']}"


KINDS = (
    Kind("home", None, lambda s: "/"),
    Kind("trial", 20, lambda s: f"/trials/{s.id(TrialRow)}"),
    Kind("case", 20, lambda s: f"/cases/{s.id(CaseRow)}"),
    Kind("run", None, lambda s: f"/runs/{s.id(RunRow)}"),
    Kind("environment", None, lambda s: f"/environments/{s.id(EnvironmentRow)}"),
    Kind("runs (list)", 50, lambda s: "/runs"),
    Kind("experiments", 50, lambda s: "/experiments"),
    Kind("experiment", None, lambda s: "/experiments/apis-as-found"),
    Kind(
        "diff",
        None,
        lambda s: f"/diff?a={s.id(EnvironmentRow)}&b={s.id(EnvironmentRow)}",
    ),
    Kind("hosts", 50, lambda s: "/hosts"),
    Kind("kernels", 50, lambda s: "/kernels"),
    Kind("kernel", None, lambda s: f"/kernels/{_kernel(s)}"),
    Kind("explore, no filter", 50, lambda s: "/explore"),
    Kind("explore, 1 filter", 150, lambda s: explored(sender_kernel=_kernel(s))),
    Kind(
        "explore, 2 filters",
        50,
        lambda s: explored(sender_kernel=_kernel(s), api=s.choice(*APIS)),
    ),
    Kind(
        "explore, pivot",
        50,
        lambda s: explored(
            sender_nic="I210", sender_kernel=_kernel(s), rows="api", cols="message_size"
        ),
    ),
    Kind("search", 50, lambda s: explored(q=f"sendfile {s.choice('ixgbe', 'ice', 'igb')}")),
    Kind("compare, first", 500, lambda s: compared(s, number=1 + s.next())),
    Kind("compare, repeated", 20, compared),
    Kind("report", 5, report),
    Kind("report, verified", None, lambda s: f"{report(s).rpartition('/')[0]}/verify"),
    Kind("case as JSON", 20, lambda s: f"/cases/{s.id(CaseRow)}.json"),
    Kind("explore as CSV", 150, lambda s: f"/explore.csv?sender_kernel={_kernel(s)}"),
    Kind("reports", 50, lambda s: "/reports"),
    Kind("questions", None, lambda s: "/questions"),
    Kind("question", None, lambda s: "/questions/zero-copy"),
    Kind("break-even", None, lambda s: "/break-even"),
    Kind("flags", None, lambda s: "/flags"),
    Kind("calculator", None, lambda s: "/calculator"),
    Kind("history", None, lambda s: "/history"),
    Kind("sources", 50, lambda s: "/sources"),
    Kind("nics", 60, lambda s: "/nics"),
    Kind("driver", 60, lambda s: f"/nics/drivers/{s.choice('ixgbe', 'ice', 'igb')}"),
    Kind("devices compared", 60, lambda s: "/nics/compare?d=ixgbe&d=ice"),
    Kind("conflicts", 60, lambda s: "/nics/conflicts"),
    Kind("buy", 60, lambda s: f"/buy/{s.choice('file-server', 'bulk-send', 'packet')}"),
    Kind("glossary", None, lambda s: "/glossary"),
    Kind("data", None, lambda s: "/data"),
    Kind("methods", None, lambda s: "/methods"),
    Kind("feed", None, lambda s: "/feed.atom"),
)


# -- asking ---------------------------------------------------------------------------------------


def free_port() -> int:
    """Return a loopback port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: Sequence[str], port: int, ready: str = "/") -> Iterator[int]:
    """Run a server in a process of its own, from its first answer to the end of the block."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + WAIT_S
        while not _answers(port, ready):
            if process.poll() is not None or time.monotonic() > until:
                sys.exit(f"{command[0]} does not serve: exit code {process.poll()}")
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(timeout=30)


def _answers(port: int, address: str) -> bool:
    with closing(Client(port)) as client:
        try:
            client.get(address)
        except OSError:
            return False
    return True


@contextmanager
def zcdb_serving(database: str) -> Iterator[int]:
    """Serve a database as users do; gives the port."""
    port = free_port()
    script = str(Path(sys.executable).parent / "zcdb")
    command = [script, "serve", "--database", database, "--port", str(port)]
    with running(command, port, "/healthz"):
        yield port


class Client:
    """One connection that asks one page after the other."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def get(self, address: str) -> tuple[int, float, bytes]:
        """Return (status, seconds to the last byte, body as sent)."""
        began = time.perf_counter()
        self.connection.request("GET", address, headers={"Accept-Encoding": "gzip"})
        answer = self.connection.getresponse()
        body = answer.read()
        return answer.status, time.perf_counter() - began, body


@dataclass(slots=True)
class Timing:
    """What one kind of page took in one database.

    Attributes:
        made: milliseconds of making it where no answer is kept, as after each commit.
    """

    made: list[float] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)
    sent_bytes: int = 0
    plain_bytes: int = 0
    statements: int = 0
    failures: list[str] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        """Return a percentile of the times, in milliseconds (nearest rank)."""
        ranked = sorted(self.milliseconds)
        return ranked[max(0, math.ceil(share * len(ranked)) - 1)]


def measure(database: str, kinds: Sequence[Kind], requests: int) -> dict[str, Timing]:
    """Return what each kind of page took in a database."""
    timings = {kind.name: Timing() for kind in kinds}
    with opened(database) as db:
        ensure_report(db)
        sample = Sample(db, random.Random(SEED))
        with zcdb_serving(database) as port, closing(Client(port)) as client:
            for kind in kinds:
                for _ in range(3):
                    client.get(kind.address(sample))
            for _ in range(requests):
                for kind in kinds:
                    _ask(client, kind.address(sample), timings[kind.name])
        app = create_app({"DATABASE": db, "QUERY_LIMIT_S": WAIT_S})
        for kind in kinds:
            _make(app, kind.address(sample))  # the first one reads the index of all cases
            timing = timings[kind.name]
            with StatementCount(db) as count:
                _make(app, kind.address(sample))
            timing.statements = len(count)
            timing.made = [_make(app, kind.address(sample)) for _ in range(MADE)]
    return timings


def _make(app: Flask, address: str) -> float:
    """Return the milliseconds that a page takes in this process where no answer is kept."""
    app.extensions["zcdb_kept"] = KeptAnswers()
    began = time.perf_counter()
    app.test_client().get(address)
    return (time.perf_counter() - began) * 1000


def _ask(client: Client, address: str, timing: Timing) -> None:
    status, seconds, body = client.get(address)
    if status != 200:
        timing.failures.append(f"{status} {address}")
    timing.milliseconds.append(seconds * 1000)
    plain = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
    timing.sent_bytes = max(timing.sent_bytes, len(body))
    timing.plain_bytes = max(timing.plain_bytes, len(plain))


def ensure_report(db: Database) -> None:
    """Freeze some comparisons, so that there are reports to ask for."""
    with db.reading() as session:
        if session.scalar(select(func.count()).select_from(ReportRow)):
            return
    for size in (4096, 65536, 1048576):
        query = f"axis=api&a=write&b=sendfile&sender_nic=I210&message_size={size}"
        freeze.freeze(db, query, f"sendfile beside write, {size} bytes")


def print_pages(kinds: Sequence[Kind], of_databases: Sequence[dict[str, Timing]]) -> None:
    """Print one line a kind for the last database, with the medians of those before it."""
    print(
        f"{'page':<20}{'p50':>8}{'p95':>8}{'p99':>8}{'budget':>8}         {'made':>8}{'SQL':>4}"
        f"{'gzip':>9}{'plain':>9}   made by database, growth"
    )
    for kind in kinds:
        each = [timings[kind.name] for timings in of_databases]
        last = each[-1]
        p95 = last.percentile(0.95)
        budget = f"{kind.budget_ms:g}" if kind.budget_ms else ""
        kept = "" if kind.budget_ms is None else "kept" if p95 <= kind.budget_ms else "MISSED"
        medians = "  ".join(f"{statistics.median(one.made):.1f}" for one in each)
        print(
            f"{kind.name:<20}{last.percentile(0.5):8.1f}{p95:8.1f}{last.percentile(0.99):8.1f}"
            f"{budget:>8} {kept:<8}{statistics.median(last.made):8.1f}{last.statements:4d}"
            f"{last.sent_bytes:9,d}"
            f"{last.plain_bytes:9,d}   {medians}{growth(each)}"
        )
        for failure in sorted(set(last.failures))[:3]:
            print(f"    {len(last.failures)} answers were not 200: {failure}")


def growth(each: Sequence[Timing]) -> str:
    """Return what the last database takes as a multiple of the first; "" with one alone."""
    if len(each) < 2:
        return ""
    return f"  x{statistics.median(each[-1].made) / statistics.median(each[0].made):.2f}"


# -- beside Datasette -----------------------------------------------------------------------------


def datasette_script() -> str:
    """Return Datasette's command, from a virtual environment that is made once."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zcdb-bench"
    script = cache / "datasette" / "bin" / "datasette"
    if not script.exists():
        subprocess.run([sys.executable, "-m", "venv", str(cache / "datasette")], check=True)
        pip = [str(script.parent / "pip"), "install", "--quiet", "datasette"]
        subprocess.run(pip, check=True)
    return str(script)


def beside_datasette(database: str, requests: int) -> None:
    """Print zcdb's and Datasette's medians for the same content, asked in alternation."""
    with opened(database) as db:
        sample = Sample(db, random.Random(SEED))
        port = free_port()
        name = Path(database).stem
        command = [datasette_script(), "serve", database, "--port", str(port)]
        command += ["--setting", "sql_time_limit_ms", "10000"]
        command += ["--setting", "facet_time_limit_ms", "10000"]
        with (
            zcdb_serving(database) as own,
            running(command, port),
            closing(Client(own)) as ours,
            closing(Client(port)) as theirs,
        ):
            pairs = datasette_pairs(sample, f"/{quote(name)}")
            print(f"{'content':<34}{'zcdb ms':>9}{'Datasette ms':>14}{'ratio':>8}")
            for what, asked in pairs:
                took: tuple[list[float], list[float]] = ([], [])
                for _ in range(requests):
                    addresses = asked()
                    for client, address, times in zip((ours, theirs), addresses, took, strict=True):
                        status, seconds, _ = client.get(address)
                        if status != 200:
                            sys.exit(f"{address} answered {status}")
                        times.append(seconds * 1000)
                medians = [statistics.median(times) for times in took]
                ratio = medians[0] / medians[1]
                print(f"{what:<34}{medians[0]:9.1f}{medians[1]:14.1f}{ratio:8.2f}", flush=True)


def datasette_pairs(sample: Sample, root: str) -> list[tuple[str, Callable[[], tuple[str, str]]]]:
    """Return (content, maker of the two addresses) of what both can show."""

    def trial() -> tuple[str, str]:
        public_id = sample.id(TrialRow)
        return f"/trials/{public_id}", f"{root}/trials?public_id__exact={public_id}"

    def case() -> tuple[str, str]:
        public_id = sample.id(CaseRow)
        return f"/cases/{public_id}", f"{root}/cases?public_id__exact={public_id}"

    def faceted() -> tuple[str, str]:
        kernel = _kernel(sample)
        facet = f"factor=sender_kernel&value={kernel}&_facet=value&_facet=factor"
        return explored(sender_kernel=kernel), f"{root}/case_factors?{facet}"

    def searched() -> tuple[str, str]:
        word = sample.choice("ixgbe", "ice", "igb")
        return explored(q=word), f"{root}/cases?factors_json__contains={word}"

    return [
        ("a trial", trial),
        ("a case", case),
        ("the runs", lambda: ("/runs", f"{root}/runs?_sort_desc=started_at&_size=50")),
        ("cases of one kernel, with facets", faceted),
        ("cases with a word", searched),
    ]


# -- in a browser ---------------------------------------------------------------------------------

PAINT_BUDGET_MS = 800
SHIFT_BUDGET = 0.02
PAINT = """() => new Promise((done, fail) => {
  let shift = 0, paint = 0;
  new PerformanceObserver(list => {
    for (const one of list.getEntries()) if (!one.hadRecentInput) shift += one.value;
  }).observe({type: "layout-shift", buffered: true});
  new PerformanceObserver(list => {
    for (const one of list.getEntries()) paint = one.startTime;
  }).observe({type: "largest-contentful-paint", buffered: true});
  const tell = left => {
    const first = performance.getEntriesByName("first-contentful-paint")[0];
    if (!(paint && first)) {
      return left ? setTimeout(tell, 200, left - 1) : fail(Error("nothing was painted in 10 s"));
    }
    const loaded = performance.getEntriesByType("resource");
    const sent = loaded.concat(performance.getEntriesByType("navigation"))
      .reduce((sum, one) => sum + one.transferSize, 0);
    done([paint, shift, loaded.length + 1, sent, first.startTime]);
  };
  setTimeout(tell, 600, 50);
})"""


def in_browser(database: str, kinds: Sequence[Kind], visits: int = 5) -> None:
    """Print largest paint, layout shift, requests and bytes of first views, 390 and 1280 wide."""
    from playwright.sync_api import sync_playwright

    with opened(database) as db, zcdb_serving(database) as port, sync_playwright() as playwright:
        sample = Sample(db, random.Random(SEED))
        browser = playwright.chromium.launch(
            executable_path=browser_path(), args=list(BROWSER_FLAGS)
        )
        print(
            f"{'page':<20}{'width':>6}{'first ms':>10}{'paint ms':>10}{'shift':>8}"
            f"{'requests':>10}{'bytes':>9}"
        )
        for kind, width in itertools.product(kinds, (390, 1280)):
            seen = []
            for _ in range(visits):
                context = browser.new_context(viewport={"width": width, "height": 844})
                page = context.new_page()
                page.goto(f"http://127.0.0.1:{port}{kind.address(sample)}")
                seen.append(page.evaluate(PAINT))
                context.close()
            paint = statistics.median(one[0] for one in seen)
            first = statistics.median(one[4] for one in seen)
            shift = max(one[1] for one in seen)
            kept = paint <= PAINT_BUDGET_MS and shift <= SHIFT_BUDGET
            print(
                f"{kind.name:<20}{width:6d}{first:10.0f}{paint:10.0f}{shift:8.3f}{seen[0][2]:10d}"
                f"{max(one[3] for one in seen):9,d} {'kept' if kept else 'MISSED'}",
                flush=True,
            )
        browser.close()


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("databases", nargs="+", help="made by generate.py; the last one counts")
    parser.add_argument("--requests", type=int, default=200, help="of each kind of page")
    parser.add_argument("--only", help="a regular expression that names of pages match")
    parser.add_argument("--datasette", action="store_true")
    parser.add_argument("--browser", action="store_true")
    asked = parser.parse_args()
    kinds = [kind for kind in KINDS if not asked.only or re.search(asked.only, kind.name)]
    if asked.datasette:
        for database in asked.databases:
            print(database)
            beside_datasette(database, asked.requests)
    elif asked.browser:
        in_browser(asked.databases[-1], [kind for kind in kinds if kind.name != "feed"])
    else:
        print_pages(kinds, [measure(one, kinds, asked.requests) for one in asked.databases])


if __name__ == "__main__":
    main()
