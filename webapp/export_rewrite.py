"""A page made fit for files: relative links, files in the place of queries, no forms.

Pure: HTML and addresses in, HTML and addresses out.
"""

from __future__ import annotations

import hashlib
import html
import posixpath
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import SplitResult, parse_qsl, unquote, urljoin, urlsplit

KEPT_PARAMETERS = frozenset({"after", "from", "version"})
"""Queries of these alone are files: they name the rest of a list, or a version."""

FORM_SENTENCE = (
    "These pages are files, so this form is not here; a site that ‘zcdb serve’ shows has it."
)

_FILE_ENDING = re.compile(r"\.(?:json|csv|txt|svg|toml|xml|atom|bib|tsv|js|css|zip|ndjson)$")
_TEXT = re.compile(r"^/sources/[0-9a-f]+/text$")
_ADDRESS = re.compile(r'(\s(?:href|src|action|data-figure-url|data-plotly))="([^"]*)"')
_BARE_LINK = re.compile(r"<link\b(?![^>]*\shref=)[^>]*>\s*")
_FORM = re.compile(r"<form\b.*?</form>", re.DOTALL)
_UNSAFE = re.compile(r"[^A-Za-z0-9=._~-]")
_SITE = "http://site"


@dataclass(frozen=True, slots=True)
class State:
    """A kept state of a page that asks: its short address, and what that stands for."""

    id: str
    path: str
    query: str

    def is_asked_by(self, path: str, query: str) -> bool:
        """Tell whether an address asks the same, its parameters in any order."""
        return path == self.path and sorted(parse_qsl(query)) == sorted(parse_qsl(self.query))


@dataclass(slots=True)
class Rewritten:
    """A page for files.

    Attributes:
        addresses: what its links lead to: more that has to be written.
        state_files: address of a twin or chart of a kept state -> the file it becomes.
    """

    html: str
    addresses: list[str] = field(default_factory=list)
    state_files: dict[str, str] = field(default_factory=dict)


class Places:
    """Where each address of the site is as a file.

    Args:
        states: (path, query) -> the kept state.
        asking: paths that are there as kept states only.
        left_out: paths that are not there, nor anything below them.
    """

    def __init__(
        self,
        states: Mapping[tuple[str, str], State],
        asking: Collection[str],
        left_out: Collection[str] = (),
    ) -> None:
        self._states = states
        self._asking = frozenset(asking)
        self._left_out = frozenset(left_out)

    def canonical(self, address: str) -> str:
        """Return an address of the site without its fragment."""
        parts = urlsplit(address)
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def file(self, address: str) -> str:
        """Return the file of an address, still quoted as in the address."""
        parts = urlsplit(address)
        base = parts.path.strip("/")
        if is_page(parts.path):
            folder = "/".join(filter(None, (base, _query_name(parts.query))))
            return f"{folder}/index.html" if folder else "index.html"
        if not parts.query:
            return base
        parent, _, name = base.rpartition("/")
        stem, dot, ending = name.partition(".")
        return "/".join(filter(None, (parent, stem, f"{_query_name(parts.query)}{dot}{ending}")))

    def relative(self, page: str, target: str) -> str | None:
        """Return a link from the page at one address to another address; None if it is no file."""
        found = self.named(page, target)
        if found is None:
            return None
        if is_page(found.path):
            there = posixpath.dirname(self.file(found._replace(fragment="").geturl()))
        else:
            there = self.file(found._replace(fragment="").geturl())
        here = posixpath.dirname(self.file(page))
        link = posixpath.relpath(f"/{there}", f"/{here}")
        if is_page(found.path):
            link += "/"
        if ":" in link.partition("/")[0]:
            link = f"./{link}"  # or the part before the colon would be a scheme
        return link + (f"#{found.fragment}" if found.fragment else "")

    def named(self, page: str, target: str) -> SplitResult | None:
        """Return the address on the site that a link leads to; None if it has no file."""
        joined = urlsplit(urljoin(_SITE + page, target))
        found = SplitResult("", "", joined.path or "/", joined.query, joined.fragment)
        if _is_below(found.path, self._left_out):
            return None
        if not found.query:
            return found
        for state in self._states.values():
            if state.is_asked_by(found.path, found.query):
                return SplitResult("", "", f"/q/{state.id}", "", found.fragment)
        names = {name for name, _ in parse_qsl(found.query, keep_blank_values=True)}
        if names <= KEPT_PARAMETERS and not _is_below(found.path, self._asking):
            return found
        return None


def _is_below(path: str, folders: Collection[str]) -> bool:
    """Tell whether an address is one of some folders, a twin of it, or below it."""
    return any(path == one or path.startswith((f"{one}.", f"{one}/")) for one in folders)


