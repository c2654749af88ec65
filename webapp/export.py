"""The whole site as files: the same addresses, for any web server or none.

    export_site(db, Path("public"))

Every page is asked of the application itself, as a browser would, beginning with the addresses
that are known and following every link.  `/cases/ID` becomes `cases/ID/index.html`, its twins
`cases/ID.json` and `cases/ID.csv`; links become relative.  What a file server cannot answer, a
question in a query, is left out: pages of lists (`?after=`) are files, states of /explore and
/compare are there where a short address was kept for them, and forms become a sentence.
How a page is rewritten is in `export_rewrite`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from flask import Flask, render_template
from werkzeug.test import TestResponse

from zcdb.errors import UsageError, ZcdbError
from zcdb.store import reports
from zcdb.store.bundle_select import ids_of
from zcdb.store.session import Database
from zcdb.webapp import assets, create_app
from zcdb.webapp.export_rewrite import Places, State, is_page, redirect_page, rewrite
from zcdb.webapp.pages import Page, json_text

MARK = ".zcdb-site"
"""A file in the folder that lists the files which zcdb wrote there."""

SEEDS = ("/", "/reports", "/sources", "/runs", "/history/conclusions")
NICS = ("/nics", "/buy")
STATES = ("/explore", "/compare")
"""Pages that are questions: only their kept states are files."""

REPORT_FORMS = (".json", ".csv", ".txt", ".svg", "/inputs.json", "/verify")
ANSWERED = (200, 400, 404, 410)
"""Statuses whose page is written: one that was taken back says so, as on the live site."""

Progress = Callable[[int, int], None]


class ExportError(ZcdbError):
    """The site cannot be written."""


@dataclass(frozen=True, slots=True)
class Written:
    """What was written: pages for people, and files in all."""

    pages: int
    files: int


def export_site(
    db: Database,
    folder: Path,
    progress: Progress | None = None,
    *,
    with_nics: bool = True,
) -> Written:
    """Write the site of a database into a folder.

    Args:
        db: the database.
        folder: a new or empty one, or one that an earlier export wrote; what that one wrote and
            this one does not is removed.
        progress: told how many addresses are done and how many are known to follow.
        with_nics: False leaves the catalogue of network cards out, which is the same everywhere.

    Raises:
        UsageError: if the folder holds something else.
        ExportError: if a page does not work, or a file cannot be written.
    """
    before = _earlier(folder)
    site = _Site(db, folder, () if with_nics else NICS)
    try:
        # From now on the folder is known as ours, also if this export is interrupted.
        _mark(folder, before)
        site.write_all(progress)
        for name in sorted(before - site.files):
            if ".." not in Path(name).parts:
                (folder / name).unlink(missing_ok=True)
        _mark(folder, site.files)
    except OSError as error:
        place = error.filename or folder
        raise ExportError(f"{place} cannot be written: {error.strerror or error}") from error
    return Written(site.pages, len(site.files))


def _mark(folder: Path, files: Iterable[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    listed = "".join(f"{name}\n" for name in sorted(files))
    (folder / MARK).write_text(listed, encoding="utf-8")


def _earlier(folder: Path) -> set[str]:
    """Return the files that an earlier export wrote into the folder.

    Raises:
        UsageError: if the folder is no folder, or holds what zcdb did not write.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    if not folder.exists() or not any(folder.iterdir()):
        return set()
    mark = folder / MARK
    if not mark.is_file():
        raise UsageError(
            f"{folder} holds files that zcdb did not write",
            hint="Name a new folder, or one that 'zcdb export site' wrote.",
        )
    return set(mark.read_text(encoding="utf-8").splitlines())


