"""What a verdict table says about its own method, in sentences and lines of text.

How it stopped, what equal cases showed, what the order of the values shows,
effects of several factors together, and a crossover.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from zcdb import units
from zcdb.factors import FACTORS, FactorValue, display
from zcdb.metrics import METRICS, format_value
from zcdb.report.crossing import CrossoverAnswer
from zcdb.report.effects import EffectRow, EffectTable
from zcdb.report.naming import in_sentence, level_words
from zcdb.report.order import PatternRemark
from zcdb.report.table import Detectable, Stopping, VerdictTable
from zcdb.report.twins import TwinCheck

TEXT_COLUMNS = 78
EFFECT_NAME_COLUMNS = 38


def factor_text(factors: Mapping[str, FactorValue], names: Iterable[str]) -> str:
    """Return some factors of a case for people: `"sendfile, message size 64 KiB"`."""
    # An API speaks for itself; a size or a number does not.
    return ", ".join(
        level_words(name, factors[name], speaking=("api",)) for name in names if name in factors
    )


def metric_text(name: str, method: str) -> str:
    """Return a metric inside a sentence: "service demand, sender, by soak"."""
    by = f", by {method}" if method else ""
    return in_sentence(METRICS[name].label) + by


def signed(ratio: float) -> str:
    """Return a change with its sign: "+4.8 %", "−10.0 %"."""
    percent = f"{abs(ratio) * 100:.1f} %"
    sign = "" if percent == "0.0 %" else "+" if ratio > 0 else "−"
    return sign + percent


def sentences(table: VerdictTable) -> Iterator[str]:
    """Yield what to know about how the table came about, a sentence each."""
    if table.stopping is not None:
        yield _stopped(table.stopping)
    yield from table.warnings
    yield from (_pattern(remark, table.varying) for remark in table.patterns)
    if table.detectable:
        yield _detectable(table.detectable)
    if table.twins is not None:
        yield from _twins(table.twins)


def _stopped(stopping: Stopping) -> str:
    rule = (
        f"until {metric_text(stopping.metric, '')} is known to"
        f" ± {units.format_ratio(stopping.half_width, 2)}, at most {stopping.at_most} times"
    )
    made = "" if stopping.blocks is None else f"; it took {stopping.blocks} repetitions"
    return (
        f"Declared before the run: repeat {rule}{made}. Looking after each block makes intervals"
        f" miss more often, so they are computed at {units.format_ratio(stopping.level, 4)} to"
        " hold as stated."
    )


def _pattern(remark: PatternRemark, varying: Sequence[str]) -> str:
    where = "all cases together, each ÷ its mean"
    if remark.factors is not None:
        where = factor_text(remark.factors, varying) or "this case"
    word = remark.pattern.word
    return f"{where}: {metric_text(remark.metric, remark.method)} is {word}: {remark.pattern.text}."


def _detectable(found: Sequence[Detectable]) -> str:
    parts = []
    for one in found:
        smallest = "not even a tenfold one" if one.ratio is None else _ratio(one.ratio)
        parts.append(
            f"{in_sentence(METRICS[one.metric].label)} {smallest} (repetitions vary by"
            f" {_ratio(one.cv)}, n = {one.n})"
        )
    return "Smallest difference that 8 of 10 such runs detect: " + "; ".join(parts) + "."


def _ratio(ratio: float) -> str:
    return units.format_ratio(ratio, 2)


def _twins(check: TwinCheck) -> Iterator[str]:
    alarms = check.alarms
    if alarms.rate is None or alarms.low is None or alarms.high is None:
        yield "A/A: the twin of a case was not measured often enough to be compared with it."
        return
    yield (
        f"A/A: {alarms.alarms} of {alarms.comparisons} comparisons of equal cases show a"
        f" difference ({_ratio(alarms.rate)}, 95 % interval {_ratio(alarms.low)} to"
        f" {_ratio(alarms.high)}; 5 % are expected by chance)."
    )
    if alarms.is_amber:
        yield (
            "AMBER: equal cases differ more often than chance allows. The trials of this run are"
            " less independent than its intervals believe; trust no verdict of it."
        )


def crossover_sentence(answer: CrossoverAnswer) -> str:
    """Return what a search found, in a sentence."""
    first, second = answer.between
    by = f"by {metric_text(answer.metric, answer.method)}"
    found = answer.found
    if found is None:
        return f"Crossover of {first} and {second} {by}: too few levels measured both."
    if found.low is None or found.high is None or found.before is None:
        why = (found.reason or "").replace("the first", first).replace("the second", second)
        why = why.replace("the two", f"{first} and {second}")
        return f"No crossover of {first} and {second} {by}: {why}."
    before, after = (first, second) if found.before == "first" else (second, first)
    low, high = (display(answer.factor, level) for level in (found.low, found.high))
    about = ""
    if found.estimate is not None:
        about = f", probably near {display(answer.factor, round(found.estimate))}"
    narrow = ""
    if found.high / found.low > 1 + answer.within:
        narrow = (
            "; between them these repetitions decide nothing"
            if found.word == "found"
            else f"; the search ended after {found.levels} levels, as declared"
            if found.word == "limit"
            else "; the search has not ended"
        )
    label = in_sentence(FACTORS[answer.factor].label)
    return (
        f"{before} is better up to a {label} of {low}, {after} from {high} on{about} ({by}, 95 %"
        f" for all levels together){narrow}."
    )


def crossover_lines(answer: CrossoverAnswer) -> list[str]:
    """Return the levels of a search as lines."""
    first, second = answer.between
    lines = [f"  {FACTORS[answer.factor].label:<16}{second + ' ÷ ' + first:>26}   n  better"]
    for level in answer.levels:
        better = level.better or "undecided"
        ratio = units.format_number(level.ratio)
        lines.append(
            f"  {display(answer.factor, level.level):<16}{ratio:>26} {level.n:3d}  {better}"
        )
    return lines


def effect_title(table: EffectTable, varying: Sequence[str]) -> str:
    """Return what a table of effects is about."""
    at = factor_text(table.at, [name for name in varying if name in table.at])
    where = f" at {at}" if at else ""
    return f"Effects on {metric_text(table.metric, table.method)}{where}"


def effect_name(row: EffectRow, axes: int) -> str:
    """Return what an effect is: "sendfile alone", "sendfile with TSO, beyond the sum"."""
    names = " with ".join(row.names)
    if row.kind == "alone":
        return f"{names} alone"
    if row.kind == "together":
        return f"{names}, beyond the sum" if axes == 2 else f"{names}, beyond smaller groups"
    return f"{names} on average"


def effect_lines(table: EffectTable) -> list[str]:
    """Return the effects of a table as lines, in per cent of the case where all is off."""
    base = format_value(table.metric, table.base)
    rows = [
        (effect_name(row, len(table.axes)), signed(row.share), _interval(row, table), _p(row))
        for row in table.rows
    ]
    off = ", ".join(
        dict.fromkeys(factor_text(axis.off, axis.off) for axis in table.axes if axis.off)
    )
    rows.append(("all on", signed(table.all_on / table.base), "", ""))
    heading = f"All off ({off}): {base}; n = {table.blocks}."
    lines = [f"  {line}" for line in textwrap.wrap(heading, TEXT_COLUMNS - 2)]
    width = min(EFFECT_NAME_COLUMNS, max(len(name) for name, *_ in rows))
    for name, share, interval, p in rows:
        *before, last = textwrap.wrap(name, width)
        lines += [f"  {line}" for line in before]
        lines.append(f"  {last:<{width}}  {share:>7}  {interval:>18}  {p:>6}".rstrip())
    return lines


def _interval(row: EffectRow, table: EffectTable) -> str:
    if row.low is None or row.high is None:
        return ""
    ends = sorted((row.low / table.base, row.high / table.base))
    return f"[{signed(ends[0])}, {signed(ends[1])}]"


def _p(row: EffectRow) -> str:
    if row.p_value is None:
        return ""
    return "<0.001" if row.p_value < 0.001 else f"{row.p_value:.3f}"
