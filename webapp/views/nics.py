"""/nics and below: what drivers and devices can do, side by side, and contradictions."""

from __future__ import annotations

import re

from flask import Blueprint, request
from markupsafe import Markup, escape
from werkzeug.exceptions import BadRequest

from zcdb.nics.catalogue import load
from zcdb.store.queries.nics import nic_cases, stored_claims
from zcdb.webapp.data import database
from zcdb.webapp.errors import Missing
from zcdb.webapp.pages import Page, Table, add_page
from zcdb.webapp.present.nic_asked import Asked, UnknownWord, asked, query_of
from zcdb.webapp.present.nic_cells import GROUPS, CellView, driver_address, probes_of
from zcdb.webapp.present.nic_conflicts import conflicts_content
from zcdb.webapp.present.nic_driver import (
    DriverContent,
    device_content,
    devices_of,
    driver_content,
)
from zcdb.webapp.present.nic_measured import names_of_driver, observations_of
from zcdb.webapp.present.nics import (
    COMPARED_AT_MOST,
    DriverRow,
    compare_content,
    nics_content,
)

LIST_PARAMETERS = ("q", "kernel", "bus", "speed", "upto", "medium", "must", "show", "after")
DEVICE = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")
CELL_COLUMNS = (
    "capability",
    "value",
    "since",
    "kernel",
    "default",
    "copies",
    "condition",
    "places",
)

blueprint = Blueprint("nics", __name__)


@blueprint.app_template_filter("breakable_path")
def breakable_path(place: str) -> Markup:
    """Return a place in a source that may wrap after its slashes and underscores."""
    return Markup(re.sub(r"(?<=[/_])(?=\w)", "<wbr>", str(escape(place))))  # noqa: S704


def what_was_asked() -> Asked:
    """Return what the address asks for; an unknown word is an error of the reader's."""
    try:
        return asked(request.args.to_dict(flat=False))
    except UnknownWord as error:
        raise BadRequest(str(error)) from error


def nics() -> Page:
    """Return the table of drivers."""
    state = what_was_asked()
    if state.is_historic:
        raise BadRequest(
            f"Linux {state.kernel} was not scanned: /buy?kernel={state.kernel} has what is known of"
            " the cards of 2001."
        )
    search = request.args.get("q", "").strip()
    show = request.args.get("show", "") or "overview"
    after = request.args.get("after", "")
    if show not in (*GROUPS, "all"):
        raise BadRequest(f"{show!r} is no group of columns; there are {', '.join(GROUPS)} and all.")
    probes = probes_of(stored_claims(database()))
    pairs = [*([("q", search)] if search else []), *_listed(state)]
    pairs += [("show", show)] if show != "overview" else []
    content = nics_content(state, probes, search=search, show=show, after=after, stated=pairs)
    return Page(
        template="nics.html",
        title="Network cards",
        description="What the kernel's source says that network cards can do, driver by driver.",
        path="/nics",
        content=content,
        table=_cells_table(content.rows),
        parameters=LIST_PARAMETERS,
        query=query_of([*pairs, *([("after", after)] if after else [])]),
    )


def _listed(state: Asked) -> list[tuple[str, str]]:
    """Return the stated filters that the table of drivers knows."""
    return [(name, value) for name, value in state.stated if name in LIST_PARAMETERS]


def _cells_table(rows: tuple[DriverRow, ...]) -> Table:
    return Table(
        ("driver", "description", "attached", "speed", *CELL_COLUMNS),
        [
            (row.driver, row.description, row.attached, row.speed, *_cell_values(cell))
            for row in rows
            for cell in row.cells
        ],
    )


def _cell_values(cell: CellView) -> tuple[str | bool, ...]:
    places = " ".join(place.place for place in cell.places)
    return (
        *(cell.capability, cell.word, cell.since, cell.kernel, cell.default, cell.copies),
        *(cell.condition, places),
    )


def driver(driver: str) -> Page:
    """Return the page of a driver."""
    content = _driver_content(driver)
    if content is None:
        raise Missing(
            f"No kernel of the catalogue ({', '.join(load().kernels)}) has a driver {driver!r}.",
            back="/nics",
            back_label="All drivers",
        )
    return Page(
        template="nic_driver.html",
        title=f"{driver}: what it can do",
        description=f"Every capability of the Linux driver {driver}, with file and line.",
        path=driver_address(driver),
        content=content,
        table=_driver_table((content,)),
    )


