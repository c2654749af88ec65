"""The benchmark's judgement, on facts made up for it."""

from __future__ import annotations

import importlib.util
import json
import lzma
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


def test_a_newer_kernel_is_judged_by_the_facts_that_were_verified_in_it(nics):
    data = {
        "drivers": [{"driver": "card", "files": [], "facts": {}}],
        "zero_copy_7_3": {
            "kernel": "7.3.4, a package",
            "facts": [
                {"driver": "new", "feature": "xsk_zc", "value": "some"},
                {"driver": "new", "feature": "of another registry", "value": "yes"},
            ],
        },
    }

    assert list(nics.gold_for(data, "6.12.117")) == ["card"]
    assert nics.gold_for(data, "7.3.1")["new"]["facts"].keys() == {"xsk_zc"}


def test_ids_are_compared_with_those_that_built_modules_claim(nics, tmp_path, capsys):
    from nics_support import make_driver, make_tree

    folder = tmp_path / "lib/modules/6/kernel/drivers/net/ethernet/acme"
    folder.mkdir(parents=True)
    known = b"\0alias=pci:v00001ACDd00000001sv*sd*bc*sc*i*"
    other = b"\0alias=pci:v00001ACDd00000002sv00001ACDsd00000100bc*sc*i*"
    usb = b"\0alias=usb:v0BDAp8152d*dc*dsc*dp*ic*isc*ip*in*"
    (folder / "card.ko.xz").write_bytes(lzma.compress(b"ELF" + known + other + usb + b"\0"))

    nics.report_ids(make_tree("6.12", make_driver()), tmp_path)

    assert capsys.readouterr().out.splitlines() == [
        "ids that a built module claims and the scan has not:",
        "card           pci:1acd:0002:1acd:0100 usb:0bda:8152",
        "1 of 3 ids of built modules were read in the source",
    ]
