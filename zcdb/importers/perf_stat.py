"""perf stat for people: its text, with and without -I and -r, in any country's numbers.

Counts become details under `events`: a count is a metric only together with
the bytes it was spent on.  Other countries' separators are told from the
evidence of the whole table, never from one number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from zcdb.ids import Json
from zcdb.importers import quantities as q
from zcdb.importers.context import Context, Found
from zcdb.importers.model import Draft, Refusal
from zcdb.importers.perf_fields import (
    STATES,
    TOOL,
    find_separator,
    parse_separated,
    take_events,
)
from zcdb.importers.text import Line, is_prompt, label_before, span

_TITLE = re.compile(
    r"Performance counter stats for (?:process id )?'(.{0,300}?)'(?: \(([0-9]{1,6}) runs\))?:"
)
_DIGITS = r"[0-9][0-9.,'\u202f\u2019]{0,40}"
_COUNT = re.compile(
    rf"^\s*(?:([0-9]{{1,10}}[.,][0-9]{{6,9}})\s+)?((?:S[0-9]+(?:-D[0-9]+)?(?:-C[0-9]+)?|N[0-9]+)\s+[0-9]+\s+|CPU[0-9]+\s+)?"
    rf"({_DIGITS}|<not counted>|<not supported>)\s+(?:(msec|ns|Joules|MiB|KiB|Bytes|C)\s+)?"
    r"([A-Za-z_][\w.:/=,@{}-]{0,120})(.*)$"
)
_METRIC_ONLY = re.compile(r"^\s*#\s+([0-9].{0,120})$")
_ELAPSED = re.compile(rf"^\s*({_DIGITS})(?:\s*\+-\s*({_DIGITS}))? seconds time elapsed")
_USED = re.compile(rf"^\s*({_DIGITS}) seconds (user|sys)\s*$")
_SPREAD = re.compile(rf"\(\s*\+-\s*({_DIGITS})%\s*\)")
_RUNNING = re.compile(rf"[\(\[]\s*({_DIGITS})%\s*[\)\]]\s*$")
_FAMILIAR = frozenset(
    (
        "branch-misses",
        "branches",
        "cache-misses",
        "cache-references",
        "context-switches",
        "cpu-clock",
        "cpu-migrations",
        "cycles",
        "instructions",
        "page-faults",
        "task-clock",
    )
)
_HINT = re.compile(r"\b(?:cycles|instructions|task-clock|cpu-clock)\b.*#|^#\s+time\s+counts", re.M)


@dataclass(frozen=True, slots=True)
class Locale:
    """How a table writes numbers: its decimal point, and what stands between thousands."""

    decimal: str
    thousands: str

    def number(self, text: str) -> float | None:
        """Return a printed number, or None if it does not fit."""
        if self.thousands and self.thousands in text.partition(self.decimal)[2]:
            return None
        whole, point, rest = text.partition(self.decimal)
        groups = re.split(r"[.,'\u202f\u2019]", whole)
        if len(groups) > 1 and any(len(group) != 3 for group in groups[1:]):
            return None
        return q.number("".join(groups) + ("." + rest if point and rest else ""))


ENGLISH = Locale(".", ",")
DANISH = Locale(",", ".")


@dataclass(slots=True)
class _Table:
    title: re.Match[str] | None
    first: int
    last: int
    rows: list[re.Match[str]] = field(default_factory=list)
    extra: dict[int, str] = field(default_factory=dict)
    elapsed: re.Match[str] | None = None
    used: dict[str, str] = field(default_factory=dict)


def is_hinted(text: str) -> bool:
    """Tell whether perf stat's output may stand here."""
    return (
        "Performance counter stats" in text
        or "seconds time elapsed" in text
        or _HINT.search(text) is not None
        or find_separator(text) is not None
    )


def parse(lines: Sequence[Line], context: Context) -> Found:
    """Return the results and refusals of perf stat in `lines`."""
    text = "\n".join(line.text for line in lines)
    found: Found = []
    if find_separator(text) is not None:
        found += parse_separated(lines, context)
    return found + _parse_text(lines)


def _parse_text(lines: Sequence[Line]) -> Found:
    found: Found = []
    table: _Table | None = None
    after = 0
    for i, line in enumerate(lines):
        text = line.text
        title = _TITLE.search(text)
        if title is not None:
            if table is not None:
                found += _table(lines, table, after)
                after = table.last + 1
            table = _Table(title, i, i)
            continue
        row = _COUNT.match(text)
        if row is not None and _is_event(row):
            if table is not None and table.elapsed is not None:
                found += _table(lines, table, after)
                after, table = table.last + 1, None
            if table is None:
                table = _Table(None, i, i)
            table.rows.append(row)
            table.last = i
        elif table is not None:
            _read_other(text, i, table)
    if table is not None:
        found += _table(lines, table, after)
    return found


def _is_event(row: re.Match[str]) -> bool:
    """Tell a counter from a sentence that begins with a number."""
    rest = row[6].strip()
    return row[5] != "seconds" and (
        not rest or rest[0] in "#([" or re.fullmatch(r"\(.*\)", rest) is not None
    )


