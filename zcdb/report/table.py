"""The verdict table: what an experiment's [compare] section asks, answered from one run.

Only the data is here; `zcdb.report.verdicts` makes it, `zcdb.report.render`
writes it down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from zcdb.factors import FactorValue
from zcdb.report.crossing import CrossoverAnswer
from zcdb.report.effects import EffectTable
from zcdb.report.order import PatternRemark
from zcdb.report.twins import TwinCheck
from zcdb.stats.verdict import Verdict
from zcdb.store.results import RunLine, Statistic

Role = Literal["baseline", "candidate", "unpaired"]


@dataclass(frozen=True, slots=True)
class CaseValue:
    """A case and what it measured of one metric.

    Attributes:
        case_id: None until a trial of it has started.
        factors: declared ones, defaults filled in.
        statistic: None if nothing was measured.
        missing: why there is no value, in a word or two; None if there is one.
    """

    case_id: str | None
    plan_key: str
    factors: Mapping[str, FactorValue]
    statistic: Statistic | None
    missing: str | None


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """A case for one metric, compared with its baseline where it has one.

    Attributes:
        role: "baseline" of others, "candidate" that has one, or "unpaired".
        baseline: what the candidate is compared with; None for the other roles.
        verdict: None for the other roles, and for a metric that is shown but not judged.
        sign_flip_p_value: check of the test that assumes no distribution; None below
            three pairs.
    """

    case: CaseValue
    role: Role
    baseline: CaseValue | None
    verdict: Verdict | None
    sign_flip_p_value: float | None


@dataclass(frozen=True, slots=True)
class MetricTable:
    """All cases of the run for one metric.

    Attributes:
        method: CPU method, "" for metrics that have none.
        is_judged: False if the experiment did not ask for it: its throughput stands beside
            every service demand.
        note: why another method than the headline one is shown; None if it is not.
        rows: each baseline before its candidates, in the order of the plan's declaration.
    """

    metric: str
    method: str
    is_judged: bool
    note: str | None
    rows: tuple[VerdictRow, ...]


@dataclass(frozen=True, slots=True)
class CaseRemark:
    """What to know about a case: what failed, and what warns.

    Attributes:
        copied_share: mean share of completions that the kernel says were copied;
            None where the API has no completions.
        flags: code -> trials that raised it.
        limiter: what limited most trials of the case, "not identified" too; None if nobody
            looked.
        zero_copy: of an API that should not copy, whether bytes were really not copied:
            proven, copied or unknown; None for other APIs, or if nobody looked.
    """

    case_id: str | None
    factors: Mapping[str, FactorValue]
    ok: int
    failed: int
    unsupported: int
    reasons: tuple[str, ...]
    copied_share: float | None
    flags: Mapping[str, int]
    limiter: str | None = None
    zero_copy: str | None = None


@dataclass(frozen=True, slots=True)
class Detectable:
    """What the comparisons of a metric could have shown.

    Attributes:
        cv: variation of the repetitions, from the spread within blocks.
        ratio: smallest difference that is detected in 8 of 10 such runs; None where even a
            tenfold one is not.
    """

    metric: str
    n: int
    cv: float
    ratio: float | None


@dataclass(frozen=True, slots=True)
class Stopping:
    """How a run that stops by itself stopped.

    Attributes:
        level: confidence that each interval is computed at, so that it holds at the table's
            in spite of the looking.
        blocks: repetitions that were made; None while it goes on.
    """

    metric: str
    half_width: float
    at_most: int
    level: float
    blocks: int | None


@dataclass(frozen=True, slots=True)
class VerdictTable:
    """The answer of a run.

    Attributes:
        baseline: factor values that make a case a baseline; empty if none is declared.
        matters: ratio below which a difference is called equivalent.
        level: confidence of the whole family of intervals.
        family_size: comparisons that were judged together.
        varying: factors that differ between the run's cases.
        constant: factors that do not, where they are not at their default.
        cases: twins left out, as in all that is above.
        twins: what equal cases say about the method; None without any.
        detectable: by metric that is judged, where its spread is known.
        patterns: what the order of the values shows.
        effects: of on/off factors, alone and together.
        warnings: sentences about how the run was measured as a whole.
        stopping: None for a fixed number of repetitions.
    """

    run: RunLine
    baseline: Mapping[str, FactorValue]
    matters: float
    level: float
    family_size: int
    varying: tuple[str, ...]
    constant: Mapping[str, FactorValue]
    metrics: tuple[MetricTable, ...]
    cases: tuple[CaseRemark, ...]
    twins: TwinCheck | None = None
    detectable: tuple[Detectable, ...] = ()
    patterns: tuple[PatternRemark, ...] = ()
    effects: tuple[EffectTable, ...] = ()
    crossover: CrossoverAnswer | None = None
    warnings: tuple[str, ...] = ()
    stopping: Stopping | None = None

    @property
    def rows(self) -> tuple[VerdictRow, ...]:
        """The rows of all metrics."""
        return tuple(row for metric in self.metrics for row in metric.rows)
