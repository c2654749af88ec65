"""No kind of page issues more SQL statements over ten times as many trials.

A comparison of many pairs issues fewer: it is answered from summaries, few pairs from their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from every_page import Databases, databases, endpoint_of, every_page, page_endpoints
from site_support import costs, measure
from sqlalchemy import func, select
from store_support import StatementCount

from zcdb.store.models import CaseRow, TrialRow
from zcdb.store.session import Database
from zcdb.webapp import create_app

AT_MOST = 50
"""Statements of any page; most issue fewer than 15."""

GROWTH = 10

Counts = Mapping[str, tuple[int, int]]


def _rows(db: Database, row: type[TrialRow] | type[CaseRow]) -> int:
    with db.reading() as session:
        return session.scalar(select(func.count()).select_from(row)) or 0


def _grow(db: Database, number: int) -> None:
    """Add a run whose ten cases nobody measured before."""
    cases = [
        {"api": api, "message_size": 1000 * number + place}
        for api in ("write", "sendfile")
        for place in range(5)
    ]
    measure(db, number, cases, lambda _: costs(0.5 + number / 1000), repetitions=4)


def _counted(made: Databases, pages: Mapping[str, tuple[str, str]]) -> dict[str, int]:
    clients = {
        name: create_app({"DATABASE": made.open(name), "QUERY_LIMIT_S": 60}).test_client()
        for name in {name for name, _ in pages.values()}
    }
    counts = {}
    for label, (name, address) in pages.items():
        with StatementCount(made.open(name)) as statements:
            clients[name].get(address)
        counts[label] = len(statements)
    return counts


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Counts:
    """Label of a page -> its statements over the small and over the large database."""
    folder: Path = tmp_path_factory.mktemp("statements")
    with databases(folder) as made:
        growing = (made.record, made.site)
        # The first page tells of three experiments: the small database has as many.
        for db in growing:
            for number in range(60, 63):
                _grow(db, number)
        pages = {label: page for label, page in every_page(made).items() if page[0] != "empty"}
        missing = page_endpoints(create_app({"DATABASE": made.record})) - {
            endpoint_of(create_app({"DATABASE": made.record}), address)
            for _, address in pages.values()
        }
        assert missing == set(), "tests/every_page.py has no address of these pages"
        small = _counted(made, pages)
        for db in growing:
            wanted, number = GROWTH * _rows(db, TrialRow), 100
            cases = _rows(db, CaseRow)
            while _rows(db, TrialRow) < wanted:
                _grow(db, number)
                number += 1
            assert _rows(db, CaseRow) > 3 * cases
        large = _counted(made, pages)
    return {label: (small[label], large[label]) for label in pages}


def test_no_page_issues_more_statements_over_ten_times_as_many_trials(counts: Counts) -> None:
    assert {label: pair for label, pair in counts.items() if pair[1] > pair[0]} == {}


def test_only_comparisons_issue_fewer(counts: Counts) -> None:
    fewer = {label for label, pair in counts.items() if pair[1] < pair[0]}

    assert fewer <= {"comparison", "verification"}


def test_no_page_issues_many_statements(counts: Counts) -> None:
    assert {label: pair for label, pair in counts.items() if max(pair) > AT_MOST} == {}
