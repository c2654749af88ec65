"""Bundles: the same ids, the same bytes, nothing twice, and nothing that was changed."""

from __future__ import annotations

import hashlib
import json
import random
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bundle_support import AT, NETPERF, QUERY, write_everything
from store_support import DemoIds, demo_end, make_environment, make_run, make_start, write_demo
from web_support import client_of, get_json, page_addresses

from zcdb.errors import StoreError, UsageError
from zcdb.ids import canonical_json
from zcdb.importers import read
from zcdb.importers.record import source_of
from zcdb.report import bundles, freeze
from zcdb.report.bundles import BundleError
from zcdb.store import errata, queries, rebuild, reports, write
from zcdb.store.queries import NotFound
from zcdb.store.session import Database, open_database, opened
from zcdb.store.sources import add_source

pytest_plugins = ["store_fixtures"]

VERSION_1 = Path(__file__).parent / "data" / "bundles" / "version-1.zip"
VERSION_1_COUNTS = {
    **{"errata": 3, "experiments": 2, "environments": 1, "cases": 10, "runs": 2, "trials": 86},
    **{"sources": 1, "entries": 1, "reports": 1, "links": 2, "claims": 1},
}


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, DemoIds, Path]]:
    """A database with everything in it, its ids, and a bundle of all of it."""
    folder = tmp_path_factory.mktemp("full")
    with opened(folder / "full.db") as db:
        ids = write_everything(db)
        rebuild.rebuild(db)  # sums that were carried on differ in the last bit from new ones
        bundles.export(db, "all", folder / "all.zip")
        yield db, ids, folder / "all.zip"


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Database]:
    """A new database."""
    with opened(tmp_path / "other.db") as db:
        yield db


def _lines(path: Path, member: str) -> list[dict[str, Any]]:
    with zipfile.ZipFile(path) as archive:
        if member not in archive.namelist():
            return []
        return [json.loads(line) for line in archive.read(member).splitlines()]


def _ids(path: Path, kind: str) -> set[str]:
    return {line["id"] for line in _lines(path, f"{kind}.ndjson")}


def _with_member(path: Path, target: Path, change: Callable[[str, bytes], bytes]) -> Path:
    """Write a bundle again, sealed and with right hashes, some members changed."""
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name != bundles.MANIFEST]
        members = [(name, change(name, archive.read(name))) for name in names]

    def pieces(name: str, data: bytes) -> Iterator[bytes]:
        yield from data.splitlines(keepends=True) if name.endswith(".ndjson") else [data]

    bundles.write_bundle(target, ((name, pieces(name, data)) for name, data in members))
    return target


# -- the round trip ------------------------------------------------------------------------------


def test_the_same_content_is_the_same_file(full, tmp_path):
    db, _, path = full

    again = bundles.export(db, "all", tmp_path / "again.zip")

    assert (tmp_path / "again.zip").read_bytes() == path.read_bytes()
    assert again.id == bundles.check(path).id


@pytest.mark.postgres
def test_sqlite_to_postgresql_and_back_keeps_every_byte(full, postgres_url, tmp_path):
    _, ids, path = full
    postgres = open_database(postgres_url)
    back = open_database(tmp_path / "back.db")
    try:
        bundles.import_bundle(postgres, path)
        bundles.export(postgres, "all", tmp_path / "postgres.zip")
        bundles.import_bundle(back, tmp_path / "postgres.zip")
        bundles.export(back, "all", tmp_path / "back.zip")

        assert (tmp_path / "postgres.zip").read_bytes() == path.read_bytes()
        assert (tmp_path / "back.zip").read_bytes() == path.read_bytes()
        _same_pages(full[0], postgres, ids)
    finally:
        postgres.dispose()
        back.dispose()


def test_pages_and_reports_say_the_same_elsewhere(full, other):
    db, ids, path = full

    bundles.import_bundle(other, path)

    _same_pages(db, other, ids)
    assert rebuild.verify(other).problems == ()


