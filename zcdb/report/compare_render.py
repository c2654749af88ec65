"""A comparison written down: text for a mail, Markdown, CSV, LaTeX and JSON."""

from __future__ import annotations

import csv
import io
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from zcdb import units
from zcdb.factors import display
from zcdb.ids import Json
from zcdb.metrics import METRICS, format_value
from zcdb.report.compare import SHOWN_LIMIT, ComparisonReport, MetricComparison, Row
from zcdb.report.naming import told_text
from zcdb.report.plain import plain
from zcdb.report.render import TEXT_COLUMNS
from zcdb.store.results import Statistic

MULTIPLE_FROM = 4.0
"""A change from this ratio on reads better as a multiple than as a percentage."""

ROUNDING = 1e-9

_COLUMNS = ("change", "[interval]", "p", "verdict")
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    character: f"\\{character}" for character in "&%$#_{}"
}


def level_text(report: ComparisonReport, value: object) -> str:
    """Return one side of the question for people: a level with its unit, or an id's beginning."""
    if report.question.kind != "factor":
        return str(value)[:13]
    return display(report.question.factor, value)  # type: ignore[arg-type]  # a factor's value


def heading(report: ComparisonReport) -> str:
    """Return the question in words: "API: sendfile against write"."""
    question = report.question
    candidates = ", ".join(level_text(report, value) for value in question.candidates)
    name = {"factor": question.factor, "cases": "cases", "runs": "runs"}[question.kind]
    return f"{name}: {candidates} against {level_text(report, question.baseline)}"


def summary(report: ComparisonReport) -> str:
    """Return how many pairs there are and how they were judged, in one sentence."""
    pairs = f"{report.found} pair" + ("" if report.found == 1 else "s")
    if not report.found:
        return "No pair of cases differs in this alone."
    judged = f"{report.family_size} comparison" + ("" if report.family_size == 1 else "s")
    held = ", all else equal" if report.question.kind == "factor" else ""
    return (
        f"{pairs}{held}; {judged} judged together at {report.level * 100:g} %;"
        f" below {report.question.matters * 100:g} % counts as equivalent."
    )


def metric_title(metric: MetricComparison, unit: str = "") -> str:
    """Return what a part of the comparison shows: name, method, unit, direction."""
    known = METRICS[metric.metric]
    method = f", by {metric.method}" if metric.method else ""
    better = "" if known.better == "neither" else f"; {known.better} is better"
    beside = "" if metric.is_judged else "; beside it, not judged"
    return f"{known.label}{method}{f', {unit}' if unit else ''}{better}{beside}"


def row_name(report: ComparisonReport, row: Row) -> str:
    """Return what tells a pair apart from the others."""
    parts = [told_text(row.baseline.factors, report.naming)]
    question = report.question
    if len(question.candidates) > 1:
        if question.kind == "factor":
            candidate = row.candidate.factors.get(question.factor, "")
            parts.append(display(question.factor, candidate))
        else:
            parts.append(row.candidate.case_id[:13])
    return ", ".join(part for part in parts if part) or "this pair"


def value_text(metric: str, statistic: Statistic | None) -> str:
    """Return a mean with its unit, or a dash."""
    if statistic is None or statistic.mean is None:
        return "-"
    return format_value(metric, statistic.mean)


def shown_rows(metric: MetricComparison) -> tuple[Row, ...]:
    """Return the rows to show: those without a value are only counted, unless there are no others.

    Their number stands among the remarks.
    """
    known = (row for row in metric.rows if _is_known(metric, row))
    return tuple(islice(known, SHOWN_LIMIT)) or tuple(metric.rows[:SHOWN_LIMIT])


def _is_known(metric: MetricComparison, row: Row) -> bool:
    if metric.is_judged:
        return not row.missing
    return any(
        side is not None and side.mean is not None
        for side in (row.baseline_statistic, row.candidate_statistic)
    )


