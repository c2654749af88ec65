"""What the NIC pages share: cells with their words and evidence, speeds, probes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from zcdb.nics.capabilities import CAPABILITIES
from zcdb.nics.catalogue import load
from zcdb.nics.claims import version_key
from zcdb.nics.matrix import STATES, Cell, Matrix, Row, row_with_probes
from zcdb.nics.probe import ProbedClaim
from zcdb.store.queries.nics import StoredClaim

GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "overview": (
        "Overview",
        (
            *("sg", "ip_csum", "hw_csum", "tso", "rxcsum", "tls_tx", "xdp", "xsk_zc"),
            *("tcp_data_split", "queue_mgmt", "hwts_tx", "mq_alloc", "sriov"),
        ),
    ),
    "transmit": (
        "Transmit",
        (
            *("sg", "ip_csum", "ipv6_csum", "hw_csum", "tso", "tso6", "tso_ecn", "gso_partial"),
            *("uso", "tls_tx", "macsec", "netmem_tx", "highdma"),
        ),
    ),
    "receive": (
        "Receive",
        (
            *("rxcsum", "lro", "gro_hw", "tcp_data_split", "queue_mgmt", "page_pool", "rxhash"),
            *("ntuple", "tls_rx"),
        ),
    ),
    "packets": ("XDP and packets", ("xdp", "xsk_zc", "hw_tc", "page_pool", "rss_indir", "ntuple")),
    "time": ("Time stamps", ("hwts_tx", "hwts_rx")),
    "scale": (
        "Queues and interrupts",
        (
            *("mq_alloc", "rss_indir", "rxhash", "sriov", "ring_set", "bql", "coal_rx_usecs"),
            *("coal_tx_usecs", "coal_adaptive_rx", "loopback"),
        ),
    ),
}
"""Word of an address -> title and capabilities, for tables and sections of pages."""

_MARKS = {
    "yes": "yes",
    "some": "some",
    "no": "no",
    "not_applicable": "n/a",
    "unknown": "unknown",
    "conflict": "conflict",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A line that is evidence.

    Attributes:
        place: "path:line", or "document:line".
        stated: kernel version or date.
    """

    place: str
    stated: str


@dataclass(frozen=True, slots=True)
class CellView:
    """A cell as pages show it.

    Attributes:
        mark: the word in a narrow table; `word` is the whole one.
        since: "since 6.12", "since 6.1 or before"; "" if it is not there.
        says: everything in a sentence, for a tooltip and for readers of the screen.
        address: of the claims behind it.
    """

    capability: str
    title: str
    state: str
    word: str
    mark: str
    since: str
    kernel: str
    default: str
    copies: bool
    condition: str
    why: str
    level: str
    says: str
    places: tuple[Place, ...]
    address: str


def short_kernel(kernel: str) -> str:
    """Return the series of a kernel: 6.12.117 is "6.12"; old ones stay whole."""
    return kernel if version_key(kernel) < (3,) else ".".join(kernel.split(".")[:2])


def driver_address(driver: str, capability: str = "") -> str:
    """Return the address of a driver's page, at a capability."""
    return f"/nics/drivers/{driver}" + (f"#{capability}" if capability else "")


def since_words(cell: Cell) -> str:
    """Return since when a capability is there, as far as scanned kernels tell."""
    if not cell.since:
        return ""
    series = short_kernel(cell.since)
    return f"since {series}" if cell.is_first_seen else f"since {series} or before"


def cell_view(driver: str, cell: Cell) -> CellView:
    """Return a cell as pages show it."""
    says = [STATES[cell.state], since_words(cell)]
    if cell.copies:
        says.append("but the driver copies every packet")
    says += [cell.condition, f"default {cell.default}" if cell.default else "", cell.why]
    places = [Place(f"{one.path}:{one.line}", f"Linux {cell.kernel}") for one in cell.evidence]
    if cell.copying:
        places.append(Place(cell.copying.evidence, f"Linux {cell.copying.kernel}"))
    return CellView(
        capability=cell.capability,
        title=CAPABILITIES[cell.capability].title,
        state="copies" if cell.copies else cell.state,
        word=f"{STATES[cell.state]}, but copied" if cell.copies else STATES[cell.state],
        mark="copies" if cell.copies else _MARKS[cell.state],
        since=since_words(cell),
        kernel=cell.kernel,
        default=cell.default or "",
        copies=cell.copies,
        condition=cell.condition,
        why=cell.copying.why if cell.copying else cell.why,
        level=cell.level,
        says="; ".join(filter(None, says)),
        places=tuple(places),
        address=driver_address(driver, cell.capability),
    )


def speed_words(mbit: Sequence[int]) -> str:
    """Return the fastest speed for people: "2.5 Gbit/s", or "not known"."""
    if not mbit:
        return "not known"
    return f"{mbit[-1] / 1000:g} Gbit/s" if mbit[-1] >= 1000 else f"{mbit[-1]} Mbit/s"


def probed_claims(claims: Iterable[StoredClaim]) -> list[ProbedClaim]:
    """Return what machines showed about drivers, as the catalogue reads it."""
    return [
        ProbedClaim(
            subject_kind="driver",
            subject=one.subject,
            driver=one.subject,
            capability=one.capability,
            value="yes" if one.value == "yes" else "no",
            state=one.state,
            kernel=one.kernel,
            place=one.place,
            date=one.dated,
            environment=one.environment_id or "",
        )
        for one in claims
        if (one.source_kind, one.subject_kind) == ("probed", "driver")
        and one.capability in CAPABILITIES
        and one.value in ("yes", "no")
    ]


def probes_of(claims: Iterable[StoredClaim]) -> dict[str, list[ProbedClaim]]:
    """Return driver of the catalogue -> what machines showed about it."""
    catalogue = load()
    found: dict[str, list[ProbedClaim]] = {}
    for one in probed_claims(claims):
        found.setdefault(catalogue.find(one.driver) or one.driver, []).append(one)
    return found


def cells_of(row: Row, probes: Mapping[str, Sequence[ProbedClaim]]) -> Mapping[str, Cell]:
    """Return a driver's cells with what machines reported laid over them."""
    mine = probes.get(row.driver.name, ())
    return row_with_probes(row, mine).cells if mine else row.cells


def matrix_note(matrix: Matrix) -> str:
    """Return which source a matrix was read from."""
    return f"Linux {matrix.kernel}, {matrix.package}"
