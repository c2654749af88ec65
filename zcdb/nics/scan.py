"""Scan a kernel tree: every driver, in parallel, each remembered by its content.

A tree is a folder or a tarball (only what is needed is unpacked).  A unit
whose files did not change since a scan with the same scanner is read from the
cache folder instead of being scanned again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

from zcdb.errors import UsageError
from zcdb.nics.driver import DriverScan, core_macros
from zcdb.nics.facts import DriverFacts, TreeFacts, driver_from_json, driver_to_json
from zcdb.nics.idtables import description, driver_ids, id_macros
from zcdb.nics.units import Unit, content_key, units

NEEDED = ("drivers/net/", "include/linux/", "include/net/", "Makefile")
_VERSION_PART = re.compile(r"^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION)[ \t]*=[ \t]*(\S*)", re.M)
_BUS = re.compile(r"(\w+)_driver")
_DRIVER_NAME = re.compile(r'\.name\s*=\s*(?:"([^"]+)"|(\w+))')

_SCANNER_MODULES = """backstop callbacks capabilities conditions driver expressions facts flags
    frames idtables interpreter kbuild nodes preprocess queues scan source symbols units
    values""".split()  # noqa: SIM905

Progress = Callable[[int, int, str], None]
"""Called with (units done, units in all, name of the one just done)."""


@contextmanager
def open_tree(path: Path) -> Iterator[Path]:
    """Yield the top of a kernel tree; a tarball is unpacked to a temporary folder meanwhile.

    Raises:
        UsageError: if there is no kernel tree at `path`.
    """
    if path.is_dir():
        yield _checked(path, path)
        return
    if not path.is_file():
        raise UsageError(
            f"{path}: there is no such folder or file",
            hint="give a kernel tree, or a tarball such as linux-source-6.12.tar.xz",
        )
    with tempfile.TemporaryDirectory(prefix="zcdb-kernel-") as folder:
        _unpack(path, Path(folder))
        yield _checked(Path(folder), path)


def _unpack(tarball: Path, folder: Path) -> None:
    """Unpack what a scan needs, without the archive's top folder."""
    try:
        with tarfile.open(tarball, "r|*") as archive:
            for member in archive:
                _, _, inside = member.name.removeprefix("./").partition("/")
                if member.isreg() and inside.startswith(NEEDED):
                    member.name = inside
                    archive.extract(member, folder, filter="data")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise UsageError(f"{tarball}: cannot be read as a tarball: {error}") from error


def _checked(folder: Path, shown: Path) -> Path:
    for needed in ("Makefile", "drivers/net/Makefile"):
        if not (folder / needed).is_file():
            raise UsageError(
                f"{shown}: {needed} is missing, so this is no Linux kernel tree",
                hint="give the top folder of the tree; drivers/net, include and Makefile suffice",
            )
    return folder


def kernel_version(root: Path) -> str:
    """Return the version that a tree's Makefile states, such as "6.12.117".

    Raises:
        UsageError: if it states none.
    """
    text = (root / "Makefile").read_text(encoding="utf-8", errors="replace")
    parts: dict[str, str] = dict(_VERSION_PART.findall(text[:4000]))
    if not parts.get("VERSION") or not parts.get("PATCHLEVEL"):
        raise UsageError(
            f"{root / 'Makefile'}: no VERSION and PATCHLEVEL", hint="name the version with --kernel"
        )
    numbers = ".".join(
        parts[key] for key in ("VERSION", "PATCHLEVEL", "SUBLEVEL") if parts.get(key)
    )
    return numbers + parts.get("EXTRAVERSION", "")


@lru_cache(maxsize=1)
def scanner_version() -> str:
    """Return a hash of the scanner's own code: another scanner, other facts."""
    digest = hashlib.sha256()
    for name in _SCANNER_MODULES:
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return digest.hexdigest()[:16]


def scan_tree(
    root: Path,
    *,
    kernel: str | None = None,
    cache: Path | None = None,
    jobs: int | None = None,
    only: str | None = None,
    progress: Progress | None = None,
) -> TreeFacts:
    """Return the facts of every driver of a tree.

    Args:
        root: top of the tree.
        kernel: its version; None reads the Makefile.
        cache: folder that remembers units by content; None remembers nothing.
        jobs: processes at once; None takes one per CPU this process may use.
        only: name of the one driver to scan.
        progress: called after each unit.

    Raises:
        UsageError: if `only` names no driver of the tree.
    """
    todo = [unit for unit in units(root) if only in (None, unit.name)]
    if only is not None and not todo:
        raise UsageError(
            f"{root}: no driver named {only!r}", hint="run the scan without --driver for the list"
        )
    jobs = jobs or len(os.sched_getaffinity(0))
    # The largest first, so that no process is left alone with one at the end.
    order = sorted(todo, key=lambda unit: -len(unit.files))
    found: list[DriverFacts] = []
    for number, facts in enumerate(_scanned(root, cache, order, jobs), start=1):
        found.append(facts)
        if progress is not None:
            progress(number, len(order), facts.name)
    drivers = {facts.name: facts for facts in sorted(found, key=lambda facts: facts.name)}
    return TreeFacts(kernel or kernel_version(root), drivers)


