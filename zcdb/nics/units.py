"""From modules to scan units: which modules are one driver, and whose helpers it calls.

Modules of one folder that use each other's exported symbols are one driver
(a core and its PF and VF parts).  In folders that hold many unrelated drivers
such a module is a helper library instead, and so it is across folders.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from zcdb.nics.kbuild import Module, modules

MIXED_FOLDERS = (
    "drivers/net",
    "drivers/net/usb",
    "drivers/net/ethernet/8390",
    "drivers/net/ethernet/ti",
    "drivers/net/ethernet/intel/libeth",
    "drivers/net/ethernet/intel/libie",
    "drivers/net/ethernet",
)
_EXPORT = re.compile(rb"EXPORT_SYMBOL\w*\s*\(\s*(\w+)")
_WORD = re.compile(rb"[A-Za-z_]\w{2,}")
_REGISTERS = re.compile(rb"\b(?:register_netdev(?:ice)?|devm_register_netdev)\b")
_ENTRY = re.compile(
    rb"\b(?:module_\w*driver|module_init|builtin_\w*driver|device_initcall|module_mhi_driver)\s*\("
)
_USEFUL = re.compile(rb"NETIF_F_|register_netdev|page_pool_create|sent_queue|xdp_features|ethtool")
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]+"([^"\n]+)"', re.MULTILINE)
_SHARED_INCLUDE = re.compile(rb"^[ \t]*#[ \t]*include[ \t]+<((?:linux|net)/[^>\n]+)>", re.MULTILINE)


@dataclass(slots=True)
class Unit:
    """One driver to scan.

    Attributes:
        modules: the main one first.
        files: its .c files, then the headers of its folders.
        libraries: files of the helper libraries it calls.
    """

    modules: list[Module]
    files: list[str]
    libraries: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The main module's name."""
        return self.modules[0].name


@dataclass(slots=True)
class _Words:
    exports: set[bytes]
    registers: bool
    has_entry: bool
    is_useful: bool
    has_ids: bool
    is_link: bool
    used: set[bytes] = field(default_factory=set)


def _read(root: Path, path: str) -> bytes:
    return (root / path).read_bytes()


def units(root: Path) -> list[Unit]:
    """Return the drivers of a tree that register a net_device, sorted by name."""
    found = modules(root)
    words = _words(root, found)
    groups = _groups(found, words)
    exporters = {
        symbol: module
        for module in found
        for path in module.sources
        for symbol in words[path].exports
    }
    result = []
    for group in groups:
        sources = list(dict.fromkeys(path for module in group for path in module.sources))
        libraries = _libraries(group, words, exporters)
        if not _is_driver(sources, libraries, words):
            continue
        main = sorted(group, key=lambda m: _rank(m, words))
        headers = _headers(root, sources)
        headers += _own_shared_headers(root, main, [*sources, *headers])
        library_files = [*libraries, *_headers(root, libraries)]
        result.append(
            Unit(
                main, [*sources, *headers], [path for path in library_files if path not in headers]
            )
        )
    return sorted(result, key=lambda unit: (unit.name, unit.files[0]))


def _is_driver(sources: list[str], libraries: list[str], words: Mapping[str, _Words]) -> bool:
    """Return whether a group of modules brings net_devices of its own into being."""
    if not any(words[path].has_entry for path in sources):
        return False
    if any(words[path].registers for path in sources):
        is_library = str(PurePosixPath(sources[0]).parent) in MIXED_FOLDERS and any(
            words[path].exports for path in sources
        )
        # usbnet registers what its minidrivers describe, and is no driver itself.
        return (
            not is_library
            or any(words[path].has_ids for path in sources)
            or not any(b"usbnet_probe" in words[path].exports for path in sources)
        )
    return any(
        words[path].registers and str(PurePosixPath(path).parent) in MIXED_FOLDERS
        for path in libraries
    )


def _words(root: Path, found: Iterable[Module]) -> dict[str, _Words]:
    """Read every source once; keep of its words only those that somebody exports."""
    paths = sorted({path for module in found for path in module.sources})
    words: dict[str, _Words] = {}
    exported: set[bytes] = set()
    for path in paths:
        data = _read(root, path)
        exports = set(_EXPORT.findall(data))
        exported |= exports
        words[path] = _Words(
            exports,
            bool(_REGISTERS.search(data)),
            bool(_ENTRY.search(data)),
            bool(_USEFUL.search(data)),
            b"MODULE_DEVICE_TABLE" in data,
            b"struct rtnl_link_ops" in data,
        )
    for path in paths:
        words[path].used = exported.intersection(_WORD.findall(_read(root, path)))
    return words


