"""The NIC pages: the table of drivers, and drivers side by side."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from zcdb.nics.advice import shipped_subjects, why_hidden
from zcdb.nics.capabilities import CAPABILITIES
from zcdb.nics.catalogue import Device, load
from zcdb.nics.matrix import STATES, Matrix, Row, State, matrix
from zcdb.nics.probe import ProbedClaim
from zcdb.nics.usecases import ATTACHED
from zcdb.webapp.present.nic_asked import Asked, Form, form, query_of
from zcdb.webapp.present.nic_cells import (
    GROUPS,
    CellView,
    cell_view,
    cells_of,
    driver_address,
    matrix_note,
    speed_words,
)

ROWS_SHOWN = 30
DEVICES_SHOWN = 12
PRODUCTS_SHOWN = 3
COMPARED_AT_MOST = 6

_ID = re.compile(r"(?:0x)?([0-9a-f]{4}):(?:0x)?([0-9a-f]{4})")


@dataclass(frozen=True, slots=True)
class Column:
    """A capability as a column or row of a table."""

    capability: str
    title: str
    why: str


@dataclass(frozen=True, slots=True)
class DriverRow:
    """A driver in a table.

    Attributes:
        more_products: how many have no room.
    """

    driver: str
    address: str
    description: str
    attached: str
    speed: str
    products: tuple[str, ...]
    more_products: int
    gone_in: str
    cells: tuple[CellView, ...]


@dataclass(frozen=True, slots=True)
class DeviceLink:
    """A device found by a search."""

    id: str
    address: str
    vendor: str
    name: str
    drivers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NicsContent:
    """All that /nics says.

    Attributes:
        show: the group of capabilities that are columns.
        total: drivers that fit; `hidden` do not.
        devices: found by the search, `devices_found` of them.
    """

    kernel: str
    source: str
    note: str
    search: str
    show: str
    groups: tuple[tuple[str, str], ...]
    columns: tuple[Column, ...]
    rows: tuple[DriverRow, ...]
    total: int
    hidden: int
    next_after: str | None
    next_address: str
    devices: tuple[DeviceLink, ...]
    devices_found: int
    states: Mapping[State, str]
    form: Form


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """A capability of the drivers compared, in their order."""

    column: Column
    cells: tuple[CellView, ...]
    differs: bool


@dataclass(frozen=True, slots=True)
class CompareContent:
    """All that /nics/compare says.

    Attributes:
        unknown: what was asked for and is in no kernel of the catalogue.
        absent: drivers that are not in this kernel.
    """

    kernel: str
    source: str
    wanted: tuple[str, ...]
    drivers: tuple[DriverRow, ...]
    rows: tuple[ComparedRow, ...]
    differing: int
    unknown: tuple[str, ...]
    absent: tuple[str, ...]
    choices: tuple[str, ...]


def columns_of(group: str) -> tuple[Column, ...]:
    """Return the capabilities of a group, in its order."""
    keys = CAPABILITIES if group == "all" else GROUPS[group][1]
    return tuple(
        Column(key, CAPABILITIES[key].title, CAPABILITIES[key].why)
        for key in keys
        if key in CAPABILITIES
    )


def driver_row(
    row: Row, columns: Sequence[Column], probes: Mapping[str, Sequence[ProbedClaim]]
) -> DriverRow:
    """Return a driver with its cells in the columns' order."""
    cells = cells_of(row, probes)
    name = row.driver.name
    return DriverRow(
        driver=name,
        address=driver_address(name),
        description=row.driver.description,
        attached=ATTACHED[row.attachment.attached],
        speed=speed_words(row.mbit),
        products=row.products[:PRODUCTS_SHOWN],
        more_products=max(0, len(row.products) - PRODUCTS_SHOWN),
        gone_in=row.gone_in,
        cells=tuple(cell_view(name, cells[column.capability]) for column in columns),
    )


@lru_cache(maxsize=1)
def devices() -> Mapping[str, Device]:
    """Return every device of the catalogue by id word, made once."""
    return load().devices()


def device_address(word: str) -> str:
    """Return the address of a device's page; "" for ids that are no two numbers."""
    parts = word.split(":")
    return f"/nics/devices/{parts[1]}:{parts[2]}" if parts[0] in ("pci", "usb") else ""


def device_link(device: Device) -> DeviceLink:
    """Return a device as a link."""
    return DeviceLink(
        device.id, device_address(device.id), device.vendor, device.name, device.drivers
    )


