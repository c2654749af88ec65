"""What each JSON page of the API is for: its summary, its parameters, and the content it has.

A test holds this list against the pages themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

from zcdb.webapp.present import (
    break_even,
    buy,
    calculator,
    case,
    compare,
    conclusions,
    data,
    environment,
    experiment,
    explore,
    flags_page,
    glossary,
    history,
    home,
    hosts,
    methods,
    nic_asked,
    nic_conflicts,
    nic_driver,
    nics,
    questions,
    run,
    trial,
)
from zcdb.webapp.views import compare as compare_view
from zcdb.webapp.views import explore as explore_view
from zcdb.webapp.views import nics as nics_view
from zcdb.webapp.views import reports


@dataclass(frozen=True, slots=True)
class Described:
    """What the description says of a page."""

    summary: str
    content: type
    parameters: tuple[str, ...] = ()
    takes_filters: bool = False


PAGES: dict[str, Described] = {
    "home.home": Described("What is new, and the latest findings", home.HomeContent),
    "questions.questions": Described("Standing questions", questions.QuestionsContent),
    "questions.question": Described(
        "A standing question, answered", questions.QuestionContent, takes_filters=True
    ),
    "breakeven.break_even": Described(
        "Message size from which on each API pays",
        break_even.BreakEvenContent,
        ("m", "method"),
        takes_filters=True,
    ),
    "flags_page.flags": Described(
        "Effects of on/off settings", flags_page.FlagsContent, takes_filters=True
    ),
    "calculator.calculator": Described(
        "What a measured cost means for a server",
        calculator.CalculatorContent,
        ("case", *calculator.PLACES, "rate", "cpus"),
    ),
    "experiments.experiments": Described(
        "Experiments by name", experiment.ExperimentsContent, ("after",)
    ),
    "experiments.experiment": Described(
        "An experiment and its latest answer", experiment.ExperimentContent, ("version",)
    ),
    "runs.runs": Described("Runs, newest first", home.RunsContent, ("after",)),
    "runs.run": Described("A run", run.RunContent, ("from",)),
    "cases.case": Described("A case on any host", case.CaseContent, ("after",)),
    "trials.trial": Described("A trial", trial.TrialContent),
    "explore.explore": Described(
        "Cases by any factor",
        explore.ExploreContent,
        explore_view.OWN_PARAMETERS,
        takes_filters=True,
    ),
    "compare.compare": Described(
        "Levels of a factor, cases or runs compared",
        compare.CompareContent,
        compare_view.OWN_PARAMETERS,
        takes_filters=True,
    ),
    "reports.reports_list": Described(
        "Frozen reports, newest first", reports.ReportsContent, ("after",)
    ),
    "reports.verify": Described("A report computed again", reports.VerifyContent),
    "history.history": Described("The founding tables", history.HistoryContent),
    "history.conclusions": Described("What the authors concluded", conclusions.ConclusionsContent),
    "history.history_table": Described("A founding table", history.TableContent),
    "history.sources": Described("What others published", history.SourcesContent, ("after",)),
    "history.source": Described("A source with its entries", history.TableContent),
    "environments.environment": Described("The facts of a host", environment.EnvironmentContent),
    "diff.diff": Described("What differs between two environments", hosts.DiffContent, ("a", "b")),
    "hosts.hosts": Described("Hosts", hosts.HostsContent),
    "hosts.host": Described("A host and its states", hosts.HostContent),
    "hosts.kernels": Described("Kernels", hosts.KernelsContent),
    "hosts.kernel": Described("What was measured on a kernel", hosts.KernelContent),
    "methods.methods": Described("Every metric, method and flag", methods.MethodsContent),
    "methods.topic": Described("A topic of the method", methods.TopicContent),
    "glossary.glossary": Described("The glossary", glossary.GlossaryContent),
    "data.data": Described("The data dictionary", data.DataContent),
    "nics.nics": Described("Drivers of network cards", nics.NicsContent, nics_view.LIST_PARAMETERS),
    "nics.driver": Described("What a driver can do", nic_driver.DriverContent),
    "nics.device": Described("What a device can do", nic_driver.DeviceContent),
    "nics.compare": Described("Drivers side by side", nics.CompareContent, ("d", "kernel")),
    "nics.conflicts": Described(
        "Statements that contradict each other", nic_conflicts.ConflictsContent
    ),
    "buy.buy": Described("Which card to buy, by use", buy.BuyContent, ("kernel",)),
    "buy.use": Described("Verdicts for a use", buy.UseContent, nic_asked.PARAMETERS),
}
