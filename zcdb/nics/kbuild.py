"""From Kbuild makefiles to modules: which files make which kernel module.

Folders do not say it (one folder may hold ten drivers, one driver three
folders), so `obj-$(CONFIG_X) += m.o` and `m-y/m-objs/m-$(CONFIG_Y) += a.o`
are followed as Kbuild follows them.  Every option counts as set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

SKIPPED_FOLDERS = frozenset(
    """arcnet caif can dsa fddi hamradio hippi ieee802154 ipa mctp mdio ovpn pcs phy plip ppp pse-pd
    slip wan wireguard wireless wwan""".split()  # noqa: SIM905
)
"""Folders of drivers/net without an Ethernet card: radio, buses, switches, PHYs, tunnels."""

_ASSIGNMENT = re.compile(r"^\s*((?:\$\(\w+:m=y\)|[\w.$()/-])+?)\s*(?:\+=|:=|=)\s*(.*)$")
_OPTION = re.compile(r"\$\((CONFIG_\w+)(?::m=y)?\)")
_SOURCE_SUFFIX = ".o"


@dataclass(slots=True)
class Module:
    """One kernel module.

    Attributes:
        name: as in the makefile, without ".o".
        folder: path of its makefile's folder in the tree.
        config: the Kconfig symbol that builds it; "" where it is always built.
        sources: paths of its .c files in the tree, in makefile order.
    """

    name: str
    folder: str
    config: str
    sources: list[str] = field(default_factory=list)


def _logical_lines(text: str) -> Iterator[str]:
    for line in text.replace("\\\n", " ").splitlines():
        yield line.split("#", 1)[0]


def _assignments(text: str) -> Iterator[tuple[str, list[str]]]:
    for line in _logical_lines(text):
        match = _ASSIGNMENT.match(line)
        if match:
            yield match[1], match[2].split()


class _Folder:
    """One makefile: what it builds, and the parts of each composite module."""

    def __init__(self, root: Path, folder: PurePosixPath) -> None:
        self.folder = folder
        self.built: list[tuple[str, str]] = []  # (word, config)
        self.parts: dict[str, list[str]] = {}
        makefile = root / folder / "Makefile"
        if not makefile.is_file():
            makefile = root / folder / "Kbuild"
        if not makefile.is_file():
            return
        for target, words in _assignments(makefile.read_text(encoding="utf-8", errors="replace")):
            option = _OPTION.search(target)
            if target.startswith("obj-"):
                self.built += [(word, option[1] if option else "") for word in words]
                continue
            name = re.fullmatch(r"([\w.-]+?)-(?:y|m|objs|\$\(\w+(?::m=y)?\))", target)
            if name:
                self.parts.setdefault(name[1], []).extend(words)

    def sources(self, name: str, root: Path) -> list[str]:
        """Return the .c files of module or composite object `name`."""
        if name not in self.parts:
            path = self.folder / f"{name}.c"
            return [str(path)] if (root / path).is_file() else []
        found: list[str] = []
        for word in self.parts[name]:
            if not word.endswith(_SOURCE_SUFFIX):
                continue
            part = word.removesuffix(_SOURCE_SUFFIX)
            path = PurePosixPath(_normal(str(self.folder / f"{part}.c")))
            if (root / path).is_file():
                found.append(str(path))
            elif part != name:
                found += self.sources(part, root)
        return found


def _normal(path: str) -> str:
    """Return `path` without "..": makefiles name files of sister folders so."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def modules(root: Path, folder: str = "drivers/net") -> list[Module]:
    """Return every module built under `folder`, skipped folders left out.

    Args:
        root: top of the kernel tree.
    """
    found: dict[tuple[str, str], Module] = {}
    _walk(root, PurePosixPath(folder), "", found, set())
    return [module for module in found.values() if module.sources]


def _walk(
    root: Path,
    folder: PurePosixPath,
    config: str,
    found: dict[tuple[str, str], Module],
    seen: set[PurePosixPath],
) -> None:
    if folder in seen:
        return
    seen.add(folder)
    makefile = _Folder(root, folder)
    for word, option in makefile.built:
        if word.endswith("/"):
            child = PurePosixPath(_normal(str(folder / word.rstrip("/"))))
            if str(folder) != "drivers/net" or child.name not in SKIPPED_FOLDERS:
                _walk(root, child, option or config, found, seen)
        elif word.endswith(_SOURCE_SUFFIX):
            name = word.removesuffix(_SOURCE_SUFFIX)
            key = (str(folder), name)
            if key not in found:
                sources = list(dict.fromkeys(makefile.sources(name, root)))
                found[key] = Module(name, str(folder), option or config, sources)
