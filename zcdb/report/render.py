"""A verdict table as text for a mail, as Markdown and as JSON."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from zcdb import units
from zcdb.flags import FLAGS
from zcdb.ids import Json
from zcdb.metrics import METRICS, format_value
from zcdb.report.method_text import (
    TEXT_COLUMNS,
    crossover_lines,
    crossover_sentence,
    effect_lines,
    effect_title,
    factor_text,
)
from zcdb.report.method_text import (
    sentences as method_sentences,
)
from zcdb.report.plain import plain
from zcdb.report.table import CaseRemark, MetricTable, VerdictRow, VerdictTable
from zcdb.store.results import RunLine, Statistic

__all__ = ["TEXT_COLUMNS", "factor_text", "render_markdown", "render_text", "title", "to_json"]


_HEADINGS = ("95 %", "n", "ratio", "[interval]", "p", "verdict")
_GAPS = (2, 1, 1, 2, 1, 1, 2)
"""Spaces before the mean and before each column under `_HEADINGS`, in text."""


def title(metric: MetricTable) -> str:
    """Return what a metric's part of the table shows: name, method, direction."""
    known = METRICS[metric.metric]
    better = "" if known.better == "neither" else f"; {known.better} is better"
    method = f", by {metric.method}" if metric.method else ""
    return f"{known.label}{method}{better}"


def _own_factors(table: VerdictTable) -> list[str]:
    """Return the varying factors in which a candidate may differ from its baseline."""
    return [name for name in table.varying if name in table.baseline]


def _shared_factors(table: VerdictTable) -> list[str]:
    return [name for name in table.varying if name not in table.baseline]


def _label(table: VerdictTable, row: VerdictRow) -> str:
    return factor_text(row.case.factors, _own_factors(table)) or "this case"


def _means(metric: MetricTable) -> tuple[list[str], str]:
    """Return the mean of each row as text, and the unit that stands in the heading.

    Where rows need different prefixes, each keeps its own: "8.39 G" under "bit/s".
    """
    texts = [
        ""
        if row.case.statistic is None or row.case.statistic.mean is None
        else format_value(metric.metric, row.case.statistic.mean)
        for row in metric.rows
    ]
    base = METRICS[metric.metric].unit
    units_found = {text.partition(" ")[2] for text in texts if text}
    unit = units_found.pop() if len(units_found) == 1 else base
    return [text.removesuffix(unit).rstrip() or "none" for text in texts], unit


def _half_width(statistic: Statistic | None) -> str:
    """Return half the 95 % interval of the mean in per cent of it, "" where there is none."""
    if statistic is None or statistic.low is None or not statistic.mean:
        return ""
    return f"±{abs(1 - statistic.low / statistic.mean) * 100:.1f} %"


def _cells(row: VerdictRow) -> list[str]:
    """Return the cells of a row under `_HEADINGS`."""
    statistic, verdict = row.case.statistic, row.verdict
    first = [_half_width(statistic), str(statistic.n if statistic else 0)]
    if row.case.missing:
        return [*first, "", "", "", row.case.missing]
    if verdict is None:
        words = {"baseline": "baseline", "unpaired": "no baseline", "candidate": "not judged"}
        return [*first, "", "", "", words[row.role]]
    number = units.format_number
    interval = ""
    if verdict.low is not None and verdict.high is not None:
        interval = f"[{number(verdict.low)}, {number(verdict.high)}]"
    needed = verdict.repetitions_needed
    return [
        *first,
        "" if verdict.ratio is None else number(verdict.ratio),
        interval,
        _p(verdict.p_adjusted),
        verdict.word if needed is None else f"{verdict.word} ({needed})",
    ]


def _p(p_value: float | None) -> str:
    if p_value is None:
        return ""
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _heading(run: RunLine) -> list[str]:
    counts = run.counts
    ended = [f"{counts.ok} of {counts.planned} trials ok"]
    for name in ("failed", "unsupported", "interrupted", "excluded", "left"):
        number = getattr(counts, name)
        if number:
            # What a finished run did not measure it stopped before, as declared.
            left = "not needed" if run.outcome == "finished" else "to do"
            ended.append(f"{number} {left if name == 'left' else name}")
    started = run.started_at.strftime("%Y-%m-%d %H:%M UTC")
    return [
        run.question,
        f"{run.experiment_name}, {started}, run {run.id}",
        f"{run.outcome}: {', '.join(ended)}",
    ]


def _remarks(table: VerdictTable) -> list[str]:
    """Return what to know before believing the table, a sentence each."""
    level = units.format_ratio(table.level, 2)
    sentences = [f"± is half the {level} interval (t) of the mean of n repetitions."]
    if table.family_size:
        sentences.append(
            f"{table.family_size} comparisons, judged together: intervals of the ratio and p are"
            f" adjusted so that {level} holds for all of them at once. Differences below"
            f" {units.format_ratio(table.matters, 1)} count as equivalent."
        )
    if any(row.verdict and row.verdict.repetitions_needed for row in table.rows):
        sentences.append("undecided (n): n repetitions would probably decide.")
    if not table.baseline:
        sentences.append("The experiment names no baseline: nothing is compared.")
    sentences += [f"{title(metric)}: {metric.note}." for metric in table.metrics if metric.note]
    sentences += method_sentences(table)
    sentences += _signs(table)
    for case in table.cases:
        sentences += _case_remarks(table, case)
    raised: Counter[str] = Counter()
    for case in table.cases:
        raised.update(case.flags)
    sentences += [
        f"{code} ({trials} {'trial' if trials == 1 else 'trials'}): {FLAGS.get(code, '')}"
        for code, trials in sorted(raised.items())
    ]
    if table.constant:
        sentences.append(f"The same for all: {factor_text(table.constant, table.constant)}.")
    return sentences