@lru_cache(maxsize=1)
def _device_texts() -> tuple[tuple[str, Device], ...]:
    """Return what a search looks through, in lower case, for each device with an address."""
    return tuple(
        (" ".join((word, one.vendor, one.name, *one.cards.values())).lower(), one)
        for word, one in devices().items()
        if device_address(word) and "*" not in word
    )


def found_devices(search: str) -> list[Device]:
    """Return the devices whose id, vendor, name or cards hold every word of a search."""
    match = _ID.search(search)
    words = [f"{match[1]}:{match[2]}"] if match else search.split()
    return [one for text, one in _device_texts() if all(word in text for word in words)]


def _matches(row: Row, words: Sequence[str], by_device: frozenset[str]) -> bool:
    driver = row.driver
    own = " ".join((driver.name, *driver.modules, *driver.aliases, driver.description)).lower()
    return driver.name in by_device or all(word in own for word in words)


def nics_content(
    state: Asked,
    probes: Mapping[str, Sequence[ProbedClaim]],
    *,
    search: str,
    show: str,
    after: str,
    stated: Sequence[tuple[str, str]],
) -> NicsContent:
    """Return the table of drivers that fit.

    Args:
        search: words of which all must be found, or a device's id.
        after: the driver after which the rows begin; "" is the first.
        stated: the parameters of this state, without `after`.
    """
    table = matrix(state.kernel)
    matching = found_devices(search.lower()) if search else []
    by_device = frozenset(name for device in matching for name in device.drivers)
    words = search.lower().split()
    fitting = [
        table.rows[subject.driver]
        for subject in shipped_subjects(state.kernel)
        if why_hidden(subject, state.filters) is None
        and (not search or _matches(table.rows[subject.driver], words, by_device))
    ]
    following = [row for row in fitting if row.driver.name > after]
    columns = columns_of(show)
    shown = following[:ROWS_SHOWN]
    next_after = shown[-1].driver.name if len(following) > len(shown) else None
    return NicsContent(
        kernel=state.kernel,
        source=matrix_note(table),
        note=state.note,
        search=search,
        show=show,
        groups=(*((word, title) for word, (title, _) in GROUPS.items()), ("all", "All")),
        columns=columns,
        rows=tuple(driver_row(row, columns, probes) for row in shown),
        total=len(fitting),
        hidden=len(table.rows) - len(fitting),
        next_after=next_after,
        next_address=f"/nics{query_of([*stated, ('after', next_after)])}" if next_after else "",
        devices=tuple(device_link(one) for one in matching[:DEVICES_SHOWN]),
        devices_found=len(matching),
        states=STATES,
        form=form(state),
    )


def drivers_of(word: str) -> tuple[str, ...]:
    """Return the drivers that a word of a comparison means: a driver's name, or a device's id."""
    if match := _ID.fullmatch(word.lower()):
        ids = (f"{bus}:{match[1]}:{match[2]}" for bus in ("pci", "usb"))
        found = [name for one in ids if one in devices() for name in devices()[one].drivers]
        return tuple(dict.fromkeys(found))
    name = load().find(word)
    return (name,) if name else ()


def compare_content(
    kernel: str, wanted: Sequence[str], probes: Mapping[str, Sequence[ProbedClaim]]
) -> CompareContent:
    """Return drivers side by side in one kernel."""
    table: Matrix = matrix(kernel)
    found = {word: drivers_of(word) for word in wanted}
    names = list(dict.fromkeys(name for drivers in found.values() for name in drivers))
    names = names[:COMPARED_AT_MOST]
    present = [name for name in names if name in table.rows]
    columns = columns_of("all")
    drivers = tuple(driver_row(table.rows[name], columns, probes) for name in present)
    rows = []
    for number, column in enumerate(columns):
        cells = tuple(driver.cells[number] for driver in drivers)
        rows.append(ComparedRow(column, cells, len({cell.state for cell in cells}) > 1))
    return CompareContent(
        kernel=kernel,
        source=matrix_note(table),
        wanted=tuple(wanted),
        drivers=drivers,
        rows=tuple(rows),
        differing=sum(row.differs for row in rows),
        unknown=tuple(word for word, drivers in found.items() if not drivers),
        absent=tuple(name for name in names if name not in table.rows),
        choices=tuple(table.rows),
    )
