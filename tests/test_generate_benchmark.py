"""The generated database is one that zcdb could have written, and the site's benchmark runs."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from sqlalchemy import select

from zcdb.report import asking, compare
from zcdb.store import queries, rebuild
from zcdb.store.models import Base, MeasurementRow, SummaryRow
from zcdb.store.session import Database, opened
from zcdb.store.values import decode

pytest_plugins = ["store_fixtures"]

TRIALS = 2_400


@pytest.fixture(scope="module")
def benchmarks() -> Iterator[None]:
    """The scripts, importable as they import each other."""
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    known = set(sys.modules)
    yield
    for name in ("generate", "plausible", "site_benchmark"):
        if name not in known:
            sys.modules.pop(name, None)
    monkeypatch.undo()


@pytest.fixture(scope="module")
def generator(benchmarks: None) -> ModuleType:
    return importlib.import_module("generate")


@pytest.fixture(scope="module")
def site(benchmarks: None) -> ModuleType:
    # A module of the standard library has the script's name.
    path = Path(__file__).parent.parent / "benchmarks" / "site.py"
    spec = importlib.util.spec_from_file_location("site_benchmark", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["site_benchmark"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generated(
    generator: ModuleType, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    path = tmp_path_factory.mktemp("generated") / "lab.db"
    with opened(path, with_history=False) as db:
        generator.generate(db, TRIALS)
        yield db


def rows(db: Database, table: str) -> list[tuple[object, ...]]:
    with db.reading() as session:
        return sorted(map(tuple, session.execute(select(Base.metadata.tables[table]))), key=repr)


def test_it_has_the_trials_that_were_asked_for(generated):
    assert len(rows(generated, "trials")) == TRIALS
    assert len(rows(generated, "planned_trials")) == TRIALS
    assert len(rows(generated, "runs")) == TRIALS // 200


def test_nothing_of_it_is_out_of_date_or_inconsistent(generated):
    assert rebuild.verify(generated).problems == ()


def test_rebuilding_changes_no_derived_row(generated):
    tables = ("case_factors", "pairings")
    before = {name: rows(generated, name) for name in tables}

    rebuild.rebuild(generated)

    assert {name: rows(generated, name) for name in tables} == before


def test_values_follow_the_trials_that_were_ok(generated):
    with generated.reading() as session:
        one = session.scalars(
            select(MeasurementRow).where(MeasurementRow.metric == "throughput")
        ).first()
        whole = session.get_one(SummaryRow, (one.case_id, "throughput", ""))
    values = [value for value in decode(one.values_f64) if value is not None]

    assert one.n == len(values)
    assert one.mean == pytest.approx(sum(values) / len(values))
    assert whole.n >= one.n


def test_it_is_the_same_each_time_and_another_with_another_seed(generator, tmp_path):
    made = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        with opened(tmp_path / name, with_history=False) as db:
            generator.generate(db, 400, seed)
            made.append(rows(db, "measurements"))

    assert made[0] == made[1] != made[2]


def test_what_is_there_is_not_written_over(generator, generated):
    with pytest.raises(ValueError, match="is not empty"):
        generator.generate(generated, 400)


def test_cases_grow_more_slowly_than_trials(generator):
    wanted = [generator.cases_wanted(10**power) for power in (4, 5, 6, 7)]

    assert wanted == [2_000, 15_924, 40_000, 100_475]


def test_every_level_of_the_api_has_partners(generated):
    report = compare.compare(generated, asking.ask_factor("api", "write", ["sendfile"], {}))

    assert report.found == len(rows(generated, "cases")) // 4
    assert report.unpaired == ()


def test_more_can_be_recorded_afterwards_on_a_server(generator, postgres_url):
    import store_support as support

    with opened(postgres_url, with_history=False) as db:
        generator.generate(db, 200)
        ids = support.write_demo(db)

        assert queries.trial_page(db, ids.ok_trial_id).trial.id == ids.ok_trial_id
        assert rebuild.verify(db).problems == ()


def test_the_benchmark_asks_every_page_and_prints_its_table(site, generator, tmp_path, capsys):
    path = tmp_path / "lab.db"
    with opened(path, with_history=False) as db:
        generator.generate(db, 2_000)

    timings = site.measure(str(path), site.KINDS, 1)
    site.print_pages(site.KINDS, [timings, timings])

    said = capsys.readouterr().out
    assert [timing.failures for timing in timings.values()] == [[]] * len(site.KINDS)
    assert all(kind.name in said for kind in site.KINDS)
    assert "  x1.00" in said
