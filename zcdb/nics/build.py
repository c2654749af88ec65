"""Regenerate the shipped catalogue from kernel sources and id files.

    python -m zcdb.nics.build --pci-ids /usr/share/misc/pci.ids --usb-ids /usr/share/misc/usb.ids \\
        /usr/src/linux-source-6.12.tar.xz=linux-source-6.12_6.12.117-1~deb12u1 ...

Each source is a tree or tarball, `=`, and the package it came from.  Claims
are written by people and are not touched.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from zcdb.errors import ZcdbError
from zcdb.nics.catalogue import DATA, load, read_tree, write_names, write_tree
from zcdb.nics.names import CARRIERS, names_for, read_ids
from zcdb.nics.scan import open_tree, scan_tree


def add_kernel(folder: Path, source: Path, package: str, cache: Path | None) -> Path:
    """Scan a source and write its file; return where it is."""
    with open_tree(source) as root:
        tree = scan_tree(root, cache=cache)
    path = folder / "kernels" / f"{tree.kernel}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tree(path, tree, package)
    return path


def add_names(folder: Path, pci_ids: Path, usb_ids: Path) -> None:
    """Write the names of every id that the folder's kernels have."""
    ids = [
        one
        for path in sorted((folder / "kernels").glob("*.json"))
        for driver in read_tree(path)[0].drivers.values()
        for one in driver.ids
    ]
    names: dict[str, str] = {}
    versions: dict[str, str] = {}
    for bus, path in (("pci", pci_ids), ("usb", usb_ids)):
        versions[f"{bus}.ids"], known = read_ids(path, bus)
        names |= names_for([*ids, *CARRIERS], known)
    write_names(folder / "names.json", names, versions)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m zcdb.nics.build", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("sources", nargs="*", metavar="TREE=PACKAGE")
    parser.add_argument("--folder", type=Path, default=DATA, help="data folder to write")
    parser.add_argument("--cache", type=Path, help="folder that remembers scanned units")
    parser.add_argument("--pci-ids", type=Path, default=Path("/usr/share/misc/pci.ids"))
    parser.add_argument("--usb-ids", type=Path, default=Path("/usr/share/misc/usb.ids"))
    options = parser.parse_args(arguments)
    try:
        for source in options.sources:
            path, _, package = source.rpartition("=")
            if not path:
                parser.error(f"{source}: write TREE=PACKAGE")
            print(add_kernel(options.folder, Path(path), package, options.cache))
        add_names(options.folder, options.pci_ids, options.usb_ids)
        catalogue = load(options.folder)
    except ZcdbError as error:
        print(f"Error: {error.message}", file=sys.stderr)
        return error.exit_code
    for comparison in catalogue.changes():
        for change in comparison.lost(catalogue.acknowledged):
            print(f"lost: {change.driver} {change.capability} in {change.new_kernel}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