def _same_pages(db: Database, other: Database, ids: DemoIds) -> None:
    here, there = client_of(db), client_of(other)
    (line,) = reports.report_list(db)[0]
    assert reports.report(other, line.id) == reports.report(db, line.id)
    assert freeze.verify(reports.report(other, line.id)) == []
    assert freeze.today(other, reports.report(other, line.id)) == []
    # The first page tells when each database got its founding tables, which is its own matter.
    twins = [f"{address}.json" for address in page_addresses(ids).values() if address != "/"]
    twins += [f"/compare.json?{QUERY}", "/explore.json?rows=api&cols=message_size", "/history.json"]
    for twin in twins:
        assert get_json(there, twin) == get_json(here, twin), twin
    assert sorted(reports.links(other)) == sorted(reports.links(db))


def test_importing_twice_brings_nothing_new(full, other, tmp_path):
    _, _, path = full
    first = bundles.import_bundle(other, path)

    second = bundles.import_bundle(other, path)

    assert first.new["trials"] == 86
    assert not any(second.new.values())
    assert second.known["trials"] == 86
    bundles.export(other, "all", tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == path.read_bytes()


def test_importing_into_its_own_database_changes_nothing(full):
    db, _, path = full

    assert not any(bundles.import_bundle(db, path).new.values())


def test_only_what_came_in_is_made_anew(full, other):
    _, ids, path = full
    bundles.import_bundle(other, path)
    with other.writing() as session:
        from zcdb.store.models import SummaryRow

        session.query(SummaryRow).filter(SummaryRow.metric == "throughput").update({"n": 99})

    bundles.import_bundle(other, path)

    case = queries.case_page(other, ids.baseline_case_id)
    assert {one.n for one in case.statistics if one.metric == "throughput"} == {99}


# -- what belongs to what ------------------------------------------------------------------------


def test_a_run_brings_its_plan_and_all_its_trials(full, other, tmp_path):
    db, ids, _ = full
    path = tmp_path / "run.zip"

    bundles.export(db, ids.run_id, path)
    bundles.import_bundle(other, path)

    assert _ids(path, "runs") == {ids.run_id}
    (run,) = _lines(path, "runs.ndjson")
    assert len(run["planned_trials"]) == 45
    assert len(_ids(path, "trials")) == 46
    assert _ids(path, "environments") == {ids.environment_id}
    assert {line["object_id"] for line in _lines(path, "errata.ndjson")} == {ids.ok_trial_id}
    assert len(_ids(path, "claims")) == 1
    there, here = client_of(other), client_of(db)
    assert get_json(there, f"/runs/{ids.run_id}.json") == get_json(here, f"/runs/{ids.run_id}.json")


def test_a_case_brings_its_trials_of_every_run(full, tmp_path):
    db, ids, _ = full

    bundles.export(db, ids.baseline_case_id, tmp_path / "case.zip")

    trials = _lines(tmp_path / "case.zip", "trials.ndjson")
    assert {line["case"] for line in trials} == {ids.baseline_case_id}
    assert {line["run"] for line in trials} == {ids.run_id, ids.older_run_id}
    assert len(trials) == 10


def test_a_trial_brings_its_repetitions(full, tmp_path):
    db, ids, _ = full

    bundles.export(db, ids.ok_trial_id, tmp_path / "trial.zip")

    trials = _lines(tmp_path / "trial.zip", "trials.ndjson")
    assert ids.ok_trial_id in {line["id"] for line in trials}
    assert {(line["run"], line["case"]) for line in trials} == {(ids.run_id, ids.baseline_case_id)}


def test_an_experiment_brings_its_runs(full, tmp_path):
    db, ids, _ = full

    bundles.export(db, ids.experiment_id, tmp_path / "experiment.zip")

    assert _ids(tmp_path / "experiment.zip", "runs") == {ids.run_id}


def test_a_source_brings_its_text_and_its_corrections(full, other, tmp_path):
    db, _, _ = full
    source = source_of(read(NETPERF, "netperf.txt"), NETPERF)
    path = tmp_path / "source.zip"

    bundles.export(db, source.id, path)
    bundles.import_bundle(other, path)

    assert queries.source_text(other, source.id) == NETPERF
    (erratum,) = _lines(path, "errata.ndjson")
    assert (erratum["old_value"], erratum["new_value"]) == (9400120000.0, 9.4e9)
    (entry,) = _ids(path, "entries")
    figures = {one.metric: one for one in queries.entry_page(other, entry).figures}
    assert figures["throughput"].value == 9.4e9


def test_a_founding_table_can_be_taken_along(full, tmp_path):
    db, _, _ = full

    bundles.export(db, "q=3c905c", tmp_path / "history.zip")

    with opened(tmp_path / "empty.db", with_history=False) as empty:
        taken = bundles.import_bundle(empty, tmp_path / "history.zip")
        assert taken.new["entries"] == 9


def test_a_report_brings_the_cases_it_compares(full, tmp_path):
    db, ids, _ = full
    (line,) = reports.report_list(db)[0]

    bundles.export(db, f"/reports/{line.id}/{line.slug}", tmp_path / "report.zip")

    cases = {line["case"] for line in _lines(tmp_path / "report.zip", "trials.ndjson")}
    assert cases == {
        ids.case_ids[api, size] for api in ("write", "sendfile") for size in (4096, 65536)
    }


@pytest.mark.parametrize(
    "query",
    ["api=sendfile&message_size=64K", "/explore?api=sendfile&message_size=65536&m=throughput"],
)
def test_a_query_brings_the_cases_that_explore_shows(full, query, tmp_path):
    db, ids, _ = full

    bundles.export(db, query + "&sender_kernel=6.12.0", tmp_path / "query.zip")

    assert _ids(tmp_path / "query.zip", "cases") == {ids.case_ids["sendfile", 65536]}
    assert len(_lines(tmp_path / "query.zip", "trials.ndjson")) == 10


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        ("apo=write", UsageError, "there is no factor 'apo'"),
        ("message_size=big", UsageError, "message_size: "),
        ("sender_nic=nothing", BundleError, "fits 'sender_nic=nothing'"),
        ("0123456789", NotFound, "there is no result 0123456789"),
        ("veth", UsageError, "'veth' is not an id"),
    ],
)
def test_what_makes_no_sense_is_refused(full, tmp_path, what, error, message):
    db, _, _ = full

    with pytest.raises(error, match=message):
        bundles.export(db, what, tmp_path / "none.zip")

    assert not (tmp_path / "none.zip").exists()


