"""The catalogue as shipped: scans of several kernels, names of devices, claims.

`load()` reads the data files of this package and checks every word of them;
`write_tree` and `write_names` write them, one fact a line, so that a change
of one fact is a change of one line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from zcdb.errors import UsageError, ZcdbError
from zcdb.nics.capabilities import CAPABILITIES
from zcdb.nics.claims import Claim, Document, check_together, read_claims
from zcdb.nics.compare import Comparison, Since, compare, in_order, since
from zcdb.nics.facts import (
    DeviceId,
    DriverFacts,
    Evidence,
    Fact,
    TreeFacts,
    id_from_text,
    id_to_text,
)

DATA = Path(__file__).parent / "data"
FORMAT = 1
_VALUES = {"yes": "y", "some": "s", "unknown": "u"}
_WORDS = {letter: word for word, letter in _VALUES.items()}
_NO = Fact("no")
_DEFAULTS = frozenset(("on", "off", "fixed"))
_ACKNOWLEDGEMENT = frozenset(("driver", "capability", "kernel", "reason", "date"))
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class CatalogueError(ZcdbError):
    """A data file of the catalogue breaks a rule."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that some driver claims.

    Attributes:
        id: as in `id_to_text`.
        vendor, name: from pci.ids or usb.ids; "" if they do not have it.
        cards: subsystem id word -> name of the card.
        drivers: names of the drivers that claim it.
    """

    id: str
    vendor: str
    name: str
    cards: Mapping[str, str]
    drivers: tuple[str, ...]


@dataclass(frozen=True)
class Catalogue:
    """Everything that is known about network cards without looking at one.

    Attributes:
        trees: scans, oldest kernel first.
        packages: kernel version -> package its source came from.
        names: id word -> name.
        names_versions: "pci.ids" and "usb.ids" -> their versions.
        acknowledged: (driver, capability, newer kernel) whose disappearance a person explained.
    """

    trees: tuple[TreeFacts, ...]
    packages: Mapping[str, str]
    names: Mapping[str, str]
    names_versions: Mapping[str, str]
    documents: Mapping[str, Document]
    claims: tuple[Claim, ...]
    acknowledged: frozenset[tuple[str, str, str]]

    @property
    def kernels(self) -> tuple[str, ...]:
        """The scanned versions, oldest first."""
        return tuple(tree.kernel for tree in self.trees)

    @property
    def driver_names(self) -> tuple[str, ...]:
        """Every driver of any scanned kernel."""
        return tuple(sorted({name for tree in self.trees for name in tree.drivers}))

    def driver(self, name: str, kernel: str | None = None) -> DriverFacts | None:
        """Return a driver in one kernel, or in the newest that has it; None if there is none."""
        for tree in reversed(self.trees):
            if name in tree.drivers and kernel in (None, tree.kernel):
                return tree.drivers[name]
        return None

    def tree(self, kernel: str) -> TreeFacts:
        """Return the scan of a kernel.

        Raises:
            KeyError: if it was not scanned.
        """
        return {tree.kernel: tree for tree in self.trees}[kernel]

    def named(self, name: str, kernel: str | None = None) -> DriverFacts:
        """Return the driver that a machine calls `name`, in one kernel or the newest that has it.

        Raises:
            UsageError: if there is none; names the nearest.
        """
        found = self.find(name)
        if found is None:
            near = get_close_matches(name, self.driver_names, n=3)
            raise UsageError(
                f"the catalogue has no driver {name!r}",
                hint=f"did you mean {', '.join(near)}?" if near else "'zcdb nic scan' lists them.",
            )
        facts = self.driver(found, kernel)
        if facts is None:
            raise UsageError(
                f"Linux {kernel} has no driver {found}",
                hint=f"it is in {', '.join(self.seen(found))}",
            )
        return facts

    def find(self, name: str) -> str | None:
        """Return the driver that a machine calls `name` (`ethtool -i`, lsmod); None if unknown."""
        wanted = name.replace("-", "_").lower()
        for tree in reversed(self.trees):
            for by in ("name", "modules", "aliases"):
                for driver in tree.drivers.values():
                    known = (driver.name,) if by == "name" else getattr(driver, by)
                    if wanted in (one.replace("-", "_").lower() for one in known):
                        return driver.name
        return None

    def seen(self, name: str) -> tuple[str, ...]:
        """Return the kernels that have a driver."""
        return tuple(tree.kernel for tree in self.trees if name in tree.drivers)

    def since(self, driver: str, capability: str) -> Since | None:
        """Return since which scanned kernel a driver has a capability."""
        return since(self.trees, driver, capability)

    def changes(self) -> list[Comparison]:
        """Return what differs between neighbouring kernels."""
        return [compare(old, new) for old, new in zip(self.trees, self.trees[1:], strict=False)]

    def claims_about(self, driver: str) -> list[Claim]:
        """Return the claims that name a driver."""
        return [claim for claim in self.claims if driver in claim.drivers]

    @cached_property
    def _drivers_by_id(self) -> dict[str, tuple[str, ...]]:
        drivers: dict[str, dict[str, None]] = {}
        for tree in self.trees:
            for driver in tree.drivers.values():
                for one in driver.ids:
                    drivers.setdefault(id_to_text(one), {})[driver.name] = None
        return {word: tuple(names) for word, names in sorted(drivers.items())}

    def drivers_of(self, device: str) -> tuple[str, ...]:
        """Return the drivers of any scanned kernel that claim a device by its id word."""
        return self._drivers_by_id.get(device, ())

    def devices(self) -> dict[str, Device]:
        """Return every device of the newest kernel that knows it, by id word."""
        cards: dict[str, dict[str, str]] = {}
        for word, name in self.names.items():
            if word.count(":") == 4:
                bus, vendor, device, sub, card = word.split(":")
                cards.setdefault(f"{bus}:{vendor}:{device}", {})[f"{sub}:{card}"] = name
        return {
            word: Device(
                word,
                self.names.get(":".join(word.split(":")[:2]), ""),
                self.names.get(word, self.names.get(":".join(word.split(":")[:3]), "")),
                cards.get(word, {}),
                found,
            )
            for word, found in self._drivers_by_id.items()
        }


def load(folder: Path = DATA) -> Catalogue:
    """Return the catalogue of a data folder; read once and again only when a file changed.

    Raises:
        CatalogueError: if a file cannot be read or has a word that no registry knows.
        ClaimError: if a claims file breaks a rule.
    """
    files = [folder / "names.json", folder / "acknowledged.json"]
    files += [*(folder / "kernels").glob("*.json"), *(folder / "claims").glob("*.toml")]
    stamps = ((str(path), path.stat().st_mtime_ns) for path in files if path.is_file())
    return _load(folder, tuple(sorted(stamps)))


@lru_cache(maxsize=2)
def _load(folder: Path, stamps: tuple[tuple[str, int], ...]) -> Catalogue:
    trees, packages = [], {}
    for path in sorted((folder / "kernels").glob("*.json")):
        tree, package = read_tree(path)
        trees.append(tree)
        packages[tree.kernel] = package
    names_file = _json(folder / "names.json") if (folder / "names.json").is_file() else {}
    documents: dict[str, Document] = {}
    claims: list[Claim] = []
    for path in sorted((folder / "claims").glob("*.toml")):
        more, found = read_claims(path)
        documents |= more
        claims += found
    check_together(claims)
    return Catalogue(
        trees=tuple(in_order(trees)),
        packages=packages,
        names=names_file.get("names", {}),
        names_versions=names_file.get("versions", {}),
        documents=documents,
        claims=tuple(claims),
        acknowledged=_acknowledged(folder / "acknowledged.json"),
    )


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CatalogueError(f"{path}: {error}") from error


def _acknowledged(path: Path) -> frozenset[tuple[str, str, str]]:
    """Return the explained disappearances; each needs a reason and a date."""
    if not path.is_file():
        return frozenset()
    found = set()
    for entry in _json(path):
        missing = _ACKNOWLEDGEMENT - entry.keys()
        if missing:
            raise CatalogueError(f"{path}: {entry} lacks {', '.join(sorted(missing))}")
        unknown = sorted(entry.keys() - _ACKNOWLEDGEMENT)
        if unknown:
            raise CatalogueError(f"{path}: {entry['driver']}: unknown key {unknown[0]!r}")
        if not _DAY.fullmatch(entry["date"]) or not entry["reason"]:
            raise CatalogueError(f"{path}: {entry['driver']}: needs a reason and an ISO day")
        _check_capability(path, entry["driver"], entry["capability"])
        found.add((entry["driver"], entry["capability"], entry["kernel"]))
    return frozenset(found)


# -- kernels/<version>.json ------------------------------------------------------------------------


def write_tree(path: Path, tree: TreeFacts, package: str) -> None:
    """Write a scan: JSON with a line for each fact, *no* facts as a list of keys.

    Args:
        package: the package and version that the source came from.
    """
    head = {"format": FORMAT, "kernel": tree.kernel, "package": package}
    lines = ["{", *(f"{_dump(key)}:{_dump(value)}," for key, value in head.items()), '"drivers":{']
    blocks = [_driver_lines(driver) for driver in tree.drivers.values()]
    for number, block in enumerate(blocks):
        block[-1] += "" if number == len(blocks) - 1 else ","
        lines += block
    path.write_text("\n".join([*lines, "}}"]) + "\n", encoding="utf-8")


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _driver_lines(driver: DriverFacts) -> list[str]:
    present = {key: fact for key, fact in driver.facts.items() if fact.value != "no"}
    noes = [key for key, fact in driver.facts.items() if fact.value == "no"]
    about = {
        "modules": driver.modules,
        "sources": [_short(driver, path) for path in driver.sources],
        "aliases": driver.aliases,
        "config": driver.config,
        "description": driver.description,
        "folder": driver.folder,
        "buses": driver.buses,
        "ids": [id_to_text(one) for one in driver.ids],
        "unresolved_ids": driver.unresolved_ids,
        "no": noes,
    }
    lines = [f"{_dump(driver.name)}:{{", *(f" {_dump(k)}:{_dump(v)}," for k, v in about.items())]
    lines.append(' "facts":{')
    facts = [f"  {_dump(key)}:{_dump(_fact_row(driver, fact))}" for key, fact in present.items()]
    return [*lines, *(f"{line}," for line in facts[:-1]), *facts[-1:], " }}"]


def _short(driver: DriverFacts, path: str) -> str:
    """Return a path within the driver's folder, or from the top of the tree with a slash."""
    inside = path.removeprefix(f"{driver.folder}/")
    return inside if inside != path else f"/{path}"


