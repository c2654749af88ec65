"""mpstat and sar: text and JSON.

Columns are told by their header words, and by their positions where cells are
blank (mpstat -T).  kB is 1024 bytes.  The figures are of a machine and its
CPUs; which end of a test that was, the text does not say, so they are details.
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

TOOL = "sysstat"

_BANNER = re.compile(
    r"^\s*(Linux|FreeBSD) (\S{1,80}) \((.{0,80}?)\)\s+(\S{1,20})\s+_?(\w{1,20}?)_?"
    r"\s+\(([0-9]{1,6}) CPU\)"
)
_TIME = r"(?:[0-9]{2}:[0-9]{2}:[0-9]{2}(?: [AP]M)?|Average:|Summary:)"
_ROW = re.compile(rf"^\s*({_TIME})\s+(\S.*)$")
_CELL = re.compile(r"^-?[0-9]{1,20}(?:[.,][0-9]{1,6})?%?$")
_USUAL = ("usr", "nice", "sys", "iowait", "irq", "soft", "steal", "guest", "gnice", "idle")
_WITHOUT_GNICE = tuple(name for name in _USUAL if name != "gnice")
_KEYS = {"CPU", "IFACE", "INTR", "DEV", "NODE", "CORE", "SOCK", "tps", "kbmemfree", "proc/s"}
_NAMES = {"user": "usr", "system": "sys"}


def is_hinted(text: str) -> bool:
    """Tell whether mpstat or sar may stand here."""
    return (
        "%idle" in text
        or " CPU)" in text
        or (re.search(rf"^\s*{_TIME}\s+(?:all|[0-9]+)\s+[0-9]", text, re.M) is not None)
    )


def parse(lines: Sequence[Line], context: Context) -> Found:
    """Return one result for each report in `lines`."""
    found: Found = []
    report: _Report | None = None
    for i, line in enumerate(lines):
        text = line.text.expandtabs(8)
        banner = _BANNER.match(text)
        if banner is not None:
            if report is not None:
                found += report.done(lines)
            report = _Report(i, banner)
            continue
        row = _ROW.match(text)
        if row is None:
            continue
        if report is None:
            report = _Report(i, None)
        report.read(text, row, i)
    return found + (report.done(lines) if report is not None else [])


class _Report:
    """One report in the making: the tables that stand under one banner."""

    def __init__(self, first: int, banner: re.Match[str] | None) -> None:
        self.first = self.last = first
        self.banner = banner
        self.header: list[tuple[str, int]] | None = None
        self.rows: dict[str, list[dict[str, Json]]] = {}
        self.is_assumed = False
        self.has_commas = False
        self.has_bad_rows = False

    def read(self, text: str, row: re.Match[str], index: int) -> None:
        """Take a header or a row of figures."""
        words = row[2].split()
        if words[0] in _KEYS or (words[0].startswith("%") and "%" in text):
            offset = row.start(2)
            self.header = [(m[0], offset + m.start()) for m in re.finditer(r"\S+", row[2])]
            self.last = index
            return
        if words[0] in ("LINUX", "RESTART"):
            return
        cells = self._cells(text, row, words)
        if cells is None:
            self.has_bad_rows = self.has_bad_rows or bool(re.search(r"[0-9][.,][0-9]{2}", row[2]))
            return
        self.has_commas = self.has_commas or any(isinstance(w, str) and "," in w for w in words)
        self.last = index
        self.rows.setdefault(self._kind(), []).append({"time": row[1].rstrip(":"), **cells})

    def _kind(self) -> str:
        names = [name for name, _ in self.header or []]
        if self.header is None or "%usr" in names or "%user" in names or "%idle" in names:
            return "cpu"
        return " ".join(names[:3])

    def _cells(self, text: str, row: re.Match[str], words: Sequence[str]) -> dict[str, Json] | None:
        if self.header is None:
            return self._assumed(words)
        names = [name for name, _ in self.header]
        if len(words) != len(names):
            return self._by_position(text, names)
        return _named(names, words)

    def _assumed(self, words: Sequence[str]) -> dict[str, Json] | None:
        usual = {len(_USUAL): _USUAL, len(_WITHOUT_GNICE): _WITHOUT_GNICE}.get(len(words) - 1)
        if usual is None or not (words[0] == "all" or words[0].isdecimal()):
            return None
        numbers = [_number(word) for word in words[1:]]
        known = [n for n in numbers if n is not None]
        # The right order adds up to 100 %; guest time is part of usr.
        if len(known) != len(numbers) or not 98.5 <= sum(known) - _guest(usual, known) <= 101.5:
            return None
        self.is_assumed = True
        return {"cpu": words[0], **dict(zip(usual, numbers, strict=True))}

    def _by_position(self, text: str, names: Sequence[str]) -> dict[str, Json] | None:
        """Read a row with blank cells: a cell ends where its column's title ends."""
        assert self.header is not None  # noqa: S101 - the caller has looked
        words: dict[str, str] = {}
        for match in re.finditer(r"\S+", text):
            for name, start in self.header:
                if match.end() == start + len(name):
                    words[name] = match[0]
        if len(words) < 2 or names[0] not in words:
            return None
        row = _ROW.match(text)
        if row is None or len(words) != len(row[2].split()):
            return None
        return _named(list(words), list(words.values()))

    def done(self, lines: Sequence[Line]) -> Found:
        """Return the report as a result, or why not."""
        place = span(lines, self.first, self.last)
        if not self.rows:
            if self.banner is None and not self.has_bad_rows:
                return []
            return [Refusal(TOOL, "a report of mpstat or sar without a row of figures", place)]
        draft = Draft(TOOL, "text", self._name())
        _take_banner(draft, self.banner)
        if self.is_assumed:
            draft.flag("columns-assumed", "no header row; the columns add up to 100 %")
        if self.has_commas:
            draft.flag("locale", "decimal comma")
        draft.count("rows", sum(len(rows) for rows in self.rows.values()))
        draft.detail("tables", {kind: list(rows) for kind, rows in self.rows.items()})
        times = {row["time"] for rows in self.rows.values() for row in rows}
        if times == {next(iter(times))} and self.banner is not None and "Average" not in times:
            draft.flag("since-boot", "one report without an interval")
        return [draft.done(place)]

    def _name(self) -> str:
        kinds = [kind for kind in self.rows if kind != "cpu"]
        header = " ".join(name for name, _ in self.header or [])
        is_sar = any(k.startswith(("IFACE", "INTR", "CPU MHz", "DEV", "tps")) for k in kinds)
        if is_sar or header.startswith("CPU %user") or "%steal %irq" in header:
            return "sar"
        return "mpstat"