def test_a_trial_that_still_runs_stays_out(tmp_path):
    with opened(tmp_path / "running.db", with_history=False) as db:
        write_demo(db)
        run = make_run(3)
        write.add_run(db, run)
        write.start_trial(db, make_start(run, run.plan[0]))

        bundles.export(db, run.id, tmp_path / "running.zip")

        assert _lines(tmp_path / "running.zip", "trials.ndjson") == []
        assert len(_lines(tmp_path / "running.zip", "runs.ndjson")) == 1


# -- what has grown, and what contradicts --------------------------------------------------------


def test_a_run_that_went_on_is_continued(tmp_path, other):
    with opened(tmp_path / "here.db", with_history=False) as db:
        run, environment = make_run(5), make_environment()
        write.add_environment(db, environment)
        write.add_run(db, run)
        noise = random.Random(5)

        def measure(places: Any) -> None:
            for place in places:
                start = make_start(run, place, environment=environment)
                write.start_trial(db, start)
                write.end_trial(db, demo_end(start, noise))

        measure(run.plan[:11])
        write.finish_run(db, run.id, "interrupted", {"steal_ratio": 0.0}, ended_at=AT)
        bundles.export(db, run.id, tmp_path / "early.zip")
        bundles.import_bundle(other, tmp_path / "early.zip")
        measure(run.plan[11:])
        write.finish_run(db, run.id, "finished", {"steal_ratio": 0.1}, ended_at=AT)
        write.set_note(db, run.id, "went on after lunch")
        bundles.export(db, run.id, tmp_path / "late.zip")

        taken = bundles.import_bundle(other, tmp_path / "late.zip")
        bundles.import_bundle(other, tmp_path / "early.zip")
        bundles.export(other, run.id, tmp_path / "again.zip")

        assert taken.new["trials"] == len(run.plan) - 11
        assert (tmp_path / "again.zip").read_bytes() == (tmp_path / "late.zip").read_bytes()
        assert rebuild.verify(other).problems == ()


