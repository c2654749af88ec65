"""What pages and tables ask the database: one function a page.

Each function takes a `Database`, reads one state of it in a fixed number of
statements, and returns frozen objects of `zcdb.store.results`.  What is not
there is a `NotFound`; lists page by key.
"""

from zcdb.store.queries.cases import case_list, case_page
from zcdb.store.queries.common import RUNS_SHOWN, NotFound
from zcdb.store.queries.environments import environment_page
from zcdb.store.queries.experiments import (
    experiment_list,
    experiment_of_version,
    experiment_page,
)
from zcdb.store.queries.find import find
from zcdb.store.queries.home import home, run_list
from zcdb.store.queries.resume import resumable_run
from zcdb.store.queries.runs import run_outcome, run_page
from zcdb.store.queries.trials import trial_page

__all__ = [
    "RUNS_SHOWN",
    "NotFound",
    "case_list",
    "case_page",
    "environment_page",
    "experiment_list",
    "experiment_of_version",
    "experiment_page",
    "find",
    "home",
    "resumable_run",
    "run_list",
    "run_outcome",
    "run_page",
    "trial_page",
]