def verdict_cells(row: Row) -> list[str]:
    """Return change, interval, p and verdict of a row as text."""
    verdict = row.verdict
    if verdict is None or verdict.ratio is None:
        return ["", "", "", row.missing or (verdict.reason if verdict and verdict.reason else "")]
    interval = ""
    if verdict.low is not None and verdict.high is not None:
        interval = f"[{change_text(verdict.low)}, {change_text(verdict.high)}]"
    word = verdict.word
    if verdict.word == "equivalent" and verdict.is_detectable:
        word = "equivalent, detectable"  # type: ignore[assignment]  # words for people
    elif verdict.repetitions_needed:
        word = f"undecided ({verdict.repetitions_needed})"  # type: ignore[assignment]
    return [change_text(verdict.ratio), interval, p_text(verdict.p_adjusted), word]


def p_text(p_value: float | None) -> str:
    """Return an adjusted p with three places, small ones as a limit."""
    if p_value is None:
        return ""
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def change_text(ratio: float) -> str:
    """Return a ratio as a signed change: 1.048 is "+4.8 %"; from fourfold on as a multiple."""
    if ratio >= MULTIPLE_FROM:
        return f"x{units.format_number(ratio)}"
    percent = (ratio - 1) * 100
    # A published 0.838 against 0.80 is +4.75 %, of which the division leaves 4.7499999.
    return f"{percent + math.copysign(ROUNDING, percent):+.1f} %"


def words_text(metric: MetricComparison) -> str:
    """Return how many pairs have which verdict, and the mean ratio."""
    parts = [
        f"{metric.words[word]} {word}"
        for word in ("better", "worse", "equivalent", "undecided")
        if metric.words.get(word)
    ]
    if metric.mean_ratio is not None and len(metric.rows) > 1:
        parts.append(f"on geometric average {change_text(metric.mean_ratio)}")
    return "; ".join(parts)


def remarks(report: ComparisonReport) -> list[str]:
    """Return what to know beside the numbers, a sentence each."""
    sentences = list(report.warnings)
    if any(metric.tally.tells_needed for metric in report.metrics):
        sentences.append("undecided (n): n repetitions of each case would probably decide.")
    kinds = {kind for metric in report.metrics for kind in metric.tally.kinds}
    if "paired" in kinds:
        sentences.append("Pairs that one run measured are compared block by block.")
    if "welch" in kinds:
        sentences.append(
            "Pairs of different runs or sources are compared by Welch's test on n, mean and"
            " standard deviation."
        )
    same = told_text(report.constant, report.constant)
    if same:
        sentences.append(f"The same for all: {same}.")
    return sentences


def render_text(report: ComparisonReport) -> str:
    """Return the comparison as plain text, at most 78 columns wide, ending with a newline."""
    lines = [*_wrap(heading(report)), *_wrap(summary(report))]
    for metric in report.metrics:
        if metric.rows:
            lines += ["", *_text_rows(report, metric)]
            words = words_text(metric)
            lines += _wrap(f"  {words}") if words and metric.is_judged else []
    lines.append("")
    for sentence in remarks(report):
        lines += textwrap.wrap(sentence, TEXT_COLUMNS, initial_indent="* ", subsequent_indent="  ")
    return "\n".join(lines).rstrip() + "\n"


def _wrap(line: str) -> list[str]:
    # A number stays on the line of its unit.
    glued = re.sub(r"(?<=[0-9]) (?=[a-z%])", "\u00a0", line)
    lines = textwrap.wrap(glued, TEXT_COLUMNS, subsequent_indent="  ") or [""]
    return [one.replace("\u00a0", " ") for one in lines]


