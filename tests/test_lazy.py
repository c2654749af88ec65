"""Sequences whose elements are made when asked for."""

from __future__ import annotations

import pytest

from zcdb.lazy import Lazy


def test_only_what_is_asked_for_is_made_and_only_once():
    made = []

    def make(place):
        made.append(place)
        return place * place

    squares = Lazy(1000, make)

    assert len(squares) == 1000
    assert squares[3:6] == (9, 16, 25)
    assert squares[-1] == 998001
    assert squares[4] == 16
    assert made == [3, 4, 5, 999]


def test_it_goes_through_like_any_sequence():
    squares = Lazy(4, lambda place: place * place)

    assert list(squares) == [0, 1, 4, 9]
    assert 9 in squares
    assert 5 not in squares
    assert list(reversed(squares)) == [9, 4, 1, 0]
    with pytest.raises(IndexError):
        squares[4]
    assert not Lazy(0, lambda place: place)
