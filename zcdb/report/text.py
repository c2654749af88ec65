"""Lists and single results as plain text, for the command line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from zcdb import units
from zcdb.factors import FACTORS, FactorValue, display, without_defaults
from zcdb.metrics import METRICS, format_value
from zcdb.report.render import factor_text, render_text
from zcdb.report.table import VerdictTable
from zcdb.report.twins import is_twin
from zcdb.store.results import (
    CaseList,
    CasePage,
    EnvironmentPage,
    ExperimentList,
    ExperimentPage,
    RunLine,
    RunList,
    RunPage,
    Statistic,
    TrialLine,
    TrialPage,
)

_MORE = "(more: --after {after})"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines, columns aligned to the left and two spaces apart."""
    if not rows:
        return []
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _joined(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


def _more(next_after: str | None) -> list[str]:
    return [_MORE.format(after=next_after)] if next_after else []


def _stated(factors: Mapping[str, FactorValue]) -> str:
    """Return the factors that are not at their default."""
    stated = without_defaults({name: v for name, v in factors.items() if name in FACTORS})
    return factor_text(stated, stated)


def _run_cells(run: RunLine) -> list[str]:
    counts = run.counts
    return [
        run.id,
        run.started_at.strftime("%Y-%m-%d %H:%M"),
        run.outcome,
        f"{counts.ok}/{counts.planned}",
        run.experiment_name,
        run.note,
    ]


def run_list_text(runs: RunList) -> str:
    """Return runs, one a line."""
    if not runs.runs:
        return "No run is recorded yet; 'zcdb run' makes the first one.\n"
    heading = ["run", "started (UTC)", "outcome", "ok", "experiment", "note"]
    lines = _table([heading, *[_run_cells(run) for run in runs.runs]])
    return _joined([*lines, *_more(runs.next_after)])


def experiment_list_text(experiments: ExperimentList) -> str:
    """Return experiments, one a line."""
    if not experiments.experiments:
        return "No experiment is recorded yet; 'zcdb run' runs the first one.\n"
    rows = [["experiment", "runs", "question"]]
    rows += [[line.name, str(line.runs), line.question] for line in experiments.experiments]
    return _joined([*_table(rows), *_more(experiments.next_after)])


def case_list_text(cases: CaseList) -> str:
    """Return cases, one a line."""
    if not cases.cases:
        return "No case is recorded yet; 'zcdb run' measures the first ones.\n"
    rows = [["case", "ok", "factors that are not at their default"]]
    rows += [[case.id, str(case.trials), _stated(case.factors)] for case in cases.cases]
    return _joined([*_table(rows), *_more(cases.next_after)])


def experiment_text(page: ExperimentPage) -> str:
    """Return an experiment: the file as written, and its runs."""
    rows = [_run_cells(run) for run in page.runs]
    return _joined([page.experiment.text.rstrip(), "", *_table(rows)])


def run_text(page: RunPage, table: VerdictTable) -> str:
    """Return a run: its answer, and each trial in the order of measuring."""
    factors = {case.plan_key: case.factors for case in page.cases}
    rows = [["place", "trial", "case", "repetition", "outcome"]]
    waits = "not needed" if page.run.outcome == "finished" else "planned"
    for place in page.plan:
        name = factor_text(factors[place.plan_key], table.varying)
        if is_twin(factors[place.plan_key]):
            name = f"{name} (twin)".strip()
        at = [str(place.position), name, str(place.repetition)]
        for trial in place.attempts:
            rows.append([at[0], trial.id, at[1], at[2], _outcome(trial)])
        if not place.attempts:
            rows.append([at[0], "", at[1], at[2], waits])
    about = [["note", page.run.note]] if page.run.note else []
    about += [[f"environment ({', '.join(line.ends)})", line.id] for line in page.environments]
    about += [[name, json.dumps(value)] for part in page.readings for name, value in part.items()]
    return render_text(table) + "\n" + _joined([*_table(about), "", *_table(rows)])


def _outcome(trial: TrialLine) -> str:
    said = trial.status if trial.reason is None else f"{trial.status}: {trial.reason}"
    flags = f" [{', '.join(trial.flags)}]" if trial.flags else ""
    return said + flags + (f" (excluded: {trial.excluded})" if trial.excluded else "")


def case_text(page: CasePage) -> str:
    """Return a case: its factors, what it measured over all runs, its trials."""
    lines = [f"case {page.id}", *_factor_lines(page.factors), ""]
    rows = [["metric", "method", "mean", "95 % interval", "n"]]
    rows += [_statistic_cells(statistic) for statistic in page.statistics]
    lines += [*_table(rows), ""]
    trials = [["trial", "started (UTC)", "experiment", "outcome"]]
    trials += [
        [
            line.trial.id,
            line.trial.started_at.strftime("%Y-%m-%d %H:%M"),
            line.experiment_name,
            _outcome(line.trial),
        ]
        for line in page.trials
    ]
    return _joined(lines + _table(trials) + _more(page.next_after))


def _factor_lines(factors: Mapping[str, FactorValue]) -> list[str]:
    rows = [[FACTORS[name].label, display(name, value)] for name, value in factors.items()]
    return [f"  {line}" for line in _table(rows)]


def _statistic_cells(statistic: Statistic) -> list[str]:
    name = METRICS[statistic.metric].label
    if statistic.mean is None:
        return [name, statistic.method, "none", statistic.reason or "", "0"]
    interval = ""
    if statistic.low is not None and statistic.high is not None:
        low, high = (format_value(statistic.metric, end) for end in (statistic.low, statistic.high))
        interval = f"{low} to {high}"
    mean = format_value(statistic.metric, statistic.mean)
    return [name, statistic.method, mean, interval, str(statistic.n)]


def trial_text(page: TrialPage) -> str:
    """Return a trial: every number or the reason why it is missing."""
    trial = page.trial
    window = "none" if trial.window_ns is None else units.format_duration(trial.window_ns)
    facts = [
        ["run", f"{trial.run_id} ({page.experiment.name})"],
        ["case", trial.case_id],
        ["place", f"{trial.position}, block {trial.block}"],
        ["repetition", f"{trial.repetition}, attempt {trial.attempt}"],
        ["started", trial.started_at.strftime("%Y-%m-%d %H:%M:%S UTC")],
        ["window", window],
        ["outcome", _outcome(trial)],
        *[[f"environment of the {end}", line.id] for end, line in page.environments.items()],
    ]
    lines = [f"trial {trial.id}", *[f"  {line}" for line in _table(facts)], ""]
    lines += [*_factor_lines(page.factors), ""]
    values = [
        [
            METRICS[value.metric].label,
            value.method,
            f"none: {value.reason}"
            if value.value is None
            else format_value(value.metric, value.value),
        ]
        for value in page.values
    ]
    lines += _table([["metric", "method", "value"], *values]) if values else ["No value."]
    lines += [f"{flag.code}: {flag.sentence} {flag.detail}".rstrip() for flag in page.flags]
    lines += ["", "raw counts:", json.dumps(page.counts, indent=2, sort_keys=True)]
    return _joined(lines)


def environment_text(page: EnvironmentPage) -> str:
    """Return the facts of a host and its runs."""
    facts = json.dumps(page.facts, indent=2, sort_keys=True, ensure_ascii=False)
    rows = [_run_cells(run) for run in page.runs]
    lines = [f"environment {page.id}", facts, f"{page.trials} trials"]
    return _joined(lines + _table(rows))
