"""Hosts by the salted hash of their name, kernels by their release, and all environments.

A host is not a row: it is what environments share whose facts name the same
hash.  There is one environment for each state a host was met in, so their
number follows changes of machines, never trials.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from zcdb.factors import ABSENT, UNSTATED
from zcdb.store.models import EnvironmentRow
from zcdb.store.queries.common import NotFound
from zcdb.store.queries.environments import runs_at, uses
from zcdb.store.queries.index import case_index
from zcdb.store.queries.lines import run_lines
from zcdb.store.results import Facts, RunLine
from zcdb.store.session import Database

ENVIRONMENTS_READ = 2_000
"""The newest environments that a list of hosts looks at."""

KERNEL_FACTORS = ("sender_kernel", "receiver_kernel")


@dataclass(frozen=True, slots=True)
class HostState:
    """An environment of a host, with when it measured."""

    environment_id: str
    facts: Facts
    trials: int
    first_at: datetime | None
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class Host:
    """A host and the states it was met in, the newest first."""

    id: str
    states: tuple[HostState, ...]


@dataclass(frozen=True, slots=True)
class HostPage:
    """A host with the runs that had an end there."""

    host: Host
    runs: tuple[RunLine, ...]


@dataclass(frozen=True, slots=True)
class KernelLine:
    """A kernel, with how many cases had it at either end."""

    release: str
    cases: int


def host_id(facts: Facts) -> str | None:
    """Return the salted hash of a host's name; None where the facts do not have it."""
    found = facts.get("host") or facts.get("hostname_hash")
    return found if isinstance(found, str) else None


def hosts(db: Database) -> tuple[Host, ...]:
    """Return all hosts, the one that measured last first; two statements."""
    with db.reading() as session:
        rows = _newest(session)
        states = _states(session, rows)
    by_host: dict[str, list[HostState]] = defaultdict(list)
    for state in states:
        if (name := host_id(state.facts)) is not None:
            by_host[name].append(state)
    return tuple(Host(name, tuple(found)) for name, found in by_host.items())


def host_page(db: Database, wanted: str) -> HostPage:
    """Return a host; a fixed number of statements.

    Raises:
        NotFound: if no environment names it.
    """
    with db.reading() as session:
        rows = [row for row in _newest(session) if host_id(json.loads(row.facts_json)) == wanted]
        if not rows:
            raise NotFound("host", wanted, db.name)
        runs = runs_at(row.id for row in rows)
        return HostPage(
            Host(wanted, tuple(_states(session, rows))), tuple(run_lines(session, runs))
        )


def environments(db: Database) -> tuple[HostState, ...]:
    """Return the newest environments, the one met last first; two statements."""
    with db.reading() as session:
        return tuple(_states(session, _newest(session)))


def _newest(session: Session) -> list[EnvironmentRow]:
    return list(
        session.scalars(
            select(EnvironmentRow).order_by(EnvironmentRow.id.desc()).limit(ENVIRONMENTS_READ)
        )
    )


def _states(session: Session, rows: list[EnvironmentRow]) -> list[HostState]:
    """Return environments with when they measured, the one that measured last first."""
    found = uses(session, [row.id for row in rows])
    states = [
        HostState(row.public_id, json.loads(row.facts_json), *found.get(row.id, (0, None, None)))
        for row in rows
    ]
    # Stable: those that never measured stay in the order they were met.
    return sorted(states, key=lambda one: -one.last_at.timestamp() if one.last_at else 0.0)


def kernels(db: Database) -> tuple[KernelLine, ...]:
    """Return every kernel that cases name, the one of most cases first; one statement."""
    with db.reading() as session:
        index = case_index(db, session)
    everything = index.mask({"twin": (0,)})
    counts: dict[str, int] = {}
    for name in KERNEL_FACTORS:
        for value in index.columns[name].values if name in index.columns else ():
            release = str(value)
            if release in (ABSENT, UNSTATED) or release in counts:
                continue
            has = index.fitting(KERNEL_FACTORS[0], (value,)) | index.fitting(
                KERNEL_FACTORS[1], (value,)
            )
            counts[release] = int((has & everything).sum())
    ordered = sorted(counts, key=lambda release: (-counts[release], release))
    return tuple(KernelLine(release, counts[release]) for release in ordered if counts[release])


def environments_of_kernel(db: Database, release: str) -> tuple[HostState, ...]:
    """Return the environments that ran a kernel; two statements."""
    with db.reading() as session:
        rows = [
            row for row in _newest(session) if kernel_release(json.loads(row.facts_json)) == release
        ]
        return tuple(_states(session, rows))


def kernel_release(facts: Facts) -> str | None:
    """Return the release of the kernel that an environment ran; None where it is not known."""
    kernel = facts.get("kernel")
    found = kernel.get("release") if isinstance(kernel, dict) else facts.get("kernel_release")
    return found if isinstance(found, str) else None