def _long(folder: str, path: str) -> str:
    return path[1:] if path.startswith("/") else f"{folder}/{path}"


def _fact_row(driver: DriverFacts, fact: Fact) -> list[object]:
    """[value, default, places, conditions, their class, copies, note], the empty end left out."""
    places = [f"{_short(driver, one.path)}:{one.line}#{one.line_hash}" for one in fact.evidence]
    row: list[object] = [
        _VALUES[fact.value],
        fact.default or "",
        " ".join(places),
        " ".join(fact.conditions),
        fact.condition_class,
        int(fact.copies),
        fact.note,
    ]
    while row and not row[-1]:
        row.pop()
    return row


def read_tree(path: Path) -> tuple[TreeFacts, str]:
    """Return the scan in a file and the package its source came from.

    Raises:
        CatalogueError: if the file breaks the format; names file, driver and word.
    """
    data = _json(path)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise CatalogueError(
            f"{path}: is not a catalogue file of format {FORMAT}",
            hint="regenerate it: python -m zcdb.nics.build --help",
        )
    drivers = {name: _driver(path, name, one) for name, one in data["drivers"].items()}
    return TreeFacts(data["kernel"], drivers), data["package"]


def _driver(path: Path, name: str, data: Mapping[str, Any]) -> DriverFacts:
    for key in [*data["no"], *data["facts"]]:
        _check_capability(path, name, key)
    missing = CAPABILITIES.keys() - data["facts"].keys() - set(data["no"])
    if missing:
        raise CatalogueError(f"{path}: driver {name}: nothing about {sorted(missing)[0]!r}")
    found = {key: _fact(path, name, data["folder"], row) for key, row in data["facts"].items()}
    ids: list[DeviceId] = [id_from_text(text) for text in data["ids"]]
    return DriverFacts(
        name=name,
        modules=tuple(data["modules"]),
        sources=tuple(_long(data["folder"], path) for path in data["sources"]),
        aliases=tuple(data["aliases"]),
        config=data["config"],
        description=data["description"],
        folder=data["folder"],
        buses=tuple(data["buses"]),
        ids=tuple(ids),
        unresolved_ids=data["unresolved_ids"],
        facts={key: found.get(key, _NO) for key in CAPABILITIES},
    )