def _read_other(text: str, index: int, table: _Table) -> None:
    if (match := _METRIC_ONLY.match(text)) and table.rows:
        table.extra[len(table.rows) - 1] = match[1]
        table.last = index
    elif match := _ELAPSED.match(text):
        table.elapsed = match
        table.last = index
    elif match := _USED.match(text):
        table.used[match[2]] = match[1]
        table.last = index


def _locale(table: _Table) -> Locale | None:
    """Return how the table writes numbers, or None if nothing tells."""
    texts = [row[0] for row in table.rows]
    if table.elapsed is not None:
        texts.append(table.elapsed[0])
    percents = [p for text in texts for p in re.findall(r"[0-9]([.,])[0-9]{1,4}\s*%", text)]
    percents += [p for text in texts for p in re.findall(r"^\s*[0-9]{1,9}([.,])[0-9]{6,9} ", text)]
    percents += [p for text in texts for p in re.findall(r"# +[0-9]{1,9}([.,])[0-9]{1,3} ", text)]
    counts = [row[3] for row in table.rows if row[3] not in STATES]
    several = {s for c in counts for s in re.findall(r"[.,]", c) if c.count(s) > 1}
    decimals = set(percents)
    if decimals == {","} and "," not in several:
        return DANISH
    if decimals == {"."} and "." not in several:
        return ENGLISH
    if not decimals and several == {"."}:
        return DANISH
    if not decimals and (several == {","} or not any(re.search(r"[.,]", c) for c in counts)):
        return ENGLISH
    return None


def _table(lines: Sequence[Line], table: _Table, after: int) -> Found:
    place = span(lines, table.first, table.last)
    if not table.rows:
        if table.title is None:
            return []
        return [Refusal(TOOL, "perf stat printed a heading and no counter", place)]
    if table.title is None and table.elapsed is None and not _is_certain(table):
        return []
    locale = _locale(table)
    if locale is None:
        reason = "perf stat: point and comma cannot be told apart in these numbers"
        return [Refusal(TOOL, reason, place)]
    draft = Draft(TOOL, "text", "perf stat")
    if table.title is None or (table.elapsed is None and not any(r[1] for r in table.rows)):
        draft.flag("incomplete", "the heading or the end of the table is missing")
    if locale is DANISH:
        draft.flag("locale", "decimal comma, thousands point")
        draft.detail("locale", "decimal comma, thousands dot")
    _take_title(draft, table, lines, after)
    events: dict[str, Json] = {}
    timed: dict[str, dict[str, Json]] = {}
    for n, row in enumerate(table.rows):
        event = _event(row, table.extra.get(n), locale)
        name = f"{' '.join(row[2].split())} {row[5]}" if row[2] else row[5]
        if row[1]:
            timed.setdefault(row[1].replace(",", "."), {})[name] = event
        else:
            events[name] = event
    take_events(draft, events, timed)
    _take_times(draft, table, locale)
    return [draft.done(place)]


def _is_certain(table: _Table) -> bool:
    """Tell whether rows without a heading and an elapsed time are perf's."""
    return sum(bool(row[1]) or row[5].partition(":")[0] in _FAMILIAR for row in table.rows) >= 2


def _take_title(draft: Draft, table: _Table, lines: Sequence[Line], after: int) -> None:
    draft.detail(
        "label", label_before(lines, table.first, after) or _label(lines, table.first, after)
    )
    if table.title is None:
        return
    name, runs = table.title[1], table.title[2]
    is_scope = name == "system wide" or name.startswith("CPU(s)")
    draft.detail("scope" if is_scope else "command", name)
    if runs:
        draft.detail("runs", int(runs))


def _label(lines: Sequence[Line], first: int, after: int) -> str | None:
    """Return a heading above the command that stands above the table."""
    for i in range(first - 1, max(after, first - 5) - 1, -1):
        if is_prompt(lines[i].text):
            return label_before(lines, i, after)
    return None


def _event(row: re.Match[str], extra: str | None, locale: Locale) -> dict[str, Json]:
    event: dict[str, Json] = {}
    if row[3] in STATES:
        event = {"value": None, "state": STATES[row[3]]}
    else:
        event = {"value": locale.number(row[3])}
    if row[4]:
        event["unit"] = row[4]
    rest = row[6]
    spread, running = _SPREAD.search(rest), _RUNNING.search(_SPREAD.sub("", rest))
    if spread:
        event["stddev_percent"] = locale.number(spread[1])
    if running:
        event["running_percent"] = locale.number(running[1])
    metrics = [m for m in _metrics(rest) if m]
    if extra:
        metrics += _metrics("# " + extra)
    if metrics:
        joined = "; ".join(metrics)
        event["metric"] = joined.replace(",", ".") if locale is DANISH else joined
    return event


def _metrics(rest: str) -> list[str]:
    rest = _SPREAD.sub("", rest)
    rest = _RUNNING.sub("", rest)
    return [" ".join(part.split()) for part in rest.split("#")[1:] if part.strip()]


def _take_times(draft: Draft, table: _Table, locale: Locale) -> None:
    if table.elapsed is not None:
        draft.detail("elapsed_s", locale.number(table.elapsed[1]))
        if table.elapsed[2]:
            draft.detail("elapsed_stddev_s", locale.number(table.elapsed[2]))
    for kind, printed in table.used.items():
        draft.detail(f"cpu_{kind}_s", locale.number(printed))
