"""Mutated outputs: nothing raises, no number is taken that is not in the text.

A bounded slice runs here; ZCDB_FUZZ_MUTANTS asks for more, and
`benchmarks/importers.py --fuzz 100000` is the whole of it.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

MUTANTS = int(os.environ.get("ZCDB_FUZZ_MUTANTS", "600"))
SLICES = 4


def load_fuzzer() -> ModuleType:
    path = Path(__file__).parent.parent / "benchmarks" / "importers.py"
    spec = importlib.util.spec_from_file_location("benchmark_importers", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FUZZER = load_fuzzer()


@pytest.mark.parametrize("part", range(SLICES))
def test_mutants_raise_nothing_and_give_no_number_of_their_own(part):
    files = [path.read_bytes() for path in FUZZER.sources()]

    problems = [
        problem
        for data in FUZZER.mutants(files, MUTANTS // SLICES, seed=FUZZER.SEED + part)
        for problem in FUZZER.problems_of(data)
    ]

    assert problems == []


def test_every_number_of_every_source_is_in_its_text():
    problems = {
        path.name: found
        for path in FUZZER.sources()
        if (found := FUZZER.problems_of(path.read_bytes()))
    }

    assert problems == {}


def test_the_same_seed_gives_the_same_mutants():
    files = [b"a\nb\nc\n", b"1 2 3"]

    assert list(FUZZER.mutants(files, 50)) == list(FUZZER.mutants(files, 50))