def _table(metric: MetricComparison) -> tuple[str, list[str], list[list[str]]]:
    """Return unit, headings and rows; without one unit for all, each number has its own."""
    shown = shown_rows(metric)
    sides = [
        [value_text(metric.metric, row.baseline_statistic) for row in shown],
        [value_text(metric.metric, row.candidate_statistic) for row in shown],
    ]
    units_found = {text.partition(" ")[2] for side in sides for text in side if text != "-"}
    unit = units_found.pop() if len(units_found) == 1 else ""
    texts = [[text.removesuffix(unit).rstrip() for text in side] for side in sides]
    rows = [
        [first, second, *(verdict_cells(row) if metric.is_judged else [])]
        for first, second, row in zip(*texts, shown, strict=True)
    ]
    return unit, ["baseline", "candidate", *(_COLUMNS if metric.is_judged else ())], rows


def _text_rows(report: ComparisonReport, metric: MetricComparison) -> list[str]:
    unit, headings, rows = _table(metric)
    widths = [max(len(row[place]) for row in [headings, *rows]) for place in range(len(headings))]
    # The verdict comes last and may be long: it takes what is left of the line.
    fixed = (
        sum(widths[:-1]) + 2 * len(widths) if metric.is_judged else sum(widths) + 2 * len(widths)
    )
    last = widths[-1] if metric.is_judged else 0
    room = max(8, TEXT_COLUMNS - fixed - min(last, 22))
    names = [f"  {row_name(report, row)}" for row in shown_rows(metric)]
    width = min(room, max(map(len, names)))
    lines = [*_wrap(metric_title(metric, unit)), _line("", width, headings, widths)]
    for name, cells in zip(names, rows, strict=True):
        if len(name) > width:
            lines += textwrap.wrap(
                name.strip(), TEXT_COLUMNS, initial_indent="  ", subsequent_indent="    "
            )
            name = ""
        lines += _folded(_line(name, width, cells, widths))
    if len(metric.rows) > SHOWN_LIMIT:
        lines.append(f"  and {len(metric.rows) - SHOWN_LIMIT} more pairs; --format csv has all")
    return lines


def _line(name: str, width: int, cells: Sequence[str], widths: Sequence[int]) -> str:
    line = name.ljust(width)
    for place, (cell, wide) in enumerate(zip(cells, widths, strict=True)):
        line += "  " + (cell.ljust(wide) if place in (3, 5) else cell.rjust(wide))
    return line.rstrip()


def _folded(line: str) -> list[str]:
    """Return a line, or two where a long reason at its end does not fit."""
    if len(line) <= TEXT_COLUMNS:
        return [line]
    return textwrap.wrap(line, TEXT_COLUMNS, subsequent_indent="      ", drop_whitespace=True)


def render_markdown(report: ComparisonReport) -> str:
    """Return the comparison as Markdown, ending with a newline."""
    lines = [f"## {heading(report)}", "", summary(report)]
    for metric in report.metrics:
        judged = metric.is_judged
        unit, headings, cells = _table(metric)
        lines += ["", f"### {metric_title(metric, unit)}", ""]
        lines.append("| " + " | ".join(["pair", *headings]) + " |")
        lines.append("|---|---:|---:|" + ("---:|---|---:|---|" if judged else ""))
        lines += [
            "| " + " | ".join([row_name(report, row), *texts]) + " |"
            for row, texts in zip(shown_rows(metric), cells, strict=True)
        ]
        if judged and words_text(metric):
            lines += ["", words_text(metric)]
    lines.append("")
    lines += [f"- {sentence}" for sentence in remarks(report)]
    return "\n".join(lines) + "\n"


def render_latex(report: ComparisonReport) -> str:
    """Return the comparison as LaTeX tables, one a metric, ending with a newline."""
    lines = [f"% {heading(report)}", f"% {summary(report)}"]
    for metric in report.metrics:
        judged = metric.is_judged
        unit, headings, rows = _table(metric)
        lines += [
            r"\begin{table}",
            rf"\caption{{{_latex(heading(report))}. {_latex(metric_title(metric, unit))}.}}",
            rf"\begin{{tabular}}{{lrr{'rlrl' if judged else ''}}}",
            r"\hline",
            " & ".join(_latex(name) for name in ["pair", *headings]) + r" \\",
            r"\hline",
        ]
        for row, texts in zip(shown_rows(metric), rows, strict=True):
            cells = [row_name(report, row), *texts]
            lines.append(" & ".join(_latex(cell) for cell in cells) + r" \\")
        lines += [r"\hline", r"\end{tabular}", r"\end{table}"]
    lines += [f"% {sentence}" for sentence in remarks(report)]
    return "\n".join(lines) + "\n"


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