def test_corrections_and_exclusions_reach_what_is_there_already(tmp_path, other):
    with opened(tmp_path / "here.db") as db:
        ids = write_demo(db)
        stored = add_source(db, source_of(read(NETPERF, "n.txt"), NETPERF), recorded_at=AT)
        bundles.export(db, "all", tmp_path / "before.zip")
        bundles.import_bundle(other, tmp_path / "before.zip")
        words = {"reason": "misread", "by": "a tester", "metric": "throughput"}
        errata.correct(db, "entry", stored.entries[0], value=9.4e9, **words)
        errata.correct(db, "trial", ids.ok_trial_id, value=20.5e9, **words)
        write.exclude_trial(db, ids.retried_trial_id, reason="noise", excluded_by="a tester")
        errata.retract(db, "run", ids.older_run_id, reason="a broken cable", by="a tester")
        bundles.export(db, "all", tmp_path / "after.zip")

        bundles.import_bundle(other, tmp_path / "after.zip")
        bundles.import_bundle(other, tmp_path / "before.zip")
        bundles.export(other, "all", tmp_path / "again.zip")

        assert (tmp_path / "again.zip").read_bytes() == (tmp_path / "after.zip").read_bytes()
        figures = queries.entry_page(other, stored.entries[0]).figures
        assert next(one for one in figures if one.metric == "throughput").value == 9.4e9
        assert client_of(other).get(f"/runs/{ids.older_run_id}").status_code == 410
        assert rebuild.verify(other).problems == ()


def _changed_field(member: str, field: str, value: Any) -> Callable[[str, bytes], bytes]:
    def change(name: str, data: bytes) -> bytes:
        if name != member:
            return data
        first, *rest = data.splitlines()
        line = {**json.loads(first), field: value}
        return b"\n".join([canonical_json(line).encode(), *rest]) + b"\n"

    return change


@pytest.mark.parametrize(
    ("member", "field", "value", "message"),
    [
        ("trials.ndjson", "window_ns", 12345, r"trial [0-9a-f]{32} is in the database.*window_ns"),
        ("trials.ndjson", "counts", {"calls": 1}, r"trial [0-9a-f]{32} is in the .*\(counts\)"),
        ("runs.ndjson", "seed", 5, r"run 0195.* is in the database with other content \(seed\)"),
        ("entries.ndjson", "name", "another", r"entry [0-9a-f]{32} is in the .*\(name\)"),
    ],
)
def test_other_content_under_the_same_id_is_refused(
    full, other, tmp_path, member, field, value, message
):
    _, _, path = full
    bundles.import_bundle(other, path)
    bundles.export(other, "all", tmp_path / "before.zip")
    changed = _with_member(path, tmp_path / "changed.zip", _changed_field(member, field, value))

    with pytest.raises(StoreError, match=message):
        bundles.import_bundle(other, changed)

    bundles.export(other, "all", tmp_path / "after.zip")
    assert (tmp_path / "after.zip").read_bytes() == (tmp_path / "before.zip").read_bytes()


def test_another_value_of_a_repetition_is_refused_by_name(full, other, tmp_path):
    _, _, path = full
    bundles.import_bundle(other, path)

    def change(name: str, data: bytes) -> bytes:
        if name != "measurements.ndjson":
            return data
        first, *rest = data.splitlines()
        line = json.loads(first)
        line["measured"][0][2][0] = 1.5
        return b"\n".join([canonical_json(line).encode(), *rest]) + b"\n"

    with pytest.raises(
        StoreError, match=r"of case [0-9a-f]{32}, repetition 0, which is in the data"
    ):
        bundles.import_bundle(other, _with_member(path, tmp_path / "changed.zip", change))


