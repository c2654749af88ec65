"""Pages of docs/ as pages of the site: a small part of Markdown, turned into safe HTML.

Known are headings, paragraphs, lists, tables, code (fenced or set in), and inside a line
`code`, **bold**, *italics* and [links](address).  Everything else is text, and
all text is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup, escape

STATIC = Path(__file__).resolve().parent.parent / "static"

INDENT = "    "
"""What stands so far in, at the start of a block, is code."""

_INLINE = re.compile(
    r"`(?P<code>[^`]+)`|\*\*(?P<bold>.+?)\*\*|\*(?P<italics>[^*\s][^*]*)\*"
    r"|\[(?P<label>[^\]]+)\]\((?P<address>[^)\s]+)\)"
)
_ITEM = re.compile(r"^(?P<mark>[-*]|[0-9]+\.) +(?P<text>.*)$")
_DOCUMENT = re.compile(r"^(?:docs/)?[a-z-]+\.md")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a document: its heading, the heading as an id, and the HTML of all below it."""

    title: str
    slug: str
    html: Markup


def read(name: str) -> str:
    """Return a document that is shipped with the site."""
    return (STATIC / name).read_text(encoding="utf-8")


def slug(title: str) -> str:
    """Return a heading as it stands in an address: "What an end is" is "what-an-end-is"."""
    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))


def sections(text: str) -> list[Section]:
    """Return the parts of a document under its headings of the second level."""
    parts = re.split(r"^## +(.+)$", text, flags=re.MULTILINE)
    return [
        Section(title.strip(), slug(title), to_html(body))
        for title, body in zip(parts[1::2], parts[2::2], strict=True)
    ]


def inline(text: str) -> Markup:
    """Return one line's text as HTML."""
    made = Markup("")
    last = 0
    for match in _INLINE.finditer(text):
        made += escape(text[last : match.start()]) + _marked(match)
        last = match.end()
    return made + escape(text[last:])


def _marked(match: re.Match[str]) -> Markup:
    if match["code"] is not None:
        return Markup("<code>{}</code>").format(match["code"])
    if match["bold"] is not None:
        return Markup("<strong>{}</strong>").format(inline(match["bold"]))
    if match["italics"] is not None:
        return Markup("<em>{}</em>").format(inline(match["italics"]))
    # Pages of docs/ are not all pages of the site: such a link is its label.
    if _DOCUMENT.match(match["address"]) or "//" in match["address"]:
        return inline(match["label"])
    return Markup('<a href="{}">{}</a>').format(match["address"], inline(match["label"]))


def to_html(text: str) -> Markup:
    """Return a document's body as HTML."""
    return Markup("\n").join(_blocks(text.strip().splitlines()))


def _blocks(lines: list[str]) -> Iterator[Markup]:
    place = 0
    while place < len(lines):
        line = lines[place]
        if not line.strip():
            place += 1
        elif line.startswith("```"):
            end = next((i for i in range(place + 1, len(lines)) if lines[i].startswith("```")),
                       len(lines))  # fmt: skip
            code = "\n".join(lines[place + 1 : end])
            yield Markup('<pre tabindex="0"><code>{}</code></pre>').format(code)
            place = end + 1
        elif line.startswith(INDENT):
            end = next(
                (i for i in range(place, len(lines)) if not lines[i].startswith(INDENT)), len(lines)
            )
            code = "\n".join(one.removeprefix(INDENT) for one in lines[place:end])
            yield Markup('<pre tabindex="0"><code>{}</code></pre>').format(code)
            place = end
        elif line.startswith("#"):
            title = line.lstrip("#").strip()
            yield Markup('<h3 id="{}">{}</h3>').format(slug(title), inline(title))
            place += 1
        else:
            end = _end(lines, place)
            yield _paragraph(lines[place:end])
            place = end


def _end(lines: list[str], start: int) -> int:
    """Return the line after the last one of the block that begins at `start`."""
    for place in range(start + 1, len(lines)):
        line = lines[place]
        if line.startswith(("#", "```")) or not line.strip():
            return place
        if _ITEM.match(line) and not _ITEM.match(lines[start]):
            return place
    return len(lines)


def _paragraph(lines: list[str]) -> Markup:
    if lines[0].startswith("|"):
        return _table(lines)
    if _ITEM.match(lines[0]):
        return _list(lines)
    return Markup("<p>{}</p>").format(inline(" ".join(line.strip() for line in lines)))


def _list(lines: list[str]) -> Markup:
    items: list[str] = []
    for line in lines:
        match = _ITEM.match(line)
        if match:
            items.append(match["text"].strip())
        else:
            items[-1] += " " + line.strip()
    tag = "ol" if lines[0][0].isdigit() else "ul"
    inside = Markup("").join(Markup("<li>{}</li>").format(inline(item)) for item in items)
    return Markup(f"<{tag} class='prose-list'>{{}}</{tag}>").format(inside)  # noqa: S704


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _table(lines: list[str]) -> Markup:
    head, rule, *body = (_cells(line) for line in lines)
    classes = ["num" if mark.endswith(":") else "" for mark in rule]

    def row(cells: list[str], tag: str) -> Markup:
        made = Markup("")
        for place, cell in enumerate(cells):
            name = classes[place] if place < len(classes) else ""
            scope = ' scope="col"' if tag == "th" else ""
            made += Markup(f"<{tag}{scope} class='{name}'>{{}}</{tag}>").format(inline(cell))  # noqa: S704
        return Markup("<tr>{}</tr>").format(made)

    rows = Markup("").join(row(cells, "td") for cells in body)
    return Markup(
        '<div class="scroll scroll--tight" tabindex="0" role="region" aria-label="{}"><table>'
        "<thead>{}</thead><tbody>{}</tbody></table></div>"
    ).format("Table: " + ", ".join(cell.replace("`", "") for cell in head), row(head, "th"), rows)
