"""Which measurements speak for a card: cases that differ in avoiding the copy alone.

Pure: observations come in as plain values, whatever database they are from.
Only cases whose card had its offloads count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from zcdb.factors import FactorValue
from zcdb.ids import canonical_json
from zcdb.metrics import CPU_METHODS
from zcdb.nics.advice_subjects import FIRST_SCANNED, Subject
from zcdb.nics.claims import version_key
from zcdb.nics.usecases import UseCase
from zcdb.nics.verdicts import Measured, Pair

SAME_THROUGHPUT = 0.01
"""Throughputs that differ by less count as the same."""

_RX_FACTOR = "rx_api"
_OFFLOADS = ("sg", "sender.sg", "tx_checksum", "sender.tx_checksum")


@dataclass(frozen=True, slots=True)
class Figure:
    """A metric of a case: its mean and interval, None where there is none."""

    n: int
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Observation:
    """A measured or published case.

    Attributes:
        figures: (metric, method) -> figure.
        newest: ISO day, month or year of the newest figure.
    """

    case_id: str
    factors: Mapping[str, FactorValue]
    figures: Mapping[tuple[str, str], Figure]
    trials: int
    hosts: int
    newest: str


def bare_name(value: str) -> str:
    """Return a recorded name of a card or driver without what is said of it in brackets."""
    return value.partition(" (")[0].strip()


class Observations:
    """Observations by the card that an end had and the time of its kernel.

    A driver is judged by kernels of its own time: 2.4 says nothing of what 6.12 does.
    """

    def __init__(self, observations: Iterable[Observation]) -> None:
        self._by_card: dict[tuple[str, bool, str], list[Observation]] = defaultdict(list)
        for one in observations:
            for end in ("sender", "receiver"):
                kernel = version_key(str(one.factors.get(f"{end}_kernel", "")))
                is_old = bool(kernel) and kernel < FIRST_SCANNED
                values = {str(one.factors.get(f"{end}_{part}", "")) for part in ("driver", "nic")}
                for name in {bare_name(value) for value in values} - {""}:
                    self._by_card[end, is_old, name].append(one)
        self._names = frozenset(name for _, _, name in self._by_card)

    def over(self, subject: Subject, end: str) -> list[Observation]:
        """Return the observations whose end had a subject's card, with a kernel of its time."""
        if self._names.isdisjoint(subject.measured_as):
            return []
        is_old = version_key(subject.kernel) < FIRST_SCANNED
        found = {
            one.case_id: one
            for name in subject.measured_as
            for one in self._by_card.get((end, is_old, name), ())
        }
        return sorted(found.values(), key=lambda one: one.case_id)

    def named(self, names: Collection[str], end: str) -> list[Observation]:
        """Return the observations whose end had one of these cards or drivers, of any time."""
        found = {
            one.case_id: one
            for is_old in (False, True)
            for name in names
            for one in self._by_card.get((end, is_old, name), ())
        }
        return sorted(found.values(), key=lambda one: one.case_id)


def measured(use: UseCase, subject: Subject, observations: Observations) -> Measured | None:
    """Return what was measured over a subject for a use; None if that says nothing for the use."""
    end = _end(use)
    mine = [one for one in observations.over(subject, end) if _has_offloads(one)]
    if not mine:
        return None
    pairs = sorted(_pairs(use, mine), key=lambda pair: (pair.size or 0, -pair.n))
    largest = max((pair.size or 0 for pair in pairs), default=0)
    shown = {pair.case_ids[1] for pair in pairs if (pair.size or 0) == largest}
    best = [one for one in mine if one.case_id in shown] or mine
    sender, receiver = (_mean(best, f"service_demand_{side}") for side in ("sender", "receiver"))
    if not pairs and sender is None and receiver is None:
        return None
    return Measured(
        pairs=tuple(pairs),
        sender=sender,
        receiver=receiver,
        n=max((pair.n for pair in pairs), default=0),
        trials=sum(one.trials for one in mine),
        hosts=max(one.hosts for one in mine),
        kernels=tuple(sorted({str(one.factors.get(f"{end}_kernel", "")) for one in mine} - {""})),
        newest=max(one.newest for one in mine),
        case_ids=tuple(one.case_id for one in mine),
    )