def _groups(found: list[Module], words: Mapping[str, _Words]) -> list[list[Module]]:
    """Join modules of a folder that share sources or use each other's exports."""
    parent = {id(module): id(module) for module in found}

    def top(key: int) -> int:
        while parent[key] != key:
            key = parent[key]
        return key

    by_folder: dict[str, list[Module]] = defaultdict(list)
    for module in found:
        if module.folder not in MIXED_FOLDERS:
            by_folder[module.folder].append(module)
    for folder in by_folder.values():
        for one in folder:
            exports = set().union(*(words[path].exports for path in one.sources))
            for two in folder:
                shares = set(one.sources) & set(two.sources)
                uses = exports and any(exports & words[path].used for path in two.sources)
                if one is not two and (shares or uses):
                    parent[top(id(one))] = top(id(two))
    groups: dict[int, list[Module]] = defaultdict(list)
    for module in found:
        groups[top(id(module))].append(module)
    return list(groups.values())


def _libraries(
    group: list[Module], words: Mapping[str, _Words], exporters: Mapping[bytes, Module]
) -> list[str]:
    own = {path for module in group for path in module.sources}
    libraries: dict[str, None] = {}
    pending = [path for module in group for path in module.sources]
    while pending:
        path = pending.pop()
        for symbol in words[path].used:
            module = exporters[symbol]
            if any(words[source].is_link for source in module.sources):
                continue  # a whole driver of its own (macsec, macvlan), not a helper
            for source in module.sources:
                if source not in own and source not in libraries:
                    libraries[source] = None
                    pending.append(source)
    return sorted(path for path in libraries if words[path].is_useful)


def _rank(module: Module, words: Mapping[str, _Words]) -> tuple[int, int, int]:
    """Order modules of a driver: those that register net_devices first, then the larger."""
    registers = any(words[path].registers for path in module.sources)
    entry = any(words[path].has_entry for path in module.sources)
    return (not registers, not entry, -len(module.sources))


def _headers(root: Path, sources: Iterable[str]) -> list[str]:
    """Return the files that the sources include with quotes, and what those include in turn."""
    found: dict[str, None] = {}
    pending = list(sources)
    folders = {str(PurePosixPath(path).parent) for path in sources}
    seen = set(pending)
    while pending:
        path = pending.pop()
        folder = PurePosixPath(path).parent
        for name in _INCLUDE.findall(_read(root, path)):
            for base in (str(folder), *sorted(folders)):
                candidate = _normal(f"{base}/{name.decode()}")
                if candidate in seen:
                    break
                if candidate.startswith("drivers/") and (root / candidate).is_file():
                    seen.add(candidate)
                    found[candidate] = None
                    pending.append(candidate)
                    break
    return sorted(found)


def _own_shared_headers(root: Path, group: list[Module], files: Iterable[str]) -> list[str]:
    """Return the headers under include/ that are named after the driver or its folder."""
    names = {PurePosixPath(module.folder).name for module in group} | {m.name for m in group}
    names |= {PurePosixPath(module.folder).parent.name for module in group}
    names -= {"net", "ethernet", "usb", "core", "drivers"}
    found: set[str] = set()
    for path in files:
        for name in _SHARED_INCLUDE.findall(_read(root, path)):
            parts = PurePosixPath(name.decode()).with_suffix("").parts
            candidate = f"include/{name.decode()}"
            if names.intersection(parts[1:]) and (root / candidate).is_file():
                found.add(candidate)
    return sorted(found)


def _normal(path: str) -> str:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if parts:
                parts.pop()
        elif part not in (".", ""):
            parts.append(part)
    return "/".join(parts)


def content_key(root: Path, unit: Unit, salt: str) -> str:
    """Return the hash of everything a unit's facts depend on."""
    digest = hashlib.sha256(salt.encode())
    for path in [*unit.files, "|", *unit.libraries]:
        digest.update(path.encode() + b"\0")
        if path != "|":
            digest.update(hashlib.sha256(_read(root, path)).digest())
    return digest.hexdigest()
