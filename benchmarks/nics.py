"""Accuracy and cost of the NIC scanner against verified facts.

    python benchmarks/nics.py TREE --gold GOLD.json
    ZCDB_NICS_GOLD=GOLD.json python benchmarks/nics.py TREE --half development

Prints precision and recall of presence (yes or some against no), how often
the three-valued answer and the default are exact, every disagreement, and
what the scan cost.  Exits with 1 if a target is missed.

`--modules FOLDER` compares the ids with the aliases of a built kernel's
modules, a second source for them (the folder where a linux-image package was
unpacked).

`--half` judges one half of the gold's drivers, drawn with a fixed seed: rules
were written while looking at the development half only.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import random
import re
import resource
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from zcdb.nics.capabilities import CAPABILITIES
from zcdb.nics.claims import series
from zcdb.nics.facts import DriverFacts, Fact, TreeFacts, id_to_text
from zcdb.nics.scan import open_tree, scan_tree

HALF_SEED = 20261201
TARGETS = {"precision": 0.995, "recall": 0.995, "exact": 0.97}
PRESENT = ("yes", "some")


def half_of(names: list[str], half: str) -> list[str]:
    """Return the drivers of one half; "both" is all of them."""
    shuffled = sorted(names)
    random.Random(HALF_SEED).shuffle(shuffled)
    middle = len(shuffled) // 2
    return {"development": shuffled[:middle], "held-out": shuffled[middle:]}.get(half, shuffled)


def gold_for(data: dict[str, Any], kernel: str) -> dict[str, dict[str, Any]]:
    """Return the verified facts of a kernel by driver.

    The file has every capability of some drivers in one kernel, and the facts
    about zero copy of a newer one.
    """
    newer = data.get("zero_copy_7_3", {})
    if series(newer.get("kernel", "0")) != series(kernel):
        return {one["driver"]: one for one in data["drivers"]}
    files = {one["driver"]: one["files"] for one in data["drivers"]}
    found: dict[str, dict[str, Any]] = {}
    for fact in newer["facts"]:
        name = fact["driver"]
        if fact["feature"] in CAPABILITIES:
            one = {"driver": name, "files": files.get(name, ()), "facts": {}}
            found.setdefault(name, one)["facts"][fact["feature"]] = fact
    return found


def driver_of(tree: TreeFacts, gold: dict[str, Any]) -> DriverFacts | None:
    """Return the scanned driver that a gold entry is about: by name, else by its files."""

    def plain(name: str) -> str:
        return name.replace("-", "_")

    wanted = plain(gold["driver"])
    drivers = tree.drivers.values()
    tests = (
        lambda driver: wanted in map(plain, (driver.name, *driver.modules)),
        lambda driver: set(gold["files"]) & set(driver.sources),
        lambda driver: wanted in map(plain, driver.aliases),
    )
    return next((driver for test in tests for driver in drivers if test(driver)), None)


class Tally:
    """Counts agreements and keeps disagreements."""

    def __init__(self) -> None:
        self.values: Counter[tuple[str, str]] = Counter()
        self.defaults: Counter[bool] = Counter()
        self.lines: list[str] = []

    def add(self, driver: str, key: str, gold: dict[str, Any], fact: Fact) -> None:
        if gold["value"] is None:
            return
        self.values[gold["value"], fact.value] += 1
        if gold["value"] != fact.value:
            where = ", ".join(f"{one.path}:{one.line}" for one in fact.evidence[:2])
            self.lines.append(
                f"{driver:14} {key:16} gold {gold['value']:4} ({gold.get('condition', '-')});"
                f" scan {fact.value} ({', '.join(fact.conditions[:4]) or '-'}) {where}"
            )
        if gold.get("default") and fact.value in PRESENT:
            self.defaults[gold["default"] == fact.default] += 1

    def rates(self) -> dict[str, float]:
        """Return precision, recall and the share of exact answers, each 0 to 1."""
        found = {pair: count for pair, count in self.values.items() if pair[1] in PRESENT}
        right = sum(count for pair, count in found.items() if pair[0] in PRESENT)
        present = sum(count for pair, count in self.values.items() if pair[0] in PRESENT)
        exact = sum(count for pair, count in self.values.items() if pair[0] == pair[1])
        return {
            "precision": right / max(sum(found.values()), 1),
            "recall": right / max(present, 1),
            "exact": exact / max(self.values.total(), 1),
        }

    def false_noes(self) -> int:
        """Return how many capabilities were called *no* although the gold has them."""
        return sum(self.values[value, "no"] for value in PRESENT)


def report(tally: Tally, drivers: int) -> bool:
    """Print the table; return whether every target is met."""
    rates = tally.rates()
    print(f"{drivers} drivers, {tally.values.total()} facts")
    print("gold \\ scan      yes   some     no  unknown")
    for gold in ("yes", "some", "no"):
        row = [tally.values[gold, scan] for scan in ("yes", "some", "no", "unknown")]
        print(f"{gold:11}" + "".join(f"{count:7}" for count in row[:3]) + f"{row[3]:9}")
    for name, target in TARGETS.items():
        print(f"{name:10} {rates[name]:.4f}  (target {target})")
    print(f"no, though the gold says yes or some: {tally.false_noes()}  (target 0)")
    total = tally.defaults.total()
    print(f"default on/off/fixed: {tally.defaults[True]} of {total} exact")
    print("\n".join(["disagreements:", *tally.lines]))
    return tally.false_noes() == 0 and all(rates[n] >= target for n, target in TARGETS.items())


_ALIAS = re.compile(
    rb"\0alias=(?:pci:v([0-9A-F]{8}|\*)d([0-9A-F]{8}|\*)sv([0-9A-F]{8}|\*)sd([0-9A-F]{8}|\*)"
    rb"|usb:v([0-9A-F]{4}|\*)p([0-9A-F]{4}|\*)d)"
)


def aliases(module: Path) -> set[str]:
    """Return the PCI and USB ids that a module file claims, as id words."""
    data = module.read_bytes()
    data = lzma.decompress(data) if module.suffix == ".xz" else data
    found = set()
    for match in _ALIAS.finditer(data):
        bus, words = ("usb", match.groups()[4:]) if match[5] else ("pci", match.groups()[:4])
        numbers = ["*" if word == b"*" else f"{int(word, 16):04x}" for word in words]
        found.add(":".join([bus, *(numbers[:2] if numbers[2:] == ["*", "*"] else numbers)]))
    return found


def report_ids(tree: TreeFacts, folder: Path) -> None:
    """Print how the scanned ids differ from those of a built kernel's modules."""
    files = {
        path.name.split(".")[0].replace("-", "_"): path
        for path in folder.rglob("*.ko*")
        if "drivers/net" in str(path)
    }
    total = missing = 0
    print("ids that a built module claims and the scan has not:")
    for driver in tree.drivers.values():
        names = [name.replace("-", "_") for name in driver.modules]
        built = set().union(*(aliases(files[name]) for name in names if name in files))
        lost = built - {id_to_text(one) for one in driver.ids}
        total, missing = total + len(built), missing + len(lost)
        if lost:
            print(f"{driver.name:14} {' '.join(sorted(lost)[:6])}")
    print(f"{total - missing} of {total} ids of built modules were read in the source")