class _Site:
    """Writes pages until no link leads to one that is not written."""

    def __init__(self, db: Database, folder: Path, left_out: Sequence[str]) -> None:
        self._db = db
        self._folder = folder
        self._app = create_app({"DATABASE": db})
        self._client = self._app.test_client()
        self._states = {
            (path, query): State(link_id, path, query) for link_id, path, query in reports.links(db)
        }
        self._places = Places(self._states, STATES, left_out)
        self._waiting: deque[str] = deque()
        self._known: set[str] = set()
        self.files: set[str] = set()
        self.pages = 0

    def write_all(self, progress: Progress | None) -> None:
        """Write every page; see `export_site`."""
        for name in assets.FILES:
            self._write(assets.address(name).lstrip("/"), assets.asset(name).content)
        self._known |= {address for path in STATES for address in (path, f"{path}.json")}
        for path in STATES:
            self._write_states(path)
        for state in self._states.values():
            self._write_state(state)
        self._add(self._seeds())
        while self._waiting:
            self._write_address(self._waiting.popleft())
            if progress:
                progress(len(self._known) - len(self._waiting), len(self._waiting))

    def _seeds(self) -> Iterable[str]:
        """Yield addresses that may not be linked from another page."""
        yield from SEEDS
        for folder, kind in (("cases", "case"), ("entries", "entry"), ("reports", "report")):
            for public_id in ids_of(self._db, kind):
                yield f"/{folder}/{public_id}"
                if kind == "report":
                    yield from (f"/reports/{public_id}{form}" for form in REPORT_FORMS)

    def _add(self, addresses: Iterable[str]) -> None:
        for address in addresses:
            if address not in self._known:
                self._known.add(address)
                self._waiting.append(address)

    def _write_address(self, address: str) -> None:
        """Write what is at an address."""
        path = urlsplit(address).path
        answer = self._client.get(address)
        if 300 <= answer.status_code < 400:
            target = answer.headers["Location"]
            at = self._places.file(address)
            self._write(at, redirect_page(self._places.relative(path, target) or "").encode())
            self._add([self._places.canonical(target)])
        elif is_page(path):
            self._write_page(answer, address, self._places.file(address), None)
        elif answer.status_code == 200:
            self._write(self._places.file(address), answer.data)
        elif not _is_optional(path):
            raise ExportError(f"the page {address} does not work: status {answer.status_code}")

    def _write_page(self, answer: TestResponse, address: str, at: str, state: State | None) -> None:
        if answer.status_code not in ANSWERED:
            raise ExportError(f"the page {address} does not work: status {answer.status_code}")
        place = f"/q/{state.id}" if state else address
        done = rewrite(answer.text, place, self._places, state)
        self._write(at, done.html.encode())
        self.pages += 1
        self._add(done.addresses)
        for twin, name in done.state_files.items():
            found = self._client.get(twin)
            if found.status_code != 200:
                raise ExportError(f"{twin} does not work: status {found.status_code}")
            self._write(name, found.data)

    def _write_states(self, path: str) -> None:
        """Write the page that lists the kept states of a page that asks."""
        kept = [state for state in self._states.values() if state.path == path]
        html = _states_page(self._app, path, kept)
        done = rewrite(html, path, self._places, None)
        name = path.strip("/")
        self._write(f"{name}/index.html", done.html.encode())
        self._write(f"{name}.json", json_text({"states": kept}).encode())
        self.pages += 1
        self._add(done.addresses)

    def _write_state(self, state: State) -> None:
        address = f"{state.path}?{state.query}" if state.query else state.path
        answer = self._client.get(address)
        self._write_page(answer, address, f"q/{state.id}/index.html", state)

    def _write(self, name: str, content: bytes) -> None:
        path = self._folder / unquote(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self.files.add(unquote(name))


def _is_optional(path: str) -> bool:
    """Tell whether an address need not be there: not every report has a picture."""
    return path.startswith("/reports/") and path.endswith(".svg")


def _states_page(app: Flask, path: str, kept: list[State]) -> str:
    title = path.strip("/").capitalize()
    page = Page(
        template="static_states.html",
        title=title,
        description=f"Kept states of {title}.",
        path=path,
        content=kept,
    )
    with app.test_request_context(path):
        return render_template(page.template, page=page, content=kept)
