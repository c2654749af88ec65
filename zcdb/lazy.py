"""Sequences whose elements are made when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, overload

T = TypeVar("T")


class Lazy(Sequence[T], Generic[T]):
    """As many elements as it says, each made once, by its place.

    Ten thousand pairs are counted and judged as arrays; the few that are shown become objects.
    """

    def __init__(self, length: int, make: Callable[[int], T]) -> None:
        self._length = length
        self._make = make
        self._made: dict[int, T] = {}

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> T: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[T, ...]: ...

    def __getitem__(self, place: int | slice) -> T | tuple[T, ...]:
        """Return an element, or a tuple of those of a slice."""
        places = range(self._length)[place]
        if isinstance(places, range):
            return tuple(self[one] for one in places)
        if places not in self._made:
            self._made[places] = self._make(places)
        return self._made[places]
