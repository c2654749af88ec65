"""Which requests may change something: those that a page of this very site sent.

There are no cookies and no logins, but a page of another site could still make a
reader's browser send a form here.  Browsers say where a form comes from, and that
is checked; programs that say nothing (curl) act for nobody but who started them.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from flask import request
from werkzeug.datastructures import Headers
from werkzeug.exceptions import Forbidden


def is_from_elsewhere(headers: Mapping[str, str] | Headers, host: str) -> bool:
    """Return whether a page of another site sent a request.

    Args:
        headers: of the request; `Sec-Fetch-Site` is believed before `Origin`, which
            browsers also send where they leave the other out (plain HTTP).
        host: the Host header: name and port.
    """
    if site := headers.get("Sec-Fetch-Site"):
        return site not in ("same-origin", "none")
    origin = headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc.lower() != host.lower()


def require_own_page() -> None:
    """Refuse the current request if a page of another site sent it.

    Raises:
        Forbidden: with the sentence for the reader.
    """
    if is_from_elsewhere(request.headers, request.headers.get("Host", "")):
        raise Forbidden("This form came from another site; open the page here and press it there.")
