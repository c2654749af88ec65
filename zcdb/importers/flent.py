"""flent's data files (.flent, .flent.gz and older names).

`raw_values` are what the tools measured; `results` are drawn onto a common
time axis and only tell which series there are.  A file of a newer version
than 4 is refused.  Units are those of the series' own metadata.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from zcdb.ids import Json
from zcdb.importers import quantities as q
from zcdb.importers.context import Context, Found, Source
from zcdb.importers.documents import Document
from zcdb.importers.model import Draft, Refusal

TOOL = "flent"
NEWEST_VERSION = 4
_TEXTS = ("NAME", "TITLE", "TIME", "KERNEL_NAME", "KERNEL_RELEASE", "FLENT_VERSION", "HOST")


def matches(value: Json) -> bool:
    """Tell whether a document is a flent data file."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("metadata"), dict)
        and ("x_values" in value or "raw_values" in value)
    )


def parse_documents(documents: Sequence[Document], source: Source, context: Context) -> Found:
    """Return one result for each flent data file."""
    found: Found = []
    for document in documents:
        place = source.span(document.start, document.end)
        assert isinstance(document.value, dict)  # noqa: S101 - matches() has seen it
        tree = document.value
        version = q.json_count(tree.get("version")) or 1
        if version > NEWEST_VERSION:
            reason = f"flent data version {version}: only up to {NEWEST_VERSION} is known"
            found.append(Refusal(TOOL, reason, place))
            continue
        draft = _draft(tree, version)
        if not draft.details["series"]:
            found.append(Refusal(TOOL, "flent data without a measured value", place))
            continue
        if document.is_cut:
            draft.flag("incomplete", "the JSON is cut off")
        found.append(draft.done(place))
    return found


def _draft(tree: Mapping[str, Json], version: int) -> Draft:
    metadata = tree["metadata"]
    assert isinstance(metadata, Mapping)  # noqa: S101 - matches() has seen it
    name = metadata.get("NAME")
    draft = Draft(TOOL, f"v{version}", name if isinstance(name, str) else "flent")
    flent_version = metadata.get("FLENT_VERSION")
    draft.version = flent_version if isinstance(flent_version, str) else None
    for key in _TEXTS:
        value = metadata.get(key)
        draft.detail(key.lower(), value if isinstance(value, str) else None)
    draft.detail("length_s", q.json_number(metadata.get("LENGTH")))
    meta = metadata.get("SERIES_META")
    units = meta if isinstance(meta, Mapping) else {}
    series: dict[str, Json] = {}
    for title, values in _series(tree).items():
        if values:
            series[title] = _summary(values, units.get(title))
    draft.detail("series", series)
    _take_single(draft, series, tree)
    return draft


def _series(tree: Mapping[str, Json]) -> dict[str, list[float]]:
    raw = tree.get("raw_values")
    found: dict[str, list[float]] = {}
    if isinstance(raw, Mapping):
        for title, rows in raw.items():
            values = [
                q.json_number(row.get("val"))
                for row in (rows if isinstance(rows, list) else [])
                if isinstance(row, Mapping)
            ]
            found[title] = [v for v in values if v is not None]
    return found


def _summary(values: Sequence[float], meta: Json) -> dict[str, Json]:
    unit = meta.get("UNITS") if isinstance(meta, Mapping) else None
    return {
        "samples": len(values),
        "median_printed": statistics.median_low(values),
        "min_printed": min(values),
        "max_printed": max(values),
        "unit": unit if isinstance(unit, str) else None,
    }


def _take_single(draft: Draft, series: Mapping[str, Json], tree: Mapping[str, Json]) -> None:
    """Take the mean of the raw values where a unit has one series; several are not added up."""
    raw = _series(tree)
    for units, factor, metric in (
        (("Mbits/s", "Mbit/s"), 1e6, "throughput"),
        (("ms",), 1e-3, "latency_mean"),
    ):
        titles = [
            title
            for title, summary in series.items()
            if isinstance(summary, Mapping) and summary.get("unit") in units
        ]
        if len(titles) == 1:
            draft.derive(metric, "mean", *(value * factor for value in raw[titles[0]]))
        elif titles:
            draft.measure(metric, None, f"{len(titles)} series of that unit: not added up")
    if draft.value("latency_mean") is not None:
        draft.factors["latency_kind"] = "rtt"
    draft.flag("end-unknown", "flent plots what its tools print, from either end")
