"""The pages of hosts, of kernels, and of what differs between two environments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from zcdb.ids import Json
from zcdb.report.facts import changed_facts, flat, shown
from zcdb.store.queries.explore import Exploration
from zcdb.store.queries.hosts import Host, HostPage, HostState, KernelLine, host_id
from zcdb.store.results import EnvironmentPage, RunLine
from zcdb.webapp.labels import case_name
from zcdb.webapp.present.environment import summary
from zcdb.webapp.present.measured import Estimate, estimate, find
from zcdb.webapp.present.question_list import release_order

STATES_SHOWN = 50
KERNEL_FIGURES = (
    ("throughput", ""),
    ("service_demand_sender", "soak"),
    ("service_demand_receiver", "soak"),
)


@dataclass(frozen=True, slots=True)
class StateRow:
    """A state that a host was met in.

    Attributes:
        changed: facts that differ from the state before it.
        diff_address: of the page that shows them; "" for the oldest.
    """

    environment_id: str
    summary: str
    trials: int
    first_at: datetime | None
    last_at: datetime | None
    changed: tuple[str, ...]
    diff_address: str


@dataclass(frozen=True, slots=True)
class HostRow:
    """A host in the list."""

    id: str
    summary: str
    states: int
    trials: int
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class HostsContent:
    """The list of hosts; `nameless` environments do not say which host they are of."""

    hosts: tuple[HostRow, ...]
    nameless: tuple[StateRow, ...]


@dataclass(frozen=True, slots=True)
class HostContent:
    """All that a host's page says."""

    id: str
    summary: str
    trials: int
    states: tuple[StateRow, ...]
    runs: tuple[RunLine, ...]


@dataclass(frozen=True, slots=True)
class FactChange:
    """A fact that two environments do not share."""

    name: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class EnvironmentChoice:
    """An environment that can be chosen."""

    id: str
    shown: str


@dataclass(frozen=True, slots=True)
class DiffContent:
    """All that the page of a difference says; without two environments only the form.

    Attributes:
        same: facts that both have alike.
    """

    a: EnvironmentChoice | None
    b: EnvironmentChoice | None
    is_same_host: bool | None
    changes: tuple[FactChange, ...]
    same: tuple[tuple[str, str], ...]
    choices: tuple[EnvironmentChoice, ...]


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A kernel in the list."""

    release: str
    cases: int


@dataclass(frozen=True, slots=True)
class KernelsContent:
    """The list of kernels, the newest release first."""

    kernels: tuple[KernelRow, ...]


@dataclass(frozen=True, slots=True)
class KernelCase:
    """A case on a kernel."""

    case_id: str
    name: str
    figures: tuple[Estimate, ...]


@dataclass(frozen=True, slots=True)
class KernelContent:
    """All that a kernel's page says.

    Attributes:
        before, after: its neighbours among the kernels of this database; None at the ends.
    """

    release: str
    cases_total: int
    cases: tuple[KernelCase, ...]
    apis: tuple[tuple[str, int], ...]
    states: tuple[StateRow, ...]
    before: str | None
    after: str | None


def hosts_content(hosts: Sequence[Host], environments: Sequence[HostState]) -> HostsContent:
    """Return the list of hosts."""
    return HostsContent(
        tuple(
            HostRow(
                host.id,
                summary(host.states[0].facts),
                len(host.states),
                sum(state.trials for state in host.states),
                host.states[0].last_at,
            )
            for host in hosts
        ),
        tuple(_state_rows([one for one in environments if host_id(one.facts) is None])),
    )


def host_content(page: HostPage) -> HostContent:
    """Return the content of a host's page."""
    states = page.host.states
    return HostContent(
        page.host.id,
        summary(states[0].facts),
        sum(state.trials for state in states),
        tuple(_state_rows(states)[:STATES_SHOWN]),
        page.runs,
    )


def _state_rows(states: Sequence[HostState]) -> list[StateRow]:
    """Return states, the newest first, each with what changed since the one before it."""
    rows = []
    for place, state in enumerate(states):
        older = states[place + 1] if place + 1 < len(states) else None
        is_same = older is not None and host_id(older.facts) == host_id(state.facts) is not None
        changes = _changes(older, state) if older is not None and is_same else ()
        rows.append(
            StateRow(
                state.environment_id,
                summary(state.facts),
                state.trials,
                state.first_at,
                state.last_at,
                tuple(change.name for change in changes),
                f"/diff?a={older.environment_id}&b={state.environment_id}"
                if older is not None and is_same
                else "",
            )
        )
    return rows


def _changes(first: HostState, second: HostState) -> tuple[FactChange, ...]:
    found = changed_facts({"baseline": (first.facts,), "candidate": (second.facts,)})
    return tuple(FactChange(*change) for change in found)


def diff_content(
    a: EnvironmentPage | None, b: EnvironmentPage | None, choices: Sequence[HostState]
) -> DiffContent:
    """Return the content of the page of a difference."""
    offered = tuple(
        EnvironmentChoice(one.environment_id, f"{summary(one.facts)} ({one.environment_id[:8]})")
        for one in choices
    )
    if a is None or b is None:
        return DiffContent(_choice(a), _choice(b), None, (), (), offered)
    changes = changed_facts({"baseline": (a.facts,), "candidate": (b.facts,)})
    differing = {name for name, _, _ in changes}
    hosts = (host_id(a.facts), host_id(b.facts))
    return DiffContent(
        _choice(a),
        _choice(b),
        None if None in hosts else hosts[0] == hosts[1],
        tuple(FactChange(*change) for change in changes),
        tuple((name, _short(value)) for name, value in flat(a.facts) if name not in differing),
        offered,
    )


def _short(value: Json) -> str:
    text = shown(value)
    return text if len(text) < 200 else f"{text[:200]}…"


def _choice(page: EnvironmentPage | None) -> EnvironmentChoice | None:
    return None if page is None else EnvironmentChoice(page.id, summary(page.facts))


def kernels_content(kernels: Sequence[KernelLine]) -> KernelsContent:
    """Return the list of kernels."""
    ordered = sorted(kernels, key=lambda one: release_order(one.release), reverse=True)
    return KernelsContent(tuple(KernelRow(one.release, one.cases) for one in ordered))


def kernel_content(
    release: str,
    kernels: Sequence[KernelLine],
    found: Exploration,
    states: Sequence[HostState],
) -> KernelContent:
    """Return the content of a kernel's page."""
    ordered = sorted((one.release for one in kernels), key=release_order)
    place = ordered.index(release)
    apis = next((facet.values for facet in found.facets if facet.factor == "api"), ())
    return KernelContent(
        release,
        found.matching,
        tuple(
            KernelCase(
                case.case_id,
                case_name(case.factors),
                tuple(
                    find([estimate(one) for one in case.statistics], metric, method)
                    for metric, method in KERNEL_FIGURES
                ),
            )
            for case in found.cases
        ),
        tuple((str(one.value), one.cases) for one in apis if one.cases),
        tuple(_state_rows(states)[:STATES_SHOWN]),
        ordered[place - 1] if place else None,
        ordered[place + 1] if place + 1 < len(ordered) else None,
    )
