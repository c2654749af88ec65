"""The page of one trial: every number with its method, or the reason why it is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from zcdb.factors import FactorValue
from zcdb.metrics import HEADLINE_CPU_METHOD
from zcdb.records import SampleSeries
from zcdb.store.results import EnvironmentLine, Erratum, FlagLine, TrialLine, TrialPage
from zcdb.webapp.labels import case_name
from zcdb.webapp.present.environment import summary
from zcdb.webapp.present.facts import FactGroup, groups
from zcdb.webapp.present.measured import (
    CpuRow,
    Estimate,
    copied_words,
    cpu_rows,
    exchange_headline,
    find,
    is_exchange,
    others,
    single,
    zero_copy_words,
)
from zcdb.webapp.present.trial_counters import (
    CounterTable,
    LimiterContent,
    ProofContent,
    counter_tables,
    hardware_reason,
    limiter_content,
    proof_content,
)
from zcdb.webapp.present.trial_tool import ToolContent, tool_content


@dataclass(frozen=True, slots=True)
class HostRef:
    """The environment of one end or of both."""

    id: str
    ends: tuple[str, ...]
    summary: str


@dataclass(frozen=True, slots=True)
class TrialContent:
    """All that a trial's page says.

    Attributes:
        headline: throughput and the service demand of both ends; where the link's rate was
            the limit, service demand first; of an exchange what is known of transactions.
        zero_copy: what is known about copying; None for trials that did not look at it, for
            which `proof` has all there is, in a sentence.
        limiter: None for trials that did not look for it.
        tool: None for trials of zcdb's own loops.
        hardware_reason: why there are no hardware counters.
        samples: column -> one value a sample; None if no window was reached.
    """

    id: str
    status: str
    reason: str | None
    excluded: str | None
    case_id: str
    case_name: str
    factors: Mapping[str, FactorValue]
    run_id: str
    experiment_name: str
    experiment_version: str
    question: str
    repetition: int
    attempt: int
    block: int
    position: int
    started_at: datetime
    ended_at: datetime | None
    window_ns: int | None
    headline: tuple[Estimate, ...]
    copied: Estimate
    copied_words: str | None
    proof: str
    zero_copy: ProofContent | None
    limiter: LimiterContent | None
    tool: ToolContent | None
    counters: tuple[CounterTable, ...]
    hardware_reason: str | None
    cpu: tuple[CpuRow, ...]
    metrics: tuple[Estimate, ...]
    flags: tuple[FlagLine, ...]
    errata: tuple[Erratum, ...]
    counts: tuple[FactGroup, ...]
    hosts: tuple[HostRef, ...]
    attempts: tuple[TrialLine, ...]
    previous_id: str | None
    next_id: str | None
    samples: SampleSeries | None


def trial_content(page: TrialPage) -> TrialContent:
    """Return the content of a trial's page."""
    trial = page.trial
    estimates = [single(value) for value in page.values]
    copied = find(estimates, "copied_share")
    limiter = limiter_content(page.counts)
    return TrialContent(
        id=trial.id,
        status=trial.status,
        reason=trial.reason,
        excluded=trial.excluded,
        case_id=trial.case_id,
        case_name=case_name(page.factors),
        factors=page.factors,
        run_id=trial.run_id,
        experiment_name=page.experiment.name,
        experiment_version=page.experiment.id,
        question=page.experiment.question,
        repetition=trial.repetition,
        attempt=trial.attempt,
        block=trial.block,
        position=trial.position,
        started_at=trial.started_at,
        ended_at=trial.ended_at,
        window_ns=trial.window_ns,
        headline=_headline(estimates, is_link_limited=limiter is not None and limiter.is_link),
        copied=copied,
        copied_words=zero_copy_words(estimates),
        proof=_proof(str(page.factors.get("api", "")), copied),
        zero_copy=proof_content(page.counts),
        limiter=limiter,
        tool=tool_content(page.counts),
        counters=counter_tables(page.counts),
        hardware_reason=hardware_reason(page.counts),
        cpu=cpu_rows(estimates),
        metrics=others(estimates),
        flags=page.flags,
        errata=page.errata,
        counts=groups(page.counts),
        hosts=host_refs(page.environments.values()),
        attempts=page.attempts,
        previous_id=page.previous_id,
        next_id=page.next_id,
        samples=page.samples,
    )


def _headline(estimates: list[Estimate], *, is_link_limited: bool) -> tuple[Estimate, ...]:
    if is_exchange(estimates):
        return exchange_headline(estimates)
    throughput = find(estimates, "throughput")
    demand = (
        find(estimates, "service_demand_sender", HEADLINE_CPU_METHOD),
        find(estimates, "service_demand_receiver", HEADLINE_CPU_METHOD),
    )
    return (*demand, throughput) if is_link_limited else (throughput, *demand)


def host_refs(lines: Iterable[EnvironmentLine]) -> tuple[HostRef, ...]:
    """Return the hosts, each once, with the ends that used it."""
    found = {line.id: HostRef(line.id, line.ends, summary(line.facts)) for line in lines}
    return tuple(found.values())


def _proof(api: str, copied: Estimate) -> str:
    """Return what the kernel said about copying, never more than it said."""
    if copied.mean is None:
        return f"No proof of zero copy: {copied.reason or 'this trial measured none'}."
    words = copied_words(copied)
    if words == "copied":
        return (
            f"Not zero copy: the kernel reports that it copied the bytes of every {api}"
            " completion after all."
        )
    if words == "not copied":
        return f"Zero copy: no {api} completion says that the kernel copied its bytes."
    return f"Partly zero copy: {words} of the {api} completions, the kernel reports."