CSV_COLUMNS = (
    *("metric", "method", "unit", "pair", "baseline_case", "candidate_case"),
    *("baseline_n", "baseline_mean", "baseline_sd", "candidate_n", "candidate_mean"),
    *("candidate_sd", "ratio", "low", "high", "level", "p_adjusted", "verdict"),
    *("is_detectable", "repetitions_needed", "compared_by", "missing"),
)


def csv_rows(report: ComparisonReport) -> Iterator[tuple[Any, ...]]:
    """Yield one row a pair and metric, numbers in base units, None where there is none."""
    for metric in report.metrics:
        for row in metric.rows:
            first, second, verdict = row.baseline_statistic, row.candidate_statistic, row.verdict
            yield (
                metric.metric,
                metric.method,
                METRICS[metric.metric].unit,
                row_name(report, row),
                row.baseline.case_id,
                row.candidate.case_id,
                *((first.n, first.mean, first.sd) if first else (None, None, None)),
                *((second.n, second.mean, second.sd) if second else (None, None, None)),
                *(
                    (verdict.ratio, verdict.low, verdict.high, verdict.level, verdict.p_adjusted)
                    if verdict
                    else (None,) * 5
                ),
                *(
                    (verdict.word, verdict.is_detectable, verdict.repetitions_needed)
                    if verdict
                    else (None,) * 3
                ),
                row.kind,
                row.missing,
            )


def render_csv(report: ComparisonReport) -> str:
    """Return all pairs as CSV, numbers in base units."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    writer.writerows(["" if cell is None else cell for cell in row] for row in csv_rows(report))
    return written.getvalue()


def to_json(report: ComparisonReport) -> dict[str, Json]:
    """Return the comparison as plain JSON, numbers in base units."""
    question = report.question
    return {
        "question": heading(report),
        "query": question.query(),
        "summary": summary(report),
        "kind": question.kind,
        "factor": question.factor,
        "baseline": question.baseline,
        "candidates": list(question.candidates),
        "where": {name: list(values) for name, values in question.where.items()},
        "matters": question.matters,
        "level": report.level,
        "family_size": report.family_size,
        "found": report.found,
        "varying": list(report.varying),
        "constant": dict(report.constant),
        "followers": {name: list(values) for name, values in report.followers.items()},
        "changed_facts": [list(fact) for fact in report.changed_facts],
        "unpaired": [{"level": level, "cases": cases} for level, cases in report.unpaired],
        "failed": report.failed,
        "metrics": [_metric_json(report, metric) for metric in report.metrics],
        "remarks": remarks(report),
    }


def _metric_json(report: ComparisonReport, metric: MetricComparison) -> dict[str, Json]:
    known = METRICS[metric.metric]
    return {
        "metric": metric.metric,
        "method": metric.method,
        "label": known.label,
        "unit": known.unit,
        "better": known.better,
        "is_judged": metric.is_judged,
        "words": dict(metric.words),
        "mean_ratio": metric.mean_ratio,
        "pairs": [
            {
                "name": row_name(report, row) if index < SHOWN_LIMIT else None,
                "baseline": {
                    "case_id": row.baseline.case_id,
                    "statistic": plain(row.baseline_statistic),
                },
                "candidate": {
                    "case_id": row.candidate.case_id,
                    "statistic": plain(row.candidate_statistic),
                },
                "compared_by": row.kind,
                "verdict": plain(row.verdict),
                "missing": row.missing,
            }
            for index, row in enumerate(metric.rows)
        ],
    }
