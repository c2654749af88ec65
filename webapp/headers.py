"""What every response carries, and which requests are answered at all.

The policy allows nothing but this server's own files.  Two exceptions are for
plotly.min.js: the style elements it makes are allowed by the hash of their
text, and style attributes are allowed, without which it smooths heatmaps.
`connect-src 'self'` is the backstop against its upload button.  The style
element of a chart that is a file of its own is allowed by its hash as well:
such a file would be drawn all black where somebody opens it here.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from flask import Flask, Response, current_app, request

from zcdb.webapp.assets import plotly_style_hashes, style_hash
from zcdb.webapp.charts.style import document_style


def content_security_policy() -> str:
    """Return the policy of every page."""
    styles = " ".join((*plotly_style_hashes(), style_hash(document_style())))
    return "; ".join(
        [
            "default-src 'none'",
            "script-src 'self'",
            f"style-src 'self' {styles}",
            "style-src-attr 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "connect-src 'self'",
            "font-src 'self'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        ]
    )


def host_name(host: str) -> str:
    """Return the name in a Host header, without its port and brackets, in lower case."""
    name = host.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0]


def is_allowed_host(host: str, allowed: Iterable[str]) -> bool:
    """Return whether a Host header names this site.

    Addresses are always allowed: a page of another site that rebinds its own
    name to this machine's address sends that name, never an address.
    """
    name = host_name(host)
    if name == "localhost" or name in {entry.lower() for entry in allowed}:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _check_host() -> Response | None:
    """Refuse a request that was sent to another site's name (DNS rebinding)."""
    host = request.headers.get("Host", "")
    if is_allowed_host(host, current_app.config["ALLOWED_HOSTS"]):
        return None
    return Response(
        "This zcdb site is not served under the name of your request.\n"
        "Use its address or 'localhost'; 'zcdb serve --host NAME' serves it under a name.\n",
        status=421,
        mimetype="text/plain",
    )


def _add_headers(response: Response) -> Response:
    response.headers["Content-Security-Policy"] = current_app.config["CONTENT_SECURITY_POLICY"]
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "same-origin"
    response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
    response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    response.headers["Permissions-Policy"] = "camera=(), microphone=(), geolocation=()"
    return response


def init_app(app: Flask) -> None:
    """Hook the checks and headers into an application."""
    app.config["CONTENT_SECURITY_POLICY"] = content_security_policy()
    app.before_request(_check_host)
    app.after_request(_add_headers)
