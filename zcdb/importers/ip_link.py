"""`ip -j -d link`: the interfaces of a machine or a namespace.

`link_index` together with `link_netnsid` names an interface of another
namespace: it is kept as the peer's number and joined with nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from zcdb.ids import Json
from zcdb.importers import quantities as q
from zcdb.importers.context import Context, Found, Source
from zcdb.importers.documents import Document
from zcdb.importers.model import Draft, Refusal
from zcdb.importers.text import Line, span

TOOL = "ip-link"

_TEXTS = ("ifname", "operstate", "qdisc", "link_type", "address", "parentbus", "parentdev")
_NUMBERS = (
    "ifindex",
    "mtu",
    "min_mtu",
    "max_mtu",
    "txqlen",
    "num_tx_queues",
    "num_rx_queues",
    "gso_max_size",
    "gso_max_segs",
    "tso_max_size",
    "gro_max_size",
)
_MISSING = re.compile(
    r'^\s*(?:Cannot find device "\S{1,60}"|Device "\S{1,60}" does not exist\.)\s*$'
)


def matches(value: Json) -> bool:
    """Tell whether a document is a list of interfaces."""
    return isinstance(value, list) and any(
        isinstance(v, dict) and "ifindex" in v and "ifname" in v for v in value
    )


def parse_documents(documents: Sequence[Document], source: Source, context: Context) -> Found:
    """Return one result for each list of interfaces."""
    found: Found = []
    for document in documents:
        assert isinstance(document.value, list)  # noqa: S101 - matches() has seen it
        links: list[Json] = [
            _link(item) for item in document.value if isinstance(item, dict) and "ifname" in item
        ]
        draft = Draft(TOOL, "json", "ip link")
        draft.detail("links", links)
        draft.count("records", len(links))
        if document.is_cut:
            draft.flag("incomplete", "the JSON is cut off: read as far as complete keys go")
        found.append(draft.done(source.span(document.start, document.end)))
    return found


def _link(item: Mapping[str, Json]) -> dict[str, Json]:
    link: dict[str, Json] = {}
    for name in _TEXTS:
        value = item.get(name)
        link[name] = value if isinstance(value, str) else None
    for name in _NUMBERS:
        link[name] = q.json_count(item.get(name))
    flags = item.get("flags")
    link["flags"] = [f for f in flags if isinstance(f, str)] if isinstance(flags, list) else []
    info = item.get("linkinfo")
    kind = info.get("info_kind") if isinstance(info, Mapping) else None
    link["kind"] = kind if isinstance(kind, str) else None
    link["peer_ifindex"] = q.json_count(item.get("link_index"))
    return link


def is_hinted(text: str) -> bool:
    """Tell whether ip's complaint may stand here."""
    return "does not exist." in text or "Cannot find device" in text


def parse(lines: Sequence[Line], context: Context) -> Found:
    """Return a refusal for each complaint of ip."""
    return [
        Refusal(TOOL, f"ip link: {line.text.strip()[:200]}", span(lines, i, i))
        for i, line in enumerate(lines)
        if _MISSING.match(line.text)
    ]
