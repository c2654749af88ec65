"""Which card for a use: filters, one verdict for each driver or card, groups by verdict.

Pure: subjects and what was measured come in, an `Advice` goes out.  The rules
that judge are in `verdicts`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from zcdb.nics.advice_subjects import (
    FIRST_SCANNED,
    Ability,
    Subject,
    subject_of_card,
    subject_of_row,
)
from zcdb.nics.catalogue import Catalogue, load
from zcdb.nics.claims import version_key
from zcdb.nics.matrix import LEVELS, Level, Matrix, nearest_kernel, row_with_probes
from zcdb.nics.matrix import matrix as shipped_matrix
from zcdb.nics.probe import ProbedClaim
from zcdb.nics.speeds import Medium
from zcdb.nics.usecases import SPEEDS, Attached, UseCase, load_cards, load_use_cases
from zcdb.nics.verdicts import WORDS, Measured, Verdict, Word, judge

Hidden = Literal["attached", "speed", "medium", "must"]

HIDDEN: dict[Hidden, str] = {
    "attached": "attached in another way",
    "speed": "slower or faster than asked",
    "medium": "for other media only",
    "must": "without a capability that you must have",
}
"""Why a subject is not shown -> what to say."""

_LEVEL_ORDER = {level: -number for number, level in enumerate(LEVELS)}


@dataclass(frozen=True, slots=True)
class Filters:
    """What the reader asked for.

    Attributes:
        buses: how it may be attached; empty is any way.
        slowest, fastest: words of `SPEEDS` between which the fastest of its cards lies; "" is no
            limit.  A speed that is not known passes.
        medium: one that it must have, where its media are known; "" is any.
        must: capabilities without which it is not shown.
        at_least: the weakest evidence accepted.
        in_tree_only: what needs another driver than the kernel's does not count.
    """

    buses: tuple[Attached, ...] = ()
    slowest: str = ""
    fastest: str = ""
    medium: Medium | Literal[""] = ""
    must: tuple[str, ...] = ()
    at_least: Level = "advertised"
    in_tree_only: bool = False


@dataclass(frozen=True, slots=True)
class Advice:
    """Verdicts for one use, grouped.

    Attributes:
        groups: every word, also without verdicts; within one the strongest evidence first, then
            what has more of what the use likes, then the faster.
        hidden: why subjects are not shown -> how many; the first reason counts.
    """

    use: UseCase
    filters: Filters
    groups: Mapping[Word, tuple[Verdict, ...]]
    hidden: Mapping[Hidden, int]


def is_historic(kernel: str) -> bool:
    """Return whether a kernel has cards and claims in place of a scan."""
    return version_key(kernel) < FIRST_SCANNED


def historic_kernels(catalogue: Catalogue) -> tuple[str, ...]:
    """Return the old kernels whose source claims were read in, oldest first."""
    found = {claim.kernel for claim in catalogue.claims if claim.kernel}
    return tuple(sorted(filter(is_historic, found), key=version_key))


def resolve_kernel(catalogue: Catalogue, wanted: str) -> str | None:
    """Return the kernel of the catalogue that answers for a version; None if there is none.

    Args:
        wanted: as "6.12", "6.12.9" or "2.4.16"; "" is the newest.
    """
    if not wanted:
        return catalogue.kernels[-1]
    if not version_key(wanted):
        return None
    if is_historic(wanted):
        old = historic_kernels(catalogue)
        older = [kernel for kernel in old if version_key(kernel) <= version_key(wanted)]
        return older[-1] if older else None
    return nearest_kernel(wanted, catalogue.kernels)


def subjects_of_matrix(matrix: Matrix, catalogue: Catalogue) -> tuple[Subject, ...]:
    """Return every driver of a scanned kernel."""
    return tuple(
        subject_of_row(row, matrix.kernel, catalogue.claims_about(name))
        for name, row in matrix.rows.items()
    )


def subjects_of_2001(catalogue: Catalogue, kernel: str) -> tuple[Subject, ...]:
    """Return every card of the founding threads, judged in an old kernel."""
    return tuple(subject_of_card(card, catalogue.claims, kernel) for card in load_cards())


@lru_cache(maxsize=16)
def shipped_subjects(kernel: str) -> tuple[Subject, ...]:
    """Return the subjects of a kernel of the catalogue as shipped, made once.

    Args:
        kernel: as `resolve_kernel` returns it.
    """
    catalogue = load()
    if is_historic(kernel):
        return subjects_of_2001(catalogue, kernel)
    return subjects_of_matrix(shipped_matrix(kernel), catalogue)


def probed_subjects(
    kernel: str, probes: Mapping[str, Sequence[ProbedClaim]]
) -> tuple[Subject, ...]:
    """Return the subjects of a kernel with what machines showed laid over the source.

    Args:
        probes: driver of the catalogue -> what machines showed about it.
    """
    subjects = shipped_subjects(kernel)
    if is_historic(kernel) or not probes:
        return subjects
    catalogue, rows = load(), shipped_matrix(kernel).rows
    return tuple(
        subject_of_row(
            row_with_probes(rows[one.id], probes[one.id]), kernel, catalogue.claims_about(one.id)
        )
        if one.id in probes
        else one
        for one in subjects
    )


def known_capabilities(subjects: Iterable[Subject]) -> frozenset[str]:
    """Return the capabilities that anybody has: a kernel without a feature does not lack it."""
    return frozenset(
        key
        for subject in subjects
        for key, ability in subject.abilities.items()
        if ability.state in ("yes", "some")
    )


@lru_cache(maxsize=16)
def shipped_capabilities(kernel: str) -> frozenset[str]:
    """Return the capabilities that anybody has in a kernel of the catalogue as shipped."""
    return known_capabilities(shipped_subjects(kernel))


def preset_filters(use: UseCase, kernel: str = "") -> Filters:
    """Return what a use asks for unless the reader asks for something else; nothing in 2001."""
    if kernel and is_historic(kernel):
        return Filters()
    return Filters(use.buses, use.slowest, use.fastest, use.medium)  # type: ignore[arg-type]


def advise(
    use: UseCase,
    subjects: Sequence[Subject],
    filters: Filters,
    measured: Mapping[str, Measured] | None = None,
    known: frozenset[str] | None = None,
) -> Advice:
    """Return the grouped verdicts for a use.

    Args:
        subjects: all of one kernel.
        measured: id of a subject -> what was measured over it for this use.
        known: `known_capabilities(subjects)`, where the caller has it already.
    """
    known = known_capabilities(subjects) if known is None else known
    hidden: Counter[Hidden] = Counter()
    verdicts = []
    for subject in subjects:
        if filters.in_tree_only:
            subject = _with_stock_driver(subject)
        if (why := why_hidden(subject, filters)) is not None:
            hidden[why] += 1
            continue
        found = (measured or {}).get(subject.id)
        verdicts.append(judge(use, subject, found, at_least=filters.at_least, known=known))
    return _grouped(use, filters, verdicts, hidden)


def _grouped(
    use: UseCase, filters: Filters, verdicts: Iterable[Verdict], hidden: Mapping[Hidden, int]
) -> Advice:
    ordered = sorted(verdicts, key=_order)
    groups = {word: tuple(one for one in ordered if one.word == word) for word in WORDS}
    return Advice(use, filters, groups, hidden)


@lru_cache(maxsize=64)
def _from_source_alone(use_id: str, kernel: str, filters: Filters) -> Advice:
    known = shipped_capabilities(kernel)
    return advise(load_use_cases()[use_id], shipped_subjects(kernel), filters, None, known)


def shipped_advice(
    use: UseCase,
    kernel: str,
    filters: Filters,
    measured: Mapping[str, Measured],
    probes: Mapping[str, Sequence[ProbedClaim]],
) -> Advice:
    """Return the grouped verdicts for a shipped use and a kernel of the catalogue as shipped.

    The same as `advise`; what was neither measured nor probed is judged once and kept.

    Args:
        measured: id of a subject -> what was measured over it for this use.
        probes: driver of the catalogue -> what machines showed about it.
    """
    plain = _from_source_alone(use.id, kernel, filters)
    changed = measured.keys() | probes.keys()
    before = [one for one in shipped_subjects(kernel) if one.id in changed]
    if not before:
        return plain
    known = shipped_capabilities(kernel)
    after = [one for one in probed_subjects(kernel, probes) if one.id in changed]
    again = advise(use, after, filters, measured, known)
    verdicts = [
        *(one for one in _all(plain) if one.subject.id not in changed),
        *_all(again),
    ]
    hidden = Counter(plain.hidden)
    hidden.subtract(advise(use, before, filters, None, known).hidden)
    hidden.update(again.hidden)
    return _grouped(use, filters, verdicts, +hidden)


def _all(advice: Advice) -> Iterable[Verdict]:
    return (one for group in advice.groups.values() for one in group)


def why_hidden(subject: Subject, filters: Filters) -> Hidden | None:
    """Return why a subject is not what the reader asked for; None if it is."""
    if filters.buses and subject.attached not in filters.buses:
        return "attached"
    fastest = max(subject.mbit, default=None)
    if fastest is not None and not (
        SPEEDS.get(filters.slowest, 0) <= fastest <= SPEEDS.get(filters.fastest, fastest)
    ):
        return "speed"
    if filters.medium and subject.media and filters.medium not in subject.media:
        return "medium"
    if any(subject.abilities[key].state not in ("yes", "some") for key in filters.must):
        return "must"
    return None


def _with_stock_driver(subject: Subject) -> Subject:
    """Return a subject without what only another driver than the kernel's gives it."""
    abilities: dict[str, Ability] = {
        key: replace(one, state="no", condition="", why=one.condition)
        for key, one in subject.abilities.items()
        if one.is_out_of_tree
    }
    return replace(subject, abilities={**subject.abilities, **abilities})


def _order(verdict: Verdict) -> tuple[int, int, int, str]:
    fastest = max(verdict.subject.mbit, default=0)
    return _LEVEL_ORDER[verdict.level], -len(verdict.liked), -fastest, verdict.subject.name