def _end(use: UseCase) -> str:
    """Return the end whose card a use is about."""
    return "receiver" if use.factor == _RX_FACTOR else "sender"


def _has_offloads(observation: Observation) -> bool:
    """Return whether no offload that avoiding the copy needs was switched off."""
    return not any(observation.factors.get(name) in (False, "off") for name in _OFFLOADS)


def _mean(observations: Sequence[Observation], metric: str) -> float | None:
    found = [figure for one in observations if (figure := cost(one, metric)) is not None]
    return found[0].mean if found else None


def cost(observation: Observation, metric: str) -> Figure | None:
    """Return a metric by the first method that has it, the headline first; None without one."""
    for method in ("", *CPU_METHODS):
        if (metric, method) in observation.figures:
            return observation.figures[metric, method]
    return None


def _pairs(use: UseCase, observations: Iterable[Observation]) -> list[Pair]:
    """Return the pairs that differ in the use's factor alone.

    A published table may leave out the message size of one side; then that alone does not part two
    cases, and the pair has no size.
    """
    groups: dict[str, list[Observation]] = defaultdict(list)
    for one in observations:
        rest = {k: v for k, v in one.factors.items() if k not in (use.factor, "message_size")}
        groups[canonical_json(rest)].append(one)
    found = []
    for group in groups.values():
        by_level: dict[str, list[Observation]] = defaultdict(list)
        for one in group:
            by_level[_level(use, one)].append(one)
        copying = next((by_level[level] for level in use.copying if level in by_level), [])
        for level in use.zero_copy:
            for other in by_level.get(level, ()):
                partner = next((one for one in copying if _same_size(one, other)), None)
                if partner is not None and (pair := _pair(use, partner, other)) is not None:
                    found.append(pair)
    return found


def _level(use: UseCase, observation: Observation) -> str:
    default = use.copying[0] if use.factor == _RX_FACTOR else ""
    return str(observation.factors.get(use.factor, default))


def _size(observation: Observation) -> int | None:
    size = observation.factors.get("message_size")
    return size if isinstance(size, int) and not isinstance(size, bool) else None


def _same_size(one: Observation, other: Observation) -> bool:
    sizes = _size(one), _size(other)
    return sizes[0] == sizes[1] or None in sizes


def _pair(use: UseCase, copying: Observation, other: Observation) -> Pair | None:
    figures = _same_figures(use.metric, copying, other)
    if figures is None or figures[0].mean <= 0:
        return None
    before, after = figures
    sizes = _size(copying), _size(other)
    return Pair(
        size=sizes[0] if sizes[0] == sizes[1] else None,
        copying=_level(use, copying),
        zero_copy=_level(use, other),
        ratio=after.mean / before.mean,
        is_apart=_is_apart(before, after),
        n=min(before.n, after.n),
        kernel=str(other.factors.get(f"{_end(use)}_kernel", "")),
        case_ids=(copying.case_id, other.case_id),
    )


def _same_figures(
    metric: str, one: Observation, other: Observation
) -> tuple[Figure, Figure] | None:
    """Return a metric of two cases by the same method; the headline method first.

    Where a table gives CPU utilisation and no service demand, utilisation is as good a ratio if
    both moved as many bytes a second.
    """
    names = [metric]
    if metric.startswith("service_demand") and _have_same_throughput(one, other):
        names.append(metric.replace("service_demand", "utilisation"))
    for name in names:
        for method in ("", *CPU_METHODS):
            key = (name, method)
            if key in one.figures and key in other.figures:
                return one.figures[key], other.figures[key]
    return None


def _have_same_throughput(one: Observation, other: Observation) -> bool:
    ours, theirs = cost(one, "throughput"), cost(other, "throughput")
    if ours is None or theirs is None or theirs.mean <= 0:
        return False
    return abs(ours.mean / theirs.mean - 1) <= SAME_THROUGHPUT


def _is_apart(one: Figure, other: Figure) -> bool | None:
    """Return whether two intervals do not overlap; None if one of them is missing."""
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return None
    return one.high < other.low or other.high < one.low
