"""Reading a file: which formats stand in it, and where.

JSON documents are found first; what is left is cleaned line by line and given
to every text format whose words occur in it.  One file may hold many results
of many tools.  Nothing that a file can contain makes this raise.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby

from zcdb.ids import Json
from zcdb.importers import (
    ethtool,
    flent,
    ip_link,
    iperf2,
    iperf2_csv,
    iperf3_json,
    iperf3_text,
    lspci,
    neper,
    netperf,
    nuttcp,
    perf_fields,
    perf_stat,
    sockperf,
    sysstat,
    ttcp,
    uperf,
)
from zcdb.importers.context import Context, Found, Source
from zcdb.importers.documents import Document, find_documents
from zcdb.importers.model import Reading, Refusal, Result, Span, plain_text, sha256_hex
from zcdb.importers.text import Line, clean_lines, decode, unpack


@dataclass(frozen=True, slots=True)
class TextFormat:
    """A format of lines.

    Attributes:
        is_hinted: a cheap look whether its words occur at all.
    """

    name: str
    is_hinted: Callable[[str], bool]
    parse: Callable[[Sequence[Line], Context], Found]


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """A format of JSON documents; `parse` gets documents that follow each other."""

    name: str
    matches: Callable[[Json], bool]
    parse: Callable[[Sequence[Document], Source, Context], Found]


TEXT_FORMATS: tuple[TextFormat, ...] = (
    TextFormat("netperf", netperf.is_hinted, netperf.parse),
    TextFormat("iperf2", iperf2.is_hinted, iperf2.parse),
    TextFormat("iperf2-csv", iperf2_csv.is_hinted, iperf2_csv.parse),
    TextFormat("iperf3", iperf3_text.is_hinted, iperf3_text.parse),
    TextFormat("neper", neper.is_hinted, neper.parse),
    TextFormat("nuttcp", nuttcp.is_hinted, nuttcp.parse),
    TextFormat("ttcp", ttcp.is_hinted, ttcp.parse),
    TextFormat("sockperf", sockperf.is_hinted, sockperf.parse),
    TextFormat("uperf", uperf.is_hinted, uperf.parse),
    TextFormat("perf-stat", perf_stat.is_hinted, perf_stat.parse),
    TextFormat("ethtool", ethtool.is_hinted, ethtool.parse),
    TextFormat("lspci", lspci.is_hinted, lspci.parse),
    TextFormat("ip-link", ip_link.is_hinted, ip_link.parse),
    TextFormat("sysstat", sysstat.is_hinted, sysstat.parse),
)

JSON_FORMATS: tuple[JsonFormat, ...] = (
    JsonFormat("iperf3", iperf3_json.matches, iperf3_json.parse),
    JsonFormat("perf-stat", perf_fields.matches, perf_fields.parse_documents),
    JsonFormat("sysstat", sysstat.matches, sysstat.parse_documents),
    JsonFormat("ip-link", ip_link.matches, ip_link.parse_documents),
    JsonFormat("ethtool", ethtool.matches, ethtool.parse_documents),
    JsonFormat("flent", flent.matches, flent.parse_documents),
)


class _CleanSource(Source):
    """The text of cleaned lines, which still knows where they stand in the file."""

    def __init__(self, lines: Sequence[Line]) -> None:
        super().__init__("\n".join(line.text for line in lines), "utf-8")
        self.lines = lines
        self.ends = list(accumulate(len(line.text) + 1 for line in lines))

    def indices(self, start: int, end: int) -> tuple[int, int]:
        """Return the indices of the first and the last line of some characters."""
        return bisect_right(self.ends, start), bisect_right(self.ends, max(start, end - 1))

    def span(self, start: int, end: int) -> Span:
        """Return where the lines of some characters stand in the file."""
        first, last = self.indices(start, end)
        a, b = self.lines[first], self.lines[last]
        return Span(a.first, b.last, a.first_byte, b.end_byte)


def read(data: bytes, file_name: str, command: str | None = None) -> Reading:
    """Return everything that the importers find in a file.

    Args:
        data: the file as it is, compressed or not.
        file_name: for messages; it decides nothing.
        command: a command line that belongs to the output, for what the text
            does not say.

    Returns:
        results and refusals in the order of the text, each with its lines and
        bytes; bytes of a compressed file count in what was unpacked.
    """
    inside, damage = unpack(data)
    text, encoding = decode(inside)
    context = Context(command)
    found: Found = []
    source = Source(text, encoding)
    documents, claimed = _read_documents(source, context)
    found += documents
    for start, end in _gaps(claimed, len(text)):
        found += _read_text(source, start, end, context)
    if damage is not None:
        found.append(Refusal("", damage, source.span(0, len(text))))
    if not found:
        reason = "no output of a known tool was recognised" if text.strip() else "the file is empty"
        found.append(Refusal("", reason, source.span(0, len(text))))
    found.sort(key=lambda item: (item.span.first_byte, item.span.end_byte))
    return Reading(
        file_name,
        sha256_hex(data),
        tuple(item for item in found if isinstance(item, Result)),
        tuple(
            replace(item, reason=plain_text(item.reason))
            for item in found
            if isinstance(item, Refusal)
        ),
    )


def _json_format(value: Json) -> JsonFormat | None:
    return next((f for f in JSON_FORMATS if f.matches(value)), None)


def _read_documents(source: Source, context: Context) -> tuple[Found, list[tuple[int, int]]]:
    """Read the documents of known formats; return also the characters they take."""
    found: Found = []
    claimed: list[tuple[int, int]] = []
    if "{" not in source.text and "[" not in source.text:
        return found, claimed
    known = [
        (form, document)
        for document in find_documents(source.text)
        if (form := _json_format(document.value)) is not None
    ]
    for form, group in groupby(known, key=lambda pair: pair[0]):
        documents = [document for _, document in group]
        found += form.parse(documents, source, context)
        claimed += [(document.start, document.end) for document in documents]
    return found, claimed


def _gaps(claimed: Sequence[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    gaps: list[tuple[int, int]] = []
    position = 0
    for start, end in sorted(claimed):
        if start > position:
            gaps.append((position, start))
        position = max(position, end)
    if position < length:
        gaps.append((position, length))
    return gaps


def _read_text(source: Source, start: int, end: int, context: Context) -> Found:
    """Read a piece of text between documents."""
    piece = source.text[start:end]
    if not piece.strip():
        return []
    place = source.span(start, start)
    lines = clean_lines(piece, source.encoding, place.first_line, place.first_byte)
    found: Found = []
    clean = _CleanSource(lines)
    if clean.text != piece and '{"' in clean.text.replace(" ", "").replace("\n", ""):
        # JSON inside quoted mail shows only now.
        documents, claimed = _read_documents(clean, context)
        found += documents
        lines = _blanked(lines, clean, claimed)
    lines = [replace(line, text="") if _is_escaped(line.text) else line for line in lines]
    text = "\n".join(line.text for line in lines)
    for form in TEXT_FORMATS:
        if form.is_hinted(text) or (form.name == "netperf" and context.command):
            found += form.parse(lines, context)
    return found


def _is_escaped(text: str) -> bool:
    """Tell whether a line is a report inside a JSON string: part of a broken document."""
    return "\\n" in text and '"' in text


def _blanked(
    lines: Sequence[Line], source: _CleanSource, claimed: Sequence[tuple[int, int]]
) -> list[Line]:
    kept = list(lines)
    for start, end in claimed:
        first, last = source.indices(start, end)
        for i in range(first, last + 1):
            kept[i] = replace(kept[i], text="")
    return kept
