"""What pages and tables ask the database: one function a page.

Each function takes a `Database`, reads one state of it in a fixed number of
statements, and returns frozen objects of `zcdb.store.results`.  What is not
there is a `NotFound`; lists page by key.
"""

from zcdb.store.queries.cases import case_list, case_page
from zcdb.store.queries.common import RUNS_SHOWN, NotFound, Retracted
from zcdb.store.queries.environments import environment_page
from zcdb.store.queries.errata import errata_of
from zcdb.store.queries.experiments import (
    experiment_list,
    experiment_of_version,
    experiment_page,
)
from zcdb.store.queries.find import find
from zcdb.store.queries.home import home, run_list
from zcdb.store.queries.resume import resumable_run
from zcdb.store.queries.runs import run_outcome, run_page
from zcdb.store.queries.sources import (
    entry_page,
    history_page,
    history_pages,
    source_list,
    source_page,
    source_text,
)
from zcdb.store.queries.trials import trial_page

__all__ = [
    "RUNS_SHOWN",
    "NotFound",
    "Retracted",
    "case_list",
    "case_page",
    "entry_page",
    "environment_page",
    "errata_of",
    "experiment_list",
    "experiment_of_version",
    "experiment_page",
    "find",
    "history_page",
    "history_pages",
    "home",
    "resumable_run",
    "run_list",
    "run_outcome",
    "run_page",
    "source_list",
    "source_page",
    "source_text",
    "trial_page",
]
