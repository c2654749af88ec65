"""The benchmark of the record: its generated trials are good ones, and it runs to its end."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from zcdb.report import bundles
from zcdb.store import rebuild
from zcdb.store.session import opened


@pytest.fixture(scope="module")
def record() -> Iterator[ModuleType]:
    path = Path(__file__).parent.parent / "benchmarks" / "record.py"
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.syspath_prepend(path.parent)  # it imports the benchmark beside it
    spec = importlib.util.spec_from_file_location("record_benchmark", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["record_benchmark"] = module
    spec.loader.exec_module(module)
    yield module
    sys.modules.pop("record_benchmark")
    monkeypatch.undo()


def test_generated_trials_are_the_same_each_time_and_verify(record, tmp_path):
    first = bundles.write_bundle(tmp_path / "a.zip", record.generated(400))
    second = bundles.write_bundle(tmp_path / "b.zip", record.generated(400))

    assert first.id == second.id
    with opened(tmp_path / "lab.db", with_history=False) as db:
        taken = bundles.import_bundle(db, tmp_path / "a.zip")
        assert taken.new["trials"] == 400
        assert taken.new["cases"] == 16
        assert rebuild.verify(db).problems == ()


def test_every_part_prints_its_figures(record, capsys):
    record.importing(20)
    record.bundle(200, None, None)
    record.compare_pairs(400)

    said = capsys.readouterr().out
    for word in (
        "MB/s",
        "results/s read and recorded",
        "MB peak",
        "identical",
        "20 pairs",
        "median of 7",
    ):
        assert word in said
