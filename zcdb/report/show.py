"""One result by its id, whatever it is."""

from __future__ import annotations

from typing import Any

from zcdb.report import sources, text
from zcdb.report.verdicts import to_json, verdict_table
from zcdb.store import queries
from zcdb.store.session import Database


def show(db: Database, prefix: str) -> tuple[Any, str]:
    """Return what an id, or the beginning of one, names: as an object and as text.

    Raises:
        zcdb.errors.UsageError: if it is not the beginning of one id.
        zcdb.store.queries.NotFound: if nothing has such an id.
    """
    found = queries.find(db, prefix)
    if found.kind == "run":
        run = queries.run_page(db, found.id)
        table = verdict_table(db, found.id)
        return {"page": run, "verdicts": to_json(table)}, text.run_text(run, table)
    if found.kind == "case":
        case = queries.case_page(db, found.id)
        return case, text.case_text(case)
    if found.kind == "trial":
        trial = queries.trial_page(db, found.id)
        return trial, text.trial_text(trial)
    if found.kind == "environment":
        environment = queries.environment_page(db, found.id)
        return environment, text.environment_text(environment)
    if found.kind == "source":
        source = queries.source_page(db, found.id)
        return source, sources.source_text(source)
    if found.kind == "entry":
        entry = queries.entry_page(db, found.id)
        return entry, sources.entry_text(entry)
    experiment = queries.experiment_of_version(db, found.id)
    return experiment, text.experiment_text(experiment)
