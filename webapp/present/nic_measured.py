"""What this database measured over cards, as the rules of the advice and the NIC pages read it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from zcdb.nics.advice_measured import Figure, Observation, Observations, cost, measured
from zcdb.nics.advice_subjects import Subject
from zcdb.nics.facts import DriverFacts
from zcdb.nics.usecases import UseCase, load_cards
from zcdb.nics.verdicts import Measured
from zcdb.store.queries.nics import NicCase
from zcdb.webapp.labels import case_name

CASES_SHOWN = 50


@dataclass(frozen=True, slots=True)
class MeasuredCase:
    """A case over a card, for a page's table.

    Attributes:
        end: the end that had the card.
        throughput: bit/s; service demands in us/KB; None where not measured.
        newest: day of the newest trial, or date of the document.
    """

    case_id: str
    name: str
    end: str
    kernel: str
    throughput: float | None
    sender: float | None
    receiver: float | None
    n: int
    hosts: int
    newest: str
    is_published: bool


def observation(case: NicCase) -> Observation:
    """Return a stored case as the rules read it."""
    return Observation(
        case_id=case.id,
        factors=case.factors,
        figures={
            (one.metric, one.method): Figure(one.n, one.mean, one.low, one.high)
            for one in case.statistics
            if one.mean is not None
        },
        trials=case.trials,
        hosts=case.hosts,
        newest=f"{case.newest:%Y-%m-%d}" if case.newest else case.dated[:10],
    )


def observations_of(cases: Iterable[NicCase]) -> Observations:
    """Return stored cases by the cards they used."""
    return Observations(observation(case) for case in cases)


def measured_by_subject(
    use: UseCase, subjects: Iterable[Subject], observations: Observations
) -> dict[str, Measured]:
    """Return subject id -> what was measured over it for a use."""
    found = {subject.id: measured(use, subject, observations) for subject in subjects}
    return {subject: one for subject, one in found.items() if one is not None}


def names_of_driver(driver: DriverFacts) -> frozenset[str]:
    """Return the names under which cases over a driver's cards were recorded, in any year."""
    cards = (card.measured | card.names for card in load_cards() if card.driver == driver.name)
    return frozenset((driver.name, *driver.modules, *driver.aliases)).union(*cards)


def cases_over(names: Collection[str], observations: Observations) -> tuple[MeasuredCase, ...]:
    """Return the cases over cards and drivers of any time, the newest first, a page full."""
    ends: dict[str, list[str]] = {}
    cases: dict[str, Observation] = {}
    for end in ("sender", "receiver"):
        for one in observations.named(names, end):
            ends.setdefault(one.case_id, []).append(end)
            cases[one.case_id] = one
    found = [_case(one, " and ".join(ends[key]), ends[key][0]) for key, one in cases.items()]
    found.sort(key=lambda case: case.newest, reverse=True)
    return tuple(found[:CASES_SHOWN])


def _case(one: Observation, end: str, first: str) -> MeasuredCase:
    figures = {
        name: cost(one, metric)
        for name, metric in (
            ("throughput", "throughput"),
            ("sender", "service_demand_sender"),
            ("receiver", "service_demand_receiver"),
        )
    }
    return MeasuredCase(
        case_id=one.case_id,
        name=case_name(one.factors),
        end=end,
        kernel=str(one.factors.get(f"{first}_kernel", "")),
        n=max((figure.n for figure in figures.values() if figure), default=0),
        hosts=one.hosts,
        newest=one.newest,
        is_published=not one.trials,
        **{name: figure.mean if figure else None for name, figure in figures.items()},
    )
