"""Records of the founding tables: frozen, in stated and in base units, inferred values apart.

No reading and no arithmetic here.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from zcdb.factors import Factors
from zcdb.ids import Json

Kind = Literal["cell", "observation", "relative", "series", "machine-fact", "total"]
Reading = Literal["decimal", "decimal assumed", "exact"]
Verdict = Literal[
    "agrees", "rounded", "partly", "disagrees", "contested", "revised", "not-met", "no-figures"
]


@dataclass(frozen=True, slots=True)
class Document:
    """A text that tables come from.

    Attributes:
        text: file name of the transcript in which lines are counted.
        sha256: of that transcript.
        lines: how many it has.
    """

    id: str
    title: str
    published: str
    text: str
    sha256: str
    lines: int


@dataclass(frozen=True, slots=True)
class Source:
    """Where a cell stands.

    Attributes:
        document: id of the document.
        date: of the mail, with its time where that is known; None if the text has none.
        date_line: line that gives the date.
        after, before: what bounds an unknown date.
        lines: first and last line of the cell, from 1.
    """

    document: str
    author: str
    lines: tuple[int, int]
    subject: str | None = None
    date: datetime.date | None = None
    date_line: int | None = None
    date_note: str = ""
    after: datetime.date | None = None
    before: datetime.date | None = None


@dataclass(frozen=True, slots=True)
class Inferred:
    """Something that was deduced and not stated; `value` is None where it was left open."""

    value: Json
    why: str


@dataclass(frozen=True, slots=True)
class Relation:
    """A link to another cell (`id`) or to lines that quote, restate or head this one."""

    type: str
    id: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class RelativeChange:
    """A change of which only the ratio is stated, in percent of the baseline (negative: less)."""

    what: str
    condition: str
    baseline: str
    low_pct: Decimal
    high_pct: Decimal
    qualifier: str | None


@dataclass(frozen=True, slots=True)
class HistoricValue:
    """One figure of a cell, as stated and in the metric's base unit.

    Attributes:
        metric: key of `BASE_UNITS`.
        method: CPU method, "" for metrics that have none.
        stated: the figure as printed, or the low and high end of a range.
        unit: as the document writes it; `unit_evident` is what it must be instead.
        low, high: in `base_unit`, equal for a single figure; None with `reason`.
        base_unit: the metric's, or `PERCENT` where no CPU count is stated.
        other_low, other_high: the other reading of the prefix (2^10 and powers), if it has one.
        cpus_by_inference: a utilisation in CPUs if the inferred CPU count is right.
        sum: for a stated sum over iterations, that sum in `base_unit`.
        reading: how the prefix is read; `why` says what settles it.
        scope: "table" if the figure is stated once for several rows.
        lines: where the figure stands, if not in the cell's own lines.
    """

    metric: str
    method: str
    stated: tuple[Decimal, ...]
    unit: str
    base_unit: str
    low: float | None
    high: float | None
    reason: str | None = None
    unit_evident: str | None = None
    sd: Decimal | None = None
    sd_base: float | None = None
    qualifier: str | None = None
    samples: tuple[Decimal, ...] = ()
    occasional: Decimal | None = None
    other_low: float | None = None
    other_high: float | None = None
    cpus_by_inference: tuple[float, ...] = ()
    sum: float | None = None
    sum_of: int | None = None
    reading: Reading | None = None
    why: str | None = None
    scope: Literal["row", "table"] = "row"
    line: int | None = None
    heading_line: int | None = None
    column: str | None = None
    note: str | None = None

    @property
    def value(self) -> float | None:
        """The single figure in `base_unit`; None for a range and for what was not normalised."""
        return self.low if self.low == self.high else None

    @property
    def stated_text(self) -> str:
        """The figure as the document gives it: `"18.3-29.6 %"`, `"9402 ± 5 Gb/s"`."""
        text = "-".join(str(figure) for figure in self.stated)
        if self.sd is not None:
            text = f"{text} ± {self.sd}"
        text = f"{text} {self.unit}" if self.unit != "1" else text
        return f"{self.qualifier} {text}" if self.qualifier else text


@dataclass(frozen=True, slots=True)
class HistoricCell:
    """One cell of a founding table, or one figure of its prose.

    Attributes:
        group, title: the table it belongs to.
        context: everything stated about it, in the documents' terms; sizes in bytes.
        factors: what of it the registry of factors knows, in the registry's spelling.
        resolved: keys of `context` that another place of the document gives -> why.
        inferred: what was deduced; never part of `context` or `factors`.
        counters: counter -> its value and what the tool derived from it.
        change_pct_stated: the change against its pair, in percent, as printed.
    """

    id: str
    kind: Kind
    group: str
    title: str
    source: Source
    context: Mapping[str, Json]
    factors: Factors
    values: tuple[HistoricValue, ...]
    flags: tuple[str, ...]
    notes: tuple[str, ...]
    relations: tuple[Relation, ...]
    resolved: Mapping[str, str]
    inferred: Mapping[str, Inferred]
    counters: Mapping[str, Mapping[str, Decimal]]
    relative: RelativeChange | None
    change_pct_stated: Decimal | None

    def value(self, metric: str) -> HistoricValue | None:
        """Return the cell's figure for a metric, or None if it has none."""
        return next((value for value in self.values if value.metric == metric), None)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a conclusion rests on: two cells, or the smallest of a group along a context key."""

    metric: str
    from_id: str = ""
    to_id: str = ""
    minimum_of: str = ""
    along: str = ""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What an author concluded, in zcdb's words.

    Attributes:
        claimed_pct: the changes that the author put in numbers.
        verdict: what the cells say to it.
    """

    id: str
    document: str
    author: str
    lines: tuple[int, int]
    claim: str
    verdict: Verdict
    note: str
    claimed_pct: tuple[Decimal, ...]
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True, slots=True)
class Recomputed:
    """A comparison with its figures, computed from the cells.

    Attributes:
        from_stated, to_stated: as stated, both in `unit`.
        change_pct: change from one to the other in percent of the first; None for a minimum.
        at: for a minimum, the value of the context key where it is.
    """

    comparison: Comparison
    unit: str
    from_stated: Decimal
    to_stated: Decimal
    change_pct: float | None
    at: Json = None

    @property
    def difference(self) -> Decimal:
        """The difference in `unit`: points where that is percent."""
        return self.to_stated - self.from_stated


@dataclass(frozen=True, slots=True)
class History:
    """All founding tables."""

    documents: Mapping[str, Document]
    cells: tuple[HistoricCell, ...]
    conclusions: tuple[Conclusion, ...]
