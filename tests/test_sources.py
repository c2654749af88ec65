"""Sources in the database: the founding tables by themselves, and what importing stores."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text, update
from store_support import StatementCount, make_run, make_start

from zcdb.factors import FACTORS, UNSTATED, case_id
from zcdb.records import Flag
from zcdb.sources import Entry, Figure, Source, entry_id
from zcdb.store import history, queries, write
from zcdb.store.claims import Claim, add_claims
from zcdb.store.models import (
    CaseFactorRow,
    ClaimRow,
    FactorRow,
    PairingRow,
    SourceRow,
    SummaryRow,
    TextRow,
)
from zcdb.store.rebuild import rebuild, verify
from zcdb.store.results import EntryLine, FigureLine
from zcdb.store.session import Database, opened
from zcdb.store.sources import add_source

pytest_plugins = ["store_fixtures"]

EXPECTED = json.loads(
    (Path(__file__).parent / "data" / "history" / "expected.json").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A new database as everybody gets it; tests read it only."""
    with opened(tmp_path_factory.mktemp("history") / "lab.sqlite") as db:
        yield db


@pytest.fixture(scope="module")
def cells(stored: Database) -> dict[str, EntryLine]:
    """The founding tables' cells by their word."""
    return {entry.name: entry for page in queries.history_pages(stored) for entry in page.entries}


def _figure(entry: EntryLine, metric: str) -> FigureLine:
    (figure,) = [one for one in entry.figures if one.metric == metric and not one.is_inferred]
    return figure


def _share(entry: EntryLine, end: str) -> tuple[float, float]:
    """Return a CPU figure as percent of its machine."""
    names = {figure.metric for figure in entry.figures if not figure.is_inferred}
    if f"machine_utilisation_{end}" in names:
        figure = _figure(entry, f"machine_utilisation_{end}")
        return figure.low * 100, figure.high * 100
    figure = _figure(entry, f"utilisation_{end}")
    cpu = entry.details["context"]["cpu"]
    peer = entry.details["context"].get("peer", {})
    count = peer["cpu"]["count"] if peer.get("role") == end else cpu["count"]
    return figure.low * 100 / count, figure.high * 100 / count


@pytest.mark.parametrize("expected", EXPECTED["cells"], ids=lambda cell: cell["id"])
def test_a_new_database_has_each_cell_with_value_unit_context_and_flags(
    cells: Mapping[str, EntryLine], expected: dict[str, Any]
) -> None:
    entry = cells[expected["id"]]

    assert entry.source.name == expected["group"]
    assert entry.kind == expected["kind"]
    assert list(entry.lines) == expected["line"]
    assert sorted(flag.code for flag in entry.flags) == sorted(expected["flags"])
    context = dict(entry.details["context"])
    assert {key: context.get(key) for key in expected["context"]} == expected["context"]
    throughput = expected.get("throughput")
    if throughput:
        figure = _figure(entry, "throughput")
        assert (figure.value, figure.unit) == (throughput.get("bps"), "bit/s")
        assert figure.other_low == throughput.get("bps_if_binary_prefix")
        assert figure.stated.endswith(throughput["unit"])
        assert figure.details["unit"] == throughput["unit"]
    for end in ("sender", "receiver"):
        share = expected.get(f"cpu_pct_{end}")
        if share is not None:
            ends = share if isinstance(share, list) else [share, share]
            assert _share(entry, end) == pytest.approx(tuple(ends))
        demand = (expected.get("service_demand_us_per_kb") or {}).get(end)
        if demand is not None:
            assert _figure(entry, f"service_demand_{end}").value == demand
    for name, said in (expected.get("latency_us") or {}).items():
        figure = _figure(entry, f"latency_{name}")
        assert figure.value == pytest.approx(said["mean"] / 1e6)
        assert figure.sd == pytest.approx(said["stddev"] / 1e6)
        assert (figure.spread, figure.n) == ("sd", 10)


def test_there_are_167_cells_and_the_conclusions(
    stored: Database, cells: Mapping[str, EntryLine]
) -> None:
    conclusions = queries.history_page(stored, "conclusions").entries

    assert len(cells) == 167
    assert Counter(entry.source.name for entry in cells.values()) == Counter(
        cell["group"] for cell in EXPECTED["cells"]
    )
    said = {
        entry.name: [item["change_pct"] for item in entry.details["cells_say"]]
        for entry in conclusions
    }
    assert len(said) == len(EXPECTED["conclusions"])
    # "10 % cheaper" is 14 %.
    assert said["sendfile-vs-rw-vanilla"] == [pytest.approx(-14.2, abs=0.05)]