def _driver_content(driver: str) -> DriverContent | None:
    stored = stored_claims(database(), [driver])
    facts = load().driver(driver)
    names = names_of_driver(facts) if facts else {driver}
    observations = observations_of(nic_cases(database(), names))
    return driver_content(driver, stored, probes_of(stored), observations)


def _driver_table(contents: tuple[DriverContent, ...]) -> Table:
    return Table(
        ("driver", *CELL_COLUMNS),
        [
            (content.driver, *_cell_values(cell))
            for content in contents
            for group in content.groups
            for row in group.rows
            for cell in row.cells
        ],
    )


def device(device_id: str) -> Page:
    """Return the page of a device."""
    if DEVICE.fullmatch(device_id) is None:
        raise BadRequest(
            f"{device_id!r} is no vendor and device id; write both as four hexadecimal digits in"
            " lower case: 8086:1533."
        )
    names = sorted({name for one in devices_of(device_id) for name in one.drivers})
    stored = stored_claims(database(), [*names, f"pci:{device_id}", f"usb:{device_id}"])
    probes = probes_of(stored)
    facts = [one for name in names if (one := load().driver(name)) is not None]
    recorded = frozenset[str]().union(*map(names_of_driver, facts))
    observations = observations_of(nic_cases(database(), recorded))
    ids = (f"pci:{device_id}", f"usb:{device_id}")
    found = {
        name: driver_content(
            name, [one for one in stored if one.subject in (name, *ids)], probes, observations
        )
        for name in names
    }
    content = device_content(device_id, {name: one for name, one in found.items() if one})
    if content is None:
        raise Missing(
            f"No Ethernet driver of the catalogue claims the device {device_id}.",
            back="/nics",
            back_label="All drivers",
        )
    entry = content.entries[0]
    name = " ".join(filter(None, (entry.vendor, entry.name))) or device_id
    return Page(
        template="nic_device.html",
        title=name,
        description=f"What the drivers of {name} can do, with file and line.",
        path=f"/nics/devices/{device_id}",
        content=content,
        table=_driver_table(tuple(one for entry in content.entries for one in entry.drivers)),
    )


def compare() -> Page:
    """Return drivers side by side."""
    state = what_was_asked()
    wanted = [word.strip() for word in request.args.getlist("d") if word.strip()]
    wanted = list(dict.fromkeys(wanted))
    if len(wanted) > COMPARED_AT_MOST:
        raise BadRequest(f"At most {COMPARED_AT_MOST} cards fit side by side, not {len(wanted)}.")
    kernel = load().kernels[-1] if state.is_historic else state.kernel
    content = compare_content(kernel, wanted, probes_of(stored_claims(database())))
    pairs = [("d", word) for word in wanted]
    pairs += [(name, value) for name, value in state.stated if name == "kernel"]
    return Page(
        template="nic_compare.html",
        title="Cards side by side",
        description="What drivers can do, side by side, with what differs marked.",
        path="/nics/compare",
        content=content,
        table=_cells_table(content.drivers),
        parameters=("d", "kernel"),
        query=query_of(pairs),
    )


def conflicts() -> Page:
    """Return statements that contradict each other."""
    content = conflicts_content(stored_claims(database()))
    rows = [
        (
            *(one.driver, one.capability, "contradicts", one.one.value, one.other.value),
            f"{one.one.place} / {one.other.place}",
        )
        for one in (*content.machines, *content.people)
    ]
    rows += [
        (
            *(one.one.nic or one.other.nic, "; ".join(one.one.about), one.kind),
            *(one.one.value, one.other.value, f"{one.one.place} / {one.other.place}"),
        )
        for one in content.disputes
    ]
    return Page(
        template="nic_conflicts.html",
        title="Contradictions",
        description="Statements about network cards that contradict each other.",
        path="/nics/conflicts",
        content=content,
        table=Table(("subject", "about", "relation", "one_says", "other_says", "places"), rows),
    )


add_page(blueprint, "/nics", nics)
add_page(blueprint, "/nics/drivers/<driver>", driver)
add_page(blueprint, "/nics/devices/<device_id>", device)
add_page(blueprint, "/nics/compare", compare)
add_page(blueprint, "/nics/conflicts", conflicts)
