"""How much the repetitions of a run vary, as a pilot for the next one, and what it could show."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from zcdb.metrics import HEADLINE_CPU_METHOD, METRICS
from zcdb.report.twins import is_twin
from zcdb.stats.summary import MINIMUM_FOR_INTERVAL, standard_deviation
from zcdb.store import queries
from zcdb.store.results import RunCase
from zcdb.store.session import Database

FALLBACK_CPU_METHOD = "rusage"


def spread_of_run(db: Database, run_id: str, metric: str) -> float | None:
    """Return the typical coefficient of variation of the cases of a run; None if none has one.

    Raises:
        zcdb.store.queries.NotFound: if there is no such run.
    """
    cases = [case for case in queries.run_outcome(db, run_id).cases if not is_twin(case.factors)]
    has_method = METRICS[metric].has_method
    for method in (HEADLINE_CPU_METHOD, FALLBACK_CPU_METHOD) if has_method else ("",):
        spread = spread_of_cases(cases, metric, method)
        if spread is not None:
            return spread
    return None


def spread_of_cases(cases: Sequence[RunCase], metric: str, method: str) -> float | None:
    """Return the root of the mean square of the cases' coefficients of variation.

    Cases below three values, or of values that do not vary at all, are left out.
    """
    squares = []
    for case in cases:
        series = case.find(metric, method)
        values = [v for v in series.kept if v is not None] if series else []
        if len(values) >= MINIMUM_FOR_INTERVAL and min(values) > 0:
            sd_of_logs = standard_deviation([math.log(value) for value in values])
            if sd_of_logs > 0:
                squares.append(sd_of_logs**2)
    return math.sqrt(statistics.fmean(squares)) if squares else None
