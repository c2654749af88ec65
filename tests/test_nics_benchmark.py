"""The benchmark's judgement, on facts made up for it."""

from __future__ import annotations

import importlib.util
import json
import sys

import pytest
from nics_support import write_tree

from zcdb.nics.facts import Fact


@pytest.fixture(scope="module")
def nics(request):
    path = request.config.rootpath / "benchmarks" / "nics.py"
    spec = importlib.util.spec_from_file_location("benchmarks_nics", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_precision_and_recall_are_about_presence_and_exactness_about_the_value(nics):
    tally = nics.Tally()
    for gold, scan in [
        ("yes", "yes"),
        ("some", "yes"),
        ("no", "no"),
        ("no", "some"),
        ("yes", "unknown"),
        ("some", "some"),
        ("no", "unknown"),
        ("yes", "no"),
    ]:
        tally.add("card", "sg", {"value": gold}, Fact(scan))

    assert tally.rates() == {"precision": 3 / 4, "recall": 3 / 5, "exact": 3 / 8}
    assert tally.false_noes() == 1
    assert len(tally.lines) == 5


def test_facts_that_nobody_verified_do_not_count(nics):
    tally = nics.Tally()

    tally.add("card", "sg", {"value": None}, Fact("yes"))

    assert tally.values.total() == 0


def test_the_halves_are_drawn_the_same_way_every_time(nics):
    names = [f"driver{number}" for number in range(10)]

    one, two = nics.half_of(names, "development"), nics.half_of(names[::-1], "held-out")

    assert not set(one) & set(two)
    assert sorted(one + two) == sorted(names)


def test_the_benchmark_prints_its_table_and_fails_below_the_targets(
    nics, tmp_path, monkeypatch, capsys
):
    tree = write_tree(tmp_path / "linux")
    gold = {
        "drivers": [
            {
                "driver": "card",
                "files": [],
                "facts": {"sg": {"value": "yes", "default": "fixed"}, "lro": {"value": "yes"}},
            }
        ]
    }
    (tmp_path / "gold.json").write_text(json.dumps(gold))
    monkeypatch.setenv("ZCDB_NICS_GOLD", str(tmp_path / "gold.json"))
    monkeypatch.setattr(sys, "argv", ["nics.py", str(tree), "--jobs", "1"])

    code = nics.main()

    output = capsys.readouterr().out
    assert code == 1
    assert "no, though the gold says yes or some: 1" in output
    assert "default on/off/fixed: 1 of 1 exact" in output
    assert "card           lro" in output
