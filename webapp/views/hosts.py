"""/hosts, /hosts/<id>, /kernels and /kernels/<release>: where results come from."""

from __future__ import annotations

import re

from flask import Blueprint
from werkzeug.exceptions import BadRequest

from zcdb.store.queries import explore as exploring
from zcdb.store.queries import hosts as queries
from zcdb.webapp.data import database
from zcdb.webapp.errors import Missing
from zcdb.webapp.pages import Page, Table, add_page
from zcdb.webapp.present.hosts import (
    StateRow,
    host_content,
    hosts_content,
    kernel_content,
    kernels_content,
)

KERNEL_CASES = 50

_HOST = re.compile(r"[0-9a-f]{8,64}")

blueprint = Blueprint("hosts", __name__)


def hosts() -> Page:
    """Return the list of hosts."""
    content = hosts_content(queries.hosts(database()), queries.environments(database()))
    return Page(
        template="hosts.html",
        title="Hosts",
        description="The hosts that measured, by the salted hash of their name.",
        path="/hosts",
        content=content,
        table=Table(
            ("host", "summary", "states", "trials", "last_at"),
            [
                (
                    *(row.id, row.summary, row.states, row.trials),
                    row.last_at.isoformat() if row.last_at else None,
                )
                for row in content.hosts
            ],
        ),
    )


def host(host_id: str) -> Page:
    """Return the page of a host."""
    if _HOST.fullmatch(host_id) is None:
        raise BadRequest(
            f"{host_id!r} is not the id of a host, which is a hash in hexadecimal digits."
        )
    content = host_content(queries.host_page(database(), host_id))
    return Page(
        template="host.html",
        title=f"Host {host_id}",
        description=f"The states in which a host was met: {content.summary}.",
        path=f"/hosts/{host_id}",
        content=content,
        table=_states(content.states),
    )


def kernels() -> Page:
    """Return the list of kernels."""
    content = kernels_content(queries.kernels(database()))
    return Page(
        template="kernels.html",
        title="Kernels",
        description="The kernels that results are from, the newest release first.",
        path="/kernels",
        content=content,
        table=Table(("kernel", "cases"), [(row.release, row.cases) for row in content.kernels]),
    )


def kernel(release: str) -> Page:
    """Return the page of a kernel."""
    lines = queries.kernels(database())
    if release not in {line.release for line in lines}:
        raise Missing(
            f"No case of this database is of a kernel {release}.",
            back="/kernels",
            back_label="All kernels",
        )
    asked = exploring.Asked(
        filters={"sender_kernel": (release,), "twin": (0,)},
        words=(),
        rows="",
        columns="",
        metric="throughput",
        method="",
        limit=KERNEL_CASES,
    )
    content = kernel_content(
        release,
        lines,
        exploring.explore(database(), asked),
        queries.environments_of_kernel(database(), release),
    )
    return Page(
        template="kernel.html",
        title=f"Kernel {release}",
        description=f"What was measured on the kernel {release}.",
        path=f"/kernels/{release}",
        content=content,
        table=Table(
            ("case_id", "case", "metric", "method", "n", "mean", "low", "high"),
            [
                (
                    *(case.case_id, case.name, one.metric, one.method),
                    *(one.n, one.mean, one.low, one.high),
                )
                for case in content.cases
                for one in case.figures
            ],
        ),
    )


def _states(states: tuple[StateRow, ...]) -> Table:
    return Table(
        ("environment", "summary", "trials", "first_at", "last_at", "changed"),
        [
            (
                *(state.environment_id, state.summary, state.trials),
                state.first_at.isoformat() if state.first_at else None,
                state.last_at.isoformat() if state.last_at else None,
                " ".join(state.changed),
            )
            for state in states
        ],
    )


add_page(blueprint, "/hosts", hosts)
add_page(blueprint, "/hosts/<host_id>", host)
add_page(blueprint, "/kernels", kernels)
add_page(blueprint, "/kernels/<release>", kernel)