def test_what_a_source_does_not_say_is_never_the_default(cells: Mapping[str, EntryLine]) -> None:
    entry = cells["morton-3ccfe575ct-zc-sendfile"]

    assert entry.factors["message_size"] == UNSTATED != FACTORS["message_size"].default
    assert (entry.factors["rx_api"], entry.factors["sndbuf"]) == (UNSTATED, UNSTATED)
    assert entry.factors["tool"] == "zcc"
    assert entry.factors["call_work"] == FACTORS["call_work"].default


def test_a_superseded_figure_stands_beside_its_correction_and_takes_part_in_nothing(
    stored: Database, cells: Mapping[str, EntryLine]
) -> None:
    typo, right = cells["badulescu-throughput-typo"], cells["badulescu-throughput"]

    page = queries.case_page(stored, str(right.case_id))
    throughput = next(one for one in page.statistics if one.metric == "throughput")

    assert typo.case_id == right.case_id
    assert typo.left_out == "a later mail corrects it"
    assert {entry.name for entry in page.entries} == {typo.name, right.name}
    assert (throughput.n, throughput.entries, throughput.runs) == (1, 1, 0)
    assert throughput.mean == _figure(right, "throughput").value


def test_a_stated_spread_with_its_n_gives_an_interval(
    stored: Database, cells: Mapping[str, EntryLine]
) -> None:
    entry = cells["poirier-latency-1400-1-nocache-off"]

    page = queries.case_page(stored, str(entry.case_id))

    rate = next(one for one in page.statistics if one.metric == "transaction_rate")
    assert (rate.n, rate.mean, rate.entries) == (10, 692000, 1)
    assert rate.sd == pytest.approx(1000)
    # t(0.975, 9) = 2.262
    assert rate.high - rate.mean == pytest.approx(2.262 * 1000 / 10**0.5, rel=1e-3)


def test_a_range_has_no_mean_and_says_so(stored: Database, cells: Mapping[str, EntryLine]) -> None:
    entry = next(
        entry
        for entry in cells.values()
        if entry.left_out is None
        and any(
            figure.low != figure.high and not figure.left_out and not figure.is_inferred
            for figure in entry.figures
        )
        and entry.case_id
        and entry.source.name == "badulescu-cyclesoak-ttcp"
    )

    page = queries.case_page(stored, str(entry.case_id))

    ranged = next(one for one in page.statistics if one.metric.startswith("machine_utilisation"))
    assert (ranged.mean, ranged.n) == (None, 0)
    assert str(ranged.reason).startswith("published as a range")


def test_a_deduced_figure_is_marked_and_takes_part_in_nothing(
    cells: Mapping[str, EntryLine],
) -> None:
    deduced = [figure for entry in cells.values() for figure in entry.figures if figure.is_inferred]

    assert len(deduced) == 63
    assert all(figure.left_out for figure in deduced)
    assert {figure.unit for figure in deduced} == {"CPUs"}


def test_cells_that_differ_in_one_factor_are_siblings(
    stored: Database, cells: Mapping[str, EntryLine]
) -> None:
    vanilla = cells["morton-3ccfe575ct-vanilla-sendfile"]

    siblings = queries.case_page(stored, str(vanilla.case_id)).siblings

    assert cells["morton-3ccfe575ct-vanilla-readwrite"].case_id in {
        sibling.case_id for sibling in siblings["api"]
    }


def test_opening_again_reads_nothing_and_writes_nothing(
    stored: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "_write", lambda _db: pytest.fail("read again"))

    with StatementCount(stored) as statements:
        written = history.keep(stored)

    assert not written
    assert len(statements) == 1


def test_an_old_database_gets_them_without_losing_anything(database_url: str) -> None:
    with opened(database_url, with_history=False) as db:
        run = make_run()
        write.add_run(db, run)

    for _ in range(2):
        with opened(database_url) as db:
            pages = queries.history_pages(db)
            runs = queries.run_list(db).runs

    assert sum(len(page.entries) for page in pages) == 167
    assert [line.id for line in runs] == [run.id]
    with opened(database_url) as db:
        assert verify(db).problems == ()


def test_better_tables_replace_the_figures_and_keep_the_ids(db: Database) -> None:
    add_source(db, make_source(throughput=1e9))
    before = queries.source_list(db).sources[0]

    again = add_source(db, make_source(throughput=2e9, form="test 2"))

    page = queries.source_page(db, before.id)
    assert (again.id, again.is_new) == (before.id, False)
    assert [figure.value for entry in page.entries for figure in entry.figures] == [2e9]
    case = queries.case_page(db, str(page.entries[0].case_id))
    assert case.statistics[0].mean == 2e9