def cpu_seconds() -> float:
    """Return the CPU time of this process and the ended ones it started."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def peak_mb() -> float:
    """Return the largest memory of this process or one it started, in MB."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return max(one.ru_maxrss for one in used) / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("tree", type=Path, help="kernel tree or tarball of the gold's version")
    parser.add_argument(
        "--gold",
        type=Path,
        default=os.environ.get("ZCDB_NICS_GOLD"),
        help="JSON file of verified facts; default: $ZCDB_NICS_GOLD",
    )
    parser.add_argument("--modules", type=Path, help="unpacked kernel image: compare the ids")
    parser.add_argument("--half", choices=("development", "held-out", "both"), default="both")
    parser.add_argument("--cache", type=Path, help="folder that remembers scanned units")
    parser.add_argument("--jobs", type=int, help="processes at once; default: all CPUs")
    options = parser.parse_args()
    if options.gold is None:
        parser.error("no gold: give --gold FILE or set ZCDB_NICS_GOLD")

    start_s, start_cpu_s = time.monotonic(), cpu_seconds()
    with open_tree(options.tree) as root:
        tree = scan_tree(root, cache=options.cache, jobs=options.jobs)
    wall_s, cpu_s = time.monotonic() - start_s, cpu_seconds() - start_cpu_s

    gold = gold_for(json.loads(Path(options.gold).read_text()), tree.kernel)
    tally = Tally()
    names = half_of(list(gold), options.half)
    for name in sorted(names):
        driver = driver_of(tree, gold[name])
        if driver is None:
            print(f"{name}: not found by the scan")
            continue
        for key, fact in gold[name]["facts"].items():
            tally.add(name, key, fact, driver.facts[key])
    met = report(tally, len(names))
    if options.modules is not None:
        report_ids(tree, options.modules)
    print(
        f"Linux {tree.kernel}: {len(tree.drivers)} drivers,"
        f" {cpu_s:.0f} CPU-s, {wall_s:.0f} s, {peak_mb():.0f} MB in the largest process"
    )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
