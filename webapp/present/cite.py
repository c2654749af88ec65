"""How to cite a page: a line of text and a BibTeX entry."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    letter: f"\\{letter}" for letter in "&%$#_{}"
}


@dataclass(frozen=True, slots=True)
class Citation:
    """How a page is cited."""

    text: str
    bibtex: str


def cite(
    kind: str, id: str, title: str, address: str, at: datetime | None, version: str
) -> Citation:
    """Return how to cite a result.

    Args:
        kind: "case", "trial", "run" or "experiment".
        id: its id, which says what it is wherever the database is served.
        at: when it was measured; None where it has no single date.
        version: of zcdb.
    """
    measured = f", measured {at:%Y-%m-%d}" if at else ""
    text = f"{title}. zcdb {kind} {id}{measured}. {address}"
    lines = [
        f"@misc{{zcdb-{kind}-{id[:8]},",
        f"  title = {{{latex(title)}}},",
        f"  howpublished = {{zcdb {kind} {latex(id)}}},",
        *([f"  year = {{{at:%Y}}},"] if at else []),
        f"  url = {{{address}}},",
        f"  note = {{{latex(f'zcdb {version}')}}}",
        "}",
    ]
    return Citation(text, "\n".join(lines))


def latex(text: str) -> str:
    """Return a text as LaTeX writes it."""
    return re.sub(r"[\\~^&%$#_{}]", lambda match: _SPECIAL[match[0]], text)