def make_figure(value: float | None = 1e9, **changes: Any) -> Figure:
    plain: dict[str, Any] = {
        "metric": "throughput",
        "method": "",
        "unit": "bit/s",
        "stated": "1000 Mbit/s",
        "low": value,
        "high": value,
        "reason": None if value is not None else "illegible",
    }
    return Figure(**(plain | changes))


def make_source(throughput: float | None = 1e9, form: str = "test 1", **changes: Any) -> Source:
    entry = Entry(
        key="first",
        name="netperf TCP_STREAM",
        kind="result",
        lines=(1, 7),
        factors={"api": "send", "tool": "netperf", "message_size": 16384},
        figures=[make_figure(throughput)],
        flags=[Flag("incomplete", "the last line is cut")],
    )
    plain: dict[str, Any] = {
        "kind": "import",
        "identity": {"sha256": "00"},
        "name": "netperf.txt",
        "title": "Output of netperf",
        "document": "netperf.txt",
        "author": None,
        "dated": None,
        "lines": (1, 7),
        "text": b"what it said",
        "form": form,
        "entries": [entry],
    }
    return Source(**(plain | changes))


def test_a_source_is_stored_with_its_text_once(db: Database) -> None:
    first = add_source(db, make_source())
    again = add_source(db, make_source())

    page = queries.source_page(db, first.id)

    assert (first.is_new, again.is_new, first.id) == (True, False, again.id)
    assert first.entries == (entry_id(first.id, "first"),)
    assert queries.source_text(db, first.id) == b"what it said"
    assert page.source.entries == 1
    (entry,) = page.entries
    assert (entry.case_id, entry.flags[0].code) == (
        case_id({"api": "send", "tool": "netperf", "message_size": 16384}),
        "incomplete",
    )
    assert (entry.figures[0].value, entry.figures[0].stated) == (1e9, "1000 Mbit/s")
    assert queries.find(db, first.id[:8]).kind == "source"
    assert queries.find(db, entry.id[:8]).kind == "entry"


def test_a_source_joins_the_trials_of_the_same_case(db: Database) -> None:
    run = make_run(1, repetitions=3)
    write.add_run(db, run)
    factors = make_start(run, run.plan[0]).case_factors
    entry = make_source().entries[0]
    joined = Entry(**{**_fields(entry), "factors": factors, "figures": [make_figure(5e9)]})
    add_source(db, make_source(entries=[joined]))
    from store_support import make_end

    for place in run.plan:
        if place.plan_key == run.plan[0].plan_key:
            start = make_start(run, place)
            write.start_trial(db, start)
            write.end_trial(db, make_end(start))

    statistic = queries.case_page(db, case_id(factors)).statistics[0]

    assert (statistic.n, statistic.runs, statistic.entries) == (4, 1, 1)
    assert statistic.mean == pytest.approx((3 * 20e9 + 5e9) / 4)
    assert verify(db).problems == ()


