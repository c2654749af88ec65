"""Answers kept until anything is committed to the database, or the day ends.

The same page is asked for again and again while nothing changes.  What a page
says depends on its address, the name that the site is asked under, the database
and, for the age of statements, the date; while all of these stay, so does the
answer.  Memory is bounded; the answers that were not asked for longest go first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from flask import Response, current_app, request
from werkzeug.wrappers import Response as Redirect

from zcdb.webapp.data import database

LIMIT_BYTES = 32 * 1024 * 1024
"""Bodies kept in all; the longest page takes 2 MB unpacked."""

Key = tuple[str, str, bool]
"""Root of the site as it was asked for, path with query, and whether gzip is accepted."""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class KeptAnswers:
    """The answers of one application."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._state = ""
        self._answers: OrderedDict[Key, _Answer] = OrderedDict()
        self._size_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of all bodies that are kept."""
        return self._size_bytes

    def find(self, state: str, key: Key) -> Response | None:
        """Return the answer that was given in this state, None if there was none."""
        with self._lock:
            if state != self._state:
                return None
            found = self._answers.get(key)
            if found is None:
                return None
            self._answers.move_to_end(key)
        return Response(found.body, status=found.status, headers=list(found.headers))

    def keep(self, state: str, key: Key, response: Response) -> None:
        """Keep an answer; those of another state go."""
        body = response.get_data()
        if len(body) > self._limit_bytes:
            return
        with self._lock:
            if state != self._state:
                self._state, self._size_bytes = state, 0
                self._answers.clear()
            replaced = self._answers.pop(key, None)
            self._size_bytes += len(body) - (len(replaced.body) if replaced else 0)
            self._answers[key] = _Answer(response.status_code, tuple(response.headers), body)
            while self._size_bytes > self._limit_bytes:
                _, oldest = self._answers.popitem(last=False)
                self._size_bytes -= len(oldest.body)


def kept(make: Callable[[], Response | Redirect]) -> Response | Redirect:
    """Return what `make` answers to the current request, made once while nothing changes.

    An error is never kept: it is raised.
    """
    # Read before anything else is: what is committed meanwhile makes the answer an old one.
    state = f"{date.today()} {database().revision()}"
    key = (
        request.url_root,
        request.full_path,
        "gzip" in request.headers.get("Accept-Encoding", ""),
    )
    answers: KeptAnswers = current_app.extensions["zcdb_kept"]
    found = answers.find(state, key)
    if found is None:
        made = make()
        if made.status_code != 200 or not isinstance(made, Response):
            return made
        answers.keep(state, key, made)
        found = made
    found.make_conditional(request)
    return found