def _fact(path: Path, driver: str, folder: str, row: list[Any]) -> Fact:
    value, default, places, conditions, kind, copies, note = (
        row + ["", "", "", "", "", 0, ""][len(row) :]
    )
    if value not in _WORDS or default not in {"", *_DEFAULTS}:
        raise CatalogueError(f"{path}: driver {driver}: unknown word in {row!r}")
    return Fact(
        value=_WORDS[value],  # type: ignore[arg-type]
        default=default or None,
        conditions=tuple(conditions.split()),
        condition_class=kind,
        copies=bool(copies),
        evidence=tuple(_evidence(folder, place) for place in places.split()),
        note=note,
    )


def _evidence(folder: str, place: str) -> Evidence:
    where, _, line_hash = place.partition("#")
    name, _, line = where.rpartition(":")
    return Evidence(_long(folder, name), int(line), line_hash)


def _check_capability(path: Path, driver: str, key: str) -> None:
    if key not in CAPABILITIES:
        raise CatalogueError(
            f"{path}: driver {driver}: unknown capability {key!r}",
            hint="the registry is zcdb.nics.capabilities",
        )


# -- names.json -----------------------------------------------------------------------------------


def write_names(path: Path, names: Mapping[str, str], versions: Mapping[str, str]) -> None:
    """Write the names of devices, a line each."""
    body = ",\n".join(f"{_dump(word)}:{_dump(name)}" for word, name in sorted(names.items()))
    head = f'{{"format":{FORMAT},"versions":{_dump(dict(versions))},\n"names":{{\n'
    path.write_text(f"{head}{body}\n}}}}\n", encoding="utf-8")