def _scanned(root: Path, cache: Path | None, order: list[Unit], jobs: int) -> Iterator[DriverFacts]:
    """Yield the facts of units as they are done, in this process or in several."""
    if jobs == 1:
        worker = _Worker(root, cache)
        yield from map(worker.scan, order)
        return
    with ProcessPoolExecutor(
        min(jobs, max(len(order), 1)),
        mp_context=get_context("spawn"),
        initializer=_start,
        initargs=(str(root), str(cache) if cache else ""),
    ) as pool:
        yield from pool.map(_scan_unit, order)


class _Worker:
    """What one process needs for every unit of a tree."""

    def __init__(self, root: Path, cache: Path | None) -> None:
        self.root = root
        self.cache = cache
        self.core = core_macros(root)
        header = root / "include/linux/netdevice.h"
        self.has_xdp_features = not header.is_file() or "xdp_features" in header.read_text(
            encoding="utf-8", errors="replace"
        )
        self.ids = {macro.name: macro for macro in id_macros(root)}
        core = "".join(f"{macro.name} {macro.body}\n" for macro in self.core)
        self.salt = hashlib.sha256(
            (f"{scanner_version()} {self.has_xdp_features}" + core).encode()
        ).hexdigest()

    def scan(self, unit: Unit) -> DriverFacts:
        if self.cache is None:
            return self._facts(unit)
        path = self.cache / f"{content_key(self.root, unit, self.salt)}.json"
        if path.is_file():
            return driver_from_json(json.loads(path.read_text(encoding="utf-8")))
        facts = self._facts(unit)
        self.cache.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(driver_to_json(facts)), encoding="utf-8")
        part.replace(path)
        return facts

    def _facts(self, unit: Unit) -> DriverFacts:
        texts = [(path, self._text(path), False) for path in unit.files]
        texts += [(path, self._text(path), True) for path in unit.libraries]
        scan = DriverScan(texts, self.core, has_xdp_features=self.has_xdp_features)
        ids = driver_ids(scan.index, self.ids, self.root)
        return DriverFacts(
            name=unit.name,
            modules=tuple(module.name for module in unit.modules),
            sources=tuple(path for path in unit.files if path.endswith(".c")),
            aliases=_aliases(unit, scan),
            config=unit.modules[0].config,
            description=description(scan.index),
            folder=unit.modules[0].folder,
            buses=_buses(scan),
            ids=tuple(ids.found),
            unresolved_ids=ids.unresolved,
            facts=scan.facts(),
        )

    def _text(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8", errors="replace")


_worker: _Worker | None = None


def _start(root: str, cache: str) -> None:
    global _worker
    _worker = _Worker(Path(root), Path(cache) if cache else None)


def _scan_unit(unit: Unit) -> DriverFacts:
    assert _worker is not None  # noqa: S101
    return _worker.scan(unit)


def _buses(scan: DriverScan) -> tuple[str, ...]:
    """Return the buses that the unit registers drivers on, "virtual" where it makes links."""
    structs = {table.struct for table in scan.index.tables if not table.is_library}
    found = {match[1] for struct in structs if (match := _BUS.fullmatch(struct))}
    found -= {"device", "notifier", "mdio", "phy", "genl", "auxiliary"}
    if "rtnl_link_ops" in structs and not found:
        found.add("virtual")
    return tuple(sorted(found))


def _aliases(unit: Unit, scan: DriverScan) -> tuple[str, ...]:
    """Return other names of a driver: its folder, and the names it registers under."""
    folder = Path(unit.modules[0].folder)
    # drivers/net/ethernet/<vendor>/<driver>: a vendor's folder names no driver.
    names = {folder.name} if len(folder.parts) > 4 else set()
    for table in scan.index.tables:
        if table.is_library or not _BUS.fullmatch(table.struct):
            continue
        match = _DRIVER_NAME.search(table.text)
        if match and match[1]:
            names.add(match[1])
        elif match and (macro := scan.index.macros.get(match[2])) is not None:
            names.add(macro.body.strip('"'))
    return tuple(sorted(name for name in names if name != unit.name and len(name) < 40))