@pytest.mark.parametrize(
    ("member", "field", "value", "message"),
    [
        ("cases.ndjson", "factors", {"api": "send"}, "case .* is not what its id says"),
        (
            "cases.ndjson",
            "factors",
            {"moon_phase": "new"},
            "'moon_phase', which this zcdb does not",
        ),
        ("environments.ndjson", "facts", {}, "environment .* is not what its id says"),
        ("experiments.ndjson", "name", "other", "experiment .* is not what its id says"),
        ("trials.ndjson", "attempt", 7, "trial .* is not what its id says"),
        ("trials.ndjson", "flags", [["cheese", ""]], "'cheese', which this zcdb does not know"),
        ("errata.ndjson", "reason", "no reason", "erratum .* is not what its id says"),
        ("reports.ndjson", "content", {"title": "mine"}, "report .* is not what its id says"),
        ("links.ndjson", "query", "a=b", "short address .* is not what its id says"),
        ("claims.ndjson", "value", "no", "claim .* is not what its id says"),
        ("trials.ndjson", "run", "nowhere", "trial .* is not what its id says"),
        ("trials.ndjson", "case", "nowhere", "trials.ndjson holds what no bundle holds"),
        ("trials.ndjson", "status", "perhaps", "trials.ndjson contradicts itself"),
        ("runs.ndjson", "notes", 5, "runs.ndjson holds what no bundle holds"),
    ],
)
def test_what_its_id_does_not_say_is_refused(full, other, tmp_path, member, field, value, message):
    _, _, path = full
    changed = _with_member(path, tmp_path / "changed.zip", _changed_field(member, field, value))

    with pytest.raises((StoreError, BundleError), match=message):
        bundles.import_bundle(other, changed)

    assert queries.run_list(other).runs == ()


# -- the file --------------------------------------------------------------------------------------


def test_a_changed_byte_is_refused_by_the_members_name(full, other, tmp_path):
    _, _, path = full
    data = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        places = {
            info.filename: info.header_offset
            + 30
            + len(info.filename)
            + 20
            + info.compress_size // 2
            for info in archive.infolist()
        }

    for name, place in places.items():
        changed = tmp_path / "changed.zip"
        changed.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        with pytest.raises(BundleError, match=f"{name} was changed"):
            bundles.import_bundle(other, changed)

    assert queries.run_list(other).runs == ()


def test_any_changed_byte_and_any_cut_is_refused_in_a_sentence(full, tmp_path):
    _, _, path = full
    data, dice = path.read_bytes(), random.Random(1)
    ends = [*range(200), *range(len(data) - 3000, len(data), 7)]
    changed = tmp_path / "changed.zip"

    for place in [*ends, *(dice.randrange(len(data)) for _ in range(200))]:
        flipped = bytes([data[place] ^ (1 << dice.randrange(8))])
        changed.write_bytes(data[:place] + flipped + data[place + 1 :])
        with pytest.raises(BundleError):
            bundles.check(changed)
    for length in (0, 1, 100, len(data) // 2, len(data) - 1):
        changed.write_bytes(data[:length])
        with pytest.raises(BundleError, match=r"is not a bundle|was changed"):
            bundles.check(changed)


def test_a_bundle_of_a_newer_zcdb_is_refused(full, other, tmp_path, monkeypatch):
    db, ids, _ = full
    monkeypatch.setattr(bundles, "SCHEMA_VERSION", 2)
    bundles.export(db, ids.run_id, tmp_path / "newer.zip")
    monkeypatch.undo()

    with pytest.raises(BundleError, match="is a bundle of a newer zcdb") as caught:
        bundles.import_bundle(other, tmp_path / "newer.zip")

    assert caught.value.hint == "Upgrade zcdb."


def test_another_zip_file_is_no_bundle(tmp_path, other):
    path = tmp_path / "photos.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("cat.txt", "meow")

    with pytest.raises(BundleError, match="a ZIP file, but not a bundle of zcdb"):
        bundles.import_bundle(other, path)


def test_the_manifest_has_the_hash_of_every_member(full):
    _, _, path = full

    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        for member in manifest["members"]:
            data = archive.read(member["name"])
            assert hashlib.sha256(data).hexdigest() == member["sha256"]
            assert len(data) == member["bytes"]
        assert len(manifest["members"]) == len(archive.namelist()) - 1
    assert manifest["zcdb_bundle"] == 1


def test_a_bundle_of_version_1_is_always_readable(tmp_path):
    """The file was written by version 1 and is never made anew."""
    with opened(tmp_path / "lab.db", with_history=False) as db:
        taken = bundles.import_bundle(db, VERSION_1)

        assert taken.id == "a270ce498ad4def97a3b0df62c19862b"
        assert {kind: count for kind, count in taken.new.items() if count} == VERSION_1_COUNTS
        case = queries.case_page(db, "c7e54892a9fdaaf69f7dd2081239ab04")
        throughput = next(one for one in case.statistics if one.metric == "throughput")
        assert throughput.n == 10
        assert throughput.mean == pytest.approx(21043832964.8, rel=1e-12)
        assert rebuild.verify(db).problems == ()
