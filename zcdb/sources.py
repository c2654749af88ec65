"""Records of what others published: a source, its entries and their figures.

A source is a founding table or an imported file; an entry is one result in it (a cell, a run of
netperf); a figure is one number of an entry, as stated and in the metric's base unit.  Who reads
such texts makes these records, the store keeps them.  No reading and no arithmetic here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from zcdb.factors import Factors
from zcdb.ids import Json, content_id
from zcdb.records import Flag

SourceKind = Literal["historic", "import", "bundle"]
Spread = Literal["sd", "se", "ci95"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of an entry.

    Attributes:
        metric: a key of `zcdb.metrics.METRICS`, or a word that only documents use.
        method: CPU method, "" for metrics that have none.
        unit: base unit of the numbers here.
        stated: the figure with its unit, as the source has it.
        low, high: in `unit`, equal for a single figure; None with `reason`.
        sd: what stands behind a "±", in `unit`; `spread` says what it is.
        n: repetitions behind the figure, where the source says how many.
        other_low, other_high: the other reading of an ambiguous prefix.
        is_inferred: True for what was deduced and not stated.
        left_out: why it takes part in no comparison; None if it does.
        details: how it was read and why, or how it follows from printed numbers; JSON.
    """

    metric: str
    method: str
    unit: str
    stated: str
    low: float | None
    high: float | None
    sd: float | None = None
    spread: Spread | None = None
    n: int | None = None
    other_low: float | None = None
    other_high: float | None = None
    is_inferred: bool = False
    reason: str | None = None
    left_out: str | None = None
    details: Mapping[str, Json] = field(default_factory=dict)

    @property
    def value(self) -> float | None:
        """The single figure; None for a range and for what is not known."""
        return self.low if self.low == self.high else None


@dataclass(frozen=True, slots=True)
class Entry:
    """One result of a source.

    Attributes:
        key: what tells it from the other entries of its source, for ever: part of its id.
        name, kind: for people: a cell's word and "cell", a tool's test and "result".
        lines: first and last line in the document or file, from 1.
        factors: of its case; None where it describes no case (a machine, a sum).
        left_out: why none of it takes part in a comparison; None if it does.
        details: context, deductions, notes; tool, version, test; JSON.
    """

    key: str
    name: str
    kind: str
    lines: tuple[int, int]
    factors: Factors | None
    figures: Sequence[Figure]
    flags: Sequence[Flag] = ()
    left_out: str | None = None
    details: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Source:
    """Where results come from that zcdb did not measure.

    Attributes:
        identity: what the id hashes beside the kind.
        name: the founding table's word, or the file's name.
        document: what the lines count in; the file itself for an import.
        dated: the date as stated, ISO 8601; None if there is none.
        text: the bytes that were read, as they came.
        form: names what read it; another form reads it again.
        details: title of the document, command, given factors, what was refused; JSON.
    """

    kind: SourceKind
    identity: Mapping[str, Json]
    name: str
    title: str
    document: str
    author: str | None
    dated: str | None
    lines: tuple[int, int] | None
    text: bytes
    form: str
    entries: Sequence[Entry]
    details: Mapping[str, Json] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The id: it stays when the same source is read better."""
        return content_id("source", {"kind": self.kind, **self.identity})


def entry_id(source_id: str, key: str) -> str:
    """Return the id of an entry: made from where it stands, not from how it was read."""
    return content_id("entry", [source_id, key])
