"""The glossary: the words of docs/glossary.md, which is shipped with the site."""

from __future__ import annotations

import re
from dataclasses import dataclass

from markupsafe import Markup

from zcdb.webapp.present.prose import inline, read, slug

_TERM = re.compile(r"^\*\*(?P<term>[^*]+)\.\*\*\s+(?P<says>.+)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Term:
    """A word with what it means."""

    term: str
    id: str
    says: str
    html: Markup


@dataclass(frozen=True, slots=True)
class GlossaryContent:
    """All that the page says."""

    terms: tuple[Term, ...]


def glossary_content() -> GlossaryContent:
    """Return the words in their order."""
    found = []
    for paragraph in re.split(r"\n\s*\n", read("glossary.md")):
        match = _TERM.match(paragraph.strip())
        if match:
            says = " ".join(match["says"].split())
            found.append(Term(match["term"], slug(match["term"]), says, inline(says)))
    return GlossaryContent(tuple(found))