def is_page(path: str) -> bool:
    """Tell whether an address is a page for people, and so a folder with an index."""
    return _FILE_ENDING.search(path) is None and _TEXT.match(path) is None


def _query_name(query: str) -> str:
    """Return what a query is called as part of a file's name; "" for none."""
    if not query:
        return ""
    safe = _UNSAFE.sub("-", unquote(query))
    digest = hashlib.sha256(query.encode()).hexdigest()[:8] if safe != query else ""
    return "-".join(filter(None, (f"~{safe}", digest)))


def rewrite(text: str, page: str, places: Places, state: State | None) -> Rewritten:
    """Return a page fit for files.

    Args:
        text: its HTML.
        page: its address; that of the short address for a kept state.
        places: where everything is.
        state: the kept state that it shows, or None.
    """
    done = Rewritten("")

    def link(match: re.Match[str]) -> str:
        name, target = match[1], html.unescape(match[2])
        is_elsewhere = bool(urlsplit(target).scheme or target.startswith("//"))
        if is_elsewhere or target.startswith("#"):
            return match[0]
        new = _state_file(target, page, places, state, done) if state else None
        new = new or places.relative(page, target)
        if new is None:
            return ""
        found = places.named(page, target)
        if found is not None and not found.path.startswith(("/assets/", "/q/")):
            done.addresses.append(places.canonical(found.geturl()))
        return f'{name}="{html.escape(new)}"'

    text = _FORM.sub(lambda match: _without_form(match[0]), text)
    done.html = _BARE_LINK.sub("", _ADDRESS.sub(link, text))
    return done


def _state_file(
    target: str, page: str, places: Places, state: State, done: Rewritten
) -> str | None:
    """Return the link to a twin or a chart of the kept state that a page shows, or None."""
    parts = urlsplit(target)
    rest = parts.path.removeprefix(state.path)
    if rest == parts.path or not rest.startswith((".", "/charts/")) or is_page(parts.path):
        return None
    at = f"q/{state.id}{rest}"
    done.state_files[places.canonical(target)] = at
    return posixpath.relpath(f"/{at}", f"/{posixpath.dirname(places.file(page))}")


def redirect_page(link: str) -> str:
    """Return a page that leads on to a relative link, by itself or by a press."""
    shown = html.escape(link)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>zcdb</title>'
        f'<meta http-equiv="refresh" content="0; url={shown}"><link rel="canonical" href="{shown}">'
        f'</head><body><main><p><a href="{shown}">It is here</a></p></main></body></html>\n'
    )


# -- forms ----------------------------------------------------------------------------------------

_DROPPED = frozenset({"select", "button", "label", "textarea", "fieldset", "output", "datalist"})


def _without_form(form: str) -> str:
    """Return what stands in a form without its controls, and a sentence in their place.

    Of a form that stores something nothing is left.
    """
    if ' method="post"' in form.partition(">")[0]:
        return ""
    plain = _Plain()
    plain.feed(form)
    plain.close()
    return "".join(plain.parts)


class _Plain(HTMLParser):
    """Copies a form's content but for its controls, and the paragraphs that held nothing else."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.parts: list[str] = []
        self._dropping = 0
        self._paragraph: int | None = None
        self._lost_control = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        text = self.get_starttag_text() or ""
        if tag == "form":
            wanted = html.escape(dict(attrs).get("class") or "")
            self.parts.append(f'<div class="{wanted}"><p class="notice">{FORM_SENTENCE}</p>')
        elif tag in _DROPPED:
            self._dropping += 1
            self._lost_control = True
        elif tag == "input":
            self._lost_control = True
        elif not self._dropping:
            if tag == "p":
                self._paragraph, self._lost_control = len(self.parts), False
            self.parts.append(text)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "input":
            self._lost_control = True
        elif not self._dropping:
            self.parts.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self.parts.append("</div>")
        elif tag in _DROPPED:
            self._dropping -= 1
        elif not self._dropping:
            self.parts.append(f"</{tag}>")
            if tag == "p":
                self._end_paragraph()

    def _end_paragraph(self) -> None:
        """Take back a paragraph that only held controls; one with a link stays."""
        if self._paragraph is not None and self._lost_control:
            content = "".join(self.parts[self._paragraph :])
            if "<a " not in content:
                del self.parts[self._paragraph :]
        self._paragraph = None

    def _copy(self, text: str) -> None:
        if not self._dropping:
            self.parts.append(text)

    def handle_data(self, data: str) -> None:
        self._copy(data)

    def handle_entityref(self, name: str) -> None:
        self._copy(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self._copy(f"&#{name};")