def _guest(names: Sequence[str], numbers: Sequence[float]) -> float:
    return sum(n for name, n in zip(names, numbers, strict=True) if name in ("guest", "gnice"))


def _number(word: str) -> float | None:
    if not _CELL.match(word):
        return None
    return q.number(word.rstrip("%").replace(",", "."))


def _named(names: Sequence[str], words: Sequence[str]) -> dict[str, Json] | None:
    cells: dict[str, Json] = {}
    for name, word in zip(names, words, strict=True):
        clean = name.lstrip("%")
        clean = _NAMES.get(clean, clean)
        if name in ("CPU", "IFACE", "INTR", "DEV", "NODE", "CORE", "SOCK"):
            key = {"SOCK": "socket"}.get(name, name.lower())
            cells[key] = word if name in ("CPU", "IFACE", "INTR", "DEV") else q.whole(word)
            continue
        number = _number(word)
        if number is None:
            return None
        cells[clean] = number
    return cells


def _take_banner(draft: Draft, banner: re.Match[str] | None) -> None:
    if banner is None:
        draft.flag("incomplete", "the first line is missing")
        return
    draft.detail("kernel", banner[2])
    draft.detail("date_printed", banner[4])
    draft.detail("machine", banner[5])
    draft.detail("cpus", int(banner[6]))


def matches(value: Json) -> bool:
    """Tell whether a document is sysstat's JSON."""
    return isinstance(value, dict) and isinstance(value.get("sysstat"), dict)


def parse_documents(documents: Sequence[Document], source: Source, context: Context) -> Found:
    """Return one result for each host in sysstat's JSON."""
    found: Found = []
    for document in documents:
        place = source.span(document.start, document.end)
        tree = document.value["sysstat"]  # type: ignore[index, call-overload]
        hosts = tree.get("hosts") if isinstance(tree, Mapping) else None
        for host in hosts if isinstance(hosts, list) else []:
            if not isinstance(host, Mapping):
                continue
            draft = _of_host(host)
            if draft is None:
                found.append(Refusal(TOOL, "sysstat JSON without statistics", place))
                continue
            if document.is_cut:
                draft.flag("incomplete", "the JSON is cut off")
            found.append(draft.done(place))
    return found


def _of_host(host: Mapping[str, Json]) -> Draft | None:
    statistics = host.get("statistics")
    if not isinstance(statistics, list) or not statistics:
        return None
    draft = Draft(TOOL, "json", "mpstat")
    draft.detail("cpus", q.json_count(host.get("number-of-cpus")))
    for key, name in (("release", "kernel"), ("date", "date_printed"), ("machine", "machine")):
        value = host.get(key)
        draft.detail(name, value if isinstance(value, str) else None)
    tables: dict[str, list[Json]] = {}
    for moment in statistics:
        if not isinstance(moment, Mapping):
            continue
        time = moment.get("timestamp")
        if isinstance(time, Mapping):
            draft.test = "sar"
            time = f"{time.get('date')} {time.get('time')}"
        for kind, rows in moment.items():
            if kind == "timestamp" or not isinstance(rows, list):
                continue
            for row in rows:
                if isinstance(row, Mapping):
                    tables.setdefault(kind, []).append(_json_row(time, row))
    if not tables:
        return None
    draft.count("rows", sum(len(rows) for rows in tables.values()))
    draft.detail("tables", {kind: list(rows) for kind, rows in tables.items()})
    return draft


def _json_row(time: Json, row: Mapping[str, Json]) -> dict[str, Json]:
    cells: dict[str, Json] = {"time": time if isinstance(time, str) else None}
    for name, value in row.items():
        if isinstance(value, str):
            cells[name] = {"-1": "all"}.get(value, value) if name == "cpu" else value
        elif isinstance(value, int | float):
            cells[name] = q.json_number(value)
    return cells
