"""Files that pages load, each at an address made from its content, so that it may be kept for ever.

Ours lie in `static/`; plotly.min.js comes from the installed plotly package and
is never copied into the repository.  A file is read, hashed and compressed
once per process, at its first use.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import plotly
from flask import Blueprint, Response, abort, request

STATIC = Path(__file__).parent / "static"
PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"

FILES: dict[str, Path] = {
    "site.css": STATIC / "site.css",
    "charts.js": STATIC / "charts.js",
    "icon.svg": STATIC / "icon.svg",
    "plotly.min.js": PLOTLY,
}
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

_MAP_STYLES = re.compile(r"\.textContent='((?:[^'\\]|\\.)*)'")

blueprint = Blueprint("assets", __name__)


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is served."""

    content: bytes
    packed: bytes
    type: str


@cache
def asset(name: str) -> Asset:
    """Return a file of `FILES`.

    Raises:
        KeyError: if there is no such file.
    """
    path = FILES[name]
    content = path.read_bytes()
    return Asset(
        content=content,
        packed=gzip.compress(content, compresslevel=9, mtime=0),
        type=TYPES[path.suffix],
    )


@cache
def address(name: str) -> str:
    """Return the address of a file of `FILES`: its name with a hash of its content.

    Raises:
        KeyError: if there is no such file.
    """
    digest = hashlib.sha256(FILES[name].read_bytes()).hexdigest()[:12]
    stem, _, ending = name.partition(".")
    return f"/assets/{stem}-{digest}.{ending}"


def style_hash(style: str) -> str:
    """Return the policy's word for an inline style of exactly this text."""
    digest = hashlib.sha256(style.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@cache
def plotly_style_hashes() -> tuple[str, ...]:
    """Return the policy's hashes of the style elements that plotly.min.js makes.

    It makes an empty one, which it fills rule by rule, and one fixed stylesheet
    for maps, whose text stands in the file as a JavaScript string.
    """
    script = PLOTLY.read_text(encoding="utf-8")
    texts = {""} | {
        re.sub(r"\\(.)", r"\1", match[1])
        for match in _MAP_STYLES.finditer(script)
        if "{" in match[1]
    }
    return tuple(sorted(style_hash(text) for text in texts))


@blueprint.get("/assets/<name>")
def file(name: str) -> Response:
    """Serve a file whose address is current; an old address is gone."""
    key = {address(key): key for key in FILES}.get(request.path)
    if key is None:
        abort(404, description=f"There is no file {name} in this version of the site.")
    found = asset(key)
    is_packed = "gzip" in request.headers.get("Accept-Encoding", "")
    response = Response(found.packed if is_packed else found.content, mimetype=None)
    response.headers["Content-Type"] = found.type
    response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
    response.headers["Vary"] = "Accept-Encoding"
    if is_packed:
        response.headers["Content-Encoding"] = "gzip"
    return response
