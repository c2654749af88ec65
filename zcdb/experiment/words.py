"""Near names for mistyped ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that `word` was probably meant to be, or None."""
    by_folded = {name.lower().replace("-", "_"): name for name in known}
    folded = word.lower().replace("-", "_")
    found = difflib.get_close_matches(folded, by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `"; did you mean 'x'?"`, or what is known where nothing is near."""
    names = list(known)
    near = nearest(word, names)
    return f"; did you mean {near!r}?" if near else f"; known are {', '.join(names)}"