def _signs(table: VerdictTable) -> list[str]:
    """Return what limited the cases and what was copied, a sentence for all that share it."""
    names: dict[str, list[str]] = {}
    for case in table.cases:
        copied = f"zero copy {case.zero_copy}" if case.zero_copy else ""
        for sign in filter(None, (limited_by(case.limiter), copied)):
            name = factor_text(case.factors, table.varying) or "this case"
            names.setdefault(sign, []).append(name)
    return [
        f"{sign[0].upper()}{sign[1:]}:"
        f" {'all cases' if len(of) == len(table.cases) > 1 else '; '.join(of)}."
        for sign, of in sorted(names.items())
    ]


def limited_by(limiter: str | None) -> str:
    """Return what limited a case as part of a sentence, "" if nobody looked."""
    if limiter is None:
        return ""
    if limiter == "not identified":
        return "what limited it is not identified"
    return f"limited by the {limiter}"


def _case_remarks(table: VerdictTable, case: CaseRemark) -> list[str]:
    name = factor_text(case.factors, table.varying) or "this case"
    sentences = []
    if case.copied_share is not None:
        share = units.format_ratio(case.copied_share)
        sentences.append(f"{name}: the kernel says it copied {share} of the completions.")
    for word, trials in (("failed", case.failed), ("unsupported", case.unsupported)):
        if trials:
            why = "; ".join(case.reasons)
            sentences.append(f"{name}: {trials} {word}: {why}.")
    return sentences


def render_text(table: VerdictTable) -> str:
    """Return the table as plain text, at most 78 columns wide, ending with a newline."""
    lines = [wrapped for line in _heading(table.run) for wrapped in _wrap(line)]
    for metric in table.metrics:
        lines += ["", title(metric), *_text_rows(table, metric)]
    if table.crossover is not None:
        lines += ["", *_wrap(crossover_sentence(table.crossover))]
        lines += crossover_lines(table.crossover)
    for effects in table.effects:
        lines += ["", *_wrap(effect_title(effects, table.varying)), *effect_lines(effects)]
    lines.append("")
    for sentence in _remarks(table):
        lines += textwrap.wrap(sentence, TEXT_COLUMNS, initial_indent="* ", subsequent_indent="  ")
    return "\n".join(lines) + "\n"


def _wrap(line: str) -> list[str]:
    return textwrap.wrap(line, TEXT_COLUMNS) or [""]


def _text_rows(table: VerdictTable, metric: MetricTable) -> list[str]:
    means, unit = _means(metric)
    heading = [unit, *_HEADINGS]
    rows = [[mean, *_cells(row)] for mean, row in zip(means, metric.rows, strict=True)]
    for place in (0, 3):
        _align_points(rows, place)
    widths = [max(len(row[place]) for row in [heading, *rows]) for place in range(len(heading))]
    labels = [f"  {_label(table, row)}" for row in metric.rows]
    room = TEXT_COLUMNS - sum(widths) - sum(_GAPS)
    label_width = min(room, max(len(label) for label in labels)) if labels else 0
    lines = [_text_line("", label_width, heading, widths)]
    group = ""
    for label, row, cells in zip(labels, metric.rows, rows, strict=True):
        shared = factor_text(row.case.factors, _shared_factors(table))
        if shared != group:
            lines += _wrap(shared)
            group = shared
        if len(label) > label_width:
            lines.append(label)
            label = ""
        lines.append(_text_line(label, label_width, cells, widths))
    return lines


def _align_points(rows: list[list[str]], place: int) -> None:
    """Pad the numbers of a column so that their decimal points stand below each other."""
    numbers = [row for row in rows if row[place][-1:].isdigit()]
    decimals = [len(row[place].partition(".")[2]) for row in numbers]
    for row, own in zip(numbers, decimals, strict=True):
        row[place] += " " * (max(decimals) - own)


def _text_line(label: str, width: int, cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return a line: numbers to the right, the interval and the word to the left."""
    line = label.ljust(width)
    for place, (cell, wide, gap) in enumerate(zip(cells, widths, _GAPS, strict=True)):
        line += " " * gap + (cell.ljust(wide) if place in (4, 6) else cell.rjust(wide))
    return line.rstrip()


def render_markdown(table: VerdictTable) -> str:
    """Return the table as Markdown, ending with a newline."""
    question, *about = _heading(table.run)
    lines = [f"## {question}", "", *[f"{line}  " for line in about]]
    for metric in table.metrics:
        means, unit = _means(metric)
        lines += ["", f"### {title(metric)}", ""]
        lines.append("| " + " | ".join(["case", unit, *_HEADINGS]) + " |")
        lines.append("|---|" + "---:|" * 4 + "---|---:|---|")
        for mean, row in zip(means, metric.rows, strict=True):
            case = factor_text(row.case.factors, table.varying) or "this case"
            lines.append("| " + " | ".join([case, mean, *_cells(row)]) + " |")
    if table.crossover is not None:
        lines += ["", crossover_sentence(table.crossover)]
    for effects in table.effects:
        lines += ["", f"### {effect_title(effects, table.varying)}", ""]
        lines += ["```", *effect_lines(effects), "```"]
    lines.append("")
    lines += [f"- {sentence}" for sentence in _remarks(table)]
    return "\n".join(lines) + "\n"


def to_json(table: VerdictTable) -> dict[str, Json]:
    """Return the table as plain JSON; every number is there in the metric's base unit."""
    result = cast(dict[str, Any], plain(table))
    for metric in result["metrics"]:
        known = METRICS[metric["metric"]]
        metric |= {"label": known.label, "unit": known.unit, "better": known.better}
    result["remarks"] = _remarks(table)
    return result