def _fields(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in Entry.__slots__}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"entries": [make_source().entries[0]] * 2}, "two entries"),
        (
            {"entries": [Entry("a", "", "result", (1, 1), None, [], flags=[Flag("no-such")])]},
            "no flag is called",
        ),
        (
            {"entries": [Entry("a", "", "result", (1, 1), None, [make_figure(), make_figure()])]},
            "two figures",
        ),
        (
            {"entries": [Entry("a", "", "result", (1, 1), None, [make_figure(None, reason=None)])]},
            "a figure or a reason",
        ),
        (
            {
                "entries": [
                    Entry(
                        *("a", "", "result", (1, 1), None),
                        [make_figure(metric="utilisation_sender", unit="CPUs")],
                    )
                ]
            },
            "has no CPU method",
        ),
    ],
)
def test_a_source_that_contradicts_itself_is_refused(
    sqlite_db: Database, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        add_source(sqlite_db, make_source(**changes))


def test_a_setting_with_a_dotted_name_becomes_a_factor_when_it_is_first_seen(
    db: Database,
) -> None:
    factors = {"api": "send", "ring.rx": 512, "sender.tso": False}
    entry = Entry("a", "", "result", (1, 1), factors, [make_figure()])

    stored = add_source(db, make_source(entries=[entry]))

    with db.reading() as session:
        named = session.scalars(
            select(FactorRow.name).where(FactorRow.name.in_(["ring.rx", "sender.tso"]))
        ).all()
        rows = session.execute(
            select(CaseFactorRow.factor, CaseFactorRow.value, CaseFactorRow.number).where(
                CaseFactorRow.factor.in_(["ring.rx", "sender.tso"])
            )
        ).all()
    assert sorted(named) == ["ring.rx", "sender.tso"]
    assert sorted(map(tuple, rows)) == [("ring.rx", "512", 512.0), ("sender.tso", "false", None)]
    page = queries.entry_page(db, stored.entries[0])
    assert page.factors["ring.rx"] == 512


def test_a_widened_registry_gives_old_cases_their_new_factors(database_url: str) -> None:
    with opened(database_url, with_history=False) as db:
        add_source(db, make_source())
        with db.writing() as session:
            # As a database of an older zcdb has it, which knew no factor of this name.
            for row_class, column in ((CaseFactorRow, "factor"), (PairingRow, "factor")):
                session.execute(
                    text(f"DELETE FROM {row_class.__tablename__} WHERE {column} = 'interfaces'")  # noqa: S608
                )
            session.execute(text("DELETE FROM factors WHERE name = 'interfaces'"))

    with opened(database_url, with_history=False) as db:
        with db.reading() as session:
            values = session.scalars(
                select(CaseFactorRow.value).where(CaseFactorRow.factor == "interfaces")
            ).all()
        problems = verify(db).problems

    assert values == ["1"]
    assert problems == ()


def test_rebuilding_makes_the_summaries_of_published_figures_again(db: Database) -> None:
    stored = add_source(db, make_source())
    with db.writing() as session:
        session.execute(update(SummaryRow).values(n=7, entries=0))
    assert verify(db).problems

    rebuild(db)

    case = queries.case_page(db, str(queries.entry_page(db, stored.entries[0]).case_id))
    assert (case.statistics[0].n, case.statistics[0].entries) == (1, 1)


def test_sources_page_by_key(stored: Database) -> None:
    first = queries.source_list(stored, limit=20)

    rest = queries.source_list(stored, after=first.next_after, limit=20)

    assert len(first.sources) == 20
    assert rest.next_after is None
    names = [line.name for line in (*first.sources, *rest.sources)]
    assert len(set(names)) == len(names) == 34


def test_pages_of_sources_cost_a_fixed_number_of_statements(stored: Database) -> None:
    counts = []
    for read in (
        lambda: queries.history_pages(stored),
        lambda: queries.history_page(stored, "morton-loopback-dual500"),
        lambda: queries.source_list(stored),
    ):
        with StatementCount(stored) as statements:
            read()
        counts.append(len(statements))

    assert counts == [8, 9, 1]


def test_what_is_not_there_is_named(stored: Database) -> None:
    for read in (queries.source_page, queries.entry_page, queries.source_text):
        with pytest.raises(queries.NotFound, match="there is no"):
            read(stored, "0" * 32)
    with pytest.raises(queries.NotFound, match="no founding table no-such in"):
        queries.history_page(stored, "no-such")
    with pytest.raises(queries.NotFound):
        queries.source_list(stored, after="0" * 32)


def test_a_retracted_founding_table_stays_retracted_when_it_is_read_again(db: Database) -> None:
    from zcdb.store import errata

    stored = add_source(db, make_source())
    errata.retract(db, "source", stored.id, reason="a test", by="tester")

    add_source(db, make_source(throughput=2e9, form="test 2"))

    with db.reading() as session:
        assert session.scalar(select(SourceRow.form)) == "test 2"
    entry = queries.entry_page(db, stored.entries[0])
    assert entry.left_out == "retracted: a test"
    assert queries.case_page(db, str(entry.case_id)).statistics == ()


def test_a_text_that_was_changed_is_found(sqlite_db: Database) -> None:
    add_source(sqlite_db, make_source())
    with sqlite_db.writing() as session:
        session.execute(update(TextRow).values(bytes_zlib=zlib.compress(b"what it never said")))

    problems = verify(sqlite_db).problems

    assert any("hashes to another id" in said for said in problems)


def test_a_claim_is_stored_once_however_often_it_is_met(db: Database) -> None:
    claim = Claim(
        *("driver", "virtio_net", "sg", "yes", "on"),
        *("6.12.0", "probed", "ethtool features", "2026-03-01"),
    )

    first = add_claims(db, [claim, claim])
    again = add_claims(db, [replace(claim, dated="2026-03-02"), replace(claim, value="no")])

    with db.reading() as session:
        stored = session.execute(select(ClaimRow.public_id, ClaimRow.dated)).all()
    assert (first, again) == (1, 1)
    assert (claim.id, "2026-03-01") in [tuple(row) for row in stored]
